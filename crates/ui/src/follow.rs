//! The fold of one run, and those who follow it.
//!
//! Invariant: a follower that is too slow begins again, and never slows the run down.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ensemble_core::operator::OperatorRequest;
use ensemble_core::store::{RunFollower, RunId, StoredRun};
use ensemble_history::Driver;
use ensemble_runs::service::run_service::{Follow, RunService};
use ensemble_runs::start::recorded_run::{recorded_ensemble, started};
use ensemble_runs::{RunEvent, RunEventKind};
use hyper::body::Bytes;
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard, broadcast};
use tokio::time::Instant;

use crate::events::{event, piece};
use crate::reply::Failure;
use crate::view::{Driven, View};

/// Most events that wait for a client; one that is slower begins again.
const WAITING: usize = 1024;
/// How often a run is looked at that nobody drives.
const IDLE: Duration = Duration::from_millis(300);
/// How long changes are gathered before they are told: an execution that ends makes several records at once.
const GATHERING: Duration = Duration::from_millis(5);
/// How often a run inside a run is looked at.
const INNER: Duration = Duration::from_millis(20);

/// A run, its fold, and those who follow it.
pub(crate) struct Watched {
    pub(crate) run: Arc<dyn StoredRun>,
    fold: Mutex<Fold>,
    news: broadcast::Sender<Bytes>,
    is_pumped: AtomicBool,
}

struct Fold {
    follower: Box<dyn RunFollower>,
    view: View,
    /// Rows that have changed since followers were told.
    pending: Vec<usize>,
    /// Has anything changed since then?
    is_changed: bool,
}

impl Watched {
    pub(crate) fn new(run: Arc<dyn StoredRun>) -> Self {
        let fold = Fold {
            follower: run.follow(),
            view: View::default(),
            pending: Vec::new(),
            is_changed: false,
        };
        Self {
            run,
            fold: Mutex::new(fold),
            news: broadcast::Sender::new(WAITING),
            is_pumped: AtomicBool::new(false),
        }
    }

    /// Does anybody follow it?
    pub(crate) fn is_followed(&self) -> bool {
        self.news.receiver_count() > 0
    }

    /// Returns which process drives the run.
    pub(crate) fn driven(&self, runs: &RunService) -> Driven {
        let outermost = self.run.id().as_str().split("/sub/").next().unwrap_or_default();
        if runs.is_driven_here(&RunId::new(outermost)) {
            return Driven::Here;
        }
        // A run of this process whose conversation is over is about to be closed.
        let elsewhere = self.run.driver().filter(|process| *process != std::process::id());
        elsewhere.map_or(Driven::Nowhere, Driven::Elsewhere)
    }

    /// The view, with all records.
    pub(crate) async fn view(&self) -> impl std::ops::Deref<Target = View> {
        MutexGuard::map(self.fold.lock().await, |fold| &mut fold.view)
    }

    /// Reads the records that were written since the last time, and tells them to those who follow.
    pub(crate) async fn catch_up(&self, runs: &RunService) -> Result<(), Failure> {
        let mut fold = self.fold.lock().await;
        let records = fold.follower.poll().await?;
        let mut changed = Vec::new();
        for record in &records {
            changed.extend(fold.view.take(record));
        }
        if fold.view.plan.is_none() && !records.is_empty() {
            let prepared = match started(&records) {
                Ok(started) => recorded_ensemble(&*self.run, started, runs.runs().project()).await.ok(),
                Err(_) => None,
            };
            fold.view.plan = prepared.map(|prepared| prepared.plan);
        }
        if !records.is_empty() {
            self.tell_changes(&fold.view, changed, runs);
        }
        Ok(())
    }

    /// Everything about the run that is not a row: for a client that begins.
    pub(crate) async fn head(&self, runs: &RunService) -> Value {
        self.head_as(self.driven(runs), runs).await
    }

    async fn head_as(&self, driven: Driven, runs: &RunService) -> Value {
        let view = self.view().await;
        self.current_head(&view, driven, runs)
    }

    fn current_head(&self, view: &View, driven: Driven, runs: &RunService) -> Value {
        let driver = match driven {
            Driven::Here => Driver::Process(std::process::id()),
            Driven::Elsewhere(process) => Driver::Process(process),
            Driven::Nowhere => Driver::Nobody,
        };
        let state = runs.state(self.run.id(), view.history(), driver);
        let mut head = view.head(self.run.id(), driven, state);
        head["waiting"] = waiting(runs, self);
        head
    }

