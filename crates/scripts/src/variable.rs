//! The variables of scripts, in the form of the caller; only variables that a script names are converted.

use std::sync::Arc;

use rhai::{Dynamic, INT};
use serde_json::{Value, json};

use super::budget::ReadBudget;
use super::{context_view, convert};
use ensemble_language::data::{JsonMap, RunContext};
use ensemble_language::execution_history::ExecutionHistory;

/// Variable of a script, in the form of the caller. Only variables that the script names are converted.
#[derive(Debug, Clone)]
pub enum ScriptVariable {
    /// Any JSON, handed over as Rhai's own values.
    Json(Arc<Value>),
    /// A text.
    Text(Arc<str>),
    /// A number.
    Number(u32),
    /// A map.
    Map(Arc<JsonMap>),
    /// A map of values that others hold.
    Outputs(Vec<(Arc<str>, Arc<Value>)>),
    /// Executions, the oldest first.
    Past(ExecutionHistory),
    /// The context, read without copying it: members, indexing, `get`, `contains`, `keys`, `len`.
    Context(Arc<RunContext>),
}

impl ScriptVariable {
    /// Converts the variable to a value of Rhai.
    pub(super) fn to_dynamic(&self) -> Dynamic {
        match self {
            Self::Json(value) => convert::dynamic_from_json(value),
            Self::Text(text) => (&**text).into(),
            Self::Number(number) => Dynamic::from_int(INT::from(*number)),
            Self::Map(entries) => convert::map_from_entries(entries.iter().map(|(key, value)| (key.as_str(), value))),
            Self::Outputs(entries) => convert::map_from_entries(entries.iter().map(|(key, value)| (&**key, &**value))),
            Self::Past(past) => convert::dynamic_from_json(&json!(past)),
            Self::Context(context) => Dynamic::from(context_view::ScriptContextView::new(Arc::clone(context), None)),
        }
    }

    /// Converts the variable to a value of Rhai. Returns `()` if the read budget does not suffice.
    pub(super) fn to_dynamic_within_budget(&self, budget: &Arc<ReadBudget>) -> Dynamic {
        let enough = match self {
            Self::Context(context) => {
                let budget = Some(Arc::clone(budget));
                return Dynamic::from(context_view::ScriptContextView::new(Arc::clone(context), budget));
            }
            Self::Past(past) => (0..past.len()).all(|at| {
                let output = past.reproducible_field_value(at, "output_data");
                budget.try_spend(ExecutionHistory::REPRODUCIBLE_FIELDS.len())
                    && output.is_none_or(|output| budget.try_spend_value(&output))
            }),
            Self::Json(value) => budget.try_spend_value(value),
            Self::Text(text) => budget.try_spend_text(text.len()),
            Self::Number(_) => budget.try_spend(1),
            Self::Map(entries) => entries
                .iter()
                .all(|(key, value)| budget.try_spend_text(key.len()) && budget.try_spend_value(value)),
            Self::Outputs(entries) => entries
                .iter()
                .all(|(key, value)| budget.try_spend_text(key.len()) && budget.try_spend_value(value)),
        };
        if enough { self.to_dynamic() } else { Dynamic::UNIT }
    }
}
