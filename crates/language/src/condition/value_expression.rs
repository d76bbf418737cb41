//! Expressions that give a value, in the language of conditions: what a run gives as its result.

use std::sync::Arc;

use serde_json::Value;

use super::evaluation::code;
use super::evaluation::value::ConditionValue;
use super::expression::parser;
use super::expression::tree::{ConditionExpr, ConditionVariable, ExprKind};
use super::typing::literals;
use super::{
    CompileError, Condition, ConditionRead, ConditionSnapshot, EvaluateError, EvaluationNote, ParsedCondition,
    PartVariables, STRING_LIMIT, TEXT_LIMIT,
};
use crate::source::Span;

/// A compiled expression that returns a JSON value. Expressions cannot read `output`, unless they belong to a part.
#[derive(Debug)]
pub struct ValueExpression(Condition);

/// Parses an expression with these variables, and checks its literals. # Errors: it is too long, blank, invalid, or reads a missing `output`.
pub(crate) fn parse_expression(text: &str, names: PartVariables<'_>) -> Result<ConditionExpr, CompileError> {
    let whole_span = Span::new(0, text.len());
    let refused = |message: &str, help: &str| CompileError {
        message: message.to_owned(),
        span: whole_span,
        help: Some(help.to_owned()),
    };
    if text.len() > STRING_LIMIT {
        return Err(refused("the expression is longer than 1 MiB", "shorten it"));
    }
    if text.trim().is_empty() {
        return Err(refused("the expression is blank", "write an expression"));
    }
    let expr = parser::parse_expr(text, names)?;
    literals::check_expression_literals(&expr)?;
    match find_output_span(&expr).filter(|_| !names.has_output) {
        None => Ok(expr),
        Some(span) => Err(CompileError {
            message: "unknown variable `output`: only conditions of dependencies have it".to_owned(),
            span,
            help: Some("write `outputs.NAME` for the latest output of an agent".to_owned()),
        }),
    }
}

/// Returns the span of the first use of `output`.
fn find_output_span(expr: &ConditionExpr) -> Option<Span> {
    if matches!(expr.kind, ExprKind::Variable(ConditionVariable::Output)) {
        return Some(expr.span);
    }
    let mut output_span = None;
    expr.visit_parts(&mut |part| output_span = output_span.or_else(|| find_output_span(part)));
    output_span
}

impl ValueExpression {
    /// Checks whether the text is an expression.
    ///
    /// # Errors
    /// It is not, or it reads `output`.
    pub fn check_syntax(text: &str) -> Result<(), CompileError> {
        Self::check_syntax_with(text, PartVariables::NO_OUTPUT)
    }

    /// Checks whether the text is an expression with these variables.
    ///
    /// # Errors
    /// It is not.
    pub fn check_syntax_with(text: &str, names: PartVariables<'_>) -> Result<(), CompileError> {
        parse_expression(text, names).map(drop)
    }

    /// Parses an expression without compiling it.
    ///
    /// # Errors
    /// As [`Self::check_syntax`].
    pub fn parse(text: &str) -> Result<ParsedCondition, CompileError> {
        Self::parse_with(text, PartVariables::NO_OUTPUT)
    }

    /// Parses an expression with these variables without compiling it.
    ///
    /// # Errors
    /// As [`Self::check_syntax_with`].
    pub fn parse_with(text: &str, names: PartVariables<'_>) -> Result<ParsedCondition, CompileError> {
        Ok(ParsedCondition::from_expr(text, parse_expression(text, names)?))
    }

    /// Compiles an expression in the spelling of Rhai or Python.
    ///
    /// # Errors
    /// As [`Self::check_syntax`].
    pub fn compile(text: &str) -> Result<Self, CompileError> {
        Self::compile_with(text, PartVariables::NO_OUTPUT)
    }

    /// Compiles an expression with these variables.
    ///
    /// # Errors
    /// As [`Self::check_syntax_with`].
    pub fn compile_with(text: &str, names: PartVariables<'_>) -> Result<Self, CompileError> {
        Condition::compile_expr_with(text, parse_expression(text, names)?, code::emit_value_script).map(Self)
    }

    /// Returns the text as the user wrote it.
    pub fn text(&self) -> &Arc<str> {
        self.0.text()
    }

    /// Returns whether the expression reads the history.
    pub fn reads_history(&self) -> bool {
        self.0.reads_history()
    }

    /// Returns the agents whose executions are counted or whose outputs are read by a literal name, with the span of each name.
    pub fn list_named_agents(&self) -> Vec<(String, Span)> {
        self.0.list_named_agents()
    }

    /// Returns the parts that read the snapshot, with their values, for reports. Never fails.
    pub fn list_reads(&self, facts: &ConditionSnapshot) -> Vec<ConditionRead> {
        self.0.list_reads(facts)
    }

    /// Returns the values that the expression read before its evaluation failed.
    pub fn list_reads_before_failure(&self, facts: &ConditionSnapshot) -> Vec<ConditionRead> {
        self.0.list_reads_before_failure(facts)
    }

    /// Evaluates the expression on these facts.
    ///
    /// # Errors
    /// It has no value, for example because it divides by zero.
    pub fn evaluate(&self, facts: &ConditionSnapshot) -> Result<Value, EvaluateError> {
        self.evaluate_with_notes(facts).0
    }

    /// Evaluates the expression. Also returns notes about missing keys and comparisons that can never be true.
    pub fn evaluate_with_notes(
        &self,
        facts: &ConditionSnapshot,
    ) -> (Result<Value, EvaluateError>, Vec<EvaluationNote>) {
        let (value, notes) = self.0.run_script(facts);
        let json = value.and_then(|value| {
            let value = ConditionValue::from(value);
            match value.fits_in(TEXT_LIMIT) {
                true => Ok(value.to_json()),
                false => Err(EvaluateError {
                    message: "the value is larger than 64 MiB, which is the limit".to_owned(),
                    span: Span::new(0, self.text().len()),
                    help: None,
                }),
            }
        });
        (json, notes)
    }
}
