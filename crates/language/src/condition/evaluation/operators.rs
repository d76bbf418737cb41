//! The semantics of the operators.
//!
//! The rules are those of this language, not of Rhai: one number type, truth values and remainder as in Python, values
//! of different types are not equal, and an error if values cannot be ordered or added.

use std::cell::Cell;
use std::cmp::Ordering;

use serde_json::Value;

use crate::condition::evaluation::report::show;
use crate::condition::evaluation::value::{Datum, List, Map, number};
use crate::condition::{STRING_LIMIT, TEXT_LIMIT};

/// Arithmetic operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

/// The reason why an operator has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The whole message.
    Message(String),
    /// A message that begins with the user's text of the operand.
    Operand(String),
}

/// The result of an operator.
pub(crate) type Outcome = Result<Datum, Fault>;

/// An error with this message.
pub(crate) fn fault<T>(message: impl Into<String>) -> Result<T, Fault> {
    Err(Fault::Message(message.into()))
}

/// Two integers, or two floats after conversion.
enum Pair {
    Ints(i64, i64),
    Floats(f64, f64),
}

#[expect(
    clippy::cast_precision_loss,
    reason = "arithmetic with a float is arithmetic of floats"
)]
fn pair(a: &Datum, b: &Datum) -> Option<Pair> {
    Some(match (a, b) {
        (&Datum::Int(a), &Datum::Int(b)) => Pair::Ints(a, b),
        (&Datum::Int(a), &Datum::Float(b)) => Pair::Floats(a as f64, b),
        (&Datum::Float(a), &Datum::Int(b)) => Pair::Floats(a, b as f64),
        (&Datum::Float(a), &Datum::Float(b)) => Pair::Floats(a, b),
        _ => return None,
    })
}

/// Texts that mean "false" to whoever wrote them, and would count as true.
const LIKE_FALSE: [&str; 6] = ["false", "no", "off", "0", "none", "null"];

/// Returns whether the text, trimmed and in any case, is one of the words for "false".
pub(crate) fn reads_false(text: &str) -> bool {
    let text = text.trim();
    LIKE_FALSE.iter().any(|word| text.eq_ignore_ascii_case(word))
}

/// The truth value, where a condition asks for it: as in Python, except that a text that reads false is an error.
pub(crate) fn truth(value: &Datum) -> Result<bool, Fault> {
    match value {
        Datum::Text(text) if reads_false(text.as_str()) => Err(Fault::Operand(format!(
            "is the string {}, which would count as true: {COMPARE_IT}",
            show(value)
        ))),
        _ => Ok(value.truth()),
    }
}

/// What to do with a text that reads false.
pub(crate) const COMPARE_IT: &str = "compare it with `==`, or ask the agent for a boolean with `output_schema`";

thread_local! {
    /// The bytes of text that functions have worked through since the evaluation on this thread began.
    static WORKED_THROUGH: Cell<usize> = const { Cell::new(0) };
}

/// An evaluation begins on this thread.
pub(crate) fn begin() {
    WORKED_THROUGH.set(0);
}

/// A function is about to work through the text. One step of the engine may take long on a long text, so steps alone do
/// not bound the time of an evaluation.
pub(crate) fn work_through(text: &str) -> Result<&str, Fault> {
    let bytes = WORKED_THROUGH.get().saturating_add(text.len());
    WORKED_THROUGH.set(bytes);
    match bytes > TEXT_LIMIT {
        true => fault("the condition works through more than 64 MiB of text, which is the limit"),
        false => Ok(text),
    }
}

/// `a + b` and the other arithmetic operators.
pub(crate) fn arithmetic(operator: Arithmetic, a: &Datum, b: &Datum) -> Outcome {
    if let (Arithmetic::Add, Datum::Text(a), Datum::Text(b)) = (operator, a, b) {
        return join(a.as_str(), b.as_str());
    }
    match pair(a, b) {
        Some(Pair::Ints(a, b)) => ints(operator, a, b),
        Some(Pair::Floats(a, b)) => floats(operator, a, b),
        None => {
            let (does, symbol) = words(operator);
            fault(format!(
                "cannot {does} {} and {}: {} {symbol} {}",
                a.a_sort(),
                b.a_sort(),
                show(a),
                show(b)
            ))
        }
    }
}

