//! What a worker does outside of the engine: it prepares ensembles, and performs executions.
//!
//! Invariant: a call that the engine repeats takes up the execution that goes on.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ensemble_core::conversation::{ConversationState, Event, IllegalRecord, Record};
use ensemble_core::executor::WallClock;
use ensemble_core::request::{AnswerRecord, AnswerSource};
use ensemble_language::source::SourceText;
use ensemble_project::prepare::prepare_text;
use ensemble_remote::EngineClient;
use ensemble_remote::protocol::{
    EndedInnerRun, ExecutionWork, InnerRunLines, RecordsReply, RunStartRequest, WantedInnerRun, WorkResult,
    format_lines,
};
use ensemble_runs::options::nested_driver::{InnerRunDriver, InnerRunStart};
use ensemble_runs::steps::records_for_agent;
use ensemble_runs::{PreparedEnsemble, RunOptions, Runs};
use restate_sdk::errors::HandlerError;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::children::{ChildRuns, EndedChildRun};
use crate::decided_operator::DecidedCallOperator;
use crate::fault_injection;
use crate::peers::{PeerReply, PeerWorkers, WorkerClaim};
use crate::served_ensembles::ServedEnsembles;

/// The most runs whose states are kept between two executions.
const KEPT: usize = 256;

/// How often a worker that performs an execution looks whether the run is over.
pub(crate) const LOOKED_AT_EVERY: Duration = Duration::from_secs(2);

/// How long another worker waits for an answer before it asks again.
const ASKED_FOR: Duration = Duration::from_secs(20);

/// How long the parts of an execution may take, one after the other, to say which runs they want.
const SAID_WITHIN: Duration = Duration::from_millis(20);

/// How long an execution may take that is performed after its turn: to take what has ended before.
const TAKEN_WITHIN: Duration = Duration::from_millis(500);

/// The interval at which a stopping worker checks whether its executions have ended.
const DRAIN_POLL: Duration = Duration::from_millis(20);

/// The time within which the engine stores the results of executions that have ended.
const STORED_WITHIN: Duration = Duration::from_secs(2);

/// The most runs inside runs whose records are kept after their end.
const ENDED_KEPT: usize = 2_000;

/// How many calls that others took over are known.
const GIVEN_UP: usize = 100_000;

/// A worker. Clones share what it keeps.
#[derive(Clone)]
pub struct RestateWorker(Arc<WorkerState>);

struct WorkerState {
    /// The folder with ensembles and scripts.
    runs: Runs,
    /// The texts that this worker runs.
    served_ensembles: ServedEnsembles,
    /// The engine, from which a worker reads the records of a run.
    engine: EngineClient,
    /// Executions that go on, by the ids of the calls. A call that the engine repeats because its connection was lost
    /// takes up the execution and does not begin it again.
    running_executions: Mutex<HashMap<String, RunningExecution>>,
    /// Calls that others asked for, and that had not begun here: others begin them.
    refused_calls: Mutex<HashSet<String>>,
    peers: PeerWorkers,
    /// Whether the worker finishes what is running and accepts nothing new.
    draining: AtomicBool,
    folded_runs: Mutex<HashMap<Arc<str>, FoldedRun>>,
    /// The records of runs inside runs that have ended: an execution with parts reads them each time that a part ends.
    ended_inner_runs: Mutex<HashMap<Arc<str>, Arc<Vec<Record>>>>,
}

struct RunningExecution {
    run: Arc<str>,
    done: watch::Receiver<Option<Arc<WorkResult>>>,
    task: AbortHandle,
}

/// A run, folded up to its open turn.
#[derive(Clone)]
struct FoldedRun {
    start: Arc<RunStartRequest>,
    prepared: Arc<PreparedEnsemble>,
    state: ConversationState,
    /// The answers of the records so far.
    used_answers: Vec<AnswerRecord>,
}

impl FoldedRun {
    fn apply_record(&mut self, record: &Record) -> Result<(), IllegalRecord> {
        self.state.apply_record(record)?;
        if let Event::ExecutionFinished(finished) = &record.event {
            self.used_answers.extend(finished.answer.as_deref().cloned());
        }
        Ok(())
    }
}

/// Returns the end of an execution.
async fn wait_for_result(mut done: watch::Receiver<Option<Arc<WorkResult>>>) -> WorkResult {
    let wait_result = done.wait_for(Option::is_some).await;
    match wait_result.as_deref() {
        Ok(Some(result)) => WorkResult::clone(result),
        Ok(None) | Err(_) => failed_result("the execution was stopped".to_owned()),
    }
}

