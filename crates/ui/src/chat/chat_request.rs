//! What a chat program asks, in OpenAI's form.

use ensemble_core::request::{AnswerAuthor, AnswerSource};
use serde_json::Value;

use crate::conversations::ChatProgramMessages;
use crate::reply::ApiFailure;

/// A request.
#[derive(Clone)]
pub(super) struct ChatCompletionRequest {
    pub(super) model: String,
    pub(super) messages: ChatProgramMessages,
    /// The run that the messages continue: `metadata.run`.
    pub(super) run: Option<String>,
    /// The name of the user, if the chat program gives one: `user`.
    user: Option<String>,
    pub(super) is_streamed: bool,
    pub(super) wants_usage: bool,
}

impl ChatCompletionRequest {
    /// Parses a chat request. Ignores system messages. The last message must be from the user.
    pub(super) fn parse(given: &Value) -> Result<Self, ApiFailure> {
        let model = given["model"]
            .as_str()
            .ok_or_else(|| ApiFailure::bad_request("`model` is missing"))?;
        if given["n"].as_u64().is_some_and(|count| count > 1) {
            return Err(ApiFailure::bad_request("`n` can only be 1"));
        }
        let list = given["messages"]
            .as_array()
            .ok_or_else(|| ApiFailure::bad_request("`messages` is missing"))?;
        let mut messages = ChatProgramMessages::default();
        for message in list {
            match message["role"].as_str() {
                Some("system" | "developer") => {}
                Some(role @ ("user" | "assistant")) => {
                    messages.push_message(role == "user", message_content_text(&message["content"])?)
                }
                other => {
                    return Err(ApiFailure::bad_request(format!(
                        "the role `{}` is not supported; use `user`, `assistant` or `system`",
                        other.unwrap_or_default()
                    )));
                }
            }
        }
        if !messages.ends_with_user_message() {
            return Err(ApiFailure::bad_request("the last message must have the role `user`"));
        }
        Ok(Self {
            model: model.to_owned(),
            messages,
            run: given["metadata"]["run"].as_str().map(str::to_owned),
            user: given["user"].as_str().map(str::to_owned),
            is_streamed: given["stream"].as_bool().unwrap_or_default(),
            wants_usage: given["stream_options"]["include_usage"].as_bool().unwrap_or_default(),
        })
    }
}

impl ChatCompletionRequest {
    /// Creates the author of answers from the user of the chat program.
    pub(super) fn answer_author(&self) -> AnswerAuthor {
        AnswerAuthor::with_visible_user(AnswerSource::Page, self.user.as_deref().unwrap_or_default())
    }
}

/// Returns the text of a message: a string, or text parts.
fn message_content_text(content: &Value) -> Result<String, ApiFailure> {
    if let Some(text) = content.as_str() {
        return Ok(text.to_owned());
    }
    let mut full_text = String::new();
    for part in content.as_array().into_iter().flatten() {
        match part["type"].as_str() {
            Some("text") => full_text.push_str(part["text"].as_str().unwrap_or_default()),
            other => {
                let kind = other.unwrap_or("without a type");
                return Err(ApiFailure::bad_request(format!(
                    "the message part `{kind}` is not supported; use `text`"
                )));
            }
        }
    }
    Ok(full_text)
}
