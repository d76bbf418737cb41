//! The result of a condition that is the same for all possible values.
//!
//! Three cases are recognized: parts that read nothing, which are evaluated; combinations of them with `and`, `or` and
//! `not`; and requirements that contradict each other, such as `x > 3 and x < 2`. A whole condition is evaluated on one
//! snapshot, so two parts with the same text have the same value. **Invariant:** a condition that is reported as true
//! (or false) never has the opposite result; its evaluation may still fail.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

use crate::condition::expression::tree::{Comparison, Expr, Kind, Suffix, SuffixKind, Variable};
use crate::condition::{Condition, Counts, Facts, History, Outputs};

/// The highest number of parts that are evaluated, because each must be compiled.
const MOST_EVALUATED: usize = 16;
/// Integers up to this value are exact as floats, which are used for comparisons.
const EXACT: i64 = 1 << 53;

/// The result of a condition as it is known before a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The result depends on the values.
    Open,
    /// The condition is written as `true` or `false`.
    Plain(bool),
    /// The result is true, unless the evaluation fails.
    Always,
    /// The result is false, unless the evaluation fails.
    Never,
    /// The evaluation always fails, for this reason.
    Fails(String),
}

/// The result for the whole condition.
pub(crate) fn verdict(text: &str, expr: &Expr) -> Verdict {
    if is_closed(expr) {
        return match evaluate(text, expr) {
            Ok(true) => Verdict::Always,
            Ok(false) => Verdict::Never,
            Err(message) => Verdict::Fails(message),
        };
    }
    let mut reader = Reader { text, evaluated: 0 };
    match reader.truth(expr) {
        Some(true) => Verdict::Always,
        Some(false) => Verdict::Never,
        None => Verdict::Open,
    }
}

/// Returns whether the expression reads nothing.
fn is_closed(expr: &Expr) -> bool {
    let mut closed = !matches!(expr.kind, Kind::Variable(_));
    if closed {
        expr.parts(&mut |part| closed = closed && is_closed(part));
    }
    closed
}

fn evaluate(text: &str, expr: &Expr) -> Result<bool, String> {
    if let Kind::Bool(value) = expr.kind {
        return Ok(value);
    }
    let condition = Condition::made(text, expr.clone()).map_err(|error| error.message)?;
    let nothing = Facts {
        context: Arc::default(),
        output: None,
        turn_count: 0,
        history: Arc::new(Nothing),
        executions: Arc::new(Nothing),
        input: "".into(),
        inputs: Arc::default(),
        outputs: Arc::new(Nothing),
        part: None,
    };
    condition.evaluate(&nothing).map_err(|error| error.message)
}

struct Reader<'t> {
    text: &'t str,
    evaluated: usize,
}

impl<'t> Reader<'t> {
    fn truth(&mut self, expr: &Expr) -> Option<bool> {
        if is_closed(expr) {
            self.evaluated += 1;
            return (self.evaluated <= MOST_EVALUATED)
                .then(|| evaluate(self.text, expr).ok())
                .flatten();
        }
        let by_parts = match &expr.kind {
            Kind::Not(operand) => self.truth(operand).map(|truth| !truth),
            Kind::And(operands) => self.chain(operands, false),
            Kind::Or(operands) => self.chain(operands, true),
            Kind::Choice(choice) => match self.truth(&choice.condition) {
                Some(true) => self.truth(&choice.then),
                Some(false) => self.truth(&choice.otherwise),
                None => self
                    .truth(&choice.then)
                    .filter(|then| self.truth(&choice.otherwise) == Some(*then)),
            },
            _ => None,
        };
        by_parts.or_else(|| {
            if self.cannot_be(expr, true) {
                Some(false)
            } else {
                self.cannot_be(expr, false).then_some(true)
            }
        })
    }

    /// Evaluates a chain: one operand that decides is enough; otherwise all operands must be known.
    fn chain(&mut self, operands: &[Expr], decides: bool) -> Option<bool> {
        let mut all = Some(!decides);
        for operand in operands {
            match self.truth(operand) {
                Some(truth) if truth == decides => return Some(decides),
                Some(_) => {}
                None => all = None,
            }
        }
        all
    }

