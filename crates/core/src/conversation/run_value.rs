//! What a run gives, and whether it reached its goal: the declared `result` and `success`, computed from the state.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::ConversationState;
use super::event::ExpressionReadWarning;
use super::run_ended::ConditionFailure;
use ensemble_language::condition::{ConditionRead, EvaluateError};
use ensemble_language::data::JsonMap;
use ensemble_language::plan::CompiledResult;

/// The declared result of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct DeclaredRunResult {
    /// The value; `null` where an agent has no output, or an expression cannot be evaluated.
    pub value: Arc<Value>,
    /// The expressions that cannot be evaluated.
    pub failures: Vec<ConditionFailure>,
    /// What the expressions read in vain.
    pub warnings: Vec<ExpressionReadWarning>,
}

/// Result of the `success` expression, with the values that the expression read.
#[derive(Debug, Clone, PartialEq)]
pub struct SuccessCheck {
    /// Whether the expression is true.
    pub holds: bool,
    /// The text of the expression.
    pub text: Arc<str>,
    /// The values that the expression read; empty if it is true.
    pub values: Vec<ConditionRead>,
}

/// The sentence of the summary, for an expression that is not true: `success is false: outputs.a.ok (outputs.a.ok = false)`.
impl fmt::Display for SuccessCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "success is false: {}", self.text.trim())?;
        for (at, read) in self.values.iter().enumerate() {
            let separator = if at == 0 { " (" } else { ", " };
            write!(f, "{separator}{} = {}", read.expression, read.value)?;
        }
        if self.values.is_empty() {
            Ok(())
        } else {
            f.write_str(")")
        }
    }
}

impl ConditionFailure {
    /// Creates the failure of the `success` expression with this text, which read these values.
    pub fn from_success_error(text: &Arc<str>, error: EvaluateError, values: Vec<ConditionRead>) -> Self {
        Self {
            agent: "".into(),
            position: 0,
            result: None,
            success: true,
            text: text.clone(),
            start: error.span.start,
            end: error.span.end,
            message: error.message,
            help: error.help,
            values,
        }
    }
}

impl ConversationState {
    /// Evaluates `success` in the present state. Returns `None` if the ensemble declares no `success`.
    ///
    /// # Errors
    /// The expression cannot be evaluated.
    pub fn evaluate_success(&self) -> Option<Result<SuccessCheck, ConditionFailure>> {
        Some(self.evaluate_success_with_warnings()?.0)
    }

    /// Evaluates `success`, and returns warnings about missing keys that the expression read.
    pub(crate) fn evaluate_success_with_warnings(
        &self,
    ) -> Option<(Result<SuccessCheck, ConditionFailure>, Vec<ExpressionReadWarning>)> {
        let condition = self.plan().success_condition()?;
        let facts = self.condition_values_without_output();
        let (result, notes) = condition.evaluate_with_notes(&facts);
        let at: Arc<str> = "success".into();
        let warnings = notes
            .into_iter()
            .map(|note| ExpressionReadWarning::from_note(&at, note, None));
        let check = match result {
            Ok(holds) => Ok(SuccessCheck {
                holds,
                text: condition.text().clone(),
                values: if holds {
                    Vec::new()
                } else {
                    condition.list_reads(&facts)
                },
            }),
            Err(error) => Err(ConditionFailure::from_success_error(
                condition.text(),
                error,
                condition.list_reads_before_failure(&facts),
            )),
        };
        Some((check, warnings.collect()))
    }

    /// Evaluates the declared result in the present state. Returns `None` if the ensemble declares no result.
    pub fn evaluate_declared_result(&self) -> Option<DeclaredRunResult> {
        let entries = match self.plan().result()? {
            CompiledResult::Agent(agent) => {
                return Some(DeclaredRunResult {
                    value: self.agent_state(*agent).output().cloned().unwrap_or_default(),
                    failures: Vec::new(),
                    warnings: Vec::new(),
                });
            }
            CompiledResult::Map(entries) => entries,
        };
        let facts = self.condition_values_without_output();
        let mut map = JsonMap::new();
        let mut failures = Vec::new();
        let mut warnings = Vec::new();
        for (key, expression) in entries {
            let (value, notes) = expression.evaluate_with_notes(&facts);
            if !notes.is_empty() {
                let at: Arc<str> = format!("result.{key}").into();
                warnings.extend(
                    notes
                        .into_iter()
                        .map(|note| ExpressionReadWarning::from_note(&at, note, None)),
                );
            }
            let value = value.unwrap_or_else(|error| {
                failures.push(ConditionFailure {
                    agent: "".into(),
                    position: 0,
                    result: Some(key.clone()),
                    success: false,
                    text: expression.text().clone(),
                    start: error.span.start,
                    end: error.span.end,
                    message: error.message,
                    help: error.help,
                    values: expression.list_reads_before_failure(&facts),
                });
                Value::Null
            });
            map.insert(key.to_string(), value);
        }
        Some(DeclaredRunResult {
            value: Arc::new(Value::Object(map)),
            failures,
            warnings,
        })
    }
}
