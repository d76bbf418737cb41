//! Ensembles as agents of ensembles: a run inside the run, with a log of its own.
//!
//! Invariant: an inner run that was interrupted goes on where it began.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use ensemble_agents::agent::kinds::nested_ensemble::{Conversations, InnerGiven};
use ensemble_core::conversation::{ConversationState, Event, Exchange, Record, RunResumed, RunStarted};
use ensemble_core::executor::{Executor, OuterAttempt};
use ensemble_core::log::{FORMAT, RunLog};
use ensemble_core::reporter::Reporter;
use ensemble_core::runner::{AttemptLedger, BoxFuture, Execution, no_end_after};
use ensemble_core::store::{LogEnd, ReadError, StoreError, StoredRun};
use ensemble_core::trace::{self, TraceParent};
use ensemble_language::data::{Context, Failure, FailureKind, Usage, digest};

use crate::drive::events::HubReporter;
use crate::error::RunError;
use crate::inputs;
use crate::options::nested_driver::{Driven, InnerStart, Outside};
use crate::prepare::{DEEPEST, Prepared, prepare};
use crate::runners::shared_parts::{Inner, Shared};
use crate::start::agents::{ReadyAgents, ready_agents};

/// The version that started or resumed a run, as the log keeps it.
pub(crate) const PROGRAM: &str = env!("CARGO_PKG_VERSION");

/// Where the runs inside the run are kept: set when the run has its place, before anything is executed.
pub(crate) type Outermost = Arc<std::sync::OnceLock<Arc<dyn StoredRun>>>;

struct InnerEnsemble {
    prepared: Prepared,
    agents: ReadyAgents,
    shared: Shared,
    outermost: Outermost,
    /// Who drives its conversations, if not the outer run.
    elsewhere: Option<Outside>,
}

/// Makes the ensemble that an agent names ready: everything in it is checked before the outer run starts.
pub(crate) fn inner(named: &str, outer: &Prepared, shared: &Shared, outermost: &Outermost) -> Result<Inner, RunError> {
    let project = &shared.project;
    let path = project.ensemble_file_from(named, &outer.folder, &outer.root)?;
    let absolute = project.folder.join(&path);
    let absolute = absolute.canonicalize().unwrap_or(absolute);
    check_depth(&absolute, shared)?;
    let prepared = prepare(&path, project)?;
    let mut shared = shared.clone();
    shared.outer.push(absolute);
    let elsewhere = shared.elsewhere.take();
    let open = opener(outermost.clone());
    let agents = ready_agents(&prepared, &shared, &open)?;
    let simulated = !agents.simulated.is_empty();
    let takes = inputs::as_one_schema(prepared.plan.ensemble());
    let conversations = Arc::new(InnerEnsemble {
        prepared,
        agents,
        shared,
        outermost: outermost.clone(),
        elsewhere,
    });
    Ok(Inner {
        conversations,
        simulated,
        takes,
    })
}

/// Opens ensembles inside the run that is kept there.
pub(crate) fn opener(outermost: Outermost) -> impl Fn(&str, &Prepared, &Shared) -> Result<Inner, RunError> {
    move |named, outer, shared| inner(named, outer, shared, &outermost)
}

/// Refuses an ensemble that contains itself, and too many inside each other.
fn check_depth(path: &PathBuf, shared: &Shared) -> Result<(), RunError> {
    if let Some(at) = shared.outer.iter().position(|outer| outer == path) {
        let named = |path: &PathBuf| shared.project.relative(path).display().to_string();
        let mut circle: Vec<String> = shared.outer[at..].iter().map(named).collect();
        circle.push(circle[0].clone());
        return Err(RunError::ContainsItself(circle));
    }
    if shared.outer.len() >= DEEPEST {
        return Err(RunError::TooDeep(DEEPEST));
    }
    Ok(())
}

/// The name of the run of an attempt. Parts run side by side, each with a run of its own.
fn name_of(execution: &Execution, attempt: u32) -> String {
    let part = execution.part.as_ref();
    let part = part.map_or_else(String::new, |part| format!(".{}", part.index));
    format!("{}-{}{part}-{attempt}", execution.agent_name, execution.execution)
}

/// The numbers of the attempts whose run this attempt can go on with, the latest first.
fn interrupted(execution: &Execution) -> impl Iterator<Item = u32> {
    (execution.attempt - execution.lost_attempts..execution.attempt).rev()
}

/// The name of the run of this attempt: that of an attempt that was interrupted, if it has begun one.
fn name_of_run(execution: &Execution, has_begun: impl Fn(&str) -> bool) -> String {
    let mut before = interrupted(execution).map(|attempt| name_of(execution, attempt));
    let begun = before.find(|name| has_begun(name));
    begun.unwrap_or_else(|| name_of(execution, execution.attempt))
}

