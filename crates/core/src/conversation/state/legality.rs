//! The events that may follow in a state: a table of phases and events with one illegal arm.
//!
//! Invariant: an event that [`ConversationState::check_event`] refuses changes nothing. Events of agents that the plan
//! does not have are legal in an open turn, because a fork may have removed the agent.

use std::sync::Arc;

use super::ConversationState;
use super::turn::{ExecutionProgress, ExecutionSlot, OpenTurn};
use crate::conversation::event::{Event, Record, TurnFinished};
use crate::conversation::outcome::CompletionReason;

/// Error about a record whose event is illegal after the earlier records.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("record {seq} (`{event}`) cannot follow the records before it: {reason}")]
pub struct IllegalRecord {
    /// The number of the record.
    pub seq: u64,
    /// The name of the event.
    pub event: &'static str,
    /// The reason.
    pub reason: IllegalEvent,
}

/// The reason why an event is illegal in the present state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IllegalEvent {
    /// The event is not `run_started`, and the run has not started.
    #[error("the run has not started")]
    NotStarted,
    /// The run starts a second time.
    #[error("the run has already started")]
    AlreadyStarted,
    /// The run has ended with this outcome, which the event does not continue.
    #[error("the run has ended ({0})")]
    RunEnded(CompletionReason),
    /// A message continues a run that has not ended.
    #[error("the run has not ended")]
    NotEnded,
    /// A turn starts or finishes in a run that was interrupted.
    #[error("the run is interrupted")]
    Interrupted,
    /// A turn starts while another turn is open.
    #[error("turn {0} is open")]
    TurnOpen(u32),
    /// The event belongs to a turn, and no turn is open.
    #[error("no turn is open")]
    NoOpenTurn,
    /// The event belongs to another turn than the next or the open one.
    #[error("it belongs to turn {event} instead of turn {expected}")]
    OtherTurn {
        /// The turn of the event.
        event: u32,
        /// The next turn, or the open one.
        expected: u32,
    },
    /// The agent does not run in the open turn.
    #[error("`{0}` does not run in this turn")]
    NotInTurn(Arc<str>),
    /// No attempt of the agent is running.
    #[error("no attempt of `{0}` is running")]
    NoAttempt(Arc<str>),
    /// The execution of the agent waits for an answer.
    #[error("`{0}` waits for an answer")]
    ExecutionWaiting(Arc<str>),
    /// The execution of the agent has ended.
    #[error("the execution of `{0}` has ended")]
    ExecutionEnded(Arc<str>),
    /// The turn finishes before this execution has ended.
    #[error("the execution of `{0}` has not ended")]
    ExecutionOpen(Arc<str>),
}

/// The phase of a run.
#[derive(Clone, Copy)]
enum RunPhase<'a> {
    BeforeStart,
    BetweenTurns,
    InTurn(&'a OpenTurn),
    Interrupted(Option<&'a OpenTurn>),
    Ended(CompletionReason),
}

/// The progress of an execution that an event requires.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RequiredExecutionProgress {
    /// The execution has not ended, and does not wait.
    Pending,
    /// An attempt is running.
    Attempt,
    /// The execution has not ended. It may wait for other answers.
    Open,
}

/// The turn and the agent of an event, and the progress that the event requires.
#[derive(Clone, Copy)]
struct ExecutionEventTarget<'a> {
    turn: u32,
    agent: &'a Arc<str>,
    needed: RequiredExecutionProgress,
}

impl ConversationState {
    /// Checks that the event is legal in this state.
    ///
    /// # Errors
    /// The event is illegal.
    pub fn check_event_is_legal(&self, event: &Event) -> Result<(), IllegalEvent> {
        let execution = find_execution_target(event);
        match (self.phase(), event) {
            (RunPhase::BeforeStart, Event::RunStarted(_)) => Ok(()),
            (RunPhase::BetweenTurns, Event::TurnStarted(turn)) => check_turn_number(turn.turn, self.turn_count + 1),
            (RunPhase::InTurn(open), Event::TurnFinished(finished)) => check_turn_end(open, finished),
            (RunPhase::InTurn(open) | RunPhase::Interrupted(Some(open)), _) if let Some(execution) = execution => {
                self.check_execution_event(open, execution)
            }
            (RunPhase::BetweenTurns | RunPhase::InTurn(_), Event::ContextSet(_)) => Ok(()),
            (
                RunPhase::BetweenTurns | RunPhase::InTurn(_) | RunPhase::Interrupted(_),
                Event::RunResumed(_) | Event::Interrupted(_) | Event::RunEnded(_),
            ) => Ok(()),
            (RunPhase::Ended(outcome), Event::RunResumed(_)) if outcome.is_resumable() => Ok(()),
            (RunPhase::Ended(outcome), Event::MessageAdded(_)) if outcome.is_continuable() => Ok(()),
            (phase, event) => Err(illegal_event_reason(phase, event)),
        }
    }

