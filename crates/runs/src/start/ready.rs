//! A run whose agents are built, before the run starts.
//!
//! Invariant: nothing is written before the start.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use ensemble_agents::agent::acp::ExternalProgramPool;
use ensemble_agents::agent::kinds::input::AnswerQueue;
use ensemble_agents::agent::mcp::McpServers;
use ensemble_agents::agent::tools::ToolPermissions;
use ensemble_core::conversation::{ConversationState, Event, Record, RunStarted};
use ensemble_core::executor::WallClock;
use ensemble_core::log::{CommitError, JOURNAL_FORMAT};
use ensemble_core::operator::Operator;
use ensemble_core::reporter::Reporter;
use ensemble_core::request::{AnswerSource, RequestAddress, RequestOrigin};
use ensemble_core::resolver::{NextDecision, decide_next_step};
use ensemble_core::runner::BoxFuture;
use ensemble_core::runner::Runner;
use ensemble_core::secrets::{RedactionError, Secrets};
use ensemble_core::store::{Durability, LogEnd, RunId, RunLease, RunStore, StoredRun};
use ensemble_core::trace::TraceParent;
use ensemble_language::data::{RunContext, sha256_of_text};
use ensemble_language::definition::ExternalDefinitionDigests;
use ensemble_language::diagnostic::Diagnostic;
use ensemble_language::ensemble::Agent;
use ensemble_process::kill_processes_of_run;

use crate::drive::events::{HubLiveOutput, RunEventHub, RunTracer};
use crate::drive::host::RunHost;
use crate::drive::request_desk::OpenRequestDesk;
use crate::drive::run::{RunDriverState, RunHandle};
use crate::error::RunError;
use crate::options::arguments;
use crate::options::nested_driver::{NestedRunDriver, TimedNestedDriver};
use crate::options::run_options::RunOptions;
use crate::prepare::PreparedEnsemble;
use crate::project::Project;
use crate::runners::shared_parts::SharedRunServices;
use crate::start::agents::{ReadyAgents, build_all_agents};
use crate::start::definitions::{DefinitionOptions, compute_definitions};
use crate::start::nested_run::{OutermostRunCell, PROGRAM_VERSION, nested_ensemble_opener};
use crate::start::new_run::{NewRunOptions, StoredNewRun};
use crate::start::substitutes::RunReplacements;

/// A run whose agents are ready. Nothing is written and no execution is started yet.
pub struct ReadyRun {
    pub(crate) prepared: Arc<PreparedEnsemble>,
    pub(crate) host: RunHost,
    agents: ReadyAgents,
    desk: OpenRequestDesk,
    answers: Arc<AnswerQueue>,
    hub: RunEventHub,
    secrets: Secrets,
    outermost: OutermostRunCell,
    reporters: Vec<Box<dyn Reporter + Send>>,
    durability: Durability,
    refuses_exhausted: bool,
    opening: RunOpening,
    /// The lease of the run from which this run takes over, so that no other process drives that run meanwhile.
    pub(crate) source_lease: Option<Box<dyn RunLease>>,
}

/// The first records of a new run, or the resumed run with its next event.
pub(crate) enum RunOpening {
    /// A new log that starts with these records, followed by the event, if any. The first record starts the run.
    New {
        store: Arc<dyn RunStore>,
        /// The id of the run. `None` means an id from the current time.
        id: Option<RunId>,
        records: Vec<Record>,
        then: Option<Event>,
    },
    /// An existing log that continues with this event.
    Resume {
        run: Arc<dyn StoredRun>,
        lease: Box<dyn RunLease>,
        state: Box<ConversationState>,
        end: LogEnd,
        first: Event,
    },
}

impl RunOpening {
    /// Sets the parent span in the first event that this process records.
    fn set_trace_parent(&mut self, trace: Option<&TraceParent>) {
        let Some(trace) = trace.cloned() else { return };
        let event = match self {
            Self::New { records, .. } => records.first_mut().map(|record| &mut record.event),
            Self::Resume { first, .. } => Some(first),
        };
        match event {
            Some(Event::RunStarted(started)) => started.trace = Some(trace),
            Some(Event::RunResumed(resumed)) => resumed.trace = Some(trace),
            Some(Event::MessageAdded(message)) => message.trace = Some(trace),
            _ => {}
        }
    }
}

/// The parts of the options from which agents are built.
pub(crate) struct AgentBuildOptions<'a> {
    pub(crate) prepared: Arc<PreparedEnsemble>,
    pub(crate) options: RunOptions,
    /// The overrides of models to use.
    pub(crate) models: &'a [String],
    pub(crate) project: &'a Project,
    pub(crate) host: &'a RunHost,
    /// The driver of nested runs, if the run does not drive them itself.
    pub(crate) inner_run_driver: Option<Arc<dyn NestedRunDriver>>,
    /// The names of agents and tools in the options were checked when the run started.
    pub(crate) are_checked: bool,
}

