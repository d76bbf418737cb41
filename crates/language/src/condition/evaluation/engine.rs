//! The Rhai engine that evaluates all conditions.
//!
//! The engine starts empty and knows only the functions that are registered here, so nothing must be removed from it.
//! Its limits are those of the sandbox.

use std::cmp::Ordering;
use std::sync::LazyLock;

use rhai::{Array, Dynamic, Engine, EvalAltResult, INT, OptimizationLevel, Position};

use crate::condition::evaluation::notes::{note_missing_key, note_unequal_types};
use crate::condition::evaluation::operators::{
    ArithmeticOperator, OperatorError, OperatorResult, add_item_work, apply_arithmetic, are_equal, check_item_work,
    check_list_length, compare_order, contains_value, get_indexed_item, get_member, get_slice, list_iterated_items,
    negate_number, truth_unless_false_word, unary_plus,
};
use crate::condition::evaluation::value::{ConditionValue, ListValue, MapValue};
use crate::condition::functions::FUNCTIONS;
use crate::condition::{ITEM_LIMIT, OPERATION_LIMIT, STRING_LIMIT};

/// An operator error with the number of its evaluation site, as it passes through the engine.
#[derive(Debug, Clone)]
pub(crate) struct LocatedOperatorError {
    pub(crate) site: usize,
    pub(crate) fault: OperatorError,
}

type EngineResult<T> = Result<T, Box<EvalAltResult>>;

/// The engine; it is created when it is first needed.
pub(crate) static ENGINE: LazyLock<Engine> = LazyLock::new(build_engine);

/// Builds an engine with the limits of the sandbox and only the registered functions.
fn build_engine() -> Engine {
    let mut engine = Engine::new_raw();
    engine
        .set_optimization_level(OptimizationLevel::None)
        .set_max_operations(OPERATION_LIMIT)
        .set_max_string_size(STRING_LIMIT)
        // A map literal is passed as a list of its keys and values.
        .set_max_array_size(2 * ITEM_LIMIT)
        .set_max_map_size(ITEM_LIMIT)
        .set_max_call_levels(1)
        .set_max_functions(0)
        // The depth was already limited by the parser of conditions.
        .set_max_expr_depths(0, 0)
        .disable_symbol("eval")
        .disable_symbol("import")
        .disable_symbol("print")
        .disable_symbol("debug");
    register_truth(&mut engine);
    register_arithmetic(&mut engine);
    register_comparisons(&mut engine);
    register_access(&mut engine);
    register_calls(&mut engine);
    register_loops(&mut engine);
    engine
}

/// Registers the functions that ask for the truth or the presence of a value.
fn register_truth(engine: &mut Engine) {
    engine
        .register_fn("truth", |site: INT, value: Dynamic| {
            attach_site(site, truth_unless_false_word(&value.into()))
        })
        .register_fn("untrue", |site: INT, value: Dynamic| {
            attach_site(site, truth_unless_false_word(&value.into()).map(|truth| !truth))
        })
        .register_fn("missing", |_: INT, value: Dynamic| value.is_unit())
        .register_fn("present", |value: Dynamic| !value.is_unit())
        .register_fn("smallest", || INT::MIN);
}

/// Registers the functions of the arithmetic operators and signs.
fn register_arithmetic(engine: &mut Engine) {
    for (name, operator) in [
        ("add", ArithmeticOperator::Add),
        ("subtract", ArithmeticOperator::Subtract),
        ("multiply", ArithmeticOperator::Multiply),
        ("divide", ArithmeticOperator::Divide),
        ("remainder", ArithmeticOperator::Remainder),
    ] {
        engine.register_fn(name, move |site: INT, a: Dynamic, b: Dynamic| {
            attach_site_to_value(site, apply_arithmetic(operator, &a.into(), &b.into()))
        });
    }
    engine
        .register_fn("minus", |site: INT, a: Dynamic| {
            attach_site_to_value(site, negate_number(&a.into()))
        })
        .register_fn("plus", |site: INT, a: Dynamic| {
            attach_site_to_value(site, unary_plus(&a.into()))
        });
}

