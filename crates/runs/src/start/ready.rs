//! An ensemble whose agents can run, before it has a run.
//!
//! Invariant: nothing is written before `begin`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use ensemble_agents::agent::acp::Programs;
use ensemble_agents::agent::kinds::input::AnswerQueue;
use ensemble_agents::agent::mcp::Servers;
use ensemble_agents::agent::tools::ToolPermissions;
use ensemble_core::conversation::{ConversationState, Event, Record, RunStarted};
use ensemble_core::executor::Clock;
use ensemble_core::log::{CommitError, FORMAT, RunLog};
use ensemble_core::operator::Operator;
use ensemble_core::reporter::Reporter;
use ensemble_core::request::{RequestAddress, RequestOrigin};
use ensemble_core::resolver::{Decision, decide};
use ensemble_core::runner::BoxFuture;
use ensemble_core::runner::Runner;
use ensemble_core::secrets::Secrets;
use ensemble_core::store::{Durability, Lease, LogEnd, RunId, RunStore, StoreError, StoredRun};
use ensemble_core::trace::TraceParent;
use ensemble_language::data::{Context, digest};
use ensemble_language::definition::ExternalDefinitions;
use ensemble_language::diagnostic::Diagnostic;
use ensemble_language::ensemble::Agent;
use ensemble_process::{Watchdog, kill_leftovers};

use crate::drive::events::{Hub, HubLiveOutput, Tracer};
use crate::drive::host::Host;
use crate::drive::request_desk::Desk;
use crate::drive::run::{Driven, Run};
use crate::error::RunError;
use crate::options::arguments;
use crate::options::nested_driver::{Elsewhere, Outside};
use crate::options::run_options::RunOptions;
use crate::prepare::Prepared;
use crate::project::Project;
use crate::runners::shared_parts::Shared;
use crate::start::agents::{ReadyAgents, ready_agents};
use crate::start::definitions::{DefinitionOptions, read_definitions};
use crate::start::nested_run::{Outermost, PROGRAM, opener};
use crate::start::substitutes::Substitutes;

/// An ensemble whose agents can run. Nothing was written and nothing was started yet.
pub struct Ready {
    pub(crate) prepared: Arc<Prepared>,
    pub(crate) host: Host,
    agents: ReadyAgents,
    desk: Desk,
    answers: Arc<AnswerQueue>,
    hub: Hub,
    secrets: Secrets,
    outermost: Outermost,
    reporters: Vec<Box<dyn Reporter + Send>>,
    durability: Durability,
    opening: Opening,
    /// The lease of the run that this one takes over from: nobody else drives that meanwhile.
    pub(crate) held: Option<Box<dyn Lease>>,
}

/// The beginning of a run.
pub(crate) enum Opening {
    /// With a new log, which holds these records first; then the event, if there is one. The first record starts the run.
    New {
        store: Arc<dyn RunStore>,
        /// The id; `None`: one of its time.
        id: Option<RunId>,
        records: Vec<Record>,
        then: Option<Event>,
    },
    /// It goes on from its log with this event.
    GoOn {
        run: Arc<dyn StoredRun>,
        lease: Box<dyn Lease>,
        state: Box<ConversationState>,
        end: LogEnd,
        first: Event,
    },
}

impl Opening {
    /// Notes in the first event of this process in which span the run goes on.
    fn note(&mut self, trace: Option<&TraceParent>) {
        let Some(trace) = trace.cloned() else { return };
        let event = match self {
            Self::New { records, .. } => records.first_mut().map(|record| &mut record.event),
            Self::GoOn { first, .. } => Some(first),
        };
        match event {
            Some(Event::RunStarted(started)) => started.trace = Some(trace),
            Some(Event::RunResumed(resumed)) => resumed.trace = Some(trace),
            Some(Event::MessageAdded(message)) => message.trace = Some(trace),
            _ => {}
        }
    }
}

