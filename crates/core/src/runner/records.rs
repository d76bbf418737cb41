//! The way from a runner to the log: what happens inside an execution is recorded when it happens.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{mpsc, oneshot};

use crate::conversation::{
    Event, Exchange, Exchanges, PartEnded, PermissionDecided, ReplyReceived, ToolCallEnded, ToolCallStarted, Within,
};
use crate::thread::{Iteration, ToolCall};
use ensemble_language::data::Usage;

/// An event for the log.
#[derive(Debug)]
pub struct ToLog {
    /// The event.
    pub event: Event,
    /// Hears when the event is in the log, as safe as the durability of the log promises.
    pub logged: Option<oneshot::Sender<()>>,
}

/// The sending end of the way to the log.
/// Events are boxed, because a channel reserves the space of many messages.
pub type LogSender = mpsc::UnboundedSender<Box<ToLog>>;

/// Records what happens inside one execution, inside one of its parts, or inside an agent that it uses as a tool.
///
/// The default records nothing.
#[derive(Debug, Clone, Default)]
pub struct ExecutionRecords(Option<Box<Recording>>);

#[derive(Debug, Clone)]
struct Recording {
    log: LogSender,
    within: Within,
    /// What was recorded of the execution before this attempt, which goes on from there.
    before: Option<Arc<Exchanges>>,
    /// The tools that somebody has permitted for the rest of the run.
    permitted: Arc<BTreeSet<Arc<str>>>,
    /// The names and ids of the calls of this attempt, in their order.
    calls: CallList,
}

/// The names and ids of calls, in their order. Clones share them.
type CallList = Arc<Mutex<Vec<(Arc<str>, Arc<str>)>>>;

/// The numbers of a call in its execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallNumbers {
    /// The number among the calls of the same tool, from 1.
    pub of_tool: u32,
    /// The position among all calls, from 0.
    pub index: u32,
}

impl ExecutionRecords {
    /// Sends the events of this attempt there. `before`: what was recorded of the execution before it.
    pub fn new(log: LogSender, within: Within, before: Option<Arc<Exchanges>>) -> Self {
        Self(Some(Box::new(Recording {
            log,
            within,
            before,
            permitted: Arc::default(),
            calls: CallList::default(),
        })))
    }

    /// With the tools that somebody has permitted for the rest of the run.
    #[must_use]
    pub fn with_permitted(mut self, permitted: Arc<BTreeSet<Arc<str>>>) -> Self {
        if let Some(recording) = &mut self.0 {
            recording.permitted = permitted;
        }
        self
    }

    /// Returns whether somebody has permitted this tool for the rest of the run, before this attempt.
    pub fn is_permitted(&self, tool: &str) -> bool {
        self.0
            .as_ref()
            .is_some_and(|recording| recording.permitted.contains(tool))
    }

    /// The records of a part of this execution, in an attempt of the part.
    #[must_use]
    pub fn of_part(&self, key: &Arc<str>, attempt: u32) -> Self {
        self.changed(|within| {
            within.part = Some(key.clone());
            within.attempt = attempt;
        })
    }

    /// The records of an agent that is used as a tool by this call.
    #[must_use]
    pub fn inside(&self, call: &str) -> Self {
        self.changed(|within| within.inside.push(call.into()))
    }

    /// Without what was recorded before: the execution starts afresh.
    #[must_use]
    pub fn afresh(&self) -> Self {
        let mut records = self.clone();
        if let Some(recording) = &mut records.0 {
            recording.before = None;
            recording.calls = CallList::default();
        }
        records
    }

    fn changed(&self, change: impl FnOnce(&mut Within)) -> Self {
        let mut records = self.clone();
        if let Some(recording) = &mut records.0 {
            change(&mut recording.within);
            recording.calls = CallList::default();
        }
        records
    }

    /// Returns whether anything is recorded.
    pub fn is_recording(&self) -> bool {
        self.0.is_some()
    }

    /// Returns whether these are the records of an agent that is used as a tool.
    pub fn is_inside_a_call(&self) -> bool {
        let recording = self.0.as_ref();
        recording.is_some_and(|recording| !recording.within.inside.is_empty())
    }

    /// Returns the records before this attempt, which the attempt continues.
    pub fn before(&self) -> Option<&Exchange> {
        let recording = self.0.as_ref()?;
        let within = &recording.within;
        recording.before.as_ref()?.get(within.part.as_ref(), &within.inside)
    }

    /// The numbers of a call among those of the replies of this execution, which are the same after a resume. A call that
    /// no reply has is added.
    pub fn number_call(&self, name: &str, id: &str) -> CallNumbers {
        let Some(recording) = &self.0 else {
            return CallNumbers { of_tool: 1, index: 0 };
        };
        let before = self.before().into_iter().flat_map(|before| &before.iterations);
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
        CallNumbers {
            of_tool: number(of_tool),
            index: number(index),
        }
    }

    /// Records a reply, with what was used since the last record, and waits until it is in the log.
    pub async fn replied(&self, iteration: Iteration, usage: Usage) {
        if let Some(recording) = &self.0 {
            let calls = iteration.tool_calls.iter();
            let calls = calls.map(|call| (call.name.as_str().into(), call.id.as_str().into()));
            let mut known = recording.calls.lock().unwrap_or_else(PoisonError::into_inner);
            known.extend(calls);
        }
        let event = |within| {
            Event::ReplyReceived(Box::new(ReplyReceived {
                within,
                iteration,
                usage,
            }))
        };
        self.record(event).await;
    }

    /// Records a decision about a call, and waits until it is in the log. `decided`: the event without its attempt.
    pub async fn permission_decided(&self, decided: PermissionDecided) {
        let event = |within| Event::PermissionDecided(Box::new(PermissionDecided { within, ..decided }));
        self.record(event).await;
    }

    /// Records that the call is about to be made, and waits until it is in the log.
    pub async fn call_started(&self, call: &str) {
        let event = |within| {
            Event::ToolCallStarted(Box::new(ToolCallStarted {
                within,
                call: call.into(),
            }))
        };
        self.record(event).await;
    }

    /// Records the end of a call, and waits until it is in the log.
    pub async fn call_ended(&self, call: &ToolCall, usage: Usage) {
        let event = |within| {
            Event::ToolCallEnded(Box::new(ToolCallEnded {
                within,
                call: call.clone(),
                usage: (usage != Usage::default()).then_some(usage),
            }))
        };
        self.record(event).await;
    }

    /// Records the end of a part, or of one of its attempts.
    pub fn part_ended(&self, part: PartEnded) {
        if let Some(recording) = &self.0 {
            // Nobody takes it any more once the run is over.
            let _is_over = recording.log.send(Box::new(ToLog {
                event: Event::PartEnded(Box::new(part)),
                logged: None,
            }));
        }
    }

    async fn record(&self, event: impl FnOnce(Within) -> Event) {
        let Some(recording) = &self.0 else { return };
        let (sender, logged) = oneshot::channel();
        let sent = recording.log.send(Box::new(ToLog {
            event: event(recording.within.clone()),
            logged: Some(sender),
        }));
        if sent.is_ok() {
            // An error means that the run is over. Then this future is dropped, too.
            let _is_over = logged.await;
        }
    }
}
