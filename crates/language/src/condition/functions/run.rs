//! The implementations of the functions.

use rhai::ImmutableString;

use crate::condition::evaluation::operators::{
    Arithmetic, COMPARE_IT, Fault, Outcome, TOO_LONG, arithmetic, equal, fault, finite, index, order, position, size,
    truth, whole, work_through,
};
use crate::condition::evaluation::report::show;
use crate::condition::evaluation::value::{Datum, List, Map};
use crate::condition::{ITEM_LIMIT, STRING_LIMIT};

/// Returns whether the list has an item with this truth value; the items after it are not asked.
pub(super) fn has(items: &Datum, wanted: bool) -> Result<bool, Fault> {
    for item in list(items)?.iter() {
        let found = truth(&item).map_err(|_| {
            Fault::Message(format!(
                "the item {} of the list would count as true: {COMPARE_IT}",
                show(&item)
            ))
        })?;
        if found == wanted {
            return Ok(true);
        }
    }
    Ok(false)
}

fn wrong<T>(value: &Datum, needed: &str) -> Result<T, Fault> {
    Err(Fault::Operand(match value {
        Datum::Nothing => format!("is None, but must be {needed}"),
        _ => format!("is {} ({}), but must be {needed}", value.a_sort(), show(value)),
    }))
}

pub(super) fn text(value: &Datum) -> Result<&str, Fault> {
    match value {
        Datum::Text(text) => work_through(text.as_str()),
        _ => wrong(value, "a string"),
    }
}

/// An argument after the first one that must be a string.
pub(super) fn argument(value: &Datum) -> Result<&str, Fault> {
    match value {
        Datum::Text(text) => Ok(text.as_str()),
        _ => fault(format!(
            "the argument must be a string, but {} is {}",
            show(value),
            value.a_sort()
        )),
    }
}

fn list(value: &Datum) -> Result<&List, Fault> {
    match value {
        Datum::List(list) => Ok(list),
        _ => wrong(value, "a list"),
    }
}

pub(super) fn map(value: &Datum) -> Result<&Map, Fault> {
    match value {
        Datum::Map(map) => Ok(map),
        _ => wrong(value, "a map"),
    }
}

pub(super) fn made(text: impl Into<ImmutableString>) -> Outcome {
    let text = text.into();
    if text.len() > STRING_LIMIT {
        return fault(TOO_LONG);
    }
    Ok(Datum::text(text))
}

pub(super) fn get(a: &[Datum]) -> Outcome {
    let found = match (&a[0], &a[1]) {
        (Datum::Map(map), Datum::Text(key)) => map.get(key.as_str()),
        (Datum::Map(_), _) => None,
        (Datum::List(list), at) => match whole(at) {
            Some(at) => position(at, list.len()).and_then(|at| list.get(at)),
            None => return index(&a[0], at),
        },
        (Datum::Nothing, _) => return Err(Fault::Operand("is None, so `get` cannot read from it".into())),
        _ => return wrong(&a[0], "a map or a list"),
    };
    Ok(found.or_else(|| a.get(2).cloned()).unwrap_or(Datum::Nothing))
}

pub(super) fn len(a: &[Datum]) -> Outcome {
    match &a[0] {
        Datum::Text(text) => Ok(size(work_through(text.as_str())?.chars().count())),
        Datum::List(list) => Ok(size(list.len())),
        Datum::Map(map) => Ok(size(map.len())),
        other => wrong(other, "a string, a list or a map"),
    }
}

pub(super) fn count(a: &[Datum]) -> Outcome {
    match &a[0] {
        Datum::List(list) => Ok(size(list.iter().filter(|item| equal(item, &a[1])).count())),
        Datum::Text(text) => Ok(size(work_through(text.as_str())?.matches(argument(&a[1])?).count())),
        other => wrong(other, "a string or a list"),
    }
}

