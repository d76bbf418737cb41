//! What ends a conversation that would not end by itself.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use crate::data::Cost;

/// `conversation_limits`.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// Most turns (supersteps) of the run.
    pub max_total_turns: NonZeroU32,
    /// Reaching one of these ends the conversation after that turn.
    pub max_agent_executions: Vec<(Arc<str>, NonZeroU32)>,
    /// Wall clock of the whole run.
    pub timeout: Duration,
    /// Wall clock of one turn; what still runs then has failed.
    pub turn_timeout: Option<Duration>,
    /// Agents side by side in a turn.
    pub parallel_agents: Option<NonZeroU32>,
    /// Tokens over all LLM executions.
    pub max_total_tokens: Option<u64>,
    /// What all LLM executions may cost, in the currency of the profiles' `cost`.
    pub max_cost: Option<Cost>,
}

impl Default for Limits {
    /// ADR-005's defaults: 20 turns, 300 seconds.
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
