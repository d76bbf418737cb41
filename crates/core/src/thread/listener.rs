//! Who hears what is said while it is being said.

use std::sync::Arc;

use super::ToolCall;

/// Hears agents speak. It is told at once, from the thread that drives the run, and must not keep it waiting.
pub trait Listener: Send + Sync {
    /// Something was said.
    fn hear(&self, speaker: &Speaker, said: Said<'_>);
}

/// Who speaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Speaker {
    /// The run, which may be inside another; empty outside of runs.
    pub run: Arc<str>,
    /// The agent.
    pub agent: Arc<str>,
    /// Which of its executions, from 1.
    pub execution: u32,
    /// Which attempt of the execution, from 1.
    pub attempt: u32,
}

/// What is said.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Said<'a> {
    /// The next piece of the model's text.
    Text(&'a str),
    /// A tool is called.
    ToolCalled(&'a ToolCall),
    /// A tool has ended.
    ToolEnded(&'a ToolCall),
    /// The reply so far does not count: another request begins in its place.
    Again,
    /// The model is asked again after a pause.
    Retrying {
        /// How long the pause is.
        pause: std::time::Duration,
        /// Why the request failed.
        error: &'a str,
    },
}

/// Hears nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silence;

impl Listener for Silence {
    fn hear(&self, _: &Speaker, _: Said<'_>) {}
}
