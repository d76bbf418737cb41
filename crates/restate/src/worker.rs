//! What a worker does outside of the engine: it prepares ensembles, and performs executions.
//!
//! Invariant: a call that the engine repeats takes up the execution that goes on.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ensemble_core::conversation::{ConversationState, Event, IllegalRecord, Record};
use ensemble_core::executor::Clock;
use ensemble_core::request::{AnswerRecord, AnswerSource};
use ensemble_language::source::Source;
use ensemble_project::prepare::prepare_text;
use ensemble_remote::Remote;
use ensemble_remote::protocol::{Done, InnerEnded, InnerLines, InnerWanted, Records, StartRun, Work, lines};
use ensemble_runs::options::nested_driver::{Elsewhere, InnerStart};
use ensemble_runs::steps::records_for;
use ensemble_runs::{Prepared, RunOptions, Runs};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::children::{Children, Ended};
use crate::deciding::Deciding;
use crate::fault;
use crate::peers::{Asked, Claim, Peers};

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

/// The most runs inside runs whose records are kept after their end.
const ENDED_KEPT: usize = 2_000;

/// How many calls that others took over are known.
const GIVEN_UP: usize = 100_000;

/// A worker. Clones share what it keeps.
#[derive(Clone)]
pub struct Worker(Arc<Inner>);

struct Inner {
    /// The folder with ensembles and scripts.
    runs: Runs,
    /// The engine, from which a worker reads the records of a run.
    engine: Remote,
    /// Executions that go on, by the ids of the calls. A call that the engine repeats because its connection was lost
    /// takes up the execution and does not begin it again.
    under_way: Mutex<HashMap<String, UnderWay>>,
    /// Calls that others asked for, and that had not begun here: others begin them.
    given_up: Mutex<HashSet<String>>,
    peers: Peers,
    known: Mutex<HashMap<Arc<str>, Known>>,
    /// The records of runs inside runs that have ended: an execution with parts reads them each time that a part ends.
    ended: Mutex<HashMap<Arc<str>, Arc<Vec<Record>>>>,
}

struct UnderWay {
    run: Arc<str>,
    done: watch::Receiver<Option<Arc<Done>>>,
    task: AbortHandle,
}

/// A run, folded up to its open turn.
#[derive(Clone)]
struct Known {
    start: Arc<StartRun>,
    prepared: Arc<Prepared>,
    state: ConversationState,
    /// The answers of the records so far.
    used_answers: Vec<AnswerRecord>,
}

impl Known {
    fn apply(&mut self, record: &Record) -> Result<(), IllegalRecord> {
        self.state.apply(record)?;
        if let Event::ExecutionFinished(finished) = &record.event {
            self.used_answers.extend(finished.answer.as_deref().cloned());
        }
        Ok(())
    }
}

