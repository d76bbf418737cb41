//! Live output: what an execution produces while it is running, before a record holds it.

use std::sync::Arc;

use super::ToolCall;

/// Receiver of the live output of executions. Calls must return quickly, because they run on the thread that drives the run.
pub trait LiveOutputReceiver: Send + Sync {
    /// Receives one update of one execution attempt.
    fn receive_update(&self, source: &ExecutionAttemptRef, update: LiveUpdate<'_>);

    /// Returns whether the receiver also gets the updates of nested runs.
    fn wants_nested_runs(&self) -> bool {
        false
    }
}

/// Reference to one attempt of one execution of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutionAttemptRef {
    /// The run, which may be inside another run; empty if there is no run.
    pub run: Arc<str>,
    /// The name of the agent.
    pub agent: Arc<str>,
    /// The number of the execution of this agent, from 1.
    pub execution: u32,
    /// The number of the attempt of this execution, from 1.
    pub attempt: u32,
}

/// Update of live output: a piece of text, a tool call, or a repeated request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LiveUpdate<'a> {
    /// The next piece of the text of the model.
    Text(&'a str),
    /// The next piece of what the model thinks before its reply.
    Reasoning(&'a str),
    /// A tool call has started.
    ToolStarted(&'a ToolCall),
    /// A tool call has ended; the call has its result or error.
    ToolEnded(&'a ToolCall),
    /// The text and the reasoning of the current reply are void: the model is asked again, and its new reply replaces the text.
    Restarted,
    /// A request to the model failed and is repeated after a pause.
    Retrying {
        /// The length of the pause.
        pause: std::time::Duration,
        /// The error of the failed request.
        error: &'a str,
    },
    /// The requests of a model profile are slowed down, or are no longer slowed down.
    PaceChanged {
        /// The profile with the new pace and the reason, for the user.
        text: &'a str,
    },
}

/// Receiver that ignores all live output.
#[derive(Debug, Clone, Copy, Default)]
pub struct IgnoredLiveOutput;

impl LiveOutputReceiver for IgnoredLiveOutput {
    fn receive_update(&self, _: &ExecutionAttemptRef, _: LiveUpdate<'_>) {}
}
