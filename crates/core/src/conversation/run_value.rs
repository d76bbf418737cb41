//! What a run gives: the declared result, computed from the state.

use std::sync::Arc;

use serde_json::Value;

use super::ConversationState;
use super::event::{ConditionFailure, ReadWarning};
use ensemble_language::data::JsonMap;
use ensemble_language::plan::PlannedResult;

/// The declared result of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunValue {
    /// The value; `null` where an agent has no output, or an expression cannot be evaluated.
    pub value: Arc<Value>,
    /// The expressions that cannot be evaluated.
    pub failures: Vec<ConditionFailure>,
    /// What the expressions read in vain.
    pub warnings: Vec<ReadWarning>,
}

impl ConversationState {
    /// The declared result, from the state as it is; `None` if the ensemble declares none.
    pub fn run_value(&self) -> Option<RunValue> {
        let entries = match self.plan().result()? {
            PlannedResult::Agent(agent) => {
                return Some(RunValue {
                    value: self.agent_state(*agent).output().cloned().unwrap_or_default(),
                    failures: Vec::new(),
                    warnings: Vec::new(),
                });
            }
            PlannedResult::Map(entries) => entries,
        };
        let facts = self.facts_without_output();
        let mut map = JsonMap::new();
        let mut failures = Vec::new();
        let mut warnings = Vec::new();
        for (key, expression) in entries {
            let (value, notes) = expression.evaluate_with_notes(&facts);
            if !notes.is_empty() {
                let at: Arc<str> = format!("result.{key}").into();
                warnings.extend(notes.into_iter().map(|note| ReadWarning::from_note(&at, note, None)));
            }
            let value = value.unwrap_or_else(|error| {
                failures.push(ConditionFailure {
                    agent: "".into(),
                    position: 0,
                    result: Some(key.clone()),
                    text: expression.text().clone(),
                    start: error.span.start,
                    end: error.span.end,
                    message: error.message,
                    help: error.help,
                    values: expression.list_reads_of_failure(&facts),
                });
                Value::Null
            });
            map.insert(key.to_string(), value);
        }
        Some(RunValue {
            value: Arc::new(Value::Object(map)),
            failures,
            warnings,
        })
    }
}
