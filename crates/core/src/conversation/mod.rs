//! What a conversation is: the events it consists of, the state that is their fold, and how it ends.
//!
//! **Invariant:** [`ConversationState`] changes only in [`ConversationState::apply`], so the journal and the
//! ensemble text together always give the same state again.

mod counts;
mod event;
mod history;
mod outcome;
mod result;
mod standing;
mod state;

pub use event::{
    AttemptFailed, Canceller, ConditionFailure, Event, ExecutionEnd, ExecutionFinished, ExecutionStarted, ForkedFrom,
    InputRequested, Interruption, MessageAdded, NotRun, Reason, Record, RunEnded, RunResumed, RunStarted, Start,
    TurnFinished, TurnStarted, Waiting,
};
pub use history::HistoryEntry;
pub use outcome::CompletionReason;
pub use result::{RunResult, usage_by_agent};
pub use standing::{DependencyFact, Standing, Why, dependency_fact, is_unseen, standing};
pub use state::{AGENT_REQUESTS, AgentState, ConversationState, OpenExecution, OpenTurn, Slot};
