//! Places in a text as a browser counts them: in code units of UTF-16.

use ensemble_language::source::{SourceText, Span};
use serde_json::{Value, json};

/// Index of the lines of a text: the byte and the UTF-16 code unit at which each starts.
pub(super) struct Utf16LineIndex<'t> {
    text: &'t str,
    lines: Vec<(usize, usize)>,
}

impl<'t> Utf16LineIndex<'t> {
    /// Builds the index.
    pub(super) fn new(text: &'t str) -> Self {
        let mut lines = vec![(0, 0)];
        let (mut byte, mut unit) = (0, 0);
        for line in text.split_inclusive('\n') {
            byte += line.len();
            unit += line.encode_utf16().count();
            lines.push((byte, unit));
        }
        Self { text, lines }
    }

    /// Converts a byte offset to an offset in UTF-16 code units. An offset beyond the end means the end.
    pub(super) fn utf16_offset(&self, byte: usize) -> usize {
        let byte = self.text.floor_char_boundary(byte);
        let line = self.lines.partition_point(|line| line.0 <= byte).saturating_sub(1);
        let (start, unit) = self.lines[line];
        unit + self.text[start..byte].encode_utf16().count()
    }

    /// Converts a span to `{start, end}` in code units.
    pub(super) fn range_json(&self, span: Span) -> Value {
        json!({"start": self.utf16_offset(span.start), "end": self.utf16_offset(span.end)})
    }
}

/// Converts a span to `{start, end, line, column}`.
pub(super) fn position_json(source: &SourceText, units: &Utf16LineIndex<'_>, span: Span) -> Value {
    let mut range = units.range_json(span);
    let place = source.line_column(span.start);
    range["line"] = place.line.into();
    range["column"] = place.column.into();
    range
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_beyond_the_first_plane_count_twice() {
        let units = Utf16LineIndex::new("é😀\nb\u{1F600}c");
        for (byte, unit) in [
            (0, 0),
            (2, 1),
            (3, 1),
            (6, 3),
            (7, 4),
            (8, 5),
            (12, 7),
            (13, 8),
            (99, 8),
        ] {
            assert_eq!(units.utf16_offset(byte), unit, "byte {byte}");
        }
        assert_eq!(Utf16LineIndex::new("").utf16_offset(3), 0);
    }
}
