//! The texts that give a secret away: its parts, and the forms in which programs write them.
//!
//! Escapes (of JSON, addresses and HTML) are not listed here: [`super::escapes`] undoes them in the text that is searched.

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use serde_json::Value;

use super::MIN_SECRET_LENGTH;
use super::escapes::{EscapeKind, UnescapedText};
use super::sensitivity::{is_auth_scheme, is_ordinary_text, is_secret_part_name};

/// The maximum number of structures inside each other that are opened: JSON in base64 in JSON.
const MAX_NESTED_STRUCTURES: usize = 5;

/// The widths at which programs break lines of base64.
const BASE64_LINE_WIDTHS: [usize; 2] = [64, 76];

/// Smallest number of digits of a secret number. Leading zeros of the secret do not count.
const MIN_NUMBER_DIGITS: usize = 6;

/// The beginnings of the first and of the last line of a key.
const KEY_FRAME_STARTS: [&str; 2] = ["-----BEGIN ", "-----END "];

/// Secret values with all secret texts and structures inside them.
#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct SecretParts {
    /// The values that were added, without their parts.
    values: BTreeSet<String>,
    /// The texts, none shorter than [`SHORTEST`] except numbers, which are not shorter than [`SHORTEST_NUMBER`].
    pub(super) texts: BTreeSet<String>,
    /// The objects and lists that a secret is the JSON of.
    pub(super) structures: Vec<Value>,
}

/// Reason why a part of a secret counts as secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SecretPartRole {
    /// It is the secret, or all of it.
    Secret,
    /// Its name says that it is secret, with all that is inside of it.
    Named,
    /// It is inside of a secret, and is one unless it consists of ordinary words.
    Unnamed,
}

impl SecretPartRole {
    /// Returns the role of a part with this name.
    fn from_part_name(name: &str) -> Self {
        match is_secret_part_name(name) {
            true => Self::Named,
            false => Self::Unnamed,
        }
    }
}

impl SecretParts {
    /// Adds the value and its secret parts: words after the first, lines, `NAME=value`, strings and numbers of JSON, passwords in
    /// addresses,
    /// and base64 content. Omits ordinary words, unless the name of the part is the name of a secret.
    pub(super) fn add_value(&mut self, value: &str) {
        if self.values.insert(value.trim().to_owned()) {
            self.add_part_recursively(value, SecretPartRole::Secret, 0);
        }
    }

    /// Returns whether the value was added before.
    pub(super) fn contains_value(&self, value: &str) -> bool {
        self.values.contains(value.trim())
    }

    /// Adds a part and its own parts, if the part is long enough and not an ordinary text. `depth` counts nested structures.
    fn add_part_recursively(&mut self, value: &str, role: SecretPartRole, depth: usize) {
        let value = value.trim();
        if value.len() < MIN_SECRET_LENGTH || depth > MAX_NESTED_STRUCTURES || is_key_frame_line(value) {
            return;
        }
        if role == SecretPartRole::Unnamed && is_ordinary_text(value) {
            return;
        }
        if !self.texts.insert(value.to_owned()) && role == SecretPartRole::Unnamed {
            return;
        }
        self.texts.extend(list_number_spellings(value));
        if let Ok(parsed) = serde_json::from_str::<Value>(value) {
            // The names inside of a text say more than the name of the text.
            let role = match role {
                SecretPartRole::Named => SecretPartRole::Secret,
                role => role,
            };
            self.add_json_structure(parsed, role, depth);
            return;
        }
        if value.contains('\n') {
            self.add_lines(value, depth);
        } else if let Some((first, rest)) = value.split_once(' ') {
            let role = match is_auth_scheme(first) {
                true => role,
                false => SecretPartRole::Unnamed,
            };
            self.add_part_recursively(rest, role, depth + 1);
        }
        self.add_assigned_values(value, depth);
        self.add_user_info(value, depth);
        // A variable can contain the line breaks of a key as `\n`.
        for kind in [EscapeKind::Percent, EscapeKind::Backslash] {
            let decoded = UnescapedText::from_text(value).decode_escapes(kind);
            if let Some(text) = decoded.as_ref().and_then(UnescapedText::to_utf8) {
                self.add_part_recursively(text, role, depth + 1);
            }
        }
        if let Some(text) = decode_base64_text(value) {
            // Of `user:password`, the password.
            if let Some((_, password)) = text.split_once(':') {
                self.add_part_recursively(password, role, depth + 1);
            }
            self.add_part_recursively(&text, role, depth + 1);
        }
    }

