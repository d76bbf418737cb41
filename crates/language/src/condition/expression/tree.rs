//! The syntax tree of a condition, with the position of every part.
//!
//! Chains of one kind (`a and b and c`, `a + b - c`, `a.b.c`) are one flat node: a long condition is wide, not deep. So
//! functions that walk over the tree cannot overflow the stack.

use std::sync::Arc;

use crate::condition::evaluation::operators::ArithmeticOperator;
use crate::condition::functions::ConditionFunction;
use crate::source::Span;
use crate::vocabulary::CONDITION_VARIABLES;

/// A node of the syntax tree of a condition.
#[derive(Debug, Clone)]
pub(crate) struct ConditionExpr {
    pub(crate) kind: ExprKind,
    /// The bytes of the expression, without surrounding parentheses.
    pub(crate) span: Span,
    /// The number of nested levels of expressions, including this one.
    pub(crate) height: usize,
}

/// The kinds of expressions.
#[derive(Debug, Clone)]
pub(crate) enum ExprKind {
    Nothing,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    List(Vec<ConditionExpr>),
    Map(Vec<(String, ConditionExpr)>),
    Variable(ConditionVariable),
    /// A variable of an enclosing comprehension.
    Local(LocalVariable),
    /// `[element for x in source if filter]`, or the same without brackets as the argument of a function.
    Comprehension(Box<Comprehension>),
    /// `base.member[index].method()`.
    Chain(Box<ConditionExpr>, Vec<ChainStep>),
    Call(&'static ConditionFunction, Vec<ConditionExpr>),
    Sign(SignOperator, Box<ConditionExpr>),
    Not(Box<ConditionExpr>),
    /// Operators of the same precedence, from left to right.
    Arithmetic(Box<ConditionExpr>, Vec<(ArithmeticOperator, ConditionExpr)>),
    /// `a < b <= c`: every pair of neighbours must be true.
    Compare(Box<ConditionExpr>, Vec<(ComparisonOperator, ConditionExpr)>),
    And(Vec<ConditionExpr>),
    Or(Vec<ConditionExpr>),
    /// `a ?? b`.
    Coalesce(Vec<ConditionExpr>),
    IfElse(Box<IfElseExpr>),
}

/// A variable that a comprehension declares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LocalVariable {
    pub(crate) name: Arc<str>,
    /// The number of variables that are in scope where it is declared, so that no two in scope have the same number.
    pub(crate) number: usize,
}

/// A list comprehension or generator expression.
#[derive(Debug, Clone)]
pub(crate) struct Comprehension {
    pub(crate) element: ConditionExpr,
    /// The clauses, the outermost first.
    pub(crate) clauses: Vec<ComprehensionClause>,
    /// A function consumes the values one by one: `any(x for x in list)`.
    pub(crate) is_generator: bool,
}

/// A clause of a comprehension: `for variable in source if filter if filter`.
#[derive(Debug, Clone)]
pub(crate) struct ComprehensionClause {
    pub(crate) variable: LocalVariable,
    pub(crate) source: ConditionExpr,
    pub(crate) filters: Vec<ConditionExpr>,
}

/// A conditional expression: `then if condition else otherwise`.
#[derive(Debug, Clone)]
pub(crate) struct IfElseExpr {
    pub(crate) condition: ConditionExpr,
    pub(crate) then: ConditionExpr,
    pub(crate) otherwise: ConditionExpr,
}

/// A step of a chain: a member, an index, a slice or a method call.
#[derive(Debug, Clone)]
pub(crate) struct ChainStep {
    pub(crate) kind: ChainStepKind,
    /// `?.` and `?[`: if the value so far is nothing, the result of the whole chain is nothing.
    pub(crate) is_optional: bool,
    /// The bytes of the name or the index, without the dot or the brackets.
    pub(crate) span: Span,
    /// The end of the chain up to this step.
    pub(crate) end: usize,
}

