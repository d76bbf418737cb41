//! The messages of a chat program.

use ensemble_language::data::sha256_of_text;
use serde_json::json;

/// Messages that a chat program sends, without system messages.
#[derive(Clone, Default)]
pub(crate) struct ChatProgramMessages(Vec<ChatProgramMessage>);

#[derive(Clone)]
pub(super) struct ChatProgramMessage {
    pub(super) is_users: bool,
    pub(super) text: String,
    pub(super) digest: String,
}

impl ChatProgramMessages {
    /// Adds a message of the user, or a reply.
    pub(crate) fn push_message(&mut self, is_users: bool, text: String) {
        self.0.push(ChatProgramMessage {
            is_users,
            digest: sha256_of_text(&text),
            text,
        });
    }

    pub(super) fn as_slice(&self) -> &[ChatProgramMessage] {
        &self.0
    }

    /// Returns whether the last message is from the user.
    pub(crate) fn ends_with_user_message(&self) -> bool {
        self.0.last().is_some_and(|message| message.is_users)
    }

    /// Returns the text of the last message.
    pub(crate) fn last_text(&self) -> &str {
        self.0.last().map_or("", |message| &message.text)
    }

    /// Returns the input of a new run: the only message, or all messages with their roles.
    pub(crate) fn to_run_input(&self) -> String {
        messages_as_input(&self.0)
    }

    /// Returns the digest of the messages before the last one. Returns `None` if there are none.
    pub(super) fn digest_before_last(&self) -> Option<String> {
        let (_, before) = self.0.split_last()?;
        (!before.is_empty()).then(|| digest_messages(before.iter().map(ChatProgramMessage::role_and_digest)))
    }

    /// Returns the digest of all messages followed by the reply with this digest.
    pub(super) fn digest_with_reply(&self, reply: &str) -> String {
        digest_messages(
            self.0
                .iter()
                .map(ChatProgramMessage::role_and_digest)
                .chain([(false, reply)]),
        )
    }

    /// Returns the number of first messages that form the input with this digest.
    pub(super) fn find_input_message_count(&self, input: &str) -> Option<usize> {
        let mut ends = (1..=self.0.len()).filter(|end| self.0[end - 1].is_users);
        ends.find(|end| sha256_of_text(&messages_as_input(&self.0[..*end])) == input)
    }
}

impl ChatProgramMessage {
    /// Returns whether the message is from the user, and its digest.
    fn role_and_digest(&self) -> (bool, &str) {
        (self.is_users, &self.digest)
    }
}

/// Returns the digest of messages, each given as role and digest.
fn digest_messages<'m>(messages: impl Iterator<Item = (bool, &'m str)>) -> String {
    sha256_of_text(&json!(messages.collect::<Vec<_>>()).to_string())
}

/// Renders messages as the input of a run.
fn messages_as_input(messages: &[ChatProgramMessage]) -> String {
    match messages {
        [only] => only.text.clone(),
        all => {
            let role = |message: &ChatProgramMessage| if message.is_users { "user" } else { "assistant" };
            let lines: Vec<String> = all
                .iter()
                .map(|message| format!("{}: {}", role(message), message.text))
                .collect();
            lines.join("\n\n")
        }
    }
}
