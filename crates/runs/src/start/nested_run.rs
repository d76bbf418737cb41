//! Ensembles as agents of ensembles. Each execution is a nested run with a separate log.
//!
//! Invariant: an interrupted nested run is resumed in place.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use ensemble_agents::agent::kinds::nested_ensemble::{NestedRunArguments, NestedRunService};
use ensemble_core::conversation::{ConversationState, Event, Record, RecordedExchange, RunResumed, RunStarted};
use ensemble_core::executor::{Executor, OuterAttemptHandles};
use ensemble_core::log::{JOURNAL_FORMAT, RunLog};
use ensemble_core::reporter::Reporter;
use ensemble_core::runner::{BoxFuture, ExecutionInput, attempt_timeout_failure};
use ensemble_core::store::{LogEnd, LogReadError, StoreError, StoredRun};
use ensemble_core::trace::{self, TraceParent};
use ensemble_history::{GivenAnswer, list_given_answers};
use ensemble_language::data::{ExecutionFailure, FailureKind, ModelUsage, RunContext, sha256_of_text};

use crate::drive::events::RunHubReporter;
use crate::error::RunError;
use crate::inputs;
use crate::options::nested_driver::{NestedRunResult, NestedRunStart, TimedNestedDriver};
use crate::prepare::{MAX_NESTING_DEPTH, PreparedEnsemble, prepare_nested_file};
use crate::runners::shared_parts::{ReadyNestedEnsemble, SharedRunServices};
use crate::start::agents::{ReadyAgents, build_all_agents};

/// The version of the program that started or resumed a run, as recorded in the log.
pub(crate) const PROGRAM_VERSION: &str = env!("CARGO_PKG_VERSION");

/// The outermost run, which is set before any execution starts. It stores the nested runs.
pub(crate) type OutermostRunCell = Arc<std::sync::OnceLock<Arc<dyn StoredRun>>>;

/// A nested ensemble with its agents, ready to run.
struct PreparedNestedEnsemble {
    prepared: PreparedEnsemble,
    agents: ReadyAgents,
    shared: SharedRunServices,
    outermost: OutermostRunCell,
    /// The driver of the nested runs, if the outer run does not drive them.
    outside_driver: Option<TimedNestedDriver>,
}

/// Prepares the nested ensemble that an agent names: loads and checks the ensemble, and builds its agents, before the outer run starts.
pub(crate) fn prepare_nested_ensemble(
    named: &str,
    outer: &PreparedEnsemble,
    shared: &SharedRunServices,
    outermost: &OutermostRunCell,
) -> Result<ReadyNestedEnsemble, RunError> {
    let project = &shared.project;
    let path = project.resolve_ensemble_file_from(named, &outer.folder, &outer.root)?;
    let absolute = project.folder.join(&path);
    let absolute = absolute.canonicalize().unwrap_or(absolute);
    check_nesting(&absolute, shared)?;
    let prepared = prepare_nested_file(&path, project)?;
    let mut shared = shared.clone();
    shared.outer.push(absolute);
    let elsewhere = shared.inner_run_driver.take();
    let open = nested_ensemble_opener(outermost.clone());
    let agents = build_all_agents(&prepared, &shared, &open)?;
    let simulated = !agents.simulated_agents.is_empty();
    let prices = agents.prices;
    let takes = inputs::inputs_schema(prepared.plan.ensemble());
    let conversations = Arc::new(PreparedNestedEnsemble {
        prepared,
        agents,
        shared,
        outermost: outermost.clone(),
        outside_driver: elsewhere,
    });
    Ok(ReadyNestedEnsemble {
        conversations,
        is_simulated: simulated,
        input_schema: takes,
        prices,
    })
}

/// Returns a function that prepares nested ensembles of this run.
pub(crate) fn nested_ensemble_opener(
    outermost: OutermostRunCell,
) -> impl Fn(&str, &PreparedEnsemble, &SharedRunServices) -> Result<ReadyNestedEnsemble, RunError> {
    move |named, outer, shared| prepare_nested_ensemble(named, outer, shared, &outermost)
}

