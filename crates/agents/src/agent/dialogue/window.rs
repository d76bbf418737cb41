//! What of a long thread is sent.

use serde_json::Value;

use crate::agent::BoxFuture;
use ensemble_core::thread::{ExecutionRef, Message};
use ensemble_language::data::Usage;

/// Keeps what is sent within the model's context window.
pub trait Window: Send + Sync {
    /// What of it is sent.
    fn fit<'a>(&'a self, sending: WindowInput<'a>) -> BoxFuture<'a, Result<WindowOutput, WindowError>>;
}

/// What would be sent without a window.
#[derive(Debug, Clone)]
pub struct WindowInput<'a> {
    /// The instructions; they are sent beside the messages, and count.
    pub system: Option<&'a str>,
    /// The thread, the present user message included.
    pub messages: Vec<Message>,
    /// Who asks.
    pub source: &'a ExecutionRef,
    /// Requests that the agent has made before.
    pub requests_made: u64,
    /// What was left out of the last request that left something out, as the thread keeps it.
    pub before: Option<Value>,
}

/// What is sent, and what is not.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WindowOutput {
    /// What is sent, in order.
    pub messages: Vec<Message>,
    /// Are the instructions left out?
    pub drops_system: bool,
    /// What was left out, in the form in which the thread keeps it; nothing if everything is sent.
    pub dropped: Option<Value>,
    /// What summing up has cost.
    pub usage: Usage,
    /// What the person who listens should know.
    pub warnings: Vec<String>,
}

/// Why nothing can be sent.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WindowError {
    /// In words.
    pub error: String,
    /// What it has cost to learn that.
    pub usage: Usage,
}
