//! Conditions whose result depends only on some keys of the context.

use super::super::analysis::reads;
use super::super::expression::tree::{Comparison, Expr, Kind, Variable};
use super::super::{KeyRead, Reading};
use super::paths::find_path;
use super::polarity::visit_sufficient;

impl Reading {
    /// The keys of the context that it reads by a literal name, if the result depends on nothing else but what the run was
    /// given.
    pub fn context_alone(&self) -> Option<Vec<KeyRead>> {
        let (mut context, mut others) = (0, 0);
        count(&self.expr, &mut context, &mut others);
        let keys = reads::keys_read(&self.expr, &[Variable::Context]);
        (others == 0 && context == keys.len()).then_some(keys)
    }

    /// The keys of the context each of which is enough to make the condition true while its value is `true`.
    pub fn context_truths(&self) -> Vec<String> {
        let mut keys = Vec::new();
        visit_sufficient(&self.expr, true, &mut |part, answer| {
            let value = match &part.kind {
                Kind::Compare(left, rest) => match rest.as_slice() {
                    [(Comparison::Equal, right)] if matches!(right.kind, Kind::Bool(true)) => left,
                    _ => return,
                },
                _ => part,
            };
            keys.extend(key(value).filter(|_| answer));
        });
        keys
    }
}

/// Counts the uses of the context, and of variables other than what the run was given.
fn count(expr: &Expr, context: &mut usize, others: &mut usize) {
    match expr.kind {
        Kind::Variable(Variable::Context) => *context += 1,
        Kind::Variable(Variable::Input | Variable::Inputs) => {}
        Kind::Variable(_) => *others += 1,
        _ => expr.parts(&mut |part| count(part, context, others)),
    }
}

/// The key, if the expression is the value of a key of the context.
fn key(expr: &Expr) -> Option<String> {
    let (Variable::Context, mut keys) = find_path(expr)? else {
        return None;
    };
    let key = keys.pop()?;
    keys.is_empty().then_some(key)
}
