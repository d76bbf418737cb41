//! How much a script may read while it runs inline.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::Value;

/// Largest number of values, and of blocks of 64 bytes of text, that an inline script can read.
pub(super) const INITIAL_READ_BUDGET: usize = 2_000;

/// Limit of what an inline script can read. A spent budget stays spent.
#[derive(Debug)]
pub(super) struct ReadBudget {
    remaining: AtomicUsize,
    spent: AtomicBool,
}

impl ReadBudget {
    /// Creates a full budget.
    pub(super) fn new() -> Self {
        Self {
            remaining: AtomicUsize::new(INITIAL_READ_BUDGET),
            spent: AtomicBool::new(false),
        }
    }

    /// Returns whether the script has tried to read more than the budget allows.
    pub(super) fn is_spent(&self) -> bool {
        self.spent.load(Ordering::Relaxed)
    }

    /// Subtracts `amount`. Returns `false`, and marks the budget as spent, if not enough is left.
    pub(super) fn try_spend(&self, amount: usize) -> bool {
        let remaining = self.remaining.load(Ordering::Relaxed);
        let new_remaining = remaining.checked_sub(amount);
        self.remaining.store(new_remaining.unwrap_or(0), Ordering::Relaxed);
        self.spent.fetch_or(new_remaining.is_none(), Ordering::Relaxed);
        !self.is_spent()
    }

    /// Subtracts the cost of a text with this number of bytes. Returns `false` if the budget is spent.
    pub(super) fn try_spend_text(&self, bytes: usize) -> bool {
        self.try_spend(1 + bytes / 64)
    }

    /// Subtracts the cost of the value. Stops and returns `false` as soon as the budget is spent.
    pub(super) fn try_spend_value(&self, value: &Value) -> bool {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => self.try_spend(1),
            Value::String(text) => self.try_spend_text(text.len()),
            Value::Array(items) => self.try_spend(1) && items.iter().all(|item| self.try_spend_value(item)),
            Value::Object(entries) => {
                self.try_spend(1)
                    && entries
                        .iter()
                        .all(|(key, value)| self.try_spend_text(key.len()) && self.try_spend_value(value))
            }
        }
    }
}