    /// Returns whether the requirements for this result contradict each other.
    fn cannot_be(&self, expr: &Expr, wanted: bool) -> bool {
        let mut demands = Demands::default();
        self.demand(expr, wanted, &mut demands);
        demands.contradictory
    }

    /// Collects the requirements on the parts that make the expression `wanted`.
    fn demand(&self, expr: &Expr, wanted: bool, demands: &mut Demands<'t>) {
        match &expr.kind {
            Kind::And(operands) if wanted => operands.iter().for_each(|one| self.demand(one, true, demands)),
            Kind::Or(operands) if !wanted => operands.iter().for_each(|one| self.demand(one, false, demands)),
            Kind::And(_) | Kind::Or(_) | Kind::Choice(_) => {}
            Kind::Not(operand) => self.demand(operand, !wanted, demands),
            Kind::Compare(first, rest) if wanted || rest.len() == 1 => {
                let mut left = &**first;
                for (comparison, right) in rest {
                    self.compare(left, *comparison, right, wanted, demands);
                    left = right;
                }
            }
            _ => demands.note(expr, self.words(expr), Demand::Truth(wanted)),
        }
    }

    fn compare(&self, left: &Expr, comparison: Comparison, right: &Expr, wanted: bool, demands: &mut Demands<'t>) {
        let comparison = if wanted { Some(comparison) } else { opposite(comparison) };
        let Some(comparison) = comparison else {
            return;
        };
        if let Some(value) = Constant::of(right) {
            demands.note(left, self.words(left), Demand::Compared(comparison, value));
        } else if let Some(value) = Constant::of(left)
            && let Some(turned) = turned(comparison)
        {
            demands.note(right, self.words(right), Demand::Compared(turned, value));
        }
    }

    fn words(&self, expr: &Expr) -> &'t str {
        &self.text[expr.span.start..expr.span.end]
    }
}

fn opposite(comparison: Comparison) -> Option<Comparison> {
    Some(match comparison {
        Comparison::Equal => Comparison::Different,
        Comparison::Different => Comparison::Equal,
        Comparison::Less => Comparison::GreaterEqual,
        Comparison::LessEqual => Comparison::Greater,
        Comparison::Greater => Comparison::LessEqual,
        Comparison::GreaterEqual => Comparison::Less,
        Comparison::In | Comparison::NotIn => return None,
    })
}

/// The comparison with swapped sides.
fn turned(comparison: Comparison) -> Option<Comparison> {
    Some(match comparison {
        Comparison::Less => Comparison::Greater,
        Comparison::LessEqual => Comparison::GreaterEqual,
        Comparison::Greater => Comparison::Less,
        Comparison::GreaterEqual => Comparison::LessEqual,
        Comparison::Equal | Comparison::Different => comparison,
        Comparison::In | Comparison::NotIn => return None,
    })
}

/// The value of a literal.
#[derive(Debug, Clone, PartialEq)]
enum Constant {
    Nothing,
    Bool(bool),
    Number(f64),
    Text(String),
}

impl Constant {
    fn of(expr: &Expr) -> Option<Self> {
        match &expr.kind {
            Kind::Nothing => Some(Self::Nothing),
            Kind::Bool(value) => Some(Self::Bool(*value)),
            Kind::Int(value) if value.abs_diff(0) <= EXACT.unsigned_abs() => Some(Self::Number(*value as f64)),
            Kind::Float(value) if value.is_finite() => Some(Self::Number(*value)),
            Kind::Text(text) => Some(Self::Text(text.clone())),
            _ => None,
        }
    }

    fn truth(&self) -> bool {
        match self {
            Self::Nothing => false,
            Self::Bool(value) => *value,
            Self::Number(value) => *value != 0.0,
            Self::Text(text) => !text.is_empty(),
        }
    }
}

enum Demand {
    Truth(bool),
    Compared(Comparison, Constant),
}

/// The requirements that must be met together, by the text of the part.
#[derive(Default)]
struct Demands<'t> {
    parts: HashMap<&'t str, Part>,
    contradictory: bool,
}

/// The requirements on one part.
#[derive(Default)]
struct Part {
    truth: Option<bool>,
    equal: Option<Constant>,
    different: Vec<Constant>,
    low: Option<Bound>,
    high: Option<Bound>,
}

