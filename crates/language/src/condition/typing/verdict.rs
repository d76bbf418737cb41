//! The result of a condition that is the same for all possible values.
//!
//! Three cases are recognized: parts that read nothing, which are evaluated; combinations of them with `and`, `or` and
//! `not`; and requirements that contradict each other, such as `x > 3 and x < 2`. A whole condition is evaluated on one
//! snapshot, so two parts with the same text have the same value. **Invariant:** a condition that is reported as true
//! (or false) never has the opposite result; its evaluation may still fail.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

use crate::condition::expression::tree::{
    ChainStep, ChainStepKind, ComparisonOperator, ConditionExpr, ConditionVariable, ExprKind,
};
use crate::condition::{Condition, ConditionHistory, ConditionOutputs, ConditionSnapshot, ExecutionCounts};

/// The highest number of parts that are evaluated, because each must be compiled.
const MAX_EVALUATED_PARTS: usize = 16;
/// Integers up to this value are exact as floats, which are used for comparisons.
const MAX_EXACT_INTEGER: i64 = 1 << 53;

/// The result of a condition, as far as it is known before a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StaticResult {
    /// The result depends on the values.
    DependsOnValues,
    /// The condition is written as `true` or `false`.
    WrittenLiteral(bool),
    /// The result is true, unless the evaluation fails.
    AlwaysTrue,
    /// The result is false, unless the evaluation fails.
    AlwaysFalse,
    /// The evaluation always fails, for this reason.
    AlwaysFails(String),
}

/// Finds the result of the whole condition that is the same for all values.
pub(crate) fn find_static_result(text: &str, expr: &ConditionExpr) -> StaticResult {
    if is_constant_expr(expr) {
        return match evaluate_constant(text, expr) {
            Ok(true) => StaticResult::AlwaysTrue,
            Ok(false) => StaticResult::AlwaysFalse,
            Err(message) => StaticResult::AlwaysFails(message),
        };
    }
    let mut reader = StaticEvaluator {
        text,
        evaluation_count: 0,
    };
    match reader.find_truth(expr) {
        Some(true) => StaticResult::AlwaysTrue,
        Some(false) => StaticResult::AlwaysFalse,
        None => StaticResult::DependsOnValues,
    }
}

/// Returns whether the expression reads no variables.
fn is_constant_expr(expr: &ConditionExpr) -> bool {
    // A part of a comprehension reads its variable, so a comprehension is never evaluated here.
    let mut closed = !matches!(expr.kind, ExprKind::Variable(_) | ExprKind::Local(_));
    if closed {
        expr.visit_parts(&mut |part| closed = closed && is_constant_expr(part));
    }
    closed
}

/// Compiles and evaluates an expression that reads no variables.
fn evaluate_constant(text: &str, expr: &ConditionExpr) -> Result<bool, String> {
    if let ExprKind::Bool(value) = expr.kind {
        return Ok(value);
    }
    let condition = Condition::compile_expr(text, expr.clone()).map_err(|error| error.message)?;
    let nothing = ConditionSnapshot {
        context: Arc::default(),
        output: None,
        turn_count: 0,
        history: Arc::new(EmptySnapshot),
        executions: Arc::new(EmptySnapshot),
        input: "".into(),
        inputs: Arc::default(),
        outputs: Arc::new(EmptySnapshot),
        part: None,
    };
    condition.evaluate(&nothing).map_err(|error| error.message)
}

/// The state of finding the truth of a condition before a run.
struct StaticEvaluator<'t> {
    text: &'t str,
    evaluation_count: usize,
}