/// The arguments with which a run starts.
pub(crate) struct RunArguments {
    pub(crate) input: Arc<str>,
    pub(crate) context: RunContext,
    pub(crate) inputs: RunContext,
}

/// The built agents of a run, with the services and options that the run needs.
pub(crate) struct BuiltRunAgents {
    pub(crate) prepared: Arc<PreparedEnsemble>,
    pub(crate) host: RunHost,
    pub(crate) agents: ReadyAgents,
    pub(crate) shared: SharedRunServices,
    stubs: BTreeMap<Arc<str>, Arc<str>>,
    responders: BTreeMap<Arc<str>, Arc<str>>,
    desk: OpenRequestDesk,
    outermost: OutermostRunCell,
    reporters: Vec<Box<dyn Reporter + Send>>,
    refuses_exhausted: bool,
}

/// The runners of executions, without a run.
pub(crate) struct ExecutionRunners {
    pub(crate) runners: Vec<Arc<dyn Runner>>,
    pub(crate) servers: Arc<McpServers>,
    pub(crate) programs: Arc<ExternalProgramPool>,
    pub(crate) secrets: Secrets,
    /// The outermost run, which stores nested runs.
    pub(crate) outermost: OutermostRunCell,
}

impl AgentBuildOptions<'_> {
    /// Builds all agents, after checks of permissions, answers and replacements.
    ///
    /// # Errors
    ///
    /// An option does not match the ensemble, or an agent cannot run.
    pub(crate) fn build_agents(self) -> Result<BuiltRunAgents, RunError> {
        let Self {
            prepared,
            options,
            models,
            project,
            host,
            inner_run_driver: elsewhere,
            are_checked,
        } = self;
        let ensemble = prepared.plan.ensemble();
        if !are_checked {
            arguments::check_permission_names(&options.allowed_tools, false, ensemble)?;
            arguments::check_permission_names(&options.denied_tools, true, ensemble)?;
        }
        let responders = options.recorded_responders();
        let substitutes = RunReplacements::from_options(&options);
        if let Some(substitutes) = &substitutes {
            substitutes.check_outermost_names(ensemble)?;
        }
        let file = project.folder.join(prepared.source.name());
        let hub = RunEventHub::with_tracer(options.tracer);
        let desk = OpenRequestDesk::new(hub.clone(), host.clone());
        let operator = host
            .operator()
            .unwrap_or_else(|| Arc::new(desk.clone()) as Arc<dyn Operator>);
        let watchdog = host.watchdog_for_new_run();
        let network = host.model_network();
        let servers = match options.servers.is_empty() {
            true => host.default_client_servers().clone(),
            false => options.servers,
        };
        servers.register_secrets(network.secrets());
        host.register_secrets(network.secrets());
        let tracer_secrets = hub.tracer().map(|tracer| tracer.secret_values()).unwrap_or_default();
        network
            .secrets()
            .add_secrets(tracer_secrets.iter().map(|secret| &**secret));
        let option_author = options.answers.author_for_source(AnswerSource::Option);
        let shared = SharedRunServices {
            answers: Arc::new(AnswerQueue::new(options.answers)),
            input_questions: Arc::default(),
            permissions: Arc::new(
                ToolPermissions::new(Arc::clone(&operator), options.allowed_tools)
                    .with_denied_tools(options.denied_tools)
                    .with_shown_requests(options.shown_requests)
                    .with_option_author(option_author),
            ),
            servers: Arc::new(McpServers::new(watchdog.clone(), network.secrets().clone())),
            client_servers: servers,
            programs: Arc::new(ExternalProgramPool::new(watchdog.clone())),
            operator,
            live_output: Arc::new(HubLiveOutput {
                hub: hub.clone(),
                live_output: options.live_output,
            }),
            hub,
            overrides: arguments::parse_model_overrides(models)?,
            project: Arc::new(project.clone()),
            host: host.clone(),
            address: RequestAddress::default(),
            outer: vec![canonicalize_if_possible(file)],
            durability: options.durability,
            cache: arguments::open_reply_cache(options.cache.as_ref(), project)?,
            watchdog,
            network,
            replacements: substitutes
                .as_ref()
                .map(RunReplacements::for_outermost)
                .or(options.replacements),
            checks_files: !are_checked,
            inner_run_driver: elsewhere.map(|driver| TimedNestedDriver { driver, limit: None }),
        };
        let outermost: OutermostRunCell = Arc::new(OnceLock::new());
        let agents = build_all_agents(&prepared, &shared, &nested_ensemble_opener(outermost.clone()))?;
        shared.network.secrets().check_matcher().map_err(CommitError::from)?;
        for (address, text) in substitutes.iter().flat_map(|all| all.list_input_stub_answers()) {
            shared.answers.add_stub_answer(&address, &text);
        }
        if !are_checked {
            shared
                .answers
                .read_answers(|answers| shared.input_questions.check_answers(answers))?;
        }
        substitutes.map_or(Ok(()), |substitutes| substitutes.check_all_names())?;
        Ok(BuiltRunAgents {
            prepared,
            host: host.clone(),
            agents,
            shared,
            stubs: options.stubs,
            responders,
            desk,
            outermost,
            reporters: options.reporters,
            refuses_exhausted: options.refuses_exhausted,
        })
    }
}