/// Refuses an ensemble that contains itself, and too many levels of nesting.
fn check_nesting(path: &PathBuf, shared: &SharedRunServices) -> Result<(), RunError> {
    if let Some(at) = shared.outer.iter().position(|outer| outer == path) {
        let path_text = |path: &PathBuf| shared.project.relative_path(path).display().to_string();
        let mut circle: Vec<String> = shared.outer[at..].iter().map(path_text).collect();
        circle.push(circle[0].clone());
        return Err(RunError::ContainsItself(circle));
    }
    if shared.outer.len() >= MAX_NESTING_DEPTH {
        return Err(RunError::TooDeep(MAX_NESTING_DEPTH));
    }
    Ok(())
}

/// Returns the name of the nested run of an attempt. Each part of an execution has a separate run.
fn attempt_run_name(execution: &ExecutionInput, attempt: u32) -> String {
    let part = execution.part.as_ref();
    let part = part.map_or_else(String::new, |part| format!(".{}", part.index));
    format!("{}-{}{part}-{attempt}", execution.agent_name, execution.execution)
}

/// Returns the numbers of the interrupted attempts whose run this attempt can resume, the latest first.
fn interrupted_attempts(execution: &ExecutionInput) -> impl Iterator<Item = u32> {
    (execution.attempt - execution.lost_attempts..execution.attempt).rev()
}

/// Returns the name of the nested run: that of an interrupted attempt that has started its run, or a new name.
fn choose_run_name(execution: &ExecutionInput, has_begun: impl Fn(&str) -> bool) -> String {
    let mut before = interrupted_attempts(execution).map(|attempt| attempt_run_name(execution, attempt));
    let begun_name = before.find(|name| has_begun(name));
    begun_name.unwrap_or_else(|| attempt_run_name(execution, execution.attempt))
}

impl NestedRunService for PreparedNestedEnsemble {
    fn run_nested<'a>(
        &'a self,
        execution: &'a ExecutionInput,
        given: NestedRunArguments,
    ) -> BoxFuture<'a, Result<ConversationState, ExecutionFailure>> {
        Box::pin(async move {
            let (inputs, context) = self.resolve_nested_inputs(given).map_err(nested_start_failure)?;
            let outside = self.outside_driver.as_ref();
            match outside.filter(|outside| outside.driver.drives_agent(&execution.agent_name)) {
                Some(outside) => self.run_with_outside_driver(outside, execution, inputs, context).await,
                None => self
                    .run_in_process(execution, inputs, context)
                    .await
                    .map_err(nested_start_failure),
            }
        })
    }
}

/// Converts the error that prevented a nested conversation to the failure of the execution.
fn nested_start_failure(error: RunError) -> ExecutionFailure {
    let kind = match error {
        RunError::Inputs(_) => FailureKind::Schema,
        _ => FailureKind::Unavailable,
    };
    ExecutionFailure::new(kind, error.to_string())
}

/// Reports the records of a nested run, keeps its usage in the ledger of the attempt around it, and records its answers in
/// the outer run.
struct NestedUsageReporter<'a> {
    reporter: RunHubReporter,
    execution: &'a ExecutionInput,
    /// What the outer run has recorded of the nested run.
    used_before: ModelUsage,
}

impl Reporter for NestedUsageReporter<'_> {
    fn report_event(&mut self, record: &Record, state: &ConversationState) {
        self.execution
            .ledger
            .set_nested_usage(state.usage_with_open_turn().subtract_earlier(self.used_before));
        record_nested_answers(self.execution, list_given_answers(record));
        self.reporter.report_event(record, state);
    }
}

/// Records these answers of a nested run in the outer run, except answers that an earlier attempt has recorded.
fn record_nested_answers(execution: &ExecutionInput, answers: impl IntoIterator<Item = GivenAnswer>) {
    for answer in answers {
        execution.records.record_nested_answer(answer.to_nested_event());
    }
}

/// A run inside the run, as it is found or made.
struct OpenedNestedRun {
    run: Arc<dyn StoredRun>,
    state: ConversationState,
    log: Box<dyn RunLog>,
    is_new: bool,
    /// The answers in its records. A crash can have lost their records in the outer run.
    answers: Vec<GivenAnswer>,
}

