//! The form of replies, which is OpenAI's.

use ensemble_language::data::Usage;
use hyper::body::Bytes;
use serde_json::{Value, json};

use super::said::{End, Talking};
use crate::reply::Failure;

/// Writes the reply to one request.
pub(super) struct Wire {
    model: String,
    id: String,
    run: String,
    created: i64,
    /// What was sent of the text.
    sent: String,
}

impl Wire {
    pub(super) fn new(model: &str, talking: &Talking) -> Self {
        Self {
            model: model.to_owned(),
            id: format!("chatcmpl-{}-{}", talking.run, talking.from),
            run: talking.run.to_string(),
            created: talking.begun.timestamp(),
            sent: String::new(),
        }
    }

    /// The reply in one document.
    pub(super) fn whole(&mut self, end: &End) -> Value {
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
            "usage": usage(&end.usage),
        })
    }

    /// The beginning of a stream.
    pub(super) fn first(&self) -> Bytes {
        self.chunk(&json!({"role": "assistant", "content": ""}), None)
    }

    pub(super) fn piece(&mut self, text: &str) -> Bytes {
        self.sent.push_str(text);
        self.chunk(&json!({"content": text}), None)
    }

    /// The rest of the text, the end, and the usage if it is wanted.
    pub(super) fn last(&mut self, end: &End, with_usage: bool) -> Bytes {
        let rest = match end.text.strip_prefix(self.sent.as_str()) {
            Some(rest) => rest.to_owned(),
            // What was sent did not count: the whole reply follows.
            None => format!("\n\n{}", end.text),
        };
        let mut bytes = Vec::new();
        if !rest.is_empty() {
            bytes.extend_from_slice(&self.piece(&rest));
        }
        bytes.extend_from_slice(&self.chunk(&json!({}), Some(end.finish)));
        if with_usage {
            let mut chunk = self.document(json!([]));
            chunk["usage"] = usage(&end.usage);
            bytes.extend_from_slice(&frame(&chunk));
        }
        bytes.extend_from_slice(b"data: [DONE]\n\n");
        bytes.into()
    }

    /// An error in a stream that has begun.
    pub(super) fn failed(&self, failure: Failure) -> Bytes {
        frame(&failure.document())
    }

    fn chunk(&self, delta: &Value, finish: Option<&str>) -> Bytes {
        frame(&self.document(json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}])))
    }

    fn document(&self, choices: Value) -> Value {
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

fn frame(document: &Value) -> Bytes {
    Bytes::from(format!("data: {document}\n\n"))
}

fn usage(usage: &Usage) -> Value {
    json!({
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
    })
}
