//! A YAML text as a tree in which every key and every value has its position in bytes.
//!
//! Aliases and merge keys are resolved by sharing their values. So the size of the tree is that of the text, not that
//! of the expanded values. The expanded size is counted and limited while the tree is built.

use std::sync::Arc;

use super::align;
use super::align::Style;
use super::comments::is_directive;
use crate::source::{At, Part, Route, Source, Span, Step};

/// The maximum size of a text, in bytes.
pub const MAX_BYTES: usize = 16 << 20;
/// The maximum nesting of maps and lists, including aliases.
pub const MAX_DEPTH: u32 = 64;
/// The maximum number of values, including aliases; a long string counts as several values.
pub const MAX_NODES: u64 = 1_000_000;

/// A text and its tree.
#[derive(Debug, Clone)]
pub struct Document {
    source: Source,
    root: Arc<Node>,
    comments: Arc<[Span]>,
}

/// A value and its position.
#[derive(Debug)]
pub struct Node {
    /// The bytes of the value, without anchor and tag; empty if the value is omitted.
    pub span: Span,
    /// The kind of value.
    pub content: Content,
    /// The number of values below this one, including this one and aliases.
    pub(crate) weight: u64,
    /// The number of levels below this one, including this one; 1 for a scalar.
    pub(crate) height: u32,
}

/// The three kinds of value.
#[derive(Debug)]
pub enum Content {
    /// A string, a number, a boolean or null.
    Scalar(Scalar),
    /// A list.
    Sequence(Vec<Arc<Node>>),
    /// A map in file order; merged keys come last.
    Mapping(Vec<Entry>),
}

/// A key of a map and its value.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The key.
    pub key: Arc<str>,
    /// The bytes of the key.
    pub key_span: Span,
    /// The value.
    pub value: Arc<Node>,
}

/// A value without parts.
#[derive(Debug)]
pub struct Scalar {
    /// The value without quotes, escapes and indentation.
    pub text: Arc<str>,
    /// The style.
    pub(crate) style: Style,
    /// The meaning according to YAML's core schema.
    pub value: ScalarValue,
}

/// The meaning of a scalar in YAML 1.2's core schema.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ScalarValue {
    /// `null`, `~`, or an omitted value.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// An integer outside the range of `i64`.
    Unsigned(u64),
    /// Any other number.
    Float(f64),
    /// A string.
    Text,
}

impl Document {
    pub(crate) fn new(source: Source, root: Arc<Node>, comments: Vec<Span>) -> Self {
        Self {
            source,
            root,
            comments: comments.into(),
        }
    }

    /// The text.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// The comments in the order of the text, without blanks at their ends.
    pub fn comments(&self) -> &[Span] {
        &self.comments
    }

    /// The comments that begin with `ensemble: allow`, in the order of the text.
    pub fn allowances(&self) -> impl Iterator<Item = &Span> {
        let text = self.source.text();
        self.comments
            .iter()
            .filter(|span| is_directive(&text[span.start..span.end]))
    }

    /// The tree.
    pub fn root(&self) -> &Node {
        &self.root
    }

    /// The tree, shared.
    pub(crate) fn shared_root(&self) -> &Arc<Node> {
        &self.root
    }

    /// The same text with another tree.
    pub(crate) fn with_root(self, root: Arc<Node>) -> Self {
        Self { root, ..self }
    }

    /// The node at this route.
    pub fn get(&self, route: &Route) -> Option<&Node> {
        let mut node = &*self.root;
        for step in &route.0 {
            node = node.step(step)?.0;
        }
        Some(node)
    }

    /// The bytes of a symbolic place. If the route leads to a missing node, the last existing node is used.
    pub fn resolve(&self, at: &At) -> Span {
        if let Part::Source(span) = at.part {
            return span;
        }
        let mut node = &*self.root;
        let mut key = None;
        for step in &at.route.0 {
            let Some((next, next_key)) = node.step(step) else {
                return shown(node, key);
            };
            (node, key) = (next, next_key);
        }
        match (&at.part, &node.content) {
            (Part::Key, _) => key.unwrap_or(node.span),
            (Part::Text(range), Content::Scalar(scalar)) => {
                align::source_span(self.source.text(), node.span, scalar.style, &scalar.text, *range)
            }
            _ => shown(node, key),
        }
    }
}

/// The bytes of the node; those of its key if the value is omitted.
fn shown(node: &Node, key: Option<Span>) -> Span {
    match key {
        Some(key) if node.span.start == node.span.end => key,
        _ => node.span,
    }
}

impl Scalar {
    /// Returns whether it is written without quotes, on lines among others.
    pub(crate) fn is_plain(&self) -> bool {
        self.style == Style::Plain
    }
}

impl Node {
    /// Returns the child at one step, with the bytes of the key if there is one.
    fn step(&self, step: &Step) -> Option<(&Node, Option<Span>)> {
        match (step, &self.content) {
            (Step::Key(key), Content::Mapping(entries)) => entries
                .iter()
                .find(|entry| entry.key == *key)
                .map(|entry| (&*entry.value, Some(entry.key_span))),
            (Step::Index(index), Content::Sequence(items)) => items.get(*index).map(|item| (&**item, None)),
            _ => None,
        }
    }

    /// The value under `key`, if this is a map that has it.
    pub fn get(&self, key: &str) -> Option<&Node> {
        let Content::Mapping(entries) = &self.content else {
            return None;
        };
        entries
            .iter()
            .find(|entry| *entry.key == *key)
            .map(|entry| &*entry.value)
    }

    /// The items, if this is a list.
    pub fn items(&self) -> Option<&[Arc<Node>]> {
        match &self.content {
            Content::Sequence(items) => Some(items),
            _ => None,
        }
    }

    /// Returns the text of a scalar, without quotes and escapes, whatever it means.
    pub fn written(&self) -> Option<&Arc<str>> {
        match &self.content {
            Content::Scalar(scalar) => Some(&scalar.text),
            _ => None,
        }
    }

    /// Returns whether nothing is written: `key:`.
    pub(crate) fn is_omitted(&self) -> bool {
        self.span.start == self.span.end && matches!(self.content, Content::Scalar(_))
    }

    /// The text, if this is one.
    pub fn text(&self) -> Option<&Arc<str>> {
        match &self.content {
            Content::Scalar(scalar) if scalar.value == ScalarValue::Text => Some(&scalar.text),
            _ => None,
        }
    }
}