/// The end of an execution.
async fn ended(mut done: watch::Receiver<Option<Arc<Done>>>) -> Done {
    let ended = done.wait_for(Option::is_some).await;
    match ended.as_deref() {
        Ok(Some(done)) => Done::clone(done),
        Ok(None) | Err(_) => failed("the execution was stopped".to_owned()),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the result of an execution that could not be performed.
fn failed(error: String) -> Done {
    Done {
        error: Some(error),
        ..Done::default()
    }
}

impl Worker {
    /// A worker with the ensembles and scripts of a folder, which others find there.
    pub fn new(runs: Runs, engine: Remote, peers: Peers) -> Self {
        Self(Arc::new(Inner {
            runs,
            engine,
            under_way: Mutex::default(),
            given_up: Mutex::default(),
            peers,
            known: Mutex::default(),
            ended: Mutex::default(),
        }))
    }

    /// The ensemble of a run, as this worker has its files.
    ///
    /// # Errors
    /// The ensemble has errors here: the text says which.
    pub fn prepare(&self, start: &StartRun) -> Result<Arc<Prepared>, String> {
        let project = self.0.runs.project();
        let root = project.folder.clone();
        let file: PathBuf = root.join(&start.file);
        let folder = file.parent().unwrap_or(&root).to_owned();
        let source = Source::new(&*start.file, &*start.ensemble);
        let prepared = prepare_text(source, file, folder, root);
        prepared.map(Arc::new).map_err(|error| error.to_string())
    }

    /// Returns the claim of this worker to an execution.
    pub fn claim(&self) -> Claim {
        self.0.peers.own().clone()
    }

    /// Performs an execution, or waits for its end if it goes on, here or at the worker that has claimed it. Nothing: that
    /// worker is lost, and somebody else may claim it. `call`: the id of the engine's call.
    pub async fn claimed(&self, claim: &Claim, call: &str, work: Work) -> Option<Done> {
        if !self.0.peers.is_own(claim) {
            return self.0.peers.ask(claim, call).await;
        }
        Some(ended(self.begun(call, work)?).await)
    }

    /// What another worker is told that waits for an execution of this worker. `worker`: the id of who has claimed it, which
    /// may be one that was at this address before.
    pub async fn asked(&self, worker: &str, call: &str) -> Asked {
        if !self.0.peers.is_named(worker) {
            return Asked::Unknown;
        }
        let under_way = lock(&self.0.under_way)
            .get(call)
            .map(|under_way| under_way.done.clone());
        let Some(done) = under_way else {
            let mut given_up = lock(&self.0.given_up);
            if given_up.len() >= GIVEN_UP {
                given_up.clear();
            }
            given_up.insert(call.to_owned());
            return Asked::Unknown;
        };
        match tokio::time::timeout(ASKED_FOR, ended(done)).await {
            Ok(done) => Asked::Done(Box::new(done)),
            Err(_) => Asked::GoesOn,
        }
    }

    /// Stops an execution if it goes on, and forgets it.
    pub fn forget(&self, call: &str) {
        if let Some(under_way) = lock(&self.0.under_way).remove(call) {
            under_way.task.abort();
        }
    }

    fn begun(&self, call: &str, work: Work) -> Option<watch::Receiver<Option<Arc<Done>>>> {
        let mut all = lock(&self.0.under_way);
        if let Some(under_way) = all.get(call) {
            return Some(under_way.done.clone());
        }
        // Once: whoever claims it anew begins it.
        if lock(&self.0.given_up).remove(call) {
            return None;
        }
        if !all.values().any(|other| other.run == work.run) {
            tokio::spawn(self.clone().stop_with(work.run.clone()));
        }
        let (sender, done) = watch::channel(None);
        let (worker, run) = (self.clone(), work.run.clone());
        let task = tokio::spawn(async move {
            let ended = worker.performed(&work).await.unwrap_or_else(failed);
            sender.send_replace(Some(Arc::new(ended)));
        });
        let under_way = UnderWay {
            run,
            done: done.clone(),
            task: task.abort_handle(),
        };
        all.insert(call.to_owned(), under_way);
        Some(done)
    }

    /// Stops the executions of a run when the run is over, which was cancelled then, or reached its time limit. The engine
    /// tells nobody who performs an action, so a worker asks.
    async fn stop_with(self, run: Arc<str>) {
        loop {
            tokio::time::sleep(LOOKED_AT_EVERY).await;
            if !lock(&self.0.under_way).values().any(|under_way| under_way.run == run) {
                return;
            }
            if self.0.engine.is_over(&run).await.unwrap_or(false) {
                lock(&self.0.under_way).retain(|_, under_way| {
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

    async fn performed(&self, work: &Work) -> Result<Done, String> {
        let (known, state) = self.state_for(work).await?;
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
            Some(decided) => self.0.runs.clone().asking(Arc::new(Deciding::new(decided.clone()))),
            None => self.0.runs.clone(),
        };
        let (children, mut wanted) = Children::of(&work.agent, self.ended_inside(work).await?, &work.begun);
        let children = Arc::new(children);
        let driven: Arc<dyn Elsewhere> = children.clone();
        let turn_ends_in = work.turn_is_up.then_some(TAKEN_WITHIN);
        let mut performed = std::pin::pin!(runs.perform(known.prepared, state, options, Some(driven), turn_ends_in));
        let mut wants: Vec<InnerWanted> = Vec::new();
        let mut are_more = true;
        let performed = loop {
            tokio::select! {
                performed = &mut performed => break performed,
                Some(wanted) = wanted.recv(), if !work.turn_is_up => {
                    are_more = wanted.is_part;
                    wants.push(self.wanted(wanted, &start)?);
                }
                () = tokio::time::sleep(SAID_WITHIN), if are_more && !wants.is_empty() => are_more = false,
            }
            if !are_more {
                fault::held().await;
                return Ok(Done {
                    wants,
                    ..Done::default()
                });
            }
        };
        let mut performed = performed.map_err(|error| error.to_string())?;
        children.set_times(&mut performed.records);
        let asks = matches!(
            performed.records.last().map(|last| &last.event),
            Some(Event::InputRequested(_))
        );
        Ok(Done {
            asks: children.asking().filter(|_| asks),
            lines: lines(&performed.records),
            inside: performed.inside.iter().map(InnerLines::of).collect(),
            ..Done::default()
        })
    }

    /// The runs of the execution's inner ensemble that have ended.
    async fn ended_inside(&self, work: &Work) -> Result<Vec<(String, Ended)>, String> {
        let mut ended = Vec::new();
        for InnerEnded { name, run, is_late } in &work.inner {
            let known = lock(&self.0.ended).get(run).cloned();
            let records = match known {
                Some(known) => known,
                None => {
                    let sent = self.0.engine.records(run, 0).await;
                    let sent = sent.and_then(|sent| self.0.engine.decoded(&sent.lines));
                    let records = Arc::new(sent.map_err(|error| error.to_string())?);
                    let mut all = lock(&self.0.ended);
                    if all.len() >= ENDED_KEPT {
                        all.clear();
                    }
                    all.insert(run.clone(), records.clone());
                    records
                }
            };
            let is_late = *is_late;
            ended.push((name.clone(), Ended { records, is_late }));
        }
        Ok(ended)
    }

    /// The run of an inner ensemble, as a workflow is given it.
    fn wanted(&self, wanted: InnerStart, outer: &StartRun) -> Result<InnerWanted, String> {
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
        Ok(InnerWanted {
            name: wanted.name,
            limit: wanted.limit,
            start: StartRun {
                at: self.0.runs.host().now(),
                ensemble: wanted.ensemble,
                file: file.to_owned(),
                started: wanted.started,
                inside: Some(outer.inside.as_ref().unwrap_or(&outer.started.models).clone()),
                goes_on_after: None,
                answered: None,
                ..outer.clone()
            },
        })
    }

    /// The run, and its state in which the execution is pending.
    async fn state_for(&self, work: &Work) -> Result<(Known, ConversationState), String> {
        let before = lock(&self.0.known).get(&work.run).cloned();
        let next = before.as_ref().map_or(0, |known| known.state.next_seq());
        let sent = self.0.engine.records(&work.run, next).await;
        let Records { start, lines, .. } = sent.map_err(|error| error.to_string())?;
        let mut records = self.0.engine.decoded(&lines).map_err(|error| error.to_string())?;
        // What was recorded since the execution was called belongs to others.
        records.retain(|record| record.seq < work.records);
        let mut known = match (before, start) {
            (Some(known), _) => known,
            (None, Some(start)) => {
                let prepared = self.prepare(&start)?;
                Known {
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
            known.apply(&record).map_err(|error| error.to_string())?;
        }
        self.keep(&work.run, &known);
        let mut state = known.state.clone();
        for record in records_for(&records, &work.agent) {
            state.apply(&record).map_err(|error| error.to_string())?;
        }
        Ok((known, state))
    }

    fn keep(&self, run: &Arc<str>, known: &Known) {
        let mut all = lock(&self.0.known);
        if all.len() >= KEPT && !all.contains_key(run) {
            // The records of whichever run is dropped are read again.
            let other = all.keys().next().cloned();
            other.and_then(|other| all.remove(&other));
        }
        all.insert(run.clone(), known.clone());
    }
}

#[cfg(test)]
mod tests {
    use ensemble_runs::{Host, Project};

    use super::*;

    /// A worker whose engine is not there, so that each execution that begins ends at once with an error.
    fn worker() -> Worker {
        let runs = Runs::open(Project::at("."), Host::system().unattended());
        let engine = Remote::at("http://127.0.0.1:9").expect("an address");
        Worker::new(runs, engine, Peers::new("here", None).expect("a client"))
    }

    fn work() -> Work {
        Work {
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
        let own = worker.claim();
        assert!(matches!(worker.asked("here", "call").await, Asked::Unknown));
        assert_eq!(worker.claimed(&own, "call", work()).await, None);
        // Whoever claims it anew begins it, and may be this worker.
        let begun = worker.claimed(&own, "call", work()).await.expect("it is begun");
        assert!(begun.error.is_some(), "{begun:?}");
        assert!(matches!(worker.asked("here", "call").await, Asked::Done(_)));
    }

    #[tokio::test]
    async fn a_call_is_given_up_only_for_who_asked_this_worker_for_it() {
        let worker = worker();
        let own = worker.claim();
        assert!(matches!(worker.asked("here", "call").await, Asked::Unknown));
        assert!(worker.claimed(&own, "another", work()).await.is_some());
        // One that was at this address before.
        assert!(matches!(worker.asked("before", "third").await, Asked::Unknown));
        assert!(worker.claimed(&own, "third", work()).await.is_some());
        // It goes on or has ended here: nothing is given up.
        assert!(matches!(worker.asked("here", "third").await, Asked::Done(_)));
        assert!(worker.claimed(&own, "third", work()).await.is_some());
    }
}
