//! Work of a worker outside of the engine: it prepares ensembles, and performs executions.
//!
//! Invariant: a call that the engine repeats joins the running execution.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ensemble_core::conversation::{ConversationState, Event, Record, RunCanceller, RunInterruption};
use ensemble_core::executor::WallClock;
use ensemble_core::request::AnswerSource;
use ensemble_language::ensemble::AgentKind;
use ensemble_language::source::SourceText;
use ensemble_project::prepare::prepare_text;
use ensemble_remote::EngineClient;
use ensemble_remote::protocol::{
    EndedNestedRun, ExecutionCallResult, ExecutionRequest, NestedRunLines, NestedRunRequest, RunStartRequest,
    decode_record_lines, encode_record_lines,
};
use ensemble_remote::unsupported::check_support;
use ensemble_runs::options::nested_driver::{NestedRunDriver, NestedRunStart};
use ensemble_runs::steps::{PendingExecutions, RecordSink, rebuild_unrecorded_starts};
use ensemble_runs::{PreparedEnsemble, RunOptions, Runs};
use restate_sdk::errors::HandlerError;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::children::{EndedNestedWorkflow, NestedWorkflowRuns};
use crate::decided_operator::DecidedCallOperator;
use crate::execution_output::{
    ExecutionStep, JournaledExecution, JournaledRecordSink, OutputEndGuard, RunningExecutionOutput,
};
use crate::fault_injection;
use crate::peers::{ExecutionClaim, PeerStepReply, PeerWorkerClient, StepRequest};
use crate::run_snapshot::{FoldedRun, RunSnapshot};
use crate::served_ensembles::ServedEnsembleCheck;

/// How often a worker that performs an execution looks whether the run is over.
pub(crate) const RUN_CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// Time in which another worker waits for a step before it asks again.
const PEER_WAIT_LIMIT: Duration = Duration::from_secs(20);

/// Time in which an execution must stop before it is aborted.
const STOP_TIMEOUT: Duration = Duration::from_millis(700);

/// Time in which the parts of an execution request their nested runs, one after the other.
const NESTED_REQUEST_TIME: Duration = Duration::from_millis(20);

/// Time for an execution that is performed after its turn, to collect the results of earlier work.
const LATE_EXECUTION_TIME: Duration = Duration::from_millis(500);

/// Interval at which a stopping worker checks whether its executions have ended.
const DRAIN_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Time in which the engine must store the results of executions that have ended.
const RESULT_STORE_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum number of nested runs whose records are cached after their end.
const MAX_CACHED_NESTED_RUNS: usize = 2_000;

/// Maximum number of refused calls that are remembered.
const MAX_REFUSED_CALLS: usize = 100_000;

/// Worker that performs executions. Clones share its state.
#[derive(Clone)]
pub struct RestateWorker(Arc<SharedWorkerState>);

/// State of a worker, which its clones share.
struct SharedWorkerState {
    /// Runs of the folder with ensembles and scripts.
    runs: Runs,
    /// Check of the texts that this worker runs.
    served_ensembles: ServedEnsembleCheck,
    /// Client of the engine, from which a worker reads the records of a run.
    engine: EngineClient,
    /// Running executions, by the ids of the calls. A call that the engine repeats because its connection was lost
    /// joins the execution and does not start the execution again.
    running_executions: Mutex<HashMap<String, RunningWorkerExecution>>,
    /// Calls that other workers asked for before their start here, so that other workers start them.
    refused_calls: Mutex<HashSet<String>>,
    peers: PeerWorkerClient,
    /// The number of calls of the engine.
    calls: AtomicU64,
    /// Whether the worker finishes what is running and accepts nothing new.
    draining: AtomicBool,
    folded_runs: Mutex<HashMap<Arc<str>, FoldedRun>>,
    /// The states of the runs whose workflows this worker drives.
    snapshots: Mutex<HashMap<Arc<str>, RunSnapshot>>,
    /// The records of runs inside runs that have ended: an execution with parts reads them each time that a part ends.
    ended_inner_runs: Mutex<HashMap<Arc<str>, Arc<Vec<Record>>>>,
}

/// Execution that runs in this worker, with its output and its stop channel.
struct RunningWorkerExecution {
    run: Arc<str>,
    output: Arc<RunningExecutionOutput>,
    interruptions: mpsc::UnboundedSender<RunInterruption>,
    task: AbortHandle,
}

