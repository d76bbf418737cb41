//! The keys of outputs of which a condition asks whether they are true, without a comparison.

use super::super::expression::tree::{Comprehension, ConditionExpr, ConditionVariable, ExprKind};
use super::super::functions::ConditionFunction;
use super::paths::find_literal_path;
use crate::source::Span;

/// A read of a key of an output whose truth a condition asks for: `output.done`, `context.writer.done`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TruthRead {
    /// The output that is read.
    pub output: OutputSource,
    /// The key of the output.
    pub key: String,
    /// The bytes of the whole read.
    pub span: Span,
}

/// The source from which an output is read: the dependency, a key of the context, or an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutputSource {
    /// The agent that is depended on.
    Dependency,
    /// The agent that stores its output in the context under this key.
    ContextKey(String),
    /// The agent with this name.
    Agent(String),
}

/// Adds the reads whose truth the expression asks for, from left to right. `is_asked`: the truth of the whole expression is asked for.
pub(in super::super) fn collect_truth_reads(expr: &ConditionExpr, is_asked: bool, reads: &mut Vec<TruthRead>) {
    match &expr.kind {
        ExprKind::Not(operand) => collect_truth_reads(operand, true, reads),
        ExprKind::And(operands) | ExprKind::Or(operands) => {
            // The value of the last operand can be the value of the whole.
            let last = operands.len().saturating_sub(1);
            for (at, operand) in operands.iter().enumerate() {
                collect_truth_reads(operand, is_asked || at < last, reads);
            }
        }
        ExprKind::Coalesce(operands) => operands
            .iter()
            .for_each(|one| collect_truth_reads(one, is_asked, reads)),
        ExprKind::IfElse(choice) => {
            collect_truth_reads(&choice.condition, true, reads);
            collect_truth_reads(&choice.then, is_asked, reads);
            collect_truth_reads(&choice.otherwise, is_asked, reads);
        }
        ExprKind::Comprehension(comprehension) => collect_comprehension_reads(comprehension, false, reads),
        ExprKind::Call(function, arguments) if let Some(searched) = as_any_all_comprehension(function, arguments) => {
            collect_comprehension_reads(searched, true, reads);
        }
        ExprKind::Call(function, arguments) if function.has_own_name("bool") => {
            arguments
                .iter()
                .for_each(|argument| collect_truth_reads(argument, true, reads));
        }
        _ => {
            if is_asked {
                reads.extend(as_truth_read(expr));
            }
            expr.visit_parts(&mut |part| collect_truth_reads(part, false, reads));
        }
    }
}

/// Adds the reads of a comprehension: the element if `is_asked`, and the filters, whose truth is always asked for.
fn collect_comprehension_reads(comprehension: &Comprehension, is_asked: bool, reads: &mut Vec<TruthRead>) {
    collect_truth_reads(&comprehension.element, is_asked, reads);
    for clause in &comprehension.clauses {
        collect_truth_reads(&clause.source, false, reads);
        let filters = clause.filters.iter();
        filters.for_each(|filter| collect_truth_reads(filter, true, reads));
    }
}

/// Returns the comprehension in the argument of `any` or `all`.
pub(in super::super) fn as_any_all_comprehension<'e>(
    function: &ConditionFunction,
    arguments: &'e [ConditionExpr],
) -> Option<&'e Comprehension> {
    let is_search = function.has_own_name("any") || function.has_own_name("all");
    match &arguments.first()?.kind {
        ExprKind::Comprehension(comprehension) if is_search => Some(comprehension),
        _ => None,
    }
}

/// Returns the read, if the expression is one literal key of an output.
fn as_truth_read(expr: &ConditionExpr) -> Option<TruthRead> {
    let (variable, mut steps) = find_literal_path(expr)?;
    let key = steps.pop()?;
    let of = match (variable, steps.pop()) {
        (ConditionVariable::Output, None) => OutputSource::Dependency,
        (ConditionVariable::Context, Some(stored)) => OutputSource::ContextKey(stored),
        (ConditionVariable::Outputs, Some(agent)) => OutputSource::Agent(agent),
        _ => return None,
    };
    steps.is_empty().then_some(TruthRead {
        output: of,
        key,
        span: expr.span,
    })
}
