//! The semantics of the operators.
//!
//! The rules are those of this language, not of Rhai: one number type, truth values and remainder as in Python, values
//! of different types are not equal, and an error if values cannot be ordered or added.

use std::cell::Cell;
use std::cmp::Ordering;

use serde_json::Value;

use crate::condition::evaluation::report::render_value;
use crate::condition::evaluation::value::{ConditionValue, ListValue, MapValue, json_number_to_value};
use crate::condition::{ITEM_LIMIT, ITEM_WORK_LIMIT, STRING_LIMIT, TEXT_LIMIT};

/// Arithmetic operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ArithmeticOperator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

/// The reason why an operator or a function has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OperatorError {
    /// The whole message.
    Message(String),
    /// A message that begins with the user's text of the operand.
    Operand(String),
    /// The rest of a message about a step from nothing, which `?.` would skip.
    Nothing(String),
}

/// The result of an operator.
pub(crate) type OperatorResult = Result<ConditionValue, OperatorError>;

/// Returns an error with this message.
pub(crate) fn fail_with<T>(message: impl Into<String>) -> Result<T, OperatorError> {
    Err(OperatorError::Message(message.into()))
}

/// Two integers, or two floats after conversion.
enum NumberPair {
    Ints(i64, i64),
    Floats(f64, f64),
}

/// Converts two numbers to a common type. Returns `None` if one of the values is no number.
#[expect(
    clippy::cast_precision_loss,
    reason = "arithmetic with a float is arithmetic of floats"
)]
fn to_number_pair(a: &ConditionValue, b: &ConditionValue) -> Option<NumberPair> {
    Some(match (a, b) {
        (&ConditionValue::Int(a), &ConditionValue::Int(b)) => NumberPair::Ints(a, b),
        (&ConditionValue::Int(a), &ConditionValue::Float(b)) => NumberPair::Floats(a as f64, b),
        (&ConditionValue::Float(a), &ConditionValue::Int(b)) => NumberPair::Floats(a, b as f64),
        (&ConditionValue::Float(a), &ConditionValue::Float(b)) => NumberPair::Floats(a, b),
        _ => return None,
    })
}

/// Texts that mean "false" to their author, and would count as true.
const FALSE_WORDS: [&str; 6] = ["false", "no", "off", "0", "none", "null"];

/// Returns whether the text, trimmed and in any case, is a word for false such as `false`, `no` or `0`.
pub(crate) fn is_false_word(text: &str) -> bool {
    let text = text.trim();
    FALSE_WORDS.iter().any(|word| text.eq_ignore_ascii_case(word))
}

/// Returns the truth value, as in Python. # Errors: the value is a text that is a word for false.
pub(crate) fn truth_unless_false_word(value: &ConditionValue) -> Result<bool, OperatorError> {
    match value {
        ConditionValue::Text(text) if is_false_word(text.as_str()) => Err(OperatorError::Operand(format!(
            "is the string {}, which would count as true: {COMPARE_HELP}",
            render_value(value)
        ))),
        _ => Ok(value.is_truthy()),
    }
}

/// Help for a text that is a word for false.
pub(crate) const COMPARE_HELP: &str = "compare it with `==`, or ask the agent for a boolean with `output_schema`";

thread_local! {
    /// The bytes of text that functions have processed in the current evaluation on this thread.
    static TEXT_WORK: Cell<usize> = const { Cell::new(0) };
    /// The items of lists and maps that were processed in the current evaluation on this thread.
    static ITEM_WORK: Cell<usize> = const { Cell::new(0) };
}

/// Resets the counters of processed text and items before a new evaluation on this thread.
pub(crate) fn reset_work_counters() {
    TEXT_WORK.set(0);
    ITEM_WORK.set(0);
}

/// Adds this number of items to the work of the evaluation.
pub(crate) fn add_item_work(items: usize) {
    ITEM_WORK.set(ITEM_WORK.get().saturating_add(items));
}

/// Checks that the evaluation has not processed more items than its limit.
pub(crate) fn check_item_work() -> Result<(), OperatorError> {
    match ITEM_WORK.get() > ITEM_WORK_LIMIT {
        true => fail_with("the condition processes more than 10000000 items, which is the limit"),
        false => Ok(()),
    }
}

