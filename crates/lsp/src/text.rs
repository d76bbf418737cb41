//! The text of an open file: positions of the protocol, and incremental edits.
//!
//! A position of the protocol is a line from 0 and a number of code units of an encoding. **Invariant:** every position has
//! a byte offset on a character boundary: one beyond the end of its line means the end of the line, one beyond the last
//! line means the end of the text.

use std::sync::Arc;

use ensemble_language::source::Span;
use lsp_types::{Position, Range, TextDocumentContentChangeEvent};

/// The code units in which a client counts columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ColumnEncoding {
    /// Code units of UTF-16: what every client knows.
    #[default]
    Utf16,
    /// Bytes of UTF-8.
    Utf8,
}

/// A text in an editor, with the starts of its lines.
#[derive(Debug, Clone)]
pub struct EditorText {
    text: Arc<str>,
    /// The byte offset at which each line starts.
    lines: Arc<[usize]>,
    encoding: ColumnEncoding,
}

impl EditorText {
    /// Creates a text whose columns are counted in this encoding.
    pub fn new(text: impl Into<Arc<str>>, encoding: ColumnEncoding) -> Self {
        let text: Arc<str> = text.into();
        let lines = list_line_starts(&text);
        Self { text, lines, encoding }
    }

    /// Returns the whole text.
    pub fn content(&self) -> &Arc<str> {
        &self.text
    }

    /// Converts a position of the protocol to a byte offset.
    pub fn offset_at(&self, position: Position) -> usize {
        let line = position.line as usize;
        let Some(&start) = self.lines.get(line) else {
            return self.text.len();
        };
        let line_text = &self.text[start..self.lines.get(line + 1).copied().unwrap_or(self.text.len())];
        let content = line_text.trim_end_matches(['\n', '\r']);
        let target_column = position.character as usize;
        let mut passed = 0;
        for (at, c) in content.char_indices() {
            let width = self.code_unit_count(c);
            // A position inside a character means its beginning.
            if passed + width > target_column {
                return start + at;
            }
            passed += width;
        }
        start + content.len()
    }

    /// Converts a byte offset to a position of the protocol. An offset beyond the end is treated as the end.
    pub fn position_at(&self, offset: usize) -> Position {
        let offset = self.text.floor_char_boundary(offset);
        let line = self.lines.partition_point(|&start| start <= offset) - 1;
        let before = &self.text[self.lines[line]..offset];
        let column: usize = before.chars().map(|c| self.code_unit_count(c)).sum();
        Position::new(to_saturated_u32(line), to_saturated_u32(column))
    }

    /// Returns the range of some bytes.
    pub fn range_for_span(&self, span: Span) -> Range {
        Range::new(self.position_at(span.start), self.position_at(span.end))
    }

    /// Returns the bytes of a range.
    pub fn span_for_range(&self, range: Range) -> Span {
        let (start, end) = (self.offset_at(range.start), self.offset_at(range.end));
        Span::new(start, end.max(start))
    }

    /// Returns the text after a change. A change without a range replaces the whole text.
    #[must_use]
    pub fn with_change(&self, change: &TextDocumentContentChangeEvent) -> Self {
        let Some(range) = change.range else {
            return Self::new(change.text.as_str(), self.encoding);
        };
        let Span { start, end } = self.span_for_range(range);
        let text = [&self.text[..start], &change.text, &self.text[end..]].concat();
        Self::new(text, self.encoding)
    }

    /// Returns the number of code units of the character in the encoding of the client.
    fn code_unit_count(&self, c: char) -> usize {
        match self.encoding {
            ColumnEncoding::Utf16 => c.len_utf16(),
            ColumnEncoding::Utf8 => c.len_utf8(),
        }
    }
}

/// Converts a count, limited to the largest `u32`.
fn to_saturated_u32(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Returns the start of each line. A line ends with `\n`, `\r\n` or `\r`.
fn list_line_starts(text: &str) -> Arc<[usize]> {
    let bytes = text.as_bytes();
    let ends = bytes.iter().enumerate().filter(|(at, byte)| match byte {
        b'\n' => true,
        b'\r' => bytes.get(at + 1) != Some(&b'\n'),
        _ => false,
    });
    std::iter::once(0).chain(ends.map(|(at, _)| at + 1)).collect()
}

#[cfg(test)]
mod tests;