impl Conversations for InnerEnsemble {
    fn hold<'a>(
        &'a self,
        execution: &'a Execution,
        given: InnerGiven,
    ) -> BoxFuture<'a, Result<ConversationState, Failure>> {
        Box::pin(async move {
            let (inputs, context) = self.given(given).map_err(failure)?;
            let outside = self.elsewhere.as_ref();
            match outside.filter(|outside| outside.driver.takes(&execution.agent_name)) {
                Some(outside) => self.converse_outside(outside, execution, inputs, context).await,
                None => self.converse(execution, inputs, context).await.map_err(failure),
            }
        })
    }
}

/// Describes why no conversation took place.
fn failure(error: RunError) -> Failure {
    let kind = match error {
        RunError::Inputs(_) => FailureKind::Schema,
        _ => FailureKind::Unavailable,
    };
    Failure::new(kind, error.to_string())
}

/// Reports the records of a nested run, and keeps its usage in the ledger of the attempt around it.
struct UsageReporter<'a> {
    reporter: HubReporter,
    ledger: &'a AttemptLedger,
    /// What the outer run has recorded of the nested run.
    used_before: Usage,
}

impl Reporter for UsageReporter<'_> {
    fn report(&mut self, record: &Record, state: &ConversationState) {
        self.ledger
            .set_nested_usage(state.usage_until_now().since(self.used_before));
        self.reporter.report(record, state);
    }
}

/// A run inside the run, as it is found or made.
struct Opened {
    run: Arc<dyn StoredRun>,
    state: ConversationState,
    log: Box<dyn RunLog>,
    is_new: bool,
}

impl InnerEnsemble {
    /// The conversation is a run that somebody else drives.
    async fn converse_outside(
        &self,
        outside: &Outside,
        execution: &Execution,
        inputs: Context,
        context: Context,
    ) -> Result<ConversationState, Failure> {
        let name = name_of_run(execution, |name| outside.driver.has(name));
        let start = InnerStart {
            limit: outside.limit,
            ..self.start_of(execution, name, inputs, context)
        };
        match outside.driver.drive(start).await {
            Driven::Ended(records) => {
                let state = ConversationState::from_records(self.prepared.plan.clone(), records.iter());
                state.map_err(|error| Failure::new(FailureKind::Unavailable, error.to_string()))
            }
            Driven::TimeIsUp => Err(no_end_after(outside.limit.unwrap_or_default())),
        }
    }

    async fn converse(
        &self,
        execution: &Execution,
        inputs: Context,
        context: Context,
    ) -> Result<ConversationState, RunError> {
        let Opened {
            run,
            mut state,
            mut log,
            is_new,
        } = self.open(execution).await?;
        // Attempts that were cut short have recorded what they knew of the nested run.
        let recorded = execution.records.before().map(Exchange::recorded_usage);
        let used_before = recorded.unwrap_or_default();
        let ledger = &execution.ledger;
        ledger.set_nested_usage(state.usage_until_now().since(used_before));
        let ended = state.ended();
        if ended.is_some_and(|ended| !ended.completion_reason.is_resumable()) {
            // It had ended, and the outer run was cut short before it could hear of that.
            return Ok(state);
        }
        // While the sender lives, a script that died of Ctrl-C is not a failure at once: the outer run may end first.
        let (_sender, interruptions) = tokio::sync::mpsc::unbounded_channel();
        let mut executor = Executor {
            runners: self.agents.runners.clone(),
            log: &mut *log,
            reporter: &mut UsageReporter {
                reporter: self.shared.hub.reporter(run.id().clone()),
                ledger,
                used_before,
            },
            clock: &self.shared.host,
            interruptions,
            timeout: Some(self.prepared.plan.ensemble().limits.timeout),
            secrets: self.shared.network.secrets().clone(),
            around: Some(OuterAttempt {
                stopwatch: execution.stopwatch.clone(),
                ledger: ledger.clone(),
            }),
            turn_ends_in: None,
        };
        let trace = trace::current().as_ref().map(TraceParent::from);
        let segment = self.shared.hub.segment(run.id(), state.next_seq(), trace.as_ref());
        let first = if is_new {
            Event::RunStarted(Box::new(RunStarted {
                trace,
                ..self.started(run.id().shared(), execution, inputs, context)
            }))
        } else {
            Event::RunResumed(RunResumed {
                program: PROGRAM.to_owned(),
                trace,
                ..RunResumed::default()
            })
        };
        executor.commit(&mut state, first).await?;
        trace::within(segment, executor.drive(&mut state)).await?;
        Ok(state)
    }

