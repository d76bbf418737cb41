//! The way from a runner to the log: what happens inside an execution is recorded when it happens.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use crate::conversation::{
    DecidedBy, Event, Exchange, Exchanges, PartEnded, PermissionDecided, PermissionDecision, ReplyReceived,
    ToolCallEnded, ToolCallStarted, Within,
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
}

impl ExecutionRecords {
    /// Sends the events of this attempt there. `before`: what was recorded of the execution before it.
    pub fn new(log: LogSender, within: Within, before: Option<Arc<Exchanges>>) -> Self {
        Self(Some(Box::new(Recording {
            log,
            within,
            before,
            permitted: Arc::default(),
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

    /// Whether somebody has permitted this tool for the rest of the run, before this attempt.
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
        }
        records
    }

    fn changed(&self, change: impl FnOnce(&mut Within)) -> Self {
        let mut records = self.clone();
        if let Some(recording) = &mut records.0 {
            change(&mut recording.within);
        }
        records
    }

    /// Whether anything is recorded.
    pub fn is_recording(&self) -> bool {
        self.0.is_some()
    }

    /// Whether these are the records of an agent that is used as a tool.
    pub fn is_inside_a_call(&self) -> bool {
        let recording = self.0.as_ref();
        recording.is_some_and(|recording| !recording.within.inside.is_empty())
    }

    /// What was recorded before this attempt, which goes on from there.
    pub fn before(&self) -> Option<&Exchange> {
        let recording = self.0.as_ref()?;
        let within = &recording.within;
        recording.before.as_ref()?.get(within.part.as_ref(), &within.inside)
    }

    /// Records a reply, with what was used since the last record, and waits until it is in the log.
    pub async fn replied(&self, iteration: Iteration, usage: Usage) {
        let event = |within| {
            Event::ReplyReceived(Box::new(ReplyReceived {
                within,
                iteration,
                usage,
            }))
        };
        self.record(event).await;
    }

    /// Records a decision about the call, and waits until it is in the log.
    pub async fn permission_decided(&self, call: &str, tool: &str, decision: PermissionDecision, by: DecidedBy) {
        let event = |within| {
            Event::PermissionDecided(Box::new(PermissionDecided {
                within,
                call: call.into(),
                tool: tool.into(),
                decision,
                by,
            }))
        };
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
