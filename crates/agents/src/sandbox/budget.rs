//! How much a script may read while it runs inline.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::Value;

/// Values, and texts of 64 bytes, that may be handed to the script.
pub(super) const READ_BUDGET: usize = 2_000;

/// How much the script may be handed. Once it is spent it stays so.
#[derive(Debug)]
pub(super) struct ReadBudget {
    left: AtomicUsize,
    spent: AtomicBool,
}

impl ReadBudget {
    pub(super) fn new() -> Self {
        Self {
            left: AtomicUsize::new(READ_BUDGET),
            spent: AtomicBool::new(false),
        }
    }

    pub(super) fn is_spent(&self) -> bool {
        self.spent.load(Ordering::Relaxed)
    }

    /// Takes so much of it; `false` if there is not enough.
    pub(super) fn take(&self, amount: usize) -> bool {
        let left = self.left.load(Ordering::Relaxed);
        let rest = left.checked_sub(amount);
        self.left.store(rest.unwrap_or(0), Ordering::Relaxed);
        self.spent.fetch_or(rest.is_none(), Ordering::Relaxed);
        !self.is_spent()
    }

    /// Takes what a text of so many bytes weighs.
    pub(super) fn take_text(&self, bytes: usize) -> bool {
        self.take(1 + bytes / 64)
    }

    /// Takes what the value weighs, and looks at no more of it than there is left.
    pub(super) fn take_value(&self, value: &Value) -> bool {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => self.take(1),
            Value::String(text) => self.take_text(text.len()),
            Value::Array(items) => self.take(1) && items.iter().all(|item| self.take_value(item)),
            Value::Object(entries) => {
                self.take(1)
                    && entries
                        .iter()
                        .all(|(key, value)| self.take_text(key.len()) && self.take_value(value))
            }
        }
    }
}