/// The parts of options that make agents ready.
pub(crate) struct Making<'a> {
    pub(crate) prepared: Arc<Prepared>,
    pub(crate) options: RunOptions,
    /// The overrides of models to use.
    pub(crate) models: &'a [String],
    pub(crate) project: &'a Project,
    pub(crate) host: &'a Host,
    /// Who drives the runs of inner ensembles, if not the run.
    pub(crate) elsewhere: Option<Arc<dyn Elsewhere>>,
    /// The names of agents and tools in the options were checked when the run started.
    pub(crate) are_checked: bool,
}

/// The arguments with which a run starts.
pub(crate) struct RunGiven {
    pub(crate) input: Arc<str>,
    pub(crate) context: Context,
    pub(crate) inputs: Context,
}

/// Agents that can run, with what the run needs beside them.
pub(crate) struct Made {
    pub(crate) prepared: Arc<Prepared>,
    pub(crate) host: Host,
    pub(crate) agents: ReadyAgents,
    pub(crate) shared: Shared,
    stubs: BTreeMap<Arc<str>, Arc<str>>,
    responders: BTreeMap<Arc<str>, Arc<str>>,
    desk: Desk,
    outermost: Outermost,
    reporters: Vec<Box<dyn Reporter + Send>>,
}

/// The runners of executions.
pub(crate) struct Able {
    pub(crate) runners: Vec<Arc<dyn Runner>>,
    pub(crate) servers: Arc<Servers>,
    pub(crate) programs: Arc<Programs>,
    pub(crate) secrets: Secrets,
    /// Where runs inside the run are kept.
    pub(crate) outermost: Outermost,
}

impl Making<'_> {
    /// Makes every agent ready.
    pub(crate) fn make(self) -> Result<Made, RunError> {
        let Self {
            prepared,
            options,
            models,
            project,
            host,
            elsewhere,
            are_checked,
        } = self;
        let ensemble = prepared.plan.ensemble();
        if !are_checked {
            arguments::check_tools(&options.allowed_tools, false, ensemble)?;
            arguments::check_tools(&options.denied_tools, true, ensemble)?;
        }
        let substitutes = Substitutes::of(&options);
        if let Some(substitutes) = &substitutes {
            substitutes.check_own(ensemble)?;
        }
        let file = project.folder.join(prepared.source.name());
        let hub = Hub::traced_by(options.tracer);
        let desk = Desk::new(hub.clone(), host.clone());
        let operator = host
            .operator()
            .unwrap_or_else(|| Arc::new(desk.clone()) as Arc<dyn Operator>);
        let watchdog = host.watchdog().map(|command| Arc::new(Watchdog::new(command.clone())));
        let network = host.network();
        let servers = match options.servers.is_empty() {
            true => host.client_servers().clone(),
            false => options.servers,
        };
        servers.teach(network.secrets());
        let told = hub.tracer().map(|tracer| tracer.secrets()).unwrap_or_default();
        told.iter().for_each(|secret| network.secrets().learn(secret));
        let shared = Shared {
            answers: Arc::new(AnswerQueue::new(options.answers)),
            asking: Arc::default(),
            permissions: Arc::new(
                ToolPermissions::new(Arc::clone(&operator), options.allowed_tools).denying(options.denied_tools),
            ),
            servers: Arc::new(Servers::new(watchdog.clone(), network.secrets().clone())),
            client_servers: servers,
            programs: Arc::new(Programs::new(watchdog.clone())),
            operator,
            live_output: Arc::new(HubLiveOutput {
                hub: hub.clone(),
                live_output: options.live_output,
            }),
            hub,
            overrides: arguments::overrides(models)?,
            project: Arc::new(project.clone()),
            host: host.clone(),
            address: RequestAddress::default(),
            outer: vec![canonical(file)],
            durability: options.durability,
            cache: arguments::cache(options.cache.as_ref(), project)?,
            watchdog,
            network,
            stand_ins: substitutes.as_ref().map(Substitutes::outermost).or(options.stand_ins),
            elsewhere: elsewhere.map(|driver| Outside { driver, limit: None }),
        };
        let outermost: Outermost = Arc::new(OnceLock::new());
        let agents = ready_agents(&prepared, &shared, &opener(outermost.clone()))?;
        if !are_checked {
            shared.answers.with_answers(|answers| shared.asking.check(answers))?;
        }
        substitutes.map_or(Ok(()), |substitutes| substitutes.check())?;
        Ok(Made {
            prepared,
            host: host.clone(),
            agents,
            shared,
            stubs: options.stubs,
            responders: options.responders,
            desk,
            outermost,
            reporters: options.reporters,
        })
    }
}