/// Resolves the links of the path. Returns the path unchanged if that fails.
fn canonicalize_if_possible(path: PathBuf) -> PathBuf {
    path.canonicalize().unwrap_or(path)
}

impl BuiltRunAgents {
    /// Builds the first event of a run of this ensemble, without an id. `file` is the path of the ensemble.
    pub(crate) fn build_start_event(&self, file: String, given: RunArguments, models: &[String]) -> RunStarted {
        RunStarted {
            format: JOURNAL_FORMAT,
            run_id: "".into(),
            ensemble: self.prepared.plan.ensemble().name.clone(),
            ensemble_file: file,
            ensemble_digest: sha256_of_text(self.prepared.source.text()),
            project_root: self.prepared.root.display().to_string(),
            input: given.input,
            context: given.context,
            inputs: given.inputs,
            models: models.to_vec(),
            simulated: self.agents.simulated_agents.clone(),
            stubs: self.stubs.clone(),
            responders: self.responders.clone(),
            caller: RequestOrigin::default(),
            definitions: Some(self.compute_current_definitions()),
            forked_from: None,
            trace: None,
            program: PROGRAM_VERSION.to_owned(),
        }
    }

    /// Computes the digests of everything outside the text that determines the results of the agents, from the current files.
    pub(crate) fn compute_current_definitions(&self) -> ExternalDefinitionDigests {
        let options = DefinitionOptions::for_records(&self.shared.overrides, &self.stubs, &self.responders);
        compute_definitions(&self.prepared, options, &self.shared.project)
    }

    /// Sets the run whose nested runs the agents create.
    pub(crate) fn set_outermost_run(&self, run: Arc<dyn StoredRun>) {
        let _is_first = self.outermost.set(run);
    }

    /// Returns the runners of executions, without a run.
    pub(crate) fn into_execution_runners(self) -> ExecutionRunners {
        let ReadyAgents {
            runners,
            servers,
            programs,
            ..
        } = self.agents;
        ExecutionRunners {
            runners,
            servers,
            programs,
            secrets: self.shared.network.secrets().clone(),
            outermost: self.outermost,
        }
    }

    /// Adds the opening of the run to the built agents.
    pub(crate) fn into_ready_run(self, opening: RunOpening) -> ReadyRun {
        ReadyRun {
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
            refuses_exhausted: self.refuses_exhausted,
            opening,
            source_lease: None,
        }
    }
}

impl ReadyRun {
    /// Returns whether the run records a success with exhausted agents as no success.
    pub fn refuses_exhausted(&self) -> bool {
        self.refuses_exhausted
    }

    /// Returns the ensemble of the run.
    pub fn prepared_ensemble(&self) -> &Arc<PreparedEnsemble> {
        &self.prepared
    }

