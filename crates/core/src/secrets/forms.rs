//! The texts that give a secret away: its parts, and the forms in which programs write them.
//!
//! Escapes (of JSON, addresses and HTML) are not listed here: [`super::escapes`] undoes them in the text that is searched.

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use serde_json::Value;

use super::SHORTEST;
use super::escapes::{EscapeKind, UnescapedText};

/// The maximum number of structures inside each other that are opened: JSON in base64 in JSON.
const DEPTH: usize = 5;

/// The widths at which programs break lines of base64.
const LINE_WIDTHS: [usize; 2] = [64, 76];

/// Fewer digits of a number are no secret, although the secret has zeros before them.
const SHORTEST_NUMBER: usize = 6;

/// The beginnings of the first and of the last line of a key.
const FRAME_LINES: [&str; 2] = ["-----BEGIN ", "-----END "];

/// A secret and all that is inside of it.
#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct SecretParts {
    /// The texts, none shorter than [`SHORTEST`] except numbers, which are not shorter than [`SHORTEST_NUMBER`].
    pub(super) texts: BTreeSet<String>,
    /// The objects and lists that a secret is the JSON of.
    pub(super) structures: Vec<Value>,
}

impl SecretParts {
    /// Adds the value and what is inside of it: the words after the first, lines, `NAME=value`, strings and numbers of JSON,
    /// the password of an address, and the text that is encoded as base64.
    pub(super) fn add_value(&mut self, value: &str) {
        self.add_part(value, 0);
    }

    fn add_part(&mut self, value: &str, depth: usize) {
        let value = value.trim();
        if value.len() < SHORTEST || depth > DEPTH || is_frame_line(value) || !self.texts.insert(value.to_owned()) {
            return;
        }
        self.texts.extend(list_number_forms(value));
        if let Ok(parsed) = serde_json::from_str::<Value>(value) {
            self.add_json(parsed, depth);
            return;
        }
        if value.contains('\n') {
            self.add_lines(value, depth);
        } else if let Some((_, rest)) = value.split_once(' ') {
            self.add_part(rest, depth + 1);
        }
        self.add_assignments(value, depth);
        if let Some(password) = find_password(value) {
            self.add_part(password, depth + 1);
        }
        // A variable can contain the line breaks of a key as `\n`.
        for kind in [EscapeKind::Percent, EscapeKind::Backslash] {
            let decoded = UnescapedText::from_text(value).undo_escapes(kind);
            if let Some(text) = decoded.as_ref().and_then(UnescapedText::as_text) {
                self.add_part(text, depth + 1);
            }
        }
        if let Some(text) = decode_base64(value) {
            // Of `user:password`, the password.
            if let Some((_, password)) = text.split_once(':') {
                self.add_part(password, depth + 1);
            }
            self.add_part(&text, depth + 1);
        }
    }

    fn add_json(&mut self, parsed: Value, depth: usize) {
        self.add_member(&parsed, depth);
        let compact = parsed.to_string();
        if matches!(parsed, Value::Array(_) | Value::Object(_)) && compact.len() >= SHORTEST {
            self.texts.insert(compact);
            self.texts.extend(serde_json::to_string_pretty(&parsed).ok());
            self.structures.push(parsed);
        }
    }

