//! The limits that end a conversation that would otherwise continue.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::data::{Cost, RemainingBudget};

/// The limits that end a conversation (`conversation_limits`).
#[derive(Debug, Clone, PartialEq)]
pub struct ConversationLimits {
    /// The highest number of turns of the run.
    pub max_total_turns: NonZeroU32,
    /// When an agent has reached its limit, the conversation ends after that turn.
    pub max_agent_executions: Vec<(Arc<str>, NonZeroU32)>,
    /// The time limit of the whole run.
    pub timeout: Duration,
    /// The time limit of one turn; executions that have not ended then have failed.
    pub turn_timeout: Option<Duration>,
    /// The highest number of parallel executions in a turn.
    pub parallel_agents: Option<NonZeroU32>,
    /// The highest number of tokens of all LLM executions.
    pub max_total_tokens: Option<u64>,
    /// The highest cost of all LLM executions, in the currency of the profiles' `cost`.
    pub max_cost: Option<Cost>,
    /// The messages of the user that share the two budgets; `None`: [`BudgetScope::Conversation`].
    pub budget: Option<BudgetScope>,
    /// Whether a run that one of the limits above ends, except `timeout`, is a success.
    pub on_limit: OnLimit,
}

/// The messages of the user that share `max_total_tokens` and `max_cost` (`budget`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BudgetScope {
    /// All messages of the conversation.
    #[default]
    Conversation,
    /// Each message has the whole budget.
    Message,
}

impl BudgetScope {
    /// Returns the scope as the file writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Conversation => "conversation",
            Self::Message => "message",
        }
    }
}

/// The result of a run that a limit of the conversation ends, except for its time limit (`on_limit`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnLimit {
    /// The run was cut off: exit code 4.
    #[default]
    Fail,
    /// The limit is the natural end of the conversation: exit code 0, if `success` is true.
    Succeed,
}

impl ConversationLimits {
    /// Returns the messages of the user that share the budget. The default is the whole conversation.
    pub fn budget_scope(&self) -> BudgetScope {
        self.budget.unwrap_or_default()
    }

    /// Returns the budget before any usage.
    pub fn initial_budget(&self) -> RemainingBudget {
        RemainingBudget {
            tokens: self.max_total_tokens,
            cost: self.max_cost,
        }
    }
}

impl Default for ConversationLimits {
    /// Returns the defaults of ADR-005: 20 turns, 300 seconds.
    fn default() -> Self {
        Self {
            max_total_turns: NonZeroU32::new(20).expect("20 is not zero"),
            max_agent_executions: Vec::new(),
            timeout: Duration::from_secs(300),
            turn_timeout: None,
            parallel_agents: None,
            max_total_tokens: None,
            max_cost: None,
            budget: None,
            on_limit: OnLimit::Fail,
        }
    }
}
