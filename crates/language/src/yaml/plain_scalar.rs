//! The meaning of a plain scalar: YAML 1.2's core schema, in which `on`, `yes` and `0755` are not special.

use super::document::ScalarValue;

/// Parses a scalar without quotes by the core schema of YAML 1.2.
pub(crate) fn parse_plain_scalar(text: &str) -> ScalarValue {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return ScalarValue::Null,
        "true" | "True" | "TRUE" => return ScalarValue::Bool(true),
        "false" | "False" | "FALSE" => return ScalarValue::Bool(false),
        _ => {}
    }
    parse_number(text).unwrap_or(ScalarValue::Text)
}

/// Parses an integer or a float. Returns `None` if the text is no number.
fn parse_number(text: &str) -> Option<ScalarValue> {
    // Every number starts with one of these characters; most strings do not.
    if !text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.')) {
        return None;
    }
    parse_integer(text).or_else(|| parse_float(text).map(ScalarValue::Float))
}

/// Parses a decimal, `0x` or `0o` integer. Integers beyond 64 bits are floats.
fn parse_integer(text: &str) -> Option<ScalarValue> {
    let (digits, radix) = match text.as_bytes() {
        [b'0', b'x', ..] => (&text[2..], 16),
        [b'0', b'o', ..] => (&text[2..], 8),
        _ => (text, 10),
    };
    let bare = if radix == 10 {
        digits.strip_prefix(['+', '-']).unwrap_or(digits)
    } else {
        digits
    };
    if bare.is_empty() || !bare.chars().all(|c| c.is_digit(radix)) {
        return None;
    }
    if let Ok(value) = i64::from_str_radix(digits, radix) {
        return Some(ScalarValue::Int(value));
    }
    if let Ok(value) = u64::from_str_radix(digits, radix) {
        return Some(ScalarValue::Unsigned(value));
    }
    // An integer of more than 64 bits is still a number; decimal numbers are parsed as floats.
    (radix != 10).then_some(ScalarValue::Float(f64::INFINITY))
}

/// Parses a float, `.inf` or `.nan`. Returns `None` for any other text.
fn parse_float(text: &str) -> Option<f64> {
    let bare = text.strip_prefix(['+', '-']).unwrap_or(text);
    let sign = if text.starts_with('-') { -1.0 } else { 1.0 };
    match bare {
        ".inf" | ".Inf" | ".INF" => return Some(sign * f64::INFINITY),
        ".nan" | ".NaN" | ".NAN" if bare.len() == text.len() => return Some(f64::NAN),
        _ => {}
    }
    // Rust's parser also accepts `inf`, `nan` and `infinity`, which YAML does not.
    let digits = bare.starts_with(|c: char| c.is_ascii_digit())
        || bare
            .strip_prefix('.')
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    if digits { text.parse().ok() } else { None }
}
