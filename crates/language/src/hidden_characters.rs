//! Texts of others, for a person to read: characters that a terminal obeys, that cannot be seen, or that change the
//! direction of the text are spelt out.
//!
//! Invariant: a text that is spelt out once stays as it is when it is spelt out again.

use std::borrow::Cow;

/// Returns whether the character is invisible, controls a terminal or changes the direction of text. Line breaks and tabs count.
pub fn is_hidden_character(character: char) -> bool {
    !character.is_ascii() && is_hidden_beyond_ascii(character) || character.is_ascii_control()
}

/// Returns whether a character beyond ASCII is hidden.
fn is_hidden_beyond_ascii(character: char) -> bool {
    matches!(character,
        // C1, the soft hyphen, joiners, letters without a shape, and marks of the direction.
        '\u{80}'..='\u{9f}' | '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
        // Tags, and variants of the characters before them.
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Returns the length of the start of the text that consists of visible ASCII characters, blanks, tabs and line breaks.
pub fn plain_ascii_prefix_length(text: &str) -> usize {
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'~' | b'\n' | b'\t');
    let bytes = text.as_bytes().iter();
    bytes.take_while(|byte| is_plain(byte)).count()
}

/// Escapes every hidden character, including line breaks, so that the text is one line.
pub fn escape_hidden(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match is_hidden_character(character) {
            true => escaped.extend(character.escape_unicode()),
            false => escaped.push(character),
        }
    }
    escaped
}

/// Escapes every hidden character of each line, and keeps the line breaks.
pub fn escape_hidden_lines(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(escape_hidden).collect();
    lines.join("\n")
}

/// Escapes hidden characters and CI commands such as `##[error]` in a JSON text without changing its meaning.
pub fn escape_hidden_in_json(text: &str) -> Cow<'_, str> {
    if is_plain_json(text) {
        return Cow::Borrowed(text);
    }
    let mut spelt = String::with_capacity(text.len() + 16);
    let mut command = CiCommandDetector::default();
    for character in text.chars() {
        // Line breaks and blanks between values are not in a string, where they would be escaped.
        if is_hidden_character(character) && !matches!(character, '\n' | '\t' | '\r')
            || command.push_character(character)
        {
            push_json_escape(character, &mut spelt);
        } else {
            spelt.push(character);
        }
    }
    Cow::Owned(spelt)
}

/// Returns whether the JSON text contains nothing to escape.
fn is_plain_json(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.is_ascii() && !bytes.contains(&0x7f) && !text.contains("##")
}

/// Appends the JSON escape of the character: `\u202e`, or a surrogate pair.
fn push_json_escape(character: char, spelt: &mut String) {
    for unit in character.encode_utf16(&mut [0; 2]) {
        spelt.push_str(&format!("\\u{unit:04x}"));
    }
}

/// A detector of `##[` and `##word[`, with which some CI systems begin a command anywhere in a line.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum CiCommandDetector {
    /// Nothing of it.
    #[default]
    NoHash,
    /// `#`
    OneHash,
    /// `##`, and letters.
    TwoHashes,
}

impl CiCommandDetector {
    /// Processes the next character. Returns `true` if it is the bracket that completes the start of a command.
    pub fn push_character(&mut self, character: char) -> bool {
        let before = *self;
        *self = match (before, character) {
            (Self::NoHash, '#') => Self::OneHash,
            (Self::OneHash | Self::TwoHashes, '#') => Self::TwoHashes,
            (Self::TwoHashes, letter) if letter.is_ascii_alphabetic() => Self::TwoHashes,
            _ => Self::NoHash,
        };
        before == Self::TwoHashes && character == '['
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_spelt_out() {
        assert_eq!(
            escape_hidden("a\u{1b}[2K\u{202e}b\u{9b}c\n\u{feff}é 日本"),
            "a\\u{1b}[2K\\u{202e}b\\u{9b}c\\u{a}\\u{feff}é 日本"
        );
        let hidden = "\0\u{7}\u{8}\t\r\u{7f}\u{80}\u{9f}\u{ad}\u{34f}\u{61c}\u{180e}\u{200b}\u{200c}\u{200d}\u{200e}\u{200f}\u{2028}\
            \u{2029}\u{202a}\u{202e}\u{2060}\u{2064}\u{2066}\u{2069}\u{3164}\u{fe0f}\u{feff}\u{fff9}\u{fffb}\u{e0001}\u{e007f}\u{e01ef}";
        for character in hidden.chars() {
            assert!(is_hidden_character(character), "{character:?}");
        }
        for character in "aé日🦀\u{301}\u{a0}\u{3000}—".chars() {
            assert!(!is_hidden_character(character), "{character:?}");
        }
    }

    #[test]
    fn json_that_is_spelt_out_means_the_same() {
        let value = serde_json::json!({"a\u{202e}": ["\u{1b}\u{9b}\u{7f}\n\u{e0041}🦀", "##[error] ##vso[x] # #[ ##"]});
        for text in [value.to_string(), format!("{value:#}")] {
            let spelt = escape_hidden_in_json(&text);
            assert!(spelt.chars().all(|c| c == '\n' || !is_hidden_character(c)), "{spelt}");
            assert!(!spelt.contains("##[") && !spelt.contains("##vso["), "{spelt}");
            assert!(spelt.contains("#[ ##"), "{spelt}");
            assert_eq!(serde_json::from_str::<serde_json::Value>(&spelt).expect("JSON"), value);
            assert_eq!(escape_hidden_in_json(&spelt), spelt, "again");
        }
        assert!(matches!(
            escape_hidden_in_json("{\"a\": \"plain # text\"}"),
            Cow::Borrowed(_)
        ));
    }
}
