//! The fold of one run, and those who follow it.
//!
//! Invariant: a follower that is too slow begins again, and never slows the run down.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ensemble_core::operator::OperatorRequest;
use ensemble_core::store::{RunLogFollower, StoredRun};
use ensemble_history::{DriverProcess, RunState};
use ensemble_runs::RunEventStream;
use ensemble_runs::service::run_service::RunService;
use ensemble_runs::start::recorded_run::{find_start_event, load_recorded_ensemble};
use ensemble_runs::{RunEvent, RunEventKind};
use hyper::body::Bytes;
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard, broadcast};
use tokio::time::Instant;

use crate::events::{event_frame, live_event_json};
use crate::reply::ApiFailure;
use crate::view::{DriverLocation, LiveRunState, RunView, with_request_texts};

/// Maximum number of events in the queue of a client. A slower client starts again.
const MAX_QUEUED_EVENTS: usize = 1024;
/// Poll interval of a run that no process drives.
const IDLE_POLL_INTERVAL: Duration = Duration::from_millis(300);
/// Time in which changes are collected before they are sent.
const EVENT_BATCH_TIME: Duration = Duration::from_millis(5);
/// How often a run inside a run is looked at.
const NESTED_RUN_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Run in memory, with the clients that follow it.
pub(crate) struct WatchedRun {
    pub(crate) run: Arc<dyn StoredRun>,
    fold: Mutex<WatchedRunState>,
    news: broadcast::Sender<Bytes>,
    is_pumped: AtomicBool,
}

/// View of a run with its unsent changes.
struct WatchedRunState {
    follower: Box<dyn RunLogFollower>,
    view: RunView,
    /// Rows that have changed since followers were told.
    pending: Vec<usize>,
    /// Has anything changed since then?
    is_changed: bool,
}

impl WatchedRun {
    /// Creates a watched run without records.
    pub(crate) fn new(run: Arc<dyn StoredRun>) -> Self {
        let fold = WatchedRunState {
            follower: run.open_follower(),
            view: RunView::default(),
            pending: Vec::new(),
            is_changed: false,
        };
        Self {
            run,
            fold: Mutex::new(fold),
            news: broadcast::Sender::new(MAX_QUEUED_EVENTS),
            is_pumped: AtomicBool::new(false),
        }
    }

    /// Returns whether a client follows the run.
    pub(crate) fn is_followed(&self) -> bool {
        self.news.receiver_count() > 0
    }

    /// Returns which process drives the run.
    pub(crate) fn driver_location(&self, runs: &RunService) -> DriverLocation {
        if runs.is_driven_here(&self.run.id().outermost_run_id()) {
            return DriverLocation::Here;
        }
        // A run of this process whose conversation is over is about to be closed.
        let elsewhere = self
            .run
            .lease_holder_pid()
            .filter(|process| *process != std::process::id());
        elsewhere.map_or(DriverLocation::Nowhere, DriverLocation::Elsewhere)
    }

    /// Locks the view of the run. Does not read new records.
    pub(crate) async fn lock_view(&self) -> impl std::ops::Deref<Target = RunView> {
        MutexGuard::map(self.fold.lock().await, |fold| &mut fold.view)
    }

    /// Reads the records since the last call, and sends the changes to the clients.
    pub(crate) async fn read_and_send_new_records(&self, runs: &RunService) -> Result<(), ApiFailure> {
        let mut fold = self.fold.lock().await;
        let records = fold.follower.poll_records().await?;
        let mut changed = Vec::new();
        for record in &records {
            changed.extend(fold.view.apply_record(record));
        }
        if fold.view.plan.is_none() && !records.is_empty() {
            let prepared = match find_start_event(&records) {
                Ok(started) => load_recorded_ensemble(&*self.run, started, runs.runs().project())
                    .await
                    .ok(),
                Err(_) => None,
            };
            fold.view.plan = prepared.map(|prepared| prepared.plan);
        }
        changed.extend(fold.view.set_live_state(self.read_live_state(runs)));
        if !records.is_empty() || !changed.is_empty() {
            self.send_changed_rows(&fold.view, changed, runs);
        }
        Ok(())
    }