impl PreparedNestedEnsemble {
    /// Runs the conversation with a driver of nested runs. Returns its final state.
    async fn run_with_outside_driver(
        &self,
        outside: &TimedNestedDriver,
        execution: &ExecutionInput,
        inputs: RunContext,
        context: RunContext,
    ) -> Result<ConversationState, ExecutionFailure> {
        let name = choose_run_name(execution, |name| outside.driver.has_unfinished_run(name));
        let start = NestedRunStart {
            limit: outside.limit,
            ..self.build_nested_start(execution, name, inputs, context)
        };
        match outside.driver.drive_nested_run(start).await {
            NestedRunResult::Ended(records) => {
                record_nested_answers(execution, records.iter().flat_map(list_given_answers));
                let state = ConversationState::from_records(self.prepared.plan.clone(), records.iter());
                state.map_err(|error| ExecutionFailure::new(FailureKind::Unavailable, error.to_string()))
            }
            NestedRunResult::TimedOut => Err(attempt_timeout_failure(outside.limit.unwrap_or_default())),
        }
    }

    /// Runs the conversation in this process, with its own log. Records its usage in the ledger.
    async fn run_in_process(
        &self,
        execution: &ExecutionInput,
        inputs: RunContext,
        context: RunContext,
    ) -> Result<ConversationState, RunError> {
        let OpenedNestedRun {
            run,
            mut state,
            mut log,
            is_new,
            answers,
        } = self.resume_or_create_run(execution).await?;
        record_nested_answers(execution, answers);
        // Attempts that were cut short have recorded what they knew of the nested run.
        let recorded = execution
            .records
            .earlier_exchange()
            .map(RecordedExchange::usage_of_all_attempts);
        let used_before = recorded.unwrap_or_default();
        let ledger = &execution.ledger;
        ledger.set_nested_usage(state.usage_with_open_turn().subtract_earlier(used_before));
        let run_end = state.run_end();
        if run_end.is_some_and(|ended| !ended.completion_reason.is_resumable()) {
            // It had ended, and the outer run was cut short before it could hear of that.
            return Ok(state);
        }
        // While the sender lives, a script that died of Ctrl-C is not a failure at once: the outer run may end first.
        let (_sender, interruptions) = tokio::sync::mpsc::unbounded_channel();
        let mut executor = Executor {
            runners: self.agents.runners.clone(),
            log: &mut *log,
            reporter: &mut NestedUsageReporter {
                reporter: self.shared.hub.create_run_reporter(run.id().clone()),
                execution,
                used_before,
            },
            clock: &self.shared.host,
            interruptions,
            timeout: Some(self.prepared.plan.ensemble().limits.timeout),
            secrets: self.shared.network.secrets().clone(),
            outer_stopwatch: Some(OuterAttemptHandles {
                stopwatch: execution.stopwatch.clone(),
                ledger: ledger.clone(),
            }),
            turn_ends_in: None,
            refuses_exhausted: false,
        };
        let trace = trace::current_task_span().as_ref().map(TraceParent::from);
        let segment = self
            .shared
            .hub
            .segment_span_context(run.id(), state.next_seq(), trace.as_ref());
        let first = if is_new {
            Event::RunStarted(Box::new(RunStarted {
                trace,
                ..self.nested_start_event(run.id().shared_text(), execution, inputs, context)
            }))
        } else {
            Event::RunResumed(RunResumed {
                program: PROGRAM_VERSION.to_owned(),
                trace,
                ..RunResumed::default()
            })
        };
        executor.commit(&mut state, first).await?;
        trace::run_in_span(segment, executor.drive_conversation(&mut state)).await?;
        Ok(state)
    }

    /// Returns the inputs of the nested conversation, and its context with the same inputs. Omits optional inputs that the ensemble does
    /// not declare.
    fn resolve_nested_inputs(&self, given: NestedRunArguments) -> Result<(RunContext, RunContext), RunError> {
        let NestedRunArguments {
            inputs,
            optional,
            mut context,
        } = given;
        let ensemble = self.prepared.plan.ensemble();
        let is_taken =
            |name: &str| ensemble.inputs.is_none() || ensemble.find_input(name).is_some() || !optional.contains(&name);
        let accepted_inputs = inputs.iter().filter(|(name, _)| is_taken(name));
        let inputs: RunContext = accepted_inputs
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        let resolved = inputs::resolve_inputs(ensemble, &inputs.clone().into());
        let resolved = resolved.map_err(RunError::Inputs)?;
        for (name, value) in resolved.as_ref().unwrap_or(&inputs).iter() {
            context.insert(name.clone(), value.clone());
        }
        Ok((resolved.unwrap_or_default(), context))
    }

