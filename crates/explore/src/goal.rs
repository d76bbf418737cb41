//! What a conversation can reach.

use ensemble_core::conversation::CompletionReason;
use ensemble_language::plan::AgentId;

/// Event that a conversation can reach: an execution, a start over a dependency, a result of a condition, or an outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExplorationGoal {
    /// The agent runs.
    Execution(AgentId),
    /// The dependency at this position starts the agent.
    Start(AgentId, usize),
    /// The condition of the dependency at this position has this result.
    Answer(AgentId, usize, bool),
    /// The conversation ends like this.
    Outcome(CompletionReason),
}

impl ExplorationGoal {
    /// Replaces the agent of the goal by the result of `other`.
    pub(super) fn with_mapped_agent(self, other: impl Fn(AgentId) -> AgentId) -> Self {
        match self {
            Self::Execution(id) => Self::Execution(other(id)),
            Self::Start(id, position) => Self::Start(other(id), position),
            Self::Answer(id, position, answer) => Self::Answer(other(id), position, answer),
            Self::Outcome(reason) => Self::Outcome(reason),
        }
    }
}
