//! The usage of each agent in a run: executions, attempts, requests, tokens, time.

use std::sync::Arc;

use indexmap::IndexMap;
use serde::Serialize;

use super::{Story, Turn};
use ensemble_language::data::Usage;

/// The usage of a run.
#[derive(Debug, Clone, Default)]
pub struct Shares {
    /// The usage of each agent, in the order of first executions.
    pub agents: IndexMap<Arc<str>, Share>,
    /// The total of all agents; the times of parallel executions are added.
    pub all: Share,
    /// The number of finished turns.
    pub turns: usize,
    /// The time in which a process executed the turns, in seconds: also of those that a fork has taken over.
    pub wall_seconds: f64,
}

/// The usage of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Share {
    /// The number of finished executions.
    pub executions: u32,
    /// The number of failed executions.
    pub failed: u32,
    /// The number of started attempts.
    pub attempts: u32,
    /// Requests and tokens.
    pub usage: Usage,
    /// The duration of all attempts, in seconds.
    pub seconds: f64,
}

/// The time of the turns that a fork has taken over, in seconds. They are older than the fork.
fn taken_over(story: &Story) -> f64 {
    let turns = story.turns().filter(|turn| Some(turn.started_at) < story.begun);
    turns.filter_map(Turn::seconds).sum()
}

/// The usage of each agent in the story.
pub fn shares(story: &Story) -> Shares {
    let mut shares = Shares {
        turns: story.turn_count(),
        wall_seconds: story.active + taken_over(story),
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