fn lock_mutex<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the result of an execution that could not be performed.
fn failed_result(error: String) -> WorkResult {
    WorkResult {
        error: Some(error),
        ..WorkResult::default()
    }
}

impl RestateWorker {
    /// Returns a worker with the ensembles and scripts of a folder, which others find there.
    pub fn new(runs: Runs, served_ensembles: ServedEnsembles, engine: EngineClient, peers: PeerWorkers) -> Self {
        Self(Arc::new(WorkerState {
            runs,
            served_ensembles,
            engine,
            running_executions: Mutex::default(),
            refused_calls: Mutex::default(),
            peers,
            draining: AtomicBool::new(false),
            folded_runs: Mutex::default(),
            ended_inner_runs: Mutex::default(),
        }))
    }

    /// Returns the ensemble of a run, as this worker has its files.
    ///
    /// # Errors
    /// The worker does not run this text, or the ensemble has errors here: the text says which.
    pub fn prepare_ensemble(&self, start: &RunStartRequest) -> Result<Arc<PreparedEnsemble>, String> {
        let project = self.0.runs.project();
        let root = project.folder.clone();
        let file = self
            .0
            .served_ensembles
            .check_text(project, &start.file, &start.ensemble)?;
        let folder = file.parent().unwrap_or(&root).to_owned();
        let source = SourceText::new(&*start.file, &*start.ensemble);
        let prepared = prepare_text(source, file, folder, root);
        prepared.map(Arc::new).map_err(|error| error.to_string())
    }

    /// Returns the claim of this worker to an execution.
    pub fn own_claim(&self) -> WorkerClaim {
        self.0.peers.own_claim().clone()
    }

    /// Performs an execution, or waits for its end if it goes on, here or at the worker that has claimed it. Nothing: that
    /// worker is lost, and somebody else may claim it. `call`: the id of the engine's call.
    pub async fn perform_claimed(&self, claim: &WorkerClaim, call: &str, work: ExecutionWork) -> Option<WorkResult> {
        if !self.0.peers.is_own_claim(claim) {
            return self.0.peers.fetch_result(claim, call).await;
        }
        Some(wait_for_result(self.start_or_join(call, work)?).await)
    }

    /// What another worker is told that waits for an execution of this worker. `worker`: the id of who has claimed it, which
    /// may be one that was at this address before.
    pub async fn reply_to_peer(&self, worker: &str, call: &str) -> PeerReply {
        if !self.0.peers.is_own_id(worker) {
            return PeerReply::Unknown;
        }
        let under_way = lock_mutex(&self.0.running_executions)
            .get(call)
            .map(|under_way| under_way.done.clone());
        let Some(receiver) = under_way else {
            let mut given_up = lock_mutex(&self.0.refused_calls);
            if given_up.len() >= GIVEN_UP {
                given_up.clear();
            }
            given_up.insert(call.to_owned());
            return PeerReply::Unknown;
        };
        match tokio::time::timeout(ASKED_FOR, wait_for_result(receiver)).await {
            Ok(result) => PeerReply::Done(Box::new(result)),
            Err(_) => PeerReply::GoesOn,
        }
    }

