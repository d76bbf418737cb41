//! The events of a run, for any number of subscribers.
//!
//! A subscriber receives every record of the run and its nested runs once and in order, with live events between them. Records from before
//! the subscription, and records that a slow subscriber missed, are read from the log. Missed live events and questions are lost;
//! [`RunHandle::open_requests`](crate::RunHandle::open_requests) returns the open requests. A subscriber that stops reading uses a bounded
//! amount of memory.
//!
//! Invariant: a subscriber receives every record once, in order, and never slows the run down.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use ensemble_core::conversation::{ConversationState, Event, Record};
use ensemble_core::operator::{PermissionRequest, QuestionRequest};
use ensemble_core::reporter::Reporter;
use ensemble_core::runner::BoxFuture;
use ensemble_core::store::{LogReadError, NestedRunName, RunId, RunLogFollower, StoredRun};
use ensemble_core::thread::{ExecutionAttemptRef, LiveOutputReceiver, LiveUpdate, ToolCall};
use ensemble_core::trace::{SpanContext, TraceParent};
use tokio::sync::Notify;

/// The maximum number of events that wait for a subscriber. A slower subscriber reads the records from the log.
const MAX_WAITING_EVENTS: usize = 1024;

/// An event of a run or of a nested run.
#[derive(Debug, Clone)]
pub struct RunEvent {
    /// The run: the followed run, or a nested run of it, whose names are in [`RunId::nested_names`].
    pub run: RunId,
    /// The kind of the event, with its data.
    pub kind: RunEventKind,
}

/// The kind of an event of a run.
#[derive(Debug, Clone)]
pub enum RunEventKind {
    /// A record was appended to the log.
    Committed(Arc<Record>),
    /// Live output that no record contains yet. The event can be lost, and its output can be discarded later.
    Live(LiveEvent),
    /// A question waits for [`RunHandle::answer_request`](crate::RunHandle::answer_request).
    QuestionAsked(QuestionRequest),
    /// A call waits for permission by [`RunHandle::answer_request`](crate::RunHandle::answer_request).
    PermissionRequested(PermissionRequest),
}

/// A piece of live output of an execution that is still running.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveEvent {
    /// The agent.
    pub agent: Arc<str>,
    /// Which of its executions, from 1.
    pub execution: u32,
    /// Which attempt of the execution, from 1.
    pub attempt: u32,
    /// The piece of output.
    pub kind: LiveEventKind,
}

/// The kind of a live event, which is not recorded.
#[derive(Debug, Clone, PartialEq)]
pub enum LiveEventKind {
    /// The next part of the model's text.
    Text(String),
    /// The next part of what the model thinks before its reply.
    Reasoning(String),
    /// A tool was started.
    ToolStarted(ToolCall),
    /// A tool has ended.
    ToolEnded(ToolCall),
    /// The text so far does not count, because another request replaces the current one.
    ReplyRestarted,
    /// The model is asked again after a pause.
    Retrying {
        /// The pause.
        pause: Duration,
        /// The reason for the failure of the request.
        error: String,
    },
    /// The requests of a model profile are slowed down, or are no longer slowed down: the text for the user.
    PaceChanged(String),
}

/// A receiver of the records of a run and its nested runs, which creates a trace from them.
pub trait RunTracer: Send + Sync {
    /// Returns the span that contains the run.
    fn parent_span(&self) -> Option<TraceParent>;

    /// Returns whether this trace is recorded. Processes that the run starts get the same decision.
    fn is_sampled(&self, trace: &[u8; 16]) -> bool;

    /// Returns the values that no record may contain.
    fn secret_values(&self) -> Vec<String>;

    /// Receives a record that the run or a nested run has committed. Implementations must not block.
    fn observe_record(&self, run: &RunId, record: &Record, state: &ConversationState);
}

impl RunEvent {
    /// Returns whether both events are the same question, or the same permission request.
    fn is_same_request(&self, other: &Self) -> bool {
        match (&self.kind, &other.kind) {
            (RunEventKind::QuestionAsked(one), RunEventKind::QuestionAsked(other)) => one == other,
            (RunEventKind::PermissionRequested(one), RunEventKind::PermissionRequested(other)) => one == other,
            _ => false,
        }
    }
}