    /// Builds the start of the nested run for a driver outside of this run.
    fn build_nested_start(
        &self,
        execution: &ExecutionInput,
        name: String,
        inputs: RunContext,
        context: RunContext,
    ) -> NestedRunStart {
        let id = format!("{}/sub/{name}", execution.run_id);
        NestedRunStart {
            start_event: self.nested_start_event(id.into(), execution, inputs, context),
            name,
            attempt_name: attempt_run_name(execution, execution.attempt),
            is_part: execution.part.is_some(),
            limit: None,
            ensemble: self.prepared.source.text().clone(),
            file: self.shared.project.folder.join(self.prepared.source.name()),
        }
    }

    /// Returns the first event of the nested run.
    fn nested_start_event(
        &self,
        run_id: Arc<str>,
        execution: &ExecutionInput,
        inputs: RunContext,
        context: RunContext,
    ) -> RunStarted {
        RunStarted {
            format: JOURNAL_FORMAT,
            run_id,
            ensemble: self.prepared.plan.ensemble().name.clone(),
            ensemble_file: self.prepared.source.name().to_owned(),
            ensemble_digest: sha256_of_text(self.prepared.source.text()),
            project_root: self.prepared.root.display().to_string(),
            input: execution.input.clone(),
            context,
            inputs,
            models: Vec::new(),
            simulated: self.agents.simulated_agents.clone(),
            stubs: BTreeMap::new(),
            responders: BTreeMap::new(),
            caller: execution.origin.clone(),
            definitions: None,
            forked_from: None,
            trace: None,
            program: PROGRAM_VERSION.to_owned(),
        }
    }

    /// Returns the nested run of this execution: the interrupted run, or a new run.
    async fn resume_or_create_run(&self, execution: &ExecutionInput) -> Result<OpenedNestedRun, RunError> {
        let outer = self.resolve_outer_run(execution).await?;
        for attempt in interrupted_attempts(execution) {
            // An attempt that was cut short before it came to its conversation has no run.
            let Some(run) = outer.find_nested_run(&attempt_run_name(execution, attempt)).await? else {
                continue;
            };
            match self.try_resume_run(run, execution).await? {
                Some(opened) => return Ok(opened),
                None => break,
            }
        }
        let text = self.prepared.source.text();
        let run = outer
            .create_nested_run(&attempt_run_name(execution, execution.attempt), text)
            .await?;
        Ok(OpenedNestedRun {
            state: ConversationState::new(self.prepared.plan.clone()),
            log: run.open_log(LogEnd::NEW, self.shared.durability).await?,
            run,
            is_new: true,
            answers: Vec::new(),
        })
    }

    /// Returns the run to which the execution belongs, which can itself be nested.
    async fn resolve_outer_run(&self, execution: &ExecutionInput) -> Result<Arc<dyn StoredRun>, RunError> {
        let unknown = || StoreError::Unknown {
            id: execution.run_id.to_string(),
            place: "the run that is driven".to_owned(),
        };
        let mut run = self.outermost.get().cloned().ok_or_else(unknown)?;
        let inside = execution.run_id.strip_prefix(run.id().as_str()).ok_or_else(unknown)?;
        for name in inside.split("/sub/").skip(1) {
            run = run.find_nested_run(name).await?.ok_or_else(unknown)?;
        }
        Ok(run)
    }

    /// Resumes the nested run in place. Returns `None` if the run is empty or was started with another text of the ensemble.
    async fn try_resume_run(
        &self,
        run: Arc<dyn StoredRun>,
        execution: &ExecutionInput,
    ) -> Result<Option<OpenedNestedRun>, RunError> {
        let journal = match run.read_journal().await {
            Ok(journal) => journal,
            // It was cut short before its first event.
            Err(LogReadError::Empty { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let state = ConversationState::from_records(self.prepared.plan.clone(), &journal.records)?;
        let began_with = state.run_start().map(|started| started.ensemble_digest.as_str());
        if began_with != Some(sha256_of_text(self.prepared.source.text()).as_str()) {
            let file = self.prepared.source.name();
            execution.ledger.add_warning(format!(
                "{file} has changed, so its conversation starts from the beginning"
            ));
            return Ok(None);
        }
        Ok(Some(OpenedNestedRun {
            answers: journal.records.iter().flat_map(list_given_answers).collect(),
            log: run.open_log(journal.end, self.shared.durability).await?,
            run,
            state,
            is_new: false,
        }))
    }
}
