//! Values for keys behind which nothing is written (`key:`).
//!
//! A value of one line is written behind the colon, before a comment; a map of several lines is written below the key.
//! **Invariant:** nothing that is written is replaced, so every comment stays.

use serde_json::Value;

use super::TextEdit;
use super::editor::YamlEditor;
use super::node_location::{LocatedNode, is_in_flow, locate_node};
use super::spelling::{SpellingContext, spell_map_entry, spell_on_one_line};
use crate::source::{Route, Span};

impl YamlEditor<'_> {
    /// Returns the edits that write the value behind the key at the route. Returns `None` if a value is written there, or the
    /// key has no colon.
    pub(super) fn fill_omitted_value(&self, route: &Route, value: &Value) -> Option<Vec<TextEdit>> {
        let document = self.document?;
        let key = find_key_without_value(&locate_node(document, route)?)?;
        if is_in_flow(document, route) {
            return self.insert_behind_key(route, key, &spell_on_one_line(value, SpellingContext::Flow));
        }
        let lines = spell_map_entry("", value);
        let [_, below @ ..] = lines.as_slice() else { return None };
        if below.is_empty() {
            return self.insert_behind_key(route, key, &spell_on_one_line(value, SpellingContext::Block));
        }
        // The colon must be there, or else the lines do not belong to the key.
        self.find_colon_end(key)?;
        let at = self.lines.line_end(key.end);
        Some(vec![self.insert_lines(at, self.lines.column_at(key.start), below)])
    }

    /// Returns the edit that writes this YAML behind the key at the route. Returns `None` if a value is written there.
    pub(super) fn fill_omitted_yaml(&self, route: &Route, yaml: &str) -> Option<Vec<TextEdit>> {
        let key = find_key_without_value(&locate_node(self.document?, route)?)?;
        self.insert_behind_key(route, key, yaml)
    }

    /// Inserts YAML behind the colon of the key. Adds a colon only in brackets.
    fn insert_behind_key(&self, route: &Route, key: Span, yaml: &str) -> Option<Vec<TextEdit>> {
        if let Some(end) = self.find_colon_end(key) {
            return Some(vec![TextEdit::insert_at(end, format!(" {yaml}"))]);
        }
        // In braces, a key can be written without a colon: `{key}`.
        let is_bare = is_in_flow(self.document?, route);
        is_bare.then(|| vec![TextEdit::insert_at(key.end, format!(": {yaml}"))])
    }

    /// Returns the position after the colon behind the key.
    fn find_colon_end(&self, key: Span) -> Option<usize> {
        let behind = &self.text[key.end..];
        let colon = key.end + behind.len() - behind.trim_start_matches([' ', '\t']).len();
        self.text[colon..].starts_with(':').then_some(colon + 1)
    }
}

/// Returns the span of the key, if its value is omitted.
fn find_key_without_value(located_node: &LocatedNode<'_>) -> Option<Span> {
    located_node.key.filter(|_| located_node.node.is_value_omitted())
}