    fn add_member(&mut self, member: &Value, depth: usize) {
        match member {
            Value::String(text) => self.add_part(text, depth + 1),
            Value::Number(number) => self.add_part(&number.to_string(), depth + 1),
            Value::Array(items) => items.iter().for_each(|item| self.add_member(item, depth)),
            Value::Object(map) => map.values().for_each(|item| self.add_member(item, depth)),
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// Adds each line, and the lines of a key without its head and its foot as one text.
    fn add_lines(&mut self, value: &str, depth: usize) {
        let lines = || value.lines().map(str::trim).filter(|line| !line.starts_with("-----"));
        lines().for_each(|line| self.add_part(line, depth + 1));
        if value.starts_with("-----") {
            self.add_part(&lines().collect::<String>(), depth + 1);
        }
    }

    /// Adds the values of `NAME=value` and `name: value`.
    fn add_assignments(&mut self, value: &str, depth: usize) {
        let is_name = |name: &str| {
            let name = name.trim_start_matches("export ").trim();
            !name.is_empty()
                && name
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'))
        };
        let unquote = |text: &str| -> String { text.trim().trim_matches(['"', '\'']).to_owned() };
        if let Some((name, rest)) = value.split_once(": ")
            && is_name(name)
        {
            self.add_part(&unquote(rest), depth + 1);
        }
        if !value.contains('=') || value.contains('\n') {
            return;
        }
        for part in std::iter::once(value).chain(value.split([';', '&', '?', ' ', ','])) {
            if let Some((name, rest)) = part.split_once('=')
                && is_name(name)
            {
                self.add_part(&unquote(rest), depth + 1);
            }
        }
    }
}

/// Returns the number that the text spells as programs write it: without a sign, without leading zeros, and with the digits
/// that a floating-point number keeps.
fn list_number_forms(value: &str) -> Vec<String> {
    let unsigned = value.strip_prefix(['+', '-']).unwrap_or(value);
    let is_number = unsigned.starts_with(|first: char| first.is_ascii_digit())
        && unsigned
            .bytes()
            .all(|byte| byte.is_ascii_digit() || b".eE+-".contains(&byte));
    let Some(number) = unsigned
        .parse::<f64>()
        .ok()
        .filter(|number| is_number && number.is_finite())
    else {
        return Vec::new();
    };
    let integer = unsigned.trim_start_matches('0');
    let integer = match integer.split_once('.') {
        Some((integer, decimals)) if decimals.bytes().all(|byte| byte == b'0') => integer,
        _ => integer,
    };
    if integer.len() < SHORTEST_NUMBER {
        return Vec::new();
    }
    let scientific = format!("{number:e}");
    let mut forms = vec![
        integer.to_owned(),
        number.to_string(),
        scientific.replace('e', "e+"),
        scientific,
    ];
    forms.retain(|form| form.len() >= SHORTEST_NUMBER);
    forms
}

/// Returns whether the text is only the first or the last line of a key, which is no secret.
fn is_frame_line(text: &str) -> bool {
    let mut labels = FRAME_LINES.iter().filter_map(|start| text.strip_prefix(*start));
    let label = labels.next().and_then(|rest| rest.strip_suffix("-----"));
    label.is_some_and(|label| !label.contains(['-', '\\', '\n']))
}

/// Returns the password of an address with `user:password@`.
fn find_password(value: &str) -> Option<&str> {
    let (_, rest) = value.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let (user, _) = authority.rsplit_once('@')?;
    Some(user.split_once(':')?.1)
}

/// Returns the text that the value encodes.
fn decode_base64(value: &str) -> Option<String> {
    let compact: String = value.split_ascii_whitespace().collect();
    let engines = [STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD];
    let bytes = engines.iter().find_map(|engine| engine.decode(&compact).ok())?;
    let text = String::from_utf8(bytes).ok()?;
    let is_text = text.chars().all(|c| !c.is_control() || c.is_ascii_whitespace());
    is_text.then_some(text)
}

/// Returns the text in hexadecimal digits and in base64, wherever it begins in a longer text that is encoded.
pub(super) fn list_encoded_forms(text: &str) -> Vec<String> {
    let bytes = text.as_bytes();
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut forms = vec![hex.to_uppercase(), hex];
    for before in 0..3_usize {
        let mut padded = vec![0; before];
        padded.extend_from_slice(bytes);
        // The digits that only these bytes decide.
        let first = (before * 8).div_ceil(6);
        let end = padded.len() * 8 / 6;
        for engine in [STANDARD_NO_PAD, URL_SAFE_NO_PAD] {
            let digits = engine.encode(&padded);
            if let Some(inner) = digits.get(first..end) {
                forms.push(inner.to_owned());
            }
            if before == 0 {
                // A line can be alone.
                let lines = |width: &usize| break_lines(&digits, *width);
                forms.extend(LINE_WIDTHS.iter().filter(|width| end > **width).flat_map(lines));
            }
        }
    }
    forms.retain(|form| form.len() >= SHORTEST);
    forms.sort();
    forms.dedup();
    forms
}

fn break_lines(digits: &str, width: usize) -> Vec<String> {
    let lines = digits.as_bytes().chunks(width);
    lines.map(|line| String::from_utf8_lossy(line).into_owned()).collect()
}

/// Returns the text as JSON and addresses write it, for the search for the beginning of a secret at the end of a text.
pub(super) fn list_escaped_forms(text: &str) -> Vec<String> {
    let quote = |text: &str| {
        let quoted = Value::from(text).to_string();
        quoted[1..quoted.len() - 1].to_owned()
    };
    let once = quote(text);
    let twice = quote(&once);
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    let percent: String = text
        .bytes()
        .map(|byte| match is_plain(byte) {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02X}"),
        })
        .collect();
    vec![once, twice, percent]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(value: &str) -> Vec<String> {
        let mut parts = SecretParts::default();
        parts.add_value(value);
        parts.texts.into_iter().collect()
    }

    #[test]
    fn what_is_inside_of_a_secret_is_a_part_of_it() {
        let rows: [(&str, &[&str]); 11] = [
            ("short", &[]),
            ("Bearer abcdefgh-1", &["abcdefgh-1"]),
            (
                r#"{"a": "inside-json", "b": [1234567890, "x"]}"#,
                &["inside-json", "1234567890"],
            ),
            (r#""quoted\nalso-json""#, &["quoted\nalso-json", "also-json"]),
            (
                "-----BEGIN X-----\nMIIabcdefgh\nMIJklmnopqr\n-----END X-----",
                &["MIIabcdefgh", "MIIabcdefghMIJklmnopqr"],
            ),
            (
                r"-----BEGIN X-----\nMIIabcdefgh\nMIJklmnopqr\n-----END X-----",
                &[
                    r"-----BEGIN X-----\nMIIabcdefgh\nMIJklmnopqr\n-----END X-----",
                    "MIIabcdefgh",
                    "MIIabcdefghMIJklmnopqr",
                ],
            ),
            (
                "-----BEGIN X----- MIIabcdefgh -----END X-----",
                &["-----BEGIN X----- MIIabcdefgh -----END X-----"],
            ),
            (
                "postgres://me:pass%2Fword1@host/db?x=1",
                &["pass%2Fword1", "pass/word1"],
            ),
            ("Server=x;Password=hunter2-hunter2;", &["hunter2-hunter2"]),
            (
                "A=first-value\nexport B='second value'",
                &["first-value", "second value"],
            ),
            ("bWU6aW5zaWRlLWJhc2U2NA==", &["me:inside-base64", "inside-base64"]),
        ];
        for (value, expected) in rows {
            let found = parts(value);
            for part in expected {
                assert!(found.iter().any(|found| found == part), "{value}: {part}: {found:?}");
            }
            assert!(
                found
                    .iter()
                    .all(|part| part.len() >= SHORTEST && !part.starts_with("-----END")),
                "{found:?}"
            );
        }
    }

    #[test]
    fn a_number_is_known_in_every_form_of_it() {
        let rows: [(&str, &[&str]); 6] = [
            ("007123456789", &["7123456789"]),
            ("+4912345678", &["4912345678"]),
            ("12345678.00", &["12345678"]),
            ("00123456", &["123456"]),
            (
                "12345678901234567890123",
                &["1.2345678901234568e22", "1.2345678901234568e+22"],
            ),
            ("00012345.50", &["12345.50", "12345.5"]),
        ];
        for (value, expected) in rows {
            let found = list_number_forms(value);
            for form in expected {
                assert!(found.iter().any(|found| found == form), "{value}: {form}: {found:?}");
            }
        }
        for value in ["0000", "00000123", "1-2-3-4-5", "sk-12345678", "+", "", "١٢٣٤٥٦٧٨"] {
            assert_eq!(list_number_forms(value), Vec::<String>::new(), "{value}");
        }
    }

    #[test]
    fn base64_is_found_wherever_the_secret_begins() {
        let secret = "sk-0123456789-abcdef";
        let forms = list_encoded_forms(secret);
        for around in ["", "u:", "user:", "a much longer text before "] {
            let text = STANDARD.encode(format!("{around}{secret} after"));
            assert!(forms.iter().any(|form| text.contains(form)), "{around}: {text}");
        }
        assert!(forms.contains(&"736b2d303132333435363738392d616263646566".to_owned()));
    }
}
