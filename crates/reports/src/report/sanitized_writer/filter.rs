//! A filter of texts from other sources: escapes hidden characters and CI commands, and keeps trusted styles.

use ensemble_language::hidden_characters::{CiCommandDetector, is_hidden_character, plain_ascii_prefix_length};

use super::joiners::is_needed_joiner;
use super::trusted_style::find_trusted_style;

/// The style in which hidden characters are escaped, for the reader of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EscapeStyle {
    /// A user reads the output: `\u{202e}`.
    Text,
    /// A reader of JSON: `\u202e`, which has the same meaning.
    Json,
    /// A reader of XML or HTML: `&#x202e;`, which has the same meaning.
    Xml,
    /// The CI itself, which must execute the commands of the program. Escapes are those for users.
    Commands,
    /// A file or a program: unchanged, without styles.
    Exact,
}

/// A position in a line that decides whether a CI command can start.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum CommandPosition {
    /// Only blanks precede the position in its line.
    #[default]
    Start,
    /// One colon is at the start of the line.
    Colon,
    /// Any other character precedes the position.
    Inside,
}

/// A filter that escapes untrusted text. Stores the state at the end of the written text, because a CI command can start there.
#[derive(Debug, Default)]
pub(super) struct SanitizingFilter {
    place: CommandPosition,
    command: CiCommandDetector,
    /// A carriage return whose next character is not known.
    is_after_return: bool,
    before: Option<char>,
}

impl SanitizingFilter {
    /// Appends the sanitized text to `passed`. `is_ci` is true if the output is the log of a CI.
    pub(super) fn push_sanitized(&mut self, text: &str, spelling: EscapeStyle, is_ci: bool, passed: &mut String) {
        let mut rest = text;
        loop {
            // Most of a text. Only a CI asks what stands before a character in its line.
            let plain = match is_ci || self.is_after_return {
                true => 0,
                false => plain_ascii_prefix_length(rest),
            };
            if let Some(last) = rest[..plain].chars().next_back() {
                passed.push_str(&rest[..plain]);
                self.before = Some(last);
                rest = &rest[plain..];
            }
            let Some(character) = rest.chars().next() else {
                return;
            };
            if character == '\u{1b}'
                && let Some((marked, style)) = find_trusted_style(rest)
            {
                if spelling != EscapeStyle::Exact {
                    passed.push_str("\u{1b}[");
                    passed.push_str(style);
                }
                rest = &rest[marked.len()..];
                continue;
            }
            self.push_sanitized_character(character, spelling, is_ci, passed);
            rest = &rest[character.len_utf8()..];
        }
    }

    /// Appends the character, escaped if it is hidden or completes a CI command.
    fn push_sanitized_character(&mut self, character: char, spelling: EscapeStyle, is_ci: bool, passed: &mut String) {
        if spelling != EscapeStyle::Exact {
            if std::mem::take(&mut self.is_after_return) && character != '\n' {
                push_escaped('\r', spelling, passed);
                self.place = CommandPosition::Inside;
            }
            if character == '\r' {
                self.is_after_return = true;
                return;
            }
        }
        let is_command = self.detect_command_start(character);
        if is_ci && is_command && spelling != EscapeStyle::Commands {
            push_escaped_ci_command(character, spelling, passed);
        } else if self.needs_no_escape(character, spelling) {
            passed.push(character);
        } else {
            push_escaped(character, spelling, passed);
        }
        self.before = Some(character);
    }

    /// Returns whether a CI would start a command after this character: `::` at the start of a line, or `##[` anywhere.
    fn detect_command_start(&mut self, character: char) -> bool {
        let is_inside = self.command.push_character(character);
        let before = self.place;
        self.place = match (before, character) {
            (_, '\n') => CommandPosition::Start,
            (CommandPosition::Start, ':') => CommandPosition::Colon,
            (CommandPosition::Start, blank) if blank.is_whitespace() => CommandPosition::Start,
            _ => CommandPosition::Inside,
        };
        is_inside || before == CommandPosition::Colon && character == ':'
    }

    /// Returns whether the character can be written unchanged.
    fn needs_no_escape(&self, character: char, spelling: EscapeStyle) -> bool {
        let is_kept = || {
            matches!(spelling, EscapeStyle::Text | EscapeStyle::Commands) && is_needed_joiner(character, self.before)
        };
        spelling == EscapeStyle::Exact
            || matches!(character, '\n' | '\t')
            || !is_hidden_character(character)
            || is_kept()
    }
}

/// An escaper of a text that arrives in pieces. Keeps trusted styles.
#[derive(Debug, Default)]
pub(crate) struct StreamTextEscaper(SanitizingFilter);

impl StreamTextEscaper {
    /// Escapes a piece. Holds back a carriage return at its end.
    pub(crate) fn escape_chunk(&mut self, text: &str) -> String {
        let mut escaped = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('\u{1b}') {
            self.0
                .push_sanitized(&rest[..at], EscapeStyle::Text, false, &mut escaped);
            rest = &rest[at..];
            let length = find_trusted_style(rest).map_or(1, |(marked, _)| marked.len());
            match length {
                1 => self
                    .0
                    .push_sanitized_character('\u{1b}', EscapeStyle::Text, false, &mut escaped),
                _ => escaped.push_str(&rest[..length]),
            }
            rest = &rest[length..];
        }
        self.0.push_sanitized(rest, EscapeStyle::Text, false, &mut escaped);
        escaped
    }
}

/// Escapes all hidden characters of the text except trusted styles.
pub(crate) fn escape_text(text: &str) -> String {
    let mut speller = StreamTextEscaper::default();
    let mut escaped = speller.escape_chunk(text);
    if speller.0.is_after_return {
        push_escaped('\r', EscapeStyle::Text, &mut escaped);
    }
    escaped
}

/// Appends the escaped form of the character.
fn push_escaped(character: char, spelling: EscapeStyle, passed: &mut String) {
    match spelling {
        EscapeStyle::Text | EscapeStyle::Commands => passed.extend(character.escape_unicode()),
        EscapeStyle::Json => {
            for unit in character.encode_utf16(&mut [0; 2]) {
                passed.push_str(&format!("\\u{unit:04x}"));
            }
        }
        // XML has no way to write these.
        EscapeStyle::Xml if character.is_ascii_control() => passed.push('\u{fffd}'),
        EscapeStyle::Xml => passed.push_str(&format!("&#x{:x};", u32::from(character))),
        EscapeStyle::Exact => passed.push(character),
    }
}

/// Appends the character, escaped so that the text before it does not become a CI command.
fn push_escaped_ci_command(character: char, spelling: EscapeStyle, passed: &mut String) {
    match spelling {
        EscapeStyle::Json | EscapeStyle::Xml => push_escaped(character, spelling, passed),
        EscapeStyle::Text | EscapeStyle::Commands | EscapeStyle::Exact => passed.extend(['\\', character]),
    }
}