/// The kinds of steps.
#[derive(Debug, Clone)]
pub(crate) enum ChainStepKind {
    Member(String),
    Index(ConditionExpr),
    /// `[from:to]`.
    Slice(Option<ConditionExpr>, Option<ConditionExpr>),
    Method(&'static ConditionFunction, Vec<ConditionExpr>),
}

/// The variables that a condition can read, and those that only expressions of parts can read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConditionVariable {
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
pub(crate) enum SignOperator {
    Minus,
    Plus,
}

/// Comparison operators; `is` and `is not` mean equality.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ComparisonOperator {
    Equal,
    Different,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    In,
    NotIn,
}

impl ComparisonOperator {
    /// Returns whether the comparison with `other` asks whether there is a value.
    pub(crate) fn asks_presence(self, other: &ConditionExpr) -> bool {
        matches!(self, Self::Equal | Self::Different) && matches!(other.kind, ExprKind::Nothing)
    }
}

impl ConditionVariable {
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

    /// Returns the name by which conditions read the variable.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Item => "item",
            Self::Part => "part",
            own => CONDITION_VARIABLES[own as usize].name,
        }
    }

    /// Returns the variable of all conditions with this name.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|variable| variable.name() == name)
    }
}

impl ConditionExpr {
    /// Creates an expression. Computes its height from its parts.
    pub(crate) fn new(kind: ExprKind, span: Span) -> Self {
        let mut height = 0;
        visit_kind_parts(&kind, &mut |part| height = height.max(part.height));
        if let ExprKind::Comprehension(comprehension) = &kind {
            // Every loop and every filter is a level of the script.
            let clauses = comprehension.clauses.iter();
            height += clauses.map(|clause| 1 + clause.filters.len()).sum::<usize>();
        }
        Self {
            kind,
            span,
            height: height + 1,
        }
    }

    /// Calls `visit` with every direct part, from left to right.
    pub(crate) fn visit_parts<'a>(&'a self, visit: &mut impl FnMut(&'a ConditionExpr)) {
        visit_kind_parts(&self.kind, visit);
    }

    /// Returns whether the value of the expression is always a boolean.
    pub(crate) fn is_always_bool(&self) -> bool {
        match &self.kind {
            ExprKind::Bool(_) | ExprKind::Not(_) | ExprKind::Compare(..) => true,
            ExprKind::And(operands) | ExprKind::Or(operands) => operands.iter().all(Self::is_always_bool),
            _ => false,
        }
    }
}

/// Calls `visit` with every direct part, from left to right.
fn visit_kind_parts<'a>(kind: &'a ExprKind, visit: &mut impl FnMut(&'a ConditionExpr)) {
    match kind {
        ExprKind::Nothing
        | ExprKind::Bool(_)
        | ExprKind::Int(_)
        | ExprKind::Float(_)
        | ExprKind::Text(_)
        | ExprKind::Variable(_)
        | ExprKind::Local(_) => {}
        ExprKind::Comprehension(comprehension) => {
            visit(&comprehension.element);
            for clause in &comprehension.clauses {
                visit(&clause.source);
                clause.filters.iter().for_each(&mut *visit);
            }
        }
        ExprKind::List(items)
        | ExprKind::Call(_, items)
        | ExprKind::And(items)
        | ExprKind::Or(items)
        | ExprKind::Coalesce(items) => items.iter().for_each(visit),
        ExprKind::Map(entries) => entries.iter().for_each(|(_, value)| visit(value)),
        ExprKind::Sign(_, operand) | ExprKind::Not(operand) => visit(operand),
        ExprKind::Arithmetic(first, rest) => {
            visit(first);
            rest.iter().for_each(|(_, operand)| visit(operand));
        }
        ExprKind::Compare(first, rest) => {
            visit(first);
            rest.iter().for_each(|(_, operand)| visit(operand));
        }
        ExprKind::IfElse(choice) => {
            visit(&choice.condition);
            visit(&choice.then);
            visit(&choice.otherwise);
        }
        ExprKind::Chain(base, suffixes) => {
            visit(base);
            for suffix in suffixes {
                match &suffix.kind {
                    ChainStepKind::Member(_) => {}
                    ChainStepKind::Index(index) => visit(index),
                    ChainStepKind::Slice(from, to) => from.iter().chain(to).for_each(&mut *visit),
                    ChainStepKind::Method(_, arguments) => arguments.iter().for_each(&mut *visit),
                }
            }
        }
    }
}