impl RunningWorkerExecution {
    /// Asks the execution to stop, so that it leaves its records.
    fn request_stop(&self) {
        // One that has ended does not hear of it.
        let _ = self.interruptions.send(stop_interruption());
    }
}

fn lock_mutex<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the result of an execution that could not be performed.
fn failed_result(error: String) -> ExecutionCallResult {
    ExecutionCallResult {
        error: Some(error),
        ..ExecutionCallResult::default()
    }
}

/// Returns the interruption of an execution that stops with its run.
fn stop_interruption() -> RunInterruption {
    RunInterruption::Cancelled {
        by: RunCanceller::Client("the run".into()),
    }
}

/// Returns whether all agents of the open turn are ensembles.
fn has_only_ensemble_agents(state: &ConversationState) -> bool {
    let mut slots = state.open_turn().into_iter().flat_map(|turn| &turn.slots);
    slots.all(|slot| matches!(state.plan().agent(slot.agent).kind, AgentKind::Ensemble { .. }))
}

/// Applies the records in the journal of the call to the state. Returns the starts of lost attempts, which the journal does not have.
fn apply_journaled_records(state: &mut ConversationState, called: &JournaledExecution) -> Result<Vec<Record>, String> {
    let records = decode_record_lines(&called.lines).map_err(|error| error.to_string())?;
    for record in &records {
        state.apply_record(record).map_err(|error| error.to_string())?;
    }
    let starts = rebuild_unrecorded_starts(state, &called.work.agent, &called.lost_starts);
    for start in &starts {
        state.apply_record(start).map_err(|error| error.to_string())?;
    }
    Ok(starts)
}

/// Waits for the requested step of an execution, or for its end.
async fn wait_for_requested_step(output: &RunningExecutionOutput, request: StepRequest) -> ExecutionStep {
    match request {
        StepRequest::Next(number) => output.confirm_and_wait_for_step(number).await,
        StepRequest::Rest(number) => output.wait_for_all_remaining(number).await,
    }
}

impl RestateWorker {
    /// Creates a worker with the ensembles and scripts of a folder.
    pub fn new(
        runs: Runs,
        served_ensembles: ServedEnsembleCheck,
        engine: EngineClient,
        peers: PeerWorkerClient,
    ) -> Self {
        Self(Arc::new(SharedWorkerState {
            runs,
            served_ensembles,
            engine,
            running_executions: Mutex::default(),
            refused_calls: Mutex::default(),
            peers,
            calls: AtomicU64::new(0),
            draining: AtomicBool::new(false),
            folded_runs: Mutex::default(),
            snapshots: Mutex::default(),
            ended_inner_runs: Mutex::default(),
        }))
    }

    /// Prepares the ensemble of a run, with the files of this worker.
    ///
    /// # Errors
    /// The worker may not run this text, or the ensemble has errors here.
    pub fn prepare_ensemble(&self, start: &RunStartRequest) -> Result<Arc<PreparedEnsemble>, String> {
        let project = self.0.runs.project();
        let root = project.folder.clone();
        let file = self
            .0
            .served_ensembles
            .check_served_text(project, &start.file, &start.ensemble)?;
        let folder = file.parent().unwrap_or(&root).to_owned();
        let source = SourceText::new(&*start.file, &*start.ensemble);
        let prepared = prepare_text(source, file, folder, root);
        let prepared = prepared.map_err(|error| error.to_string())?;
        check_support(prepared.plan.ensemble())?;
        Ok(Arc::new(prepared))
    }

    /// Returns the claim of this worker to an execution, from now on.
    pub fn claim_now(&self) -> ExecutionClaim {
        self.0.peers.own_claim_at(self.0.runs.host().now())
    }

    /// Waits for a step of an execution. Starts the execution if this worker has the claim, or fetches the step from the worker with the
    /// claim. `call` is the id of the engine's call.
    pub async fn start_or_fetch_step(
        &self,
        claim: &ExecutionClaim,
        call: &str,
        called: JournaledExecution,
        request: StepRequest,
    ) -> ExecutionStep {
        if !self.0.peers.is_own_claim(claim) {
            return self.0.peers.fetch_step_from_peer(claim, call, request).await;
        }
        let output = match request {
            StepRequest::Next(number) => self.start_or_join_execution(call, called, number),
            StepRequest::Rest(_) => self.find_output_and_stop(call, request),
        };
        match output {
            Some(output) => wait_for_requested_step(&output, request).await,
            None => ExecutionStep::Lost { has_begun: false },
        }
    }