/// Adds the text to the work of the evaluation, and returns the text. # Errors: the evaluation exceeds its text limit, which bounds its time.
pub(crate) fn charge_text_work(text: &str) -> Result<&str, OperatorError> {
    let bytes = TEXT_WORK.get().saturating_add(text.len());
    TEXT_WORK.set(bytes);
    match bytes > TEXT_LIMIT {
        true => fail_with("the condition processes more than 64 MiB of text, which is the limit"),
        false => Ok(text),
    }
}

/// Applies an arithmetic operator. `+` also joins two strings or two lists.
pub(crate) fn apply_arithmetic(operator: ArithmeticOperator, a: &ConditionValue, b: &ConditionValue) -> OperatorResult {
    if let (ArithmeticOperator::Add, ConditionValue::Text(a), ConditionValue::Text(b)) = (operator, a, b) {
        return join_texts(a.as_str(), b.as_str());
    }
    if let (ArithmeticOperator::Add, ConditionValue::List(a), ConditionValue::List(b)) = (operator, a, b) {
        return join_lists(a, b);
    }
    match to_number_pair(a, b) {
        Some(NumberPair::Ints(a, b)) => calculate_ints(operator, a, b),
        Some(NumberPair::Floats(a, b)) => calculate_floats(operator, a, b),
        None => {
            let (does, symbol) = operator_verb_and_symbol(operator);
            fail_with(format!(
                "cannot {does} {} and {}: {} {symbol} {}",
                a.type_name_with_article(),
                b.type_name_with_article(),
                render_value(a),
                render_value(b)
            ))
        }
    }
}

/// Returns the verb and the symbol of the operator, for messages.
fn operator_verb_and_symbol(operator: ArithmeticOperator) -> (&'static str, &'static str) {
    match operator {
        ArithmeticOperator::Add => ("add", "+"),
        ArithmeticOperator::Subtract => ("subtract", "-"),
        ArithmeticOperator::Multiply => ("multiply", "*"),
        ArithmeticOperator::Divide => ("divide", "/"),
        ArithmeticOperator::Remainder => ("take the remainder of", "%"),
    }
}

/// Joins two strings, and adds both to the work of the evaluation. # Errors: the string would be too long.
fn join_texts(a: &str, b: &str) -> OperatorResult {
    if a.len() + b.len() > STRING_LIMIT {
        return fail_with(STRING_TOO_LONG);
    }
    charge_text_work(a)?;
    charge_text_work(b)?;
    Ok(ConditionValue::new_text([a, b].concat()))
}

/// Joins two lists without copying their items. # Errors: the list would be too long.
fn join_lists(a: &ListValue, b: &ListValue) -> OperatorResult {
    check_list_length(a.len().saturating_add(b.len()))?;
    add_item_work(a.len() + b.len());
    Ok(ConditionValue::new_list(a.iter().chain(b.iter())))
}

/// Checks the length of a list that an expression creates against the item limit.
pub(crate) fn check_list_length(length: usize) -> Result<(), OperatorError> {
    match length > ITEM_LIMIT {
        true => fail_with(format!(
            "the list would have more than {ITEM_LIMIT} items, which is the limit"
        )),
        false => Ok(()),
    }
}

/// The error message for a string that is too long.
pub(crate) const STRING_TOO_LONG: &str = "the string would be longer than 1 MiB, which is the limit";

