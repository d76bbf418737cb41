//! The implementations of the functions.

use rhai::ImmutableString;

use crate::condition::evaluation::operators::{
    ArithmeticOperator, COMPARE_HELP, OperatorError, OperatorResult, STRING_TOO_LONG, apply_arithmetic, are_equal,
    as_whole_number, charge_text_work, check_finite, check_list_length, compare_order, fail_with, get_indexed_item,
    resolve_index, size_to_value, truth_unless_false_word,
};
use crate::condition::evaluation::report::render_value;
use crate::condition::evaluation::value::{ConditionValue, ListValue, MapValue};
use crate::condition::{ITEM_LIMIT, STRING_LIMIT};

/// Returns whether an item of the list has the truth value `wanted`. Does not evaluate the items after it.
pub(super) fn has_item_with_truth(items: &ConditionValue, wanted: bool) -> Result<bool, OperatorError> {
    for item in expect_list(items)?.iter() {
        let is_true = truth_unless_false_word(&item).map_err(|_| {
            OperatorError::Message(format!(
                "the item {} of the list would count as true: {COMPARE_HELP}",
                render_value(&item)
            ))
        })?;
        if is_true == wanted {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the error about a value that does not have the type `needed`.
fn fail_wrong_type<T>(value: &ConditionValue, needed: &str) -> Result<T, OperatorError> {
    Err(OperatorError::Operand(match value {
        ConditionValue::Nothing => format!("is None, but must be {needed}"),
        _ => format!(
            "is {} ({}), but must be {needed}",
            value.type_name_with_article(),
            render_value(value)
        ),
    }))
}

/// Returns the text of the value, and adds it to the work of the evaluation. # Errors: the value is no string, or the
/// evaluation exceeds its text limit.
pub(super) fn charge_text(value: &ConditionValue) -> Result<&str, OperatorError> {
    match value {
        ConditionValue::Text(text) => charge_text_work(text.as_str()),
        _ => fail_wrong_type(value, "a string"),
    }
}

/// Returns the text of an argument after the first one, without adding it to the work of the evaluation.
pub(super) fn expect_text_argument(value: &ConditionValue) -> Result<&str, OperatorError> {
    match value {
        ConditionValue::Text(text) => Ok(text.as_str()),
        _ => fail_with(format!(
            "the argument must be a string, but {} is {}",
            render_value(value),
            value.type_name_with_article()
        )),
    }
}

/// Returns the list, or an error about another type.
fn expect_list(value: &ConditionValue) -> Result<&ListValue, OperatorError> {
    match value {
        ConditionValue::List(list) => Ok(list),
        _ => fail_wrong_type(value, "a list"),
    }
}

/// Returns the map, or an error about another type.
pub(super) fn expect_map(value: &ConditionValue) -> Result<&MapValue, OperatorError> {
    match value {
        ConditionValue::Map(map) => Ok(map),
        _ => fail_wrong_type(value, "a map"),
    }
}

/// Builds a string value, and adds it to the work of the evaluation. # Errors: the string is too long.
pub(super) fn build_limited_text(text: impl Into<ImmutableString>) -> OperatorResult {
    let text = text.into();
    if text.len() > STRING_LIMIT {
        return fail_with(STRING_TOO_LONG);
    }
    charge_text_work(&text)?;
    Ok(ConditionValue::new_text(text))
}

/// Implements `get(base, key, default)`: returns the value under the key or index, or the default.
pub(super) fn get_or_default(a: &[ConditionValue]) -> OperatorResult {
    let value = match (&a[0], &a[1]) {
        (ConditionValue::Map(map), ConditionValue::Text(key)) => map.get(key.as_str()),
        (ConditionValue::Map(_), _) => None,
        (ConditionValue::List(list), at) => match as_whole_number(at) {
            Some(at) => resolve_index(at, list.len()).and_then(|at| list.get(at)),
            None => return get_indexed_item(&a[0], at),
        },
        (ConditionValue::Nothing, _) => {
            return Err(OperatorError::Nothing("is None, so `get` cannot read from it".into()));
        }
        _ => return fail_wrong_type(&a[0], "a map or a list"),
    };
    Ok(value.or_else(|| a.get(2).cloned()).unwrap_or(ConditionValue::Nothing))
}

/// Implements `len`: counts characters, items or keys.
pub(super) fn measure_length(a: &[ConditionValue]) -> OperatorResult {
    match &a[0] {
        ConditionValue::Text(text) => Ok(size_to_value(charge_text_work(text.as_str())?.chars().count())),
        ConditionValue::List(list) => Ok(size_to_value(list.len())),
        ConditionValue::Map(map) => Ok(size_to_value(map.len())),
        other => fail_wrong_type(other, "a string, a list or a map"),
    }
}

/// Implements `count`: counts equal items of a list, or occurrences in a string.
pub(super) fn count_matches(a: &[ConditionValue]) -> OperatorResult {
    match &a[0] {
        ConditionValue::List(list) => Ok(size_to_value(list.iter().filter(|item| are_equal(item, &a[1])).count())),
        ConditionValue::Text(text) => Ok(size_to_value(
            charge_text_work(text.as_str())?
                .matches(expect_text_argument(&a[1])?)
                .count(),
        )),
        other => fail_wrong_type(other, "a string or a list"),
    }
}

/// Implements `index`: returns the position of the first match, or -1.
pub(super) fn find_index(a: &[ConditionValue]) -> OperatorResult {
    let index = match &a[0] {
        ConditionValue::List(list) => list.iter().position(|item| are_equal(&item, &a[1])),
        ConditionValue::Text(text) => {
            let text = charge_text_work(text.as_str())?;
            text.find(expect_text_argument(&a[1])?)
                .map(|at| text[..at].chars().count())
        }
        other => return fail_wrong_type(other, "a string or a list"),
    };
    Ok(index.map_or(ConditionValue::Int(-1), size_to_value))
}

/// Returns the item at the index, such as 0 or -1. Returns nothing if the list is empty.
pub(super) fn item_or_nothing(value: &ConditionValue, at: i64) -> OperatorResult {
    let list = expect_list(value)?;
    Ok(resolve_index(at, list.len())
        .and_then(|at| list.get(at))
        .unwrap_or(ConditionValue::Nothing))
}

/// Implements `values`: returns the values of a map.
pub(super) fn list_values(a: &[ConditionValue]) -> OperatorResult {
    let map = expect_map(&a[0])?;
    Ok(ConditionValue::new_list(
        map.keys().iter().filter_map(|key| map.get(key)),
    ))
}

/// Implements `split`: splits a string at white space, or at a separator.
pub(super) fn split_text(a: &[ConditionValue]) -> OperatorResult {
    let text = charge_text(&a[0])?;
    let parts: Vec<ConditionValue> = match a.get(1) {
        None => text
            .split_whitespace()
            .take(ITEM_LIMIT + 1)
            .map(ConditionValue::new_text)
            .collect(),
        Some(separator) => match expect_text_argument(separator)? {
            "" => return fail_with("the separator of `split` must not be empty"),
            separator => text
                .split(separator)
                .take(ITEM_LIMIT + 1)
                .map(ConditionValue::new_text)
                .collect(),
        },
    };
    check_list_length(parts.len())?;
    Ok(ConditionValue::new_list(parts))
}

/// Implements `replace`: replaces every occurrence of a string.
pub(super) fn replace_text(a: &[ConditionValue]) -> OperatorResult {
    let (whole, old, new) = (
        charge_text(&a[0])?,
        expect_text_argument(&a[1])?,
        expect_text_argument(&a[2])?,
    );
    let match_count = whole.matches(old).count();
    let length = (whole.len() - match_count * old.len()).saturating_add(match_count.saturating_mul(new.len()));
    if length > STRING_LIMIT {
        return fail_with(STRING_TOO_LONG);
    }
    build_limited_text(whole.replace(old, new))
}

/// Implements `abs`.
pub(super) fn absolute_value(a: &[ConditionValue]) -> OperatorResult {
    match &a[0] {
        ConditionValue::Int(int) => int
            .checked_abs()
            .map(ConditionValue::Int)
            .ok_or_else(|| OperatorError::Message(format!("the integer is too large: abs({int})"))),
        ConditionValue::Float(float) => Ok(ConditionValue::Float(float.abs())),
        other => fail_wrong_type(other, "a number"),
    }
}

/// Returns the smallest (`symbol` is `<`) or largest of several arguments, or of the items of one list.
pub(super) fn find_extreme(a: &[ConditionValue], symbol: &str) -> OperatorResult {
    let items: Vec<ConditionValue> = match a {
        [only] => expect_list(only)?.iter().collect(),
        several => several.to_vec(),
    };
    let better_order = if symbol == "<" {
        std::cmp::Ordering::Less
    } else {
        std::cmp::Ordering::Greater
    };
    let mut items = items.into_iter();
    let Some(mut best) = items.next() else {
        return Err(OperatorError::Operand(
            "is empty, so it has no smallest or largest item".into(),
        ));
    };
    for item in items {
        if compare_order(symbol, &item, &best)? == better_order {
            best = item;
        }
    }
    Ok(best)
}

/// Implements `sum`: adds the numbers of a list.
pub(super) fn sum_items(a: &[ConditionValue]) -> OperatorResult {
    let mut total = ConditionValue::Int(0);
    for item in expect_list(&a[0])?.iter() {
        if !matches!(item, ConditionValue::Int(_) | ConditionValue::Float(_)) {
            return fail_with(format!(
                "the items of `sum` must be numbers, but {} is {}",
                render_value(&item),
                item.type_name_with_article()
            ));
        }
        total = apply_arithmetic(ArithmeticOperator::Add, &total, &item)?;
    }
    Ok(total)
}

/// Implements `round`: rounds half to even, to an integer or to a number of digits.
pub(super) fn round_number(a: &[ConditionValue]) -> OperatorResult {
    let Some(digits) = a.get(1) else {
        return round_to_integer(&a[0], f64::round_ties_even);
    };
    let digits = as_whole_number(digits)
        .and_then(|digits| i32::try_from(digits).ok())
        .filter(|digits| (0..=15).contains(digits));
    match (&a[0], digits) {
        (_, None) => fail_with("the number of digits of `round` must be from 0 to 15"),
        (ConditionValue::Int(int), _) => Ok(ConditionValue::Int(*int)),
        (ConditionValue::Float(float), Some(digits)) => {
            let factor = 10_f64.powi(digits);
            let scaled = float * factor;
            Ok(ConditionValue::Float(if scaled.is_finite() {
                scaled.round_ties_even() / factor
            } else {
                *float
            }))
        }
        (other, _) => fail_wrong_type(other, "a number"),
    }
}

/// Rounds a float with the function `how`. The result is an integer if it fits into one.
#[expect(clippy::cast_possible_truncation, reason = "guarded by the comparison")]
pub(super) fn round_to_integer(value: &ConditionValue, how: fn(f64) -> f64) -> OperatorResult {
    match value {
        ConditionValue::Int(int) => Ok(ConditionValue::Int(*int)),
        ConditionValue::Float(float) => {
            let float = how(*float);
            Ok(if float.abs() < 9.0e18 {
                ConditionValue::Int(float as i64)
            } else {
                ConditionValue::Float(float)
            })
        }
        other => fail_wrong_type(other, "a number"),
    }
}

/// Implements `int`: converts a boolean, a number or a string to an integer.
pub(super) fn convert_to_int(a: &[ConditionValue]) -> OperatorResult {
    match &a[0] {
        ConditionValue::Bool(flag) => Ok(ConditionValue::Int(i64::from(*flag))),
        ConditionValue::Text(text) => {
            let parsed = text.as_str().trim().parse().map(ConditionValue::Int);
            parsed.or_else(|_| fail_with(format!("{} is not an integer", render_value(&a[0]))))
        }
        ConditionValue::Int(_) | ConditionValue::Float(_) => round_to_integer(&a[0], f64::trunc),
        other => fail_wrong_type(other, "a number or a string"),
    }
}

/// Implements `float`: converts a boolean, a number or a string to a float.
#[expect(clippy::cast_precision_loss, reason = "that is what the function is for")]
pub(super) fn convert_to_float(a: &[ConditionValue]) -> OperatorResult {
    match &a[0] {
        ConditionValue::Bool(flag) => Ok(ConditionValue::Float(f64::from(u8::from(*flag)))),
        ConditionValue::Text(text) => match text.as_str().trim().parse::<f64>() {
            Ok(number) => check_finite(number, || render_value(&a[0])),
            Err(_) => fail_with(format!("{} is not a number", render_value(&a[0]))),
        },
        ConditionValue::Int(int) => Ok(ConditionValue::Float(*int as f64)),
        ConditionValue::Float(float) => Ok(ConditionValue::Float(*float)),
        other => fail_wrong_type(other, "a number or a string"),
    }
}

/// Renders the value as a string: strings unchanged, equal numbers with equal text, all other values as JSON.
pub(super) fn render_as_text(value: &ConditionValue) -> String {
    match value {
        ConditionValue::Text(text) => text.as_str().to_owned(),
        ConditionValue::Float(float) => float.to_string(),
        other => {
            let mut out = String::new();
            write_limited_json(other, &mut out);
            out
        }
    }
}

/// Writes the value as JSON, and stops at the maximum length of a string.
fn write_limited_json(value: &ConditionValue, out: &mut String) {
    if out.len() > STRING_LIMIT {
        return;
    }
    match value {
        ConditionValue::List(list) => {
            out.push('[');
            for (at, item) in list.iter().enumerate() {
                if out.len() > STRING_LIMIT {
                    return;
                }
                out.push_str(if at == 0 { "" } else { "," });
                write_limited_json(&item, out);
            }
            out.push(']');
        }
        ConditionValue::Map(map) => {
            out.push('{');
            for (at, key) in map.keys().iter().enumerate() {
                if out.len() > STRING_LIMIT {
                    return;
                }
                out.push_str(if at == 0 { "" } else { "," });
                out.push_str(&serde_json::Value::from(key.as_str()).to_string());
                out.push(':');
                write_limited_json(&map.get(key).unwrap_or(ConditionValue::Nothing), out);
            }
            out.push('}');
        }
        ConditionValue::Text(text) => out.push_str(&serde_json::Value::from(text.as_str()).to_string()),
        ConditionValue::Nothing => out.push_str("null"),
        ConditionValue::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        ConditionValue::Int(int) => out.push_str(&int.to_string()),
        ConditionValue::Float(float) => out.push_str(&float.to_string()),
    }
}
