//! The trait of context windows, with its input and output.

use serde_json::Value;

use crate::agent::BoxFuture;
use ensemble_core::runner::AttemptLedger;
use ensemble_core::thread::{ExecutionRef, Message};

/// Selects the messages of a request so that they fit the context window of the model.
pub trait MessageSelector: Send + Sync {
    /// Selects the messages that are sent.
    fn select_messages<'a>(&'a self, sending: WindowInput<'a>) -> BoxFuture<'a, Result<WindowOutput, WindowError>>;

    /// Returns the number of latest turns that are always sent, except for their tool calls.
    fn min_recent_turns(&self) -> usize {
        1
    }
}

/// The request without a context window.
#[derive(Debug, Clone)]
pub struct WindowInput<'a> {
    /// The system message. It is sent in addition to the messages and counts.
    pub system: Option<&'a str>,
    /// The messages of the thread, including the new user message.
    pub messages: Vec<Message>,
    /// The index of the task of the present execution, which is always sent.
    pub task: usize,
    /// The execution that makes the request.
    pub source: &'a ExecutionRef,
    /// The number of earlier requests of the agent.
    pub requests_made: u64,
    /// The dropped messages of the last request that dropped any, in the form that the thread stores.
    pub earlier_dropped: Option<Value>,
    /// Counts the requests for summaries.
    pub ledger: &'a AttemptLedger,
}

/// The selected messages of a request.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WindowOutput {
    /// The messages that are sent, in order.
    pub messages: Vec<Message>,
    /// Is the system message dropped?
    pub drops_system: bool,
    /// The dropped messages, in the form that the thread stores; `None` if everything is sent.
    pub dropped: Option<Value>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

/// An error that prevents selecting the messages.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WindowError {
    /// The error message.
    pub error: String,
}
