//! The use of the budget of a session, for the client.
//!
//! Invariant: the numbers are those with which the run checks its budget.

use ensemble_core::conversation::Record;
use ensemble_history::{RunHistory, RunTotals};
use ensemble_language::ensemble::{BudgetStatus, ConversationLimits};

/// The use of a budget as tokens, which is sent to the client.
#[derive(Debug)]
pub(crate) struct BudgetUsageUpdate {
    pub(crate) used: u64,
    pub(crate) most: u64,
    pub(crate) budget: BudgetStatus,
}

/// The use of the budget of a session until now, computed from the records.
pub(crate) struct SessionBudgetUse {
    limits: ConversationLimits,
    history: RunHistory,
}

impl SessionBudgetUse {
    /// Creates the use of a new session with these limits.
    pub(crate) fn new(limits: &ConversationLimits) -> Self {
        Self {
            limits: limits.clone(),
            history: RunHistory::default(),
        }
    }

    /// Applies the next record of the outermost run.
    pub(crate) fn apply_record(&mut self, record: &Record) {
        self.history.apply_record(record);
    }

    /// Returns the totals of the outermost run until now.
    pub(crate) fn run_totals(&self) -> RunTotals {
        self.history.run_totals()
    }

    /// Returns the update for the client. A budget that is only a cost is stated as the tokens that it buys at the average price so far,
    /// because the protocol states a usage in tokens. Returns `None` without a budget, or before the first priced request.
    pub(crate) fn budget_update(&self) -> Option<BudgetUsageUpdate> {
        let usage = self.history.budgeted_usage(&self.limits);
        let budget = BudgetStatus::after_usage(&self.limits, usage)?;
        let used = usage.input_tokens + usage.output_tokens;
        let most = match (self.limits.max_total_tokens, self.limits.max_cost) {
            (Some(most), _) => most,
            (None, Some(cost)) => {
                let spent = u128::from(usage.cost?.billionths());
                let most = (u128::from(used) * u128::from(cost.billionths())).checked_div(spent)?;
                u64::try_from(most).unwrap_or(u64::MAX)
            }
            (None, None) => return None,
        };
        Some(BudgetUsageUpdate { used, most, budget })
    }
}
