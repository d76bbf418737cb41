//! A conversation: its events, the state that is computed from the events, and its outcome.
//!
//! **Invariant:** [`ConversationState`] changes only in [`ConversationState::apply`]. So the journal and the text of
//! the ensemble always give the same state again.

mod counts;
mod end;
mod enforced;
mod event;
mod exchange;
mod given;
mod history;
mod interruption;
mod kept;
mod latest;
mod outcome;
mod part;
mod permission;
mod question;
mod reason;
mod result;
mod standing;
mod state;
mod unfinished;
mod within;

pub use end::ExecutionEnd;
pub use enforced::EnforcedSandbox;
pub use event::{
    AttemptFailed, ConditionFailure, Event, ExecutionFinished, ExecutionStarted, FailedExecution, ForkedFrom,
    MessageAdded, NotRun, Record, RequestsByTarget, RunEnded, RunResumed, RunStarted, Start, TurnFinished, TurnStarted,
};
pub use exchange::{Exchange, Exchanges, ReplyReceived, RequestStopped, ToolCallEnded, ToolCallStarted};
pub use given::RunValue;
pub use history::HistoryEntry;
pub use interruption::{Canceller, Interruption};
pub use outcome::CompletionReason;
pub use part::{EndedParts, FailedAttempts, PartEnded, ThreadsByKey};
pub use permission::{DecidedBy, PermissionDecided, PermissionDecision};
pub use question::InputRequested;
pub use reason::{Awaited, Reason, Waiting};
pub use result::{RunResult, usage_by_agent};
pub use standing::is_unseen;
pub(crate) use standing::{DependencyFact, Unfulfilled, dependency_fact};
pub use standing::{Standing, standing};
pub use state::AGENT_REQUESTS;
pub use state::{
    AgentState, ConversationState, IllegalEvent, IllegalRecord, LaterMessage, OpenExecution, OpenTurn, Slot,
};
pub use unfinished::{Unfinished, UnfinishedParts, UnfinishedReason};
pub use within::Within;
