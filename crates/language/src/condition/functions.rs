//! The table of the functions that conditions may call, as `f(x, …)` and as `x.f(…)`.
//!
//! A new function is a row here and its implementation in [`run`]. The parser, the engine, the types, completion, hover
//! and the messages read the table.

mod run;

use self::run::{
    absolute_value, build_limited_text, charge_text, convert_to_float, convert_to_int, count_matches, expect_map,
    expect_text_argument, find_extreme, find_index, get_or_default, has_item_with_truth, item_or_nothing, list_values,
    measure_length, render_as_text, replace_text, round_number, round_to_integer, split_text, sum_items,
};
use super::evaluation::operators::{OperatorResult, contains_value, truth_unless_false_word};
use super::evaluation::value::ConditionValue;
use super::typing::types::{NumberRange, ValueShape, ValueType};
use crate::vocabulary::LanguageWord;

/// A function: its names, its number of arguments (including the value before the dot), its types and its implementation.
#[derive(Debug)]
pub(crate) struct ConditionFunction {
    /// The first name is its own; the others are the names of the same function in Rhai or Python.
    pub(super) names: &'static [&'static str],
    pub(super) least: usize,
    pub(super) most: usize,
    /// The values that the first argument can have; `None`: any value, or several sorts.
    pub(super) needs: Option<ArgumentRequirement>,
    /// Returns the type of the result, from that of the first argument.
    pub(super) result: fn(&ValueType) -> ValueType,
    pub(super) run: fn(&[ConditionValue]) -> OperatorResult,
    /// The description for people.
    word: LanguageWord,
}