    /// Returns the output of a running execution, and asks the execution to stop if the request asks for the rest.
    fn find_output_and_stop(&self, call: &str, request: StepRequest) -> Option<Arc<RunningExecutionOutput>> {
        let all = lock_mutex(&self.0.running_executions);
        let under_way = all.get(call)?;
        if matches!(request, StepRequest::Rest(_)) {
            under_way.request_stop();
        }
        Some(under_way.output.clone())
    }

    /// Returns the reply to another worker that waits for a step. `worker` is the id in the claim, which might be an earlier worker at this
    /// address. Refuses the call later if the execution is unknown.
    pub async fn reply_to_peer(&self, worker: &str, call: &str, request: StepRequest) -> PeerStepReply {
        if !self.0.peers.is_own_id(worker) {
            return PeerStepReply::OtherWorker;
        }
        let Some(output) = self.find_output_and_stop(call, request) else {
            let mut given_up = lock_mutex(&self.0.refused_calls);
            if given_up.len() >= MAX_REFUSED_CALLS {
                given_up.clear();
            }
            given_up.insert(call.to_owned());
            return PeerStepReply::Unknown;
        };
        match tokio::time::timeout(PEER_WAIT_LIMIT, wait_for_requested_step(&output, request)).await {
            Ok(step) => PeerStepReply::Step(step),
            Err(_) => PeerStepReply::GoesOn,
        }
    }

    /// Aborts the execution if it is running, and forgets the execution.
    pub fn abort_and_forget_execution(&self, call: &str) {
        if let Some(under_way) = lock_mutex(&self.0.running_executions).remove(call) {
            under_way.task.abort();
        }
    }

    /// Refuses new executions from now on.
    pub fn start_draining(&self) {
        self.0.draining.store(true, Ordering::SeqCst);
    }

    /// Returns whether the worker refuses new executions.
    pub fn is_draining(&self) -> bool {
        self.0.draining.load(Ordering::SeqCst)
    }

