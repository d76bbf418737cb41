//! What passes: texts of others with their hidden characters spelt out, styles of our own, and nothing that the log of a CI
//! takes for a command.

use ensemble_language::shown::{Command, is_hidden, plain_length};

use super::ink::our_style;
use super::joiners::is_needed;

/// The spelling of characters, which depends on the reader of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spelling {
    /// A person: `\u{202e}`.
    Text,
    /// A reader of JSON: `\u202e`, which means the same.
    Json,
    /// A reader of XML or HTML: `&#x202e;`, which means the same.
    Xml,
    /// The CI itself, which is meant to obey our commands: as for a person.
    Commands,
    /// A file or a program: unchanged, without styles.
    Exact,
}

/// The place in a line.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Only blanks stand before it.
    #[default]
    Start,
    /// One colon begins the line.
    Colon,
    /// Anything else stands before it.
    Inside,
}

/// The state of a stream, as far as it matters for the following text.
#[derive(Debug, Default)]
pub(super) struct Filter {
    place: Place,
    command: Command,
    /// A carriage return whose next character is not known.
    is_after_return: bool,
    before: Option<char>,
}

impl Filter {
    /// Adds what may pass of this text. `is_ci`: the output is the log of a CI.
    pub(super) fn pass(&mut self, text: &str, spelling: Spelling, is_ci: bool, passed: &mut String) {
        let mut rest = text;
        loop {
            // Most of a text. Only a CI asks what stands before a character in its line.
            let plain = match is_ci || self.is_after_return {
                true => 0,
                false => plain_length(rest),
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
                && let Some((marked, style)) = our_style(rest)
            {
                if spelling != Spelling::Exact {
                    passed.push_str("\u{1b}[");
                    passed.push_str(style);
                }
                rest = &rest[marked.len()..];
                continue;
            }
            self.take(character, spelling, is_ci, passed);
            rest = &rest[character.len_utf8()..];
        }
    }

    fn take(&mut self, character: char, spelling: Spelling, is_ci: bool, passed: &mut String) {
        if spelling != Spelling::Exact {
            if std::mem::take(&mut self.is_after_return) && character != '\n' {
                spell_out('\r', spelling, passed);
                self.place = Place::Inside;
            }
            if character == '\r' {
                self.is_after_return = true;
                return;
            }
        }
        let is_command = self.begins_command(character);
        if is_ci && is_command && spelling != Spelling::Commands {
            break_up(character, spelling, passed);
        } else if self.is_shown(character, spelling) {
            passed.push(character);
        } else {
            spell_out(character, spelling, passed);
        }
        self.before = Some(character);
    }

    /// Returns whether a CI would take what ends with this character for the beginning of a command: `::` at the start
    /// of a line, or `##[` and `##word[` anywhere.
    fn begins_command(&mut self, character: char) -> bool {
        let is_inside = self.command.begins_with(character);
        let before = self.place;
        self.place = match (before, character) {
            (_, '\n') => Place::Start,
            (Place::Start, ':') => Place::Colon,
            (Place::Start, blank) if blank.is_whitespace() => Place::Start,
            _ => Place::Inside,
        };
        is_inside || before == Place::Colon && character == ':'
    }

    fn is_shown(&self, character: char, spelling: Spelling) -> bool {
        let is_kept = || matches!(spelling, Spelling::Text | Spelling::Commands) && is_needed(character, self.before);
        spelling == Spelling::Exact || matches!(character, '\n' | '\t') || !is_hidden(character) || is_kept()
    }
}

/// Spells out a text that arrives in pieces; styles of our own stay as they are, for the door.
#[derive(Debug, Default)]
pub(crate) struct Speller(Filter);

impl Speller {
    /// The piece. A carriage return at its end waits for the next piece.
    pub(crate) fn spell(&mut self, text: &str) -> String {
        let mut shown = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('\u{1b}') {
            self.0.pass(&rest[..at], Spelling::Text, false, &mut shown);
            rest = &rest[at..];
            let length = our_style(rest).map_or(1, |(marked, _)| marked.len());
            match length {
                1 => self.0.take('\u{1b}', Spelling::Text, false, &mut shown),
                _ => shown.push_str(&rest[..length]),
            }
            rest = &rest[length..];
        }
        self.0.pass(rest, Spelling::Text, false, &mut shown);
        shown
    }
}

/// A text with styles of our own, in which everything else that is hidden is spelt out.
pub(crate) fn spelt(text: &str) -> String {
    let mut speller = Speller::default();
    let mut shown = speller.spell(text);
    if speller.0.is_after_return {
        spell_out('\r', Spelling::Text, &mut shown);
    }
    shown
}

fn spell_out(character: char, spelling: Spelling, passed: &mut String) {
    match spelling {
        Spelling::Text | Spelling::Commands => passed.extend(character.escape_unicode()),
        Spelling::Json => {
            for unit in character.encode_utf16(&mut [0; 2]) {
                passed.push_str(&format!("\\u{unit:04x}"));
            }
        }
        // XML has no way to write these.
        Spelling::Xml if character.is_ascii_control() => passed.push('\u{fffd}'),
        Spelling::Xml => passed.push_str(&format!("&#x{:x};", u32::from(character))),
        Spelling::Exact => passed.push(character),
    }
}

/// Writes the character so that it does not complete a command.
fn break_up(character: char, spelling: Spelling, passed: &mut String) {
    match spelling {
        Spelling::Json | Spelling::Xml => spell_out(character, spelling, passed),
        Spelling::Text | Spelling::Commands | Spelling::Exact => passed.extend(['\\', character]),
    }
}