    /// Stops an execution if it goes on, and forgets it.
    pub fn abort_execution(&self, call: &str) {
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

    /// Returns the number of executions that have not ended.
    pub fn count_running(&self) -> usize {
        let all = lock_mutex(&self.0.running_executions);
        all.values().filter(|running| running.done.borrow().is_none()).count()
    }

    /// Waits until all running executions have ended and the engine has stored their results.
    pub async fn wait_until_idle(&self) {
        while self.count_running() > 0 {
            tokio::time::sleep(DRAIN_POLL).await;
        }
        // The result of a call whose connection was lost is stored by another worker.
        let stored = async {
            while !lock_mutex(&self.0.running_executions).is_empty() {
                tokio::time::sleep(DRAIN_POLL).await;
            }
        };
        let _ = tokio::time::timeout(STORED_WITHIN, stored).await;
    }

    /// Returns an error if the worker is stopping, and the call is not that of an execution that is running here. The
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
    pub fn check_protocol(&self, protocol: u32) -> Result<(), HandlerError> {
        let own = fault_injection::own_version();
        match own.can_read(protocol) {
            true => Ok(()),
            false => Err(HandlerError::from(own.refusal_text(protocol))),
        }
    }

    fn start_or_join(&self, call: &str, work: ExecutionWork) -> Option<watch::Receiver<Option<Arc<WorkResult>>>> {
        let mut all = lock_mutex(&self.0.running_executions);
        if let Some(under_way) = all.get(call) {
            return Some(under_way.done.clone());
        }
        // Once: whoever claims it anew begins it.
        if lock_mutex(&self.0.refused_calls).remove(call) {
            return None;
        }
        if !all.values().any(|other| other.run == work.run) {
            tokio::spawn(self.clone().stop_when_run_ends(work.run.clone()));
        }
        let (sender, done) = watch::channel(None);
        let (worker, run) = (self.clone(), work.run.clone());
        let task = tokio::spawn(async move {
            let result = worker.perform_work(&work).await.unwrap_or_else(failed_result);
            sender.send_replace(Some(Arc::new(result)));
        });
        let under_way = RunningExecution {
            run,
            done: done.clone(),
            task: task.abort_handle(),
        };
        all.insert(call.to_owned(), under_way);
        Some(done)
    }

    /// Stops the executions of a run when the run is over, which was cancelled then, or reached its time limit. The engine
    /// tells nobody who performs an action, so a worker asks.
    async fn stop_when_run_ends(self, run: Arc<str>) {
        loop {
            tokio::time::sleep(LOOKED_AT_EVERY).await;
            if !lock_mutex(&self.0.running_executions)
                .values()
                .any(|under_way| under_way.run == run)
            {
                return;
            }
            if self.0.engine.has_run_ended(&run).await.unwrap_or(false) {
                lock_mutex(&self.0.running_executions).retain(|_, under_way| {
                    let goes_on = under_way.run != run;
                    if !goes_on {
                        under_way.task.abort();
                    }
                    goes_on
                });
                return;
            }
        }
    }

    async fn perform_work(&self, work: &ExecutionWork) -> Result<WorkResult, String> {
        let (known, state) = self.load_state(work).await?;
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
            .for_each(|used| options.answers.remove_used(used));
        if let Some(answer) = &work.answer {
            let by = work.answered_by.clone();
            options.answers.insert_from(
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
            ChildRuns::for_execution(&work.agent, self.list_ended_inner_runs(work).await?, &work.begun);
        let children = Arc::new(children);
        let driven: Arc<dyn InnerRunDriver> = children.clone();
        let turn_ends_in = work.turn_is_up.then_some(TAKEN_WITHIN);
        let mut performed =
            std::pin::pin!(runs.perform_pending(known.prepared, state, options, Some(driven), turn_ends_in));
        let mut wants: Vec<WantedInnerRun> = Vec::new();
        let mut are_more = true;
        let performed = loop {
            tokio::select! {
                performed = &mut performed => break performed,
                Some(requested_run) = wanted.recv(), if !work.turn_is_up => {
                    are_more = requested_run.is_part;
                    wants.push(self.build_wanted_run(requested_run, &start)?);
                }
                () = tokio::time::sleep(SAID_WITHIN), if are_more && !wants.is_empty() => are_more = false,
            }
            if !are_more {
                fault_injection::wait_while_held().await;
                return Ok(WorkResult {
                    wants,
                    ..WorkResult::default()
                });
            }
        };
        let mut performed = performed.map_err(|error| error.to_string())?;
        children.set_times(&mut performed.records);
        let asks = matches!(
            performed.records.last().map(|last| &last.event),
            Some(Event::InputRequested(_))
        );
        Ok(WorkResult {
            asks: children.asking_run().filter(|_| asks),
            lines: format_lines(&performed.records),
            inside: performed.inner_runs.iter().map(InnerRunLines::from_run).collect(),
            ..WorkResult::default()
        })
    }

    /// Returns the runs of the execution's inner ensemble that have ended.
    async fn list_ended_inner_runs(&self, work: &ExecutionWork) -> Result<Vec<(String, EndedChildRun)>, String> {
        let mut ended_runs = Vec::new();
        for EndedInnerRun { name, run, is_late } in &work.inner {
            let cached_records = lock_mutex(&self.0.ended_inner_runs).get(run).cloned();
            let records = match cached_records {
                Some(cached_records) => cached_records,
                None => {
                    let reply = self.0.engine.fetch_records(run, 0).await;
                    let decoded_records = reply.and_then(|sent| self.0.engine.decode_records(&sent.lines));
                    let records = Arc::new(decoded_records.map_err(|error| error.to_string())?);
                    let mut all = lock_mutex(&self.0.ended_inner_runs);
                    if all.len() >= ENDED_KEPT {
                        all.clear();
                    }
                    all.insert(run.clone(), records.clone());
                    records
                }
            };
            let is_late = *is_late;
            ended_runs.push((name.clone(), EndedChildRun { records, is_late }));
        }
        Ok(ended_runs)
    }

    /// Returns the run of an inner ensemble, as a workflow is given it.
    fn build_wanted_run(&self, wanted: InnerRunStart, outer: &RunStartRequest) -> Result<WantedInnerRun, String> {
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
        Ok(WantedInnerRun {
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
                ..outer.clone()
            },
        })
    }

    /// Returns the run, and its state in which the execution is pending.
    async fn load_state(&self, work: &ExecutionWork) -> Result<(FoldedRun, ConversationState), String> {
        let before = lock_mutex(&self.0.folded_runs).get(&work.run).cloned();
        let next = before.as_ref().map_or(0, |known| known.state.next_seq());
        let reply = self.0.engine.fetch_records(&work.run, next).await;
        let RecordsReply { start, lines, .. } = reply.map_err(|error| error.to_string())?;
        let mut records = self
            .0
            .engine
            .decode_records(&lines)
            .map_err(|error| error.to_string())?;
        // What was recorded since the execution was called belongs to others.
        records.retain(|record| record.seq < work.records);
        let mut folded_run = match (before, start) {
            (Some(cached_run), _) => cached_run,
            (None, Some(start)) => {
                let prepared = self.prepare_ensemble(&start)?;
                FoldedRun {
                    state: ConversationState::new(prepared.plan.clone()),
                    used_answers: Vec::new(),
                    start: Arc::new(start),
                    prepared,
                }
            }
            (None, None) => return Err(format!("there is no run {}", work.run)),
        };
        let is_begin = |event: &Event| matches!(event, Event::TurnStarted(_));
        let open = records.iter().rposition(|record| is_begin(&record.event));
        for record in records.drain(..open.unwrap_or(0)) {
            folded_run.apply_record(&record).map_err(|error| error.to_string())?;
        }
        self.cache_run(&work.run, &folded_run);
        let mut state = folded_run.state.clone();
        for record in records_for_agent(&records, &work.agent) {
            state.apply_record(&record).map_err(|error| error.to_string())?;
        }
        Ok((folded_run, state))
    }

    fn cache_run(&self, run: &Arc<str>, known: &FoldedRun) {
        let mut all = lock_mutex(&self.0.folded_runs);
        if all.len() >= KEPT && !all.contains_key(run) {
            // The records of whichever run is dropped are read again.
            let evicted_run = all.keys().next().cloned();
            evicted_run.and_then(|other| all.remove(&other));
        }
        all.insert(run.clone(), known.clone());
    }
}

#[cfg(test)]
mod tests {
    use ensemble_runs::{Host, Project};

    use super::*;

    /// Returns a worker whose engine is not there, so that each execution that begins ends at once with an error.
    fn worker() -> RestateWorker {
        let runs = Runs::open(Project::from_folder("."), Host::from_system().without_operator());
        let engine = EngineClient::from_url("http://127.0.0.1:9").expect("an address");
        let peers = PeerWorkers::new("here", None).expect("a client");
        RestateWorker::new(runs, ServedEnsembles::from_folder(), engine, peers)
    }

    fn work() -> ExecutionWork {
        ExecutionWork {
            protocol: ensemble_remote::protocol::PROTOCOL,
            answered_by: None,
            run: "r".into(),
            agent: "a".into(),
            records: 1,
            answer: None,
            decided: None,
            inner: Vec::new(),
            begun: Vec::new(),
            turn_is_up: false,
        }
    }

    #[tokio::test]
    async fn a_call_that_was_given_up_is_left_to_others_once() {
        let worker = worker();
        let own = worker.own_claim();
        assert!(matches!(worker.reply_to_peer("here", "call").await, PeerReply::Unknown));
        assert_eq!(worker.perform_claimed(&own, "call", work()).await, None);
        // Whoever claims it anew begins it, and may be this worker.
        let begun = worker.perform_claimed(&own, "call", work()).await.expect("it is begun");
        assert!(begun.error.is_some(), "{begun:?}");
        assert!(matches!(worker.reply_to_peer("here", "call").await, PeerReply::Done(_)));
    }

    #[tokio::test]
    async fn a_call_is_given_up_only_for_who_asked_this_worker_for_it() {
        let worker = worker();
        let own = worker.own_claim();
        assert!(matches!(worker.reply_to_peer("here", "call").await, PeerReply::Unknown));
        assert!(worker.perform_claimed(&own, "another", work()).await.is_some());
        // One that was at this address before.
        assert!(matches!(
            worker.reply_to_peer("before", "third").await,
            PeerReply::Unknown
        ));
        assert!(worker.perform_claimed(&own, "third", work()).await.is_some());
        // It goes on or has ended here: nothing is given up.
        assert!(matches!(
            worker.reply_to_peer("here", "third").await,
            PeerReply::Done(_)
        ));
        assert!(worker.perform_claimed(&own, "third", work()).await.is_some());
    }
}