/// A distributor of run events to the tracer and to subscribers. Clones share the subscribers.
#[derive(Clone, Default)]
pub(crate) struct RunEventHub(Arc<HubSubscribers>);

/// The shared state of an event hub: tracer, subscribers and their queues.
#[derive(Default)]
struct HubSubscribers {
    /// The tracer of the runs.
    tracer: Option<Arc<dyn RunTracer>>,
    /// The run that is followed; others are inside it.
    outermost: OnceLock<RunId>,
    /// The number of subscribers. Without subscribers, events are not copied.
    count: AtomicUsize,
    queues: Mutex<EventQueues>,
}

/// The open queues of all subscribers.
#[derive(Debug, Default)]
struct EventQueues {
    open: Vec<Weak<EventQueue>>,
    /// The run is closed: nothing more is sent.
    are_closed: bool,
}

/// The queue of events of one subscriber.
#[derive(Debug, Default)]
struct EventQueue {
    state: Mutex<EventQueueState>,
    changed: Notify,
}

/// The waiting events of a subscriber. If `is_behind`, the queue was emptied because the subscriber was too slow.
#[derive(Debug, Default)]
struct EventQueueState {
    events: VecDeque<RunEvent>,
    /// Events were dropped: the log has to be read.
    is_behind: bool,
    /// No more events come.
    is_closed: bool,
}

/// Locks the mutex, also after a panic of another thread.
fn lock_ignoring_poison<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RunEventHub {
    /// Creates a hub that also sends all records to this tracer.
    pub(crate) fn with_tracer(tracer: Option<Arc<dyn RunTracer>>) -> Self {
        Self(Arc::new(HubSubscribers {
            tracer,
            ..HubSubscribers::default()
        }))
    }

    /// Returns the tracer of the runs.
    pub(crate) fn tracer(&self) -> Option<&dyn RunTracer> {
        self.0.tracer.as_deref()
    }

    /// Returns the span of the segment that starts with record `seq` of this run, inside the parent span. Returns `None` without a tracer.
    pub(crate) fn segment_span_context(
        &self,
        run: &RunId,
        seq: u64,
        parent: Option<&TraceParent>,
    ) -> Option<SpanContext> {
        let tracer = self.tracer()?;
        let parent = parent.and_then(TraceParent::to_span_context);
        let segment = SpanContext::for_segment(run.as_str(), seq, parent.as_ref());
        Some(SpanContext {
            is_sampled: tracer.is_sampled(&segment.trace),
            ..segment
        })
    }

    /// Sets the id of the outermost run. A second call has no effect.
    pub(crate) fn set_outermost_run(&self, outermost: RunId) {
        let _ = self.0.outermost.set(outermost);
    }

    /// Returns whether there are subscribers.
    pub(crate) fn has_subscribers(&self) -> bool {
        self.0.count.load(Ordering::Acquire) > 0
    }

    /// Sends an event to all subscribers, and removes queues of dropped subscribers. Creates the event only if there are subscribers.
    pub(crate) fn send_event(&self, run: &RunId, kind: impl FnOnce() -> RunEventKind) {
        if !self.has_subscribers() {
            return;
        }
        let event = RunEvent {
            run: run.clone(),
            kind: kind(),
        };
        let mut queues = lock_ignoring_poison(&self.0.queues);
        queues.open.retain(|queue| {
            let queue = queue.upgrade();
            if let Some(queue) = &queue {
                queue.push_event(event.clone());
            }
            queue.is_some()
        });
        self.0.count.store(queues.open.len(), Ordering::Release);
    }

    /// Closes all queues. Subscribers end after they have read the waiting events.
    pub(crate) fn close_queues(&self) {
        let mut queues = lock_ignoring_poison(&self.0.queues);
        queues.are_closed = true;
        for queue in queues.open.iter().filter_map(Weak::upgrade) {
            lock_ignoring_poison(&queue.state).is_closed = true;
            queue.changed.notify_one();
        }
    }

    /// Subscribes to the events of a run, from the record with the number `from`.
    pub(crate) fn subscribe_run(&self, run: Arc<dyn StoredRun>, from: u64) -> RunEventSubscription {
        let queue = Arc::new(EventQueue::default());
        let mut queues = lock_ignoring_poison(&self.0.queues);
        lock_ignoring_poison(&queue.state).is_closed = queues.are_closed;
        queues.open.push(Arc::downgrade(&queue));
        self.0.count.store(queues.open.len(), Ordering::Release);
        drop(queues);
        RunEventSubscription {
            queue,
            log: RunTreeReader::new(run, from),
            is_new: true,
            ready: VecDeque::new(),
            open: Vec::new(),
        }
    }

    /// Creates a reporter that sends the records of one run to the subscribers and the tracer.
    pub(crate) fn create_run_reporter(&self, run: RunId) -> RunHubReporter {
        RunHubReporter { hub: self.clone(), run }
    }
}

