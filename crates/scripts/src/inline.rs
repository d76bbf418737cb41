//! Inline execution: short scripts run on the calling thread.
//!
//! Passing a script to another thread takes longer than most scripts run. A script has no side effects and is
//! deterministic. So it is first run on the calling thread with narrow limits, and run again on a worker thread if it
//! exceeds them.
//!
//! **Invariant:** the result is that of the full engine. So every narrower limit must end the attempt: a script cannot
//! catch these errors, and a script is not run inline if it may call a native function that ignores errors of a
//! callback (`sort`). A [`ReadBudget`] counts what the script reads of large values.

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock};

use rhai::{AST, ASTNode, Engine, EvalAltResult, Expr, Stmt};
use serde_json::Value;

use super::budget::ReadBudget;
use super::{
    ScriptFailure, ScriptVariable, ScriptVariableName, ScriptWords, build_named_scope, engine, evaluate_script,
};

/// Largest number of engine steps, which take about a tenth of a millisecond.
const OPERATION_LIMIT: u64 = 1_000;
/// Largest number of nested calls.
const CALL_LIMIT: usize = 4;
/// Largest number of bytes of all texts in one value.
const STRING_LIMIT: usize = 64 << 10;
/// Largest number of items of an array or map, including nested items.
const ITEM_LIMIT: usize = 1_000;
/// Largest depth of nested statements and expressions in the text.
const DEPTH_LIMIT: usize = 16;

/// Word with which a script creates functions from names. The called functions of such a script are unknown.
const FUNCTION_POINTER_WORD: &str = "Fn";

/// Functions that a script with functions or closures can call inline: functions without callbacks, and functions that return the errors of
/// their callbacks. Other functions (`sort`, `order`, `dedup`) ignore errors, including limits.
const INLINE_FUNCTIONS: [&str; 44] = [
    "abs",
    "all",
    "append",
    "call",
    "ceiling",
    "contains",
    "ends_with",
    "filter",
    "find",
    "find_map",
    "floor",
    "for_each",
    "get",
    "index_of",
    "insert",
    "is_def_var",
    "is_empty",
    "keys",
    "len",
    "map",
    "max",
    "min",
    "parse_float",
    "parse_int",
    "parse_json",
    "pop",
    "push",
    "range",
    "reduce",
    "reduce_rev",
    "remove",
    "replace",
    "round",
    "some",
    "split",
    "starts_with",
    "sub_string",
    "to_float",
    "to_int",
    "to_json",
    "to_lower",
    "to_string",
    "to_upper",
    "values",
];

/// Engine with the narrow limits of inline execution.
static ENGINE: LazyLock<Engine> = LazyLock::new(|| {
    let mut engine = engine::build_unlimited_engine();
    engine
        .set_max_operations(OPERATION_LIMIT)
        .set_max_call_levels(CALL_LIMIT)
        .set_max_string_size(STRING_LIMIT)
        .set_max_array_size(ITEM_LIMIT)
        .set_max_map_size(ITEM_LIMIT);
    engine
});

/// Returns whether the script can run inline: its nesting is limited, and every function that it calls reports errors of callbacks.
pub(super) fn can_run_inline(ast: &AST, words: &ScriptWords) -> bool {
    let own_functions: HashSet<&str> = ast.iter_functions().map(|function| function.name).collect();
    let mut fit = !words.contains(FUNCTION_POINTER_WORD);
    ast.walk(&mut |path: &[ASTNode]| {
        let called = path.last().and_then(find_called_function);
        let is_known = own_functions.is_empty()
            || called.is_none_or(|name| own_functions.contains(name) || can_be_called_inline(name));
        fit &= is_known && path.len() <= DEPTH_LIMIT;
        fit
    });
    fit
}

/// Returns the name of the function that the node calls. Returns `None` for other nodes.
fn find_called_function<'a>(node: &'a ASTNode<'_>) -> Option<&'a str> {
    match node {
        ASTNode::Stmt(Stmt::FnCall(call, _)) | ASTNode::Expr(Expr::FnCall(call, _) | Expr::MethodCall(call, _)) => {
            Some(&call.name)
        }
        _ => None,
    }
}

/// Returns whether the function reports the errors of its callbacks, or is an operator, which has no callbacks.
fn can_be_called_inline(name: &str) -> bool {
    !name.starts_with(|first: char| first.is_alphanumeric() || first == '_') || INLINE_FUNCTIONS.contains(&name)
}

/// Runs the script on this thread. Returns `None` if the script exceeds a limit of inline execution.
pub(super) fn try_run_inline<N: ScriptVariableName>(
    ast: &AST,
    words: &ScriptWords,
    variables: &[(N, ScriptVariable)],
) -> Option<Result<Value, ScriptFailure>> {
    let budget = Arc::new(ReadBudget::new());
    let scope = build_named_scope(variables, words, |variable| variable.to_dynamic_within_budget(&budget));
    if budget.is_spent() {
        return None;
    }
    let attempt = AssertUnwindSafe(|| evaluate_script(&ENGINE, ast, scope));
    let result = catch_unwind(attempt).unwrap_or_else(|_| Ok(Err(super::engine_crash_failure())));
    match result {
        _ if budget.is_spent() => None,
        Err(error) if is_uncatchable_limit_error(&error) => None,
        Err(error) => Some(Err(super::classify_engine_error(*error, rhai::Position::NONE))),
        Ok(result) => Some(result),
    }
}

/// Returns whether the error is a limit, which a script cannot catch.
fn is_uncatchable_limit_error(error: &EvalAltResult) -> bool {
    match error {
        EvalAltResult::ErrorInFunctionCall(_, _, inner, _) => is_uncatchable_limit_error(inner),
        error => error.is_system_exception(),
    }
}