impl<'t> StaticEvaluator<'t> {
    /// Returns the truth of the expression, if it is the same for all values. Evaluates at most 16 constant parts.
    fn find_truth(&mut self, expr: &ConditionExpr) -> Option<bool> {
        if is_constant_expr(expr) {
            self.evaluation_count += 1;
            return (self.evaluation_count <= MAX_EVALUATED_PARTS)
                .then(|| evaluate_constant(self.text, expr).ok())
                .flatten();
        }
        let by_parts = match &expr.kind {
            ExprKind::Not(operand) => self.find_truth(operand).map(|truth| !truth),
            ExprKind::And(operands) => self.find_chain_truth(operands, false),
            ExprKind::Or(operands) => self.find_chain_truth(operands, true),
            ExprKind::IfElse(choice) => match self.find_truth(&choice.condition) {
                Some(true) => self.find_truth(&choice.then),
                Some(false) => self.find_truth(&choice.otherwise),
                None => self
                    .find_truth(&choice.then)
                    .filter(|then| self.find_truth(&choice.otherwise) == Some(*then)),
            },
            _ => None,
        };
        by_parts.or_else(|| {
            if self.can_never_be(expr, true) {
                Some(false)
            } else {
                self.can_never_be(expr, false).then_some(true)
            }
        })
    }

    /// Returns the truth of `and` or `or`: one operand that decides (`decides`) is enough; otherwise all must be known.
    fn find_chain_truth(&mut self, operands: &[ConditionExpr], decides: bool) -> Option<bool> {
        let mut all = Some(!decides);
        for operand in operands {
            match self.find_truth(operand) {
                Some(truth) if truth == decides => return Some(decides),
                Some(_) => {}
                None => all = None,
            }
        }
        all
    }

    /// Returns whether the requirements for the result `wanted` contradict each other.
    fn can_never_be(&self, expr: &ConditionExpr, wanted: bool) -> bool {
        let mut demands = ConditionDemands::default();
        self.collect_demands(expr, wanted, &mut demands);
        demands.is_contradictory
    }

    /// Adds the requirements on the parts that make the expression `wanted`.
    fn collect_demands(&self, expr: &ConditionExpr, wanted: bool, demands: &mut ConditionDemands<'t>) {
        match &expr.kind {
            ExprKind::And(operands) if wanted => {
                operands.iter().for_each(|one| self.collect_demands(one, true, demands))
            }
            ExprKind::Or(operands) if !wanted => operands
                .iter()
                .for_each(|one| self.collect_demands(one, false, demands)),
            ExprKind::And(_) | ExprKind::Or(_) | ExprKind::IfElse(_) => {}
            ExprKind::Not(operand) => self.collect_demands(operand, !wanted, demands),
            ExprKind::Compare(first, rest) if wanted || rest.len() == 1 => {
                let mut left = &**first;
                for (comparison, right) in rest {
                    self.demand_comparison(left, *comparison, right, wanted, demands);
                    left = right;
                }
            }
            _ => demands.add_demand(expr, self.expr_text(expr), PartDemand::Truth(wanted)),
        }
    }

    /// Adds the requirement that the comparison has the result `wanted`, if one side is a literal.
    fn demand_comparison(
        &self,
        left: &ConditionExpr,
        comparison: ComparisonOperator,
        right: &ConditionExpr,
        wanted: bool,
        demands: &mut ConditionDemands<'t>,
    ) {
        let comparison = if wanted {
            Some(comparison)
        } else {
            negate_comparison(comparison)
        };
        let Some(comparison) = comparison else {
            return;
        };
        if let Some(value) = LiteralValue::from_expr(right) {
            demands.add_demand(left, self.expr_text(left), PartDemand::Comparison(comparison, value));
        } else if let Some(value) = LiteralValue::from_expr(left)
            && let Some(turned) = try_swap_sides(comparison)
        {
            demands.add_demand(right, self.expr_text(right), PartDemand::Comparison(turned, value));
        }
    }

    /// Returns the source text of the expression.
    fn expr_text(&self, expr: &ConditionExpr) -> &'t str {
        &self.text[expr.span.start..expr.span.end]
    }
}