    /// Adds the members of a JSON value, and the compact and indented text of a structure.
    fn add_json_structure(&mut self, parsed: Value, role: SecretPartRole, depth: usize) {
        self.add_json_member(&parsed, role, depth);
        let compact = parsed.to_string();
        if matches!(parsed, Value::Array(_) | Value::Object(_)) && compact.len() >= MIN_SECRET_LENGTH {
            self.texts.insert(compact);
            self.texts.extend(serde_json::to_string_pretty(&parsed).ok());
            self.structures.push(parsed);
        }
    }

    /// Adds the strings and numbers of a JSON value. Names of objects decide the role.
    fn add_json_member(&mut self, member: &Value, role: SecretPartRole, depth: usize) {
        match member {
            Value::String(text) => self.add_part_recursively(text, role, depth + 1),
            Value::Number(number) => self.add_part_recursively(&number.to_string(), role, depth + 1),
            Value::Array(items) => items.iter().for_each(|item| self.add_json_member(item, role, depth)),
            Value::Object(map) => map.iter().for_each(|(name, item)| {
                let role = match role {
                    SecretPartRole::Named => SecretPartRole::Named,
                    SecretPartRole::Secret | SecretPartRole::Unnamed => SecretPartRole::from_part_name(name),
                };
                self.add_json_member(item, role, depth);
            }),
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// Adds each line, and the content of a PEM key as one text.
    fn add_lines(&mut self, value: &str, depth: usize) {
        let lines = || value.lines().map(str::trim).filter(|line| !line.starts_with("-----"));
        lines().for_each(|line| self.add_part_recursively(line, SecretPartRole::Secret, depth + 1));
        if value.starts_with("-----") {
            self.add_part_recursively(&lines().collect::<String>(), SecretPartRole::Secret, depth + 1);
        }
    }

    /// Adds the values of `NAME=value` and `name: value`.
    fn add_assigned_values(&mut self, value: &str, depth: usize) {
        let strip_export = |name: &str| name.trim_start_matches("export ").trim().to_owned();
        let is_name = |name: &str| {
            !name.is_empty()
                && name
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ' '))
        };
        let unquote = |text: &str| -> String { text.trim().trim_matches(['"', '\'']).to_owned() };
        let mut add = |name: &str, rest: &str| {
            let name = strip_export(name);
            if is_name(&name) {
                self.add_part_recursively(&unquote(rest), SecretPartRole::from_part_name(&name), depth + 1);
            }
        };
        if let Some((name, rest)) = value.split_once(": ") {
            add(name, rest);
        }
        if !value.contains('=') || value.contains('\n') {
            return;
        }
        for part in std::iter::once(value).chain(value.split([';', '&', '?', ' ', ','])) {
            if let Some((name, rest)) = part.split_once('=') {
                add(name, rest);
            }
        }
        // `Shared Key=value;`: a name of several words.
        for part in value.split(';').filter(|part| part.contains(' ')) {
            if let Some((name, rest)) = part.split_once('=') {
                add(name, rest);
            }
        }
    }

    /// Adds the password of `scheme://user:password@host`, and the user, which can be a token.
    fn add_user_info(&mut self, value: &str, depth: usize) {
        match split_user_info(value) {
            Some((user, Some(password))) => {
                self.add_part_recursively(password, SecretPartRole::Secret, depth + 1);
                self.add_part_recursively(user, SecretPartRole::Unnamed, depth + 1);
            }
            Some((token, None)) => self.add_part_recursively(token, SecretPartRole::Secret, depth + 1),
            None => {}
        }
    }
}

/// Returns other spellings of a number: without sign, without leading zeros, and as a floating-point number.
fn list_number_spellings(value: &str) -> Vec<String> {
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
    if integer.len() < MIN_NUMBER_DIGITS {
        return Vec::new();
    }
    let scientific = format!("{number:e}");
    let mut forms = vec![
        integer.to_owned(),
        number.to_string(),
        scientific.replace('e', "e+"),
        scientific,
    ];
    forms.retain(|form| form.len() >= MIN_NUMBER_DIGITS);
    forms
}

/// Returns whether the text is only the first or last line of a PEM key, which is no secret.
fn is_key_frame_line(text: &str) -> bool {
    let mut labels = KEY_FRAME_STARTS.iter().filter_map(|start| text.strip_prefix(*start));
    let label = labels.next().and_then(|rest| rest.strip_suffix("-----"));
    label.is_some_and(|label| !label.contains(['-', '\\', '\n']))
}

/// Returns the user and the password of an address with `user:password@` or `user@`.
fn split_user_info(value: &str) -> Option<(&str, Option<&str>)> {
    let (_, rest) = value.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let (user, _) = authority.rsplit_once('@')?;
    Some(match user.split_once(':') {
        Some((user, password)) => (user, Some(password)),
        None => (user, None),
    })
}

