//! Splits a condition into claims, combined by `and`, `or` and `not`. Each claim can be evaluated separately.
//!
//! This is for code that must know the possible results of a condition before the values that it reads exist.

use std::sync::Arc;

use crate::condition::analysis::reads::list_literal_key_reads;
use crate::condition::evaluation::code::{EmittedScript, emit_truth_script};
use crate::condition::evaluation::engine::ENGINE;
use crate::condition::expression::tree::{
    ChainStepKind, ComparisonOperator, ConditionExpr, ConditionVariable, ExprKind,
};
use crate::condition::functions::ConditionFunction;
use crate::condition::{Condition, run_with_large_stack};
use crate::source::Span;

/// The logical formula by which the result of a condition follows from the results of its claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimFormula {
    /// The claim with this index in the list.
    Claim(usize),
    /// The negation.
    Not(Box<ClaimFormula>),
    /// True if all of them are true; evaluated from left to right until one is false.
    And(Vec<ClaimFormula>),
    /// True if one of them is true; evaluated from left to right until one is true.
    Or(Vec<ClaimFormula>),
}

/// A part of a condition that is evaluated to true or false on its own.
#[derive(Debug)]
pub struct ConditionClaim {
    /// A key that is equal for claims with the same meaning, independent of their spelling.
    pub identity: Arc<str>,
    /// The text as the user wrote it.
    pub text: Arc<str>,
    /// Whether the claim is the opposite of its text: `a < b` for `a >= b`.
    pub is_opposite: bool,
    /// The compiled claim; positions in its errors refer to the whole condition.
    pub condition: Condition,
    /// The values that it reads.
    pub reads: ClaimReads,
}

/// The variables that a claim reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClaimReads {
    /// The context.
    pub context: bool,
    /// The output of the agent that is depended on.
    pub output: bool,
    /// The history, beyond its length.
    pub history: bool,
    /// The input of the run, or what it was given by name.
    pub input: bool,
    /// The latest outputs of agents.
    pub outputs: bool,
    /// The number of finished turns.
    pub turn_count: bool,
    /// The numbers of executions of agents, or of all agents together.
    pub executions: bool,
}

impl ClaimReads {
    /// Returns whether the claim reads only the numbers of turns and executions, and no outputs.
    pub fn reads_only_counts(&self) -> bool {
        !(self.context || self.output || self.outputs || self.history || self.input)
    }
}

impl ConditionClaim {
    /// Returns the agents whose executions the claim counts. Returns `None` if the claim also counts agents that it does not name.
    pub fn list_counted_agents(&self) -> Option<Vec<String>> {
        let expr = &self.condition.expr;
        let key_reads = list_literal_key_reads(
            expr,
            &[ConditionVariable::Executions, ConditionVariable::AgentExecutionCount],
        );
        let is_all = key_reads.len() == count_execution_reads(expr);
        is_all.then(|| key_reads.into_iter().map(|read| read.key).collect())
    }
}

impl Condition {
    /// Splits the condition into claims, and returns how its result follows from them.
    pub fn split_into_claims(&self) -> (ClaimFormula, Vec<ConditionClaim>) {
        let mut list = Vec::new();
        let claims = self.collect_claims(&self.expr, &mut list);
        (claims, list)
    }

    /// Adds the claims of the expression to `list`, and returns how its result follows from them.
    fn collect_claims(&self, expr: &ConditionExpr, list: &mut Vec<ConditionClaim>) -> ClaimFormula {
        match &expr.kind {
            ExprKind::Not(operand) => negate_claims(self.collect_claims(operand, list)),
            ExprKind::And(operands) => {
                ClaimFormula::And(operands.iter().map(|one| self.collect_claims(one, list)).collect())
            }
            ExprKind::Or(operands) => {
                ClaimFormula::Or(operands.iter().map(|one| self.collect_claims(one, list)).collect())
            }
            ExprKind::Compare(left, rest) if let [(comparison, right)] = rest.as_slice() => {
                self.add_comparison_claim(expr, left, *comparison, right, list)
            }
            _ => self.add_claim(expr, emit_truth_script(expr).script, list),
        }
    }

    /// Adds the claim of one comparison. Replaces it by an equivalent one if possible: `a != b` is the negation of `a == b`,
    /// `a > b` is `b < a`.
    fn add_comparison_claim(
        &self,
        whole: &ConditionExpr,
        left: &ConditionExpr,
        comparison: ComparisonOperator,
        right: &ConditionExpr,
        list: &mut Vec<ConditionClaim>,
    ) -> ClaimFormula {
        let plain = is_constant_or_read(left) && is_constant_or_read(right);
        let (opposite, said, first, second) = match comparison {
            ComparisonOperator::Different => (true, ComparisonOperator::Equal, left, right),
            ComparisonOperator::NotIn => (true, ComparisonOperator::In, left, right),
            ComparisonOperator::Greater => (false, ComparisonOperator::Less, right, left),
            // This is done only for simple values: the result of a calculation may be NaN.
            ComparisonOperator::GreaterEqual if plain => (true, ComparisonOperator::Less, left, right),
            ComparisonOperator::LessEqual if plain => (true, ComparisonOperator::Less, right, left),
            other => (false, other, left, right),
        };
        let alike = ConditionExpr::new(
            ExprKind::Compare(Box::new(first.clone()), vec![(said, second.clone())]),
            whole.span,
        );
        if !opposite {
            return self.add_claim(whole, emit_truth_script(&alike).script, list);
        }
        let claim = self.add_claim(&alike, emit_truth_script(&alike).script, list);
        if let Some(last) = list.last_mut() {
            last.is_opposite = true;
        }
        negate_claims(claim)
    }

