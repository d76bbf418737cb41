//! Finds keys and passwords in the text, and removes them from output.
//!
//! There are three signs of a secret: a prefix that providers use for their keys, anywhere in the text; a value under a
//! key such as `password`; and, in an agent's `config`, a long sequence of mixed characters that no person would type.
//! A value that only names the place of the secret (`{{ … }}`, `$NAME`, `NAME_IN_CAPITALS`) is not a secret.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

use memchr::memmem::Finder;

use crate::diagnostic::{Diagnostic, Finding};
use crate::loader::codes;
use crate::loader::document::{YamlContent, YamlDocument, YamlNode};
use crate::source::{RouteLocation, SourceText, Span};

/// A prefix that identifies a key.
struct KeyPrefix {
    start: &'static str,
    /// The number of characters of a key that must follow.
    least: usize,
    what: &'static str,
}

/// Creates an entry of the table of prefixes.
const fn key_prefix(start: &'static str, least: usize, what: &'static str) -> KeyPrefix {
    KeyPrefix { start, least, what }
}

const KEY_PREFIXES: [KeyPrefix; 20] = [
    key_prefix("sk-", 20, "an API key"),
    key_prefix("AKIA", 16, "an AWS access key"),
    key_prefix("ASIA", 16, "an AWS access key"),
    key_prefix("ghp_", 30, "a GitHub token"),
    key_prefix("gho_", 30, "a GitHub token"),
    key_prefix("ghu_", 30, "a GitHub token"),
    key_prefix("ghs_", 30, "a GitHub token"),
    key_prefix("ghr_", 30, "a GitHub token"),
    key_prefix("github_pat_", 30, "a GitHub token"),
    key_prefix("glpat-", 20, "a GitLab token"),
    key_prefix("xoxb-", 20, "a Slack token"),
    key_prefix("xoxp-", 20, "a Slack token"),
    key_prefix("xoxa-", 20, "a Slack token"),
    key_prefix("AIza", 35, "a Google API key"),
    key_prefix("hf_", 30, "a Hugging Face token"),
    key_prefix("npm_", 36, "an npm token"),
    key_prefix("pypi-", 40, "a PyPI token"),
    key_prefix("eyJ", 40, "a web token"),
    key_prefix("Bearer ", 24, "an access token"),
    key_prefix("-----BEGIN ", 0, "a private key"),
];

/// The part of an address between its scheme and its host.
const ADDRESS_SEPARATOR: &str = "://";

/// A search for each prefix, in the order of [`KEY_PREFIXES`], and for addresses as the last one. Each looks at many bytes at
/// once, so that all of them together take less time than one automaton, which looks at each byte.
static SECRET_FINDERS: LazyLock<Vec<Finder<'static>>> = LazyLock::new(|| {
    let starts = KEY_PREFIXES.iter().map(|mark| mark.start);
    starts.chain([ADDRESS_SEPARATOR]).map(Finder::new).collect()
});

/// Keys whose values are secrets, and the minimum length of such a value.
const SECRET_NAMES: [(&str, usize); 14] = [
    ("api_key", 8),
    ("apikey", 8),
    ("api_key_env", 16),
    ("password", 6),
    ("passwd", 6),
    ("client_secret", 8),
    ("secret_key", 8),
    ("private_key", 8),
    ("access_key", 12),
    ("access_token", 12),
    ("auth_token", 12),
    ("refresh_token", 12),
    ("secret", 12),
    ("token", 16),
];

/// The highest number of warnings for one file.
const MAX_SECRET_FINDINGS: usize = 20;
/// The highest number of secrets that are searched for in messages.
const MAX_REDACTED_SECRETS: usize = 1000;
/// The maximum length in bytes of a private key, and of the line that describes it.
const MAX_PRIVATE_KEY_BYTES: usize = 8 << 10;
const MAX_KEY_TITLE_BYTES: usize = 80;

/// Returns the spans of the text that are probably secrets, in order, each with a description of its kind.
pub(super) fn find_secrets(source: &SourceText, document: Option<&YamlDocument>) -> Vec<(Span, &'static str)> {
    let mut secrets = Vec::new();
    find_prefixed_keys(source.text(), &mut secrets);
    if let Some(document) = document {
        let mut walk = SecretWalk {
            text: source.text(),
            seen: HashSet::new(),
            found: &mut secrets,
        };
        walk.collect_secrets(document.shared_root(), None, false);
    }
    secrets.sort_by_key(|(span, _)| (span.start, std::cmp::Reverse(span.end)));
    let mut end = 0;
    secrets.retain(|(span, _)| {
        let is_new = span.start >= end;
        end = end.max(span.end);
        is_new
    });
    secrets
}

