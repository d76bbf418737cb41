//! Converts the parser's positions to bytes, and its spans to the bytes that users expect.
//!
//! The parser counts characters. Its span of a value begins at the anchor; that of a quoted string ends after the
//! comment that follows; that of a block scalar begins below its header.

use saphyr_parser::ScalarStyle;

use crate::data::split_byte_order_mark;
use crate::source::Span;

/// A converter of character indexes to byte positions. Indexes arrive nearly in order, so each search starts at the last result.
pub(super) struct CharToByteConverter<'a> {
    text: &'a str,
    /// The bytes of the byte order mark, which the parser does not count.
    base: usize,
    ascii: bool,
    chars: usize,
    bytes: usize,
}

impl<'a> CharToByteConverter<'a> {
    /// Starts at the first character after a byte order mark.
    pub(super) fn new(text: &'a str) -> Self {
        let base = split_byte_order_mark(text).0.len();
        Self {
            text,
            base,
            ascii: text[base..].is_ascii(),
            chars: 0,
            bytes: base,
        }
    }

    /// Returns the byte position of the character with this index.
    pub(super) fn byte_at_char(&mut self, index: usize) -> usize {
        if self.ascii {
            return (self.base + index).min(self.text.len());
        }
        if index >= self.chars {
            let mut rest = self.text[self.bytes..].chars();
            let walked = rest.by_ref().take(index - self.chars).count();
            self.chars += walked;
            self.bytes = self.text.len() - rest.as_str().len();
        } else {
            let mut before = self.text[self.base..self.bytes].chars();
            let walked = before.by_ref().rev().take(self.chars - index).count();
            self.chars -= walked;
            self.bytes = self.base + before.as_str().len();
        }
        self.bytes
    }
}

/// Returns the span of a scalar with its quotes, without anchor, tag, header and following text. `decorated`: it has an anchor or a tag.
pub(super) fn find_scalar_span(text: &str, span: Span, style: ScalarStyle, decorated: bool) -> Span {
    let start = if decorated {
        skip_decorations(text, span)
    } else {
        span.start
    };
    let raw = &text[start..span.end];
    match style {
        ScalarStyle::Plain => Span::new(start, span.end),
        ScalarStyle::SingleQuoted => Span::new(start, start + single_quoted_length(raw)),
        ScalarStyle::DoubleQuoted => Span::new(start, start + double_quoted_length(raw)),
        ScalarStyle::Literal | ScalarStyle::Folded => {
            let header = if decorated || raw.starts_with(['|', '>']) && raw.trim_end().len() <= 3 {
                raw.find('\n').map_or(raw.len(), |at| at + 1)
            } else {
                0
            };
            let start = start + header + count_leading_blanks(&raw[header..]);
            Span::new(start, start.max(start + text[start..span.end].trim_end().len()))
        }
    }
}

/// Returns the start of a list or map without anchor and tag, and whether it begins with a bracket.
pub(super) fn find_collection_start(text: &str, span: Span, decorated: bool) -> (usize, bool) {
    if decorated {
        let start = skip_decorations(text, span);
        return (start, start < span.end && text[start..].starts_with(['[', '{']));
    }
    (span.start, span.start < span.end)
}

/// Returns the position after the anchors, tags, blanks and comments at the start of the span.
fn skip_decorations(text: &str, span: Span) -> usize {
    let mut rest = &text[span.start..span.end];
    loop {
        rest = rest.trim_start();
        rest = match rest.chars().next() {
            Some('&' | '!') => &rest[rest.find(char::is_whitespace).unwrap_or(rest.len())..],
            Some('#') => &rest[rest.find('\n').unwrap_or(rest.len())..],
            _ => return span.end - rest.len(),
        };
    }
}

/// Returns the number of bytes of blanks and line breaks at the start.
fn count_leading_blanks(raw: &str) -> usize {
    raw.len() - raw.trim_start_matches([' ', '\n', '\r']).len()
}

/// Returns the length of the string up to and including its closing quote.
fn single_quoted_length(raw: &str) -> usize {
    let mut quotes = raw.match_indices('\'').skip(1).map(|(at, _)| at);
    while let Some(at) = quotes.next() {
        if !raw[at + 1..].starts_with('\'') {
            return at + 1;
        }
        quotes.next();
    }
    raw.len()
}

/// Returns the length of the string up to and including its closing quote.
fn double_quoted_length(raw: &str) -> usize {
    let mut chars = raw.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => drop(chars.next()),
            '"' => return at + 1,
            _ => {}
        }
    }
    raw.len()
}