fn words(operator: Arithmetic) -> (&'static str, &'static str) {
    match operator {
        Arithmetic::Add => ("add", "+"),
        Arithmetic::Subtract => ("subtract", "-"),
        Arithmetic::Multiply => ("multiply", "*"),
        Arithmetic::Divide => ("divide", "/"),
        Arithmetic::Remainder => ("take the remainder of", "%"),
    }
}

fn join(a: &str, b: &str) -> Outcome {
    if a.len() + b.len() > STRING_LIMIT {
        return fault(TOO_LONG);
    }
    Ok(Datum::text([a, b].concat()))
}

/// The error message for a string that is too long.
pub(crate) const TOO_LONG: &str = "the string would be longer than 1 MiB, which is the limit";

#[expect(clippy::cast_precision_loss, reason = "a quotient that is no integer is a float")]
fn ints(operator: Arithmetic, a: i64, b: i64) -> Outcome {
    let exact = match operator {
        Arithmetic::Add => a.checked_add(b),
        Arithmetic::Subtract => a.checked_sub(b),
        Arithmetic::Multiply => a.checked_mul(b),
        Arithmetic::Divide | Arithmetic::Remainder if b == 0 => return by_zero(operator, &Datum::Int(a)),
        Arithmetic::Divide if a.checked_rem(b).is_some_and(|rest| rest != 0) => {
            return Ok(Datum::Float(a as f64 / b as f64));
        }
        Arithmetic::Divide => a.checked_div(b),
        Arithmetic::Remainder => {
            let rest = a.checked_rem(b).unwrap_or(0);
            Some(if rest != 0 && (rest < 0) != (b < 0) {
                rest + b
            } else {
                rest
            })
        }
    };
    let (_, symbol) = words(operator);
    exact
        .map(Datum::Int)
        .ok_or_else(|| Fault::Message(format!("the integer is too large: {a} {symbol} {b}")))
}

fn floats(operator: Arithmetic, a: f64, b: f64) -> Outcome {
    let result = match operator {
        Arithmetic::Add => a + b,
        Arithmetic::Subtract => a - b,
        Arithmetic::Multiply => a * b,
        Arithmetic::Divide | Arithmetic::Remainder if b == 0.0 => return by_zero(operator, &Datum::Float(a)),
        Arithmetic::Divide => a / b,
        Arithmetic::Remainder => {
            let rest = a % b;
            if rest != 0.0 && (rest < 0.0) != (b < 0.0) {
                rest + b
            } else {
                rest
            }
        }
    };
    let (_, symbol) = words(operator);
    finite(result, || format!("{a} {symbol} {b}"))
}

/// A float, or an error if it is out of range.
pub(crate) fn finite(result: f64, written: impl FnOnce() -> String) -> Outcome {
    if result.is_finite() {
        Ok(Datum::Float(result))
    } else {
        fault(format!("the number is out of range: {}", written()))
    }
}

fn by_zero(operator: Arithmetic, a: &Datum) -> Outcome {
    let (_, symbol) = words(operator);
    fault(format!("division by zero: {} {symbol} 0", show(a)))
}

/// `-a`.
pub(crate) fn minus(a: &Datum) -> Outcome {
    match a {
        Datum::Int(int) => int
            .checked_neg()
            .map(Datum::Int)
            .ok_or_else(|| Fault::Message(format!("the integer is too large: -({int})"))),
        Datum::Float(float) => Ok(Datum::Float(-float)),
        _ => fault(format!("cannot negate {}: -{}", a.a_sort(), show(a))),
    }
}

