//! Agents that still had work when the run ended, and that one of their own limits kept from running.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Agent that still had work, and that only its own limit kept from running.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ExhaustedAgent {
    /// The agent.
    pub agent: Arc<str>,
    /// The limit that it has reached.
    pub limit: AgentLimitKey,
    /// The value of the limit.
    pub count: u32,
}

/// A limit of a single agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentLimitKey {
    /// The `max_turns` of the agent.
    MaxTurns,
    /// The `max_executions` of one of its dependencies.
    MaxExecutions,
}

impl AgentLimitKey {
    /// Returns the key of the ensemble file that sets the limit.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MaxTurns => "max_turns",
            Self::MaxExecutions => "max_executions",
        }
    }
}

/// The sentence for users: `` `writer` reached `max_turns: 3` while it still had work ``.
impl fmt::Display for ExhaustedAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (agent, limit, count) = (&self.agent, self.limit.as_str(), self.count);
        write!(f, "`{agent}` reached `{limit}: {count}` while it still had work")
    }
}

/// Renders the sentences of all exhausted agents, separated by semicolons.
pub fn describe_exhausted_agents(agents: &[ExhaustedAgent]) -> String {
    let sentences: Vec<String> = agents.iter().map(ExhaustedAgent::to_string).collect();
    sentences.join("; ")
}
