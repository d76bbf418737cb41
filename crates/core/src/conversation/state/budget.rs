//! What the state says about the budget of the conversation.

use ensemble_language::data::ModelUsage;
use ensemble_language::ensemble::{BudgetScope, BudgetStatus};

use super::{AgentState, ConversationState};

impl ConversationState {
    /// Returns the usage that `max_total_tokens` and `max_cost` limit: of finished turns, since the last user message or of all messages.
    pub fn budgeted_usage(&self) -> ModelUsage {
        self.usage.subtract_earlier(self.usage_before_budget())
    }

    /// Returns the present budget status, including executions that have not ended. Returns `None` without a budget.
    pub fn budget_status(&self) -> Option<BudgetStatus> {
        let used = self.usage_with_open_turn().subtract_earlier(self.usage_before_budget());
        BudgetStatus::after_usage(&self.plan.ensemble().limits, used)
    }

    /// Returns whether messages before the last one have used a part of the budget.
    pub fn have_earlier_messages_used_budget(&self) -> bool {
        self.plan.ensemble().limits.budget_scope() == BudgetScope::Conversation && !self.used_before.is_empty()
    }

    /// Returns the usage before the first message that the budget covers.
    fn usage_before_budget(&self) -> ModelUsage {
        match self.plan.ensemble().limits.budget_scope() {
            BudgetScope::Conversation => ModelUsage::default(),
            BudgetScope::Message => self.used_before,
        }
    }
}

impl AgentState {
    /// LLM: the number of requests to its model.
    pub fn requests_made(&self) -> u64 {
        self.requests_made
    }

    /// LLM: the number of requests that wrote summaries for the agent.
    pub fn summaries_made(&self) -> u64 {
        self.summaries_made
    }

    /// Adds the requests of the usage to the numbers of the agent's own requests and summaries.
    pub(super) fn count_requests(&mut self, usage: Option<ModelUsage>) {
        let used = usage.unwrap_or_default();
        self.requests_made += used.own_requests();
        self.summaries_made += used.summaries;
    }
}
