//! The limits that end a conversation that would otherwise continue.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use crate::data::Cost;

/// `conversation_limits`.
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
}

impl Default for ConversationLimits {
    /// The defaults of ADR-005: 20 turns, 300 seconds.
    fn default() -> Self {
        Self {
            max_total_turns: NonZeroU32::new(20).expect("20 is not zero"),
            max_agent_executions: Vec::new(),
            timeout: Duration::from_secs(300),
            turn_timeout: None,
            parallel_agents: None,
            max_total_tokens: None,
            max_cost: None,
        }
    }
}