/// `+a`.
pub(crate) fn plus(a: &Datum) -> Outcome {
    match a {
        Datum::Int(_) | Datum::Float(_) => Ok(a.clone()),
        _ => fault(format!(
            "the operand of `+` must be a number, but it is {}: +{}",
            a.a_sort(),
            show(a)
        )),
    }
}

/// The order of two numbers or two texts.
pub(crate) fn order(symbol: &str, a: &Datum, b: &Datum) -> Result<Ordering, Fault> {
    let order = match (a, b) {
        (Datum::Text(a), Datum::Text(b)) => Some(a.as_str().cmp(b.as_str())),
        _ => numbers(a, b),
    };
    order.ok_or_else(|| {
        Fault::Message(format!(
            "cannot compare {} with {}: {} {symbol} {}",
            a.a_sort(),
            b.a_sort(),
            show(a),
            show(b)
        ))
    })
}

fn numbers(a: &Datum, b: &Datum) -> Option<Ordering> {
    match (a, b) {
        (Datum::Int(a), Datum::Int(b)) => Some(a.cmp(b)),
        (Datum::Float(a), Datum::Float(b)) => a.partial_cmp(b),
        (Datum::Int(a), Datum::Float(b)) => Some(mixed(*a, *b)),
        (Datum::Float(a), Datum::Int(b)) => Some(mixed(*b, *a).reverse()),
        _ => None,
    }
}

/// Compares an integer and a float exactly: above 2^53 a conversion would make different numbers equal.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the float lies between the integers' bounds"
)]
fn mixed(int: i64, float: f64) -> Ordering {
    const BOUND: f64 = 9_223_372_036_854_775_808.0;
    if float >= BOUND {
        Ordering::Less
    } else if float < -BOUND {
        Ordering::Greater
    } else {
        let whole = float.trunc();
        int.cmp(&(whole as i64))
            .then_with(|| 0.0_f64.partial_cmp(&(float - whole)).unwrap_or(Ordering::Equal))
    }
}

/// `a == b`; never fails, and values of different types are different.
pub(crate) fn equal(a: &Datum, b: &Datum) -> bool {
    match (a, b) {
        (Datum::Nothing, Datum::Nothing) => true,
        (Datum::Bool(a), Datum::Bool(b)) => a == b,
        (Datum::Text(a), Datum::Text(b)) => a.as_str() == b.as_str(),
        (Datum::List(List::Json(a)), Datum::List(List::Json(b)))
        | (Datum::Map(Map::Json(a)), Datum::Map(Map::Json(b))) => equal_json(a.value(), b.value()),
        (Datum::List(a), Datum::List(b)) => a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| equal(&a, &b)),
        (Datum::Map(a), Datum::Map(b)) => equal_maps(a, b),
        _ => numbers(a, b) == Some(Ordering::Equal),
    }
}

fn equal_maps(a: &Map, b: &Map) -> bool {
    a.len() == b.len()
        && a.keys().iter().all(|key| match (a.get(key), b.get(key)) {
            (Some(a), Some(b)) => equal(&a, &b),
            _ => false,
        })
}

fn equal_json(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => equal(&number(a), &number(b)),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal_json(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| equal_json(a, b)))
        }
        _ => a == b,
    }
}

/// `a in b`.
pub(crate) fn contains(b: &Datum, a: &Datum) -> Result<bool, Fault> {
    match (b, a) {
        (Datum::List(list), _) => Ok(list.iter().any(|item| equal(&item, a))),
        (Datum::Map(map), Datum::Text(key)) => Ok(map.has(key.as_str())),
        (Datum::Map(_), _) => Ok(false),
        (Datum::Text(text), Datum::Text(part)) => Ok(work_through(text.as_str())?.contains(part.as_str())),
        (Datum::Text(_), _) => fault(format!(
            "a string can only contain strings, but {} is {}",
            show(a),
            a.a_sort()
        )),
        (Datum::Nothing, _) => Err(Fault::Operand("is None, so it contains no items".into())),
        _ => Err(Fault::Operand(format!(
            "is {} ({}), but must be a list, a map or a string",
            b.a_sort(),
            show(b)
        ))),
    }
}

