//! A map while it is read: its keys, which must be strings and unique, and the entries that `<<` adds.

use std::collections::HashMap;
use std::sync::Arc;

use super::codes;
use super::document::{Content, Entry, Node, ScalarValue};
use super::findings::Findings;
use crate::diagnostic::Finding;
use crate::source::{At, Span};
use crate::yaml::align::Style;
use crate::yaml::edit::{RouteEdit, RouteFix};

/// A map whose end has not been read.
#[derive(Default)]
pub(super) struct OpenMap {
    pub(super) entries: Vec<Entry>,
    /// The index of each key in `entries`; used only for large maps, where a linear search would be slow.
    index: HashMap<Arc<str>, usize>,
    pub(super) key: Option<Key>,
    pub(super) merge: Option<(Span, Arc<Node>)>,
}

/// A key without its value so far.
pub(super) enum Key {
    Name(Arc<str>, Span),
    Merge(Span),
    /// Whether a problem was already reported.
    Faulty,
}

const INDEX_FROM: usize = 16;

impl OpenMap {
    pub(super) fn find(&self, key: &str) -> Option<usize> {
        if self.entries.len() < INDEX_FROM {
            self.entries.iter().position(|entry| *entry.key == *key)
        } else {
            self.index.get(key).copied()
        }
    }

    pub(super) fn push(&mut self, entry: Entry) {
        self.entries.push(entry);
        if self.entries.len() == INDEX_FROM {
            let keys = self.entries.iter().enumerate();
            self.index = keys.map(|(at, entry)| (entry.key.clone(), at)).collect();
        } else if let Some(entry) = self.entries.get(INDEX_FROM..).and_then(<[Entry]>::last) {
            self.index.insert(entry.key.clone(), self.entries.len() - 1);
        }
    }
}

/// Reports a duplicate key; `whole` is the key with its value.
pub(super) fn duplicate(span: Span, first: Option<Span>, name: &str, whole: Option<Span>, findings: &mut Findings) {
    findings.error(|| {
        let message = format!("duplicate key `{name}` in a map");
        let mut finding = Finding::error(codes::DUPLICATE_KEY, At::source(span), message).help("keep one of them");
        finding.fix = whole.map(|whole| RouteFix::not_safe("remove the second one", RouteEdit::RemoveLines(whole)));
        match first {
            Some(first) => finding.also(At::source(first), "first here"),
            None => finding,
        }
    });
}

/// The meaning of a node in the position of a key.
pub(super) fn key(node: &Node, site: Span, findings: &mut Findings) -> Key {
    let Content::Scalar(scalar) = &node.content else {
        let finding = Finding::error(
            codes::KEY_NOT_TEXT,
            At::source(site),
            "a map or a list is used as a key",
        );
        findings.push(finding.help("a key must be a string; quote a template such as `{{ name }}`"));
        return Key::Faulty;
    };
    match scalar.value {
        ScalarValue::Text if scalar.style == Style::Plain && &*scalar.text == "<<" => Key::Merge(site),
        ScalarValue::Text => Key::Name(scalar.text.clone(), site),
        ScalarValue::Null => {
            let finding = Finding::error(
                codes::KEY_NOT_TEXT,
                At::source(site),
                "a key is missing before the colon",
            );
            findings.push(finding.help("a key must be a string"));
            Key::Faulty
        }
        _ => {
            let message = format!("the key `{}` is not a string", scalar.text);
            let finding = Finding::error(codes::KEY_NOT_TEXT, At::source(site), message);
            let quoted = RouteEdit::WriteYaml(finding.at.clone(), format!("'{}'", scalar.text));
            findings.push(
                finding
                    .help(format!("quote the value: '{}'", scalar.text))
                    .with_fix(RouteFix::safe("quote the key", quoted)),
            );
            Key::Faulty
        }
    }
}
