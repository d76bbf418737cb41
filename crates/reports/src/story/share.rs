//! What each agent's part of a run came to: executions, attempts, requests, tokens, time.

use std::sync::Arc;

use indexmap::IndexMap;
use serde::Serialize;

use super::Story;
use ensemble_language::data::Usage;

/// What a run came to.
#[derive(Debug, Clone, Default)]
pub struct Shares {
    /// Each agent that ran, in the order of its first execution.
    pub agents: IndexMap<Arc<str>, Share>,
    /// All of them together; its time adds up what ran side by side.
    pub all: Share,
    /// Turns that were closed.
    pub turns: usize,
    /// Wall clock in which a process drove the run, in seconds.
    pub wall_seconds: f64,
}

/// What an agent's executions came to.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Share {
    /// Executions that ended.
    pub executions: u32,
    /// Those that failed.
    pub failed: u32,
    /// Attempts that began.
    pub attempts: u32,
    /// Requests and tokens.
    pub usage: Usage,
    /// Wall clock of all attempts, in seconds.
    pub seconds: f64,
}

/// What each agent's part of the story came to.
pub fn shares(story: &Story) -> Shares {
    let mut shares = Shares {
        turns: story.turn_count(),
        wall_seconds: story.active,
        ..Shares::default()
    };
    for (_, execution) in story.executions() {
        let one = Share {
            executions: u32::from(execution.finished.is_some()),
            failed: u32::from(execution.failure().is_some()),
            attempts: u32::try_from(execution.tries()).unwrap_or(u32::MAX),
            usage: execution.usage.unwrap_or_default(),
            seconds: execution.seconds(),
        };
        let known = shares.agents.entry(execution.agent.clone()).or_default();
        *known = *known + one;
        shares.all = shares.all + one;
    }
    shares
}

impl std::ops::Add for Share {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            executions: self.executions + other.executions,
            failed: self.failed + other.failed,
            attempts: self.attempts + other.attempts,
            usage: self.usage + other.usage,
            seconds: self.seconds + other.seconds,
        }
    }
}
