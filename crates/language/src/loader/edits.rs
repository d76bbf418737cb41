//! Converts changes at symbolic places to edits of the text.
//!
//! A change becomes an edit only where its value is written at its place: a value that comes from an alias, a merge or
//! `defaults` is written elsewhere, and belongs to other places too. What cannot be edited with certainty has no fix.

use std::sync::Arc;

use super::document::{Content, Document, Node, ScalarValue};
use super::scalar;
use crate::fix::{Change, Edit, Fix, Mend};
use crate::source::{At, Part, Route, Source, Span, Step};

/// The fix with the bytes of its edits; `None` if one of its places is not as expected.
pub(super) fn fix(source: &Source, document: Option<&Document>, mend: &Mend) -> Option<Fix> {
    let file: Arc<str> = source.name().into();
    let mut edits = Vec::new();
    for change in &mend.changes {
        let (span, replacement) = edit(source.text(), document, change)?;
        edits.push(Edit {
            file: file.clone(),
            span,
            replacement,
        });
    }
    edits.sort_by_key(|edit| edit.span);
    let is_apart = edits.is_sorted_by(|one, other| one.span.end <= other.span.start);
    is_apart.then(|| Fix {
        title: mend.title.clone(),
        applicability: mend.applicability,
        edits,
    })
}

fn edit(text: &str, document: Option<&Document>, change: &Change) -> Option<(Span, String)> {
    let site = |at: &At| site(document?, at);
    match change {
        Change::Text(at, new) => write(text, &site(at)?, new),
        Change::Yaml(at, new) => match at.part {
            Part::Source(span) => Some((span, new.clone())),
            _ => Some((site(at)?.span, new.clone())),
        },
        Change::Word(at, old, new) => {
            let span = site(at)?.span;
            let mut found = text.get(span.start..span.end)?.match_indices(old.as_str());
            let (start, _) = found.next().filter(|_| found.next().is_none())?;
            let span = Span::new(span.start + start, span.start + start + old.len());
            is_plain_word(new).then(|| (span, new.clone()))
        }
        Change::Remove(route) => removal(text, document?, route),
        Change::RemoveLines(span) => whole_lines(text, *span, false).map(|span| (span, String::new())),
        Change::Add(route, entry) => addition(text, document?, route, entry),
        Change::Append(route, items) => appended(text, document?, route, items),
    }
}

/// A place of the text: the bytes of a key, a value or a part of a value.
struct Site<'d> {
    span: Span,
    /// The bytes of the whole scalar.
    whole: Span,
    node: Option<&'d Node>,
    range: Option<Span>,
}

/// The place, if it is written where its route leads.
fn site<'d>(document: &'d Document, at: &At) -> Option<Site<'d>> {
    if let Part::Source(span) = at.part {
        let (whole, node, range) = (span, None, None);
        return Some(Site {
            span,
            whole,
            node,
            range,
        });
    }
    let found = find(document, &at.route)?;
    let span = match &at.part {
        Part::Key => found.key?,
        Part::Text(_) => document.resolve(at),
        _ => found.node.span,
    };
    let whole = if at.part == Part::Key { span } else { found.node.span };
    let range = match at.part {
        Part::Text(range) => Some(range),
        _ => None,
    };
    (span.start < span.end).then_some(Site {
        span,
        whole,
        node: Some(found.node),
        range,
    })
}

/// A node with its surroundings.
pub(crate) struct Found<'d> {
    pub(crate) node: &'d Node,
    pub(crate) key: Option<Span>,
    pub(crate) parent: Option<&'d Node>,
}

/// Whether the value stands where its route leads, so that it belongs to no other place.
pub(super) fn is_written_at(document: &Document, route: &Route) -> bool {
    find(document, route).is_some()
}

/// The node at the route, if every step of the route is written inside the value above it.
pub(crate) fn find<'d>(document: &'d Document, route: &Route) -> Option<Found<'d>> {
    let mut found = Found {
        node: document.root(),
        key: None,
        parent: None,
    };
    for step in &route.0 {
        let parent = found.node;
        let (node, key, after) = match (step, &parent.content) {
            (Step::Key(key), Content::Mapping(entries)) => {
                let entry = entries.iter().find(|entry| entry.key == *key)?;
                (&*entry.value, Some(entry.key_span), entry.key_span.end)
            }
            (Step::Index(index), Content::Sequence(items)) => {
                let before = index.checked_sub(1).and_then(|at| items.get(at));
                (
                    &**items.get(*index)?,
                    None,
                    before.map_or(parent.span.start, |item| item.span.end),
                )
            }
            _ => return None,
        };
        let first = key.map_or(node.span.start, |key| key.start);
        let is_inside = parent.span.start <= first && node.span.end <= parent.span.end.max(after);
        if !is_inside || node.span.start < after {
            return None;
        }
        found = Found {
            node,
            key,
            parent: Some(parent),
        };
    }
    Some(found)
}

