//! Conditions whose result depends only on some keys of the context.

use super::super::analysis::reads;
use super::super::expression::tree::{ComparisonOperator, ConditionExpr, ConditionVariable, ExprKind};
use super::super::{ConditionKeyRead, ParsedCondition};
use super::paths::find_literal_path;
use super::polarity::visit_sufficient_parts;

impl ParsedCondition {
    /// Returns the literal keys of the context that the condition reads, if its result depends on nothing else but the inputs.
    pub fn list_context_keys_if_sole(&self) -> Option<Vec<ConditionKeyRead>> {
        let (mut context, mut others) = (0, 0);
        count_variable_uses(&self.expr, &mut context, &mut others);
        let keys = reads::list_literal_key_reads(&self.expr, &[ConditionVariable::Context]);
        (others == 0 && context == keys.len()).then_some(keys)
    }

    /// Returns the context keys each of which makes the condition true while the value of the key is `true`.
    pub fn list_sufficient_context_keys(&self) -> Vec<String> {
        let mut keys = Vec::new();
        visit_sufficient_parts(&self.expr, true, &mut |part, answer| {
            let value = match &part.kind {
                ExprKind::Compare(left, rest) => match rest.as_slice() {
                    [(ComparisonOperator::Equal, right)] if matches!(right.kind, ExprKind::Bool(true)) => left,
                    _ => return,
                },
                _ => part,
            };
            keys.extend(as_context_key(value).filter(|_| answer));
        });
        keys
    }
}

/// Counts the uses of the context, and of other variables except for inputs.
fn count_variable_uses(expr: &ConditionExpr, context: &mut usize, others: &mut usize) {
    match expr.kind {
        ExprKind::Variable(ConditionVariable::Context) => *context += 1,
        ExprKind::Variable(ConditionVariable::Input | ConditionVariable::Inputs) => {}
        ExprKind::Variable(_) => *others += 1,
        _ => expr.visit_parts(&mut |part| count_variable_uses(part, context, others)),
    }
}

/// Returns the key, if the expression is the value of one key of the context.
fn as_context_key(expr: &ConditionExpr) -> Option<String> {
    let (ConditionVariable::Context, mut keys) = find_literal_path(expr)? else {
        return None;
    };
    let key = keys.pop()?;
    keys.is_empty().then_some(key)
}
