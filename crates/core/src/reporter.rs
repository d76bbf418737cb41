//! Who is told of a run.
//!
//! **Invariant:** a reporter is told of an event after it has been committed, and changes nothing.

use crate::conversation::{ConversationState, Record};

/// Is told of every event after it has been committed and applied.
pub trait Reporter {
    /// The event has happened, and this is the state after it.
    fn report(&mut self, record: &Record, state: &ConversationState);
}

/// Says nothing.
#[derive(Debug, Default)]
pub struct Silent;

impl Reporter for Silent {
    fn report(&mut self, _record: &Record, _state: &ConversationState) {}
}
