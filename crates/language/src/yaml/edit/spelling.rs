//! Spells values as YAML that a person would write.
//!
//! **Invariant:** a reader of YAML 1.1 and a reader of YAML 1.2 read back the same value.

use serde_json::Value;

use super::super::document::ScalarValue;
use super::super::plain_scalar;
use crate::hidden_characters::is_hidden_character;

/// The surroundings of a scalar. In brackets (`Flow`), fewer strings can be written without quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpellingContext {
    /// On lines of its own.
    Block,
    /// Between brackets.
    Flow,
}

/// The longest string without quotes, in characters.
const MAX_PLAIN_CHARS: usize = 400;

/// The strings that YAML 1.1 reads as booleans.
const YAML_1_1_BOOLEANS: [&str; 6] = ["yes", "no", "on", "off", "y", "n"];

/// Spells a string on one line, without quotes if every reader of YAML reads it as this string.
pub fn spell_string(text: &str, style: SpellingContext) -> String {
    match is_plain(text, style) {
        true => text.to_owned(),
        false => quote_text(text),
    }
}

/// Spells a string in quotes: double quotes unless the string contains them, and escapes only where necessary.
pub fn quote_text(text: &str) -> String {
    let is_visible = !text.contains(needs_yaml_escape);
    match (text.contains(['"', '\\']), text.contains('\'')) {
        (false, _) if is_visible => format!("\"{text}\""),
        (true, false) if is_visible => quote_single(text),
        _ => quote_double(text),
    }
}

