//! The way from a runner to the log: what happens inside an execution is recorded when it happens.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{mpsc, oneshot};

use crate::conversation::{
    AttemptScope, Event, PartAttemptEnded, PermissionDecided, RecordedExchange, RecordedExchanges, ReplyReceived,
    ToolCallEnded, ToolCallStarted,
};
use crate::thread::{ThreadIteration, ToolCall};
use ensemble_language::data::ModelUsage;

/// An event for the log.
#[derive(Debug)]
pub struct UncommittedEvent {
    /// The event.
    pub event: Event,
    /// Hears when the event is in the log, as safe as the durability of the log promises.
    pub on_logged: Option<oneshot::Sender<()>>,
}

/// The sending end of the way to the log.
/// Events are boxed, because a channel reserves the space of many messages.
pub type LogSender = mpsc::UnboundedSender<Box<UncommittedEvent>>;

/// Records what happens inside one execution, inside one of its parts, or inside an agent that it uses as a tool.
///
/// The default records nothing.
#[derive(Debug, Clone, Default)]
pub struct ExecutionRecorder(Option<Box<RecorderState>>);

#[derive(Debug, Clone)]
struct RecorderState {
    log: LogSender,
    scope: AttemptScope,
    /// What was recorded of the execution before this attempt, which goes on from there.
    earlier: Option<Arc<RecordedExchanges>>,
    /// The tools that somebody has permitted for the rest of the run.
    permitted_tools: Arc<BTreeSet<Arc<str>>>,
    /// The names and ids of the calls of this attempt, in their order.
    calls: RecordedCallList,
}

/// The names and ids of calls, in their order. Clones share them.
type RecordedCallList = Arc<Mutex<Vec<(Arc<str>, Arc<str>)>>>;

/// The numbers of a call in its execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallPosition {
    /// The number among the calls of the same tool, from 1.
    pub of_tool: u32,
    /// The position among all calls, from 0.
    pub index: u32,
}

impl ExecutionRecorder {
    /// Sends the events of this attempt there. `before`: what was recorded of the execution before it.
    pub fn new(log: LogSender, within: AttemptScope, before: Option<Arc<RecordedExchanges>>) -> Self {
        Self(Some(Box::new(RecorderState {
            log,
            scope: within,
            earlier: before,
            permitted_tools: Arc::default(),
            calls: RecordedCallList::default(),
        })))
    }

    /// With the tools that somebody has permitted for the rest of the run.
    #[must_use]
    pub fn with_permitted_tools(mut self, permitted: Arc<BTreeSet<Arc<str>>>) -> Self {
        if let Some(recording) = &mut self.0 {
            recording.permitted_tools = permitted;
        }
        self
    }

    /// Returns whether somebody has permitted this tool for the rest of the run, before this attempt.
    pub fn is_tool_permitted(&self, tool: &str) -> bool {
        self.0
            .as_ref()
            .is_some_and(|recording| recording.permitted_tools.contains(tool))
    }

    /// Returns the records of a part of this execution, in an attempt of the part.
    #[must_use]
    pub fn for_part_attempt(&self, key: &Arc<str>, attempt: u32) -> Self {
        self.with_changed_scope(|within| {
            within.part = Some(key.clone());
            within.attempt = attempt;
        })
    }

    /// Returns the records of an agent that is used as a tool by this call.
    #[must_use]
    pub fn for_tool_call(&self, call: &str) -> Self {
        self.with_changed_scope(|within| within.outer_calls.push(call.into()))
    }

    /// Without what was recorded before: the execution starts afresh.
    #[must_use]
    pub fn without_earlier_records(&self) -> Self {
        let mut records = self.clone();
        if let Some(recording) = &mut records.0 {
            recording.earlier = None;
            recording.calls = RecordedCallList::default();
        }
        records
    }

    fn with_changed_scope(&self, change: impl FnOnce(&mut AttemptScope)) -> Self {
        let mut records = self.clone();
        if let Some(recording) = &mut records.0 {
            change(&mut recording.scope);
            recording.calls = RecordedCallList::default();
        }
        records
    }

    /// Returns whether anything is recorded.
    pub fn is_recording(&self) -> bool {
        self.0.is_some()
    }

    /// Returns whether these are the records of an agent that is used as a tool.
    pub fn is_in_tool_call(&self) -> bool {
        let recording = self.0.as_ref();
        recording.is_some_and(|recording| !recording.scope.outer_calls.is_empty())
    }

