//! The messages of a chat program.

use ensemble_language::data::digest;
use serde_json::json;

/// The messages of a conversation, without instructions for a model: an ensemble has its own.
#[derive(Clone, Default)]
pub(crate) struct Messages(Vec<Message>);

#[derive(Clone)]
pub(super) struct Message {
    pub(super) is_users: bool,
    pub(super) text: String,
    pub(super) digest: String,
}

impl Messages {
    /// Adds a message of the user, or a reply.
    pub(crate) fn push(&mut self, is_users: bool, text: String) {
        self.0.push(Message {
            is_users,
            digest: digest(&text),
            text,
        });
    }

    pub(super) fn all(&self) -> &[Message] {
        &self.0
    }

    /// Returns whether the last message is one of the user.
    pub(crate) fn end_with_user(&self) -> bool {
        self.0.last().is_some_and(|message| message.is_users)
    }

    /// The last message.
    pub(crate) fn last(&self) -> &str {
        self.0.last().map_or("", |message| &message.text)
    }

    /// Returns the input of a new run: the only message, or all of them.
    pub(crate) fn as_input(&self) -> String {
        as_input(&self.0)
    }

    /// The digest of the messages before the last one; `None`: there are none.
    pub(super) fn before(&self) -> Option<String> {
        let (_, before) = self.0.split_last()?;
        (!before.is_empty()).then(|| named(before.iter().map(Message::named)))
    }

    /// The digest of all messages, and of the reply with this digest.
    pub(super) fn with_reply(&self, reply: &str) -> String {
        named(self.0.iter().map(Message::named).chain([(false, reply)]))
    }

    /// Returns the number of messages, from the first one on, that are the input with this digest.
    pub(super) fn length_of_input(&self, input: &str) -> Option<usize> {
        let mut ends = (1..=self.0.len()).filter(|end| self.0[end - 1].is_users);
        ends.find(|end| digest(&as_input(&self.0[..*end])) == input)
    }
}

impl Message {
    fn named(&self) -> (bool, &str) {
        (self.is_users, &self.digest)
    }
}

fn named<'m>(messages: impl Iterator<Item = (bool, &'m str)>) -> String {
    digest(&json!(messages.collect::<Vec<_>>()).to_string())
}

fn as_input(messages: &[Message]) -> String {
    match messages {
        [only] => only.text.clone(),
        all => {
            let role = |message: &Message| if message.is_users { "user" } else { "assistant" };
            let lines: Vec<String> = all
                .iter()
                .map(|message| format!("{}: {}", role(message), message.text))
                .collect();
            lines.join("\n\n")
        }
    }
}