pub(super) fn index_of(a: &[Datum]) -> Outcome {
    let found = match &a[0] {
        Datum::List(list) => list.iter().position(|item| equal(&item, &a[1])),
        Datum::Text(text) => {
            let text = work_through(text.as_str())?;
            text.find(argument(&a[1])?).map(|at| text[..at].chars().count())
        }
        other => return wrong(other, "a string or a list"),
    };
    Ok(found.map_or(Datum::Int(-1), size))
}

/// The first or the last item; nothing if the list is empty.
pub(super) fn end(value: &Datum, at: i64) -> Outcome {
    let list = list(value)?;
    Ok(position(at, list.len())
        .and_then(|at| list.get(at))
        .unwrap_or(Datum::Nothing))
}

pub(super) fn values(a: &[Datum]) -> Outcome {
    let map = map(&a[0])?;
    Ok(Datum::list(map.keys().iter().filter_map(|key| map.get(key))))
}

pub(super) fn split(a: &[Datum]) -> Outcome {
    let whole = text(&a[0])?;
    let parts: Vec<Datum> = match a.get(1) {
        None => whole.split_whitespace().take(ITEM_LIMIT + 1).map(Datum::text).collect(),
        Some(separator) => match argument(separator)? {
            "" => return fault("the separator of `split` must not be empty"),
            separator => whole.split(separator).take(ITEM_LIMIT + 1).map(Datum::text).collect(),
        },
    };
    if parts.len() > ITEM_LIMIT {
        return fault("the list would have more than 100000 items, which is the limit");
    }
    Ok(Datum::list(parts))
}

pub(super) fn replace(a: &[Datum]) -> Outcome {
    let (whole, old, new) = (text(&a[0])?, argument(&a[1])?, argument(&a[2])?);
    let found = whole.matches(old).count();
    let length = (whole.len() - found * old.len()).saturating_add(found.saturating_mul(new.len()));
    if length > STRING_LIMIT {
        return fault(TOO_LONG);
    }
    made(whole.replace(old, new))
}

pub(super) fn abs(a: &[Datum]) -> Outcome {
    match &a[0] {
        Datum::Int(int) => int
            .checked_abs()
            .map(Datum::Int)
            .ok_or_else(|| Fault::Message(format!("the integer is too large: abs({int})"))),
        Datum::Float(float) => Ok(Datum::Float(float.abs())),
        other => wrong(other, "a number"),
    }
}

/// The smallest or the largest of several arguments, or of the items of a list.
pub(super) fn extreme(a: &[Datum], symbol: &str) -> Outcome {
    let items: Vec<Datum> = match a {
        [only] => list(only)?.iter().collect(),
        several => several.to_vec(),
    };
    let wanted = if symbol == "<" {
        std::cmp::Ordering::Less
    } else {
        std::cmp::Ordering::Greater
    };
    let mut items = items.into_iter();
    let Some(mut best) = items.next() else {
        return Err(Fault::Operand("is empty, so it has no smallest or largest item".into()));
    };
    for item in items {
        if order(symbol, &item, &best)? == wanted {
            best = item;
        }
    }
    Ok(best)
}

pub(super) fn sum(a: &[Datum]) -> Outcome {
    let mut total = Datum::Int(0);
    for item in list(&a[0])?.iter() {
        if !matches!(item, Datum::Int(_) | Datum::Float(_)) {
            return fault(format!(
                "the items of `sum` must be numbers, but {} is {}",
                show(&item),
                item.a_sort()
            ));
        }
        total = arithmetic(Arithmetic::Add, &total, &item)?;
    }
    Ok(total)
}

