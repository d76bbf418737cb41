//! The engine of scripts: Rhai's language and its packages for values, and nothing that reaches outside.
//!
//! The packages are built once and shared; an engine around them costs next to nothing, so every run has its
//! own, with its own way to be stopped.

use ensemble_language::data::strip_byte_order_mark;
use std::sync::LazyLock;

use rhai::packages::{
    ArithmeticPackage, BasicArrayPackage, BasicFnPackage, BasicIteratorPackage, BasicMapPackage, BasicMathPackage,
    BasicStringPackage, BitFieldPackage, LogicPackage, MoreStringPackage, Package,
};
use rhai::{
    Array, Dynamic, Engine, EvalAltResult, FuncRegistration, INT, ImmutableString, Map, Module, Position, Shared,
};

use super::{context_view, convert, to_json};

/// Largest number of engine steps in one run.
pub(super) const MAX_OPERATIONS: u64 = 50_000_000;
/// Largest number of nested calls.
pub(super) const MAX_NESTED_CALLS: usize = 64;
/// Largest number of variables alive at once in one function.
pub(super) const MAX_VARIABLES: usize = 1000;
/// Largest memory of one run in bytes, which the engine checks at each step.
pub(super) const MAX_CHECKED_MEMORY: usize = 64 << 20;
/// Largest memory of one run in bytes that even a single step cannot exceed.
pub(super) const MAX_ALLOCATED_MEMORY: usize = 128 << 20;
/// Largest number of bytes of all texts in one value.
const MAX_STRING_BYTES: usize = 64 << 20;
/// Largest number of items of an array or map, including nested items.
const MAX_COLLECTION_ITEMS: usize = 1_000_000;
/// Largest depth of nested expressions.
const MAX_EXPRESSION_DEPTH: usize = 64;
/// Number of engine steps between two calls of `stop`.
const STEPS_BETWEEN_STOP_CHECKS: u64 = 512;

/// Modules that all engines share. Later modules have precedence.
static SHARED_MODULES: LazyLock<Vec<Shared<Module>>> = LazyLock::new(|| {
    vec![
        ArithmeticPackage::new().as_shared_module(),
        LogicPackage::new().as_shared_module(),
        BasicMathPackage::new().as_shared_module(),
        BitFieldPackage::new().as_shared_module(),
        BasicIteratorPackage::new().as_shared_module(),
        BasicFnPackage::new().as_shared_module(),
        BasicStringPackage::new().as_shared_module(),
        MoreStringPackage::new().as_shared_module(),
        BasicArrayPackage::new().as_shared_module(),
        BasicMapPackage::new().as_shared_module(),
        build_extra_functions().into(),
    ]
});

/// Builds an engine that ends a script when `stop` returns true, or when the script exceeds a limit of steps or memory.
pub(super) fn build_limited_engine(stop: impl Fn() -> bool + Send + Sync + 'static) -> Engine {
    let mut engine = build_unlimited_engine();
    engine
        .set_max_operations(MAX_OPERATIONS)
        .set_max_call_levels(MAX_NESTED_CALLS)
        .set_max_string_size(MAX_STRING_BYTES)
        .set_max_array_size(MAX_COLLECTION_ITEMS)
        .set_max_map_size(MAX_COLLECTION_ITEMS)
        .on_progress(move |steps| {
            if ensemble_memory::thread_limit::used_bytes() > MAX_CHECKED_MEMORY {
                return Some(Dynamic::TRUE);
            }
            (steps % STEPS_BETWEEN_STOP_CHECKS == 1 && stop()).then_some(Dynamic::UNIT)
        });
    engine
}

/// Builds an engine without limits of steps, memory and nested calls. `eval`, `import` and `export` are disabled.
pub(super) fn build_unlimited_engine() -> Engine {
    let mut engine = Engine::new_raw();
    for module in SHARED_MODULES.iter() {
        engine.register_global_module(module.clone());
    }
    engine
        .set_max_variables(MAX_VARIABLES)
        .set_max_expr_depths(MAX_EXPRESSION_DEPTH, MAX_EXPRESSION_DEPTH)
        .set_max_modules(0)
        .set_fast_operators(true)
        .disable_symbol("eval")
        .disable_symbol("import")
        .disable_symbol("export")
        .register_type_with_name::<context_view::ScriptContextView>("context")
        .on_print(|_| {})
        .on_debug(|_, _, _| {});
    engine
}

