//! A condition taken apart: `and`, `or` and `not` over claims that can be answered one by one.
//!
//! For those who must know what a condition could say before there is anything that it could read.

use std::sync::Arc;

use super::ast::{Comparison, Expr, Kind, SuffixKind, Variable};
use super::emit::{Emitted, emit};
use super::engine::ENGINE;
use super::functions::Function;
use super::{Condition, with_room};
use crate::source::Span;

/// How the claims of a condition make its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claims {
    /// The claim at this position of the list.
    Claim(usize),
    /// The opposite.
    Not(Box<Claims>),
    /// All of them, asked from left to right until one is false.
    And(Vec<Claims>),
    /// One of them, asked from left to right until one is true.
    Or(Vec<Claims>),
}

/// A part of a condition that is true or false as a whole.
#[derive(Debug)]
pub struct Claim {
    /// The same for two claims that say the same of the same things, however they are spelled.
    pub identity: Arc<str>,
    /// As the user wrote it.
    pub text: Arc<str>,
    /// What can be asked; places in its errors are those of the whole condition.
    pub condition: Condition,
    /// What it reads.
    pub reads: Sources,
}

/// What a claim reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sources {
    /// What agents have put into the context.
    pub context: bool,
    /// What the dependency's agent has said.
    pub output: bool,
    /// Executions, beyond how many there are.
    pub history: bool,
    /// The run's input.
    pub input: bool,
    /// How many turns have finished.
    pub turn_count: bool,
    /// How often agents have executed, or all of them together.
    pub executions: bool,
}

impl Sources {
    /// It follows from who has run how often, not from what anybody said.
    pub fn are_counts(&self) -> bool {
        !(self.context || self.output || self.history || self.input)
    }
}

impl Condition {
    /// The condition as claims.
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

    /// `a != b` is the opposite of `a == b`, and `a > b` says what `b < a` says.
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
            // Only among plain values: a calculation could come to what is no number.
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
        negated(self.claim(&alike, emit(&alike).script, list))
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

    /// The text of a part. A part's place leaves out the parentheses around it, and so half of those that begin or
    /// end inside it.
    fn part(&self, span: Span) -> Arc<str> {
        let (mut start, mut end) = (span.start, span.end);
        let count = |start: usize, end: usize, c: char| self.text[start..end].matches(c).count();
        while count(start, end, '(') < count(start, end, ')') {
            match self.text[..start].rfind('(') {
                Some(before) => start = before,
                None => break,
            }
        }
        while count(start, end, '(') > count(start, end, ')') {
            match self.text[end..].find(')') {
                Some(after) => end += after + 1,
                None => break,
            }
        }
        self.text[start..end].trim().into()
    }
}

fn negated(claims: Claims) -> Claims {
    match claims {
        Claims::Not(inner) => *inner,
        other => Claims::Not(Box::new(other)),
    }
}

/// A constant, or something that is read as it is.
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
        Kind::Variable(Variable::Input) => reads.input = true,
        _ => expr.parts(&mut |part| note_sources(part, reads)),
    }
}

/// `len(history)`, `history.len()`, `history.is_empty()`: as many as all agents have executed.
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