/// Spells a string in single quotes. The string must have one line and no hidden characters.
pub fn quote_single(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Spells a string in double quotes, with escapes for everything that is not visible.
fn quote_double(text: &str) -> String {
    let mut spelt = String::with_capacity(text.len() + 2);
    for c in Value::from(text).to_string().chars() {
        match u32::from(c) {
            _ if !needs_yaml_escape(c) => spelt.push(c),
            number @ ..=0xffff => spelt.push_str(&format!("\\u{number:04x}")),
            number => spelt.push_str(&format!("\\U{number:08x}")),
        }
    }
    spelt
}

/// Returns whether the character is hidden or controls a terminal. Joiners and variants, which emoji and some scripts need, do not count.
pub fn needs_yaml_escape(c: char) -> bool {
    let is_joiner = matches!(c, '\u{200c}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}');
    is_hidden_character(c) && !is_joiner || matches!(c, '\u{fffe}' | '\u{ffff}')
}

/// Returns whether every reader of YAML reads the text without quotes as this string.
pub(crate) fn is_plain(text: &str, style: SpellingContext) -> bool {
    let starts = text.starts_with(|c: char| c.is_alphanumeric() || matches!(c, '(' | '_' | '/'))
        || text.starts_with("./")
        || text.starts_with("../")
        || text.starts_with('.') && text[1..].starts_with(|c: char| c.is_alphabetic());
    let is_cut = [": ", " #"].iter().any(|end| text.contains(end)) || text.ends_with([':', ' ']);
    starts
        && !is_cut
        && text.chars().take(MAX_PLAIN_CHARS + 1).count() <= MAX_PLAIN_CHARS
        && !text.contains(needs_yaml_escape)
        && (style == SpellingContext::Block || is_plain_in_flow(text))
        && !resembles_number(text)
        && !YAML_1_1_BOOLEANS.contains(&text.to_ascii_lowercase().as_str())
        && plain_scalar::parse_plain_scalar(text) == ScalarValue::Text
}

/// Returns whether no character of the text ends a scalar in brackets.
fn is_plain_in_flow(text: &str) -> bool {
    let mut after_colons = text.split(':').skip(1);
    // Some readers take a dash or a question mark that is a word for the beginning of an item or a key.
    let has_sign = text.split(' ').any(|word| matches!(word, "-" | "?"));
    !has_sign
        && !text.contains([',', '[', ']', '{', '}'])
        && after_colons.all(|rest| rest.starts_with(|c: char| c.is_alphanumeric() || c == '/'))
}

/// Returns whether a reader of YAML 1.1 can read the text as a number, a time or a date.
fn resembles_number(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_digit() || ":.-_+eExXoObB".contains(c);
    let is_hexadecimal = |rest: &str| rest.chars().all(|c| c.is_ascii_hexdigit() || c == '_');
    let bare = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let has_digit = text.starts_with(|c: char| c.is_ascii_digit());
    // `2001-12-14t21:59:43.10-05:00`
    let is_date = has_digit && text.len() > 4 && text.as_bytes()[4] == b'-';
    has_digit && text.chars().all(is_part) || bare.is_some_and(is_hexadecimal) || is_date && !text.contains(' ')
}

/// Spells a key. `on` is written without quotes, as people do, although YAML 1.1 reads it as a boolean.
pub(super) fn spell_key(key: &str, style: SpellingContext) -> String {
    match key == "on" {
        true => key.to_owned(),
        false => spell_string(key, style),
    }
}

/// Spells a value on one line, with brackets.
pub fn spell_on_one_line(value: &Value, style: SpellingContext) -> String {
    match value {
        Value::String(text) => spell_string(text, style),
        Value::Array(items) => {
            let items: Vec<String> = items
                .iter()
                .map(|item| spell_on_one_line(item, SpellingContext::Flow))
                .collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(entries) => {
            let entries = entries.iter().map(|(key, value)| {
                let value = spell_on_one_line(value, SpellingContext::Flow);
                format!("{}: {value}", spell_key(key, SpellingContext::Flow))
            });
            format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

/// Spells a value as an item of a list, in lines without the indentation of the dash.
pub(super) fn spell_list_item(value: &Value) -> Vec<String> {
    let lines = match value {
        Value::Object(entries) if !entries.is_empty() => entries
            .iter()
            .flat_map(|(key, value)| spell_map_entry(key, value))
            .collect(),
        other => vec![spell_on_one_line(other, SpellingContext::Block)],
    };
    let prefixes = std::iter::once("- ").chain(std::iter::repeat("  "));
    prefixes
        .zip(lines)
        .map(|(prefix, line)| format!("{prefix}{line}"))
        .collect()
}

/// Spells a key and its value, in lines without indentation.
pub(super) fn spell_map_entry(key: &str, value: &Value) -> Vec<String> {
    let key = spell_key(key, SpellingContext::Block);
    let inner: Vec<String> = match value {
        Value::Array(items) if items.iter().any(Value::is_object) => items.iter().flat_map(spell_list_item).collect(),
        Value::Object(entries) if !entries.is_empty() => entries
            .iter()
            .flat_map(|(key, value)| spell_map_entry(key, value))
            .collect(),
        other => return vec![format!("{key}: {}", spell_on_one_line(other, SpellingContext::Block))],
    };
    let inner = inner.into_iter().map(|line| format!("  {line}"));
    std::iter::once(format!("{key}:")).chain(inner).collect()
}

/// Spells a string in the style of the scalar `raw` that it replaces. Returns `None` if the style cannot contain the string.
pub(super) fn respell_text(raw: &str, new: &str, style: SpellingContext) -> Option<String> {
    match raw.chars().next()? {
        _ if new.contains(needs_yaml_escape) => None,
        '\'' => Some(quote_single(new)),
        '"' => Some(format!("\"{}\"", escape_quotes(new))),
        _ => Some(spell_string(new, style)),
    }
}

/// Spells a part of a string in a scalar that begins with `quote`. Returns `None` if the part would change its meaning there.
pub(super) fn respell_part(quote: Option<char>, new: &str) -> Option<String> {
    match quote {
        _ if new.contains(needs_yaml_escape) => None,
        Some('\'') => Some(new.replace('\'', "''")),
        Some('"') => Some(escape_quotes(new)),
        _ => is_plain_everywhere(new).then(|| new.to_owned()),
    }
}

/// Escapes backslashes and double quotes.
fn escape_quotes(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

/// Returns whether the text means itself in every context of YAML, with and without quotes.
pub(super) fn is_plain_everywhere(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/');
    text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_') && text.chars().all(fits)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::loader::{node_to_json, parse_yaml_partially};
    use crate::source::SourceText;

    /// Returns the value as this crate's reader and as `serde_yaml` read it.
    fn read(text: &str) -> (Option<Value>, Option<Value>) {
        let document = parse_yaml_partially(&SourceText::new("x", text)).ok();
        let own = document.and_then(|document| node_to_json(document.root()));
        (own, serde_yaml::from_str(text).ok())
    }

    fn check(text: &str, expected: &Value) -> Result<(), TestCaseError> {
        let (own, other) = read(text);
        prop_assert_eq!(own.as_ref(), Some(expected), "our reader of {:?}", text);
        prop_assert_eq!(other.as_ref(), Some(expected), "serde_yaml of {:?}", text);
        Ok(())
    }

    /// Strings that YAML reads in surprising ways, and mixtures of their parts.
    fn texts() -> impl Strategy<Value = String> {
        let part = prop_oneof![
            Just(": "),
            Just(" #"),
            Just("#"),
            Just(":"),
            Just("'"),
            Just("\""),
            Just("\\"),
            Just(","),
            Just("["),
            Just("]"),
            Just("{"),
            Just("}"),
            Just("- "),
            Just("-"),
            Just("?"),
            Just("!"),
            Just("&a"),
            Just("*a"),
            Just("%"),
            Just("@"),
            Just("`"),
            Just("|"),
            Just(">"),
            Just("<<"),
            Just("="),
            Just("~"),
            Just("null"),
            Just("true"),
            Just("yes"),
            Just("No"),
            Just("on"),
            Just("y"),
            Just("0x1F"),
            Just("0o17"),
            Just("017"),
            Just("1e3"),
            Just("1_000"),
            Just("1:30"),
            Just(".5"),
            Just(".inf"),
            Just("2001-12-14"),
            Just("..."),
            Just("---"),
            Just("./a"),
            Just("../b"),
            Just("\n"),
            Just("\t"),
            Just("\r"),
            Just(" "),
            Just("a"),
            Just("é"),
            Just("\u{85}"),
            Just("\u{2028}"),
            Just("\u{feff}"),
            Just("\u{200b}"),
            Just("🦀"),
            Just("\u{7f}"),
            Just("{{ x }}"),
            Just("ollama/llama3:8b"),
            Just("(a && b)"),
            Just("http://x/y"),
            Just("b0"),
        ];
        let mixed = proptest::collection::vec(part, 0..5).prop_map(|parts| parts.concat());
        prop_oneof![3 => mixed, 1 => any::<String>()]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

        #[test]
        fn both_readers_read_back_every_spelling(text in texts(), other in texts()) {
            let value = Value::from(text.as_str());
            for spelt in [spell_string(&text, SpellingContext::Block), quote_text(&text)] {
                check(&format!("a: {spelt}\n"), &json!({"a": value}))?;
                check(&format!("- {spelt}\n- b\n"), &json!([value, "b"]))?;
            }
            let spelt = spell_string(&text, SpellingContext::Flow);
            check(&format!("[b, {spelt}, {spelt}]"), &json!(["b", value, value]))?;
            check(&format!("a: {{b: {spelt}, c: {spelt}}}"), &json!({"a": {"b": value, "c": value}}))?;
            let nested = json!({"a": [{text.as_str(): {"b": other, "c": [1, other, {}]}}, {}], "d": 0.5, text.as_str(): null});
            check(&spell_on_one_line(&nested, SpellingContext::Block), &nested)?;
            check(&spell_map_entry("k", &nested).join("\n"), &json!({"k": nested}))?;
            check(&spell_list_item(&nested).join("\n"), &json!([nested]))?;
        }

        #[test]
        fn a_string_is_read_back_in_the_style_of_the_scalar_that_it_replaces(text in texts()) {
            for raw in ["'x'", "\"x\"", "x"] {
                if let Some(spelt) = respell_text(raw, &text, SpellingContext::Flow) {
                    check(&format!("{{a: {spelt}, b: 1}}"), &json!({"a": text, "b": 1}))?;
                }
            }
        }
    }

    #[test]
    fn strings_have_quotes_only_where_they_need_them() {
        let table = [
            (
                "output.n > 1 && turn_count < 3",
                "output.n > 1 && turn_count < 3",
                "output.n > 1 && turn_count < 3",
            ),
            ("ollama/llama3:8b", "ollama/llama3:8b", "ollama/llama3:8b"),
            ("a, b", "a, b", "\"a, b\""),
            ("yes", "\"yes\"", "\"yes\""),
            ("0755", "\"0755\"", "\"0755\""),
            ("a: b", "\"a: b\"", "\"a: b\""),
            ("say \"x\"", "say \"x\"", "say \"x\""),
            ("\"x\"", "'\"x\"'", "'\"x\"'"),
            ("'\"", "\"'\\\"\"", "\"'\\\"\""),
            ("a\nb", "\"a\\nb\"", "\"a\\nb\""),
            ("\u{202e}", "\"\\u202e\"", "\"\\u202e\""),
            ("", "\"\"", "\"\""),
        ];
        for (text, block, flow) in table {
            assert_eq!(spell_string(text, SpellingContext::Block), block);
            assert_eq!(spell_string(text, SpellingContext::Flow), flow);
        }
    }
}
