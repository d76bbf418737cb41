//! Splits a condition into claims, combined by `and`, `or` and `not`. Each claim can be evaluated separately.
//!
//! This is for code that must know the possible results of a condition before the values that it reads exist.

use std::sync::Arc;

use crate::condition::analysis::reads::keys_read;
use crate::condition::evaluation::code::{Emitted, emit};
use crate::condition::evaluation::engine::ENGINE;
use crate::condition::expression::tree::{Comparison, Expr, Kind, SuffixKind, Variable};
use crate::condition::functions::Function;
use crate::condition::{Condition, with_room};
use crate::source::Span;

/// The logic by which the result of a condition follows from its claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claims {
    /// The claim with this index in the list.
    Claim(usize),
    /// The negation.
    Not(Box<Claims>),
    /// True if all of them are true; evaluated from left to right until one is false.
    And(Vec<Claims>),
    /// True if one of them is true; evaluated from left to right until one is true.
    Or(Vec<Claims>),
}

/// A part of a condition that is evaluated to true or false.
#[derive(Debug)]
pub struct Claim {
    /// A key that is equal for claims with the same meaning, independent of their spelling.
    pub identity: Arc<str>,
    /// The text as the user wrote it.
    pub text: Arc<str>,
    /// Whether the claim is the opposite of its text: `a < b` for `a >= b`.
    pub is_opposite: bool,
    /// The compiled claim; positions in its errors refer to the whole condition.
    pub condition: Condition,
    /// The values that it reads.
    pub reads: Sources,
}

/// The values that a claim reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sources {
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

impl Sources {
    /// Returns whether the result depends only on the numbers of turns and executions, not on outputs.
    pub fn are_counts(&self) -> bool {
        !(self.context || self.output || self.outputs || self.history || self.input)
    }
}

impl Claim {
    /// The agents whose executions it counts, if it names all of them; `None` if it counts those of other agents, too.
    pub fn agents_counted(&self) -> Option<Vec<String>> {
        let expr = &self.condition.expr;
        let named = keys_read(expr, &[Variable::Executions, Variable::AgentExecutionCount]);
        let is_all = named.len() == places_of_counts(expr);
        is_all.then(|| named.into_iter().map(|read| read.key).collect())
    }
}

impl Condition {
    /// Splits the condition into claims.
    pub fn claims(&self) -> (Claims, Vec<Claim>) {
        let mut list = Vec::new();
        let claims = self.take_apart(&self.expr, &mut list);
        (claims, list)
    }

    fn take_apart(&self, expr: &Expr, list: &mut Vec<Claim>) -> Claims {
        match &expr.kind {
            Kind::Not(operand) => negated(self.take_apart(operand, list)),
            Kind::And(operands) => Claims::And(operands.iter().map(|one| self.take_apart(one, list)).collect()),
            Kind::Or(operands) => Claims::Or(operands.iter().map(|one| self.take_apart(one, list)).collect()),
            Kind::Compare(left, rest) if let [(comparison, right)] = rest.as_slice() => {
                self.comparison(expr, left, *comparison, right, list)
            }
            _ => self.claim(expr, emit(expr).script, list),
        }
    }

    /// `a != b` is the negation of `a == b`, and `a > b` has the same meaning as `b < a`.
    fn comparison(
        &self,
        whole: &Expr,
        left: &Expr,
        comparison: Comparison,
        right: &Expr,
        list: &mut Vec<Claim>,
    ) -> Claims {
        let plain = is_plain(left) && is_plain(right);
        let (opposite, said, first, second) = match comparison {
            Comparison::Different => (true, Comparison::Equal, left, right),
            Comparison::NotIn => (true, Comparison::In, left, right),
            Comparison::Greater => (false, Comparison::Less, right, left),
            // This is done only for simple values: the result of a calculation may be NaN.
            Comparison::GreaterEqual if plain => (true, Comparison::Less, left, right),
            Comparison::LessEqual if plain => (true, Comparison::Less, right, left),
            other => (false, other, left, right),
        };
        let alike = Expr::new(
            Kind::Compare(Box::new(first.clone()), vec![(said, second.clone())]),
            whole.span,
        );
        if !opposite {
            return self.claim(whole, emit(&alike).script, list);
        }
        let claim = self.claim(&alike, emit(&alike).script, list);
        if let Some(last) = list.last_mut() {
            last.is_opposite = true;
        }
        negated(claim)
    }

