//! Edits of a text at symbolic places. Everything else stays, byte for byte.
//!
//! **Invariant:** a comment in replaced bytes is in their replacement, or there is no edit.

use serde_json::Value;

use super::super::document::{YamlContent, YamlDocument, YamlNode};
use super::lines::TextLines;
use super::node_location::{
    EditTarget, LocatedNode, RemovalTarget, find_block_header, find_edit_target, find_last_scalar, find_removal_target,
    find_written_end, has_anchor_or_tag, is_flow, is_in_flow, list_part_spans, locate_node,
};
use super::spelling;
use super::spelling::{SpellingContext, is_plain_everywhere, spell_list_item, spell_map_entry, spell_on_one_line};
use super::value_rewrite::plan_rewrite;
use super::{RouteEdit, TextEdit};
use crate::source::{NodePart, Route, RouteLocation, SourceText, Span};

/// A text that is edited at symbolic locations, with its tree if the text is YAML.
pub(super) struct YamlEditor<'t> {
    pub(super) text: &'t str,
    pub(super) document: Option<&'t YamlDocument>,
    pub(super) lines: TextLines<'t>,
    /// Whether anchors, aliases and tags may be removed with their values.
    pub(super) removes_anchors: bool,
}

impl<'t> YamlEditor<'t> {
    /// Creates an editor that keeps anchors. Without a tree, only spans of the source can be edited.
    pub(super) fn new(source: &'t SourceText, document: Option<&'t YamlDocument>) -> Self {
        Self {
            text: source.text(),
            document,
            lines: TextLines::new(source.text()),
            removes_anchors: false,
        }
    }

    /// Returns the edits of the text. Returns `None` if the location is not written as the edit needs it, or if a comment would be lost.
    pub(super) fn resolve_edits(&self, edit: &RouteEdit) -> Option<Vec<TextEdit>> {
        let edits = match edit {
            RouteEdit::WriteText(at, new) => vec![self.write_text(at, new)?],
            RouteEdit::WriteYaml(at, new) => match at.part {
                NodePart::Source(span) => vec![TextEdit::new(span, new.as_str())],
                _ => match self.find_edit_target(at) {
                    Some(site) => vec![TextEdit::new(site.span, new.as_str())],
                    // A finding about a value that is not written has no place that its fix could mean.
                    None if self.removes_anchors && at.part != NodePart::Key => {
                        self.fill_omitted_yaml(&at.route, new)?
                    }
                    None => return None,
                },
            },
            RouteEdit::ReplaceWord(at, old, new) => vec![self.replace_word(at, old, new)?],
            RouteEdit::Rewrite(route, value) => return self.rewrite_value(route, value),
            RouteEdit::Remove(route) => vec![self.remove_part(route)?],
            RouteEdit::RemoveLines(span) => vec![self.remove_lines(*span, self.lines.column_at(span.start))?],
            RouteEdit::AddKey(route, key, value) => self.add_key(route, key, value)?,
            RouteEdit::AppendItems(route, items) => self.append_items(route, items)?,
        };
        edits.iter().all(|edit| self.keeps_comments(edit)).then_some(edits)
    }

    /// Returns whether all comments in the replaced bytes are in the replacement.
    fn keeps_comments(&self, edit: &TextEdit) -> bool {
        let Some(document) = self.document else {
            return !self.text[edit.span.start..edit.span.end].contains('#');
        };
        let is_inside = |comment: &&Span| edit.span.start <= comment.start && comment.end <= edit.span.end;
        let mut replaced = document.comments().iter().filter(is_inside);
        replaced.all(|comment| edit.replacement.contains(&self.text[comment.start..comment.end]))
    }