/// Calculates with integers. A division with a remainder gives a float. # Errors: overflow, or division by zero.
#[expect(clippy::cast_precision_loss, reason = "a quotient that is no integer is a float")]
fn calculate_ints(operator: ArithmeticOperator, a: i64, b: i64) -> OperatorResult {
    let exact = match operator {
        ArithmeticOperator::Add => a.checked_add(b),
        ArithmeticOperator::Subtract => a.checked_sub(b),
        ArithmeticOperator::Multiply => a.checked_mul(b),
        ArithmeticOperator::Divide | ArithmeticOperator::Remainder if b == 0 => {
            return fail_division_by_zero(operator, &ConditionValue::Int(a));
        }
        ArithmeticOperator::Divide if a.checked_rem(b).is_some_and(|rest| rest != 0) => {
            return Ok(ConditionValue::Float(a as f64 / b as f64));
        }
        ArithmeticOperator::Divide => a.checked_div(b),
        ArithmeticOperator::Remainder => {
            let remainder = a.checked_rem(b).unwrap_or(0);
            Some(if remainder != 0 && (remainder < 0) != (b < 0) {
                remainder + b
            } else {
                remainder
            })
        }
    };
    let (_, symbol) = operator_verb_and_symbol(operator);
    exact
        .map(ConditionValue::Int)
        .ok_or_else(|| OperatorError::Message(format!("the integer is too large: {a} {symbol} {b}")))
}

/// Calculates with floats. # Errors: division by zero, or the result is out of range.
fn calculate_floats(operator: ArithmeticOperator, a: f64, b: f64) -> OperatorResult {
    let result = match operator {
        ArithmeticOperator::Add => a + b,
        ArithmeticOperator::Subtract => a - b,
        ArithmeticOperator::Multiply => a * b,
        ArithmeticOperator::Divide | ArithmeticOperator::Remainder if b == 0.0 => {
            return fail_division_by_zero(operator, &ConditionValue::Float(a));
        }
        ArithmeticOperator::Divide => a / b,
        ArithmeticOperator::Remainder => {
            let remainder = a % b;
            if remainder != 0.0 && (remainder < 0.0) != (b < 0.0) {
                remainder + b
            } else {
                remainder
            }
        }
    };
    let (_, symbol) = operator_verb_and_symbol(operator);
    check_finite(result, || format!("{a} {symbol} {b}"))
}

/// Returns the float as a value. # Errors: the float is infinite or NaN; `written` is the calculation in the message.
pub(crate) fn check_finite(result: f64, written: impl FnOnce() -> String) -> OperatorResult {
    if result.is_finite() {
        Ok(ConditionValue::Float(result))
    } else {
        fail_with(format!("the number is out of range: {}", written()))
    }
}

/// Returns the error about a division of `a` by zero.
fn fail_division_by_zero(operator: ArithmeticOperator, a: &ConditionValue) -> OperatorResult {
    let (_, symbol) = operator_verb_and_symbol(operator);
    fail_with(format!("division by zero: {} {symbol} 0", render_value(a)))
}

/// Negates a number: `-a`.
pub(crate) fn negate_number(a: &ConditionValue) -> OperatorResult {
    match a {
        ConditionValue::Int(int) => int
            .checked_neg()
            .map(ConditionValue::Int)
            .ok_or_else(|| OperatorError::Message(format!("the integer is too large: -({int})"))),
        ConditionValue::Float(float) => Ok(ConditionValue::Float(-float)),
        _ => fail_with(format!(
            "cannot negate {}: -{}",
            a.type_name_with_article(),
            render_value(a)
        )),
    }
}

/// Returns the number unchanged: `+a`. # Errors: the operand is no number.
pub(crate) fn unary_plus(a: &ConditionValue) -> OperatorResult {
    match a {
        ConditionValue::Int(_) | ConditionValue::Float(_) => Ok(a.clone()),
        _ => fail_with(format!(
            "the operand of `+` must be a number, but it is {}: +{}",
            a.type_name_with_article(),
            render_value(a)
        )),
    }
}

/// Orders two numbers or two strings; `symbol` is the operator in the error message. # Errors: the values have no order.
pub(crate) fn compare_order(symbol: &str, a: &ConditionValue, b: &ConditionValue) -> Result<Ordering, OperatorError> {
    let order = match (a, b) {
        (ConditionValue::Text(a), ConditionValue::Text(b)) => Some(a.as_str().cmp(b.as_str())),
        _ => compare_numbers(a, b),
    };
    order.ok_or_else(|| {
        OperatorError::Message(format!(
            "cannot compare {} with {}: {} {symbol} {}",
            a.type_name_with_article(),
            b.type_name_with_article(),
            render_value(a),
            render_value(b)
        ))
    })
}