impl EventQueue {
    /// Appends an event and wakes the subscriber. Empties a full queue and marks the subscriber as behind.
    fn push_event(&self, event: RunEvent) {
        let mut state = lock_ignoring_poison(&self.state);
        if state.is_behind {
            return;
        }
        if state.events.len() >= MAX_WAITING_EVENTS {
            state.events.clear();
            state.is_behind = true;
        } else {
            state.events.push_back(event);
        }
        drop(state);
        self.changed.notify_one();
    }
}

/// A reporter that sends the records of one run to the hub.
pub(crate) struct RunHubReporter {
    hub: RunEventHub,
    run: RunId,
}

impl Reporter for RunHubReporter {
    fn report_event(&mut self, record: &Record, state: &ConversationState) {
        if let Some(tracer) = self.hub.tracer() {
            tracer.observe_record(&self.run, record, state);
        }
        self.hub
            .send_event(&self.run, || RunEventKind::Committed(Arc::new(record.clone())));
    }
}

/// A receiver of live output that forwards updates to subscribers and to another receiver. The other receiver gets updates of nested runs
/// only on request.
pub(crate) struct HubLiveOutput {
    pub(crate) hub: RunEventHub,
    pub(crate) live_output: Option<Arc<dyn LiveOutputReceiver>>,
}

impl LiveOutputReceiver for HubLiveOutput {
    fn receive_update(&self, source: &ExecutionAttemptRef, update: LiveUpdate<'_>) {
        let run = RunId::new(Arc::clone(&source.run));
        if let Some(live_output) = self
            .live_output
            .as_ref()
            .filter(|live_output| live_output.wants_nested_runs() || self.hub.0.outermost.get() == Some(&run))
        {
            live_output.receive_update(source, update);
        }
        self.hub.send_event(&run, || {
            RunEventKind::Live(LiveEvent {
                agent: Arc::clone(&source.agent),
                execution: source.execution,
                attempt: source.attempt,
                kind: LiveEventKind::from_update(update),
            })
        });
    }
}

impl LiveEventKind {
    /// Creates the kind of a live event from an update.
    fn from_update(update: LiveUpdate<'_>) -> Self {
        match update {
            LiveUpdate::Text(text) => Self::Text(text.to_owned()),
            LiveUpdate::Reasoning(text) => Self::Reasoning(text.to_owned()),
            LiveUpdate::ToolStarted(call) => Self::ToolStarted(call.clone()),
            LiveUpdate::ToolEnded(call) => Self::ToolEnded(call.clone()),
            LiveUpdate::Restarted => Self::ReplyRestarted,
            LiveUpdate::Retrying { pause, error } => Self::Retrying {
                pause,
                error: error.to_owned(),
            },
            LiveUpdate::PaceChanged { text } => Self::PaceChanged(text.to_owned()),
        }
    }
}

