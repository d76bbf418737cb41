//! The bytes of values in a text: where a value is written, and what is written around it.
//!
//! A value is edited only where it is written at its own route. A value that comes from an alias, a merge or `defaults` is
//! written elsewhere, and belongs to other routes too.

use super::super::document::{YamlContent, YamlDocument, YamlNode};
use super::super::scalar_alignment::ScalarNotation;
use crate::source::{NodePart, Route, RouteLocation, RouteStep, Span};

/// The bytes of a key, a value or a part of a value, with the surrounding scalar.
pub(super) struct EditTarget<'d> {
    pub(super) span: Span,
    /// The bytes of the whole scalar.
    pub(super) whole: Span,
    pub(super) node: Option<&'d YamlNode>,
    /// The range of the scalar's value, if the site is a part of it.
    pub(super) range: Option<Span>,
}

/// Returns the bytes at a symbolic location. Returns `None` if the value is written elsewhere.
pub(super) fn find_edit_target<'d>(document: &'d YamlDocument, at: &RouteLocation) -> Option<EditTarget<'d>> {
    if let NodePart::Source(span) = at.part {
        return Some(EditTarget {
            span,
            whole: span,
            node: None,
            range: None,
        });
    }
    let located_node = locate_node(document, &at.route)?;
    let (span, range) = match &at.part {
        NodePart::Key => (located_node.key?, None),
        NodePart::Text(range) => (document.resolve_span(at), Some(*range)),
        _ => (located_node.node.span, None),
    };
    let whole_span = if at.part == NodePart::Key {
        span
    } else {
        located_node.node.span
    };
    (span.start < span.end).then_some(EditTarget {
        span,
        whole: whole_span,
        node: Some(located_node.node),
        range,
    })
}

/// A node with its key and its parent.
pub(super) struct LocatedNode<'d> {
    pub(super) node: &'d YamlNode,
    pub(super) key: Option<Span>,
    pub(super) parent: Option<&'d YamlNode>,
}

/// Returns the node at the route, if every step of the route is written inside its parent.
pub(super) fn locate_node<'d>(document: &'d YamlDocument, route: &Route) -> Option<LocatedNode<'d>> {
    let mut located_node = LocatedNode {
        node: document.root(),
        key: None,
        parent: None,
    };
    for step in &route.0 {
        let parent = located_node.node;
        let (node, key, after) = match (step, &parent.content) {
            (RouteStep::Key(key), YamlContent::Mapping(entries)) => {
                let entry = entries.iter().find(|entry| entry.key == *key)?;
                (&*entry.value, Some(entry.key_span), entry.key_span.end)
            }
            (RouteStep::Index(index), YamlContent::Sequence(items)) => {
                let before = index.checked_sub(1).and_then(|at| items.get(at));
                let after = before.map_or(parent.span.start, |item| item.span.end);
                (&**items.get(*index)?, None, after)
            }
            _ => return None,
        };
        let first = key.map_or(node.span.start, |key| key.start);
        let is_inside = parent.span.start <= first && node.span.end <= parent.span.end.max(after);
        if !is_inside || node.span.start < after {
            return None;
        }
        located_node = LocatedNode {
            node,
            key,
            parent: Some(parent),
        };
    }
    Some(located_node)
}

/// The part to remove from a map or a list, with all parts of that map or list.
pub(super) struct RemovalTarget<'d> {
    /// The value, with its key in a map.
    pub(super) found: LocatedNode<'d>,
    /// The map or list.
    pub(super) parent: &'d YamlNode,
    /// All parts of the parent.
    pub(super) parts: Vec<Span>,
    /// The number of the part that is removed.
    pub(super) at: usize,
}