/// Orders two numbers. Returns `None` if one of the values is no number.
fn compare_numbers(a: &ConditionValue, b: &ConditionValue) -> Option<Ordering> {
    match (a, b) {
        (ConditionValue::Int(a), ConditionValue::Int(b)) => Some(a.cmp(b)),
        (ConditionValue::Float(a), ConditionValue::Float(b)) => a.partial_cmp(b),
        (ConditionValue::Int(a), ConditionValue::Float(b)) => Some(compare_int_with_float(*a, *b)),
        (ConditionValue::Float(a), ConditionValue::Int(b)) => Some(compare_int_with_float(*b, *a).reverse()),
        _ => None,
    }
}

/// Compares an integer and a float exactly: above 2^53 a conversion would make different numbers equal.
/// Compares an integer with a float exactly, without rounding the integer.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the float lies between the integers' bounds"
)]
fn compare_int_with_float(int: i64, float: f64) -> Ordering {
    const BOUND: f64 = 9_223_372_036_854_775_808.0;
    if float >= BOUND {
        Ordering::Less
    } else if float < -BOUND {
        Ordering::Greater
    } else {
        let truncated = float.trunc();
        int.cmp(&(truncated as i64))
            .then_with(|| 0.0_f64.partial_cmp(&(float - truncated)).unwrap_or(Ordering::Equal))
    }
}

/// Returns whether two values are equal. Never fails: values of different types are not equal.
pub(crate) fn are_equal(a: &ConditionValue, b: &ConditionValue) -> bool {
    match (a, b) {
        (ConditionValue::Nothing, ConditionValue::Nothing) => true,
        (ConditionValue::Bool(a), ConditionValue::Bool(b)) => a == b,
        (ConditionValue::Text(a), ConditionValue::Text(b)) => a.as_str() == b.as_str(),
        (ConditionValue::List(ListValue::Json(a)), ConditionValue::List(ListValue::Json(b)))
        | (ConditionValue::Map(MapValue::Json(a)), ConditionValue::Map(MapValue::Json(b))) => {
            are_equal_json(a.resolve_value(), b.resolve_value())
        }
        (ConditionValue::List(a), ConditionValue::List(b)) => {
            add_item_work(a.len());
            a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| are_equal(&a, &b))
        }
        (ConditionValue::Map(a), ConditionValue::Map(b)) => are_equal_maps(a, b),
        _ => compare_numbers(a, b) == Some(Ordering::Equal),
    }
}

/// Returns whether two maps have the same keys with equal values, in any order.
fn are_equal_maps(a: &MapValue, b: &MapValue) -> bool {
    add_item_work(a.len());
    a.len() == b.len()
        && a.keys().iter().all(|key| match (a.get(key), b.get(key)) {
            (Some(a), Some(b)) => are_equal(&a, &b),
            _ => false,
        })
}

/// Returns whether two JSON values are equal, with numbers compared as in conditions.
fn are_equal_json(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => are_equal(&json_number_to_value(a), &json_number_to_value(b)),
        (Value::Array(a), Value::Array(b)) => {
            add_item_work(a.len());
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| are_equal_json(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            add_item_work(a.len());
            a.len() == b.len()
                && a.iter()
                    .all(|(key, a)| b.get(key).is_some_and(|b| are_equal_json(a, b)))
        }
        _ => a == b,
    }
}

/// Returns whether `a in b`: an item of a list, a key of a map, or a part of a string.
pub(crate) fn contains_value(b: &ConditionValue, a: &ConditionValue) -> Result<bool, OperatorError> {
    match (b, a) {
        (ConditionValue::List(list), _) => {
            add_item_work(list.len());
            Ok(list.iter().any(|item| are_equal(&item, a)))
        }
        (ConditionValue::Map(map), ConditionValue::Text(key)) => Ok(map.contains_key(key.as_str())),
        (ConditionValue::Map(_), _) => Ok(false),
        (ConditionValue::Text(text), ConditionValue::Text(part)) => {
            Ok(charge_text_work(text.as_str())?.contains(part.as_str()))
        }
        (ConditionValue::Text(_), _) => fail_with(format!(
            "a string can only contain strings, but {} is {}",
            render_value(a),
            a.type_name_with_article()
        )),
        (ConditionValue::Nothing, _) => Err(OperatorError::Operand("is None, so it contains no items".into())),
        _ => Err(OperatorError::Operand(format!(
            "is {} ({}), but must be a list, a map or a string",
            b.type_name_with_article(),
            render_value(b)
        ))),
    }
}

