//! The values that an expression reads by literal keys.

use super::super::expression::tree::{ChainStep, ChainStepKind, ConditionExpr, ConditionVariable, ExprKind};
use super::super::functions::ConditionFunction;

/// Returns the variable and the keys of an expression that only looks up literal keys.
pub(in super::super) fn find_literal_path(expr: &ConditionExpr) -> Option<(ConditionVariable, Vec<String>)> {
    find_literal_path_skipping(expr, &|_| false)
}

/// Returns the variable and the keys of an expression that looks up literal keys. Ignores calls of functions for which `is_skipped` is true.
pub(super) fn find_literal_path_skipping(
    expr: &ConditionExpr,
    is_skipped: &dyn Fn(&ConditionFunction) -> bool,
) -> Option<(ConditionVariable, Vec<String>)> {
    match &expr.kind {
        ExprKind::Variable(variable) => Some((*variable, Vec::new())),
        ExprKind::Chain(base, suffixes) => {
            let (variable, mut keys) = find_literal_path_skipping(base, is_skipped)?;
            for suffix in suffixes {
                match &suffix.kind {
                    ChainStepKind::Method(function, _) if is_skipped(function) => {}
                    _ => keys.push(as_literal_key(suffix)?),
                }
            }
            Some((variable, keys))
        }
        ExprKind::Call(function, arguments) if is_skipped(function) => {
            find_literal_path_skipping(arguments.first()?, is_skipped)
        }
        ExprKind::Call(function, arguments) if function.has_own_name("get") => {
            let (variable, mut keys) = find_literal_path_skipping(arguments.first()?, is_skipped)?;
            keys.push(as_literal_text(arguments.get(1)?)?);
            Some((variable, keys))
        }
        _ => None,
    }
}

/// Returns the key of `.key`, `['key']` and `.get('key')`.
fn as_literal_key(suffix: &ChainStep) -> Option<String> {
    match &suffix.kind {
        ChainStepKind::Member(name) => Some(name.clone()),
        ChainStepKind::Index(at) => as_literal_text(at),
        ChainStepKind::Method(function, arguments) if function.has_own_name("get") => {
            as_literal_text(arguments.first()?)
        }
        ChainStepKind::Slice(..) | ChainStepKind::Method(..) => None,
    }
}

/// Returns the text of a string literal.
fn as_literal_text(expr: &ConditionExpr) -> Option<String> {
    match &expr.kind {
        ExprKind::Text(text) => Some(text.clone()),
        _ => None,
    }
}
