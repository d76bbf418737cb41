//! The form of replies, which is OpenAI's.

use ensemble_language::data::ModelUsage;
use hyper::body::Bytes;
use serde_json::{Value, json};

use super::chat_reply::{AnsweringRun, ChatReply};
use crate::reply::ApiFailure;

/// Writer of the reply to one chat request, in the format of OpenAI.
pub(super) struct ChatReplyWriter {
    model: String,
    id: String,
    run: String,
    created: i64,
    /// What was sent of the text.
    sent: String,
}

impl ChatReplyWriter {
    /// Creates the writer for the run that replies.
    pub(super) fn new(model: &str, talking: &AnsweringRun) -> Self {
        Self {
            model: model.to_owned(),
            id: format!("chatcmpl-{}-{}", talking.run, talking.from),
            run: talking.run.to_string(),
            created: talking.begun.timestamp(),
            sent: String::new(),
        }
    }

    /// Returns the reply as one document.
    pub(super) fn whole_reply(&mut self, end: &ChatReply) -> Value {
        json!({
            "id": self.id,
            "object": "chat.completion",
            "created": self.created,
            "model": self.model,
            "choices": [{
                "index": 0,
                "message": {"role": "assistant", "content": end.text},
                "logprobs": null,
                "finish_reason": end.finish,
            }],
            "metadata": {"run": self.run},
            "usage": openai_usage_json(&end.usage),
        })
    }

    /// Returns the first chunk of a stream.
    pub(super) fn first_chunk(&self) -> Bytes {
        self.delta_chunk(&json!({"role": "assistant", "content": ""}), None)
    }

    /// Returns a chunk with this text, and counts it as sent.
    pub(super) fn text_chunk(&mut self, text: &str) -> Bytes {
        self.sent.push_str(text);
        self.delta_chunk(&json!({"content": text}), None)
    }

    /// Returns chunks with the rest of the text, the end, and the usage if requested.
    pub(super) fn last_chunks(&mut self, end: &ChatReply, with_usage: bool) -> Bytes {
        let unsent_text = match end.text.strip_prefix(self.sent.as_str()) {
            Some(rest) => rest.to_owned(),
            // What was sent did not count: the whole reply follows.
            None => format!("\n\n{}", end.text),
        };
        let mut bytes = Vec::new();
        if !unsent_text.is_empty() {
            bytes.extend_from_slice(&self.text_chunk(&unsent_text));
        }
        bytes.extend_from_slice(&self.delta_chunk(&json!({}), Some(end.finish)));
        if with_usage {
            let mut chunk = self.chunk_document(json!([]));
            chunk["usage"] = openai_usage_json(&end.usage);
            bytes.extend_from_slice(&unnamed_event_frame(&chunk));
        }
        bytes.extend_from_slice(b"data: [DONE]\n\n");
        bytes.into()
    }

    /// Returns an error chunk for a stream that has started.
    pub(super) fn failure_chunk(&self, failure: ApiFailure) -> Bytes {
        unnamed_event_frame(&failure.to_openai_json())
    }

    /// Renders a chunk with this change.
    fn delta_chunk(&self, delta: &Value, finish: Option<&str>) -> Bytes {
        unnamed_event_frame(
            &self.chunk_document(json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}])),
        )
    }

    /// Creates the document of a chunk.
    fn chunk_document(&self, choices: Value) -> Value {
        json!({
            "id": self.id,
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.model,
            "choices": choices,
            "metadata": {"run": self.run},
        })
    }
}

/// Renders a server-sent event without a name.
fn unnamed_event_frame(document: &Value) -> Bytes {
    Bytes::from(format!("data: {document}\n\n"))
}

/// Converts the usage to the format of OpenAI.
fn openai_usage_json(usage: &ModelUsage) -> Value {
    json!({
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
    })
}
