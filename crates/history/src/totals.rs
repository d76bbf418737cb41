//! The totals of a run and of each agent.

use std::ops::Add;
use std::sync::Arc;

use ensemble_core::conversation::{AgentWorkCounts, FailureCounts};
use ensemble_language::data::ModelUsage;
use indexmap::IndexMap;
use serde::Serialize;

/// The totals of a run: turns, all agents together, and each agent.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RunTotals {
    /// The number of turns: those that finished, and abandoned turns in which an execution had finished.
    pub turns: u32,
    /// The sum over all agents. Times of parallel executions are added.
    pub all: AgentTotals,
    /// The totals of each agent, in the order of first starts.
    pub agents: IndexMap<Arc<str>, AgentTotals>,
}

/// The totals of an agent, or of one of its executions.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct AgentTotals {
    /// The number of executions that ended.
    pub executions: usize,
    /// The number of executions that failed.
    pub failed: usize,
    /// The number of attempts, without attempts that only asked a question.
    pub attempts: usize,
    /// The parts that ended.
    #[serde(skip)]
    pub parts: PartTotals,
    /// The tool calls of the model that ended.
    #[serde(skip)]
    pub tool_calls: FailureCounts,
    /// Requests, tokens and cost of all attempts.
    pub usage: ModelUsage,
    /// The duration of all attempts that ended, in seconds.
    pub seconds: f64,
    /// The latest turn in which the agent ran.
    #[serde(skip)]
    pub latest_turn: Option<u32>,
}

/// The numbers of ended, failed and listed parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PartTotals {
    /// The number of ended parts.
    pub ended_parts: usize,
    /// The number of failed parts.
    pub failed_parts: usize,
    /// The number of items in the lists.
    pub listed_parts: usize,
}

impl RunTotals {
    /// Lists the agents with failed parts or failed tool calls, in the order of their first starts.
    pub fn list_failed_work(&self) -> Vec<AgentWorkCounts> {
        let work = self.agents.iter().map(|(agent, totals)| AgentWorkCounts {
            agent: agent.clone(),
            parts: FailureCounts {
                failed: totals.parts.failed_parts,
                count: totals.parts.listed_parts,
            },
            tool_calls: totals.tool_calls,
        });
        work.filter(AgentWorkCounts::has_failures).collect()
    }

    /// Adds the totals of an execution of the agent to the totals of the run and of the agent.
    pub(crate) fn add_execution(&mut self, agent: &Arc<str>, one: AgentTotals) {
        self.all = self.all + one;
        let agent_totals = self.agents.entry(agent.clone()).or_default();
        *agent_totals = *agent_totals + one;
    }
}

impl Add for AgentTotals {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            executions: self.executions + other.executions,
            failed: self.failed + other.failed,
            attempts: self.attempts + other.attempts,
            parts: PartTotals {
                ended_parts: self.parts.ended_parts + other.parts.ended_parts,
                failed_parts: self.parts.failed_parts + other.parts.failed_parts,
                listed_parts: self.parts.listed_parts + other.parts.listed_parts,
            },
            tool_calls: self.tool_calls + other.tool_calls,
            usage: self.usage + other.usage,
            seconds: self.seconds + other.seconds,
            latest_turn: self.latest_turn.max(other.latest_turn),
        }
    }
}