/// Returns the target for removing the part at a route: the part, or the outermost map or list that has no other part.
pub(super) fn find_removal_target<'d>(document: &'d YamlDocument, route: &Route) -> Option<RemovalTarget<'d>> {
    let located_node = locate_node(document, route)?;
    let parent = located_node.parent?;
    let parts = list_part_spans(parent);
    let own_start = located_node.key.map_or(located_node.node.span.start, |key| key.start);
    let at = parts.iter().position(|part| part.start == own_start)?;
    if parts.len() > 1 {
        return Some(RemovalTarget {
            found: located_node,
            parent,
            parts,
            at,
        });
    }
    let mut up = route.clone();
    up.0.pop();
    let is_key = matches!(up.0.last(), Some(RouteStep::Key(_)));
    is_key.then(|| find_removal_target(document, &up)).flatten()
}

/// Returns whether the text contains a word that looks like an anchor, an alias or a tag.
pub(super) fn has_anchor_or_tag(text: &str) -> bool {
    text.split([' ', '\n', '\t', ',', '[', '{'])
        .any(|word| word.starts_with(['&', '*', '!']))
}

/// Returns whether the map or the list is written in brackets. A block begins where its first part begins.
pub(super) fn is_flow(text: &str, node: &YamlNode) -> bool {
    let first = list_part_spans(node).first().map_or(usize::MAX, |part| part.start);
    text[node.span.start..].starts_with(['{', '[']) && node.span.start < first
}

/// Returns whether the value at the route is inside of brackets.
pub(super) fn is_in_flow(document: &YamlDocument, route: &Route) -> bool {
    (0..route.0.len()).any(|length| {
        let node = document.find_node(&Route(route.0[..length].to_vec()));
        node.is_some_and(|node| is_flow(document.source().text(), node))
    })
}

/// Returns the spans of the parts of a map or a list that are written in it, in the order of the text.
pub(super) fn list_part_spans(parent: &YamlNode) -> Vec<Span> {
    let is_inside = |span: &Span| parent.span.start <= span.start && span.end <= parent.span.end;
    match &parent.content {
        YamlContent::Mapping(entries) => {
            let spans = entries
                .iter()
                .map(|entry| Span::new(entry.key_span.start, entry.value.span.end.max(entry.key_span.end)));
            let mut spans: Vec<Span> = spans.filter(is_inside).collect();
            spans.sort();
            spans
        }
        YamlContent::Sequence(items) => items.iter().map(|item| item.span).filter(is_inside).collect(),
        YamlContent::Scalar(_) => Vec::new(),
    }
}

/// Returns the position of the `|` or `>` of a block scalar.
pub(super) fn find_block_header(text: &str, node: &YamlNode) -> Option<usize> {
    let YamlContent::Scalar(scalar) = &node.content else {
        return None;
    };
    let before = text.get(..node.span.start)?;
    (scalar.style == ScalarNotation::Block).then(|| before.rfind(['|', '>']))?
}

/// Returns the end of the written text of the node, without blanks.
pub(super) fn find_written_end(text: &str, node: &YamlNode) -> usize {
    let trimmed = |span: Span| span.start + text[span.start..span.end].trim_end().len();
    let is_flow = is_flow(text, node);
    match &node.content {
        YamlContent::Sequence(items) if !is_flow => items.iter().map(|item| find_written_end(text, item)).max(),
        YamlContent::Mapping(entries) if !is_flow => {
            let ends = entries
                .iter()
                .map(|entry| find_written_end(text, &entry.value).max(entry.key_span.end));
            ends.max()
        }
        _ => None,
    }
    .unwrap_or_else(|| trimmed(node.span))
}

/// Returns the last scalar that is written in a node.
pub(super) fn find_last_scalar(node: &YamlNode) -> &YamlNode {
    let last = match &node.content {
        YamlContent::Scalar(_) => None,
        YamlContent::Sequence(items) => items.iter().max_by_key(|item| item.span.start).map(|item| &**item),
        YamlContent::Mapping(entries) => {
            let last = entries.iter().max_by_key(|entry| entry.key_span.start);
            last.map(|entry| &*entry.value)
        }
    };
    last.filter(|last| node.span.start <= last.span.start)
        .map_or(node, find_last_scalar)
}
