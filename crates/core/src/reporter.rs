//! The interface for reports about a run.
//!
//! **Invariant:** a reporter receives an event after it was committed, and changes nothing.

use crate::conversation::{ConversationState, Record};

/// Receiver of every event after the event was committed and applied.
pub trait Reporter {
    /// Reports an event; `state` is the state after the event.
    fn report_event(&mut self, record: &Record, state: &ConversationState);
}

/// A reporter that reports nothing.
#[derive(Debug, Default)]
pub struct NoReporter;

impl Reporter for NoReporter {
    fn report_event(&mut self, _record: &Record, _state: &ConversationState) {}
}
