//! The lines of a text.

use crate::data::split_byte_order_mark;

/// A text with its line breaks.
#[derive(Clone, Copy)]
pub(super) struct TextLines<'t> {
    pub(super) text: &'t str,
    /// The line break of the text.
    pub(super) newline: &'static str,
}

impl<'t> TextLines<'t> {
    /// Uses `\r\n` as the line break if the text contains it.
    pub(super) fn new(text: &'t str) -> Self {
        let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
        Self { text, newline }
    }

    /// Returns the start of the line. A byte order mark is not part of a line.
    pub(super) fn line_start(&self, at: usize) -> usize {
        let start = self.text[..at].rfind('\n').map_or(0, |at| at + 1);
        start.max(split_byte_order_mark(self.text).0.len())
    }

    /// Returns the end of the line, without its line break.
    pub(super) fn line_end(&self, at: usize) -> usize {
        let end = self.text[at..].find('\n').map_or(self.text.len(), |line| at + line);
        self.text[..end].strip_suffix('\r').map_or(end, str::len).max(at)
    }

    /// Returns the start of the next line, or the end of the text.
    pub(super) fn next_line_start(&self, at: usize) -> usize {
        self.text[at..].find('\n').map_or(self.text.len(), |line| at + line + 1)
    }

    /// Returns the number of characters before `at` in its line.
    pub(super) fn column_at(&self, at: usize) -> usize {
        self.line_before(at).chars().count()
    }

    /// Returns the part of the line before `at`.
    pub(super) fn line_before(&self, at: usize) -> &'t str {
        &self.text[self.line_start(at).min(at)..at]
    }

    /// Returns whether the line that begins at `start` is blank.
    pub(super) fn is_blank_line(&self, start: usize) -> bool {
        self.text[start..self.line_end(start)].trim().is_empty()
    }
}