fn canonical(path: PathBuf) -> PathBuf {
    path.canonicalize().unwrap_or(path)
}

impl Made {
    /// Returns the first event of a run of this ensemble, without an id.
    pub(crate) fn started(&self, file: String, given: RunGiven, models: &[String]) -> RunStarted {
        RunStarted {
            format: FORMAT,
            run_id: "".into(),
            ensemble: self.prepared.plan.ensemble().name.clone(),
            ensemble_file: file,
            ensemble_digest: digest(self.prepared.source.text()),
            project_root: self.prepared.root.display().to_string(),
            input: given.input,
            context: given.context,
            inputs: given.inputs,
            models: models.to_vec(),
            simulated: self.agents.simulated.clone(),
            stubs: self.stubs.clone(),
            responders: self.responders.clone(),
            caller: RequestOrigin::default(),
            definitions: Some(self.definitions()),
            forked_from: None,
            trace: None,
            program: PROGRAM.to_owned(),
        }
    }

    /// Reads the digests of everything behind the agents as it is now.
    pub(crate) fn definitions(&self) -> ExternalDefinitions {
        let options = DefinitionOptions {
            overrides: &self.shared.overrides,
            stubs: &self.stubs,
            responders: &self.responders,
        };
        read_definitions(&self.prepared, options, &self.shared.project)
    }

    /// Returns the runners of executions, without a run.
    pub(crate) fn into_able(self) -> Able {
        let ReadyAgents {
            runners,
            servers,
            programs,
            ..
        } = self.agents;
        Able {
            runners,
            servers,
            programs,
            secrets: self.shared.network.secrets().clone(),
            outermost: self.outermost,
        }
    }

    pub(crate) fn into_ready(self, opening: Opening) -> Ready {
        Ready {
            prepared: self.prepared,
            host: self.host,
            agents: self.agents,
            desk: self.desk,
            answers: self.shared.answers,
            hub: self.shared.hub,
            secrets: self.shared.network.secrets().clone(),
            outermost: self.outermost,
            reporters: self.reporters,
            durability: self.shared.durability,
            opening,
            held: None,
        }
    }
}

impl Ready {
    /// The ensemble.
    pub fn prepared(&self) -> &Arc<Prepared> {
        &self.prepared
    }

