//! Edits of a text at symbolic places. Everything else stays, byte for byte.
//!
//! **Invariant:** a comment in replaced bytes is in their replacement, or there is no edit.

use serde_json::Value;

use super::super::document::{Content, Document, Node};
use super::lines::Lines;
use super::locate::{
    Found, Removed, Site, block_header, end_of, find, find_removed, find_site, has_anchor, is_flow, is_in_flow,
    last_leaf, parts,
};
use super::rewrite::plan_rewrite;
use super::spell;
use super::spell::{Style, is_word, spell_entry, spell_flow, spell_item};
use super::{Edit, RouteEdit};
use crate::source::{At, Part, Route, Source, Span};

/// A text that is edited, with its tree if it is YAML.
pub(super) struct Editor<'t> {
    pub(super) text: &'t str,
    document: Option<&'t Document>,
    lines: Lines<'t>,
    /// Whether anchors, aliases and tags may be removed with their values.
    pub(super) removes_anchors: bool,
}

impl<'t> Editor<'t> {
    pub(super) fn new(source: &'t Source, document: Option<&'t Document>) -> Self {
        Self {
            text: source.text(),
            document,
            lines: Lines::new(source.text()),
            removes_anchors: false,
        }
    }

    /// Returns the edits of the text; `None` if the place is not written as the edit needs it.
    pub(super) fn edits_for(&self, edit: &RouteEdit) -> Option<Vec<Edit>> {
        let edits = match edit {
            RouteEdit::WriteText(at, new) => vec![self.write_text(at, new)?],
            RouteEdit::WriteYaml(at, new) => match at.part {
                Part::Source(span) => vec![Edit::new(span, new.as_str())],
                _ => vec![Edit::new(self.site(at)?.span, new.as_str())],
            },
            RouteEdit::ReplaceWord(at, old, new) => vec![self.replace_word(at, old, new)?],
            RouteEdit::Rewrite(route, value) => return self.rewrite(route, value),
            RouteEdit::Remove(route) => vec![self.remove(route)?],
            RouteEdit::RemoveLines(span) => vec![self.remove_lines(*span, self.lines.column(span.start))?],
            RouteEdit::AddKey(route, key, value) => self.add_key(route, key, value)?,
            RouteEdit::AppendItems(route, items) => self.append_items(route, items)?,
        };
        edits.iter().all(|edit| self.keeps_comments(edit)).then_some(edits)
    }

    /// Returns whether the comments in the replaced bytes are in the replacement.
    fn keeps_comments(&self, edit: &Edit) -> bool {
        let Some(document) = self.document else {
            return !self.text[edit.span.start..edit.span.end].contains('#');
        };
        let is_inside = |comment: &&Span| edit.span.start <= comment.start && comment.end <= edit.span.end;
        let mut replaced = document.comments().iter().filter(is_inside);
        replaced.all(|comment| edit.replacement.contains(&self.text[comment.start..comment.end]))
    }

