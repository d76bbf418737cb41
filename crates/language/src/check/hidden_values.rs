//! Values that no excerpt of a file shows, because a key may stand there that does not look like one.
//!
//! The loader reports a key in a header, in an address, or in the place of a variable's name. It does not repeat the key, and
//! the excerpt must not either.

use std::collections::HashSet;
use std::sync::Arc;

use super::secrets::is_secret_name;
use crate::loader::document::{YamlContent, YamlDocument, YamlNode};
use crate::source::{SourceText, Span};

/// Keys whose value is the name of a variable.
const VARIABLE_NAME_KEYS: [&str; 2] = ["api_key_env", "env"];

/// Keys whose value is an address.
const ADDRESS_KEYS: [&str; 2] = ["base_url", "url"];

/// Headers that contain secrets, in addition to those with secret names.
const SECRET_HEADERS: [&str; 2] = ["authorization", "cookie"];

/// Returns the spans of values that may be secrets in the wrong place.
pub(super) fn find_hidden_values(source: &SourceText, document: Option<&YamlDocument>) -> Vec<Span> {
    let mut hidden = Vec::new();
    match document {
        Some(document) => collect_hidden_values(document.shared_root(), None, false, &mut HashSet::new(), &mut hidden),
        None => find_in_lines(source.text(), &mut hidden),
    }
    hidden
}

/// Collects hidden values in a node with the key `name`, and in its children.
fn collect_hidden_values(
    node: &Arc<YamlNode>,
    name: Option<&str>,
    in_headers: bool,
    seen: &mut HashSet<(*const YamlNode, bool)>,
    hidden: &mut Vec<Span>,
) {
    let is_scalar = matches!(node.content, YamlContent::Scalar(_));
    if !is_scalar && Arc::strong_count(node) > 1 && !seen.insert((Arc::as_ptr(node), in_headers)) {
        return;
    }
    match &node.content {
        YamlContent::Mapping(entries) => {
            for entry in entries {
                let in_headers = name == Some("headers");
                collect_hidden_values(&entry.value, Some(&entry.key), in_headers, seen, hidden);
            }
        }
        YamlContent::Sequence(items) => {
            for item in items {
                collect_hidden_values(item, name, in_headers, seen, hidden);
            }
        }
        YamlContent::Scalar(_) => {
            let value = node.string_text().map_or("", |text| text);
            let may_be_key = |name: &str| {
                let is_word = value.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
                match VARIABLE_NAME_KEYS.contains(&name) {
                    true => !is_word,
                    false => is_secret_name(name) || ADDRESS_KEYS.contains(&name) && value.contains(['@', '?']),
                }
            };
            if in_headers || name.is_some_and(may_be_key) {
                hidden.push(node.span);
            }
        }
    }
}

/// Collects hidden values in a text that is not valid YAML, line by line.
fn find_in_lines(text: &str, hidden: &mut Vec<Span>) {
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let end = start + line.trim_end().len();
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        let colons = line.match_indices([':', '=']);
        let value = colons.into_iter().find(|(at, _)| {
            let before = line[..*at].trim_end().trim_end_matches(['"', '\'']);
            let name = before.rsplit(|c| !is_part(c)).next().unwrap_or_default();
            is_secret_name(name)
                || SECRET_HEADERS
                    .iter()
                    .any(|header| name.to_ascii_lowercase().ends_with(header))
        });
        if let Some((at, _)) = value
            && start + at + 1 < end
        {
            hidden.push(Span::new(start + at + 1, end));
        }
        start += line.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loader::load_ensemble;

    fn hidden(text: &str) -> Vec<&str> {
        let source = SourceText::new("t", text);
        let loaded = load_ensemble(&source);
        let spans = find_hidden_values(&source, loaded.document.as_ref());
        spans.into_iter().map(|span| &text[span.start..span.end]).collect()
    }

    #[test]
    fn values_in_the_place_of_keys_are_hidden() {
        let rows: [(&str, &[&str]); 7] = [
            ("a: {headers: {Authorization: hunter2}}\n", &["hunter2"]),
            (
                "a: {api_key_env: hunter-2, env: [PLAIN, 'not a name']}\n",
                &["hunter-2", "'not a name'"],
            ),
            (
                "a: {base_url: 'https://me:x@host', url: 'https://host'}\n",
                &["'https://me:x@host'"],
            ),
            ("a: {api_key_env: PLAIN, env: {LEVEL: 'a b'}}\n", &[]),
            (
                "a: {token: hunter2, 'tokens': 12, list: {api-key: [one, two]}}\n",
                &["hunter2", "one", "two"],
            ),
            ("a: [\n  password: hunter2\n", &[" hunter2"]),
            ("a: [\n  {\"Authorization\": hunter2, b: c\n", &[" hunter2, b: c"]),
        ];
        for (text, expected) in rows {
            assert_eq!(hidden(text), expected, "{text}");
        }
    }
}