/// The required type of an argument: its description, and the test of a type.
pub(super) type ArgumentRequirement = (&'static str, fn(&ValueShape) -> bool);

const ANY: Option<ArgumentRequirement> = None;
const SIZED: Option<ArgumentRequirement> = Some(("a string, a list or a map", |it| {
    it.text.is_some() || it.list.is_some() || it.map.is_some()
}));
const MAP_OR_LIST: Option<ArgumentRequirement> = Some(("a map or a list", |it| it.list.is_some() || it.map.is_some()));
const TEXT_OR_LIST: Option<ArgumentRequirement> =
    Some(("a string or a list", |it| it.text.is_some() || it.list.is_some()));
const LIST: Option<ArgumentRequirement> = Some(("a list", |it| it.list.is_some()));
const MAP: Option<ArgumentRequirement> = Some(("a map", |it| it.map.is_some()));
const TEXT: Option<ArgumentRequirement> = Some(("a string", |it| it.text.is_some()));
const NUMBER: Option<ArgumentRequirement> = Some(("a number", |it| it.number.is_some()));

/// The highest number of arguments of `min` and `max`.
const MAX_ARGUMENTS: usize = 100;

/// Rows of functions: `[names] least..=most, of NEEDED => result, run, "form", "documentation";`.
macro_rules! functions {
    ($([$name:literal $(, $other:literal)*] $least:tt..=$most:tt, of $needs:expr => $result:expr, $run:expr,
        $form:literal, $documentation:literal;)*) => {
        &[$(ConditionFunction {
            names: &[$name $(, $other)*],
            least: $least,
            most: $most,
            needs: $needs,
            result: $result,
            run: $run,
            word: LanguageWord { name: $name, form: $form, documentation: $documentation },
        }),*]
    };
}

/// All functions, in the order of the language reference.
pub(super) static FUNCTIONS: &[ConditionFunction] = functions![
    ["get"] 2..=3, of MAP_OR_LIST => |_| ValueType::any_value(), get_or_default,
        "get(x, key, default?)",
        "The value under a key of a map or an index of a list; if it is missing, the default or nothing.";
    ["len"] 1..=1, of SIZED => |_| ValueType::number_up_to(u64::MAX), measure_length,
        "len(x) -> number", "The number of characters, items or keys.";
    ["is_empty"] 1..=1, of SIZED => |_| ValueType::any_boolean(), |a| measure_length(a).map(|len| ConditionValue::Bool(!len.is_truthy())),
        "is_empty(x) -> boolean", "Whether the length is 0.";
    ["contains"] 2..=2, of ANY => |_| ValueType::any_boolean(), |a| contains_value(&a[0], &a[1]).map(ConditionValue::Bool),
        "contains(x, item) -> boolean", "The same as `item in x`.";
    ["count"] 2..=2, of TEXT_OR_LIST => |_| ValueType::number_up_to(u64::MAX), count_matches,
        "count(x, item) -> number", "The number of times that the item is in a list or a string.";
    ["index_of", "find"] 2..=2, of TEXT_OR_LIST => |_| ValueType::number_in_range(NumberRange::from_bounds(-1.0, f64::INFINITY)), find_index,
        "index_of(x, item) -> number", "The index of the item in a list or a string; -1 if it is not found.";
    ["first"] 1..=1, of ANY => |of| of.iterated_item_type().union_with(ValueType::nothing_value()), |a| item_or_nothing(&a[0], 0),
        "first(list)", "The first item; nothing if the list is empty.";
    ["last"] 1..=1, of ANY => |of| of.iterated_item_type().union_with(ValueType::nothing_value()), |a| item_or_nothing(&a[0], -1),
        "last(list)", "The last item; nothing if the list is empty.";
    ["keys"] 1..=1, of MAP => |_| ValueType::list_with_items(ValueType::any_text()),
        |a| { Ok(ConditionValue::new_list(expect_map(&a[0])?.keys().into_iter().map(ConditionValue::new_text))) },
        "keys(map) -> list", "The keys of a map.";
    ["values"] 1..=1, of MAP => |_| ValueType::list_with_items(ValueType::any_value()), list_values,
        "values(map) -> list", "The values of a map.";
    ["any"] 1..=1, of LIST => |_| ValueType::any_boolean(), |a| has_item_with_truth(&a[0], true).map(ConditionValue::Bool),
        "any(list) -> boolean", "Whether at least one item is true.";
    ["all"] 1..=1, of LIST => |_| ValueType::any_boolean(), |a| has_item_with_truth(&a[0], false).map(|found| ConditionValue::Bool(!found)),
        "all(list) -> boolean", "Whether every item is true.";
    ["starts_with", "startswith"] 2..=2, of TEXT => |_| ValueType::any_boolean(),
        |a| { Ok(ConditionValue::Bool(charge_text(&a[0])?.starts_with(expect_text_argument(&a[1])?))) },
        "starts_with(string, part) -> boolean", "Whether the string begins with the part.";
    ["ends_with", "endswith"] 2..=2, of TEXT => |_| ValueType::any_boolean(),
        |a| { Ok(ConditionValue::Bool(charge_text(&a[0])?.ends_with(expect_text_argument(&a[1])?))) },
        "ends_with(string, part) -> boolean", "Whether the string ends with the part.";
    ["lower", "to_lower"] 1..=1, of TEXT => |of| of.map_texts(|text| text.to_lowercase()),
        |a| build_limited_text(charge_text(&a[0])?.to_lowercase()),
        "lower(string) -> string", "The string in lower case.";
    ["upper", "to_upper"] 1..=1, of TEXT => |of| of.map_texts(|text| text.to_uppercase()),
        |a| build_limited_text(charge_text(&a[0])?.to_uppercase()),
        "upper(string) -> string", "The string in upper case.";
    ["strip", "trim"] 1..=1, of TEXT => |of| of.map_texts(|text| text.trim().to_owned()),
        |a| build_limited_text(charge_text(&a[0])?.trim()),
        "strip(string) -> string", "The string without white space at both ends.";
    ["split"] 1..=2, of TEXT => |_| ValueType::list_with_items(ValueType::any_text()), split_text,
        "split(string, separator?) -> list", "The parts of a string between separators; without a separator, between white space.";
    ["replace"] 3..=3, of TEXT => |_| ValueType::any_text(), replace_text,
        "replace(string, old, new) -> string", "The string with every `old` replaced by `new`.";
    ["abs"] 1..=1, of NUMBER => |_| ValueType::number_in_range(NumberRange::ALL), absolute_value,
        "abs(number) -> number", "The absolute value of a number.";
    ["min"] 1..=MAX_ARGUMENTS, of ANY => |_| ValueType::any_value(), |a| find_extreme(a, "<"),
        "min(a, b, …)", "The smallest of numbers or strings, or of the items of a list.";
    ["max"] 1..=MAX_ARGUMENTS, of ANY => |_| ValueType::any_value(), |a| find_extreme(a, ">"),
        "max(a, b, …)", "The largest of numbers or strings, or of the items of a list.";
    ["sum"] 1..=1, of ANY => |_| ValueType::number_in_range(NumberRange::ALL), sum_items,
        "sum(list) -> number", "The sum of numbers.";
    ["round"] 1..=2, of NUMBER => |_| ValueType::number_in_range(NumberRange::ALL), round_number,
        "round(number, digits?) -> number", "The nearest number; halves are rounded to the even neighbor, as in Python.";
    ["floor"] 1..=1, of NUMBER => |_| ValueType::number_in_range(NumberRange::ALL), |a| round_to_integer(&a[0], f64::floor),
        "floor(number) -> number", "The number, rounded down to an integer.";
    ["ceil", "ceiling"] 1..=1, of NUMBER => |_| ValueType::number_in_range(NumberRange::ALL), |a| round_to_integer(&a[0], f64::ceil),
        "ceil(number) -> number", "The number, rounded up to an integer.";
    ["int", "to_int", "parse_int"] 1..=1, of ANY => |_| ValueType::number_in_range(NumberRange::ALL), convert_to_int,
        "int(x) -> number", "A number (without its fraction), a string or a boolean as an integer.";
    ["float", "to_float", "parse_float"] 1..=1, of ANY => |_| ValueType::number_in_range(NumberRange::ALL), convert_to_float,
        "float(x) -> number", "A number, a string or a boolean as a number.";
    ["str", "to_string"] 1..=1, of ANY => |_| ValueType::any_text(), |a| build_limited_text(render_as_text(&a[0])),
        "str(x) -> string", "A string unchanged, any other value as JSON.";
    ["bool"] 1..=1, of ANY => |_| ValueType::any_boolean(), |a| truth_unless_false_word(&a[0]).map(ConditionValue::Bool),
        "bool(x) -> boolean", "Whether the value counts as true.";
    ["type_of", "type"] 1..=1, of ANY => |_| ValueType::text_among(["nothing", "boolean", "number", "text", "list", "map"]),
        |a| Ok(ConditionValue::new_text(a[0].type_name())),
        "type_of(x) -> string", "`'nothing'`, `'boolean'`, `'number'`, `'text'`, `'list'` or `'map'`.";
];

/// Returns the documentation entry of each function, under its own name.
pub fn list_function_words() -> impl Iterator<Item = &'static LanguageWord> {
    FUNCTIONS.iter().map(|function| &function.word)
}

/// Returns the documentation entry of the function with this name or alias.
pub fn find_function_word(name: &str) -> Option<&'static LanguageWord> {
    ConditionFunction::find_by_name(name).map(|function| &function.word)
}

impl ConditionFunction {
    /// Returns the function with this name or alias.
    pub(super) fn find_by_name(name: &str) -> Option<&'static Self> {
        FUNCTIONS.iter().find(|function| function.names.contains(&name))
    }

    /// Returns the index of the function in the table of functions.
    pub(super) fn table_index(&self) -> usize {
        FUNCTIONS
            .iter()
            .position(|function| function.names == self.names)
            .unwrap_or_default()
    }

    /// Returns whether `name` is the first name of the function, and no alias.
    pub(super) fn has_own_name(&self, name: &str) -> bool {
        self.names[0] == name
    }
}
