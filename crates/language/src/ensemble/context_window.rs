//! `context_window`: how much of its thread an LLM agent sends with a request.

use std::num::NonZeroU32;
use std::sync::Arc;

/// `context_window` of an LLM agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextWindow {
    /// Most tokens of a request, the instructions included.
    pub max_tokens: Option<u64>,
    /// Most messages of a request, the instructions included.
    pub max_messages: Option<u64>,
    /// Are the instructions always sent?
    pub preserve_system_message: bool,
    /// The latest turns that are always sent, even past a limit.
    pub min_recent_turns: NonZeroU32,
    /// What is left out when not everything can be sent.
    pub strategy: Strategy,
}

impl Default for ContextWindow {
    /// The instructions and three turns are safe, and the oldest goes first.
    fn default() -> Self {
        Self {
            max_tokens: None,
            max_messages: None,
            preserve_system_message: true,
            min_recent_turns: NonZeroU32::new(3).expect("is not 0"),
            strategy: Strategy::OldestFirst,
        }
    }
}

/// `context_window.strategy`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Strategy {
    /// The oldest turns.
    #[default]
    OldestFirst,
    /// Turns in the middle: the first and the latest stay.
    MiddleOut,
    /// All but the latest n turns.
    RecentTurnsOnly(NonZeroU32),
    /// What this Rhai script does not keep.
    Custom(String),
    /// The oldest turns, with a summary in their place by the model of this profile; `None`: by the agent's own.
    Summarize(Option<Arc<str>>),
}