/// The events of a run of this process that a client has not received yet.
pub(crate) struct RunEventSubscription {
    queue: Arc<EventQueue>,
    log: RunTreeReader,
    /// The log was not read yet.
    is_new: bool,
    /// Records that were read from the log and not handed out.
    ready: VecDeque<RunEvent>,
    /// The requests that were open when the subscription started. The queue also contains those that are opened at the same moment.
    open: Vec<RunEvent>,
}

impl RunEventSubscription {
    /// Adds open questions and permission requests, which are returned after the records of the log.
    pub(crate) fn with_open_requests(self, open: Vec<RunEvent>) -> Self {
        Self { open, ..self }
    }

    /// Waits for the next event and returns the event. Returns `None` when the run is closed and every event was returned.
    pub(super) async fn next_event(&mut self) -> Result<Option<RunEvent>, LogReadError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            if std::mem::take(&mut self.is_new) {
                self.ready.extend(self.log.read_unread_records().await?);
                self.ready.extend(self.open.iter().cloned());
                continue;
            }
            let (event, is_closed) = {
                let mut state = lock_ignoring_poison(&self.queue.state);
                let event = match state.events.pop_front() {
                    None if state.is_behind => {
                        // From here on events are queued; what came before them is in the log.
                        state.is_behind = false;
                        None
                    }
                    Some(event) => Some(Some(event)),
                    None => Some(None),
                };
                (event, state.is_closed)
            };
            match event {
                None => self.ready.extend(self.log.read_unread_records().await?),
                Some(Some(event)) => self.queue_unread_event(event).await?,
                Some(None) if is_closed => return Ok(None),
                Some(None) => self.queue.changed.notified().await,
            }
        }
    }

    /// Queues the event for the client, unless the event was returned before. Reads missing records from the log first.
    async fn queue_unread_event(&mut self, event: RunEvent) -> Result<(), LogReadError> {
        let RunEventKind::Committed(record) = &event.kind else {
            let twin = self.open.iter().position(|open| open.is_same_request(&event));
            match twin {
                Some(at) => drop(self.open.swap_remove(at)),
                None => self.ready.push_back(event),
            }
            return Ok(());
        };
        let next = self.log.next_unread_seq(&event.run);
        if record.seq == next {
            self.log.mark_record_returned(&event.run, record.seq);
            self.ready.push_back(event);
        } else if record.seq > next {
            // A subscriber that joined in the middle of a run inside the run: its beginning is in the log.
            let missing = self.log.read_nested_unread(&event.run).await?;
            self.ready.extend(missing);
        }
        Ok(())
    }
}

/// A reader of the records of a run and of its nested runs, each record once.
pub(crate) struct RunTreeReader {
    run: Arc<dyn StoredRun>,
    /// The number of the next record of each run that is handed out; 0 for a run that is not named.
    next: HashMap<RunId, u64>,
    logs: HashMap<RunId, FollowedLog>,
}

/// A log of one run that is read step by step, with its open executions.
struct FollowedLog {
    run: Arc<dyn StoredRun>,
    follower: Box<dyn RunLogFollower>,
    /// Executions that have begun and not ended.
    open: Vec<(Arc<str>, u32)>,
}

impl FollowedLog {
    /// Opens the log of this run.
    fn new(run: Arc<dyn StoredRun>) -> Self {
        Self {
            follower: run.open_follower(),
            run,
            open: Vec::new(),
        }
    }
}

impl RunTreeReader {
    /// Creates a reader that starts at the record with the number `from`.
    pub(crate) fn new(run: Arc<dyn StoredRun>, from: u64) -> Self {
        Self {
            next: HashMap::from([(run.id().clone(), from)]),
            run,
            logs: HashMap::new(),
        }
    }

    /// Returns the number of the next record of this run that was not returned.
    fn next_unread_seq(&self, run: &RunId) -> u64 {
        self.next.get(run).copied().unwrap_or_default()
    }

    /// Marks the record with this number, and all earlier records of the run, as returned.
    fn mark_record_returned(&mut self, run: &RunId, seq: u64) {
        self.next.insert(run.clone(), seq + 1);
    }