/// Returns the member `name` of a value. A missing key of a map is nothing. # Errors: the value has no members.
pub(crate) fn get_member(base: &ConditionValue, name: &str) -> OperatorResult {
    match base {
        ConditionValue::Map(map) => match map.get(name) {
            Some(value) => Ok(value),
            None => nothing_or_unknown_field_error(map, name),
        },
        ConditionValue::Nothing => Err(OperatorError::Nothing(format!("is None, so it has no member `{name}`"))),
        ConditionValue::Text(text) if name == "len" => Ok(size_to_value(text.as_str().chars().count())),
        ConditionValue::List(list) if name == "len" => Ok(size_to_value(list.len())),
        _ => Err(OperatorError::Operand(format!(
            "is {} ({}), so it has no member `{name}`",
            base.type_name_with_article(),
            render_value(base)
        ))),
    }
}

/// Returns nothing for a missing key. # Errors: the map is an execution, whose fields are fixed.
fn nothing_or_unknown_field_error(map: &MapValue, name: &str) -> OperatorResult {
    match map {
        MapValue::Entry(history, _) => Err(OperatorError::Operand(format!(
            "is an execution, which has no field `{name}`; its fields are {}",
            history.field_names().join(", ")
        ))),
        _ => Ok(ConditionValue::Nothing),
    }
}

/// Converts a size to an integer value.
pub(crate) fn size_to_value(size: usize) -> ConditionValue {
    ConditionValue::Int(i64::try_from(size).unwrap_or(i64::MAX))
}

/// Returns `base[index]`: an item, a value of a map, or a character. # Errors: the index is out of range.
pub(crate) fn get_indexed_item(base: &ConditionValue, index: &ConditionValue) -> OperatorResult {
    match (base, index) {
        (ConditionValue::Map(map), ConditionValue::Text(key)) => match map.get(key.as_str()) {
            Some(value) => Ok(value),
            None => nothing_or_unknown_field_error(map, key.as_str()),
        },
        (ConditionValue::List(list), _) if as_whole_number(index).is_some() => {
            let item = as_whole_number(index)
                .and_then(|at| resolve_index(at, list.len()))
                .and_then(|at| list.get(at));
            item.ok_or_else(|| index_range_error(index, "list", list.len(), "item"))
        }
        (ConditionValue::Text(text), _) if as_whole_number(index).is_some() => {
            let length = text.as_str().chars().count();
            let character = as_whole_number(index)
                .and_then(|at| resolve_index(at, length))
                .and_then(|at| text.as_str().chars().nth(at));
            character
                .map(|c| ConditionValue::new_text(c.to_string()))
                .ok_or_else(|| index_range_error(index, "string", length, "character"))
        }
        (ConditionValue::Nothing, _) => Err(OperatorError::Nothing(format!(
            "is None, so it has no item {}",
            render_value(index)
        ))),
        (ConditionValue::Map(_), _) => fail_with(format!(
            "a key of a map must be a string, but {} is {}",
            render_value(index),
            index.type_name_with_article()
        )),
        (ConditionValue::List(_) | ConditionValue::Text(_), _) => fail_with(format!(
            "an index must be an integer, but {} is {}",
            render_value(index),
            index.type_name_with_article()
        )),
        _ => Err(OperatorError::Operand(format!(
            "is {} ({}), so it has no items",
            base.type_name_with_article(),
            render_value(base)
        ))),
    }
}

