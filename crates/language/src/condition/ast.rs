//! What a condition says, with the place of every part.
//!
//! Chains of one kind (`a and b and c`, `a + b - c`, `a.b.c`) are one flat node: a long condition is wide,
//! not deep, and nothing that walks the tree can run out of stack.

use super::functions::Function;
use super::operators::Arithmetic;
use crate::source::Span;

/// An expression.
#[derive(Debug, Clone)]
pub(super) struct Expr {
    pub(super) kind: Kind,
    /// Its bytes, surrounding parentheses not included.
    pub(super) span: Span,
    /// How many levels of expressions are in it, itself included.
    pub(super) height: usize,
}

/// The sorts of expression.
#[derive(Debug, Clone)]
pub(super) enum Kind {
    Nothing,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    List(Vec<Expr>),
    Map(Vec<(String, Expr)>),
    Variable(Variable),
    /// `base.member[index].method()`.
    Chain(Box<Expr>, Vec<Suffix>),
    Call(&'static Function, Vec<Expr>),
    Sign(Sign, Box<Expr>),
    Not(Box<Expr>),
    /// Operators of one precedence, from left to right.
    Arithmetic(Box<Expr>, Vec<(Arithmetic, Expr)>),
    /// `a < b <= c`: every neighbouring pair must hold.
    Compare(Box<Expr>, Vec<(Comparison, Expr)>),
    And(Vec<Expr>),
    Or(Vec<Expr>),
    /// `a ?? b`.
    Coalesce(Vec<Expr>),
    Choice(Box<Choice>),
}

/// `then if condition else otherwise`.
#[derive(Debug, Clone)]
pub(super) struct Choice {
    pub(super) condition: Expr,
    pub(super) then: Expr,
    pub(super) otherwise: Expr,
}

/// One step from a value to a part of it.
#[derive(Debug, Clone)]
pub(super) struct Suffix {
    pub(super) kind: SuffixKind,
    /// `?.` and `?[`: the rest of the chain is nothing if the value so far is nothing.
    pub(super) optional: bool,
    /// Of the name or the index, without the dot or the brackets.
    pub(super) span: Span,
    /// Where the chain has got to with this step.
    pub(super) end: usize,
}

/// The sorts of step.
#[derive(Debug, Clone)]
pub(super) enum SuffixKind {
    Member(String),
    Index(Expr),
    Method(&'static Function, Vec<Expr>),
}

/// What a condition can read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Variable {
    Context,
    Output,
    TurnCount,
    History,
    Executions,
    AgentExecutionCount,
    Input,
}

/// A sign in front of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sign {
    Minus,
    Plus,
}

/// Operators that compare; `is` and `is not` are equality.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    Different,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    In,
    NotIn,
}

impl Variable {
    /// All of them, in the order in which the reference lists them.
    pub(super) const ALL: [Self; 7] = [
        Self::Context,
        Self::Output,
        Self::TurnCount,
        Self::History,
        Self::Executions,
        Self::AgentExecutionCount,
        Self::Input,
    ];

    /// As people write it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Context => "context",
            Self::Output => "output",
            Self::TurnCount => "turn_count",
            Self::History => "history",
            Self::Executions => "executions",
            Self::AgentExecutionCount => "agent_execution_count",
            Self::Input => "input",
        }
    }

    /// The variable of that name.
    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|variable| variable.name() == name)
    }
}

impl Expr {
    /// An expression whose height follows from its parts.
    pub(super) fn new(kind: Kind, span: Span) -> Self {
        let mut height = 0;
        each_part(&kind, &mut |part| height = height.max(part.height));
        Self {
            kind,
            span,
            height: height + 1,
        }
    }

    /// Calls `visit` with every part, from left to right.
    pub(super) fn parts<'a>(&'a self, visit: &mut impl FnMut(&'a Expr)) {
        each_part(&self.kind, visit);
    }

    /// Is its value true or false whatever it reads?
    pub(super) fn is_bool(&self) -> bool {
        match &self.kind {
            Kind::Bool(_) | Kind::Not(_) | Kind::Compare(..) => true,
            Kind::And(operands) | Kind::Or(operands) => operands.iter().all(Self::is_bool),
            _ => false,
        }
    }
}

fn each_part<'a>(kind: &'a Kind, visit: &mut impl FnMut(&'a Expr)) {
    match kind {
        Kind::Nothing | Kind::Bool(_) | Kind::Int(_) | Kind::Float(_) | Kind::Text(_) | Kind::Variable(_) => {}
        Kind::List(items) | Kind::Call(_, items) | Kind::And(items) | Kind::Or(items) | Kind::Coalesce(items) => {
            items.iter().for_each(visit)
        }
        Kind::Map(entries) => entries.iter().for_each(|(_, value)| visit(value)),
        Kind::Sign(_, operand) | Kind::Not(operand) => visit(operand),
        Kind::Arithmetic(first, rest) => {
            visit(first);
            rest.iter().for_each(|(_, operand)| visit(operand));
        }
        Kind::Compare(first, rest) => {
            visit(first);
            rest.iter().for_each(|(_, operand)| visit(operand));
        }
        Kind::Choice(choice) => {
            visit(&choice.condition);
            visit(&choice.then);
            visit(&choice.otherwise);
        }
        Kind::Chain(base, suffixes) => {
            visit(base);
            for suffix in suffixes {
                match &suffix.kind {
                    SuffixKind::Member(_) => {}
                    SuffixKind::Index(index) => visit(index),
                    SuffixKind::Method(_, arguments) => arguments.iter().for_each(&mut *visit),
                }
            }
        }
    }
}