    /// Reads the facts of the run that no record contains.
    fn read_live_state(&self, runs: &RunService) -> LiveRunState {
        let open = runs.live_open_requests(&self.run.id().outermost_run_id());
        let is_inner = self.run.id().nested_names().next().is_some();
        let agents = open.iter().filter_map(|open| match open.run_id() == self.run.id() {
            true => Some(open.pending_request().agent.clone()),
            false if is_inner => None,
            false => Some(open.pending_request().address.segments().first()?.agent.clone()),
        });
        LiveRunState {
            is_driven: self.driver_location(runs) != DriverLocation::Nowhere,
            asking_agents: agents.collect(),
        }
    }

    /// Returns the state of the run.
    pub(crate) fn run_state(&self, view: &RunView, driven: DriverLocation, runs: &RunService) -> RunState {
        let driver = match driven {
            DriverLocation::Here => DriverProcess::Process(std::process::id()),
            DriverLocation::Elsewhere(process) => DriverProcess::Process(process),
            DriverLocation::Nowhere => DriverProcess::NoProcess,
        };
        match runs.current_run_state(self.run.id(), view.run_history(), driver) {
            RunState::Running if !self.read_live_state(runs).asking_agents.is_empty() => RunState::Waiting,
            state => state,
        }
    }

    /// Converts the run to JSON without its rows, for a new client.
    pub(crate) async fn json_without_rows(&self, runs: &RunService) -> Value {
        self.json_without_rows_for_driver(self.driver_location(runs), runs)
            .await
    }

    /// Converts the run to JSON without its rows, driven by this process.
    async fn json_without_rows_for_driver(&self, driven: DriverLocation, runs: &RunService) -> Value {
        let view = self.lock_view().await;
        self.view_json_without_rows(&view, driven, runs)
    }

    /// Converts the view to JSON without its rows.
    fn view_json_without_rows(&self, view: &RunView, driven: DriverLocation, runs: &RunService) -> Value {
        let state = self.run_state(view, driven, runs);
        let mut head = view.json_without_rows(self.run.id(), driven, state);
        head["waiting"] = open_requests_json(runs, self);
        head
    }

    /// Subscribes to the events of the run, and starts the task that updates it. The first event has no rows.
    pub(crate) async fn subscribe_and_start_pump(
        self: &Arc<Self>,
        runs: &RunService,
    ) -> (Bytes, broadcast::Receiver<Bytes>) {
        let receiver = self.news.subscribe();
        let driver_location = self.driver_location(runs);
        let head = self.json_without_rows_for_driver(driver_location, runs).await;
        if !self.is_pumped.swap(true, Ordering::AcqRel) {
            tokio::spawn(update_while_followed(self.clone(), driver_location, runs.clone()));
        }
        (event_frame("begin", &json!({"head": head})), receiver)
    }

    /// Sends the head and the changed rows to the clients.
    fn send_changed_rows(&self, view: &RunView, mut changed: Vec<usize>, runs: &RunService) {
        if !self.is_followed() {
            return;
        }
        changed.sort_unstable();
        changed.dedup();
        let rows: Vec<Value> = changed.iter().filter_map(|at| view.short_row_json(*at)).collect();
        let mut head = self.view_json_without_rows(view, self.driver_location(runs), runs);
        for large in ["input", "context"] {
            head.as_object_mut().map(|head| head.remove(large));
        }
        let _ = self
            .news
            .send(event_frame("fold", &json!({"head": head, "rows": rows})));
    }

    /// Applies an event of the run that this process drives.
    async fn apply_driven_event(&self, happened: RunEvent, runs: &RunService) -> Result<(), ApiFailure> {
        let is_request = matches!(
            happened.kind,
            RunEventKind::QuestionAsked(_) | RunEventKind::PermissionRequested(_)
        );
        // A request inside this run makes this run wait as well.
        if happened.run != *self.run.id() && !is_request {
            return Ok(());
        }
        match happened.kind {
            RunEventKind::Committed(record) => {
                let mut fold = self.fold.lock().await;
                if record.seq == fold.view.next {
                    let changed = fold.view.apply_record(&record);
                    fold.pending.extend(changed);
                    fold.is_changed = true;
                    return Ok(());
                }
                let is_missing = record.seq > fold.view.next;
                drop(fold);
                if is_missing {
                    self.read_and_send_new_records(runs).await
                } else {
                    Ok(())
                }
            }
            RunEventKind::Live(live) => {
                if self.is_followed() {
                    let _ = self.news.send(event_frame("live", &live_event_json(&live)));
                }
                Ok(())
            }
            RunEventKind::QuestionAsked(_) | RunEventKind::PermissionRequested(_) => {
                self.fold.lock().await.is_changed = true;
                Ok(())
            }
        }
    }

