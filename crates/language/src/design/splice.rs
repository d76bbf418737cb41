//! One change of one place of a text. Everything else stays, byte for byte.

use serde_json::Value;

use super::comments;
use super::wish::Step;
use super::yaml;
use crate::fix::apply;
use crate::loader::document::{Content, Node};
use crate::loader::{Document, Found, Removed, block_header, end_of, find, is_flow, parts, removed, rewritten};
use crate::source::{Route, Source, Span};

/// The text after the step; `None`: the place is not written as it must be.
pub(super) fn performed(source: &Source, document: &Document, step: &Step) -> Option<String> {
    let text = Text {
        text: source.text(),
        document,
        newline: if source.text().contains("\r\n") { "\r\n" } else { "\n" },
    };
    let edits = match step {
        Step::Append(route, item) => text.append(route, item)?,
        Step::Add(route, key, value) => text.add(route, key, value)?,
        Step::Remove(route) => vec![text.removal(route)?],
        Step::Replace(route, value) => vec![(find(document, route)?.node.span, yaml::flow(value, true))],
        Step::Rekey(route, key) => vec![(find(document, route)?.key?, key.clone())],
        Step::Rewrite(route, new) => {
            let found = find(document, route)?;
            match &found.node.content {
                Content::Scalar(scalar) if scalar.is_plain() && !found.node.is_omitted() => {
                    vec![(found.node.span, yaml::spelt(new, text.is_in_brackets(route)))]
                }
                _ => {
                    let fix = rewritten(source, document, route, &Value::from(new.as_str()))?;
                    return Some(apply(source.text(), [&fix]).0);
                }
            }
        }
    };
    Some(spliced(source.text(), edits))
}

fn spliced(text: &str, mut edits: Vec<(Span, String)>) -> String {
    edits.sort_by_key(|(span, _)| *span);
    let mut new = String::with_capacity(text.len() + 100);
    let mut at = 0;
    for (span, replacement) in edits {
        new.push_str(&text[at..span.start]);
        new.push_str(&replacement);
        at = span.end;
    }
    new.push_str(&text[at..]);
    new
}

type Edits = Vec<(Span, String)>;

struct Text<'t> {
    text: &'t str,
    document: &'t Document,
    newline: &'static str,
}