    /// Returns the bytes at a symbolic location, if the text is YAML and the value is written there.
    fn find_edit_target(&self, at: &RouteLocation) -> Option<EditTarget<'t>> {
        find_edit_target(self.document?, at)
    }

    /// Writes a string instead of a scalar, or of a part of a scalar, in the style of the scalar.
    fn write_text(&self, at: &RouteLocation, new: &str) -> Option<TextEdit> {
        let site = match at.part {
            NodePart::Source(span) => EditTarget {
                span,
                whole: span,
                node: None,
                range: None,
            },
            _ => self.find_edit_target(at)?,
        };
        let raw = self.text.get(site.whole.start..site.whole.end)?;
        let Some(range) = site.range else {
            let is_flow = self.document.is_some_and(|document| is_in_flow(document, &at.route));
            let style = if is_flow {
                SpellingContext::Flow
            } else {
                SpellingContext::Block
            };
            return Some(TextEdit::new(site.span, spelling::respell_text(raw, new, style)?));
        };
        let quote = raw.chars().next();
        let spelt = spelling::respell_part(quote, new).or_else(|| write_in_plain(&site, range, new));
        Some(TextEdit::new(site.span, spelt?))
    }

    /// Replaces the only occurrence of a word at the location. Returns `None` if there are several, or if the new word needs quotes.
    fn replace_word(&self, at: &RouteLocation, old: &str, new: &str) -> Option<TextEdit> {
        let span = match at.part {
            NodePart::Source(span) => span,
            _ => self.find_edit_target(at)?.span,
        };
        let mut occurrences = self.text.get(span.start..span.end)?.match_indices(old);
        let (start, _) = occurrences.next().filter(|_| occurrences.next().is_none())?;
        let span = Span::new(span.start + start, span.start + start + old.len());
        is_plain_everywhere(new).then(|| TextEdit::new(span, new))
    }

    /// Writes a value with as few edits as possible.
    fn rewrite_value(&self, route: &Route, value: &Value) -> Option<Vec<TextEdit>> {
        let document = self.document?;
        let node = locate_node(document, route)?.node;
        if node.is_value_omitted() {
            return self.fill_omitted_value(route, value);
        }
        let (parts, whole) = plan_rewrite(self.text, node, route, value, self.removes_anchors);
        let all = |edits: Vec<RouteEdit>| -> Option<Vec<TextEdit>> {
            let edits: Vec<Vec<TextEdit>> = edits
                .iter()
                .map(|edit| self.resolve_edits(edit))
                .collect::<Option<Vec<_>>>()?;
            super::sort_disjoint_edits(edits.concat())
        };
        parts.and_then(all).or_else(|| all(vec![whole?]))
    }

    /// Appends items to a list, in the style of the list.
    fn append_items(&self, route: &Route, items: &[Value]) -> Option<Vec<TextEdit>> {
        let located_node = locate_node(self.document?, route)?;
        let node = located_node.node;
        let flow_items = || {
            items
                .iter()
                .map(|item| spell_on_one_line(item, SpellingContext::Flow))
                .collect::<Vec<_>>()
        };
        if node.is_value_omitted() && is_in_flow(self.document?, route) {
            return self.fill_omitted_value(route, &Value::from(items));
        }
        if node.is_value_omitted() {
            let column = self.lines.column_at(located_node.key?.start);
            let at = self.lines.line_end(located_node.key?.end);
            let lines: Vec<String> = items.iter().flat_map(spell_list_item).collect();
            return Some(vec![self.insert_lines(at, column + 2, &lines)]);
        }
        if node.is_null() {
            return Some(vec![TextEdit::new(node.span, format!("[{}]", flow_items().join(", ")))]);
        }
        let Some(last) = node.items()?.last() else {
            return self.insert_first_part(node, &flow_items().join(", "));
        };
        if is_flow(self.text, node) {
            return self.append_flow_part(node, &flow_items().join(", "));
        }
        let dash = node
            .items()?
            .iter()
            .rev()
            .find_map(|item| self.find_dash_column(item))?;
        let is_braced = is_flow(self.text, last) && matches!(last.content, YamlContent::Mapping(_));
        let lines: Vec<String> = match is_braced {
            true => flow_items().into_iter().map(|item| format!("- {item}")).collect(),
            false => items.iter().flat_map(spell_list_item).collect(),
        };
        let at = self.find_end_with_comments(node, dash + 1);
        let mut edit = self.insert_lines(at, dash, &lines);
        if self.separates_items_by_blank_line(node) {
            edit.replacement.insert_str(0, self.lines.newline);
        }
        Some(vec![edit])
    }

    /// Adds a key with its value to a map, in the style of the map.
    fn add_key(&self, route: &Route, key: &str, value: &Value) -> Option<Vec<TextEdit>> {
        let document = self.document?;
        let node = locate_node(document, route).map_or(document.root(), |found: LocatedNode<'_>| found.node);
        let new_map = || Value::Object([(key.to_owned(), value.clone())].into_iter().collect());
        if node.is_value_omitted() {
            return self.fill_omitted_value(route, &new_map());
        }
        if node.is_null() {
            return Some(vec![TextEdit::new(
                node.span,
                spell_on_one_line(&new_map(), SpellingContext::Flow),
            )]);
        }
        let YamlContent::Mapping(entries) = &node.content else {
            return None;
        };
        let flow_entry = || {
            let key = spelling::spell_key(key, SpellingContext::Flow);
            format!("{key}: {}", spell_on_one_line(value, SpellingContext::Flow))
        };
        if entries.is_empty() {
            return self.insert_first_part(node, &flow_entry());
        }
        if is_flow(self.text, node) {
            return self.append_flow_part(node, &flow_entry());
        }
        let column = self.lines.column_at(list_part_spans(node).first()?.start);
        let at = self.find_end_with_comments(node, column);
        Some(vec![self.insert_lines(at, column, &spell_map_entry(key, value))])
    }

    /// Inserts the first part of an empty list or map in brackets.
    fn insert_first_part(&self, node: &YamlNode, part: &str) -> Option<Vec<TextEdit>> {
        let is_bracketed = self.text[node.span.start..].starts_with(['[', '{']);
        is_bracketed.then(|| vec![TextEdit::insert_at(node.span.start + 1, part)])
    }

    /// Appends a part to a list or a map in brackets, on a separate line if the last part has one.
    fn append_flow_part(&self, node: &YamlNode, part: &str) -> Option<Vec<TextEdit>> {
        let last = *list_part_spans(node).last()?;
        let indent = self.lines.line_before(last.start);
        let is_alone = indent.trim().is_empty() && node.span.start < last.start - indent.len();
        if !is_alone {
            return Some(vec![TextEdit::insert_at(last.end, format!(", {part}"))]);
        }
        let has_comma = self.text[last.end..].trim_start().starts_with(',');
        let comma = if has_comma { "," } else { "" };
        let line = format!("{}{indent}{part}{comma}", self.lines.newline);
        let line = TextEdit::insert_at(self.lines.line_end(last.end), line);
        match has_comma {
            true => Some(vec![line]),
            false => Some(vec![TextEdit::insert_at(last.end, ","), line]),
        }
    }

    /// Returns whether a blank line separates the last two items of a list.
    fn separates_items_by_blank_line(&self, node: &YamlNode) -> bool {
        let Some([.., before, last]) = node.items() else {
            return false;
        };
        let between = find_written_end(self.text, before)..self.lines.line_start(last.span.start);
        let between = self.text.get(between).unwrap_or_default();
        between.contains("\n\n") || between.contains("\n\r\n")
    }

    /// Inserts lines with this indentation at the end of the line at `at`.
    pub(super) fn insert_lines(&self, at: usize, column: usize, lines: &[String]) -> TextEdit {
        let indent = " ".repeat(column);
        let lines = lines.iter().map(|line| format!("{}{indent}{line}", self.lines.newline));
        TextEdit::insert_at(at, lines.collect::<String>())
    }

    /// Returns the end of the last line of a block, with the following comments that are indented at least to the column.
    fn find_end_with_comments(&self, node: &YamlNode, column: usize) -> usize {
        let leaf = find_last_scalar(node);
        let keeps_blanks =
            find_block_header(self.text, leaf).is_some_and(|header| self.text[header..leaf.span.start].contains('+'));
        if keeps_blanks {
            let mut at = self.lines.line_end(find_written_end(self.text, leaf));
            while self.lines.next_line_start(at) < self.text.len()
                && self.lines.is_blank_line(self.lines.next_line_start(at))
            {
                at = self.lines.line_end(self.lines.next_line_start(at));
            }
            return at;
        }
        let mut at = self.lines.line_end(find_written_end(self.text, node));
        let mut next = at;
        while let Some(line_start) = self.text[next..].find('\n').map(|line| next + line + 1) {
            let end = self.lines.line_end(line_start);
            let line = &self.text[line_start..end];
            let indent = line.len() - line.trim_start_matches(' ').len();
            match line.trim_start_matches(' ').chars().next() {
                None => {}
                Some('#') if indent >= column => at = end,
                Some(_) => break,
            }
            next = end;
        }
        at
    }

    /// Returns the column of the dash before an item, if the line contains nothing else before the item.
    fn find_dash_column(&self, item: &YamlNode) -> Option<usize> {
        let before = self.lines.line_before(item.span.start);
        let is_own = before.trim_start_matches(' ').trim_end_matches(' ') == "-";
        is_own.then(|| before.find('-'))?
    }

    /// Removes the entry or the item, and every map or list that would be empty afterwards.
    fn remove_part(&self, route: &Route) -> Option<TextEdit> {
        let removed = find_removal_target(self.document?, route)?;
        let part = removed.parts[removed.at];
        if !self.removes_anchors && has_anchor_or_tag(&self.text[part.start..part.end]) {
            return None;
        }
        if is_flow(self.text, removed.parent) {
            return remove_with_comma(&removed);
        }
        let key = removed.found.key;
        if key.is_some() && !self.lines.line_before(part.start).trim_matches(' ').is_empty() {
            // The first key of an item is behind its dash, where the next key takes its place.
            let next = removed.parts.get(removed.at + 1)?;
            return Some(TextEdit::remove_span(Span::new(part.start, next.start)));
        }
        let column = match key {
            Some(key) => self.lines.column_at(key.start),
            None => self.find_dash_column(removed.found.node)?,
        };
        let end = find_written_end(self.text, removed.found.node).max(key.map_or(0, |key| key.end));
        let edit = self.remove_lines(Span::new(part.start, end.max(part.start)), column)?;
        match edit.replacement.is_empty() {
            true => Some(TextEdit::remove_span(
                self.extend_over_blank_line_before(edit.span, removed.at + 1 == removed.parts.len()),
            )),
            false => Some(edit),
        }
    }

    /// Removes whole lines. Their comments stay, at this column.
    fn remove_lines(&self, part: Span, column: usize) -> Option<TextEdit> {
        let end = part.start + self.text[part.start..part.end].trim_end().len();
        let (start, end) = (self.lines.line_start(part.start), self.lines.line_end(end));
        let span = Span::new(start, self.lines.next_line_start(end));
        let is_kept = |comment: &&Span| start <= comment.start && comment.end <= end;
        let comments = self
            .document
            .into_iter()
            .flat_map(YamlDocument::comments)
            .filter(is_kept);
        let kept_comments: Vec<String> = comments
            .map(|comment| format!("{}{}", " ".repeat(column), &self.text[comment.start..comment.end]))
            .collect();
        let line_break = if kept_comments.is_empty() {
            ""
        } else {
            &self.text[end..span.end]
        };
        Some(TextEdit::new(span, kept_comments.join(self.lines.newline) + line_break))
    }

    /// Extends the span of lines by the blank line before them, if a blank line, the end of the text or no other item follows.
    fn extend_over_blank_line_before(&self, lines: Span, is_last: bool) -> Span {
        let before = &self.text[..lines.start];
        let after = self.text[lines.end..].trim_start_matches('\r');
        let gap = ["\n\r\n", "\n\n"].into_iter().find(|gap| before.ends_with(gap));
        match gap {
            Some(gap) if is_last || after.is_empty() || after.starts_with('\n') => {
                Span::new(lines.start - gap.len() + 1, lines.end)
            }
            _ => lines,
        }
    }
}

/// Removes a part in brackets with its comma.
fn remove_with_comma(removed: &RemovalTarget<'_>) -> Option<TextEdit> {
    let RemovalTarget { parts, at, .. } = removed;
    let part = parts[*at];
    let before = at.checked_sub(1).map(|at| parts[at]);
    match (parts.get(at + 1), before) {
        (Some(next), _) => Some(TextEdit::remove_span(Span::new(part.start, next.start))),
        (None, Some(before)) => Some(TextEdit::remove_span(Span::new(before.end, part.end))),
        (None, None) => None,
    }
}

/// Returns a part of a string without quotes, if the whole string can still be written without quotes.
fn write_in_plain(site: &EditTarget<'_>, range: Span, new: &str) -> Option<String> {
    let YamlContent::Scalar(scalar) = &site.node?.content else {
        return None;
    };
    let (before, after) = (scalar.text.get(..range.start)?, scalar.text.get(range.end..)?);
    let is_flat = !new.contains([',', '[', ']', '{', '}', '#', ':']) && scalar.is_plain();
    let new_text = format!("{before}{new}{after}");
    (is_flat && spelling::is_plain(&new_text, SpellingContext::Block)).then(|| new.to_owned())
}
