//! Changed conditions, each with one small change, for tests of tests.

use crate::condition::analysis::claims::include_matching_parentheses;
use crate::condition::expression::tree::{ChainStepKind, ComparisonOperator, ConditionExpr, ExprKind};
use crate::condition::functions::ConditionFunction;
use crate::condition::{CompileError, Condition, parse_condition};
use crate::source::Span;

/// A condition with one change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConditionMutant {
    /// The whole condition.
    pub text: String,
    /// The bytes of the original condition that are changed.
    pub span: Span,
    /// The original text at the span.
    pub from: String,
    /// The text of the mutant at the span.
    pub to: String,
}

impl Condition {
    /// Returns all mutants of the condition: negated, with another comparison, without one operand, with `or` for `and`, or
    /// with `all` for `any` (and the other way round). Each mutant is a valid condition that differs from the text.
    ///
    /// # Errors
    /// The text is no condition.
    pub fn list_mutants(text: &str) -> Result<Vec<ConditionMutant>, CompileError> {
        let expr = parse_condition(text)?;
        let mut mutants = MutantCollector { text, all: Vec::new() };
        mutants.add_negation(&expr);
        let is_whole = |kind: &ExprKind| matches!(kind, ExprKind::Compare(..));
        let inner = match &expr.kind {
            ExprKind::Not(inner) => inner,
            _ => &expr,
        };
        mutants.add_inner_mutants(&expr, is_whole(&inner.kind).then_some(inner.span));
        Ok(mutants.all)
    }
}

/// The mutants of a condition that have been found so far.
struct MutantCollector<'t> {
    text: &'t str,
    all: Vec<ConditionMutant>,
}