/// Decodes base64. Returns `None` if the value is not the base64 of a printable text.
fn decode_base64_text(value: &str) -> Option<String> {
    let compact: String = value.split_ascii_whitespace().collect();
    let engines = [STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD];
    let bytes = engines.iter().find_map(|engine| engine.decode(&compact).ok())?;
    let text = String::from_utf8(bytes).ok()?;
    let is_text = text.chars().all(|c| !c.is_control() || c.is_ascii_whitespace());
    is_text.then_some(text)
}

/// Returns the hexadecimal and base64 forms of the text, for every offset in a longer encoded text.
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
                let lines = |width: &usize| split_into_lines(&digits, *width);
                forms.extend(BASE64_LINE_WIDTHS.iter().filter(|width| end > **width).flat_map(lines));
            }
        }
    }
    // Programs read digits without letters as a number, and write it with fewer digits.
    let numbers: Vec<String> = forms.iter().flat_map(|form| list_number_spellings(form)).collect();
    forms.extend(numbers);
    forms.retain(|form| form.len() >= MIN_SECRET_LENGTH);
    forms.sort();
    forms.dedup();
    forms
}

/// Splits the digits into lines of this width.
fn split_into_lines(digits: &str, width: usize) -> Vec<String> {
    let lines = digits.as_bytes().chunks(width);
    lines.map(|line| String::from_utf8_lossy(line).into_owned()).collect()
}

/// Returns the text with JSON escapes (once and twice) and with percent escapes, for the search at the end of a text.
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
        let rows: [(&str, &[&str]); 15] = [
            ("short", &[]),
            ("Bearer abcdefgh-1", &["abcdefgh-1"]),
            (
                r#"{"a": "ins1de-js0n", "b": [1234567890, "x"], "password": {"of": ["swordfish"]}, "api_key": ["openopen"]}"#,
                &["ins1de-js0n", "1234567890", "swordfish", "openopen"],
            ),
            (r#""quoted\nalso-json""#, &["quoted\nalso-json", "also-json"]),
            (r#"["onetwothree"]"#, &["onetwothree"]),
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
                "A=f1rst-v4lue\nexport MY_TOKEN='second value'",
                &["f1rst-v4lue", "second value"],
            ),
            ("https://ghp_abcdefgh@host/x", &["ghp_abcdefgh"]),
            (
                "https://gh0p1a2b3c:x-oauth-basic@host",
                &["gh0p1a2b3c", "x-oauth-basic"],
            ),
            (
                "Endpoint=sb://x.y;Shared Access Key=openopen;Pwd=closeclose",
                &["openopen", "closeclose"],
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
                    .all(|part| part.len() >= MIN_SECRET_LENGTH && !part.starts_with("-----END")),
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
            let found = list_number_spellings(value);
            for form in expected {
                assert!(found.iter().any(|found| found == form), "{value}: {form}: {found:?}");
            }
        }
        for value in ["0000", "00000123", "1-2-3-4-5", "sk-12345678", "+", "", "١٢٣٤٥٦٧٨"] {
            assert_eq!(list_number_spellings(value), Vec::<String>::new(), "{value}");
        }
    }

    #[test]
    fn ordinary_words_inside_of_a_secret_are_not_secret() {
        for value in [
            "Server=tcp:db.example.com,1433;Database=production;User ID=administrator;Password=hunter2-hunter2;",
            r#"{"type": "production", "project": "administrator", "private_key": "hunter2-hunter2"}"#,
            "postgres://administrator:hunter2-hunter2@production.example.com:5432/production?sslmode=verify",
            "DATABASE=production\nUSER=administrator\nPASSWORD=hunter2-hunter2",
            "hunter2-hunter2 production",
            "name: production",
        ] {
            let found = parts(value);
            for word in ["production", "administrator"] {
                let text = format!("the {word} of the team");
                assert!(!found.iter().any(|part| text.contains(part)), "{value}: {found:?}");
            }
            let is_found = found.iter().any(|part| part == "hunter2-hunter2" || part == value);
            assert!(is_found, "{value}: {found:?}");
        }
    }

    #[test]
    fn a_value_that_was_a_part_before_is_opened() {
        let mut parts = SecretParts::default();
        parts.add_value(r#"x ["onetwothree"]"#);
        assert!(!parts.texts.contains("onetwothree"));
        parts.add_value(r#"["onetwothree"]"#);
        assert!(parts.texts.contains("onetwothree"));
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
        // Hexadecimal digits without letters are a number in JSON.
        for secret in ["8675309123456", "super secret bytes here!"] {
            let digits: String = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
            let number: Value = serde_json::from_str(&digits).expect("a number");
            let forms = list_encoded_forms(secret);
            assert!(forms.contains(&number.to_string()), "{number}: {forms:?}");
        }
    }
}
