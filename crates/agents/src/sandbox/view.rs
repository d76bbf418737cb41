//! The context as scripts see it: read in place, and converted only where they look.

use std::sync::Arc;

use rhai::{Array, Dynamic, FuncRegistration, Module};

use super::convert;
use ensemble_language::data::Context;

/// A script's `context`.
#[derive(Clone)]
pub(super) struct ContextView(pub(super) Arc<Context>);

impl ContextView {
    fn get(&self, key: &str) -> Option<Dynamic> {
        self.0.get(key).map(|value| convert::from_json(value))
    }
}

/// What scripts can ask of it.
pub(super) fn register(module: &mut Module) {
    FuncRegistration::new_index_getter().set_into_module(module, |view: &mut ContextView, key: &str| {
        view.get(key).unwrap_or_default()
    });
    FuncRegistration::new("get").set_into_module(module, |view: &mut ContextView, key: &str| {
        view.get(key).unwrap_or_default()
    });
    FuncRegistration::new("get").set_into_module(module, |view: &mut ContextView, key: &str, default: Dynamic| {
        view.get(key).unwrap_or(default)
    });
    FuncRegistration::new("contains")
        .set_into_module(module, |view: &mut ContextView, key: &str| view.0.get(key).is_some());
    FuncRegistration::new("keys").set_into_module(module, |view: &mut ContextView| -> Array {
        convert::texts(view.0.iter().map(|(key, _)| &**key))
    });
    FuncRegistration::new("len").set_into_module(module, |view: &mut ContextView| {
        i64::try_from(view.0.len()).unwrap_or(i64::MAX)
    });
    FuncRegistration::new("is_empty").set_into_module(module, |view: &mut ContextView| view.0.is_empty());
}