/// Returns one warning for each of the first secrets. No warning contains the secret.
pub(super) fn secret_findings(found: &[(Span, &'static str)]) -> Vec<Finding> {
    let warn = |(span, what): &(Span, &'static str)| {
        Finding::new_warning(
            codes::SECRET,
            RouteLocation::from_source_span(*span),
            format!("this looks like {what}"),
        )
        .with_help(
            "remove it from the file, and revoke it at its provider; a profile names an environment variable in \
             `api_key_env`, and a script reads environment variables",
        )
    };
    found.iter().take(MAX_SECRET_FINDINGS).map(warn).collect()
}

/// The minimum number of bytes of a hidden value that messages do not repeat. Shorter values are no secrets.
const MIN_HIDDEN_BYTES: usize = 8;

/// Replaces secrets in the messages and excerpts of diagnostics with asterisks.
///
/// In the places of `hidden`, there can be secrets; only findings about such a place repeat them.
pub(super) fn redact_diagnostics(
    source: &SourceText,
    found: &[(Span, &'static str)],
    hidden: &[Span],
    diagnostics: &mut [Diagnostic],
) {
    if found.is_empty() && hidden.is_empty() {
        return;
    }
    let text = source.text();
    let mut masked = String::with_capacity(text.len());
    let mut from = 0;
    let mut spans: Vec<Span> = found
        .iter()
        .map(|(span, _)| *span)
        .chain(hidden.iter().copied())
        .collect();
    spans.sort_by_key(|span| span.start);
    for span in spans.into_iter().filter(|span| span.start < span.end) {
        let start = span.start.max(from);
        masked.push_str(&text[from..start]);
        masked.extend(text[start..span.end.max(start)].chars().map(mask_with_same_length));
        from = span.end.max(start);
    }
    masked.push_str(&text[from..]);
    let masked = SourceText::new(source.name(), masked);
    for diagnostic in diagnostics {
        let at = diagnostic.span;
        let found_values = found.iter().map(|(span, _)| &text[span.start..span.end]);
        let own_values: Vec<&str> = hidden
            .iter()
            .filter(|span| span.start < at.end && at.start < span.end)
            .map(|span| text[span.start..span.end].trim_matches(['\'', '"']))
            .filter(|value| value.len() >= MIN_HIDDEN_BYTES)
            .collect();
        for secret in found_values
            .clone()
            .take(MAX_REDACTED_SECRETS)
            .chain(own_values.iter().copied())
        {
            // Messages quote only the beginning of a long text.
            let beginning: String = secret.chars().take(8).collect();
            for words in std::iter::once(&mut diagnostic.message).chain(&mut diagnostic.help) {
                while let Some(at) = words.find(beginning.as_str()) {
                    let end = words[at..]
                        .find(|c: char| c.is_whitespace() || matches!(c, '\'' | '`' | '"'))
                        .map_or(words.len(), |end| at + end);
                    words.replace_range(at..end.max(at + beginning.len()), "***");
                }
            }
        }
        let is_quoted = |edit: &crate::yaml::edit::TextEdit| {
            let mut secrets = found_values.clone().chain(own_values.iter().copied());
            secrets.any(|secret| edit.replacement.contains(secret))
        };
        diagnostic.fix.take_if(|fix| fix.edits.iter().any(is_quoted));
        for related in &mut diagnostic.related {
            if related.source.name() == masked.name() {
                related.source = masked.clone();
            }
        }
        if diagnostic.source.name() == masked.name() {
            diagnostic.source = masked.clone();
        }
    }
}

/// Returns a mask for the character with the same number of bytes, so that positions stay valid. Returns line breaks unchanged.
fn mask_with_same_length(c: char) -> char {
    match c.len_utf8() {
        _ if c == '\n' || c == '\r' => c,
        1 => '*',
        2 => '·',
        3 => '•',
        _ => '🔒',
    }
}

/// Adds the keys with a known prefix, and the passwords in addresses.
fn find_prefixed_keys(text: &str, found: &mut Vec<(Span, &'static str)>) {
    for (sign, finder) in SECRET_FINDERS.iter().enumerate() {
        for at in finder.find_iter(text.as_bytes()) {
            match KEY_PREFIXES.get(sign) {
                Some(mark) => found.extend(find_key_at(text, at, mark)),
                None => found.extend(find_password_in_address(text, at + ADDRESS_SEPARATOR.len())),
            }
        }
    }
}

/// Returns the key whose prefix starts at this byte, with its kind.
fn find_key_at(text: &str, at: usize, mark: &KeyPrefix) -> Option<(Span, &'static str)> {
    let before = text[..at].chars().next_back();
    if before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '-')) {
        return None;
    }
    let length = find_key_length(&text[at..], mark)?;
    Some((Span::new(at, at + length), mark.what))
}

/// Returns the length in bytes of the key that starts here. Returns `None` if the text is no key.
fn find_key_length(text: &str, mark: &KeyPrefix) -> Option<usize> {
    if mark.least == 0 {
        let text = &text[..text.floor_char_boundary(MAX_PRIVATE_KEY_BYTES.min(text.len()))];
        let title = text[..text.floor_char_boundary(MAX_KEY_TITLE_BYTES.min(text.len()))]
            .lines()
            .next()?;
        let end = text.find("-----END ").unwrap_or(title.len());
        return title.contains("PRIVATE KEY-----").then(|| text[..end].trim_end().len());
    }
    let body = &text[mark.start.len()..];
    let dots = mark.start == "eyJ" || mark.start == "Bearer ";
    let length = body
        .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-') || dots && c == '.'))
        .unwrap_or(body.len());
    let body = &body[..length];
    (length >= mark.least && looks_random(body)).then(|| mark.start.len() + length)
}

/// Returns whether the text contains a long sequence of mixed letters and digits, as no word does.
fn looks_random(body: &str) -> bool {
    let runs = || body.split(|c: char| !c.is_ascii_alphanumeric());
    let digits = body.bytes().filter(u8::is_ascii_digit).count();
    digits >= 2 && runs().any(|run| run.len() >= 12 && count_class_changes(run) >= 4)
}

/// Returns the number of changes between digits, small letters and capital letters.
fn count_class_changes(run: &str) -> usize {
    let class = |byte: &u8| (byte.is_ascii_digit(), byte.is_ascii_uppercase());
    run.as_bytes()
        .windows(2)
        .filter(|pair| class(&pair[0]) != class(&pair[1]))
        .count()
}

/// Returns the password of `https://user:password@host`; `start` is the byte after `://`.
fn find_password_in_address(text: &str, start: usize) -> Option<(Span, &'static str)> {
    const LONGEST: usize = 200;
    let excerpt = &text[start..text.floor_char_boundary((start + LONGEST).min(text.len()))];
    let end = excerpt.find(|c: char| c.is_whitespace() || matches!(c, '/' | '"' | '\'' | '?' | '#'))?;
    let (user, _) = excerpt[..end].rsplit_once('@')?;
    let (name, password) = user.split_once(':')?;
    let is_real = password.len() >= 4 && !name.is_empty() && !is_placeholder(password);
    let from = start + name.len() + 1;
    is_real.then(|| (Span::new(from, from + password.len()), "a password"))
}

/// Returns whether the value is empty, or only names a value from elsewhere.
fn is_placeholder(value: &str) -> bool {
    let value = value.trim();
    let in_capitals = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    let first = value.chars().next();
    value.contains(char::is_whitespace)
        || value.contains("{{")
        || value.contains("${")
        || value.contains("...")
        || value.contains('…')
        || matches!(first, None | Some('$' | '<' | '%' | '@' | '/' | '.' | '~'))
        || (value.chars().all(in_capitals) && value.contains('_'))
        || value.chars().all(|c| Some(c) == first)
        || [
            "example",
            "changeme",
            "change-me",
            "placeholder",
            "your",
            "dummy",
            "redacted",
            "xxx",
            "***",
        ]
        .iter()
        .any(|word| value.to_ascii_lowercase().contains(word))
}

struct SecretWalk<'f, 't> {
    text: &'t str,
    /// The lists and maps that were examined, of those that may be met again: an alias refers to a value at another place.
    /// They are identified by their address, because a list and its first item may begin at the same position of the
    /// text.
    seen: HashSet<(*const YamlNode, bool)>,
    found: &'f mut Vec<(Span, &'static str)>,
}

impl SecretWalk<'_, '_> {
    /// Adds the secrets in a node with the key `name`, and in its children. In `config`, random text under any key counts.
    fn collect_secrets(&mut self, node: &Arc<YamlNode>, name: Option<&str>, in_config: bool) {
        let is_scalar = matches!(node.content, YamlContent::Scalar(_));
        if !is_scalar && Arc::strong_count(node) > 1 && !self.seen.insert((Arc::as_ptr(node), in_config)) {
            return;
        }
        match &node.content {
            YamlContent::Mapping(entries) => {
                for entry in entries {
                    let config = in_config || matches!(&*entry.key, "config" | "parameters");
                    self.collect_secrets(&entry.value, Some(&entry.key), config);
                }
            }
            YamlContent::Sequence(items) => items
                .iter()
                .for_each(|item| self.collect_secrets(item, name, in_config)),
            YamlContent::Scalar(_) => {
                let Some(value) = node.string_text() else { return };
                let looks_like_one =
                    name.is_some_and(|name| is_secret_under(name, value)) || in_config && is_random_text(value);
                if looks_like_one && !is_placeholder(value) {
                    self.found.push((self.unquoted_span(node), "a secret"));
                }
            }
        }
    }

    /// Returns the span of a scalar without its quotes.
    fn unquoted_span(&self, node: &YamlNode) -> Span {
        let span = node.span;
        let node_text = &self.text[span.start..span.end];
        let quoted = node_text.len() >= 2 && node_text.starts_with(['"', '\'']) && node_text.ends_with(['"', '\'']);
        if quoted {
            Span::new(span.start + 1, span.end - 1)
        } else {
            span
        }
    }
}

/// Returns whether values under this key are secrets.
pub(super) fn is_secret_name(key: &str) -> bool {
    SECRET_NAMES.iter().any(|(name, _)| ends_with_word(key, name))
}

/// Returns whether the value is long enough for a secret under this key, and contains a digit where one is required.
fn is_secret_under(key: &str, value: &str) -> bool {
    let secret_name = SECRET_NAMES.iter().find(|(name, _)| ends_with_word(key, name));
    secret_name.is_some_and(|(name, least)| {
        let needs_digit = !matches!(*name, "password" | "passwd" | "api_key" | "apikey");
        value.len() >= *least && (!needs_digit || value.bytes().any(|byte| byte.is_ascii_digit()))
    })
}

/// Returns whether the key is `word` or ends with it as a whole word. Ignores case, and treats `-` as `_`.
fn ends_with_word(key: &str, word: &str) -> bool {
    let plain = |byte: &u8| match byte {
        b'-' => b'_',
        byte => byte.to_ascii_lowercase(),
    };
    let Some(start) = key.len().checked_sub(word.len()) else {
        return false;
    };
    let (before, end) = key.as_bytes().split_at(start);
    // Most keys differ in the last letter.
    end.iter().rev().map(plain).eq(word.bytes().rev()) && before.last().is_none_or(|byte| plain(byte) == b'_')
}

/// Returns whether the text is one long sequence of capital letters, small letters and digits. Checksums do not match.
fn is_random_text(value: &str) -> bool {
    const LEAST: usize = 24;
    let is_row = value
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b'_' | b'-'));
    let longest = value
        .split(|c: char| !c.is_ascii_alphanumeric())
        .max_by_key(|run| run.len())
        .unwrap_or_default();
    let count = |is: fn(&u8) -> bool| longest.bytes().filter(is).count();
    is_row
        && longest.len() >= LEAST
        && count(u8::is_ascii_digit) >= 3
        && count(u8::is_ascii_uppercase) >= 3
        && count(u8::is_ascii_lowercase) >= 3
        && count_class_changes(longest) * 3 >= longest.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loader::load_ensemble;

    fn found(text: &str) -> Vec<(String, &'static str)> {
        let source = SourceText::new("t", text);
        let loaded = load_ensemble(&source);
        let spans = find_secrets(&source, loaded.document.as_ref());
        spans
            .into_iter()
            .map(|(span, what)| (text[span.start..span.end].to_owned(), what))
            .collect()
    }

    /// Written in two parts, so that this file contains no key.
    fn key(start: &str) -> String {
        format!("{start}{}{}", "aB3dE5fG7hJ9kL1m", "N2pQ4rS6tU8vW0xY1zA3bC5")
    }

    #[test]
    fn secrets_are_found_where_they_stand() {
        for start in [
            "sk-",
            "sk-ant-",
            "ghp_",
            "github_pat_",
            "glpat-",
            "AIza",
            "hf_",
            "npm_",
            "Bearer ",
        ] {
            let secret = key(start);
            for text in [
                format!("a: {secret}\n"),
                format!("# {secret} in a comment\na: 1\n"),
                format!("a: \"say {secret} twice\"\n"),
                format!("a: |\n  text\n  {secret}\n"),
                format!("a: [{secret}\n"),
            ] {
                assert_eq!(
                    found(&text).first().map(|(text, _)| text.as_str()),
                    Some(&*secret),
                    "{text}"
                );
            }
        }
        let aws = format!("{}{}", "AKIA", "Z9Y8X7W6V5U4T3S2");
        assert_eq!(found(&format!("a: {aws}")), [(aws, "an AWS access key")]);
        let pem = format!(
            "a: |\n  -----BEGIN RSA {} KEY-----\n  abcdef\n  -----END RSA\n",
            "PRIVATE"
        );
        assert_eq!(found(&pem).len(), 1);
        let token = format!("{}.{}.{}", key("eyJ"), "eyJzdWIiOiIxIn0", "a-b_c");
        for text in [format!("a: {token}\n"), format!("a: Bearer {token}\n")] {
            let all = found(&text);
            assert!(all.len() == 1 && all[0].0.ends_with(&token), "{all:?}");
        }
        // A match inside a secret is not a second secret.
        let (title, inner) = (format!("-----BEGIN RSA {} KEY-----", "PRIVATE"), key("sk-"));
        let nested = format!("a: |\n  {title}\n  {inner}\n  {inner}\n  -----END RSA\n");
        assert_eq!(found(&nested).len(), 1, "{:?}", found(&nested));
    }

    #[test]
    fn names_give_values_away() {
        for (text, secret) in [
            ("api_key: geheim-geheim", "geheim-geheim"),
            ("config: {db-password: 'hunter22'}", "hunter22"),
            ("x: [{client_secret: \"a1b2c3d4\"}]", "a1b2c3d4"),
            ("config: {blob: aB3dE5fG7hJ9kL1mN2pQ4rS6}", "aB3dE5fG7hJ9kL1mN2pQ4rS6"),
            ("config: {X-API-Key: hunter22}", "hunter22"),
            ("a: https://me:pass1word@host/x", "pass1word"),
            // A list and its first item may begin at the same position.
            ("a:\n- config:\n    password: hunter22\n", "hunter22"),
            ("a:\n- - - password: hunter22\n", "hunter22"),
        ] {
            let all = found(text);
            assert_eq!(all.len(), 1, "{text}: {all:?}");
            assert_eq!(all[0].0, secret, "{text}");
        }
    }

    #[test]
    fn words_are_no_secrets() {
        for text in [
            "api_key_env: OPENAI_API_KEY",
            "api_key: ${OPENAI_API_KEY}",
            "password: '{{ context.password }}'",
            "api_key: YOUR_KEY_HERE",
            "api_key: <your key>",
            "token: verbatim-word-with-no-number",
            "max_total_tokens: 100000000",
            "config: {subsecret: a-row-of-words-and-2, mytoken: a-row-of-words-and-2}",
            "a: sk-learn-pipeline-for-long-classification-2024",
            "a: risk-a1b2c3d4e5f6g7h8i9j0k1l2",
            "config: {commit: 3b18e512dba79e4c8300dd08aeb37f8e728b8dad}",
            "config: {id: 550e8400-e29b-41d4-a716-446655440000}",
            "config: {model: DeepSeek-R1-Distill-Qwen-32B-Instruct-2501}",
            "config: {path: scripts/Some/Very/Long/Path/To/File2.rhai}",
            "config: {class: MyVeryLongScriptNameHandlerFactory2}",
            "prompt: Never tell anyone the password of the house",
            "a: http://host:8080/x@y",
            "a: eyJ is how they begin",
            "a: AKIA is short",
        ] {
            assert_eq!(found(text), [], "{text}");
        }
    }
}
