//! Short scripts, run where they are asked for.
//!
//! To hand a script to another thread takes longer than most scripts run. A script reaches nothing outside and gives
//! the same value whenever it is run, so it may be begun on the spot with little room, and begun again on a thread of
//! its own if that was not enough. What is given up here leaves no trace.
//!
//! **Invariant:** what this gives is what the full engine gives. So every limit that is narrower here must end the
//! attempt for sure: a script cannot catch them, and a native function that passes over errors (`sort` with a
//! comparer) is not run here. What is read of large values is counted by an [`Allowance`] that remembers.

#[cfg(test)]
mod tests;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use rhai::{AST, ASTNode, Engine, EvalAltResult};
use serde_json::Value;

use super::{ScriptFailure, Variable, Words, engine, evaluate, scope};

/// Steps of the engine: about a tenth of a millisecond.
const OPERATION_LIMIT: u64 = 1_000;
/// Calls within calls.
const CALL_LIMIT: usize = 4;
/// The bytes of all texts of one value.
const STRING_LIMIT: usize = 64 << 10;
/// The items of one array or map, nested ones included.
const ITEM_LIMIT: usize = 1_000;
/// Statements and expressions within each other, as they stand in the text.
const DEPTH_LIMIT: usize = 16;
/// Values, and texts of 64 bytes, that may be handed to the script.
const ALLOWANCE: usize = 2_000;

/// Words of scripts that are not begun here: functions that pass over errors, and names made at run time.
const UNFIT: [&str; 3] = ["sort", "sort_by", "Fn"];

static ENGINE: LazyLock<Engine> = LazyLock::new(|| {
    let mut engine = engine::unlimited();
    engine
        .set_max_operations(OPERATION_LIMIT)
        .set_max_call_levels(CALL_LIMIT)
        .set_max_string_size(STRING_LIMIT)
        .set_max_array_size(ITEM_LIMIT)
        .set_max_map_size(ITEM_LIMIT);
    engine
});

/// May the script be begun here? Its depth bounds the stack that it takes.
pub(super) fn is_fit(ast: &AST, words: &Words) -> bool {
    let mut flat = true;
    ast.walk(&mut |path: &[ASTNode]| {
        flat = path.len() <= DEPTH_LIMIT;
        flat
    });
    flat && !UNFIT.iter().any(|word| words.contains(*word))
}

/// The script's end; `None`: it needs more room or time than there is here.
pub(super) fn run(
    ast: &AST,
    words: &Words,
    variables: &[(&'static str, Variable)],
) -> Option<Result<Value, ScriptFailure>> {
    let allowance = Arc::new(Allowance::new());
    let scope = scope(variables, words, |variable| variable.within(&allowance));
    if allowance.is_spent() {
        return None;
    }
    let attempt = AssertUnwindSafe(|| evaluate(&ENGINE, ast, scope));
    let ended = catch_unwind(attempt).unwrap_or_else(|_| Ok(Err(super::broken())));
    match ended {
        _ if allowance.is_spent() => None,
        Err(error) if is_limit(&error) => None,
        Err(error) => Some(Err(super::explain(*error, rhai::Position::NONE))),
        Ok(ended) => Some(ended),
    }
}

/// Is it one of the limits, some of which are narrower here?
fn is_limit(error: &EvalAltResult) -> bool {
    match error {
        EvalAltResult::ErrorInFunctionCall(_, _, inner, _) => is_limit(inner),
        error => error.is_system_exception(),
    }
}

/// How much the script may be handed. Once it is spent it stays so.
#[derive(Debug)]
pub(super) struct Allowance {
    left: AtomicUsize,
    spent: AtomicBool,
}

impl Allowance {
    fn new() -> Self {
        Self {
            left: AtomicUsize::new(ALLOWANCE),
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