    /// Counts a call of the engine.
    pub fn count_call(&self) {
        self.0.calls.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of calls of the engine since the worker started.
    pub fn call_count(&self) -> u64 {
        self.0.calls.load(Ordering::Relaxed)
    }

    /// Returns the number of executions that have not ended.
    pub fn count_running(&self) -> usize {
        let all = lock_mutex(&self.0.running_executions);
        all.values().filter(|running| !running.output.has_ended()).count()
    }

    /// Waits until all running executions have ended and the engine has stored their results, or the time limit is reached.
    pub async fn wait_until_results_stored(&self) {
        while self.count_running() > 0 {
            tokio::time::sleep(DRAIN_POLL_INTERVAL).await;
        }
        // The result of a call whose connection was lost is stored by another worker.
        let stored = async {
            while !lock_mutex(&self.0.running_executions).is_empty() {
                tokio::time::sleep(DRAIN_POLL_INTERVAL).await;
            }
        };
        let _ = tokio::time::timeout(RESULT_STORE_TIMEOUT, stored).await;
    }

    /// Returns an error if the worker is stopping and the call belongs to no running execution. The
    /// engine then repeats the call at another worker.
    ///
    /// # Errors
    /// The worker is stopping.
    pub fn refuse_while_draining(&self, call: &str) -> Result<(), HandlerError> {
        let is_new = || !lock_mutex(&self.0.running_executions).contains_key(call);
        match self.is_draining() && is_new() {
            true => Err(HandlerError::from("this worker is stopping")),
            false => Ok(()),
        }
    }

    /// Checks that this worker can continue a run with this protocol. The engine repeats a refused call, so a worker
    /// that can read the run continues it.
    ///
    /// # Errors
    /// The protocol is newer than that of this worker, or too old.
    pub fn check_run_protocol(&self, protocol: u32) -> Result<(), HandlerError> {
        let own = fault_injection::own_version();
        match own.can_continue_protocol(protocol) {
            true => Ok(()),
            false => Err(HandlerError::from(own.refusal_text(protocol))),
        }
    }

    /// Returns the output of the running execution, or starts the execution at the step `number`. Returns `None` once if the worker
    /// has refused the call before.
    fn start_or_join_execution(
        &self,
        call: &str,
        called: JournaledExecution,
        number: usize,
    ) -> Option<Arc<RunningExecutionOutput>> {
        let mut all = lock_mutex(&self.0.running_executions);
        if let Some(under_way) = all.get(call) {
            return Some(under_way.output.clone());
        }
        // Once: whoever claims it anew begins it.
        if lock_mutex(&self.0.refused_calls).remove(call) {
            return None;
        }
        let run = called.work.run.clone();
        if !all.values().any(|other| other.run == run) {
            tokio::spawn(self.clone().stop_executions_with_run(run.clone()));
        }
        let output = Arc::new(RunningExecutionOutput::new(number));
        let (interruptions, interrupted) = mpsc::unbounded_channel();
        let (worker, writer) = (self.clone(), OutputEndGuard(output.clone()));
        let task = tokio::spawn(async move {
            let records = Box::new(JournaledRecordSink(writer.0.clone()));
            let result = worker.perform_work(&called, records, interrupted).await;
            writer.0.set_result_once(result.unwrap_or_else(failed_result));
        });
        let under_way = RunningWorkerExecution {
            run,
            output: output.clone(),
            interruptions,
            task: task.abort_handle(),
        };
        all.insert(call.to_owned(), under_way);
        Some(output)
    }

    /// Polls the engine until the run is about to end, and then stops and aborts the executions of the run. The engine
    /// reports the end to no worker.
    async fn stop_executions_with_run(self, run: Arc<str>) {
        loop {
            tokio::time::sleep(RUN_CHECK_INTERVAL).await;
            if self.list_calls_of_run(&run).is_empty() {
                return;
            }
            if self.0.engine.fetch_is_run_stopping(&run).await.unwrap_or(false) {
                break;
            }
        }
        let calls = self.list_calls_of_run(&run);
        for call in &calls {
            if let Some(under_way) = lock_mutex(&self.0.running_executions).get(call) {
                under_way.request_stop();
            }
        }
        tokio::time::sleep(STOP_TIMEOUT).await;
        calls.iter().for_each(|call| self.abort_and_forget_execution(call));
    }

    /// Returns the ids of the calls of the run's executions in this worker.
    fn list_calls_of_run(&self, run: &Arc<str>) -> Vec<String> {
        let all = lock_mutex(&self.0.running_executions);
        let calls = all.iter().filter(|(_, under_way)| under_way.run == *run);
        calls.map(|(call, _)| call.clone()).collect()
    }

    /// Performs the execution. Sends records to the call, or returns requests for nested runs if they are missing.
    async fn perform_work(
        &self,
        called: &JournaledExecution,
        records: Box<dyn RecordSink>,
        interruptions: mpsc::UnboundedReceiver<RunInterruption>,
    ) -> Result<ExecutionCallResult, String> {
        let work = &called.work;
        let (known, mut state) = self.load_state(work).await?;
        // The runs of an inner ensemble are workflows, which have their own records: what is recorded around them is recorded at the end.
        let leaves_records = !has_only_ensemble_agents(&state);
        let earlier_records = match leaves_records {
            true => apply_journaled_records(&mut state, called)?,
            false => Vec::new(),
        };
        let start = known.start.clone();
        let models = start.inside.as_ref().unwrap_or(&start.started.models);
        let mut options = RunOptions {
            models: models.clone(),
            allowed_tools: known.start.allowed_tools.clone(),
            denied_tools: known.start.denied_tools.clone(),
            ..RunOptions::default()
        };
        options.answers = known.start.answers.clone();
        known
            .used_answers
            .iter()
            .for_each(|used| options.answers.remove_used_option(used));
        if let Some(answer) = &work.answer {
            let by = work.answered_by.clone();
            options.answers.insert_answer_by(
                &*work.agent,
                answer.clone(),
                by.unwrap_or_else(|| AnswerSource::File.into()),
            );
        }
        let runs = match &work.decided {
            Some(decided) => self
                .0
                .runs
                .clone()
                .with_operator(Arc::new(DecidedCallOperator::new(decided.clone()))),
            None => self.0.runs.clone(),
        };
        let (children, mut wanted) =
            NestedWorkflowRuns::for_execution(&work.agent, self.load_ended_nested_runs(work).await?, &work.begun);
        let children = Arc::new(children);
        let driven: Arc<dyn NestedRunDriver> = children.clone();
        let mut performed = std::pin::pin!(runs.perform_pending_executions(PendingExecutions {
            prepared: known.prepared,
            state,
            options,
            inner_run_driver: Some(driven),
            turn_ends_in: work.turn_is_up.then_some(LATE_EXECUTION_TIME),
            earlier_records,
            record_sink: leaves_records.then_some(records),
            interruptions,
        }));
        let mut wants: Vec<NestedRunRequest> = Vec::new();
        let mut are_more = true;
        let performed = loop {
            tokio::select! {
                performed = &mut performed => break performed,
                Some(requested_run) = wanted.recv(), if !work.turn_is_up => {
                    are_more = requested_run.is_part;
                    wants.push(self.build_nested_run_request(requested_run, &start)?);
                }
                () = tokio::time::sleep(NESTED_REQUEST_TIME), if are_more && !wants.is_empty() => are_more = false,
            }
            if !are_more {
                fault_injection::wait_while_held().await;
                return Ok(ExecutionCallResult {
                    wants,
                    ..ExecutionCallResult::default()
                });
            }
        };
        let mut performed = performed.map_err(|error| error.to_string())?;
        let is_stop =
            |record: &mut Record| matches!(&record.event, Event::Interrupted(cause) if *cause == stop_interruption());
        if performed.records.pop_if(is_stop).is_some() {
            return Ok(ExecutionCallResult {
                lines: match leaves_records {
                    true => encode_record_lines(&performed.records),
                    false => String::new(),
                },
                is_stopped: true,
                ..ExecutionCallResult::default()
            });
        }
        children.add_nested_run_times(&mut performed.records);
        let asks = matches!(
            performed.records.last().map(|last| &last.event),
            Some(Event::InputRequested(_))
        );
        Ok(ExecutionCallResult {
            asks: children.first_asking_run().filter(|_| asks),
            lines: encode_record_lines(&performed.records),
            inside: performed
                .inner_runs
                .iter()
                .map(NestedRunLines::from_nested_run)
                .collect(),
            ..ExecutionCallResult::default()
        })
    }

    /// Loads the records of the nested runs of the execution that have ended, from the cache or the engine.
    async fn load_ended_nested_runs(
        &self,
        work: &ExecutionRequest,
    ) -> Result<Vec<(String, EndedNestedWorkflow)>, String> {
        let mut ended_runs = Vec::new();
        for EndedNestedRun { name, run, is_late } in &work.inner {
            let cached_records = lock_mutex(&self.0.ended_inner_runs).get(run).cloned();
            let records = match cached_records {
                Some(cached_records) => cached_records,
                None => {
                    let reply = self.0.engine.fetch_records(run, 0).await;
                    let decoded_records = reply.and_then(|sent| self.0.engine.decode_records(&sent.lines));
                    let records = Arc::new(decoded_records.map_err(|error| error.to_string())?);
                    let mut all = lock_mutex(&self.0.ended_inner_runs);
                    if all.len() >= MAX_CACHED_NESTED_RUNS {
                        all.clear();
                    }
                    all.insert(run.clone(), records.clone());
                    records
                }
            };
            let is_late = *is_late;
            ended_runs.push((name.clone(), EndedNestedWorkflow { records, is_late }));
        }
        Ok(ended_runs)
    }

    /// Builds the request for a nested run as a workflow.
    fn build_nested_run_request(
        &self,
        wanted: NestedRunStart,
        outer: &RunStartRequest,
    ) -> Result<NestedRunRequest, String> {
        let root = self.0.runs.project().folder.clone();
        let (file, root) = (
            wanted.file.canonicalize().unwrap_or(wanted.file),
            root.canonicalize().unwrap_or(root),
        );
        let outside = || format!("{} is not in the folder that workers serve", file.display());
        let file = file
            .strip_prefix(&root)
            .ok()
            .and_then(|file| file.to_str())
            .ok_or_else(outside)?;
        Ok(NestedRunRequest {
            name: wanted.name,
            limit: wanted.limit,
            start: RunStartRequest {
                at: self.0.runs.host().now(),
                ensemble: wanted.ensemble,
                file: file.to_owned(),
                started: wanted.start_event,
                inside: Some(outer.inside.as_ref().unwrap_or(&outer.started.models).clone()),
                goes_on_after: None,
                answered: None,
                refuses_exhausted: false,
                ..outer.clone()
            },
        })
    }
}

mod run_states;
#[cfg(test)]
mod tests;
