//! Expressions that give a value, in the language of conditions: what a run gives as its result.

use std::sync::Arc;

use rhai::{Dynamic, Scope};
use serde_json::Value;

use super::analysis::reads;
use super::evaluation::code;
use super::evaluation::engine::ENGINE;
use super::evaluation::operators;
use super::evaluation::value::Datum;
use super::expression::parser;
use super::expression::tree::{Expr, Kind, Variable};
use super::typing::literals;
use super::{CompileError, Condition, EvaluateError, Facts, PartNames, Read, Reading, STRING_LIMIT, with_room};
use crate::source::Span;

/// A compiled expression. `output` does not exist there, because it belongs to no dependency.
#[derive(Debug)]
pub struct Expression(Condition);

pub(crate) fn parse(text: &str, names: PartNames<'_>) -> Result<Expr, CompileError> {
    let whole = Span::new(0, text.len());
    let refused = |message: &str, help: &str| CompileError {
        message: message.to_owned(),
        span: whole,
        help: Some(help.to_owned()),
    };
    if text.len() > STRING_LIMIT {
        return Err(refused("the expression is longer than 1 MiB", "shorten it"));
    }
    if text.trim().is_empty() {
        return Err(refused("the expression is blank", "write an expression"));
    }
    let expr = parser::parse(text, names)?;
    literals::check_value(&expr)?;
    match output_in(&expr).filter(|_| !names.has_output) {
        None => Ok(expr),
        Some(span) => Err(CompileError {
            message: "unknown variable `output`: this expression belongs to no dependency".to_owned(),
            span,
            help: Some("write `outputs.NAME` for the latest output of an agent".to_owned()),
        }),
    }
}

fn output_in(expr: &Expr) -> Option<Span> {
    if matches!(expr.kind, Kind::Variable(Variable::Output)) {
        return Some(expr.span);
    }
    let mut found = None;
    expr.parts(&mut |part| found = found.or_else(|| output_in(part)));
    found
}

impl Expression {
    /// Checks whether the text is an expression.
    ///
    /// # Errors
    /// It is not, or it reads `output`.
    pub fn check(text: &str) -> Result<(), CompileError> {
        Self::check_with(text, PartNames::NO_OUTPUT)
    }

    /// Checks whether the text is an expression with these variables.
    ///
    /// # Errors
    /// It is not.
    pub fn check_with(text: &str, names: PartNames<'_>) -> Result<(), CompileError> {
        parse(text, names).map(drop)
    }

    /// Parses an expression without compiling it.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub fn read(text: &str) -> Result<Reading, CompileError> {
        Self::read_with(text, PartNames::NO_OUTPUT)
    }

    /// Parses an expression with these variables without compiling it.
    ///
    /// # Errors
    /// As [`Self::check_with`].
    pub fn read_with(text: &str, names: PartNames<'_>) -> Result<Reading, CompileError> {
        Ok(Reading::of(text, parse(text, names)?))
    }

    /// Compiles an expression in the spelling of Rhai or Python.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub fn compile(text: &str) -> Result<Self, CompileError> {
        Self::compile_with(text, PartNames::NO_OUTPUT)
    }

    /// Compiles an expression with these variables.
    ///
    /// # Errors
    /// As [`Self::check_with`].
    pub fn compile_with(text: &str, names: PartNames<'_>) -> Result<Self, CompileError> {
        Condition::made_by(text, parse(text, names)?, code::emit_value).map(Self)
    }

    /// The text as the user wrote it.
    pub fn text(&self) -> &Arc<str> {
        self.0.text()
    }

    /// Returns whether the expression reads the history.
    pub fn reads_history(&self) -> bool {
        self.0.reads_history()
    }

    /// The agents whose executions it counts, or whose outputs it reads, by a literal name, with the position of each name.
    pub fn agents_read(&self) -> Vec<(String, Span)> {
        self.0.agents_read()
    }

    /// The values that the expression reads, for reports; never fails.
    pub fn reads(&self, facts: &Facts) -> Vec<Read> {
        self.0.reads(facts)
    }

    /// Evaluates the expression on these facts.
    ///
    /// # Errors
    /// It has no value, for example because it divides by zero.
    pub fn evaluate(&self, facts: &Facts) -> Result<Value, EvaluateError> {
        let condition = &self.0;
        with_room(&condition.expr, || {
            operators::begin();
            let mut scope = Scope::new();
            for variable in &condition.variables {
                scope.push_dynamic(variable.name(), reads::variable(*variable, facts).into());
            }
            let value = ENGINE.eval_ast_with_scope::<Dynamic>(&mut scope, &condition.script)?;
            Ok(Datum::from(value).to_json())
        })
        .map_err(|error: Box<rhai::EvalAltResult>| condition.explain(*error))
    }
}
