//! Traces of a dialogue in files: the messages to the model, its replies, the tool calls with their ends, and errors.
//!
//! This module creates files and appends to them. Each entry is appended in one write, so that several dialogues can share a file.
//!
//! Invariant: a trace contains no secret of the model's network: entries are written after the request has read its key.

#![expect(clippy::disallowed_methods, reason = "this room writes traces")]

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::{Value, json};

use super::{Dialogue, DialogueErrorKind};
use ensemble_core::runner::AttemptLedger;
use ensemble_core::secrets::Secrets;
use ensemble_core::thread::{Message, ToolCall};
use ensemble_models::ModelReply;

/// Error in creating a trace file.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the trace `{}`: {source}", path.display())]
pub struct TraceError {
    /// The file.
    pub path: PathBuf,
    /// The reason.
    pub source: io::Error,
}

/// The form of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TraceFormat {
    /// One JSON object in each line.
    JsonLines,
    Markdown,
}

/// Open trace file with its format.
#[derive(Debug)]
struct TraceFile {
    path: PathBuf,
    form: TraceFormat,
    file: Mutex<File>,
}

/// Trace files of a dialogue. Clones write to the same files.
#[derive(Debug, Clone, Default)]
pub(super) struct DialogueTraces(Vec<Arc<TraceFile>>);