impl Text<'_> {
    fn append(&self, route: &Route, item: &Value) -> Option<Edits> {
        let found = find(self.document, route)?;
        let node = found.node;
        if node.is_omitted() {
            let column = self.column(found.key?.start);
            let at = self.line_end(found.key?.end);
            return Some(vec![self.lines(at, column + 2, &yaml::item(item))]);
        }
        let Some(last) = node.items()?.last() else {
            return self.first_part(node, &yaml::flow(item, true));
        };
        if is_flow(self.text, node) {
            return self.one_more_part(node, &yaml::flow(item, true));
        }
        let dash = node.items()?.iter().rev().find_map(|item| self.dash(item))?;
        let is_braced = is_flow(self.text, last) && matches!(last.content, Content::Mapping(_));
        let lines = match is_braced {
            true => vec![format!("- {}", yaml::flow(item, true))],
            false => yaml::item(item),
        };
        let at = self.behind(node, dash + 1)?;
        let mut lines = self.lines(at, dash, &lines);
        if self.has_gaps(node) {
            lines.1.insert_str(0, self.newline);
        }
        Some(vec![lines])
    }

    fn add(&self, route: &Route, key: &str, value: &Value) -> Option<Edits> {
        let node = find(self.document, route).map_or(self.document.root(), |found: Found<'_>| found.node);
        let Content::Mapping(entries) = &node.content else {
            return None;
        };
        let flow = || format!("{key}: {}", yaml::flow(value, true));
        if entries.is_empty() {
            return self.first_part(node, &flow());
        }
        if is_flow(self.text, node) {
            return self.one_more_part(node, &flow());
        }
        let column = self.column(parts(node).first()?.start);
        let at = self.behind(node, column)?;
        Some(vec![self.lines(at, column, &yaml::entry(key, value))])
    }

    /// The first part of a list or a map in brackets.
    fn first_part(&self, node: &Node, part: &str) -> Option<Edits> {
        let is_bracketed = self.text[node.span.start..].starts_with(['[', '{']);
        let at = node.span.start + 1;
        is_bracketed.then(|| vec![(Span::new(at, at), part.to_owned())])
    }

    /// One more part in brackets, on a line of its own if the last one has one.
    fn one_more_part(&self, node: &Node, part: &str) -> Option<Edits> {
        let last = *parts(node).last()?;
        let start = self.line_start(last.start);
        let is_alone = self.text[start..last.start].trim().is_empty() && node.span.start < start;
        if !is_alone {
            return Some(vec![(Span::new(last.end, last.end), format!(", {part}"))]);
        }
        let has_comma = self.text[last.end..].trim_start().starts_with(',');
        let at = self.line_end(last.end);
        let comma = if has_comma { "," } else { "" };
        let indent = &self.text[start..last.start];
        let line = (Span::new(at, at), format!("{}{indent}{part}{comma}", self.newline));
        match has_comma {
            true => Some(vec![line]),
            false => Some(vec![(Span::new(last.end, last.end), ",".to_owned()), line]),
        }
    }

    /// Whether a blank line stands between the last two items of a list.
    fn has_gaps(&self, node: &Node) -> bool {
        let Some([.., before, last]) = node.items() else {
            return false;
        };
        let between = end_of(self.text, before)..self.line_start(last.span.start);
        let between = self.text.get(between).unwrap_or_default();
        between.contains("\n\n") || between.contains("\n\r\n")
    }

    /// Lines to be inserted at the end of a line.
    fn lines(&self, at: usize, column: usize, lines: &[String]) -> (Span, String) {
        let indent = " ".repeat(column);
        let lines = lines.iter().map(|line| format!("{}{indent}{line}", self.newline));
        (Span::new(at, at), lines.collect())
    }

    /// The end of the last line of a block, with the comments behind it that are indented at least so far.
    fn behind(&self, node: &Node, column: usize) -> Option<usize> {
        let leaf = last_leaf(node);
        if let Some(header) = block_header(self.text, leaf)
            && self.text[header..leaf.span.start].contains('+')
        {
            // Its blank lines belong to it.
            let mut at = self.line_end(end_of(self.text, leaf));
            while self.after_line(at) < self.text.len() && self.is_blank(self.after_line(at)) {
                at = self.line_end(self.after_line(at));
            }
            return Some(at);
        }
        let mut at = self.line_end(end_of(self.text, node));
        let mut next = at;
        while let Some(rest) = self.text[next..].find('\n').map(|line| next + line + 1) {
            let end = self.line_end(rest);
            let line = &self.text[rest..end];
            let indent = line.len() - line.trim_start_matches(' ').len();
            match line.trim_start_matches(' ').chars().next() {
                None => {}
                Some('#') if indent >= column => at = end,
                Some(_) => break,
            }
            next = end;
        }
        Some(at)
    }

    /// The column of the dash of an item.
    fn dash(&self, item: &Node) -> Option<usize> {
        let start = self.line_start(item.span.start);
        let before = &self.text[start..item.span.start];
        let is_own = before.trim_start_matches(' ').trim_end_matches(' ') == "-";
        is_own.then(|| before.find('-'))?
    }

    fn removal(&self, route: &Route) -> Option<(Span, String)> {
        let Removed {
            found,
            parent,
            parts,
            at,
        } = removed(self.document, route)?;
        let part = parts[at];
        if is_flow(self.text, parent) {
            let before = at.checked_sub(1).map(|at| parts[at]);
            let span = match (parts.get(at + 1), before) {
                (Some(next), _) => Span::new(part.start, next.start),
                (None, Some(before)) => Span::new(before.end, part.end),
                (None, None) => return None,
            };
            return Some((span, String::new()));
        }
        let column = match found.key {
            Some(key) => self.column(key.start),
            None => self.dash(found.node)?,
        };
        let start = self.line_start(part.start);
        let before = self.text[start..part.start].trim_start_matches('\u{feff}');
        if found.key.is_some() && !before.trim_start_matches(' ').is_empty() {
            // The first key of an item stands behind its dash, where the next key takes its place.
            let next = parts.get(at + 1)?;
            return Some((Span::new(part.start, next.start), String::new()));
        }
        let end = self.line_end(
            end_of(self.text, found.node)
                .max(part.start)
                .max(found.key.map_or(0, |key| key.end)),
        );
        let start = start
            + if start == 0 && self.text.starts_with('\u{feff}') {
                3
            } else {
                0
            };
        let kept = comments::spans(self.document).into_iter();
        let kept = kept.filter(|comment| start <= comment.start && comment.end <= end);
        let kept: Vec<String> = kept
            .map(|comment| format!("{}{}", " ".repeat(column), &self.text[comment.start..comment.end]))
            .collect();
        let span = Span::new(start, self.after_line(end));
        if kept.is_empty() {
            return Some((self.with_gap(span, at + 1 == parts.len()), String::new()));
        }
        let break_behind = &self.text[end..span.end];
        Some((span, kept.join(self.newline) + break_behind))
    }

    /// The lines with the blank line before them, if another one or nothing follows, or nothing of the same list.
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

    /// Whether brackets are around the value at the route.
    fn is_in_brackets(&self, route: &Route) -> bool {
        (0..route.0.len()).any(|length| {
            let node = self.document.get(&Route(route.0[..length].to_vec()));
            node.is_some_and(|node| is_flow(self.text, node))
        })
    }

    /// Whether the line that begins here is empty.
    fn is_blank(&self, start: usize) -> bool {
        self.text[start..self.line_end(start)].trim().is_empty()
    }

    /// Where the line begins.
    fn line_start(&self, at: usize) -> usize {
        self.text[..at].rfind('\n').map_or(0, |at| at + 1)
    }

    /// Where the line ends, without its line break.
    fn line_end(&self, at: usize) -> usize {
        let end = self.text[at..].find('\n').map_or(self.text.len(), |line| at + line);
        self.text[..end].strip_suffix('\r').map_or(end, str::len).max(at)
    }

    /// Where the next line begins.
    fn after_line(&self, at: usize) -> usize {
        self.text[at..].find('\n').map_or(self.text.len(), |line| at + line + 1)
    }

    /// The number of characters before it in its line.
    fn column(&self, at: usize) -> usize {
        let before = &self.text[self.line_start(at)..at];
        before.trim_start_matches('\u{feff}').chars().count()
    }
}

/// The last scalar that is written in a node.
fn last_leaf(node: &Node) -> &Node {
    let last = match &node.content {
        Content::Scalar(_) => None,
        Content::Sequence(items) => items.iter().max_by_key(|item| item.span.start).map(|item| &**item),
        Content::Mapping(entries) => {
            let last = entries.iter().max_by_key(|entry| entry.key_span.start);
            last.map(|entry| &*entry.value)
        }
    };
    last.filter(|last| node.span.start <= last.span.start)
        .map_or(node, last_leaf)
}