    /// Reads all records of the run and its nested runs that were not returned.
    pub(crate) async fn read_unread_records(&mut self) -> Result<Vec<RunEvent>, LogReadError> {
        let mut events = Vec::new();
        self.read_run_log(self.run.clone(), &mut events).await?;
        Ok(events)
    }

    /// Reads the records of one nested run that were not returned.
    async fn read_nested_unread(&mut self, run: &RunId) -> Result<Vec<RunEvent>, LogReadError> {
        let mut events = Vec::new();
        if let Some(stored_run) = self.find_nested_run(run).await {
            self.read_run_log(stored_run, &mut events).await?;
        }
        Ok(events)
    }

    /// Finds a nested run by its id.
    async fn find_nested_run(&self, run: &RunId) -> Option<Arc<dyn StoredRun>> {
        let mut stored_run = self.run.clone();
        let depth = self.run.id().nested_names().count();
        for name in run.nested_names().skip(depth) {
            stored_run = stored_run.find_nested_run(name).await.ok()??;
        }
        (stored_run.id() == run).then_some(stored_run)
    }

    /// Reads the log of a run. Where an execution ends, reads the nested runs of the execution first.
    fn read_run_log<'a>(
        &'a mut self,
        run: Arc<dyn StoredRun>,
        events: &'a mut Vec<RunEvent>,
    ) -> BoxFuture<'a, Result<(), LogReadError>> {
        Box::pin(async move {
            let id = run.id().clone();
            let log = self
                .logs
                .entry(id.clone())
                .or_insert_with(|| FollowedLog::new(run.clone()));
            let records = match log.follower.poll_records().await {
                Ok(records) => records,
                // A run that was only just created has no log yet.
                Err(LogReadError::Unavailable { .. }) if self.next_unread_seq(&id) == 0 => return Ok(()),
                Err(error) => return Err(error),
            };
            for record in records {
                let ended_execution = self.track_open_executions(&id, &record);
                if let Some((agent, execution)) = ended_execution {
                    self.read_execution_nested_runs(&id, &agent, execution, events).await?;
                }
                if record.seq < self.next_unread_seq(&id) {
                    continue;
                }
                self.mark_record_returned(&id, record.seq);
                events.push(RunEvent {
                    run: id.clone(),
                    kind: RunEventKind::Committed(Arc::new(record)),
                });
            }
            let open = self.logs.get(&id).map(|log| log.open.clone()).unwrap_or_default();
            for (agent, execution) in open {
                self.read_execution_nested_runs(&id, &agent, execution, events).await?;
            }
            Ok(())
        })
    }

    /// Updates the open executions. Returns the agent and execution that the record ends, if the record was not returned before.
    fn track_open_executions(&mut self, id: &RunId, record: &Record) -> Option<(Arc<str>, u32)> {
        let next = self.next_unread_seq(id);
        let log = self.logs.get_mut(id)?;
        match &record.event {
            Event::ExecutionStarted(started) => {
                let key = (started.agent.clone(), started.execution);
                if !log.open.contains(&key) {
                    log.open.push(key);
                }
                None
            }
            Event::ExecutionFinished(finished) => {
                let key = (finished.agent.clone(), finished.execution);
                log.open.retain(|open| *open != key);
                (record.seq >= next).then_some(key)
            }
            _ => None,
        }
    }

    /// Reads the logs of the nested runs of one execution.
    async fn read_execution_nested_runs(
        &mut self,
        id: &RunId,
        agent: &str,
        execution: u32,
        events: &mut Vec<RunEvent>,
    ) -> Result<(), LogReadError> {
        let Some(run) = self.logs.get(id).map(|log| log.run.clone()) else {
            return Ok(());
        };
        let names = run.list_nested_run_names().await.unwrap_or_default();
        for name in names
            .iter()
            .filter(|name| NestedRunName::belongs_to_execution(name, agent, execution))
        {
            if let Ok(Some(inner)) = run.find_nested_run(name).await {
                self.read_run_log(inner, events).await?;
            }
        }
        Ok(())
    }
}
