//! The parts of the current message of an execution that were sent.
//!
//! Invariant: a message that starts again after a piece was sent is another message, with another id.

/// Sent parts of the current message of an execution.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MessageProgress {
    /// The number of the message in the execution, from 1.
    pub(crate) number: u32,
    pub(crate) has_text: bool,
    pub(crate) has_thought: bool,
    /// A piece of the text was not sent, so the text is sent whole at its end.
    pub(crate) is_withheld: bool,
}

impl Default for MessageProgress {
    fn default() -> Self {
        Self {
            number: 1,
            has_text: false,
            has_thought: false,
            is_withheld: false,
        }
    }
}

impl MessageProgress {
    /// Returns the id of the current message of the card.
    pub(crate) fn message_id(self, card: &str) -> String {
        match self.number {
            1 => card.to_owned(),
            number => format!("{card}.{number}"),
        }
    }

    /// Returns the progress of the next message.
    pub(crate) fn next(self) -> Self {
        Self {
            number: self.number + 1,
            ..Self::default()
        }
    }

    /// Returns the progress of a message that starts again: a new message if a piece was sent.
    pub(crate) fn restart_message(self) -> Self {
        match self.has_text || self.has_thought {
            true => self.next(),
            false => Self {
                number: self.number,
                ..Self::default()
            },
        }
    }
}
