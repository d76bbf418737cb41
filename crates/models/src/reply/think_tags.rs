//! `<think>…</think>` at the beginning of a text: reasoning that a server did not separate from the reply.

use ensemble_core::thread::StopReason;

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";

/// Separates the reasoning from a text that comes in pieces.
#[derive(Debug, Default)]
pub(crate) struct ThinkTags {
    place: Place,
    /// What cannot be decided yet, or the reasoning so far.
    held: String,
    /// How much of the held reasoning was given out to be shown.
    shown: usize,
    /// The reasoning that was not given out yet.
    live: String,
}

#[derive(Debug, Default, PartialEq)]
enum Place {
    /// Nothing but white space has come, or a beginning of the tag.
    #[default]
    Start,
    Inside,
    /// White space after the reasoning is no text.
    After,
    Text,
}

impl ThinkTags {
    /// The part of the piece, and of what was held back, that is text. The complete reasoning is added to `thought`.
    pub(crate) fn split(&mut self, piece: &str, thought: &mut String) -> String {
        if self.place == Place::Text {
            return piece.to_owned();
        }
        let searched = self.held.len().saturating_sub(CLOSE.len());
        self.held.push_str(piece);
        if self.place == Place::Start {
            let begin = self.held.trim_start();
            match begin.strip_prefix(OPEN) {
                Some(rest) => {
                    self.held = rest.to_owned();
                    self.place = Place::Inside;
                    return self.close(0, thought);
                }
                None if OPEN.starts_with(begin) => return String::new(),
                None => return self.text(),
            }
        }
        match self.place {
            Place::Inside => self.close(searched, thought),
            _ => self.after(),
        }
    }

    fn close(&mut self, from: usize, thought: &mut String) -> String {
        let from = self.held.floor_char_boundary(from);
        let Some(at) = self.held[from..].find(CLOSE) else {
            let begun = (1..CLOSE.len()).rev().find(|len| self.held.ends_with(&CLOSE[..*len]));
            self.reveal(self.held.len() - begun.unwrap_or_default());
            return String::new();
        };
        self.reveal(from + at);
        let rest = self.held.split_off(from + at);
        thought.push_str(self.held.trim());
        self.held = rest[CLOSE.len()..].to_owned();
        self.place = Place::After;
        self.after()
    }

    /// The reasoning that has come since the last call, to be shown while it arrives.
    pub(crate) fn take_live(&mut self) -> String {
        std::mem::take(&mut self.live)
    }

    fn reveal(&mut self, until: usize) {
        self.live.push_str(&self.held[self.shown.min(until)..until]);
        self.shown = self.shown.max(until);
    }

    fn after(&mut self) -> String {
        if self.held.trim_start().is_empty() {
            return String::new();
        }
        self.text().trim_start().to_owned()
    }

    fn text(&mut self) -> String {
        self.place = Place::Text;
        std::mem::take(&mut self.held)
    }

    /// The text that is left at the end. A tag that is never closed is text, unless the reply was cut off.
    pub(crate) fn end(&mut self, stop: StopReason, thought: &mut String) -> String {
        let held = std::mem::take(&mut self.held);
        match self.place {
            Place::Inside if stop == StopReason::MaxTokens => {
                thought.push_str(held.trim());
                String::new()
            }
            Place::Inside => format!("{OPEN}{held}"),
            Place::Start => held,
            Place::After | Place::Text => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str, size: usize, stop: StopReason) -> (String, String) {
        let (mut tags, mut thought, mut said) = (ThinkTags::default(), String::new(), String::new());
        let mut live = String::new();
        let letters: Vec<char> = text.chars().collect();
        for piece in letters.chunks(size) {
            said.push_str(&tags.split(&piece.iter().collect::<String>(), &mut thought));
            live.push_str(&tags.take_live());
        }
        said.push_str(&tags.end(stop, &mut thought));
        assert!(
            thought.is_empty() || live.trim() == thought,
            "{text:?} by {size}: {live:?}"
        );
        (thought, said)
    }

    #[test]
    fn reasoning_at_the_beginning_is_no_text_however_it_is_cut() {
        for (text, thought, said) in [
            ("<think>\nHm, ü.\n</think>\n\nHello.\n", "Hm, ü.", "Hello.\n"),
            ("\n<think></think>Hello.", "", "Hello."),
            ("Hello <think>no</think>", "", "Hello <think>no</think>"),
            ("<thin", "", "<thin"),
            ("<b>Hello</b>", "", "<b>Hello</b>"),
            ("<think>never closed", "", "<think>never closed"),
            ("<think>a</think>b<think>c</think>", "a", "b<think>c</think>"),
            ("  ", "", "  "),
        ] {
            for size in 1..=text.len() {
                let expected = (thought.to_owned(), said.to_owned());
                assert_eq!(split(text, size, StopReason::EndTurn), expected, "{text:?} by {size}");
            }
        }
        let cut = split("<think>so far", 3, StopReason::MaxTokens);
        assert_eq!(cut, ("so far".to_owned(), String::new()));
    }
}
