//! `<think>…</think>` at the beginning of a text: reasoning that a server did not separate from the reply.

use ensemble_core::thread::StopReason;

const OPENING_THINK_TAG: &str = "<think>";
const CLOSING_THINK_TAG: &str = "</think>";

/// Separator of `<think>` reasoning from the text of a streamed reply.
#[derive(Debug, Default)]
pub(crate) struct ThinkTagSplitter {
    position: TagPosition,
    /// What cannot be decided yet, or the reasoning so far.
    held_text: String,
    /// How much of the held reasoning was given out to be shown.
    released_length: usize,
    /// The reasoning that was not given out yet.
    live: String,
}

/// Position of the stream relative to the reasoning.
#[derive(Debug, Default, PartialEq)]
enum TagPosition {
    /// Nothing but white space has come, or a beginning of the tag.
    #[default]
    Start,
    InReasoning,
    /// White space after the reasoning is no text.
    AfterReasoning,
    Text,
}

impl ThinkTagSplitter {
    /// Returns the text in the piece and in the held-back rest. Appends complete reasoning to `thought`.
    pub(crate) fn split_piece(&mut self, piece: &str, thought: &mut String) -> String {
        if self.position == TagPosition::Text {
            return piece.to_owned();
        }
        let searched = self.held_text.len().saturating_sub(CLOSING_THINK_TAG.len());
        self.held_text.push_str(piece);
        if self.position == TagPosition::Start {
            let begin = self.held_text.trim_start();
            match begin.strip_prefix(OPENING_THINK_TAG) {
                Some(rest) => {
                    self.held_text = rest.to_owned();
                    self.position = TagPosition::InReasoning;
                    return self.split_at_closing_tag(0, thought);
                }
                None if OPENING_THINK_TAG.starts_with(begin) => return String::new(),
                None => return self.stop_and_take_held_text(),
            }
        }
        match self.position {
            TagPosition::InReasoning => self.split_at_closing_tag(searched, thought),
            _ => self.take_text_after_tag(),
        }
    }

    /// Searches for the closing tag from this offset. Appends the reasoning to `thought` and returns the text after the tag.
    fn split_at_closing_tag(&mut self, from: usize, thought: &mut String) -> String {
        let from = self.held_text.floor_char_boundary(from);
        let Some(at) = self.held_text[from..].find(CLOSING_THINK_TAG) else {
            let partial_length = (1..CLOSING_THINK_TAG.len())
                .rev()
                .find(|len| self.held_text.ends_with(&CLOSING_THINK_TAG[..*len]));
            self.release_reasoning(self.held_text.len() - partial_length.unwrap_or_default());
            return String::new();
        };
        self.release_reasoning(from + at);
        let rest = self.held_text.split_off(from + at);
        thought.push_str(self.held_text.trim());
        self.held_text = rest[CLOSING_THINK_TAG.len()..].to_owned();
        self.position = TagPosition::AfterReasoning;
        self.take_text_after_tag()
    }

    /// Takes the reasoning that arrived since the last call, for the live output.
    pub(crate) fn take_live_reasoning(&mut self) -> String {
        std::mem::take(&mut self.live)
    }

    /// Releases the held reasoning up to this offset for the live output.
    fn release_reasoning(&mut self, until: usize) {
        self.live
            .push_str(&self.held_text[self.released_length.min(until)..until]);
        self.released_length = self.released_length.max(until);
    }

    /// Takes the text after the closing tag, without blanks at its start.
    fn take_text_after_tag(&mut self) -> String {
        if self.held_text.trim_start().is_empty() {
            return String::new();
        }
        self.stop_and_take_held_text().trim_start().to_owned()
    }

    /// Takes the held text, and treats all later pieces as text.
    fn stop_and_take_held_text(&mut self) -> String {
        self.position = TagPosition::Text;
        std::mem::take(&mut self.held_text)
    }

    /// Takes the remaining text at the end of the reply. An unclosed tag is text, unless the reply was cut off.
    pub(crate) fn take_rest_at_end(&mut self, stop: StopReason, thought: &mut String) -> String {
        let held_text = std::mem::take(&mut self.held_text);
        match self.position {
            TagPosition::InReasoning if stop == StopReason::MaxTokens => {
                thought.push_str(held_text.trim());
                String::new()
            }
            TagPosition::InReasoning => format!("{OPENING_THINK_TAG}{held_text}"),
            TagPosition::Start => held_text,
            TagPosition::AfterReasoning | TagPosition::Text => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str, size: usize, stop: StopReason) -> (String, String) {
        let (mut tags, mut thought, mut said) = (ThinkTagSplitter::default(), String::new(), String::new());
        let mut live = String::new();
        let letters: Vec<char> = text.chars().collect();
        for piece in letters.chunks(size) {
            said.push_str(&tags.split_piece(&piece.iter().collect::<String>(), &mut thought));
            live.push_str(&tags.take_live_reasoning());
        }
        said.push_str(&tags.take_rest_at_end(stop, &mut thought));
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
