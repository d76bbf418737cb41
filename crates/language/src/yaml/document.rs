//! A YAML text as a tree in which every key and every value has its position in bytes.
//!
//! Aliases and merge keys are resolved by sharing their values. So the size of the tree is that of the text, not that
//! of the expanded values. The expanded size is counted and limited while the tree is built.

use std::sync::Arc;

use super::comments::is_allowance_comment;
use super::scalar_alignment;
use super::scalar_alignment::ScalarNotation;
use crate::source::{NodePart, Route, RouteLocation, RouteStep, SourceText, Span};

/// The maximum size of a text, in bytes.
pub const MAX_BYTES: usize = 16 << 20;
/// The maximum nesting of maps and lists, including aliases.
pub const MAX_DEPTH: u32 = 64;
/// The maximum number of values, including aliases; a long string counts as several values.
pub const MAX_NODES: u64 = 1_000_000;

/// A YAML text with its tree and its comments.
#[derive(Debug, Clone)]
pub struct YamlDocument {
    source: SourceText,
    root: Arc<YamlNode>,
    comments: Arc<[Span]>,
}

/// A value of the tree with its span.
#[derive(Debug)]
pub struct YamlNode {
    /// The bytes of the value, without anchor and tag; empty if the value is omitted.
    pub span: Span,
    /// The kind of value.
    pub content: YamlContent,
    /// The number of values below this one, including this one and aliases.
    pub(crate) weight: u64,
    /// The number of levels below this one, including this one; 1 for a scalar.
    pub(crate) height: u32,
}

/// The three kinds of value.
#[derive(Debug)]
pub enum YamlContent {
    /// A string, a number, a boolean or null.
    Scalar(YamlScalar),
    /// A list.
    Sequence(Vec<Arc<YamlNode>>),
    /// A map in file order; merged keys come last.
    Mapping(Vec<YamlEntry>),
}

/// A key of a map and its value.
#[derive(Debug, Clone)]
pub struct YamlEntry {
    /// The key.
    pub key: Arc<str>,
    /// The bytes of the key.
    pub key_span: Span,
    /// The value.
    pub value: Arc<YamlNode>,
}

/// A value without parts.
#[derive(Debug)]
pub struct YamlScalar {
    /// The value without quotes, escapes and indentation.
    pub text: Arc<str>,
    /// The style.
    pub(crate) style: ScalarNotation,
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

impl YamlDocument {
    /// Combines a text with its tree and its comments.
    pub(crate) fn new(source: SourceText, root: Arc<YamlNode>, comments: Vec<Span>) -> Self {
        Self {
            source,
            root,
            comments: comments.into(),
        }
    }

    /// Returns the text.
    pub fn source(&self) -> &SourceText {
        &self.source
    }

    /// Returns the spans of the comments in the order of the text, without blanks at their ends.
    pub fn comments(&self) -> &[Span] {
        &self.comments
    }

    /// Returns the comments that begin with `ensemble: allow`, in the order of the text.
    pub fn allowance_comments(&self) -> impl Iterator<Item = &Span> {
        let text = self.source.text();
        self.comments
            .iter()
            .filter(|span| is_allowance_comment(&text[span.start..span.end]))
    }

    /// Returns the tree.
    pub fn root(&self) -> &YamlNode {
        &self.root
    }

    /// Returns the tree, shared.
    pub(crate) fn shared_root(&self) -> &Arc<YamlNode> {
        &self.root
    }

    /// Returns the same text and comments with another tree.
    pub(crate) fn with_root(self, root: Arc<YamlNode>) -> Self {
        Self { root, ..self }
    }

    /// Returns the node at this route.
    pub fn find_node(&self, route: &Route) -> Option<&YamlNode> {
        let mut node = &*self.root;
        for step in &route.0 {
            node = node.find_child(step)?.0;
        }
        Some(node)
    }

    /// Returns the span of a symbolic location. If the route leads to a missing node, the last existing node is used.
    pub fn resolve_span(&self, at: &RouteLocation) -> Span {
        if let NodePart::Source(span) = at.part {
            return span;
        }
        let mut node = &*self.root;
        let mut key = None;
        for step in &at.route.0 {
            let Some((next, next_key)) = node.find_child(step) else {
                return node_or_key_span(node, key);
            };
            (node, key) = (next, next_key);
        }
        match (&at.part, &node.content) {
            (NodePart::Key, _) => key.unwrap_or(node.span),
            (NodePart::Text(range), YamlContent::Scalar(scalar)) => {
                scalar_alignment::find_source_span(self.source.text(), node.span, scalar.style, &scalar.text, *range)
            }
            _ => node_or_key_span(node, key),
        }
    }
}

/// Returns the span of the node, or of its key if the value is omitted.
fn node_or_key_span(node: &YamlNode, key: Option<Span>) -> Span {
    match key {
        Some(key) if node.span.start == node.span.end => key,
        _ => node.span,
    }
}

impl YamlScalar {
    /// Returns whether the scalar is written without quotes, on the line of its key.
    pub(crate) fn is_plain(&self) -> bool {
        self.style == ScalarNotation::Plain
    }
}

impl YamlNode {
    /// Returns the child at one step, with the span of its key if it has one.
    fn find_child(&self, step: &RouteStep) -> Option<(&YamlNode, Option<Span>)> {
        match (step, &self.content) {
            (RouteStep::Key(key), YamlContent::Mapping(entries)) => entries
                .iter()
                .find(|entry| entry.key == *key)
                .map(|entry| (&*entry.value, Some(entry.key_span))),
            (RouteStep::Index(index), YamlContent::Sequence(items)) => items.get(*index).map(|item| (&**item, None)),
            _ => None,
        }
    }

    /// Returns the value under `key`. Returns `None` if the node is no map.
    pub fn get(&self, key: &str) -> Option<&YamlNode> {
        let YamlContent::Mapping(entries) = &self.content else {
            return None;
        };
        entries
            .iter()
            .find(|entry| *entry.key == *key)
            .map(|entry| &*entry.value)
    }

    /// Returns the items of a list. Returns `None` for other nodes.
    pub fn items(&self) -> Option<&[Arc<YamlNode>]> {
        match &self.content {
            YamlContent::Sequence(items) => Some(items),
            _ => None,
        }
    }

    /// Returns the text of any scalar, without quotes and escapes.
    pub fn scalar_text(&self) -> Option<&Arc<str>> {
        match &self.content {
            YamlContent::Scalar(scalar) => Some(&scalar.text),
            _ => None,
        }
    }

    /// Returns whether the value is omitted behind its key: `key:`.
    pub(crate) fn is_value_omitted(&self) -> bool {
        self.span.start == self.span.end && matches!(self.content, YamlContent::Scalar(_))
    }

    /// Returns whether the value is `null`, written or omitted.
    pub fn is_null(&self) -> bool {
        matches!(&self.content, YamlContent::Scalar(scalar) if scalar.value == ScalarValue::Null)
    }

    /// Returns the text of a string. Returns `None` for other scalars, such as numbers.
    pub fn string_text(&self) -> Option<&Arc<str>> {
        match &self.content {
            YamlContent::Scalar(scalar) if scalar.value == ScalarValue::Text => Some(&scalar.text),
            _ => None,
        }
    }
}
