//! The new file before it is written: values with their places in the old file, and the parts that were not converted.

use serde_json::Value;

use ensemble_language::loader::document::Entry;
use ensemble_language::source::{Source, Span};
use ensemble_language::yaml::edit::is_odd;

/// A map of the new file.
#[derive(Debug, Clone, Default)]
pub(super) struct Map {
    pub(super) lines: Vec<Line>,
}

/// An entry of a map.
#[derive(Debug, Clone)]
pub(super) enum Line {
    /// A key and its value; `from` is the old key.
    Entry {
        key: String,
        value: Shape,
        from: Option<Span>,
    },
    /// A part that was not converted.
    Lost(Lost),
    /// An old key that is written elsewhere; the comments above it are written here.
    Pass(Span),
}

/// A value of the new file.
#[derive(Debug, Clone)]
pub(super) enum Shape {
    Plain(Value),
    Map(Map),
    /// The items, each with its place in the old file.
    List(Vec<(Shape, Option<Span>)>),
}

/// A comment in place of a part.
#[derive(Debug, Clone)]
pub(super) struct Lost {
    /// The old key.
    pub(super) from: Span,
    /// The range of the old file that it covers; comments in this range are part of the text.
    pub(super) covers: Span,
    /// The lines of the comment.
    pub(super) lines: Vec<String>,
}

impl Lost {
    /// A key that is not converted: the reason, the replacement, and the text of the key.
    pub(super) fn of(source: &Source, entry: &Entry, why: &str, instead: &str) -> Self {
        let covers = Span::new(entry.key_span.start, entry.value.span.end.max(entry.key_span.end));
        // An alias is at another place than its value.
        let covers = if entry.value.span.start < entry.key_span.end {
            entry.key_span
        } else {
            covers
        };
        let mut lines = vec![format!("not converted: {why}"), format!("  {instead}")];
        let column = source.place(covers.start).column - 1;
        for line in source.text()[covers.start..covers.end].trim_end().lines() {
            let blanks = line.chars().take_while(|c| *c == ' ').take(column).count();
            lines.push(format!("  | {}", line[blanks..].trim_end()));
        }
        Self {
            from: entry.key_span,
            covers,
            lines: lines.iter().map(|line| one_line(line)).collect(),
        }
    }
}

/// A note, as a comment near a place of the old file.
#[derive(Debug, Clone)]
pub(super) struct Remark {
    /// The byte in the old file; beyond its end for places in other files.
    pub(super) at: usize,
    pub(super) lines: Vec<String>,
}

impl Remark {
    /// Creates the remark about a finding: the problem, and its solution.
    pub(super) fn of(at: usize, message: &str, help: &str) -> Self {
        Self {
            at,
            lines: vec![
                one_line(&format!("look at this: {message}")),
                one_line(&format!("  {help}")),
            ],
        }
    }
}

/// Removes characters that would end the comment, or that YAML does not allow.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if is_odd(c) { ' ' } else { c }).collect()
}

impl Map {
    /// Adds a plain value.
    pub(super) fn put(&mut self, key: &str, value: impl Into<Value>, from: Option<Span>) {
        self.lines.push(Line::entry(key, Shape::Plain(value.into()), from));
    }

    /// Adds any value.
    pub(super) fn entry(&mut self, key: &str, value: Shape, from: Span) {
        self.lines.push(Line::entry(key, value, Some(from)));
    }

    pub(super) fn lose(&mut self, lost: Lost) {
        self.lines.push(Line::Lost(lost));
    }

    /// The value under a key.
    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut Shape> {
        self.lines.iter_mut().find_map(|line| match line {
            Line::Entry { key, value, .. } if key == name => Some(value),
            _ => None,
        })
    }

    /// The place of a key.
    pub(super) fn position(&self, name: &str) -> Option<usize> {
        self.lines
            .iter()
            .position(|line| matches!(line, Line::Entry { key, .. } if key == name))
    }
}

impl Line {
    pub(super) fn entry(key: &str, value: Shape, from: Option<Span>) -> Self {
        Self::Entry {
            key: key.to_owned(),
            value,
            from,
        }
    }
}