/// The number as an integer, if it is one.
/// Returns the integer, if the number is whole; `None` for other values.
#[expect(
    clippy::cast_possible_truncation,
    reason = "only whole numbers well within the bounds get there"
)]
pub(crate) fn as_whole_number(number: &ConditionValue) -> Option<i64> {
    match number {
        ConditionValue::Int(int) => Some(*int),
        ConditionValue::Float(float) if float.fract() == 0.0 && float.abs() < 9.0e15 => Some(*float as i64),
        _ => None,
    }
}

/// Converts an index to a position. Negative indexes count from the end. Returns `None` if it is out of range.
pub(crate) fn resolve_index(at: i64, length: usize) -> Option<usize> {
    if at >= 0 {
        usize::try_from(at).ok().filter(|&at| at < length)
    } else {
        length.checked_sub(usize::try_from(at.unsigned_abs()).ok()?)
    }
}

/// Builds the error about an index out of range; `of` names the collection, `unit` one item of it.
fn index_range_error(index: &ConditionValue, of: &str, length: usize, unit: &str) -> OperatorError {
    let plural = if length == 1 { "" } else { "s" };
    OperatorError::Message(format!(
        "index {} is out of range: the {of} has {length} {unit}{plural}",
        render_value(index)
    ))
}

/// Returns the slice `base[from:to]`, as in Python: bounds beyond the ends are limited to the ends.
pub(crate) fn get_slice(base: &ConditionValue, from: &ConditionValue, to: &ConditionValue) -> OperatorResult {
    match base {
        ConditionValue::List(list) => {
            let (from, to) = resolve_slice(from, to, list.len())?;
            Ok(ConditionValue::List(list.slice_items(from, to)))
        }
        ConditionValue::Text(text) => {
            let text = charge_text_work(text.as_str())?;
            let (from, to) = resolve_slice(from, to, text.chars().count())?;
            let part: String = text.chars().skip(from).take(to.saturating_sub(from)).collect();
            match part.len() > STRING_LIMIT {
                true => fail_with(STRING_TOO_LONG),
                false => Ok(ConditionValue::new_text(part)),
            }
        }
        ConditionValue::Nothing => Err(OperatorError::Nothing("is None, so it has no items".into())),
        _ => Err(OperatorError::Operand(format!(
            "is {} ({}), so it has no slices",
            base.type_name_with_article(),
            render_value(base)
        ))),
    }
}

/// Returns the position of the first item of a slice, and the position after its last item.
fn resolve_slice(from: &ConditionValue, to: &ConditionValue, length: usize) -> Result<(usize, usize), OperatorError> {
    Ok((
        resolve_slice_bound(from, 0, length)?,
        resolve_slice_bound(to, length, length)?,
    ))
}

/// Converts the bound of a slice to a position from 0 to `length`. Returns `default` if there is no bound.
fn resolve_slice_bound(bound: &ConditionValue, default: usize, length: usize) -> Result<usize, OperatorError> {
    if matches!(bound, ConditionValue::Nothing) {
        return Ok(default);
    }
    let Some(at) = as_whole_number(bound) else {
        return fail_with(format!(
            "the bound of a slice must be an integer, but {} is {}",
            render_value(bound),
            bound.type_name_with_article()
        ));
    };
    let distance = usize::try_from(at.unsigned_abs()).unwrap_or(usize::MAX);
    Ok(match at >= 0 {
        true => distance.min(length),
        false => length.saturating_sub(distance),
    })
}

/// Returns the items over which a comprehension iterates: the items of a list, or the keys of a map.
pub(crate) fn list_iterated_items(source: &ConditionValue) -> Result<ListValue, OperatorError> {
    match source {
        ConditionValue::List(list) => Ok(list.clone()),
        ConditionValue::Map(map) => {
            add_item_work(map.len());
            let keys = map.keys().into_iter().map(ConditionValue::new_text);
            Ok(ListValue::Own(keys.collect()))
        }
        ConditionValue::Nothing => Err(OperatorError::Operand("is None, so it cannot be iterated over".into())),
        _ => Err(OperatorError::Operand(format!(
            "is {} ({}), so it cannot be iterated over; a comprehension needs a list or a map",
            source.type_name_with_article(),
            render_value(source)
        ))),
    }
}