    /// Sends the unsent changes.
    async fn send_pending_changes(&self, runs: &RunService) {
        let mut fold = self.fold.lock().await;
        let relit = fold.view.set_live_state(self.read_live_state(runs));
        if std::mem::take(&mut fold.is_changed) || !relit.is_empty() {
            let mut pending = std::mem::take(&mut fold.pending);
            pending.extend(relit);
            self.send_changed_rows(&fold.view, pending, runs);
        }
    }
}

/// Converts the open requests of a run in this process to JSON, in the order of the file.
///
/// For a nested run, these are its requests and those inside of it. Each has the id of the outermost run, which receives the answer.
fn open_requests_json(runs: &RunService, watched: &WatchedRun) -> Value {
    let (mut questions, mut permissions) = (Vec::new(), Vec::new());
    let (own, outermost) = (watched.run.id(), watched.run.id().outermost_run_id());
    let is_inside = |open: &OperatorRequest| {
        let asking = open.run_id().as_str();
        let inner_path = asking.strip_prefix(own.as_str());
        inner_path.is_some_and(|path| path.is_empty() || path.starts_with('/'))
    };
    let open_requests = runs.live_open_requests(&outermost).into_iter().filter(is_inside);
    for (position, open) in open_requests.enumerate() {
        let (mut document, list) = match &open {
            OperatorRequest::Question(question) => (json!(question), &mut questions),
            OperatorRequest::Permission(permission) => (json!(permission), &mut permissions),
        };
        document["position"] = json!(position);
        document["outermost_run"] = json!(outermost);
        list.push(with_request_texts(document, open.pending_request()));
    }
    json!({"questions": questions, "permissions": permissions})
}

/// Updates the run while a client follows it. `last` is the last known driver.
async fn update_while_followed(watched: Arc<WatchedRun>, mut last: DriverLocation, runs: RunService) {
    let is_inner = watched.run.id().nested_names().next().is_some();
    loop {
        if last != DriverLocation::Nowhere && !is_inner {
            let from = watched.lock_view().await.next;
            if let Ok(follow) = runs.follow_run(watched.run.id(), from).await {
                follow_driven_run_to_end(&watched, &runs, follow).await;
            }
        }
        if !watched.is_followed() {
            break;
        }
        tokio::time::sleep(if is_inner {
            NESTED_RUN_POLL_INTERVAL
        } else {
            IDLE_POLL_INTERVAL
        })
        .await;
        // What cannot be read now can perhaps be read later.
        let _ = watched.read_and_send_new_records(&runs).await;
        let now = watched.driver_location(&runs);
        if now != last {
            watched.send_changed_rows(&*watched.lock_view().await, Vec::new(), &runs);
        }
        last = now;
    }
    watched.is_pumped.store(false, Ordering::Release);
}

/// Applies the events of a run in this process until it ends or no client follows it.
async fn follow_driven_run_to_end(watched: &WatchedRun, runs: &RunService, mut follow: RunEventStream) {
    let mut send_at = None;
    while watched.is_followed() {
        let wait = send_at.unwrap_or_else(|| Instant::now() + IDLE_POLL_INTERVAL);
        let is_over = tokio::select! {
            biased;
            () = tokio::time::sleep_until(wait) => {
                watched.send_pending_changes(runs).await;
                send_at = None;
                false
            }
            next = follow.next() => match next {
                Ok(Some(happened)) => {
                    send_at.get_or_insert_with(|| Instant::now() + EVENT_BATCH_TIME);
                    watched.apply_driven_event(happened, runs).await.is_err()
                }
                Ok(None) | Err(_) => true,
            },
        };
        if is_over {
            break;
        }
    }
    watched.send_pending_changes(runs).await;
}