    /// The inputs of the inner conversation, and its context, which holds them too.
    fn given(&self, given: InnerGiven) -> Result<(Context, Context), RunError> {
        let InnerGiven {
            inputs,
            optional,
            mut context,
        } = given;
        let ensemble = self.prepared.plan.ensemble();
        let is_taken =
            |name: &str| ensemble.inputs.is_none() || ensemble.input(name).is_some() || !optional.contains(&name);
        let taken = inputs.iter().filter(|(name, _)| is_taken(name));
        let inputs: Context = taken.map(|(name, value)| (name.clone(), value.clone())).collect();
        let resolved = inputs::resolve(ensemble, &inputs.clone().into());
        let resolved = resolved.map_err(RunError::Inputs)?;
        for (name, value) in resolved.as_ref().unwrap_or(&inputs).iter() {
            context.insert(name.clone(), value.clone());
        }
        Ok((resolved.unwrap_or_default(), context))
    }

    /// The run of this execution, for somebody else.
    fn start_of(&self, execution: &Execution, name: String, inputs: Context, context: Context) -> InnerStart {
        let id = format!("{}/sub/{name}", execution.run_id);
        InnerStart {
            started: self.started(id.into(), execution, inputs, context),
            name,
            of_attempt: name_of(execution, execution.attempt),
            is_part: execution.part.is_some(),
            limit: None,
            ensemble: self.prepared.source.text().clone(),
            file: self.shared.project.folder.join(self.prepared.source.name()),
        }
    }

    fn started(&self, run_id: Arc<str>, execution: &Execution, inputs: Context, context: Context) -> RunStarted {
        RunStarted {
            format: FORMAT,
            run_id,
            ensemble: self.prepared.plan.ensemble().name.clone(),
            ensemble_file: self.prepared.source.name().to_owned(),
            ensemble_digest: digest(self.prepared.source.text()),
            project_root: self.prepared.root.display().to_string(),
            input: execution.input.clone(),
            context,
            inputs,
            models: Vec::new(),
            simulated: self.agents.simulated.clone(),
            stubs: BTreeMap::new(),
            responders: BTreeMap::new(),
            caller: execution.origin.clone(),
            definitions: None,
            forked_from: None,
            trace: None,
            program: PROGRAM.to_owned(),
        }
    }

    /// The inner run of this execution: the one that was interrupted, or a new one for an attempt that starts afresh.
    async fn open(&self, execution: &Execution) -> Result<Opened, RunError> {
        let outer = self.outer(execution).await?;
        for attempt in interrupted(execution) {
            // An attempt that was cut short before it came to its conversation has no run.
            let Some(run) = outer.inside(&name_of(execution, attempt)).await? else {
                continue;
            };
            match self.go_on(run, execution).await? {
                Some(opened) => return Ok(opened),
                None => break,
            }
        }
        let text = self.prepared.source.text();
        let run = outer
            .create_inside(&name_of(execution, execution.attempt), text)
            .await?;
        Ok(Opened {
            state: ConversationState::new(self.prepared.plan.clone()),
            log: run.log(LogEnd::NEW, self.shared.durability).await?,
            run,
            is_new: true,
        })
    }

    /// The run that the execution belongs to, which may itself be inside others.
    async fn outer(&self, execution: &Execution) -> Result<Arc<dyn StoredRun>, RunError> {
        let unknown = || StoreError::Unknown {
            id: execution.run_id.to_string(),
            place: "the run that is driven".to_owned(),
        };
        let mut run = self.outermost.get().cloned().ok_or_else(unknown)?;
        let inside = execution.run_id.strip_prefix(run.id().as_str()).ok_or_else(unknown)?;
        for name in inside.split("/sub/").skip(1) {
            run = run.inside(name).await?.ok_or_else(unknown)?;
        }
        Ok(run)
    }

    /// The inner run, if it can go on: it stays where it began, so that no crash can part it.
    async fn go_on(&self, run: Arc<dyn StoredRun>, execution: &Execution) -> Result<Option<Opened>, RunError> {
        let journal = match run.read_all().await {
            Ok(journal) => journal,
            // It was cut short before its first event.
            Err(ReadError::Empty { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let state = ConversationState::from_records(self.prepared.plan.clone(), &journal.records)?;
        let began_with = state.started().map(|started| started.ensemble_digest.as_str());
        if began_with != Some(digest(self.prepared.source.text()).as_str()) {
            let file = self.prepared.source.name();
            execution
                .ledger
                .warn(format!("{file} has changed, so its conversation starts afresh"));
            return Ok(None);
        }
        Ok(Some(Opened {
            log: run.log(journal.end, self.shared.durability).await?,
            run,
            state,
            is_new: false,
        }))
    }
}