/// Returns the opposite comparison; `None` for `in` and `not in`.
fn negate_comparison(comparison: ComparisonOperator) -> Option<ComparisonOperator> {
    Some(match comparison {
        ComparisonOperator::Equal => ComparisonOperator::Different,
        ComparisonOperator::Different => ComparisonOperator::Equal,
        ComparisonOperator::Less => ComparisonOperator::GreaterEqual,
        ComparisonOperator::LessEqual => ComparisonOperator::Greater,
        ComparisonOperator::Greater => ComparisonOperator::LessEqual,
        ComparisonOperator::GreaterEqual => ComparisonOperator::Less,
        ComparisonOperator::In | ComparisonOperator::NotIn => return None,
    })
}

/// Returns the comparison with swapped sides; `None` for `in` and `not in`.
fn try_swap_sides(comparison: ComparisonOperator) -> Option<ComparisonOperator> {
    Some(match comparison {
        ComparisonOperator::Less => ComparisonOperator::Greater,
        ComparisonOperator::LessEqual => ComparisonOperator::GreaterEqual,
        ComparisonOperator::Greater => ComparisonOperator::Less,
        ComparisonOperator::GreaterEqual => ComparisonOperator::LessEqual,
        ComparisonOperator::Equal | ComparisonOperator::Different => comparison,
        ComparisonOperator::In | ComparisonOperator::NotIn => return None,
    })
}

/// The value of a literal.
#[derive(Debug, Clone, PartialEq)]
enum LiteralValue {
    Nothing,
    Bool(bool),
    Number(f64),
    Text(String),
}

impl LiteralValue {
    /// Returns the value of a literal that is exact as a float; `None` for all other expressions.
    fn from_expr(expr: &ConditionExpr) -> Option<Self> {
        match &expr.kind {
            ExprKind::Nothing => Some(Self::Nothing),
            ExprKind::Bool(value) => Some(Self::Bool(*value)),
            ExprKind::Int(value) if value.abs_diff(0) <= MAX_EXACT_INTEGER.unsigned_abs() => {
                Some(Self::Number(*value as f64))
            }
            ExprKind::Float(value) if value.is_finite() => Some(Self::Number(*value)),
            ExprKind::Text(text) => Some(Self::Text(text.clone())),
            _ => None,
        }
    }

    /// Returns the truth value of the literal, as in Python.
    fn is_truthy(&self) -> bool {
        match self {
            Self::Nothing => false,
            Self::Bool(value) => *value,
            Self::Number(value) => *value != 0.0,
            Self::Text(text) => !text.is_empty(),
        }
    }
}

/// A requirement on one part of a condition.
enum PartDemand {
    Truth(bool),
    Comparison(ComparisonOperator, LiteralValue),
}

/// The requirements that must be met together, by the text of their part.
#[derive(Default)]
struct ConditionDemands<'t> {
    parts: HashMap<&'t str, PartDemands>,
    is_contradictory: bool,
}

/// The requirements on one part that must be met together.
#[derive(Default)]
struct PartDemands {
    truth: Option<bool>,
    equal: Option<LiteralValue>,
    different: Vec<LiteralValue>,
    low: Option<ValueBound>,
    high: Option<ValueBound>,
}

/// A lower or upper bound of a number.
#[derive(Clone, Copy)]
struct ValueBound {
    value: f64,
    is_included: bool,
}

impl<'t> ConditionDemands<'t> {
    /// Adds a requirement on the part with this text, and notes a contradiction.
    fn add_demand(&mut self, expr: &ConditionExpr, words: &'t str, demand: PartDemand) {
        let part = self.parts.entry(words).or_insert_with(|| PartDemands {
            low: is_nonnegative_count(expr).then_some(ValueBound {
                value: 0.0,
                is_included: true,
            }),
            ..PartDemands::default()
        });
        self.is_contradictory |= !part.add_and_check(demand);
    }
}

impl PartDemands {
    /// Adds a requirement. Returns `false` if no value can meet this requirement and all previous ones.
    fn add_and_check(&mut self, demand: PartDemand) -> bool {
        match demand {
            PartDemand::Truth(truth) => {
                if *self.truth.get_or_insert(truth) != truth {
                    return false;
                }
            }
            PartDemand::Comparison(ComparisonOperator::Equal, value) => {
                if *self.equal.get_or_insert_with(|| value.clone()) != value {
                    return false;
                }
            }
            PartDemand::Comparison(ComparisonOperator::Different, value) => self.different.push(value),
            PartDemand::Comparison(comparison, LiteralValue::Number(value)) => self.tighten_bound(comparison, value),
            PartDemand::Comparison(..) => {}
        }
        self.is_possible()
    }