impl MutantCollector<'_> {
    /// Returns the source text of a part.
    fn part_text(&self, span: Span) -> &str {
        &self.text[span.start..span.end]
    }

    /// Adds the condition with `to` at the span, if the text is new and a valid condition.
    fn add_valid_mutant(&mut self, span: Span, to: String) {
        let text = format!("{}{to}{}", &self.text[..span.start], &self.text[span.end..]);
        let is_new = *text != *self.text && self.all.iter().all(|known| known.text != text);
        if is_new && Condition::check_syntax(&text).is_ok() {
            let from = self.part_text(span).to_owned();
            self.all.push(ConditionMutant { text, span, from, to });
        }
    }

    /// Adds the negation of the whole condition.
    fn add_negation(&mut self, expr: &ConditionExpr) {
        let trimmed = self.text.trim();
        let start = self.text.len() - self.text.trim_start().len();
        let condition_span = Span::new(start, start + trimmed.len());
        let to = match &expr.kind {
            ExprKind::Not(inner) => self
                .part_text(include_matching_parentheses(self.text, inner.span))
                .to_owned(),
            ExprKind::Chain(..) | ExprKind::Variable(_) | ExprKind::Call(..) => format!("not {trimmed}"),
            _ => format!("not ({trimmed})"),
        };
        self.add_valid_mutant(condition_span, to);
    }

    /// Adds the mutants of the expression and its parts. `plain`: the span of a comparison whose opposite is the negation of
    /// the whole condition.
    fn add_inner_mutants(&mut self, expr: &ConditionExpr, plain: Option<Span>) {
        match &expr.kind {
            ExprKind::And(operands) => self.add_operand_mutants(expr.span, operands, "and", "or"),
            ExprKind::Or(operands) => self.add_operand_mutants(expr.span, operands, "or", "and"),
            ExprKind::Compare(first, rest) => {
                let mut left = first.span;
                for (comparison, right) in rest {
                    let alternatives =
                        alternative_comparisons(*comparison, plain == Some(expr.span) && rest.len() == 1);
                    self.add_comparison_mutants(left, *comparison, right.span, alternatives);
                    left = right.span;
                }
            }
            ExprKind::Call(function, _) => self.add_any_all_mutants(function, expr.span.start),
            ExprKind::Chain(_, suffixes) => {
                for suffix in suffixes {
                    if let ChainStepKind::Method(function, _) = &suffix.kind {
                        self.add_any_all_mutants(function, suffix.span.start);
                    }
                }
            }
            _ => {}
        }
        let mut parts = Vec::new();
        expr.visit_parts(&mut |part| parts.push(part));
        for part in parts {
            self.add_inner_mutants(part, plain);
        }
    }

    /// Adds the mutants without each of the operands, and with the other operator.
    fn add_operand_mutants(&mut self, span: Span, operands: &[ConditionExpr], operator: &str, other: &str) {
        let span = include_matching_parentheses(self.text, span);
        let texts: Vec<String> = operands.iter().map(|operand| self.operand_text(operand)).collect();
        for left_out in 0..texts.len() {
            let kept_operands = texts.iter().enumerate().filter(|(at, _)| *at != left_out);
            let kept_texts: Vec<&str> = kept_operands.map(|(_, text)| text.as_str()).collect();
            self.add_valid_mutant(span, kept_texts.join(&format!(" {operator} ")));
        }
        self.add_valid_mutant(span, texts.join(&format!(" {other} ")));
    }

    /// Returns the text of an operand, in parentheses if another operator around it would change its meaning.
    fn operand_text(&self, operand: &ConditionExpr) -> String {
        let text = self.part_text(include_matching_parentheses(self.text, operand.span));
        match operand.kind {
            ExprKind::And(_) | ExprKind::Or(_) | ExprKind::IfElse(_) => format!("({text})"),
            _ => text.to_owned(),
        }
    }

    /// Adds the mutants that replace the operator between `left` and `right` by each of `others`.
    fn add_comparison_mutants(&mut self, left: Span, comparison: ComparisonOperator, right: Span, others: &[&str]) {
        let (start, end) = (left.end, right.start);
        if start >= end {
            return;
        }
        let between = &self.text[start..end];
        let spellings: &[&str] = match comparison {
            ComparisonOperator::Equal => &["==", "is"],
            ComparisonOperator::Different => &["!=", "is not"],
            ComparisonOperator::Less => &["<"],
            ComparisonOperator::LessEqual => &["<="],
            ComparisonOperator::Greater => &[">"],
            ComparisonOperator::GreaterEqual => &[">="],
            ComparisonOperator::In => &["in"],
            ComparisonOperator::NotIn => &["not in", "! in", "!in"],
        };
        let operator_span = spellings.iter().find_map(|spelling| {
            let at = between.find(spelling)?;
            Some(Span::new(start + at, start + at + spelling.len()))
        });
        for alternative in others {
            if let Some(span) = operator_span {
                self.add_valid_mutant(span, (*alternative).to_owned());
            }
        }
    }

    /// Adds the mutant with `all` for `any`, or `any` for `all`, if the function is one of them.
    fn add_any_all_mutants(&mut self, function: &ConditionFunction, start: usize) {
        for (name, other) in [("any", "all"), ("all", "any")] {
            let span = Span::new(start, start + name.len());
            if function.has_own_name(name) && self.text.get(span.start..span.end) == Some(name) {
                self.add_valid_mutant(span, other.to_owned());
            }
        }
    }
}

/// Returns the replacements of a comparison: with the other answer at the boundary, and in the other direction.
fn alternative_comparisons(comparison: ComparisonOperator, is_negated_anyway: bool) -> &'static [&'static str] {
    match comparison {
        ComparisonOperator::Equal
        | ComparisonOperator::Different
        | ComparisonOperator::In
        | ComparisonOperator::NotIn
            if is_negated_anyway =>
        {
            &[]
        }
        ComparisonOperator::Equal => &["!="],
        ComparisonOperator::Different => &["=="],
        ComparisonOperator::In => &["not in"],
        ComparisonOperator::NotIn => &["in"],
        ComparisonOperator::Less => &["<=", ">"],
        ComparisonOperator::LessEqual => &["<", ">="],
        ComparisonOperator::Greater => &[">=", "<"],
        ComparisonOperator::GreaterEqual => &[">", "<="],
    }
}
