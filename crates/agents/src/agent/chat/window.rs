//! The trait of context windows, with its input and output.

use serde_json::Value;

use crate::agent::BoxFuture;
use ensemble_core::runner::AttemptLedger;
use ensemble_core::stopwatch::Stopwatch;
use ensemble_core::thread::window::ThreadSize;
use ensemble_core::thread::{ExecutionAttemptRef, Message, Thread};

/// Context window: a selector of messages that fit the model.
pub trait MessageSelector: Send + Sync {
    /// Selects the messages to send.
    fn select_messages<'a>(&'a self, sending: WindowInput<'a>) -> BoxFuture<'a, Result<WindowOutput, WindowError>>;

    /// Finds the oldest iterations that no request contains, with their size, so that long threads are neither copied nor counted.
    ///
    /// They are whole turns. `earlier` is the number of messages before the task.
    fn find_unsent_iterations<'a>(&'a self, thread: &'a Thread, earlier: usize) -> BoxFuture<'a, UnsentIterations> {
        let _ = (thread, earlier);
        Box::pin(std::future::ready(UnsentIterations::default()))
    }

    /// Returns the number of latest turns that are always sent, except for their tool calls.
    fn min_recent_turns(&self) -> usize {
        1
    }
}

/// Oldest iterations of a thread that no request contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UnsentIterations {
    /// The number of iterations.
    pub iterations: usize,
    /// The number of their messages, without the results of tools.
    pub messages: usize,
    /// Their size.
    pub size: ThreadSize,
}

/// Request before the selection of messages.
#[derive(Debug, Clone)]
pub struct WindowInput<'a> {
    /// The system message. It is sent in addition to the messages and counts.
    pub system: Option<&'a str>,
    /// The messages of the thread after the unsent iterations, including the new user message.
    pub messages: Vec<Message>,
    /// The oldest iterations, whose messages are not among `messages`.
    pub unsent: UnsentIterations,
    /// The index in `messages` of the task of the present execution, which is always sent.
    pub task: usize,
    /// The execution that makes the request.
    pub source: &'a ExecutionAttemptRef,
    /// The clock of the execution.
    pub clock: &'a Stopwatch,
    /// The number of earlier requests of the agent.
    pub requests_made: u64,
    /// The number of earlier requests that wrote summaries for the agent.
    pub summaries_made: u64,
    /// The dropped messages of the last request that dropped any, in the form that the thread stores.
    pub earlier_dropped: Option<Value>,
    /// Counts the requests for summaries.
    pub ledger: &'a AttemptLedger,
}

/// Selected messages of a request, with a note about dropped ones.
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

/// Error in selecting the messages.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WindowError {
    /// The error message.
    pub error: String,
}
