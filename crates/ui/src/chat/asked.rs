//! What a chat program asks, in OpenAI's form.

use ensemble_language::data::digest;
use serde_json::{Value, json};

use crate::reply::Failure;

/// A request.
#[derive(Clone)]
pub(super) struct Asked {
    pub(super) model: String,
    /// Roles and texts, without instructions for a model: an ensemble has its own.
    messages: Vec<(String, String)>,
    pub(super) is_streamed: bool,
    pub(super) wants_usage: bool,
}

impl Asked {
    pub(super) fn of(given: &Value) -> Result<Self, Failure> {
        let model = given["model"]
            .as_str()
            .ok_or_else(|| Failure::wrong("`model` is missing"))?;
        if given["n"].as_u64().is_some_and(|count| count > 1) {
            return Err(Failure::wrong("`n` can only be 1"));
        }
        let list = given["messages"]
            .as_array()
            .ok_or_else(|| Failure::wrong("`messages` is missing"))?;
        let mut messages = Vec::new();
        for message in list {
            match message["role"].as_str() {
                Some("system" | "developer") => {}
                Some(role @ ("user" | "assistant")) => messages.push((role.to_owned(), text(&message["content"])?)),
                other => {
                    return Err(Failure::wrong(format!(
                        "a message has the role `{}`",
                        other.unwrap_or_default()
                    )));
                }
            }
        }
        match messages.last() {
            Some((role, _)) if role == "user" => {}
            _ => return Err(Failure::wrong("the last message is not of the user")),
        }
        Ok(Self {
            model: model.to_owned(),
            messages,
            is_streamed: given["stream"].as_bool().unwrap_or_default(),
            wants_usage: given["stream_options"]["include_usage"].as_bool().unwrap_or_default(),
        })
    }

    /// The last message.
    pub(super) fn last(&self) -> &str {
        self.messages.last().map_or("", |(_, text)| text)
    }

    /// The messages before the last one; `None`: there are none.
    pub(super) fn before(&self) -> Option<String> {
        let before = &self.messages[..self.messages.len() - 1];
        (!before.is_empty()).then(|| self.named(before))
    }

    /// All messages, and the reply to them.
    pub(super) fn with_reply(&self, reply: &str) -> String {
        let mut messages = self.messages.clone();
        messages.push(("assistant".to_owned(), reply.to_owned()));
        self.named(&messages)
    }

    fn named(&self, messages: &[(String, String)]) -> String {
        digest(&json!([self.model, messages]).to_string())
    }

    /// What a new run has as its input: the message, or all messages where the server knows no run for those before.
    pub(super) fn as_input(&self) -> String {
        match self.messages.as_slice() {
            [(_, only)] => only.clone(),
            all => {
                let lines: Vec<String> = all.iter().map(|(role, text)| format!("{role}: {text}")).collect();
                lines.join("\n\n")
            }
        }
    }
}

/// The text of a message: a string, or parts that are texts.
fn text(content: &Value) -> Result<String, Failure> {
    if let Some(text) = content.as_str() {
        return Ok(text.to_owned());
    }
    let mut whole = String::new();
    for part in content.as_array().into_iter().flatten() {
        match part["type"].as_str() {
            Some("text") => whole.push_str(part["text"].as_str().unwrap_or_default()),
            other => {
                let kind = other.unwrap_or("without a type");
                return Err(Failure::wrong(format!(
                    "a message has a part `{kind}`; only texts are understood"
                )));
            }
        }
    }
    Ok(whole)
}
