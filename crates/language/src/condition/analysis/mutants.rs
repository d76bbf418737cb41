//! Changed conditions, each with one small change, for tests of tests.

use crate::condition::analysis::claims::balanced;
use crate::condition::expression::tree::{Comparison, Expr, Kind, SuffixKind};
use crate::condition::functions::Function;
use crate::condition::{CompileError, Condition, parse};
use crate::source::Span;

/// A condition with one change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mutant {
    /// The whole condition.
    pub text: String,
    /// The bytes of the original condition that are changed.
    pub span: Span,
    /// What stands there.
    pub from: String,
    /// What stands there instead.
    pub to: String,
}

impl Condition {
    /// The condition with one change each: negated, with another comparison, without one of several operands, with `or` in
    /// the place of `and`, with `all` in the place of `any`, and the other way round. Each is another condition.
    ///
    /// # Errors
    /// The text is no condition.
    pub fn mutants(text: &str) -> Result<Vec<Mutant>, CompileError> {
        let expr = parse(text)?;
        let mut mutants = Mutants { text, all: Vec::new() };
        mutants.negated(&expr);
        let is_whole = |kind: &Kind| matches!(kind, Kind::Compare(..));
        let inner = match &expr.kind {
            Kind::Not(inner) => inner,
            _ => &expr,
        };
        mutants.inside(&expr, is_whole(&inner.kind).then_some(inner.span));
        Ok(mutants.all)
    }
}

struct Mutants<'t> {
    text: &'t str,
    all: Vec<Mutant>,
}

impl Mutants<'_> {
    fn part(&self, span: Span) -> &str {
        &self.text[span.start..span.end]
    }

    fn add(&mut self, span: Span, to: String) {
        let text = format!("{}{to}{}", &self.text[..span.start], &self.text[span.end..]);
        let is_new = *text != *self.text && self.all.iter().all(|known| known.text != text);
        if is_new && Condition::check(&text).is_ok() {
            let from = self.part(span).to_owned();
            self.all.push(Mutant { text, span, from, to });
        }
    }

    fn negated(&mut self, expr: &Expr) {
        let trimmed = self.text.trim();
        let start = self.text.len() - self.text.trim_start().len();
        let whole = Span::new(start, start + trimmed.len());
        let to = match &expr.kind {
            Kind::Not(inner) => self.part(balanced(self.text, inner.span)).to_owned(),
            Kind::Chain(..) | Kind::Variable(_) | Kind::Call(..) => format!("not {trimmed}"),
            _ => format!("not ({trimmed})"),
        };
        self.add(whole, to);
    }

    /// The changes in the expression and its parts. `plain`: a comparison whose opposite is the negation of all.
    fn inside(&mut self, expr: &Expr, plain: Option<Span>) {
        match &expr.kind {
            Kind::And(operands) => self.operands(expr.span, operands, "and", "or"),
            Kind::Or(operands) => self.operands(expr.span, operands, "or", "and"),
            Kind::Compare(first, rest) => {
                let mut left = first.span;
                for (comparison, right) in rest {
                    let others = others(*comparison, plain == Some(expr.span) && rest.len() == 1);
                    self.comparison(left, *comparison, right.span, others);
                    left = right.span;
                }
            }
            Kind::Call(function, _) => self.function(function, expr.span.start),
            Kind::Chain(_, suffixes) => {
                for suffix in suffixes {
                    if let SuffixKind::Method(function, _) = &suffix.kind {
                        self.function(function, suffix.span.start);
                    }
                }
            }
            _ => {}
        }
        let mut parts = Vec::new();
        expr.parts(&mut |part| parts.push(part));
        for part in parts {
            self.inside(part, plain);
        }
    }

    /// Without each of the operands, and with the other operator.
    fn operands(&mut self, span: Span, operands: &[Expr], operator: &str, other: &str) {
        let span = balanced(self.text, span);
        let texts: Vec<String> = operands.iter().map(|operand| self.operand(operand)).collect();
        for left_out in 0..texts.len() {
            let kept = texts.iter().enumerate().filter(|(at, _)| *at != left_out);
            let kept: Vec<&str> = kept.map(|(_, text)| text.as_str()).collect();
            self.add(span, kept.join(&format!(" {operator} ")));
        }
        self.add(span, texts.join(&format!(" {other} ")));
    }

    fn operand(&self, operand: &Expr) -> String {
        let text = self.part(balanced(self.text, operand.span));
        match operand.kind {
            Kind::And(_) | Kind::Or(_) | Kind::Choice(_) => format!("({text})"),
            _ => text.to_owned(),
        }
    }

    fn comparison(&mut self, left: Span, comparison: Comparison, right: Span, others: &[&str]) {
        let (start, end) = (left.end, right.start);
        if start >= end {
            return;
        }
        let between = &self.text[start..end];
        let spellings: &[&str] = match comparison {
            Comparison::Equal => &["==", "is"],
            Comparison::Different => &["!=", "is not"],
            Comparison::Less => &["<"],
            Comparison::LessEqual => &["<="],
            Comparison::Greater => &[">"],
            Comparison::GreaterEqual => &[">="],
            Comparison::In => &["in"],
            Comparison::NotIn => &["not in", "! in", "!in"],
        };
        let found = spellings.iter().find_map(|spelling| {
            let at = between.find(spelling)?;
            Some(Span::new(start + at, start + at + spelling.len()))
        });
        for other in others {
            if let Some(span) = found {
                self.add(span, (*other).to_owned());
            }
        }
    }

    fn function(&mut self, function: &Function, start: usize) {
        for (name, other) in [("any", "all"), ("all", "any")] {
            let span = Span::new(start, start + name.len());
            if function.is(name) && self.text.get(span.start..span.end) == Some(name) {
                self.add(span, other.to_owned());
            }
        }
    }
}

/// The comparisons in the place of this one: with the other answer at the boundary, and in the other direction.
fn others(comparison: Comparison, is_negated_anyway: bool) -> &'static [&'static str] {
    match comparison {
        Comparison::Equal | Comparison::Different | Comparison::In | Comparison::NotIn if is_negated_anyway => &[],
        Comparison::Equal => &["!="],
        Comparison::Different => &["=="],
        Comparison::In => &["not in"],
        Comparison::NotIn => &["in"],
        Comparison::Less => &["<=", ">"],
        Comparison::LessEqual => &["<", ">="],
        Comparison::Greater => &[">=", "<"],
        Comparison::GreaterEqual => &[">", "<="],
    }
}