/// Result of a function that a script calls.
type FunctionResult<T> = Result<T, Box<EvalAltResult>>;

/// Builds a module with functions that Rhai does not have, or has without limits.
fn build_extra_functions() -> Module {
    let mut module = Module::new();
    context_view::register_context_functions(&mut module);
    FuncRegistration::new("get").set_into_module(&mut module, |map: &mut Map, key: &str, default: Dynamic| {
        map.get(key).cloned().unwrap_or(default)
    });
    FuncRegistration::new("parse_json").set_into_module(&mut module, |text: &str| {
        serde_json::from_str(strip_byte_order_mark(text))
            .map(|value| convert::dynamic_from_json(&value))
            .map_err(|error| catchable_error(format!("the text is not valid JSON: {error}")))
    });
    FuncRegistration::new("to_json").set_into_module(&mut module, to_json_text);
    // Rhai's own function for maps writes values of other types in a form that is no JSON.
    FuncRegistration::new("to_json").set_into_module(&mut module, |map: Map| to_json_text(map.into()));
    register_limited_split_functions(&mut module);
    #[cfg(test)]
    FuncRegistration::new("break_down").set_into_module(&mut module, || -> INT { panic!("a defect of the engine") });
    module
}

/// Converts the value to JSON text.
///
/// # Errors
/// JSON cannot represent the value. A script can catch the error.
fn to_json_text(value: Dynamic) -> FunctionResult<ImmutableString> {
    to_json::to_json(value)
        .map(|value| ImmutableString::from(value.to_string()))
        .map_err(|message| catchable_error(format!("the value {message}")))
}

/// Registers split functions that stop at the limit. The functions of Rhai build the whole array first.
fn register_limited_split_functions(module: &mut Module) {
    FuncRegistration::new("split")
        .set_into_module(module, |text: &str| collect_texts_with_limit(text.split_whitespace()));
    FuncRegistration::new("split")
        .set_into_module(module, |text: &str, by: &str| collect_texts_with_limit(text.split(by)));
    FuncRegistration::new("split")
        .set_into_module(module, |text: &str, by: char| collect_texts_with_limit(text.split(by)));
    FuncRegistration::new("split_rev")
        .set_into_module(module, |text: &str, by: &str| collect_texts_with_limit(text.rsplit(by)));
    FuncRegistration::new("split_rev")
        .set_into_module(module, |text: &str, by: char| collect_texts_with_limit(text.rsplit(by)));
    FuncRegistration::new("split").set_into_module(module, |text: &str, by: &str, most: INT| {
        collect_texts_with_limit(text.splitn(usize::try_from(most).unwrap_or(1).max(1), by))
    });
    FuncRegistration::new("split").set_into_module(module, |text: &str, by: char, most: INT| {
        collect_texts_with_limit(text.splitn(usize::try_from(most).unwrap_or(1).max(1), by))
    });
    FuncRegistration::new("to_chars").set_into_module(module, |text: &str| -> FunctionResult<Array> {
        let chars: Array = text
            .chars()
            .take(MAX_COLLECTION_ITEMS + 1)
            .map(Dynamic::from_char)
            .collect();
        check_item_limit(chars)
    });
}

/// Collects the texts to an array.
///
/// # Errors
/// There are more items than an array can have.
fn collect_texts_with_limit<'a>(parts: impl Iterator<Item = &'a str>) -> FunctionResult<Array> {
    check_item_limit(convert::array_from_texts(parts.take(MAX_COLLECTION_ITEMS + 1)))
}

/// Checks that the array does not exceed the limit of items.
fn check_item_limit(items: Array) -> FunctionResult<Array> {
    if items.len() > MAX_COLLECTION_ITEMS {
        return Err(EvalAltResult::ErrorDataTooLarge("Size of array".into(), Position::NONE).into());
    }
    Ok(items)
}

/// Creates an error that a script can catch.
fn catchable_error(message: String) -> Box<EvalAltResult> {
    EvalAltResult::ErrorRuntime(message.into(), Position::NONE).into()
}