/// The string as the scalar at this place.
fn write(text: &str, site: &Site<'_>, new: &str) -> Option<(Span, String)> {
    let raw = text.get(site.whole.start..site.whole.end)?;
    if new.contains(['\n', '\r', '\t']) {
        return None;
    }
    let spelt = match (raw.chars().next()?, site.range) {
        ('\'', _) => new.replace('\'', "''"),
        ('"', _) => new.replace('\\', "\\\\").replace('"', "\\\""),
        _ if is_plain_word(new) && (site.range.is_some() || scalar::plain(new) == ScalarValue::Text) => new.to_owned(),
        (_, Some(range)) => return in_plain(site, range, new).map(|spelt| (site.span, spelt)),
        _ => return Some((site.span, format!("'{}'", new.replace('\'', "''")))),
    };
    match (raw.chars().next(), site.range) {
        (Some(quote @ ('\'' | '"')), None) => Some((site.span, format!("{quote}{spelt}{quote}"))),
        _ => Some((site.span, spelt)),
    }
}

/// A part of a string without quotes, if the whole string can still be written without quotes.
fn in_plain(site: &Site<'_>, range: Span, new: &str) -> Option<String> {
    let Content::Scalar(scalar) = &site.node?.content else {
        return None;
    };
    let (before, after) = (scalar.text.get(..range.start)?, scalar.text.get(range.end..)?);
    let whole = format!("{before}{new}{after}");
    let starts = whole.starts_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '(' | '_' | '.'));
    let is_safe = starts && !whole.ends_with(':') && [": ", " #"].iter().all(|end| !whole.contains(end));
    let is_flat = !new.contains([',', '[', ']', '{', '}', '#', ':']);
    (is_safe && is_flat).then(|| new.to_owned())
}

/// Whether the string means itself in every place of YAML, with and without quotes.
fn is_plain_word(word: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/');
    word.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_') && word.chars().all(fits)
}

/// Removes the entry or the item. Where nothing is left of a map or a list, its own entry is removed.
fn removal(text: &str, document: &Document, route: &Route) -> Option<(Span, String)> {
    let Removed {
        found,
        parent,
        parts,
        at,
    } = removed(document, route)?;
    let part = parts[at];
    if has_mark(&text[part.start..part.end]) {
        return None;
    }
    if is_flow(text, parent) {
        let span = match (parts.get(at + 1), at.checked_sub(1).and_then(|at| parts.get(at))) {
            (Some(next), _) => Span::new(part.start, next.start),
            (None, Some(before)) => Span::new(before.end, part.end),
            (None, None) => return None,
        };
        let is_clear = !has_mark(&text[span.start..part.start]) && !has_mark(&text[part.end..span.end.max(part.end)]);
        return is_clear.then(|| (span, String::new()));
    }
    if let Some(lines) = whole_lines(text, part, found.key.is_none()) {
        return Some((lines, String::new()));
    }
    // The first key of an item stands behind its dash, where the next key takes its place.
    let next = parts.get(at + 1)?;
    let between = text.get(part.end..next.start)?;
    let is_clear = found.key.is_some() && between.contains('\n') && !has_mark(between);
    is_clear.then(|| (Span::new(part.start, next.start), String::new()))
}

/// What is removed with a part of a map or a list.
pub(crate) struct Removed<'d> {
    /// The value, with its key in a map.
    pub(crate) found: Found<'d>,
    /// The map or list.
    pub(crate) parent: &'d Node,
    /// All parts of the parent.
    pub(crate) parts: Vec<Span>,
    /// The number of the part that is removed.
    pub(crate) at: usize,
}

/// What is removed with the part at a route: of the only part of a map or a list, the map or list itself under its key.
pub(crate) fn removed<'d>(document: &'d Document, route: &Route) -> Option<Removed<'d>> {
    let found = find(document, route)?;
    let parent = found.parent?;
    let parts = parts(parent);
    let own = found.key.map_or(found.node.span.start, |key| key.start);
    let at = parts.iter().position(|part| part.start == own)?;
    if parts.len() > 1 {
        return Some(Removed {
            found,
            parent,
            parts,
            at,
        });
    }
    let mut up = route.clone();
    up.0.pop();
    let is_key = matches!(up.0.last(), Some(Step::Key(_)));
    is_key.then(|| removed(document, &up)).flatten()
}

