//! The paths that a template prints plainly: `{{ writer.title }}`, without a test and without a default.

use super::syntax::{TemplateTagKind, iter_tags};
use crate::names::{is_identifier_char, starts_identifier};
use crate::source::Span;

/// A path that a template prints: `{{ a.b.c }}` or `{{ dependencies["a"].b }}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrintedPath {
    /// The variable, or the key of `dependencies`.
    pub name: String,
    /// The keys behind it.
    pub keys: Vec<String>,
    /// The place of the first key in the template, or of the name if there is none.
    pub span: Span,
}

impl PrintedPath {
    /// Returns whether the path begins with these keys of this agent's output.
    pub(super) fn starts_with_output_keys(&self, agent: &str, keys: &[std::sync::Arc<str>]) -> bool {
        let begins = self.keys.len() >= keys.len() && self.keys.iter().zip(keys).all(|(own, key)| **own == **key);
        self.name == agent && begins
    }
}

/// Returns the paths that the text prints without a test or a default, in order.
pub fn list_printed_paths(text: &str) -> Vec<PrintedPath> {
    let outputs = iter_tags(text).filter(|tag| tag.kind == TemplateTagKind::Output && tag.is_closed);
    outputs
        .filter_map(|tag| parse_printed_path(text, tag.inner_span.start, tag.inner_span.end))
        .collect()
}

/// Parses the path between the two positions. Returns `None` if there is anything else.
fn parse_printed_path(text: &str, open: usize, close: usize) -> Option<PrintedPath> {
    let path_text = text[open..close]
        .trim_start_matches(['-', '+'])
        .trim_end_matches(['-', '+'])
        .trim();
    let start = open + text[open..close].find(path_text)?;
    let mut steps = Vec::new();
    let mut rest = path_text;
    while !rest.is_empty() {
        let (step, length) = match steps.is_empty() {
            true => parse_identifier(rest)?,
            false => parse_path_step(rest)?,
        };
        let from = start + path_text.len() - rest.len();
        let key = from + rest[..length].find(&step)?;
        steps.push((step.clone(), Span::new(key, key + step.len())));
        rest = &rest[length..];
    }
    let first = steps.first()?;
    let skipped = usize::from(first.0 == "dependencies" && steps.len() > 1);
    let mut steps = steps.into_iter().skip(skipped).peekable();
    let (name, of_name) = steps.next()?;
    let span = steps.peek().map_or(of_name, |(_, span)| *span);
    Some(PrintedPath {
        name,
        keys: steps.map(|(key, _)| key).collect(),
        span,
    })
}

/// Parses `.key`, `["key"]` or `['key']`. Returns the key and the length of the step.
fn parse_path_step(text: &str) -> Option<(String, usize)> {
    if let Some(after_dot) = text.strip_prefix('.') {
        let (name, length) = parse_identifier(after_dot)?;
        return Some((name, length + 1));
    }
    let quote = text
        .strip_prefix('[')?
        .chars()
        .next()
        .filter(|quote| ['"', '\''].contains(quote))?;
    let key = text[2..].split(quote).next()?;
    let length = key.len() + 4;
    let is_closed = text.get(length - 2..length)? == format!("{quote}]");
    (is_closed && !key.contains('\\')).then(|| (key.to_owned(), length))
}

/// Parses an identifier at the start of the text. Returns it with its length.
fn parse_identifier(text: &str) -> Option<(String, usize)> {
    let end = text.find(|c: char| !is_identifier_char(c)).unwrap_or(text.len());
    let name = &text[..end];
    let is_name = name.starts_with(starts_identifier);
    is_name.then(|| (name.to_owned(), end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_paths_are_found_with_their_places() {
        let text = "é {{ writer.txet }} {{- dependencies[\"fact-checker\"].a.b -}} {{ input }} {{ a.b | upper }} {{ x.y if x }}";
        let found = list_printed_paths(text);
        let shown: Vec<_> = found.iter().map(|path| (&*path.name, path.keys.join("/"))).collect();
        let expected = [("writer", "txet"), ("fact-checker", "a/b"), ("input", "")];
        assert_eq!(shown, expected.map(|(name, keys)| (name, keys.to_owned())));
        let at = |index: usize| &text[found[index].span.start..found[index].span.end];
        assert_eq!((at(0), at(1), at(2)), ("txet", "a", "input"));
        assert!(list_printed_paths("{# {{ a.b }} #}").is_empty());
        assert!(list_printed_paths("{{ a['b\\n'] }}{{ a[0] }}{{ 1.x }}{{ a.b() }}{{").is_empty());
    }
}
