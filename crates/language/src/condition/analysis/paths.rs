//! The values that an expression reads by literal keys.

use super::super::expression::tree::{Expr, Kind, Suffix, SuffixKind, Variable};
use super::super::functions::Function;

/// Finds the variable and the keys of an expression that only looks up literal keys.
pub(in super::super) fn find_path(expr: &Expr) -> Option<(Variable, Vec<String>)> {
    find_path_through(expr, &|_| false)
}

/// Finds the variable and the keys of an expression that looks up literal keys and applies only functions that are skipped.
pub(super) fn find_path_through(
    expr: &Expr,
    is_skipped: &dyn Fn(&Function) -> bool,
) -> Option<(Variable, Vec<String>)> {
    match &expr.kind {
        Kind::Variable(variable) => Some((*variable, Vec::new())),
        Kind::Chain(base, suffixes) => {
            let (variable, mut keys) = find_path_through(base, is_skipped)?;
            for suffix in suffixes {
                match &suffix.kind {
                    SuffixKind::Method(function, _) if is_skipped(function) => {}
                    _ => keys.push(key_of(suffix)?),
                }
            }
            Some((variable, keys))
        }
        Kind::Call(function, arguments) if is_skipped(function) => find_path_through(arguments.first()?, is_skipped),
        Kind::Call(function, arguments) if function.is("get") => {
            let (variable, mut keys) = find_path_through(arguments.first()?, is_skipped)?;
            keys.push(literal_text(arguments.get(1)?)?);
            Some((variable, keys))
        }
        _ => None,
    }
}

fn key_of(suffix: &Suffix) -> Option<String> {
    match &suffix.kind {
        SuffixKind::Member(name) => Some(name.clone()),
        SuffixKind::Index(at) => literal_text(at),
        SuffixKind::Method(function, arguments) if function.is("get") => literal_text(arguments.first()?),
        SuffixKind::Method(..) => None,
    }
}

fn literal_text(expr: &Expr) -> Option<String> {
    match &expr.kind {
        Kind::Text(text) => Some(text.clone()),
        _ => None,
    }
}