    /// Adds the expression as a claim to `list`. Claims with the same `identity` have the same result.
    fn add_claim(&self, expr: &ConditionExpr, identity: String, list: &mut Vec<ConditionClaim>) -> ClaimFormula {
        let EmittedScript {
            script,
            sites,
            variables,
        } = emit_truth_script(expr);
        let script = run_with_large_stack(expr, || ENGINE.compile(&script)).expect("a part of a condition compiles");
        let mut reads = ClaimReads::default();
        mark_claim_reads(expr, &mut reads);
        list.push(ConditionClaim {
            identity: identity.into(),
            text: self.balanced_part_text(expr.span),
            is_opposite: false,
            condition: Self {
                text: self.text.clone(),
                expr: expr.clone(),
                script,
                sites,
                variables,
            },
            reads,
        });
        ClaimFormula::Claim(list.len() - 1)
    }

    /// Returns the text of a part with balanced parentheses. The span of a part may include only one of two parentheses.
    fn balanced_part_text(&self, span: Span) -> Arc<str> {
        let span = include_matching_parentheses(&self.text, span);
        self.text[span.start..span.end].trim().into()
    }
}

/// Widens the span until each of its parentheses has its counterpart.
pub(crate) fn include_matching_parentheses(text: &str, span: Span) -> Span {
    let (mut start, mut end) = (span.start, span.end);
    let count = |start: usize, end: usize, c: char| text[start..end].matches(c).count();
    while count(start, end, '(') < count(start, end, ')') {
        match text[..start].rfind('(') {
            Some(before) => start = before,
            None => break,
        }
    }
    while count(start, end, '(') > count(start, end, ')') {
        match text[end..].find(')') {
            Some(after) => end += after + 1,
            None => break,
        }
    }
    Span::new(start, end)
}

/// Negates the formula, and removes a double negation.
fn negate_claims(claims: ClaimFormula) -> ClaimFormula {
    match claims {
        ClaimFormula::Not(inner) => *inner,
        other => ClaimFormula::Not(Box::new(other)),
    }
}

/// Returns whether the expression is a constant, or a value that is read without a calculation.
fn is_constant_or_read(expr: &ConditionExpr) -> bool {
    match &expr.kind {
        ExprKind::Nothing
        | ExprKind::Bool(_)
        | ExprKind::Int(_)
        | ExprKind::Float(_)
        | ExprKind::Text(_)
        | ExprKind::Variable(_) => true,
        ExprKind::Sign(_, operand) => is_constant_or_read(operand),
        ExprKind::Chain(base, suffixes) => {
            is_constant_or_read(base)
                && suffixes.iter().all(|suffix| match &suffix.kind {
                    ChainStepKind::Member(_) => true,
                    ChainStepKind::Index(at) => is_constant_or_read(at),
                    ChainStepKind::Slice(from, to) => from.iter().chain(to).all(is_constant_or_read),
                    ChainStepKind::Method(function, arguments) => {
                        function.has_own_name("get") && arguments.iter().all(is_constant_or_read)
                    }
                })
        }
        _ => false,
    }
}

/// Sets the flag of every variable that the expression reads. The length of the history counts as `executions`.
fn mark_claim_reads(expr: &ConditionExpr, reads: &mut ClaimReads) {
    if is_history_length(expr) {
        reads.executions = true;
        return;
    }
    match expr.kind {
        ExprKind::Variable(ConditionVariable::Context) => reads.context = true,
        ExprKind::Variable(ConditionVariable::Output) => reads.output = true,
        ExprKind::Variable(ConditionVariable::TurnCount) => reads.turn_count = true,
        ExprKind::Variable(ConditionVariable::History) => reads.history = true,
        ExprKind::Variable(ConditionVariable::Executions | ConditionVariable::AgentExecutionCount) => {
            reads.executions = true
        }
        ExprKind::Variable(ConditionVariable::Input | ConditionVariable::Inputs) => reads.input = true,
        ExprKind::Variable(ConditionVariable::Outputs) => reads.outputs = true,
        // Only expressions of parts have these, and no decision reads those.
        ExprKind::Variable(ConditionVariable::Item | ConditionVariable::Part) => {}
        _ => expr.visit_parts(&mut |part| mark_claim_reads(part, reads)),
    }
}

/// Returns the number of places in the expression where executions are counted.
fn count_execution_reads(expr: &ConditionExpr) -> usize {
    match expr.kind {
        ExprKind::Variable(ConditionVariable::Executions | ConditionVariable::AgentExecutionCount) => 1,
        _ if is_history_length(expr) => 1,
        _ => {
            let mut places = 0;
            expr.visit_parts(&mut |part| places += count_execution_reads(part));
            places
        }
    }
}

/// Returns whether the expression is `len(history)`, `history.len()` or `history.is_empty()`.
fn is_history_length(expr: &ConditionExpr) -> bool {
    let is_history = |expr: &ConditionExpr| matches!(expr.kind, ExprKind::Variable(ConditionVariable::History));
    let counts = |function: &ConditionFunction| function.has_own_name("len") || function.has_own_name("is_empty");
    match &expr.kind {
        ExprKind::Call(function, arguments) => counts(function) && arguments.first().is_some_and(is_history),
        ExprKind::Chain(base, suffixes) => match suffixes.as_slice() {
            [only] => matches!(&only.kind, ChainStepKind::Method(function, _) if counts(function)) && is_history(base),
            _ => false,
        },
        _ => false,
    }
}