    /// Replaces the lower or upper bound if the new bound is tighter.
    fn tighten_bound(&mut self, comparison: ComparisonOperator, value: f64) {
        let included = matches!(
            comparison,
            ComparisonOperator::LessEqual | ComparisonOperator::GreaterEqual
        );
        let bound = ValueBound {
            value,
            is_included: included,
        };
        match comparison {
            ComparisonOperator::Greater | ComparisonOperator::GreaterEqual => {
                let tighter = |old: ValueBound| value > old.value || (value == old.value && !included);
                if self.low.is_none_or(tighter) {
                    self.low = Some(bound);
                }
            }
            ComparisonOperator::Less | ComparisonOperator::LessEqual => {
                let tighter = |old: ValueBound| value < old.value || (value == old.value && !included);
                if self.high.is_none_or(tighter) {
                    self.high = Some(bound);
                }
            }
            _ => {}
        }
    }

    /// Returns whether a value can meet the bounds and equalities together.
    fn is_possible(&self) -> bool {
        if let (Some(low), Some(high)) = (self.low, self.high)
            && (low.value > high.value || (low.value == high.value && !(low.is_included && high.is_included)))
        {
            return false;
        }
        let Some(equal) = &self.equal else {
            return true;
        };
        let fits = match equal {
            LiteralValue::Number(value) => {
                let above = |low: ValueBound| *value > low.value || (*value == low.value && low.is_included);
                let below = |high: ValueBound| *value < high.value || (*value == high.value && high.is_included);
                self.low.is_none_or(above) && self.high.is_none_or(below)
            }
            // A count of an unknown agent is nothing.
            LiteralValue::Nothing => true,
            _ => self.low.is_none() && self.high.is_none(),
        };
        fits && !self.different.contains(equal) && self.truth.is_none_or(|truth| truth == equal.is_truthy())
    }
}

/// Returns whether the value of the expression is a number of items, turns or executions, so at least 0.
fn is_nonnegative_count(expr: &ConditionExpr) -> bool {
    match &expr.kind {
        ExprKind::Variable(ConditionVariable::TurnCount) => true,
        ExprKind::Call(function, _) => function.has_own_name("len") || function.has_own_name("count"),
        ExprKind::Chain(_, suffixes) if suffixes.iter().any(|suffix| suffix.is_optional) => false,
        ExprKind::Chain(base, suffixes) => match suffixes.as_slice() {
            [
                ..,
                ChainStep {
                    kind: ChainStepKind::Method(function, _),
                    ..
                },
            ] => function.has_own_name("len") || function.has_own_name("count"),
            [_] => matches!(
                base.kind,
                ExprKind::Variable(ConditionVariable::Executions | ConditionVariable::AgentExecutionCount)
            ),
            _ => false,
        },
        _ => false,
    }
}

/// A snapshot without history and agents.
struct EmptySnapshot;

impl ConditionHistory for EmptySnapshot {
    fn len(&self) -> usize {
        0
    }
    fn field_value(&self, _: usize, _: &str) -> Option<Arc<Value>> {
        None
    }
    fn field_names(&self) -> &'static [&'static str] {
        &[]
    }
}

impl ConditionOutputs for EmptySnapshot {
    fn latest_output(&self, _: &str) -> Option<Arc<Value>> {
        None
    }
    fn agents_with_output(&self) -> Vec<Arc<str>> {
        Vec::new()
    }
}

impl ExecutionCounts for EmptySnapshot {
    fn execution_count(&self, _: &str) -> Option<u64> {
        None
    }
    fn agent_names(&self) -> Vec<Arc<str>> {
        Vec::new()
    }
}
