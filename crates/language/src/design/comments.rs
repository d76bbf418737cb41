//! The comments of a text.

use std::collections::HashSet;
use std::sync::Arc;

use crate::loader::Document;
use crate::loader::document::{Content, Node};
use crate::source::Span;

/// The comments, without blanks at their ends, in the order of the text.
pub(super) fn of(document: &Document) -> Vec<&str> {
    let text = document.source().text();
    spans(document)
        .into_iter()
        .map(|span| &text[span.start..span.end])
        .collect()
}

/// The bytes of the comments, in the order of the text: a `#` that begins a line or follows a blank, up to the end of its
/// line, outside of scalars.
pub(super) fn spans(document: &Document) -> Vec<Span> {
    let text = document.source().text();
    let mut scalars = Vec::new();
    let mut seen = HashSet::new();
    gather(document.root(), &mut scalars, &mut seen);
    scalars.sort();
    let mut scalars = scalars.into_iter().peekable();
    let mut found: Vec<Span> = Vec::new();
    for (at, _) in text.match_indices('#') {
        while scalars.next_if(|scalar| scalar.end <= at).is_some() {}
        let is_inside = scalars.peek().is_some_and(|scalar| scalar.start <= at);
        let is_after_blank = text[..at]
            .chars()
            .next_back()
            .is_none_or(|c| matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{feff}'));
        if is_inside || !is_after_blank || found.last().is_some_and(|last| at < last.end) {
            continue;
        }
        let line = text[at..].split(['\n', '\r']).next().unwrap_or_default().trim_end();
        found.push(Span::new(at, at + line.len()));
    }
    found
}

/// The bytes of all keys and scalars; a value with aliases is written once.
fn gather(node: &Node, scalars: &mut Vec<Span>, seen: &mut HashSet<*const Node>) {
    match &node.content {
        Content::Scalar(_) => scalars.push(node.span),
        Content::Sequence(items) => {
            for item in items {
                if seen.insert(Arc::as_ptr(item)) {
                    gather(item, scalars, seen);
                }
            }
        }
        Content::Mapping(entries) => {
            for entry in entries {
                scalars.push(entry.key_span);
                if seen.insert(Arc::as_ptr(&entry.value)) {
                    gather(&entry.value, scalars, seen);
                }
            }
        }
    }
}
