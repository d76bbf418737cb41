//! `context_window`: the part of its thread that an LLM agent sends with a request.

use std::num::NonZeroU32;
use std::sync::Arc;

/// The limits of the part of the thread that an LLM agent sends (`context_window`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextWindow {
    /// The highest number of tokens of a request, including the instructions.
    pub max_tokens: Option<u64>,
    /// The highest number of messages of a request, including the instructions.
    pub max_messages: Option<u64>,
    /// Whether the instructions are always sent.
    pub preserve_system_message: bool,
    /// The number of latest turns that are always sent, even beyond a limit.
    pub min_recent_turns: NonZeroU32,
    /// What is left out when the thread is too large.
    pub strategy: WindowStrategy,
}

impl Default for ContextWindow {
    /// The instructions and three turns are always kept, and the oldest turns are left out first.
    fn default() -> Self {
        Self {
            max_tokens: None,
            max_messages: None,
            preserve_system_message: true,
            min_recent_turns: NonZeroU32::new(3).expect("is not 0"),
            strategy: WindowStrategy::OldestFirst,
        }
    }
}

/// The selection of the messages to leave out (`context_window.strategy`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum WindowStrategy {
    /// The oldest turns are left out.
    #[default]
    OldestFirst,
    /// Turns in the middle are left out: the first and the latest turns are kept.
    MiddleOut,
    /// All turns except the latest n are left out.
    RecentTurnsOnly(NonZeroU32),
    /// Everything is left out that this Rhai script does not select.
    Custom(String),
    /// The oldest turns are replaced by a summary. The model of this profile writes it; `None`: the model of the agent.
    Summarize(Option<Arc<str>>),
}