    /// Checks that the record is legal in this state.
    pub(crate) fn check_record_is_legal(&self, record: &Record) -> Result<(), IllegalRecord> {
        self.check_event_is_legal(&record.event)
            .map_err(|reason| IllegalRecord {
                seq: record.seq,
                event: record.event.event_name(),
                reason,
            })
    }

    /// Returns the phase of the run.
    fn phase(&self) -> RunPhase<'_> {
        match (&self.run_start, &self.run_end, &self.interruption, &self.open_turn) {
            (None, ..) => RunPhase::BeforeStart,
            (_, Some(run_end), ..) => RunPhase::Ended(run_end.completion_reason),
            (.., Some(_), open) => RunPhase::Interrupted(open.as_ref()),
            (.., None, Some(open)) => RunPhase::InTurn(open),
            (.., None, None) => RunPhase::BetweenTurns,
        }
    }

    /// Checks that the event's turn, agent and progress match an execution of the open turn.
    fn check_execution_event(&self, open: &OpenTurn, event: ExecutionEventTarget<'_>) -> Result<(), IllegalEvent> {
        check_turn_number(event.turn, open.turn)?;
        let Some(id) = self.plan.find_agent_id(event.agent) else {
            return Ok(());
        };
        let slot_position = open.slots.binary_search_by_key(&id, |slot| slot.agent);
        let Ok(at) = slot_position else {
            return Err(IllegalEvent::NotInTurn(event.agent.clone()));
        };
        let slot = &open.slots[at];
        match (&slot.progress, event.needed) {
            (ExecutionProgress::Pending, RequiredExecutionProgress::Pending)
            | (ExecutionProgress::Pending | ExecutionProgress::Waiting(_), RequiredExecutionProgress::Open) => Ok(()),
            (ExecutionProgress::Pending, _) if slot.attempt > slot.last_ended => Ok(()),
            (ExecutionProgress::Pending, _) => Err(IllegalEvent::NoAttempt(event.agent.clone())),
            (ExecutionProgress::Waiting(_), _) => Err(IllegalEvent::ExecutionWaiting(event.agent.clone())),
            (ExecutionProgress::Finished(_), _) => Err(IllegalEvent::ExecutionEnded(event.agent.clone())),
        }
    }
}

/// Returns the reason why the event is illegal in the phase.
fn illegal_event_reason(phase: RunPhase<'_>, event: &Event) -> IllegalEvent {
    match (phase, event) {
        (RunPhase::BeforeStart, _) => IllegalEvent::NotStarted,
        (_, Event::RunStarted(_)) => IllegalEvent::AlreadyStarted,
        (RunPhase::Ended(outcome), _) => IllegalEvent::RunEnded(outcome),
        (_, Event::MessageAdded(_)) => IllegalEvent::NotEnded,
        (RunPhase::InTurn(open), _) => IllegalEvent::TurnOpen(open.turn),
        (RunPhase::Interrupted(None), _) if find_execution_target(event).is_some() => IllegalEvent::NoOpenTurn,
        (RunPhase::Interrupted(_), _) => IllegalEvent::Interrupted,
        (RunPhase::BetweenTurns, _) => IllegalEvent::NoOpenTurn,
    }
}

/// Checks that the event has the expected turn number.
fn check_turn_number(event: u32, expected: u32) -> Result<(), IllegalEvent> {
    match event == expected {
        true => Ok(()),
        false => Err(IllegalEvent::OtherTurn { event, expected }),
    }
}

/// Checks that the turn number matches and that no execution is open.
fn check_turn_end(open: &OpenTurn, finished: &TurnFinished) -> Result<(), IllegalEvent> {
    check_turn_number(finished.turn, open.turn)?;
    let is_open = |slot: &&ExecutionSlot| !matches!(slot.progress, ExecutionProgress::Finished(_));
    match open.slots.iter().find(is_open) {
        None => Ok(()),
        Some(slot) => Err(IllegalEvent::ExecutionOpen(slot.start.agent.clone())),
    }
}

/// Returns the turn, agent and required progress of an event of an execution. Returns `None` for other events.
fn find_execution_target(event: &Event) -> Option<ExecutionEventTarget<'_>> {
    let (turn, agent, needed) = match event {
        Event::ExecutionStarted(event) => (event.turn, &event.agent, RequiredExecutionProgress::Pending),
        Event::ExecutionFinished(event) => (event.turn, &event.agent, RequiredExecutionProgress::Pending),
        Event::AttemptFailed(event) => (event.turn, &event.agent, RequiredExecutionProgress::Attempt),
        Event::PartEnded(event) => (event.turn, &event.agent, RequiredExecutionProgress::Attempt),
        Event::InputRequested(event) => (event.turn, &event.agent, RequiredExecutionProgress::Open),
        other => {
            let within = other.attempt_scope()?;
            (within.turn, &within.agent, RequiredExecutionProgress::Attempt)
        }
    };
    Some(ExecutionEventTarget { turn, agent, needed })
}

#[cfg(test)]
mod tests;