#[derive(Clone, Copy)]
struct Bound {
    value: f64,
    included: bool,
}

impl<'t> Demands<'t> {
    fn note(&mut self, expr: &Expr, words: &'t str, demand: Demand) {
        let part = self.parts.entry(words).or_insert_with(|| Part {
            low: is_count(expr).then_some(Bound {
                value: 0.0,
                included: true,
            }),
            ..Part::default()
        });
        self.contradictory |= !part.add(demand);
    }
}

impl Part {
    /// `false` if no value can meet this requirement and all previous ones.
    fn add(&mut self, demand: Demand) -> bool {
        match demand {
            Demand::Truth(truth) => {
                if *self.truth.get_or_insert(truth) != truth {
                    return false;
                }
            }
            Demand::Compared(Comparison::Equal, value) => {
                if *self.equal.get_or_insert_with(|| value.clone()) != value {
                    return false;
                }
            }
            Demand::Compared(Comparison::Different, value) => self.different.push(value),
            Demand::Compared(comparison, Constant::Number(value)) => self.bound(comparison, value),
            Demand::Compared(..) => {}
        }
        self.possible()
    }

    fn bound(&mut self, comparison: Comparison, value: f64) {
        let included = matches!(comparison, Comparison::LessEqual | Comparison::GreaterEqual);
        let bound = Bound { value, included };
        match comparison {
            Comparison::Greater | Comparison::GreaterEqual => {
                let tighter = |old: Bound| value > old.value || (value == old.value && !included);
                if self.low.is_none_or(tighter) {
                    self.low = Some(bound);
                }
            }
            Comparison::Less | Comparison::LessEqual => {
                let tighter = |old: Bound| value < old.value || (value == old.value && !included);
                if self.high.is_none_or(tighter) {
                    self.high = Some(bound);
                }
            }
            _ => {}
        }
    }

    fn possible(&self) -> bool {
        if let (Some(low), Some(high)) = (self.low, self.high)
            && (low.value > high.value || (low.value == high.value && !(low.included && high.included)))
        {
            return false;
        }
        let Some(equal) = &self.equal else {
            return true;
        };
        let fits = match equal {
            Constant::Number(value) => {
                let above = |low: Bound| *value > low.value || (*value == low.value && low.included);
                let below = |high: Bound| *value < high.value || (*value == high.value && high.included);
                self.low.is_none_or(above) && self.high.is_none_or(below)
            }
            // A count of an unknown agent is nothing.
            Constant::Nothing => true,
            _ => self.low.is_none() && self.high.is_none(),
        };
        fits && !self.different.contains(equal) && self.truth.is_none_or(|truth| truth == equal.truth())
    }
}

/// Returns whether its value is a number of items, so at least 0.
fn is_count(expr: &Expr) -> bool {
    match &expr.kind {
        Kind::Variable(Variable::TurnCount) => true,
        Kind::Call(function, _) => function.is("len") || function.is("count"),
        Kind::Chain(_, suffixes) if suffixes.iter().any(|suffix| suffix.optional) => false,
        Kind::Chain(base, suffixes) => match suffixes.as_slice() {
            [
                ..,
                Suffix {
                    kind: SuffixKind::Method(function, _),
                    ..
                },
            ] => function.is("len") || function.is("count"),
            [_] => matches!(
                base.kind,
                Kind::Variable(Variable::Executions | Variable::AgentExecutionCount)
            ),
            _ => false,
        },
        _ => false,
    }
}

/// A snapshot without history and agents.
struct Nothing;

impl History for Nothing {
    fn len(&self) -> usize {
        0
    }
    fn field(&self, _: usize, _: &str) -> Option<Arc<Value>> {
        None
    }
    fn fields(&self) -> &'static [&'static str] {
        &[]
    }
}

impl Outputs for Nothing {
    fn output(&self, _: &str) -> Option<Arc<Value>> {
        None
    }
    fn agents(&self) -> Vec<Arc<str>> {
        Vec::new()
    }
}

impl Counts for Nothing {
    fn count(&self, _: &str) -> Option<u64> {
        None
    }
    fn names(&self) -> Vec<Arc<str>> {
        Vec::new()
    }
}