    /// Returns the warnings about the ensemble, which do not prevent the run.
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.prepared.warnings
    }

    /// Returns the names of the agents with a simulated model.
    pub fn simulated_agents(&self) -> &[Arc<str>] {
        &self.agents.simulated_agents
    }

    /// Returns the current time of the run's host.
    pub fn current_time(&self) -> chrono::DateTime<chrono::Utc> {
        self.host.now()
    }

    /// Returns the first event of a new run, without its id. Returns `None` for a run that continues.
    pub fn start_event(&self) -> Option<&RunStarted> {
        let RunOpening::New { records, .. } = &self.opening else {
            return None;
        };
        match records.first().map(|record| &record.event) {
            Some(Event::RunStarted(started)) => Some(started),
            _ => None,
        }
    }

    /// Sets the input of a new run, or the message of a run that continues.
    pub fn set_input_or_message(&mut self, text: Arc<str>) {
        match &mut self.opening {
            RunOpening::New { records, .. } => {
                if let Some(Event::RunStarted(started)) = records.first_mut().map(|record| &mut record.event) {
                    started.input = text;
                }
            }
            RunOpening::Resume { first, .. } => {
                if let Event::MessageAdded(message) = first {
                    message.text = text;
                }
            }
        }
    }

    /// Decides the first step without executing it: the agents of the next turn, or the end of the run.
    ///
    /// # Errors
    ///
    /// The first records of the run are illegal.
    pub fn preview_first_decision(&self) -> Result<NextDecision, RunError> {
        let mut state = match &self.opening {
            RunOpening::New { records, .. } => ConversationState::from_records(self.prepared.plan.clone(), records)?,
            RunOpening::Resume { state, .. } => ConversationState::clone(state),
        };
        let event = match &self.opening {
            RunOpening::New { then, .. } => then.clone(),
            RunOpening::Resume { first, .. } => Some(first.clone()),
        };
        if let Some(event) = event {
            let (seq, at) = (state.next_seq(), self.host.now());
            state.apply_record(&Record { seq, at, event })?;
        }
        Ok(decide_next_step(&self.prepared.plan, &state))
    }

    /// Stores the run and spawns the task that drives it. Returns its handle.
    ///
    /// # Errors
    ///
    /// The store cannot be written.
    pub fn start_and_spawn(mut self) -> BoxFuture<'static, Result<RunHandle, RunError>> {
        Box::pin(async move {
            let mut reporters = std::mem::take(&mut self.reporters);
            let trace = self.hub.tracer().and_then(RunTracer::parent_span);
            self.opening.set_trace_parent(trace.as_ref());
            let is_new = matches!(self.opening, RunOpening::New { .. });
            let (stored, lease, log, state, first) = match self.opening {
                RunOpening::New {
                    store,
                    id,
                    records,
                    then,
                } => {
                    let records = records.into_iter().map(|mut record| {
                        record.event = self.secrets.redact_event(record.event)?;
                        Ok(record)
                    });
                    let records: Result<Vec<Record>, RedactionError> = records.collect();
                    let records = records.map_err(CommitError::from)?;
                    let new_run = NewRunOptions {
                        store: &*store,
                        host: &self.host,
                        ensemble: self.prepared.source.text(),
                        id: id.as_ref(),
                        durability: self.durability,
                    };
                    let StoredNewRun {
                        stored,
                        lease,
                        log,
                        records,
                    } = new_run.create_with_records(records).await?;
                    let mut state = ConversationState::new(self.prepared.plan.clone());
                    for (seq, record) in (0..).zip(records) {
                        state.apply_record(&record)?;
                        if seq == 0 {
                            // The others were told when they happened.
                            reporters
                                .iter_mut()
                                .for_each(|reporter| reporter.report_event(&record, &state));
                            if let Some(tracer) = self.hub.tracer() {
                                tracer.observe_record(stored.id(), &record, &state);
                            }
                        }
                    }
                    (stored, lease, log, state, then)
                }
                RunOpening::Resume {
                    run,
                    lease,
                    state,
                    end,
                    first,
                } => {
                    if let Some(started) = state.run_start() {
                        kill_processes_of_run(&started.run_id);
                    }
                    if matches!(first, Event::RunResumed(_)) {
                        self.desk
                            .set_expected_requests(state.pending_requests().cloned().collect());
                    }
                    let log = run.open_log(end, self.durability).await?;
                    (run, lease, log, *state, Some(first))
                }
            };
            let _ = self.outermost.set(stored.clone());
            // What is said at the beginning of a new run belongs to its first segment.
            let begins_at = if is_new { 0 } else { state.next_seq() };
            let segment = self.hub.segment_span_context(stored.id(), begins_at, trace.as_ref());
            let ReadyAgents {
                runners,
                servers,
                programs,
                ..
            } = self.agents;
            Ok(RunHandle::spawn_driver(RunDriverState {
                stored_run: stored,
                prepared: self.prepared,
                leases: std::iter::once(lease).chain(self.source_lease).collect(),
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
                refuses_exhausted: self.refuses_exhausted,
            }))
        })
    }
}

/// Replaces the runner of each agent by the result of `replace`, which receives the agent's index and its own runner.
pub(crate) fn replace_agent_runners(
    made: &mut BuiltRunAgents,
    mut replace: impl FnMut(usize, &Agent, Arc<dyn Runner>) -> Arc<dyn Runner>,
) {
    let plan = made.prepared.plan.clone();
    for (id, runner) in plan.agent_ids().zip(&mut made.agents.runners) {
        *runner = replace(id.index(), plan.agent(id), runner.clone());
    }
}