/// Entry of a trace file.
enum TraceEntry<'a> {
    MessageSent(&'a Message),
    ReplyReceived {
        reply: &'a ModelReply,
        /// The metadata of the iteration: the model and the tokens.
        metadata: Value,
    },
    ToolCallEnded(&'a ToolCall),
    Failed(String),
    Cancelled(&'a str),
}

/// Messages and time of a request that was not sent yet.
pub(super) struct TracedRequest {
    at: DateTime<Utc>,
    messages: Vec<Message>,
}

impl Dialogue {
    /// Appends a trace of all messages to this file, which is created if necessary. Supports several traces.
    ///
    /// The format is JSON Lines for names that end with `.jsonl`, and Markdown otherwise. Keys of providers, and other values in
    /// `dialogue.model().secrets()`, are replaced by `[secret]`.
    ///
    /// If the file cannot be written later, the result of the round contains a warning.
    ///
    /// ```
    /// use ensemble_agents::agent::chat::{Dialogue, Thread};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = std::env::temp_dir().join(format!("ensemble-trace-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// let (readable, parsed) = (folder.join("talk.md"), folder.join("talk.jsonl"));
    /// let dialogue = Dialogue::with_simulated_replies(["Sunny."]).with_trace(&readable)?.with_trace(&parsed)?;
    /// dialogue.say(Thread::default(), "Paris today?").await?;
    ///
    /// let text = std::fs::read_to_string(&readable)?;
    /// assert!(text.contains("Paris today?") && text.contains("Sunny."));
    /// assert_eq!(std::fs::read_to_string(&parsed)?.lines().count(), 2);
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The file cannot be created or opened.
    pub fn with_trace(mut self, path: impl AsRef<Path>) -> Result<Self, TraceError> {
        let path = path.as_ref().to_owned();
        let file = open_private_for_append(&path).map_err(|source| TraceError {
            path: path.clone(),
            source,
        })?;
        let is_json = path.extension().is_some_and(|extension| extension == "jsonl");
        self.traces.0.push(Arc::new(TraceFile {
            path,
            form: match is_json {
                true => TraceFormat::JsonLines,
                false => TraceFormat::Markdown,
            },
            file: Mutex::new(file),
        }));
        Ok(self)
    }

    /// Collects the messages of the next request that are new to the model. Returns `None` without a trace.
    pub(super) fn collect_traced_request(&self, ledger: &AttemptLedger) -> Option<TracedRequest> {
        let messages = || {
            ledger.read_exchange(|exchange| {
                let last = exchange.iterations().last();
                last.map(|last| last.messages.clone()).unwrap_or_default()
            })
        };
        (!self.traces.0.is_empty()).then(|| TracedRequest {
            at: (self.now)(),
            messages: messages(),
        })
    }

    /// Writes the request with its reply or its error to the traces.
    pub(super) fn trace_request(
        &self,
        request: Option<TracedRequest>,
        reply: Result<&ModelReply, &DialogueErrorKind>,
        ledger: &AttemptLedger,
    ) {
        let Some(request) = request else { return };
        for message in &request.messages {
            self.trace_entry(request.at, &TraceEntry::MessageSent(message), ledger);
        }
        let metadata = ledger.read_exchange(|exchange| {
            let last = exchange.iterations().last();
            json!({
                "model": last.and_then(|last| last.metadata.get("model")),
                "usage": last.and_then(|last| last.metadata.get("usage")),
            })
        });
        let entry = match reply {
            Ok(reply) => TraceEntry::ReplyReceived { reply, metadata },
            Err(error) => TraceEntry::Failed(error.to_string()),
        };
        self.trace_entry((self.now)(), &entry, ledger);
    }

    /// Writes the calls that have ended to the traces.
    pub(super) fn trace_ended_calls(&self, calls: &[ToolCall], ledger: &AttemptLedger) {
        for call in calls.iter().filter(|call| call.end.is_some()) {
            self.trace_entry((self.now)(), &TraceEntry::ToolCallEnded(call), ledger);
        }
    }

    /// Writes the cancellation, with the received part of the reply, to the traces.
    pub(super) fn trace_cancellation(&self, text: &str, ledger: &AttemptLedger) {
        self.trace_entry((self.now)(), &TraceEntry::Cancelled(text), ledger);
    }

    /// Writes the entry to all traces. Adds a warning to the ledger if a file cannot be written.
    fn trace_entry(&self, at: DateTime<Utc>, entry: &TraceEntry<'_>, ledger: &AttemptLedger) {
        for trace in &self.traces.0 {
            if let Err(error) = trace.append_entry(at, entry, self.model.secrets()) {
                let path = trace.path.display();
                ledger.add_warning_once(format!("cannot write the trace `{path}`: {error}"));
            }
        }
    }
}

/// Opens the file for appending. Only the owner can read a new file.
fn open_private_for_append(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

impl TraceFile {
    /// Redacts the entry and appends it in the format of the file.
    fn append_entry(&self, at: DateTime<Utc>, entry: &TraceEntry<'_>, secrets: &Secrets) -> io::Result<()> {
        let at = at.to_rfc3339_opts(SecondsFormat::Millis, true);
        let text = match self.form {
            TraceFormat::JsonLines => {
                let mut document = entry.to_json();
                secrets.redact_value(&mut document);
                document["at"] = at.into();
                format!("{document}\n")
            }
            TraceFormat::Markdown => {
                let (title, body) = entry.to_markdown();
                let body = secrets.redact(body);
                let body = body.trim_end();
                match body.is_empty() {
                    true => format!("## {at} {title}\n\n"),
                    false => format!("## {at} {title}\n\n{body}\n\n"),
                }
            }
        };
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(text.as_bytes())
    }
}

impl TraceEntry<'_> {
    /// Converts the entry to JSON without the bytes of attachments.
    fn to_json(&self) -> Value {
        match self {
            Self::MessageSent(message) => json!({"event": "message_sent", "message": message.to_json_without_bytes()}),
            Self::ReplyReceived { reply, metadata } => json!({
                "event": "reply_received",
                "text": reply.text,
                "tool_calls": reply.tool_calls.iter().map(ToolCall::to_json_without_bytes).collect::<Vec<_>>(),
                "stop_reason": reply.stop_reason,
                "model": metadata["model"],
                "usage": metadata["usage"],
            }),
            Self::ToolCallEnded(call) => json!({"event": "tool_call_ended", "call": call.to_json_without_bytes()}),
            Self::Failed(error) => json!({"event": "failed", "error": error}),
            Self::Cancelled(text) => json!({"event": "cancelled", "text": text}),
        }
    }

    /// Renders the title and the body of the entry.
    fn to_markdown(&self) -> (String, String) {
        match self {
            Self::MessageSent(message) => {
                let role = serde_json::to_value(message.role).unwrap_or_default();
                (role.as_str().unwrap_or_default().to_owned(), message.content.clone())
            }
            Self::ReplyReceived { reply, metadata } => {
                let model = metadata["model"].as_str().map(|model| format!(" {model}"));
                let tokens = |key: &str| metadata["usage"][key].as_u64().unwrap_or_default();
                let (input, output) = (tokens("input_tokens"), tokens("output_tokens"));
                let reason = json!(reply.stop_reason);
                let title = format!(
                    "assistant{} ({input} input tokens, {output} output tokens, {})",
                    model.unwrap_or_default(),
                    reason.as_str().unwrap_or_default()
                );
                let calls = reply.tool_calls.iter();
                let calls = calls.map(|call| format!("\n- calls `{}` with `{}`", call.name, call.arguments));
                (title, format!("{}\n{}", reply.text, calls.collect::<String>()))
            }
            Self::ToolCallEnded(call) => (format!("tool {}", call.name), call.to_string()),
            Self::Failed(error) => ("failed".to_owned(), error.clone()),
            Self::Cancelled(text) => ("cancelled".to_owned(), (*text).to_owned()),
        }
    }
}