    fn site(&self, at: &At) -> Option<Site<'t>> {
        find_site(self.document?, at)
    }

    /// Writes a string as the scalar, or as the part of a scalar, in its style.
    fn write_text(&self, at: &At, new: &str) -> Option<Edit> {
        let site = match at.part {
            Part::Source(span) => Site {
                span,
                whole: span,
                node: None,
                range: None,
            },
            _ => self.site(at)?,
        };
        let raw = self.text.get(site.whole.start..site.whole.end)?;
        let Some(range) = site.range else {
            let is_flow = self.document.is_some_and(|document| is_in_flow(document, &at.route));
            let style = if is_flow { Style::Flow } else { Style::Block };
            return Some(Edit::new(site.span, spell::respell_text(raw, new, style)?));
        };
        let quote = raw.chars().next();
        let spelt = spell::respell_part(quote, new).or_else(|| write_in_plain(&site, range, new));
        Some(Edit::new(site.span, spelt?))
    }

    fn replace_word(&self, at: &At, old: &str, new: &str) -> Option<Edit> {
        let span = match at.part {
            Part::Source(span) => span,
            _ => self.site(at)?.span,
        };
        let mut found = self.text.get(span.start..span.end)?.match_indices(old);
        let (start, _) = found.next().filter(|_| found.next().is_none())?;
        let span = Span::new(span.start + start, span.start + start + old.len());
        is_word(new).then(|| Edit::new(span, new))
    }

    /// Writes a value with as few edits as possible.
    fn rewrite(&self, route: &Route, value: &Value) -> Option<Vec<Edit>> {
        let document = self.document?;
        let node = find(document, route)?.node;
        let (parts, whole) = plan_rewrite(self.text, node, route, value);
        let all = |edits: Vec<RouteEdit>| -> Option<Vec<Edit>> {
            let edits: Vec<Vec<Edit>> = edits
                .iter()
                .map(|edit| self.edits_for(edit))
                .collect::<Option<Vec<_>>>()?;
            super::sort_apart(edits.concat())
        };
        parts.and_then(all).or_else(|| all(vec![whole?]))
    }

    fn append_items(&self, route: &Route, items: &[Value]) -> Option<Vec<Edit>> {
        let found = find(self.document?, route)?;
        let node = found.node;
        let flow_items = || {
            items
                .iter()
                .map(|item| spell_flow(item, Style::Flow))
                .collect::<Vec<_>>()
        };
        if node.is_omitted() {
            let column = self.lines.column(found.key?.start);
            let at = self.lines.end(found.key?.end);
            let lines: Vec<String> = items.iter().flat_map(spell_item).collect();
            return Some(vec![self.insert_lines(at, column + 2, &lines)]);
        }
        let Some(last) = node.items()?.last() else {
            return self.insert_first_part(node, &flow_items().join(", "));
        };
        if is_flow(self.text, node) {
            return self.insert_part(node, &flow_items().join(", "));
        }
        let dash = node.items()?.iter().rev().find_map(|item| self.dash_column(item))?;
        let is_braced = is_flow(self.text, last) && matches!(last.content, Content::Mapping(_));
        let lines: Vec<String> = match is_braced {
            true => flow_items().into_iter().map(|item| format!("- {item}")).collect(),
            false => items.iter().flat_map(spell_item).collect(),
        };
        let at = self.end_with_comments(node, dash + 1);
        let mut edit = self.insert_lines(at, dash, &lines);
        if self.has_gaps(node) {
            edit.replacement.insert_str(0, self.lines.newline);
        }
        Some(vec![edit])
    }

    fn add_key(&self, route: &Route, key: &str, value: &Value) -> Option<Vec<Edit>> {
        let document = self.document?;
        let node = find(document, route).map_or(document.root(), |found: Found<'_>| found.node);
        let Content::Mapping(entries) = &node.content else {
            return None;
        };
        let flow_entry = || {
            let key = spell::spell_key(key, Style::Flow);
            format!("{key}: {}", spell_flow(value, Style::Flow))
        };
        if entries.is_empty() {
            return self.insert_first_part(node, &flow_entry());
        }
        if is_flow(self.text, node) {
            return self.insert_part(node, &flow_entry());
        }
        let column = self.lines.column(parts(node).first()?.start);
        let at = self.end_with_comments(node, column);
        Some(vec![self.insert_lines(at, column, &spell_entry(key, value))])
    }

    /// Inserts the first part of a list or a map in brackets.
    fn insert_first_part(&self, node: &Node, part: &str) -> Option<Vec<Edit>> {
        let is_bracketed = self.text[node.span.start..].starts_with(['[', '{']);
        is_bracketed.then(|| vec![Edit::insert(node.span.start + 1, part)])
    }

    /// Inserts one more part in brackets, on a separate line if the last part has one.
    fn insert_part(&self, node: &Node, part: &str) -> Option<Vec<Edit>> {
        let last = *parts(node).last()?;
        let indent = self.lines.before(last.start);
        let is_alone = indent.trim().is_empty() && node.span.start < last.start - indent.len();
        if !is_alone {
            return Some(vec![Edit::insert(last.end, format!(", {part}"))]);
        }
        let has_comma = self.text[last.end..].trim_start().starts_with(',');
        let comma = if has_comma { "," } else { "" };
        let line = format!("{}{indent}{part}{comma}", self.lines.newline);
        let line = Edit::insert(self.lines.end(last.end), line);
        match has_comma {
            true => Some(vec![line]),
            false => Some(vec![Edit::insert(last.end, ","), line]),
        }
    }

    /// Returns whether the last two items of a list have a blank line between them.
    fn has_gaps(&self, node: &Node) -> bool {
        let Some([.., before, last]) = node.items() else {
            return false;
        };
        let between = end_of(self.text, before)..self.lines.start(last.span.start);
        let between = self.text.get(between).unwrap_or_default();
        between.contains("\n\n") || between.contains("\n\r\n")
    }

    /// Inserts lines at the end of a line.
    fn insert_lines(&self, at: usize, column: usize, lines: &[String]) -> Edit {
        let indent = " ".repeat(column);
        let lines = lines.iter().map(|line| format!("{}{indent}{line}", self.lines.newline));
        Edit::insert(at, lines.collect::<String>())
    }

    /// Returns the end of the last line of a block, with the comments behind it that are indented at least to the column.
    fn end_with_comments(&self, node: &Node, column: usize) -> usize {
        let leaf = last_leaf(node);
        let keeps_blanks =
            block_header(self.text, leaf).is_some_and(|header| self.text[header..leaf.span.start].contains('+'));
        if keeps_blanks {
            let mut at = self.lines.end(end_of(self.text, leaf));
            while self.lines.next(at) < self.text.len() && self.lines.is_blank(self.lines.next(at)) {
                at = self.lines.end(self.lines.next(at));
            }
            return at;
        }
        let mut at = self.lines.end(end_of(self.text, node));
        let mut next = at;
        while let Some(rest) = self.text[next..].find('\n').map(|line| next + line + 1) {
            let end = self.lines.end(rest);
            let line = &self.text[rest..end];
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

    /// Returns the column of the dash of an item that is alone behind it.
    fn dash_column(&self, item: &Node) -> Option<usize> {
        let before = self.lines.before(item.span.start);
        let is_own = before.trim_start_matches(' ').trim_end_matches(' ') == "-";
        is_own.then(|| before.find('-'))?
    }

    /// Removes the entry or the item. If nothing is left of a map or a list, its own entry is removed.
    fn remove(&self, route: &Route) -> Option<Edit> {
        let removed = find_removed(self.document?, route)?;
        let part = removed.parts[removed.at];
        if !self.removes_anchors && has_anchor(&self.text[part.start..part.end]) {
            return None;
        }
        if is_flow(self.text, removed.parent) {
            return remove_in_flow(&removed);
        }
        let key = removed.found.key;
        if key.is_some() && !self.lines.before(part.start).trim_matches(' ').is_empty() {
            // The first key of an item is behind its dash, where the next key takes its place.
            let next = removed.parts.get(removed.at + 1)?;
            return Some(Edit::remove(Span::new(part.start, next.start)));
        }
        let column = match key {
            Some(key) => self.lines.column(key.start),
            None => self.dash_column(removed.found.node)?,
        };
        let end = end_of(self.text, removed.found.node).max(key.map_or(0, |key| key.end));
        let edit = self.remove_lines(Span::new(part.start, end.max(part.start)), column)?;
        match edit.replacement.is_empty() {
            true => Some(Edit::remove(
                self.with_gap(edit.span, removed.at + 1 == removed.parts.len()),
            )),
            false => Some(edit),
        }
    }

    /// Removes whole lines; their comments stay, at this column.
    fn remove_lines(&self, part: Span, column: usize) -> Option<Edit> {
        let end = part.start + self.text[part.start..part.end].trim_end().len();
        let (start, end) = (self.lines.start(part.start), self.lines.end(end));
        let span = Span::new(start, self.lines.next(end));
        let is_kept = |comment: &&Span| start <= comment.start && comment.end <= end;
        let comments = self.document.into_iter().flat_map(Document::comments).filter(is_kept);
        let kept: Vec<String> = comments
            .map(|comment| format!("{}{}", " ".repeat(column), &self.text[comment.start..comment.end]))
            .collect();
        let line_break = if kept.is_empty() { "" } else { &self.text[end..span.end] };
        Some(Edit::new(span, kept.join(self.lines.newline) + line_break))
    }

    /// Returns the lines with the blank line before them, if a blank line or nothing follows, or no part of the same list.
    fn with_gap(&self, lines: Span, is_last: bool) -> Span {
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

fn remove_in_flow(removed: &Removed<'_>) -> Option<Edit> {
    let Removed { parts, at, .. } = removed;
    let part = parts[*at];
    let before = at.checked_sub(1).map(|at| parts[at]);
    match (parts.get(at + 1), before) {
        (Some(next), _) => Some(Edit::remove(Span::new(part.start, next.start))),
        (None, Some(before)) => Some(Edit::remove(Span::new(before.end, part.end))),
        (None, None) => None,
    }
}

/// Spells a part of a string without quotes, if the whole string can still be written without quotes.
fn write_in_plain(site: &Site<'_>, range: Span, new: &str) -> Option<String> {
    let Content::Scalar(scalar) = &site.node?.content else {
        return None;
    };
    let (before, after) = (scalar.text.get(..range.start)?, scalar.text.get(range.end..)?);
    let is_flat = !new.contains([',', '[', ']', '{', '}', '#', ':']) && scalar.is_plain();
    let whole = format!("{before}{new}{after}");
    (is_flat && spell::is_plain(&whole, Style::Block)).then(|| new.to_owned())
}