/// Whether there may be a comment, an anchor, an alias or a tag, which must not be lost.
pub(super) fn has_mark(text: &str) -> bool {
    text.split([' ', '\n', '\t', ',', '[', '{'])
        .any(|word| word.starts_with(['#', '&', '*', '!']))
}

/// Whether the map or the list is written in brackets. Without them, it begins where its first part does.
pub(crate) fn is_flow(text: &str, node: &Node) -> bool {
    let first = parts(node).first().map_or(usize::MAX, |part| part.start);
    text[node.span.start..].starts_with(['{', '[']) && node.span.start < first
}

/// The bytes of the parts of a map or a list that are written in it, in the order of the text.
pub(crate) fn parts(parent: &Node) -> Vec<Span> {
    let inside = |span: &Span| parent.span.start <= span.start && span.end <= parent.span.end;
    match &parent.content {
        Content::Mapping(entries) => {
            let spans = entries
                .iter()
                .map(|entry| Span::new(entry.key_span.start, entry.value.span.end.max(entry.key_span.end)));
            let mut spans: Vec<Span> = spans.filter(inside).collect();
            spans.sort();
            spans
        }
        Content::Sequence(items) => items.iter().map(|item| item.span).filter(inside).collect(),
        Content::Scalar(_) => Vec::new(),
    }
}

/// The lines of these bytes, if nothing else is on them but indentation, the dash of an item, and a comment at the end.
fn whole_lines(text: &str, span: Span, is_item: bool) -> Option<Span> {
    let start = text[..span.start].rfind('\n').map_or(0, |at| at + 1);
    let before = text[start..span.start].trim_start_matches(['\u{feff}', ' ']);
    let is_own_item = before
        .strip_prefix('-')
        .is_some_and(|rest| rest.trim_matches(' ').is_empty());
    // An item is removed with its dash; a key behind a dash is not the whole item.
    let end = span.start + text[span.start..span.end].trim_end().len();
    let rest = text[end..].split('\n').next().unwrap_or_default();
    let after = rest.trim().trim_start_matches(':').trim_start();
    if !(before.is_empty() && !is_item || is_own_item && is_item) || !(after.is_empty() || after.starts_with('#')) {
        return None;
    }
    let end = (end + rest.len() + 1).min(text.len());
    let start = if start == 0 && text.starts_with('\u{feff}') {
        3
    } else {
        start
    };
    Some(Span::new(start, end))
}

/// Adds the items behind the last one of the list, on lines of their own if the last one has one.
fn appended(text: &str, document: &Document, route: &Route, items: &[String]) -> Option<(Span, String)> {
    let found = find(document, route)?;
    let last = *parts(found.node).last()?;
    let end = last.start + text[last.start..last.end].trim_end().len();
    if is_flow(text, found.node) {
        let items: String = items.iter().map(|item| format!(", {item}")).collect();
        return Some((Span::new(end, end), items));
    }
    let start = text[..last.start].rfind('\n').map_or(0, |at| at + 1);
    let before = text[start..last.start].trim_start_matches('\u{feff}');
    let is_alone = before.trim_start_matches(' ').trim_end_matches(' ') == "-";
    let line_end = end + text[end..].find('\n').unwrap_or(text.len() - end);
    let line_end = line_end - usize::from(text[..line_end].ends_with('\r'));
    let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let items: String = items.iter().map(|item| format!("{newline}{before}{item}")).collect();
    is_alone.then(|| (Span::new(line_end, line_end), items))
}

/// Adds the entry before the first key of the map.
fn addition(text: &str, document: &Document, route: &Route, entry: &str) -> Option<(Span, String)> {
    let found = find(document, route)?;
    let first = *parts(found.node).first()?;
    let at = Span::new(first.start, first.start);
    if is_flow(text, found.node) {
        return Some((at, format!("{entry}, ")));
    }
    let start = text[..first.start].rfind('\n').map_or(0, |at| at + 1);
    let before = text[start..first.start].trim_start_matches('\u{feff}');
    if !before.chars().all(|c| matches!(c, ' ' | '-')) {
        return None;
    }
    let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
    Some((at, format!("{entry}{newline}{}", " ".repeat(before.len()))))
}
