//! A text with a name, its lines, and positions in it.
//!
//! Other modules use *routes* (`agents[2].dependencies[0].condition`). A route becomes a span of bytes, and a span a
//! line and a column, only when a problem is shown.
//!
//! Invariant: a position stays a route or a byte range until a report needs a line and a column.

use crate::data::split_byte_order_mark;
use crate::names::is_identifier_char;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// A text with a name that users recognize: a path, or `<stdin>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceText {
    name: Arc<str>,
    text: Arc<str>,
    /// Byte offset at which each line starts; the first is 0, or 3 after a byte order mark.
    line_starts: Arc<[usize]>,
}

/// A range of bytes in a [`SourceText`]; `start <= end`, both on character boundaries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span {
    /// The first byte.
    pub start: usize,
    /// The byte after the last one.
    pub end: usize,
}

/// A line and a column for users: counted from 1, columns in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LineColumn {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

/// A step of a [`Route`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RouteStep {
    /// A key of a mapping.
    Key(Arc<str>),
    /// An item of a sequence, from 0.
    Index(usize),
}

/// The path from the root of a document to one of its nodes, independent of the layout of the text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Route(pub Vec<RouteStep>);

/// The part of the node at a route.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum NodePart {
    /// The value.
    #[default]
    Value,
    /// The key of the node.
    Key,
    /// A range of bytes of the value, without the quotes and escapes of YAML.
    Text(Span),
    /// A range of bytes of the source, for problems without a route: a syntax error, the second of two equal keys.
    Source(Span),
}

/// A symbolic location: a part of the node at a route.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RouteLocation {
    /// The node.
    pub route: Route,
    /// The part of the node.
    pub part: NodePart,
}

impl SourceText {
    /// Stores the text, and finds the starts of its lines.
    pub fn new(name: impl Into<Arc<str>>, text: impl Into<Arc<str>>) -> Self {
        let text: Arc<str> = text.into();
        let first = split_byte_order_mark(&text).0.len();
        let line_starts = std::iter::once(first)
            .chain(text.match_indices('\n').map(|(at, _)| at + 1))
            .collect();
        Self {
            name: name.into(),
            text,
            line_starts,
        }
    }

    /// Returns the name of the text for users.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the whole text.
    pub fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// Returns the line and column of a byte offset. An offset beyond the end is treated as the end.
    pub fn line_column(&self, offset: usize) -> LineColumn {
        let offset = self.floor_char_boundary(offset).max(self.line_starts[0]);
        let line = self.line_starts.partition_point(|&start| start <= offset);
        let start = self.line_starts[line - 1];
        LineColumn {
            line,
            column: self.text[start..offset].chars().count() + 1,
        }
    }

    /// Returns the text of the line with number `line` (from 1), without its line break. Returns an empty text for other numbers.
    pub fn line_text(&self, line: usize) -> &str {
        let Some(&start) = line.checked_sub(1).and_then(|at| self.line_starts.get(at)) else {
            return "";
        };
        let end = self.line_starts.get(line).copied().unwrap_or(self.text.len());
        self.text[start..end].trim_end_matches(['\n', '\r'])
    }

    /// Returns the span of the word that begins at this line and column, or of one character if there is no word.
    pub fn find_word_span(&self, place: LineColumn) -> Span {
        let line = self.line_text(place.line);
        let Some(&line_start) = place.line.checked_sub(1).and_then(|at| self.line_starts.get(at)) else {
            return Span::new(self.text.len(), self.text.len());
        };
        let before = line.chars().take(place.column.saturating_sub(1));
        let from = before.map(char::len_utf8).sum::<usize>();
        let following_text = &line[from..];
        let word = following_text
            .find(|c| !is_identifier_char(c))
            .unwrap_or(following_text.len());
        let length = word.max(following_text.chars().next().map_or(0, char::len_utf8));
        Span::new(line_start + from, line_start + from + length)
    }

    /// Returns the offset, or the nearest character boundary before it.
    fn floor_char_boundary(&self, offset: usize) -> usize {
        self.text.floor_char_boundary(offset)
    }
}

impl RouteLocation {
    /// Returns the location of a span of the source itself.
    pub fn from_source_span(span: Span) -> Self {
        Self {
            route: Route::root(),
            part: NodePart::Source(span),
        }
    }
}

impl Span {
    /// Creates the span from `start` up to, but not including, `end`.
    pub fn new(start: usize, end: usize) -> Self {
        Self { start, end }
    }
}

impl From<Range<usize>> for Span {
    fn from(range: Range<usize>) -> Self {
        Self::new(range.start, range.end)
    }
}

impl Route {
    /// Returns the route of the root of the document.
    pub fn root() -> Self {
        Self::default()
    }

    /// Returns this route followed by a key.
    #[must_use]
    pub fn with_key(&self, key: impl Into<Arc<str>>) -> Self {
        self.with_step(RouteStep::Key(key.into()))
    }

    /// Returns this route followed by an index.
    #[must_use]
    pub fn with_index(&self, index: usize) -> Self {
        self.with_step(RouteStep::Index(index))
    }

    /// Returns this route followed by a step.
    fn with_step(&self, step: RouteStep) -> Self {
        let mut steps = Vec::with_capacity(self.0.len() + 1);
        steps.extend_from_slice(&self.0);
        steps.push(step);
        Self(steps)
    }

    /// Returns the location of the value at this route.
    pub fn into_value_location(self) -> RouteLocation {
        RouteLocation {
            route: self,
            part: NodePart::Value,
        }
    }

    /// Returns the location of the key of the node at this route.
    pub fn into_key_location(self) -> RouteLocation {
        RouteLocation {
            route: self,
            part: NodePart::Key,
        }
    }

    /// Returns the location of a span of the text at this route.
    pub fn into_text_location(self, span: Span) -> RouteLocation {
        RouteLocation {
            route: self,
            part: NodePart::Text(span),
        }
    }
}

/// `agents[2].dependencies[0].condition`; the root is `the document`.
impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("the document");
        }
        for (at, step) in self.0.iter().enumerate() {
            match step {
                RouteStep::Key(key) if at == 0 => f.write_str(key)?,
                RouteStep::Key(key) => write!(f, ".{key}")?,
                RouteStep::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_lines_and_characters_from_one() {
        let source = SourceText::new("x", "ab\r\né→z\n");
        for (offset, line, column) in [(0, 1, 1), (1, 1, 2), (4, 2, 1), (6, 2, 2), (9, 2, 3), (99, 3, 1)] {
            assert_eq!(
                source.line_column(offset),
                LineColumn { line, column },
                "offset {offset}"
            );
        }
        assert_eq!(
            source.line_column(5),
            LineColumn { line: 2, column: 1 },
            "inside a character"
        );
        assert_eq!(
            (
                source.line_text(1),
                source.line_text(2),
                source.line_text(3),
                source.line_text(9)
            ),
            ("ab", "é→z", "", "")
        );
    }

    #[test]
    fn a_byte_order_mark_is_no_column() {
        let source = SourceText::new("x", "\u{feff}ab\nc");
        for (offset, line, column) in [(0, 1, 1), (3, 1, 1), (4, 1, 2), (6, 2, 1)] {
            assert_eq!(
                source.line_column(offset),
                LineColumn { line, column },
                "offset {offset}"
            );
        }
        assert_eq!(source.line_text(1), "ab");
    }

    #[test]
    fn routes_read_as_people_write_them() {
        let route = Route::root().with_key("agents").with_index(2).with_key("name");
        assert_eq!(route.to_string(), "agents[2].name");
        assert_eq!(Route::root().to_string(), "the document");
    }
}