    fn claim(&self, expr: &Expr, identity: String, list: &mut Vec<Claim>) -> Claims {
        let Emitted {
            script,
            sites,
            variables,
        } = emit(expr);
        let script = with_room(expr, || ENGINE.compile(&script)).expect("a part of a condition compiles");
        let mut reads = Sources::default();
        note_sources(expr, &mut reads);
        list.push(Claim {
            identity: identity.into(),
            text: self.part(expr.span),
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
        Claims::Claim(list.len() - 1)
    }

    /// The text of a part. The position of a part does not include the parentheses around it, so its text may contain
    /// only one of two parentheses.
    fn part(&self, span: Span) -> Arc<str> {
        let span = balanced(&self.text, span);
        self.text[span.start..span.end].trim().into()
    }
}

/// The position with the other one of each parenthesis.
pub(crate) fn balanced(text: &str, span: Span) -> Span {
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

fn negated(claims: Claims) -> Claims {
    match claims {
        Claims::Not(inner) => *inner,
        other => Claims::Not(Box::new(other)),
    }
}

/// A constant, or a value that is read without a calculation.
fn is_plain(expr: &Expr) -> bool {
    match &expr.kind {
        Kind::Nothing | Kind::Bool(_) | Kind::Int(_) | Kind::Float(_) | Kind::Text(_) | Kind::Variable(_) => true,
        Kind::Sign(_, operand) => is_plain(operand),
        Kind::Chain(base, suffixes) => {
            is_plain(base)
                && suffixes.iter().all(|suffix| match &suffix.kind {
                    SuffixKind::Member(_) => true,
                    SuffixKind::Index(at) => is_plain(at),
                    SuffixKind::Method(function, arguments) => function.is("get") && arguments.iter().all(is_plain),
                })
        }
        _ => false,
    }
}

fn note_sources(expr: &Expr, reads: &mut Sources) {
    if is_length_of_history(expr) {
        reads.executions = true;
        return;
    }
    match expr.kind {
        Kind::Variable(Variable::Context) => reads.context = true,
        Kind::Variable(Variable::Output) => reads.output = true,
        Kind::Variable(Variable::TurnCount) => reads.turn_count = true,
        Kind::Variable(Variable::History) => reads.history = true,
        Kind::Variable(Variable::Executions | Variable::AgentExecutionCount) => reads.executions = true,
        Kind::Variable(Variable::Input | Variable::Inputs) => reads.input = true,
        Kind::Variable(Variable::Outputs) => reads.outputs = true,
        // Only expressions of parts have these, and no decision reads those.
        Kind::Variable(Variable::Item | Variable::Part) => {}
        _ => expr.parts(&mut |part| note_sources(part, reads)),
    }
}

/// The number of places where executions are counted.
fn places_of_counts(expr: &Expr) -> usize {
    match expr.kind {
        Kind::Variable(Variable::Executions | Variable::AgentExecutionCount) => 1,
        _ if is_length_of_history(expr) => 1,
        _ => {
            let mut places = 0;
            expr.parts(&mut |part| places += places_of_counts(part));
            places
        }
    }
}

/// `len(history)`, `history.len()`, `history.is_empty()`: the number of executions of all agents.
fn is_length_of_history(expr: &Expr) -> bool {
    let is_history = |expr: &Expr| matches!(expr.kind, Kind::Variable(Variable::History));
    let counts = |function: &Function| function.is("len") || function.is("is_empty");
    match &expr.kind {
        Kind::Call(function, arguments) => counts(function) && arguments.first().is_some_and(is_history),
        Kind::Chain(base, suffixes) => match suffixes.as_slice() {
            [only] => matches!(&only.kind, SuffixKind::Method(function, _) if counts(function)) && is_history(base),
            _ => false,
        },
        _ => false,
    }
}