    /// Returns the warnings about the ensemble, which do not prevent the run.
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.prepared.warnings
    }

    /// Agents that a simulated model answers for.
    pub fn simulated(&self) -> &[Arc<str>] {
        &self.agents.simulated
    }

    /// The time, by the clock of the run.
    pub fn now(&self) -> chrono::DateTime<chrono::Utc> {
        self.host.now()
    }

    /// Returns the first event of a new run, without its id. Returns `None` for a run that continues.
    pub fn started(&self) -> Option<&RunStarted> {
        let Opening::New { records, .. } = &self.opening else {
            return None;
        };
        match records.first().map(|record| &record.event) {
            Some(Event::RunStarted(started)) => Some(started),
            _ => None,
        }
    }

    /// With this input, or this message where the run goes on.
    pub fn set_input(&mut self, text: Arc<str>) {
        match &mut self.opening {
            Opening::New { records, .. } => {
                if let Some(Event::RunStarted(started)) = records.first_mut().map(|record| &mut record.event) {
                    started.input = text;
                }
            }
            Opening::GoOn { first, .. } => {
                if let Event::MessageAdded(message) = first {
                    message.text = text;
                }
            }
        }
    }

    /// Decides what would happen first: which agents would run in the next turn, or how the run would end. Nothing is
    /// executed.
    ///
    /// # Errors
    /// The records with which the run begins are illegal.
    pub fn preview(&self) -> Result<Decision, RunError> {
        let mut state = match &self.opening {
            Opening::New { records, .. } => ConversationState::from_records(self.prepared.plan.clone(), records)?,
            Opening::GoOn { state, .. } => ConversationState::clone(state),
        };
        let event = match &self.opening {
            Opening::New { then, .. } => then.clone(),
            Opening::GoOn { first, .. } => Some(first.clone()),
        };
        if let Some(event) = event {
            let (seq, at) = (state.next_seq(), self.host.now());
            state.apply(&Record { seq, at, event })?;
        }
        Ok(decide(&self.prepared.plan, &state))
    }

    /// Gives the run its place in the store, and drives it in a task of its own.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn begin(mut self) -> BoxFuture<'static, Result<Run, RunError>> {
        Box::pin(async move {
            let mut reporters = std::mem::take(&mut self.reporters);
            let trace = self.hub.tracer().and_then(Tracer::parent);
            self.opening.note(trace.as_ref());
            let is_new = matches!(self.opening, Opening::New { .. });
            let (stored, lease, log, state, first) = match self.opening {
                Opening::New {
                    store,
                    id,
                    records,
                    then,
                } => {
                    let text = self.prepared.source.text();
                    let stored = match &id {
                        Some(id) => store.create(id, text).await?,
                        None => created(&*store, &self.host, text).await?,
                    };
                    let records: Vec<Record> = (0..)
                        .zip(records)
                        .map(|(seq, record)| {
                            let mut record = numbered(record, seq, stored.id());
                            record.event = self.secrets.strike_event(record.event);
                            record
                        })
                        .collect();
                    let (lease, log) = match recorded(&*stored, self.durability, &records).await {
                        Ok(opened) => opened,
                        Err(error) => {
                            // A run that could not begin is none.
                            let _ = stored.remove().await;
                            return Err(error);
                        }
                    };
                    let mut state = ConversationState::new(self.prepared.plan.clone());
                    for (seq, record) in (0..).zip(records) {
                        state.apply(&record)?;
                        if seq == 0 {
                            // The others were told when they happened.
                            reporters
                                .iter_mut()
                                .for_each(|reporter| reporter.report(&record, &state));
                            if let Some(tracer) = self.hub.tracer() {
                                tracer.observe(stored.id(), &record, &state);
                            }
                        }
                    }
                    (stored, lease, log, state, then)
                }
                Opening::GoOn {
                    run,
                    lease,
                    state,
                    end,
                    first,
                } => {
                    if let Some(started) = state.started() {
                        kill_leftovers(&started.run_id);
                    }
                    if matches!(first, Event::RunResumed(_)) {
                        self.desk.expect(state.pending_requests().cloned().collect());
                    }
                    let log = run.log(end, self.durability).await?;
                    (run, lease, log, *state, Some(first))
                }
            };
            let _ = self.outermost.set(stored.clone());
            // What is said at the beginning of a new run belongs to its first segment.
            let begins_at = if is_new { 0 } else { state.next_seq() };
            let segment = self.hub.segment(stored.id(), begins_at, trace.as_ref());
            let ReadyAgents {
                runners,
                servers,
                programs,
                ..
            } = self.agents;
            Ok(Run::drive(Driven {
                stored,
                prepared: self.prepared,
                leases: std::iter::once(lease).chain(self.held).collect(),
                log,
                state,
                first,
                runners,
                servers,
                programs,
                reporters,
                desk: self.desk,
                answers: self.answers,
                hub: self.hub,
                segment,
                secrets: self.secrets,
                host: self.host,
            }))
        })
    }
}