pub(super) fn round(a: &[Datum]) -> Outcome {
    let Some(digits) = a.get(1) else {
        return integral(&a[0], f64::round_ties_even);
    };
    let digits = whole(digits)
        .and_then(|digits| i32::try_from(digits).ok())
        .filter(|digits| (0..=15).contains(digits));
    match (&a[0], digits) {
        (_, None) => fault("the number of digits of `round` must be from 0 to 15"),
        (Datum::Int(int), _) => Ok(Datum::Int(*int)),
        (Datum::Float(float), Some(digits)) => {
            let factor = 10_f64.powi(digits);
            let scaled = float * factor;
            Ok(Datum::Float(if scaled.is_finite() {
                scaled.round_ties_even() / factor
            } else {
                *float
            }))
        }
        (other, _) => wrong(other, "a number"),
    }
}

/// Rounds a float; the result is an integer if it fits into one.
#[expect(clippy::cast_possible_truncation, reason = "guarded by the comparison")]
pub(super) fn integral(value: &Datum, how: fn(f64) -> f64) -> Outcome {
    match value {
        Datum::Int(int) => Ok(Datum::Int(*int)),
        Datum::Float(float) => {
            let float = how(*float);
            Ok(if float.abs() < 9.0e18 {
                Datum::Int(float as i64)
            } else {
                Datum::Float(float)
            })
        }
        other => wrong(other, "a number"),
    }
}

pub(super) fn int(a: &[Datum]) -> Outcome {
    match &a[0] {
        Datum::Bool(flag) => Ok(Datum::Int(i64::from(*flag))),
        Datum::Text(text) => {
            let parsed = text.as_str().trim().parse().map(Datum::Int);
            parsed.or_else(|_| fault(format!("{} is not an integer", show(&a[0]))))
        }
        Datum::Int(_) | Datum::Float(_) => integral(&a[0], f64::trunc),
        other => wrong(other, "a number or a string"),
    }
}

#[expect(clippy::cast_precision_loss, reason = "that is what the function is for")]
pub(super) fn float(a: &[Datum]) -> Outcome {
    match &a[0] {
        Datum::Bool(flag) => Ok(Datum::Float(f64::from(u8::from(*flag)))),
        Datum::Text(text) => match text.as_str().trim().parse::<f64>() {
            Ok(number) => finite(number, || show(&a[0])),
            Err(_) => fault(format!("{} is not a number", show(&a[0]))),
        },
        Datum::Int(int) => Ok(Datum::Float(*int as f64)),
        Datum::Float(float) => Ok(Datum::Float(*float)),
        other => wrong(other, "a number or a string"),
    }
}

/// The value as a string: strings unchanged, equal numbers with equal text, all other values as JSON.
pub(super) fn written(value: &Datum) -> String {
    match value {
        Datum::Text(text) => text.as_str().to_owned(),
        Datum::Float(float) => float.to_string(),
        other => {
            let mut out = String::new();
            json(other, &mut out);
            out
        }
    }
}

/// Writes JSON until the maximum length of a string is reached.
fn json(value: &Datum, out: &mut String) {
    if out.len() > STRING_LIMIT {
        return;
    }
    match value {
        Datum::List(list) => {
            out.push('[');
            for (at, item) in list.iter().enumerate() {
                if out.len() > STRING_LIMIT {
                    return;
                }
                out.push_str(if at == 0 { "" } else { "," });
                json(&item, out);
            }
            out.push(']');
        }
        Datum::Map(map) => {
            out.push('{');
            for (at, key) in map.keys().iter().enumerate() {
                if out.len() > STRING_LIMIT {
                    return;
                }
                out.push_str(if at == 0 { "" } else { "," });
                out.push_str(&serde_json::Value::from(key.as_str()).to_string());
                out.push(':');
                json(&map.get(key).unwrap_or(Datum::Nothing), out);
            }
            out.push('}');
        }
        Datum::Text(text) => out.push_str(&serde_json::Value::from(text.as_str()).to_string()),
        Datum::Nothing => out.push_str("null"),
        Datum::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Datum::Int(int) => out.push_str(&int.to_string()),
        Datum::Float(float) => out.push_str(&float.to_string()),
    }
}
