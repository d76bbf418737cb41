//! The outcome of a run: a closed set of values, which decide the exit code.

use ensemble_language::ensemble::OnLimit;
use serde::{Deserialize, Serialize};

/// The value of `completion_reason`, in order of precedence: if several values apply, the first is the outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompletionReason {
    /// A condition could not be evaluated.
    ConditionFailed,
    /// The run was cancelled with Ctrl-C, with SIGTERM, or by a program.
    Cancelled,
    /// The run reached its `timeout_seconds`.
    Timeout,
    /// An agent asks a question, and nobody can answer it now.
    WaitingForInput,
    /// The last execution of an agent failed, and no dependency handled the failure.
    AgentFailed,
    /// `success` is false, or a `required` agent has not succeeded.
    Unsuccessful,
    /// `max_total_tokens` or `max_cost` was reached, and an agent was ready.
    TokenBudget,
    /// A `max_executions` was reached, and an agent was ready.
    MaxAgentExecutions,
    /// `max_total_turns` was reached, and an agent was ready.
    MaxTotalTurns,
    /// No agent was ready.
    Completed,
}

impl CompletionReason {
    /// All outcomes, in order of precedence.
    pub const ALL: [Self; 10] = [
        Self::ConditionFailed,
        Self::Cancelled,
        Self::Timeout,
        Self::WaitingForInput,
        Self::AgentFailed,
        Self::Unsuccessful,
        Self::TokenBudget,
        Self::MaxAgentExecutions,
        Self::MaxTotalTurns,
        Self::Completed,
    ];

    /// Returns the name of the outcome in results and journals.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ConditionFailed => "condition_failed",
            Self::Cancelled => "cancelled",
            Self::Timeout => "timeout",
            Self::WaitingForInput => "waiting_for_input",
            Self::AgentFailed => "agent_failed",
            Self::Unsuccessful => "unsuccessful",
            Self::TokenBudget => "token_budget",
            Self::MaxAgentExecutions => "max_agent_executions",
            Self::MaxTotalTurns => "max_total_turns",
            Self::Completed => "completed",
        }
    }

    /// Returns whether the outcome is one of the limits of the whole conversation, apart from the time limit.
    pub fn is_limit(self) -> bool {
        matches!(self, Self::TokenBudget | Self::MaxAgentExecutions | Self::MaxTotalTurns)
    }

    /// Returns whether the outcome has exit code 0, unless the caller refuses exhausted agents: no agent was ready, or `on_limit` makes
    /// the limit a normal end.
    pub fn is_natural_end(self, on_limit: OnLimit) -> bool {
        self == Self::Completed || (self.is_limit() && on_limit == OnLimit::Succeed)
    }

    /// Returns whether the result lists agents that reached their own limits. Other outcomes leave a turn open, or end before readiness is
    /// known.
    pub fn lists_exhausted_agents(self) -> bool {
        matches!(self, Self::Completed | Self::Unsuccessful | Self::AgentFailed) || self.is_limit()
    }

    /// Returns whether a message can continue the run. A run that waits for an answer needs the answer first.
    pub fn is_continuable(self) -> bool {
        self != Self::WaitingForInput
    }

    /// Returns whether `resume` can continue the run, because the last turn is still open.
    pub fn is_resumable(self) -> bool {
        matches!(self, Self::Cancelled | Self::Timeout | Self::WaitingForInput)
    }
}

impl std::fmt::Display for CompletionReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