/// The lease and the log of a new run, with its first records.
async fn recorded(
    stored: &dyn StoredRun,
    durability: Durability,
    records: &[Record],
) -> Result<(Box<dyn Lease>, Box<dyn RunLog>), RunError> {
    let lease = stored.lease().await?;
    let mut log = stored.log(LogEnd::NEW, durability).await?;
    for record in records {
        log.append(record).await.map_err(|error| match error {
            CommitError::Write { place, source } => RunError::Store(StoreError::Unavailable {
                action: "write the journal",
                place,
                source,
            }),
            other => other.into(),
        })?;
    }
    Ok((lease, log))
}

/// The record with its number and its run's id.
fn numbered(mut record: Record, seq: u64, id: &RunId) -> Record {
    record.seq = seq;
    if let Event::RunStarted(started) = &mut record.event {
        started.run_id = id.shared();
    }
    record
}

/// A new run, under an id that no other has.
async fn created(store: &dyn RunStore, host: &Host, ensemble: &str) -> Result<Arc<dyn StoredRun>, StoreError> {
    let mut number = random_number(host);
    loop {
        match store.create(&RunId::at(host.now(), number), ensemble).await {
            Err(StoreError::Exists(_)) => number = number.wrapping_add(1),
            created => return created,
        }
    }
}

/// The number of an id among all ids of one time.
fn random_number(host: &Host) -> u32 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a number from 0 to the number of ids"
    )]
    let number = (host.random() * f64::from(RunId::PER_TIME)) as u32;
    number
}

/// Puts runners before some agents' own.
pub(crate) fn replace_runners(
    made: &mut Made,
    mut replace: impl FnMut(usize, &Agent, Arc<dyn Runner>) -> Arc<dyn Runner>,
) {
    let plan = made.prepared.plan.clone();
    for (id, runner) in plan.ids().zip(&mut made.agents.runners) {
        *runner = replace(id.index(), plan.agent(id), runner.clone());
    }
}

#[cfg(test)]
mod tests {
    use chrono::{DateTime, Duration, Utc};
    use ensemble_core::log::SyncPoint;
    use ensemble_core::store::{MemoryStore, contract};

    use super::*;

    #[tokio::test]
    async fn runs_of_one_instant_do_not_collide_and_sort_by_their_time() {
        let store = MemoryStore::new();
        let mut expected = Vec::new();
        for millisecond in [0, 1, 999, 1000] {
            // The clock and the random numbers stand still.
            let now = DateTime::<Utc>::UNIX_EPOCH + Duration::milliseconds(millisecond);
            let host = Host::system().with_clock(move || now).with_randomness(|| 0.999_999_9);
            let mut ids = Vec::new();
            for _ in 0..3 {
                let run = created(&store, &host, "").await.expect("an id is free");
                let mut log = run.log(LogEnd::NEW, Durability::None).await.expect("the log opens");
                log.append(&contract::record(0)).await.expect("a record");
                log.sync(SyncPoint::Turn).await.expect("the log syncs");
                ids.push(run.id().clone());
            }
            ids.sort();
            expected.extend(ids);
        }
        let listed = store.list().await.expect("runs are listed");
        let listed: Vec<&RunId> = listed.iter().map(|run| run.id()).collect();
        assert_eq!(listed, expected.iter().collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_clock_before_1970_gives_a_run() {
        let now = DateTime::<Utc>::UNIX_EPOCH - Duration::milliseconds(1);
        let host = Host::system().with_clock(move || now);
        let run = created(&MemoryStore::new(), &host, "").await.expect("an id is free");
        assert!(run.id().as_str().ends_with("-19691231-235959999"), "{}", run.id());
    }
}
