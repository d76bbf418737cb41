//! Conditions whose result depends only on some keys of the context.

use super::ast::{Comparison, Expr, Kind, Variable};
use super::truths::path;
use super::{KeyRead, Reading, reads};

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
        truths(&self.expr, &mut keys);
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

fn truths(expr: &Expr, keys: &mut Vec<String>) {
    match &expr.kind {
        Kind::Or(operands) => operands.iter().for_each(|operand| truths(operand, keys)),
        Kind::Compare(left, rest) => {
            if let [(Comparison::Equal, right)] = rest.as_slice()
                && matches!(right.kind, Kind::Bool(true))
            {
                keys.extend(key(left));
            }
        }
        _ => keys.extend(key(expr)),
    }
}

/// The key, if the expression is the value of a key of the context.
fn key(expr: &Expr) -> Option<String> {
    let (Variable::Context, mut keys) = path(expr)? else {
        return None;
    };
    let key = keys.pop()?;
    keys.is_empty().then_some(key)
}
