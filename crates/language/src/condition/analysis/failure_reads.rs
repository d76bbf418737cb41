//! The parts of a condition that were evaluated until its evaluation failed.

use super::super::evaluation::code;
use super::super::expression::tree::{ConditionExpr, ExprKind};
use super::super::{Condition, ConditionSnapshot};

/// The value of an operand: a failure, or a truth value.
enum OperandValue {
    Fails,
    Truth(bool),
}

impl Condition {
    /// Adds the parts that were evaluated, from left to right. Returns `false` if the evaluation fails in one of them.
    pub(in super::super) fn collect_evaluated_parts<'e>(
        &self,
        expr: &'e ConditionExpr,
        facts: &ConditionSnapshot,
        evaluated: &mut Vec<&'e ConditionExpr>,
    ) -> bool {
        match &expr.kind {
            ExprKind::And(operands) => self.collect_evaluated_operands(operands, Some(false), facts, evaluated),
            ExprKind::Or(operands) => self.collect_evaluated_operands(operands, Some(true), facts, evaluated),
            ExprKind::IfElse(choice) => {
                if !self.collect_evaluated_parts(&choice.condition, facts, evaluated) {
                    return false;
                }
                match self.evaluate_operand(&choice.condition, facts) {
                    OperandValue::Fails => false,
                    OperandValue::Truth(true) => self.collect_evaluated_parts(&choice.then, facts, evaluated),
                    OperandValue::Truth(false) => self.collect_evaluated_parts(&choice.otherwise, facts, evaluated),
                }
            }
            ExprKind::Not(operand) => {
                self.collect_evaluated_parts(operand, facts, evaluated)
                    && !matches!(self.evaluate_operand(operand, facts), OperandValue::Fails)
            }
            ExprKind::Compare(first, rest) => {
                let parts = std::iter::once(&**first).chain(rest.iter().map(|(_, operand)| operand));
                self.collect_evaluated_sequence(parts, facts, evaluated)
            }
            ExprKind::Arithmetic(first, rest) => {
                let parts = std::iter::once(&**first).chain(rest.iter().map(|(_, operand)| operand));
                self.collect_evaluated_sequence(parts, facts, evaluated)
            }
            _ => {
                evaluated.push(expr);
                !matches!(self.evaluate_operand(expr, facts), OperandValue::Fails)
            }
        }
    }

    /// Adds the evaluated parts of the operands of `and` or `or`, up to the operand that decides. Returns `false` after a failure.
    fn collect_evaluated_operands<'e>(
        &self,
        operands: &'e [ConditionExpr],
        decides: Option<bool>,
        facts: &ConditionSnapshot,
        evaluated: &mut Vec<&'e ConditionExpr>,
    ) -> bool {
        for operand in operands {
            if !self.collect_evaluated_parts(operand, facts, evaluated) {
                return false;
            }
            match self.evaluate_operand(operand, facts) {
                OperandValue::Fails => return false,
                OperandValue::Truth(truth) if Some(truth) == decides => return true,
                OperandValue::Truth(_) => {}
            }
        }
        true
    }

    /// Adds the evaluated parts of all `parts`, up to the first failure. Returns `false` after a failure.
    fn collect_evaluated_sequence<'e>(
        &self,
        mut parts: impl Iterator<Item = &'e ConditionExpr>,
        facts: &ConditionSnapshot,
        evaluated: &mut Vec<&'e ConditionExpr>,
    ) -> bool {
        parts.all(|part| self.collect_evaluated_parts(part, facts, evaluated))
    }

    /// Evaluates one operand on its own.
    fn evaluate_operand(&self, expr: &ConditionExpr, facts: &ConditionSnapshot) -> OperandValue {
        let value = Condition::compile_expr_with(&self.text, expr.clone(), code::emit_value_script)
            .ok()
            .and_then(|part| part.run_script(facts).0.ok());
        match value {
            None => OperandValue::Fails,
            Some(value) => {
                OperandValue::Truth(super::super::evaluation::value::ConditionValue::from(value).is_truthy())
            }
        }
    }
}
