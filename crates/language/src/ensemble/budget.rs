//! The budget of a conversation: its limits, the messages that share it, and what is left of it.

use std::fmt;

use serde::Serialize;

use super::{BudgetScope, ConversationLimits};
use crate::data::{Cost, ModelUsage, RemainingBudget};

/// The limits of a budget, and the amounts that are left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct BudgetStatus {
    /// The messages that share the budget.
    pub scope: BudgetScope,
    /// `max_total_tokens`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_total_tokens: Option<u64>,
    /// The tokens that are left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remaining_tokens: Option<u64>,
    /// `max_cost`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cost: Option<Cost>,
    /// The cost that is left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remaining_cost: Option<Cost>,
}

impl BudgetStatus {
    /// Returns the status after this usage. Returns `None` if the limits contain no budget.
    pub fn after_usage(limits: &ConversationLimits, used: ModelUsage) -> Option<Self> {
        let whole = limits.initial_budget();
        let remaining = whole.subtract_usage(used);
        (whole != RemainingBudget::default()).then_some(Self {
            scope: limits.budget_scope(),
            max_total_tokens: whole.tokens,
            remaining_tokens: remaining.tokens,
            max_cost: whole.cost,
            remaining_cost: remaining.cost,
        })
    }

    /// Returns whether nothing is left of one of the limits.
    pub fn is_exhausted(&self) -> bool {
        self.remaining_tokens == Some(0) || self.remaining_cost == Some(Cost::default())
    }

    /// Returns whether another message can only be answered with higher limits.
    pub fn refuses_messages(&self) -> bool {
        self.scope == BudgetScope::Conversation && self.is_exhausted()
    }

    /// Returns the words that follow what is left: the messages that share the budget.
    pub fn scope_words(&self) -> &'static str {
        match self.scope {
            BudgetScope::Conversation => "",
            BudgetScope::Message => " for this message",
        }
    }

    /// Returns whether at most a fifth of one of the limits is left.
    pub fn is_low(&self) -> bool {
        let is_low = |most: Option<u64>, left: Option<u64>| most.zip(left).is_some_and(|(most, left)| left <= most / 5);
        let billionths = |cost: Option<Cost>| cost.map(Cost::billionths);
        is_low(self.max_total_tokens, self.remaining_tokens)
            || is_low(billionths(self.max_cost), billionths(self.remaining_cost))
    }
}

/// Writes what is left: `20 of 100 tokens and 0.5 of the cost of 2 are left`.
impl fmt::Display for BudgetStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tokens = self.remaining_tokens.zip(self.max_total_tokens);
        let cost = self.remaining_cost.zip(self.max_cost);
        let parts = [
            tokens.map(|(left, most)| format!("{left} of {most} tokens")),
            cost.map(|(left, most)| format!("{left} of the cost of {most}")),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        let verb = if tokens.is_none() { "is" } else { "are" };
        write!(f, "{} {verb} left", parts.join(" and "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(tokens: Option<u64>, cost: Option<f64>) -> ConversationLimits {
        ConversationLimits {
            max_total_tokens: tokens,
            max_cost: cost.map(Cost::from_amount),
            ..ConversationLimits::default()
        }
    }

    #[test]
    fn what_is_left_is_described_and_low_from_a_fifth_on() {
        let used = |tokens: u64, cost: f64| ModelUsage {
            input_tokens: tokens / 2,
            output_tokens: tokens - tokens / 2,
            cost: Some(Cost::from_amount(cost)),
            ..ModelUsage::default()
        };
        let table = [
            (Some(100), None, used(79, 9.0), "21 of 100 tokens are left", false),
            (Some(100), None, used(80, 9.0), "20 of 100 tokens are left", true),
            (Some(100), None, used(101, 9.0), "0 of 100 tokens are left", true),
            (None, Some(2.0), used(99, 1.5), "0.5 of the cost of 2 is left", false),
            (None, Some(2.0), used(99, 1.6), "0.4 of the cost of 2 is left", true),
            (
                Some(100),
                Some(2.0),
                used(10, 1.9),
                "90 of 100 tokens and 0.1 of the cost of 2 are left",
                true,
            ),
        ];
        for (tokens, cost, used, expected, is_low) in table {
            let status = BudgetStatus::after_usage(&limits(tokens, cost), used).expect("a budget");
            assert_eq!((status.to_string().as_str(), status.is_low()), (expected, is_low));
        }
        assert_eq!(BudgetStatus::after_usage(&limits(None, None), used(9, 9.0)), None);
    }
}
