//! The syntax tree of a condition, with the position of every part.
//!
//! Chains of one kind (`a and b and c`, `a + b - c`, `a.b.c`) are one flat node: a long condition is wide, not deep. So
//! functions that walk over the tree cannot overflow the stack.

use crate::condition::evaluation::operators::Arithmetic;
use crate::condition::functions::Function;
use crate::source::Span;
use crate::vocabulary::VARIABLES;

/// An expression.
#[derive(Debug, Clone)]
pub(crate) struct Expr {
    pub(crate) kind: Kind,
    /// The bytes of the expression, without surrounding parentheses.
    pub(crate) span: Span,
    /// The number of nested levels of expressions, including this one.
    pub(crate) height: usize,
}

/// The kinds of expressions.
#[derive(Debug, Clone)]
pub(crate) enum Kind {
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
    /// Operators of the same precedence, from left to right.
    Arithmetic(Box<Expr>, Vec<(Arithmetic, Expr)>),
    /// `a < b <= c`: every pair of neighbours must be true.
    Compare(Box<Expr>, Vec<(Comparison, Expr)>),
    And(Vec<Expr>),
    Or(Vec<Expr>),
    /// `a ?? b`.
    Coalesce(Vec<Expr>),
    Choice(Box<Choice>),
}

/// `then if condition else otherwise`.
#[derive(Debug, Clone)]
pub(crate) struct Choice {
    pub(crate) condition: Expr,
    pub(crate) then: Expr,
    pub(crate) otherwise: Expr,
}

/// A step from a value to a part of it.
#[derive(Debug, Clone)]
pub(crate) struct Suffix {
    pub(crate) kind: SuffixKind,
    /// `?.` and `?[`: if the value so far is nothing, the result of the whole chain is nothing.
    pub(crate) optional: bool,
    /// The bytes of the name or the index, without the dot or the brackets.
    pub(crate) span: Span,
    /// The end of the chain up to this step.
    pub(crate) end: usize,
}

/// The kinds of steps.
#[derive(Debug, Clone)]
pub(crate) enum SuffixKind {
    Member(String),
    Index(Expr),
    Method(&'static Function, Vec<Expr>),
}

/// The variables that a condition can read, and those that only expressions of parts can read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Variable {
    Context,
    Output,
    TurnCount,
    History,
    Executions,
    AgentExecutionCount,
    Input,
    Inputs,
    Outputs,
    /// The item of a part of an execution, whatever the author calls it.
    Item,
    /// `part`, of a part of an execution.
    Part,
}

/// A sign before a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sign {
    Minus,
    Plus,
}

/// Comparison operators; `is` and `is not` mean equality.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
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
    /// All variables of conditions, in the order of the table of words.
    pub(crate) const ALL: [Self; 9] = [
        Self::Context,
        Self::Output,
        Self::TurnCount,
        Self::History,
        Self::Executions,
        Self::AgentExecutionCount,
        Self::Input,
        Self::Inputs,
        Self::Outputs,
    ];

    /// Returns the name: of a condition's variables, that of the table of words.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Item => "item",
            Self::Part => "part",
            own => VARIABLES[own as usize].name,
        }
    }

    /// The variable with this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|variable| variable.name() == name)
    }
}

impl Expr {
    /// An expression; its height is computed from its parts.
    pub(crate) fn new(kind: Kind, span: Span) -> Self {
        let mut height = 0;
        each_part(&kind, &mut |part| height = height.max(part.height));
        Self {
            kind,
            span,
            height: height + 1,
        }
    }

    /// Calls `visit` with every part, from left to right.
    pub(crate) fn parts<'a>(&'a self, visit: &mut impl FnMut(&'a Expr)) {
        each_part(&self.kind, visit);
    }

    /// Returns whether its value is always a boolean.
    pub(crate) fn is_bool(&self) -> bool {
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
