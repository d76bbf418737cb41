//! Why a run ended: a closed set, with the exit codes that follow from it.

use serde::{Deserialize, Serialize};

/// `completion_reason`. Ordered by precedence: where several apply, the first is the outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompletionReason {
    /// A condition had no answer.
    ConditionFailed,
    /// Ctrl-C or SIGTERM.
    Cancelled,
    /// The run's time was up.
    Timeout,
    /// A question is open and nobody is there.
    WaitingForInput,
    /// An agent's last execution failed and nobody handled it.
    AgentFailed,
    /// `max_total_tokens` was reached and somebody was ready.
    TokenBudget,
    /// A `max_agent_executions` was reached and somebody was ready.
    MaxAgentExecutions,
    /// `max_total_turns` was reached and somebody was ready.
    MaxTotalTurns,
    /// Nobody was ready any more.
    Completed,
}

impl CompletionReason {
    /// All of them, in order of precedence.
    pub const ALL: [Self; 9] = [
        Self::ConditionFailed,
        Self::Cancelled,
        Self::Timeout,
        Self::WaitingForInput,
        Self::AgentFailed,
        Self::TokenBudget,
        Self::MaxAgentExecutions,
        Self::MaxTotalTurns,
        Self::Completed,
    ];

    /// As it stands in results and journals.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ConditionFailed => "condition_failed",
            Self::Cancelled => "cancelled",
            Self::Timeout => "timeout",
            Self::WaitingForInput => "waiting_for_input",
            Self::AgentFailed => "agent_failed",
            Self::TokenBudget => "token_budget",
            Self::MaxAgentExecutions => "max_agent_executions",
            Self::MaxTotalTurns => "max_total_turns",
            Self::Completed => "completed",
        }
    }

    /// Is it one of the limits that end a conversation gracefully?
    pub fn is_limit(self) -> bool {
        matches!(self, Self::TokenBudget | Self::MaxAgentExecutions | Self::MaxTotalTurns)
    }

    /// Can `resume` go on from it? Only where the last turn stayed open.
    pub fn is_resumable(self) -> bool {
        matches!(self, Self::Cancelled | Self::Timeout | Self::WaitingForInput)
    }
}

impl std::fmt::Display for CompletionReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
