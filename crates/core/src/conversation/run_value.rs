//! What a run gives: the declared result, computed from the state.

use std::sync::Arc;

use serde_json::Value;

use super::ConversationState;
use super::event::ConditionFailure;
use ensemble_language::data::JsonMap;
use ensemble_language::plan::PlannedResult;

/// The declared result of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunValue {
    /// The value; `null` where an agent has no output, or an expression cannot be evaluated.
    pub value: Arc<Value>,
    /// The expressions that cannot be evaluated.
    pub failures: Vec<ConditionFailure>,
}

impl ConversationState {
    /// The declared result, from the state as it is; `None` if the ensemble declares none.
    pub fn run_value(&self) -> Option<RunValue> {
        let entries = match self.plan().result()? {
            PlannedResult::Agent(agent) => {
                return Some(RunValue {
                    value: self.agent_state(*agent).output().cloned().unwrap_or_default(),
                    failures: Vec::new(),
                });
            }
            PlannedResult::Map(entries) => entries,
        };
        let facts = self.facts_without_output();
        let mut map = JsonMap::new();
        let mut failures = Vec::new();
        for (key, expression) in entries {
            let value = expression.evaluate(&facts).unwrap_or_else(|error| {
                failures.push(ConditionFailure {
                    agent: "".into(),
                    position: 0,
                    result: Some(key.clone()),
                    text: expression.text().clone(),
                    start: error.span.start,
                    end: error.span.end,
                    message: error.message,
                    values: expression.list_reads(&facts),
                });
                Value::Null
            });
            map.insert(key.to_string(), value);
        }
        Some(RunValue {
            value: Arc::new(Value::Object(map)),
            failures,
        })
    }
}
