//! Texts without their escapes, in which each byte knows its place in the text with escapes.

use std::ops::Range;

/// Notation in which programs write characters as escapes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EscapeKind {
    /// `\n`, `\"`, `\u00e9`, `\u{e9}`, `\x41`: JSON and strings of programming languages.
    Backslash,
    /// `%41`: addresses.
    Percent,
    /// `+` for a space, beside `%41`: forms.
    Form,
    /// `&amp;`, `&#65;`: HTML and XML.
    Entity,
}

/// Text without escapes, with the position of each byte in the original text.
#[derive(Debug, Clone)]
pub(super) struct UnescapedText {
    pub(super) bytes: Vec<u8>,
    /// The place of each byte in the original text.
    places: Vec<Range<usize>>,
}

impl UnescapedText {
    /// Creates the text from an original text, whose escapes are kept.
    pub(super) fn from_text(text: &str) -> Self {
        Self {
            bytes: text.as_bytes().to_vec(),
            places: (0..text.len()).map(|place| place..place + 1).collect(),
        }
    }

    /// Returns the bytes as text. Returns `None` for invalid UTF-8.
    pub(super) fn to_utf8(&self) -> Option<&str> {
        std::str::from_utf8(&self.bytes).ok()
    }

    /// Returns the range in the original text for a non-empty range of bytes.
    pub(super) fn original_range(&self, start: usize, end: usize) -> Range<usize> {
        self.places[start].start..self.places[end - 1].end
    }

    /// Removes line breaks and the blanks around them, because programs break long lines of digits. Returns `None` for one line.
    pub(super) fn join_lines(&self) -> Option<Self> {
        if !self.bytes.contains(&b'\n') {
            return None;
        }
        let mut joined = Self {
            bytes: Vec::with_capacity(self.bytes.len()),
            places: Vec::with_capacity(self.places.len()),
        };
        let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r');
        let mut is_line_start = false;
        for (byte, place) in self.bytes.iter().zip(&self.places) {
            if *byte == b'\n' {
                let kept = joined.bytes.iter().rposition(|byte| !is_blank(byte));
                joined.bytes.truncate(kept.map_or(0, |at| at + 1));
                joined.places.truncate(joined.bytes.len());
                is_line_start = true;
            } else if !is_line_start || !is_blank(byte) {
                joined.bytes.push(*byte);
                joined.places.push(place.clone());
                is_line_start = false;
            }
        }
        Some(joined)
    }

    /// Replaces the escapes of this kind by the characters. Returns `None` without such escapes.
    pub(super) fn decode_escapes(&self, kind: EscapeKind) -> Option<Self> {
        let marks: &[u8] = match kind {
            EscapeKind::Backslash => b"\\",
            EscapeKind::Percent => b"%",
            EscapeKind::Form => b"+",
            EscapeKind::Entity => b"&",
        };
        if !self.bytes.iter().any(|byte| marks.contains(byte)) {
            return None;
        }
        let mut decoded = Self {
            bytes: Vec::with_capacity(self.bytes.len()),
            places: Vec::with_capacity(self.places.len()),
        };
        let mut at = 0;
        let mut has_changed = false;
        while let Some(byte) = self.bytes.get(at) {
            let read = match (kind, byte) {
                (EscapeKind::Backslash, b'\\') => decode_backslash_escape(&self.bytes[at..]),
                (EscapeKind::Percent | EscapeKind::Form, b'%') => decode_percent_escape(&self.bytes[at..]),
                (EscapeKind::Form, b'+') => Some((' ', 1).into()),
                (EscapeKind::Entity, b'&') => decode_html_entity(&self.bytes[at..]),
                _ => None,
            };
            let length = match read {
                Some(escape) => {
                    has_changed = true;
                    decoded.bytes.extend_from_slice(&escape.bytes);
                    let place = self.original_range(at, at + escape.length);
                    decoded.places.extend(escape.bytes.iter().map(|_| place.clone()));
                    escape.length
                }
                None => {
                    decoded.bytes.push(*byte);
                    decoded.places.push(self.places[at].clone());
                    1
                }
            };
            at += length;
        }
        has_changed.then_some(decoded)
    }
}

/// Decoded bytes of an escape, and the length of the escape in the text.
struct DecodedEscape {
    bytes: Vec<u8>,
    length: usize,
}

impl From<(char, usize)> for DecodedEscape {
    fn from((character, length): (char, usize)) -> Self {
        Self {
            bytes: character.to_string().into_bytes(),
            length,
        }
    }
}

