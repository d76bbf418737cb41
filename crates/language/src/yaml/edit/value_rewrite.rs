//! Another value instead of one that is written in a text, with as few edits as possible, so that comments and formatting
//! stay.
//!
//! Only what differs is edited. Where a list or a map has to be written anew, it must contain no comment, anchor, alias
//! or tag; otherwise there is no edit.

use serde_json::{Map, Number, Value};

use super::super::document::{ScalarValue, YamlContent, YamlEntry, YamlNode, YamlScalar};
use super::RouteEdit;
use super::node_location::{find_block_header, find_written_end, has_anchor_or_tag, is_flow};
use super::spelling::{SpellingContext, spell_on_one_line};
use crate::source::{Route, RouteLocation, Span};

/// Converts a node to JSON. Returns `None` if it contains a number that JSON does not have.
pub fn node_to_json(node: &YamlNode) -> Option<Value> {
    Some(match &node.content {
        YamlContent::Scalar(scalar) => scalar_to_json(scalar)?,
        YamlContent::Sequence(items) => items
            .iter()
            .map(|item| node_to_json(item))
            .collect::<Option<Vec<_>>>()?
            .into(),
        YamlContent::Mapping(entries) => {
            let entries = entries
                .iter()
                .map(|entry| Some((entry.key.to_string(), node_to_json(&entry.value)?)));
            Value::Object(entries.collect::<Option<_>>()?)
        }
    })
}

/// Converts a scalar to JSON. Returns `None` for a number that JSON does not have.
pub(crate) fn scalar_to_json(scalar: &YamlScalar) -> Option<Value> {
    Some(match scalar.value {
        ScalarValue::Null => Value::Null,
        ScalarValue::Bool(value) => value.into(),
        ScalarValue::Int(value) => value.into(),
        ScalarValue::Unsigned(value) => value.into(),
        ScalarValue::Float(value) => Value::Number(Number::from_f64(value)?),
        ScalarValue::Text => (*scalar.text).into(),
    })
}

/// Plans the edits that make the node this value: the edits of its parts if possible, and the edit of the whole node if
/// possible. `adds_keys`: new keys are appended to their map; otherwise a map with a new key is rewritten.
pub(super) fn plan_rewrite(
    text: &str,
    node: &YamlNode,
    route: &Route,
    value: &Value,
    adds_keys: bool,
) -> (Option<Vec<RouteEdit>>, Option<RouteEdit>) {
    let planner = RewritePlanner { text, adds_keys };
    let mut edits = Some(Vec::new());
    planner.add_edits(node, route, value, &mut edits);
    (edits, rewrite_whole_node(text, node, value))
}

/// A planner of edits in this text.
struct RewritePlanner<'t> {
    text: &'t str,
    adds_keys: bool,
}

impl RewritePlanner<'_> {
    /// Returns whether the keys of the map can be edited one by one.
    fn can_keep_map(&self, node: &YamlNode, entries: &[YamlEntry], new: &Map<String, Value>) -> bool {
        let is_known = |key: &String| entries.iter().any(|entry| *entry.key == **key);
        let new_keys = new.keys().filter(|key| !is_known(key)).count();
        // Several keys in braces would share one comma.
        let can_add = self.adds_keys && new_keys < new.len() && (new_keys == 1 || !is_flow(self.text, node));
        new_keys == 0 || can_add
    }

    /// Adds the edits that make the node this value. Sets `edits` to `None` if a part cannot be edited.
    fn add_edits(&self, node: &YamlNode, route: &Route, value: &Value, edits: &mut Option<Vec<RouteEdit>>) {
        let text = self.text;
        if node_to_json(node).as_ref() == Some(value) {
            return;
        }
        if self.adds_keys && node.is_value_omitted() {
            push_or_fail(edits, Some(RouteEdit::Rewrite(route.clone(), value.clone())));
            return;
        }
        match (&node.content, value) {
            (YamlContent::Mapping(entries), Value::Object(new)) if self.can_keep_map(node, entries, new) => {
                for entry in entries {
                    let route = route.with_key(entry.key.clone());
                    match new.get(&*entry.key) {
                        Some(value) => self.add_edits(&entry.value, &route, value, edits),
                        None => push_or_fail(edits, Some(RouteEdit::Remove(route))),
                    }
                }
                for (key, value) in new
                    .iter()
                    .filter(|(key, _)| !entries.iter().any(|entry| *entry.key == ***key))
                {
                    let added = RouteEdit::AddKey(route.clone(), key.clone(), value.clone());
                    push_or_fail(edits, Some(added));
                }
            }
            (YamlContent::Sequence(items), Value::Array(new))
                if new.len() == items.len() || keeps_block_list(text, node, new) =>
            {
                for (at, item) in items.iter().enumerate() {
                    let route = route.with_index(at);
                    match new.get(at) {
                        Some(value) => self.add_edits(item, &route, value, edits),
                        None => push_or_fail(edits, Some(RouteEdit::Remove(route))),
                    }
                }
                if let Some(more @ [_, ..]) = new.get(items.len()..) {
                    push_or_fail(edits, Some(RouteEdit::AppendItems(route.clone(), more.to_vec())));
                }
            }
            (YamlContent::Scalar(scalar), Value::String(new))
                if scalar.value == ScalarValue::Text && find_block_header(text, node).is_none() =>
            {
                let is_short = !new.contains(['\n', '\r', '\t']);
                let write = || RouteEdit::WriteText(route.clone().into_value_location(), new.clone());
                let edit = if is_short {
                    Some(write())
                } else {
                    rewrite_whole_node(text, node, value)
                };
                push_or_fail(edits, edit);
            }
            _ => push_or_fail(edits, rewrite_whole_node(text, node, value)),
        }
    }
}

/// Adds the edit, or sets the list to `None` if there is no edit.
fn push_or_fail(edits: &mut Option<Vec<RouteEdit>>, one: Option<RouteEdit>) {
    match (edits.as_mut(), one) {
        (Some(list), Some(edit)) => list.push(edit),
        _ => *edits = None,
    }
}

/// Returns whether the list has an item on each line and keeps at least one item.
fn keeps_block_list(text: &str, node: &YamlNode, new: &[Value]) -> bool {
    !is_flow(text, node) && !new.is_empty()
}

/// Returns the edit that rewrites the whole node, unless an anchor, alias or tag would be lost.
fn rewrite_whole_node(text: &str, node: &YamlNode, value: &Value) -> Option<RouteEdit> {
    let end = find_written_end(text, node);
    let start = find_block_header(text, node).unwrap_or(node.span.start);
    let span = Span::new(start, end.max(start));
    let is_list = !matches!(node.content, YamlContent::Scalar(_));
    if span.start == span.end || is_list && has_anchor_or_tag(text.get(span.start..span.end)?) {
        return None;
    }
    Some(RouteEdit::WriteYaml(
        RouteLocation::from_source_span(span),
        spell_on_one_line(value, SpellingContext::Flow),
    ))
}
