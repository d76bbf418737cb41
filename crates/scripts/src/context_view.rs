//! The context for scripts: it is read in place, and only the values that a script reads are converted.

use std::sync::Arc;

use rhai::{Array, Dynamic, FuncRegistration, Module};
use serde_json::Value;

use super::budget::ReadBudget;
use super::convert;
use ensemble_language::data::RunContext;

/// View of the context of a script. Only values that the script reads are converted.
#[derive(Clone)]
pub(super) struct ScriptContextView {
    context: Arc<RunContext>,
    /// What may be converted of it; `None`: everything. Where it is spent, what the script is given is of no account.
    budget: Option<Arc<ReadBudget>>,
}

impl ScriptContextView {
    /// Creates a view of the context. Without a budget, every value can be read.
    pub(super) fn new(context: Arc<RunContext>, budget: Option<Arc<ReadBudget>>) -> Self {
        Self { context, budget }
    }

    /// Returns the converted value of the key. Returns `None` for an unknown key or a spent budget.
    fn get_value(&self, key: &str) -> Option<Dynamic> {
        let value = self.context.get(key)?;
        let enough = self.budget.as_ref().is_none_or(|budget| budget.try_spend_value(value));
        enough.then(|| convert::dynamic_from_json(value))
    }

    /// Returns the keys. Returns no keys for a spent budget.
    fn keys(&self) -> Array {
        let budget = self.budget.as_deref();
        let enough = budget.is_none_or(|budget| self.context.iter().all(|(key, _)| budget.try_spend_text(key.len())));
        match enough {
            true => convert::array_from_texts(self.context.iter().map(|(key, _)| &**key)),
            false => Array::new(),
        }
    }

    /// Converts the whole context to JSON. Returns `null` for a spent budget.
    pub(super) fn into_json(self) -> Value {
        let budget = self.budget.as_deref();
        let enough = budget.is_none_or(|budget| {
            self.context
                .iter()
                .all(|(key, value)| budget.try_spend_text(key.len()) && budget.try_spend_value(value))
        });
        if !enough {
            return Value::Null;
        }
        let entries = self
            .context
            .iter()
            .map(|(key, value)| (key.to_string(), (**value).clone()));
        Value::Object(entries.collect())
    }
}

/// Registers the functions of `context`.
pub(super) fn register_context_functions(module: &mut Module) {
    FuncRegistration::new_index_getter().set_into_module(module, |view: &mut ScriptContextView, key: &str| {
        view.get_value(key).unwrap_or_default()
    });
    FuncRegistration::new("get").set_into_module(module, |view: &mut ScriptContextView, key: &str| {
        view.get_value(key).unwrap_or_default()
    });
    FuncRegistration::new("get")
        .set_into_module(module, |view: &mut ScriptContextView, key: &str, default: Dynamic| {
            view.get_value(key).unwrap_or(default)
        });
    FuncRegistration::new("contains").set_into_module(module, |view: &mut ScriptContextView, key: &str| {
        view.context.get(key).is_some()
    });
    FuncRegistration::new("keys").set_into_module(module, |view: &mut ScriptContextView| view.keys());
    FuncRegistration::new("len").set_into_module(module, |view: &mut ScriptContextView| {
        i64::try_from(view.context.len()).unwrap_or(i64::MAX)
    });
    FuncRegistration::new("is_empty").set_into_module(module, |view: &mut ScriptContextView| view.context.is_empty());
}