/// Decodes the backslash escape at the start of the text. Returns `None` for other text.
fn decode_backslash_escape(text: &[u8]) -> Option<DecodedEscape> {
    let plain = match text.get(1)? {
        b'n' => '\n',
        b't' => '\t',
        b'r' => '\r',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'u' => return decode_unicode_escape(text),
        b'x' => return Some((decode_hex_character(text.get(2..4)?)?, 4).into()),
        other if other.is_ascii_punctuation() => char::from(*other),
        _ => return None,
    };
    Some((plain, 2).into())
}

/// Decodes `\u00e9`, a pair of such escapes for one character, or `\u{e9}`.
fn decode_unicode_escape(text: &[u8]) -> Option<DecodedEscape> {
    if text.get(2) == Some(&b'{') {
        let end = text.iter().take(12).position(|byte| *byte == b'}')?;
        return Some((decode_hex_character(&text[3..end])?, end + 1).into());
    }
    let unit =
        |at: usize| -> Option<u16> { u16::from_str_radix(std::str::from_utf8(text.get(at..at + 4)?).ok()?, 16).ok() };
    let first = unit(2)?;
    if let Some(character) = char::from_u32(u32::from(first)) {
        return Some((character, 6).into());
    }
    let second = (text.get(6..8)? == b"\\u").then(|| unit(8))??;
    let character = char::decode_utf16([first, second]).next()?.ok()?;
    Some((character, 12).into())
}

/// Parses hexadecimal digits as a character.
fn decode_hex_character(digits: &[u8]) -> Option<char> {
    char::from_u32(u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?)
}

/// Decodes a percent escape to one byte, which can be a part of a character.
fn decode_percent_escape(text: &[u8]) -> Option<DecodedEscape> {
    let digits = text
        .get(1..3)
        .filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
    let byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    Some(DecodedEscape {
        bytes: vec![byte],
        length: 3,
    })
}

/// Decodes the HTML entity at the start of the text.
fn decode_html_entity(text: &[u8]) -> Option<DecodedEscape> {
    let end = text.iter().take(10).position(|byte| *byte == b';')?;
    let name = std::str::from_utf8(&text[1..end]).ok()?;
    let character = match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        "nbsp" => '\u{a0}',
        _ => {
            let number = name.strip_prefix('#')?;
            match number.strip_prefix(['x', 'X']) {
                Some(digits) => decode_hex_character(digits.as_bytes())?,
                None => char::from_u32(number.parse().ok()?)?,
            }
        }
    };
    Some((character, end + 1).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_joined_and_bytes_keep_their_places() {
        let text = "ab \r\n\t cd\n\nef\n";
        let joined = UnescapedText::from_text(text).join_lines().expect("it has lines");
        assert_eq!(joined.to_utf8(), Some("abcdef"));
        assert_eq!(&text[joined.original_range(1, 5)], "b \r\n\t cd\n\ne");
        // The end of the last line does not belong to the text.
        assert_eq!(joined.original_range(4, 6), 11..13);
        assert!(UnescapedText::from_text("one line ").join_lines().is_none());
    }

    #[test]
    fn escapes_are_undone_and_bytes_keep_their_places() {
        let rows = [
            (
                EscapeKind::Backslash,
                r#"a\"b\\c\né\u00e9\ud83d\ude00\u{41}\x42\/\q"#,
                "a\"b\\c\néé😀AB/\\q",
            ),
            (EscapeKind::Percent, "a%2Fb%c3%A9%zz%", "a/bé%zz%"),
            (EscapeKind::Form, "a+b%2B", "a b+"),
            (EscapeKind::Entity, "a&amp;&#65;&#x42;&lt;&no;&", "a&AB<&no;&"),
        ];
        for (kind, text, expected) in rows {
            let decoded = UnescapedText::from_text(text)
                .decode_escapes(kind)
                .expect("it has escapes");
            assert_eq!(decoded.to_utf8(), Some(expected));
            assert_eq!(decoded.original_range(0, decoded.bytes.len()), 0..text.len());
        }
        let decoded = UnescapedText::from_text(r"ab\u0041c")
            .decode_escapes(EscapeKind::Backslash)
            .expect("it has escapes");
        assert_eq!(decoded.original_range(2, 3), 2..8);
        assert!(
            UnescapedText::from_text("plain")
                .decode_escapes(EscapeKind::Backslash)
                .is_none()
        );
        assert!(
            UnescapedText::from_text("100% & more")
                .decode_escapes(EscapeKind::Percent)
                .is_none()
        );
    }
}