    /// Returns the records before this attempt, which the attempt continues.
    pub fn earlier_exchange(&self) -> Option<&RecordedExchange> {
        let recording = self.0.as_ref()?;
        let within = &recording.scope;
        recording
            .earlier
            .as_ref()?
            .get_exchange(within.part.as_ref(), &within.outer_calls)
    }

    /// Returns the numbers of a call among those of the replies of this execution, which are the same after a resume. A
    /// call that no reply has is added.
    pub fn find_or_add_call_position(&self, name: &str, id: &str) -> CallPosition {
        let Some(recording) = &self.0 else {
            return CallPosition { of_tool: 1, index: 0 };
        };
        let before = self
            .earlier_exchange()
            .into_iter()
            .flat_map(|before| &before.iterations);
        let before = before.flat_map(|iteration| &iteration.tool_calls);
        let mut calls: Vec<(Arc<str>, Arc<str>)> = before
            .map(|call| (call.name.as_str().into(), call.id.as_str().into()))
            .collect();
        let mut current = recording.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.extend(current.iter().cloned());
        let is_it = |call: &(Arc<str>, Arc<str>)| *call.0 == *name && *call.1 == *id;
        let index = calls.iter().position(is_it).unwrap_or_else(|| {
            current.push((name.into(), id.into()));
            calls.push((name.into(), id.into()));
            calls.len() - 1
        });
        let of_tool = calls[..=index].iter().filter(|call| *call.0 == *name).count();
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        CallPosition {
            of_tool: number(of_tool),
            index: number(index),
        }
    }

    /// Records a reply, with what was used since the last record, and waits until it is in the log.
    pub async fn record_reply_and_wait(&self, iteration: ThreadIteration, usage: ModelUsage) {
        if let Some(recording) = &self.0 {
            let calls = iteration.tool_calls.iter();
            let calls = calls.map(|call| (call.name.as_str().into(), call.id.as_str().into()));
            let mut recorded_calls = recording.calls.lock().unwrap_or_else(PoisonError::into_inner);
            recorded_calls.extend(calls);
        }
        let event = |within| {
            Event::ReplyReceived(Box::new(ReplyReceived {
                within,
                iteration,
                usage,
            }))
        };
        self.send_event_and_wait(event).await;
    }

    /// Records a decision about a call, and waits until it is in the log. `decided`: the event without its attempt.
    pub async fn record_permission_and_wait(&self, decided: PermissionDecided) {
        let event = |within| Event::PermissionDecided(Box::new(PermissionDecided { within, ..decided }));
        self.send_event_and_wait(event).await;
    }

    /// Records that the call is about to be made, and waits until it is in the log.
    pub async fn record_call_start_and_wait(&self, call: &str) {
        let event = |within| {
            Event::ToolCallStarted(Box::new(ToolCallStarted {
                within,
                call: call.into(),
            }))
        };
        self.send_event_and_wait(event).await;
    }

    /// Records the end of a call, and waits until it is in the log.
    pub async fn record_call_end_and_wait(&self, call: &ToolCall, usage: ModelUsage) {
        let event = |within| {
            Event::ToolCallEnded(Box::new(ToolCallEnded {
                within,
                call: call.clone(),
                usage: (usage != ModelUsage::default()).then_some(usage),
            }))
        };
        self.send_event_and_wait(event).await;
    }

    /// Records the end of a part, or of one of its attempts.
    pub fn record_part_end(&self, part: PartAttemptEnded) {
        if let Some(recording) = &self.0 {
            // Nobody takes it any more once the run is over.
            let _is_over = recording.log.send(Box::new(UncommittedEvent {
                event: Event::PartEnded(Box::new(part)),
                on_logged: None,
            }));
        }
    }

    async fn send_event_and_wait(&self, event: impl FnOnce(AttemptScope) -> Event) {
        let Some(recording) = &self.0 else { return };
        let (sender, logged) = oneshot::channel();
        let send_result = recording.log.send(Box::new(UncommittedEvent {
            event: event(recording.scope.clone()),
            on_logged: Some(sender),
        }));
        if send_result.is_ok() {
            // An error means that the run is over. Then this future is dropped, too.
            let _is_over = logged.await;
        }
    }
}