/// Registers the functions of the comparison operators.
fn register_comparisons(engine: &mut Engine) {
    type Holds = fn(Ordering) -> bool;
    let orders: [(&str, &'static str, Holds); 4] = [
        ("less", "<", Ordering::is_lt),
        ("less_equal", "<=", Ordering::is_le),
        ("greater", ">", Ordering::is_gt),
        ("greater_equal", ">=", Ordering::is_ge),
    ];
    for (name, symbol, holds) in orders {
        engine.register_fn(name, move |site: INT, a: Dynamic, b: Dynamic| {
            attach_site(site, compare_order(symbol, &a.into(), &b.into()).map(holds))
        });
    }
    engine
        .register_fn("equal", |site: INT, a: Dynamic, b: Dynamic| {
            are_equal_and_note(site, &a.into(), &b.into())
        })
        .register_fn("different", |site: INT, a: Dynamic, b: Dynamic| {
            !are_equal_and_note(site, &a.into(), &b.into())
        })
        .register_fn("within", |site: INT, a: Dynamic, b: Dynamic| {
            attach_site(site, contains_value(&b.into(), &a.into()))
        })
        .register_fn("without", |site: INT, a: Dynamic, b: Dynamic| {
            attach_site(site, contains_value(&b.into(), &a.into()).map(|found| !found))
        });
}

/// Returns whether the values are equal. Notes a comparison of types that are never equal.
fn are_equal_and_note(site: INT, a: &ConditionValue, b: &ConditionValue) -> bool {
    let is_equal = are_equal(a, b);
    if !is_equal {
        note_unequal_types(site, a, b);
    }
    is_equal
}

/// Registers the functions for members, indexes and slices.
fn register_access(engine: &mut Engine) {
    engine
        .register_fn("member", |site: INT, base: Dynamic, name: rhai::ImmutableString| {
            let base = base.into();
            let found = get_member(&base, &name);
            if matches!(found, Ok(ConditionValue::Nothing)) {
                note_missing_key(site, &base, &name);
            }
            attach_site_to_value(site, found)
        })
        .register_fn("ask_member", |site: INT, base: Dynamic, name: rhai::ImmutableString| {
            attach_site_to_value(site, get_member(&base.into(), &name))
        })
        .register_fn("index", |site: INT, base: Dynamic, at: Dynamic| {
            let (base, at) = (base.into(), ConditionValue::from(at));
            let found = get_indexed_item(&base, &at);
            if let (Ok(ConditionValue::Nothing), ConditionValue::Text(key)) = (&found, &at) {
                note_missing_key(site, &base, key.as_str());
            }
            attach_site_to_value(site, found)
        })
        .register_fn("ask_index", |site: INT, base: Dynamic, at: Dynamic| {
            attach_site_to_value(site, get_indexed_item(&base.into(), &at.into()))
        })
        .register_fn("slice", |site: INT, base: Dynamic, from: Dynamic, to: Dynamic| {
            attach_site_to_value(site, get_slice(&base.into(), &from.into(), &to.into()))
        });
}

/// Registers the function that calls a condition function by its index in the table.
fn register_calls(engine: &mut Engine) {
    engine
        .register_fn("apply", |site: INT, function: INT, arguments: Array| {
            let arguments: Vec<ConditionValue> = arguments.into_iter().map(ConditionValue::from).collect();
            let function = usize::try_from(function).ok().and_then(|at| FUNCTIONS.get(at));
            let Some(function) = function.filter(|function| arguments.len() >= function.least) else {
                return attach_site_to_value(
                    site,
                    crate::condition::evaluation::operators::fail_with("unknown function"),
                );
            };
            if let Some(ConditionValue::List(list)) = arguments.first() {
                add_item_work(list.len());
            }
            let result = (function.run)(&arguments);
            if let Ok(ConditionValue::List(list)) = &result {
                add_item_work(list.len());
            }
            attach_site_to_value(site, result)
        })
        .register_fn("map", |_: INT, items: Array| {
            let mut items = items.into_iter();
            let mut entries = Vec::with_capacity(items.len() / 2);
            while let (Some(key), Some(value)) = (items.next(), items.next()) {
                entries.push((key.into_immutable_string().unwrap_or_default(), value.into()));
            }
            Dynamic::from(MapValue::Own(entries.into()))
        });
}

/// The items of a loop.
#[derive(Clone)]
struct LoopItems {
    site: INT,
    list: ListValue,
}

/// The items that remain in a loop.
struct RemainingItems {
    items: LoopItems,
    next: usize,
}

impl IntoIterator for LoopItems {
    type Item = EngineResult<Dynamic>;
    type IntoIter = RemainingItems;

    fn into_iter(self) -> RemainingItems {
        RemainingItems { items: self, next: 0 }
    }
}

impl Iterator for RemainingItems {
    type Item = EngineResult<Dynamic>;

    /// Returns the next item. The steps of the engine alone do not bound the time of a loop, so the work on items is
    /// checked here.
    fn next(&mut self) -> Option<EngineResult<Dynamic>> {
        let item = self.items.list.get(self.next)?;
        self.next += 1;
        Some(attach_site(self.items.site, check_item_work().map(|()| item.into())))
    }
}

/// The list that a comprehension builds.
#[derive(Clone, Default)]
struct ListBuilder(Vec<ConditionValue>);

/// Registers the functions and the iterator for the loops of comprehensions.
fn register_loops(engine: &mut Engine) {
    engine
        .register_iterator_result::<LoopItems, _>()
        .register_fn("items", |site: INT, source: Dynamic| {
            let items = list_iterated_items(&source.into()).map(|list| LoopItems { site, list });
            attach_site(site, items)
        })
        .register_fn("builder", ListBuilder::default)
        .register_fn("put", |list: &mut ListBuilder, site: INT, item: Dynamic| {
            list.0.push(item.into());
            attach_site(site, check_list_length(list.0.len()))
        })
        .register_fn("built", |list: &mut ListBuilder| {
            Dynamic::from(ListValue::Own(std::mem::take(&mut list.0).into()))
        });
}

/// Attaches the number of the evaluation site to an error, and converts a value for the engine.
fn attach_site_to_value(site: INT, outcome: OperatorResult) -> EngineResult<Dynamic> {
    attach_site(site, outcome.map(ConditionValue::into))
}

/// Attaches the number of the evaluation site to an error.
fn attach_site<T>(site: INT, outcome: Result<T, OperatorError>) -> EngineResult<T> {
    outcome.map_err(|fault| {
        let site = usize::try_from(site).unwrap_or_default();
        EvalAltResult::ErrorRuntime(Dynamic::from(LocatedOperatorError { site, fault }), Position::NONE).into()
    })
}