    /// Follows the run: each event as it is sent to clients. The first one has no rows.
    pub(crate) async fn subscribe(self: &Arc<Self>, runs: &RunService) -> (Bytes, broadcast::Receiver<Bytes>) {
        let receiver = self.news.subscribe();
        let told = self.driven(runs);
        let head = self.head_as(told, runs).await;
        if !self.is_pumped.swap(true, Ordering::AcqRel) {
            tokio::spawn(pump(self.clone(), told, runs.clone()));
        }
        (event("begin", &json!({"head": head})), receiver)
    }

    fn tell_changes(&self, view: &View, mut changed: Vec<usize>, runs: &RunService) {
        if !self.is_followed() {
            return;
        }
        changed.sort_unstable();
        changed.dedup();
        let rows: Vec<Value> = changed.iter().filter_map(|at| view.row(*at)).collect();
        let mut head = self.current_head(view, self.driven(runs), runs);
        for large in ["input", "context"] {
            head.as_object_mut().map(|head| head.remove(large));
        }
        let _ = self.news.send(event("fold", &json!({"head": head, "rows": rows})));
    }

    /// An event of the run that this process drives.
    async fn take(&self, happened: RunEvent, runs: &RunService) -> Result<(), Failure> {
        if happened.run != *self.run.id() {
            return Ok(());
        }
        match happened.kind {
            RunEventKind::Committed(record) => {
                let mut fold = self.fold.lock().await;
                if record.seq == fold.view.next {
                    let changed = fold.view.take(&record);
                    fold.pending.extend(changed);
                    fold.is_changed = true;
                    return Ok(());
                }
                let is_missing = record.seq > fold.view.next;
                drop(fold);
                if is_missing { self.catch_up(runs).await } else { Ok(()) }
            }
            RunEventKind::Live(live) => {
                if self.is_followed() {
                    let _ = self.news.send(event("live", &piece(&live)));
                }
                Ok(())
            }
            RunEventKind::QuestionAsked(_) | RunEventKind::PermissionRequested(_) => {
                self.fold.lock().await.is_changed = true;
                Ok(())
            }
        }
    }

    /// Tells what has changed.
    async fn flush(&self, runs: &RunService) {
        let mut fold = self.fold.lock().await;
        if std::mem::take(&mut fold.is_changed) {
            let pending = std::mem::take(&mut fold.pending);
            self.tell_changes(&fold.view, pending, runs);
        }
    }
}

/// The questions and permission requests of a run that this process drives, in the order of the file.
fn waiting(runs: &RunService, watched: &Watched) -> Value {
    let (mut questions, mut permissions) = (Vec::new(), Vec::new());
    for (position, open) in runs.open_requests(watched.run.id()).into_iter().enumerate() {
        let (mut document, list) = match &open {
            OperatorRequest::Question(question) => (json!(question), &mut questions),
            OperatorRequest::Permission(permission) => (json!(permission), &mut permissions),
        };
        document["position"] = json!(position);
        list.push(document);
    }
    json!({"questions": questions, "permissions": permissions})
}

/// Keeps the fold up to date while anybody follows it. `last`: who drives the run, as it was told; that may have changed since.
async fn pump(watched: Arc<Watched>, mut last: Driven, runs: RunService) {
    let is_inner = watched.run.id().path().next().is_some();
    loop {
        if last != Driven::Nowhere && !is_inner {
            let from = watched.view().await.next;
            if let Ok(follow) = runs.follow(watched.run.id(), from).await {
                follow_to_end(&watched, &runs, follow).await;
            }
        }
        if !watched.is_followed() {
            break;
        }
        tokio::time::sleep(if is_inner { INNER } else { IDLE }).await;
        // What cannot be read now can perhaps be read later.
        let _ = watched.catch_up(&runs).await;
        let now = watched.driven(&runs);
        if now != last {
            watched.tell_changes(&*watched.view().await, Vec::new(), &runs);
        }
        last = now;
    }
    watched.is_pumped.store(false, Ordering::Release);
}

async fn follow_to_end(watched: &Watched, runs: &RunService, mut follow: Follow) {
    let mut due = None;
    while watched.is_followed() {
        let wait = due.unwrap_or_else(|| Instant::now() + IDLE);
        let is_over = tokio::select! {
            biased;
            () = tokio::time::sleep_until(wait) => {
                watched.flush(runs).await;
                due = None;
                false
            }
            next = follow.next() => match next {
                Ok(Some(happened)) => {
                    due.get_or_insert_with(|| Instant::now() + GATHERING);
                    watched.take(happened, runs).await.is_err()
                }
                Ok(None) | Err(_) => true,
            },
        };
        if is_over {
            break;
        }
    }
    watched.flush(runs).await;
}
