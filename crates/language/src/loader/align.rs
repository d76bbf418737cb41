//! From a range of a scalar's text, as it reads, back to the bytes in which it was written.
//!
//! Both are walked side by side. A character of the text is either the next one written, an escape, or a
//! line break that folding has turned into a space; everything else written is layout and is passed over.

use crate::source::Span;

/// How a scalar was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Single,
    Double,
    Block,
}

/// The bytes of `range` of `text`, which was written at `span` of `source`.
pub(super) fn source_span(source: &str, span: Span, style: Style, text: &str, range: Span) -> Span {
    let raw = &source[span.start..span.end];
    let start = text.floor_char_boundary(range.start.min(text.len()));
    let end = text.floor_char_boundary(range.end.min(text.len())).max(start);
    let mut walk = Walk::new(raw, style);
    for c in text[..start].chars() {
        walk.take(c);
    }
    let Some(first) = text[start..].chars().next() else {
        return Span::new(span.start + walk.at, span.start + walk.at);
    };
    let (from, mut to) = walk.take(first);
    if start == end {
        return Span::new(span.start + from, span.start + from);
    }
    for c in text[start..end].chars().skip(1) {
        to = walk.take(c).1;
    }
    Span::new(span.start + from, span.start + to)
}

struct Walk<'a> {
    raw: &'a str,
    style: Style,
    at: usize,
}

impl<'a> Walk<'a> {
    fn new(raw: &'a str, style: Style) -> Self {
        let quoted = matches!(style, Style::Single | Style::Double) && raw.len() >= 2;
        // The closing quote is no text.
        let raw = if quoted { &raw[..raw.len() - 1] } else { raw };
        Self {
            raw,
            style,
            at: usize::from(quoted),
        }
    }

    /// Passes over the next character of the text; its bytes in the raw text.
    fn take(&mut self, c: char) -> (usize, usize) {
        self.pass_layout(c);
        let start = self.at;
        // Blank lines above a block text are part of it and stand before its span.
        if self.style == Style::Block
            && c.is_ascii_whitespace()
            && self.next().is_some_and(|next| !next.is_ascii_whitespace())
        {
            return (start, start);
        }
        let width = self.width();
        self.at += width;
        (start, self.at)
    }

    /// Passes over what was written and is not `c`.
    fn pass_layout(&mut self, c: char) {
        while let Some(next) = self.next() {
            let joined = self.style == Style::Double && next == '\\' && self.follows_break();
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

    fn next(&self) -> Option<char> {
        self.raw[self.at..].chars().next()
    }

    /// After a backslash: is the line at its end?
    fn follows_break(&self) -> bool {
        self.raw[self.at + 1..].starts_with(['\n', '\r'])
    }

    fn skip_blanks(&mut self) {
        let rest = &self.raw[self.at..];
        self.at += rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r']).len();
    }

    /// How many bytes the next character of the text takes up.
    fn width(&self) -> usize {
        let rest = &self.raw[self.at..];
        let Some(next) = rest.chars().next() else {
            return 0;
        };
        let width = match (self.style, next) {
            (Style::Single, '\'') => 2,
            (Style::Double, '\\') => match rest.chars().nth(1) {
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
