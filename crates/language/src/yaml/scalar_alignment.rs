//! Converts a range of a scalar's value to the bytes of its spelling in the file.
//!
//! Both texts are read in parallel. A character of the value is either the next character of the file, an escape
//! sequence, or a line break that YAML folds into a space. Everything else in the file is layout and is skipped.

use crate::source::Span;

/// The style of a scalar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScalarNotation {
    Plain,
    Single,
    Double,
    Block,
}

/// Returns the span in `source` of the bytes `range` of the value `text`, which is written at `span`.
pub(crate) fn find_source_span(source: &str, span: Span, style: ScalarNotation, text: &str, range: Span) -> Span {
    let raw = &source[span.start..span.end];
    let start = text.floor_char_boundary(range.start.min(text.len()));
    let end = text.floor_char_boundary(range.end.min(text.len())).max(start);
    let mut walk = ScalarAligner::new(raw, style);
    for c in text[..start].chars() {
        walk.skip_char(c);
    }
    let Some(first) = text[start..].chars().next() else {
        return Span::new(span.start + walk.at, span.start + walk.at);
    };
    let (from, mut to) = walk.skip_char(first);
    if start == end {
        return Span::new(span.start + from, span.start + from);
    }
    for c in text[start..end].chars().skip(1) {
        to = walk.skip_char(c).1;
    }
    Span::new(span.start + from, span.start + to)
}

/// The position in the spelling of a scalar during a walk over its value.
struct ScalarAligner<'a> {
    raw: &'a str,
    style: ScalarNotation,
    at: usize,
}

impl<'a> ScalarAligner<'a> {
    /// Starts at the first character of the scalar, behind an opening quote.
    fn new(raw: &'a str, style: ScalarNotation) -> Self {
        let quoted = matches!(style, ScalarNotation::Single | ScalarNotation::Double) && raw.len() >= 2;
        // The closing quote is not part of the value.
        let raw = if quoted { &raw[..raw.len() - 1] } else { raw };
        Self {
            raw,
            style,
            at: usize::from(quoted),
        }
    }

    /// Skips the next character of the value, and returns the start and the end of its spelling.
    fn skip_char(&mut self, c: char) -> (usize, usize) {
        self.skip_layout(c);
        let start = self.at;
        // Blank lines above a block scalar are part of its value but precede its span.
        if self.style == ScalarNotation::Block
            && c.is_ascii_whitespace()
            && self.peek_char().is_some_and(|next| !next.is_ascii_whitespace())
        {
            return (start, start);
        }
        let width = self.char_width();
        self.at += width;
        (start, self.at)
    }

    /// Skips layout of the file until the character `c` of the value.
    fn skip_layout(&mut self, c: char) {
        while let Some(next) = self.peek_char() {
            let joined = self.style == ScalarNotation::Double && next == '\\' && self.follows_break();
            if joined {
                self.at += 1;
                self.skip_blanks();
                continue;
            }
            let folded = matches!(c, ' ' | '\n') && next == '\n';
            if next == c || folded || !next.is_ascii_whitespace() {
                return;
            }
            self.at += 1;
        }
    }

    /// Returns the next character of the file without moving.
    fn peek_char(&self) -> Option<char> {
        self.raw[self.at..].chars().next()
    }

    /// Returns whether a line break follows the backslash at this position.
    fn follows_break(&self) -> bool {
        self.raw[self.at + 1..].starts_with(['\n', '\r'])
    }

    /// Skips blanks and line breaks of the file.
    fn skip_blanks(&mut self) {
        let rest = &self.raw[self.at..];
        self.at += rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r']).len();
    }

    /// Returns the number of bytes of the spelling of the next character.
    fn char_width(&self) -> usize {
        let rest = &self.raw[self.at..];
        let Some(next) = rest.chars().next() else {
            return 0;
        };
        let width = match (self.style, next) {
            (ScalarNotation::Single, '\'') => 2,
            (ScalarNotation::Double, '\\') => match rest.chars().nth(1) {
                Some('x') => 4,
                Some('u') => 6,
                Some('U') => 10,
                Some(escaped) => 1 + escaped.len_utf8(),
                None => 1,
            },
            _ => next.len_utf8(),
        };
        rest.floor_char_boundary(width.min(rest.len()))
    }
}