/// `base.name`.
pub(crate) fn member(base: &Datum, name: &str) -> Outcome {
    match base {
        Datum::Map(map) => match map.get(name) {
            Some(value) => Ok(value),
            None => missing(map, name),
        },
        Datum::Nothing => Err(Fault::Operand(format!("is None, so it has no member `{name}`"))),
        Datum::Text(text) if name == "len" => Ok(size(text.as_str().chars().count())),
        Datum::List(list) if name == "len" => Ok(size(list.len())),
        _ => Err(Fault::Operand(format!(
            "is {} ({}), so it has no member `{name}`",
            base.a_sort(),
            show(base)
        ))),
    }
}

/// A missing key is nothing. But an execution has a fixed set of fields, so another name is a spelling mistake.
fn missing(map: &Map, name: &str) -> Outcome {
    match map {
        Map::Entry(history, _) => Err(Fault::Operand(format!(
            "is an execution, which has no field `{name}`; its fields are {}",
            history.fields().join(", ")
        ))),
        _ => Ok(Datum::Nothing),
    }
}

/// The number of executions.
pub(crate) fn size(size: usize) -> Datum {
    Datum::Int(i64::try_from(size).unwrap_or(i64::MAX))
}

/// `base[index]`.
pub(crate) fn index(base: &Datum, index: &Datum) -> Outcome {
    match (base, index) {
        (Datum::Map(map), Datum::Text(key)) => match map.get(key.as_str()) {
            Some(value) => Ok(value),
            None => missing(map, key.as_str()),
        },
        (Datum::List(list), _) if whole(index).is_some() => {
            let found = whole(index)
                .and_then(|at| position(at, list.len()))
                .and_then(|at| list.get(at));
            found.ok_or_else(|| out_of_range(index, "list", list.len(), "item"))
        }
        (Datum::Text(text), _) if whole(index).is_some() => {
            let length = text.as_str().chars().count();
            let found = whole(index)
                .and_then(|at| position(at, length))
                .and_then(|at| text.as_str().chars().nth(at));
            found
                .map(|c| Datum::text(c.to_string()))
                .ok_or_else(|| out_of_range(index, "string", length, "character"))
        }
        (Datum::Nothing, _) => Err(Fault::Operand(format!("is None, so it has no item {}", show(index)))),
        (Datum::Map(_), _) => fault(format!(
            "a key of a map must be a string, but {} is {}",
            show(index),
            index.a_sort()
        )),
        (Datum::List(_) | Datum::Text(_), _) => fault(format!(
            "an index must be an integer, but {} is {}",
            show(index),
            index.a_sort()
        )),
        _ => Err(Fault::Operand(format!(
            "is {} ({}), so it has no items",
            base.a_sort(),
            show(base)
        ))),
    }
}

/// The number as an integer, if it is one.
#[expect(
    clippy::cast_possible_truncation,
    reason = "only whole numbers well within the bounds get there"
)]
pub(crate) fn whole(number: &Datum) -> Option<i64> {
    match number {
        Datum::Int(int) => Some(*int),
        Datum::Float(float) if float.fract() == 0.0 && float.abs() < 9.0e15 => Some(*float as i64),
        _ => None,
    }
}

/// The index of the item that `at` refers to, counted from the end if it is negative.
pub(crate) fn position(at: i64, length: usize) -> Option<usize> {
    if at >= 0 {
        usize::try_from(at).ok().filter(|&at| at < length)
    } else {
        length.checked_sub(usize::try_from(at.unsigned_abs()).ok()?)
    }
}

fn out_of_range(index: &Datum, of: &str, length: usize, unit: &str) -> Fault {
    let plural = if length == 1 { "" } else { "s" };
    Fault::Message(format!(
        "index {} is out of range: the {of} has {length} {unit}{plural}",
        show(index)
    ))
}
