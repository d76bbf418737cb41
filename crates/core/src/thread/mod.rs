//! The messages between an LLM agent and its model, grouped in iterations.
//!
//! An iteration is one request with its reply. Tool results end an iteration and start the next one; so does a
//! correction. A call and its result are one record, so they stay together when messages are dropped.
//!
//! A [`Thread`] is a value: every change returns a new thread, and this module uses no model, clock or file.
//!
//! Invariant: a tool call and its result are one record, so they cannot be separated; a thread is a value, and adding to it gives a new
//! thread.

mod attachment;
mod call_ids;
mod growth;
mod json;
mod live_output;
mod merge;
mod reasoning;
mod status;
#[cfg(test)]
mod tests;
mod text_tokenizer;
mod thread_memory;
mod tool_call;
pub mod window;

pub use attachment::Attachment;
pub(crate) use call_ids::find_unused_id;
pub use call_ids::make_call_ids_unique;
pub use growth::{ThreadAppendError, ThreadAppendErrorKind};
pub use json::SavedThreadError;
pub use live_output::{ExecutionAttemptRef, IgnoredLiveOutput, LiveOutputReceiver, LiveUpdate};
pub use merge::{MergeOrder, MergeSide, ThreadMergeError};
pub use reasoning::Reasoning;
pub use status::{REQUEST_OPTIONS_KEY, SYSTEM_PROMPT_KEY, ThreadStatus};
pub use text_tokenizer::TextTokenizer;
pub use thread_memory::{
    INTERRUPTED_CALL_ERROR, LEFT_OUT_KEY, REJECTED_KEY, TASK_KEY, select_iterations_after_failure,
    select_remembered_iterations,
};
pub use tool_call::{INTERRUPTED_TOOL_ERROR, ResultSummary, ToolCall, ToolCallEnd};

use chrono::{DateTime, Utc};
use ensemble_language::data::FailureKind;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

/// The author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MessageRole {
    /// The system: the instructions.
    System,
    /// The user: the task, or a correction.
    User,
    /// The model.
    Assistant,
}

/// Reason why a reply, or a dialogue with a model, stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The reply is complete, or the model waits for the results of its tools.
    EndTurn,
    /// The text is incomplete, because the limit of a reply or the budget of the run was reached.
    MaxTokens,
    /// The model still called tools after the highest allowed number of requests.
    MaxTurnRequests,
    /// The model refused to answer.
    Refusal,
    /// The dialogue was stopped from outside.
    Cancelled,
}

impl StopReason {
    /// Returns the stop reason of a failure of this kind: a limit, a refusal or a cancellation. Returns `None` for other kinds.
    pub fn from_failure_kind(kind: FailureKind) -> Option<Self> {
        match kind {
            FailureKind::MaxIterations => Some(Self::MaxTurnRequests),
            FailureKind::MaxTokens => Some(Self::MaxTokens),
            FailureKind::Refusal => Some(Self::Refusal),
            FailureKind::Cancelled => Some(Self::Cancelled),
            _ => None,
        }
    }
}

/// A message of a thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// The author.
    pub role: MessageRole,
    /// The text.
    pub content: String,
    /// User: the files that are sent with the text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
    /// Assistant: the tools that the message calls, with their results. Within an iteration this is empty, because the
    /// iteration contains the calls beside its messages; [`Thread::to_messages`] fills it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// Assistant: what the model thought before this message, if the provider tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<Reasoning>,
}

/// Request to a model with its reply, and the tool calls of the reply.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ThreadIteration {
    /// From 1.
    pub number: u32,
    /// Its messages: the new messages for the model, then the reply.
    pub messages: Vec<Message>,
    /// The tools that the reply called, each with its result or error.
    #[serde(default)]
    pub tool_calls: Vec<ToolCall>,
    /// When the request was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<DateTime<Utc>>,
    /// When the reply and the tool results were complete; `None` while the iteration is in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<DateTime<Utc>>,
    /// Additional data: `stop_reason`, `model`, the messages that a context window dropped.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

/// All messages between an agent and its model, the oldest first.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(transparent)]
pub struct Thread {
    /// The iterations, numbered from 1 without gaps; only the last one may be in progress.
    iterations: Vec<ThreadIteration>,
}

/// Reads the iterations and numbers them. Calls without a reply get one, so that every thread can be saved and loaded.
impl<'de> Deserialize<'de> for Thread {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer).map(Self::from_iterations)
    }
}

impl Message {
    /// Returns the message as JSON. Files have names, types and digests instead of bytes.
    pub fn to_json_without_bytes(&self) -> Value {
        let mut message = serde_json::json!(Self {
            attachments: Vec::new(),
            tool_calls: Vec::new(),
            ..self.clone()
        });
        if !self.tool_calls.is_empty() {
            message["tool_calls"] = self.tool_calls.iter().map(ToolCall::to_json_without_bytes).collect();
        }
        if !self.attachments.is_empty() {
            message["attachments"] = self.attachments.iter().map(Attachment::to_json_without_bytes).collect();
        }
        message
    }

    /// Replaces the results of the tool calls by their summaries, as a model receives them.
    pub fn use_result_summaries(&mut self) {
        for call in &mut self.tool_calls {
            if let Some(summary) = call.summary.take() {
                call.end = Some(ToolCallEnd::Result(Value::String(summary.text)));
            }
        }
    }

    /// Returns a message without tool calls.
    pub fn new(role: MessageRole, content: impl Into<String>) -> Self {
        Self {
            role,
            content: content.into(),
            attachments: Vec::new(),
            tool_calls: Vec::new(),
            reasoning: None,
        }
    }
}

impl Thread {
    /// Creates a thread from these iterations, which are numbered from 1.
    pub fn from_iterations(iterations: Vec<ThreadIteration>) -> Self {
        Self::default().append_iterations(iterations)
    }

    /// Creates a thread whose first iteration has the system prompt, if there is one, and the input of the user.
    pub fn new(input: impl Into<String>, system_prompt: Option<String>, at: DateTime<Utc>) -> Self {
        let system = system_prompt.map(|prompt| Message::new(MessageRole::System, prompt));
        let messages = system
            .into_iter()
            .chain([Message::new(MessageRole::User, input)])
            .collect();
        Self::default().start_iteration(messages, at)
    }

    /// Appends these iterations with new numbers. Adds an empty reply to tool calls without a reply, because providers require one.
    #[must_use]
    pub fn append_iterations(mut self, iterations: Vec<ThreadIteration>) -> Self {
        for mut iteration in iterations {
            let number = self.next_iteration_number();
            if !iteration.tool_calls.is_empty() && !iteration.has_reply() {
                iteration.messages.push(Message::new(MessageRole::Assistant, ""));
            }
            self.iterations.push(ThreadIteration { number, ..iteration });
        }
        self
    }

    /// Completes the current iteration, and starts an iteration with these messages for the model.
    #[must_use]
    pub fn start_iteration(mut self, messages: Vec<Message>, at: DateTime<Utc>) -> Self {
        self = self.complete_current_iteration(at);
        self.iterations.push(ThreadIteration {
            number: self.next_iteration_number(),
            messages,
            started_at: Some(at),
            ..ThreadIteration::default()
        });
        self
    }

    /// Sets the reasoning of the latest reply in the current iteration.
    #[must_use]
    pub fn set_reply_reasoning(mut self, reasoning: Option<Reasoning>) -> Self {
        let current = self.iterations.last_mut().map(|current| &mut current.messages);
        let reply = current.and_then(|messages| messages.iter_mut().rfind(|one| one.role == MessageRole::Assistant));
        if let Some(reply) = reply {
            reply.reasoning = reasoning;
        }
        self
    }

    /// Sets metadata of the current iteration.
    #[must_use]
    pub fn set_metadata(mut self, key: &str, value: impl Into<Value>) -> Self {
        if let Some(current) = self.iterations.last_mut() {
            current.metadata.insert(key.to_owned(), value.into());
        }
        self
    }

    /// Removes metadata from the current iteration.
    #[must_use]
    pub fn remove_metadata(mut self, key: &str) -> Self {
        if let Some(current) = self.iterations.last_mut() {
            current.metadata.shift_remove(key);
        }
        self
    }

    /// Completes the current iteration, if it is in progress. Removes an iteration without messages.
    #[must_use]
    pub fn complete_current_iteration(mut self, at: DateTime<Utc>) -> Self {
        match self.iterations.last_mut() {
            Some(current) if current.messages.is_empty() && current.tool_calls.is_empty() => {
                self.iterations.pop();
            }
            Some(current) => current.completed_at = current.completed_at.or(Some(at)),
            None => {}
        }
        self
    }

    /// Returns the number of the current iteration. Returns 0 for an empty thread.
    pub fn current_iteration(&self) -> u32 {
        self.iterations.last().map_or(0, |current| current.number)
    }

    /// Returns whether the thread has at least this number of iterations.
    pub fn exceeded_max_iterations(&self, max_iterations: u32) -> bool {
        self.current_iteration() >= max_iterations
    }

    /// Returns whether the thread ends with the final reply of the model: a reply without tool calls.
    pub fn has_final_reply(&self) -> bool {
        let Some(last) = self.iterations.last() else {
            return false;
        };
        let spoke_last = last
            .messages
            .last()
            .is_some_and(|message| message.role == MessageRole::Assistant);
        spoke_last && last.tool_calls.is_empty()
    }

    /// Returns the tool calls of the current iteration that have not ended.
    pub fn list_open_calls(&self) -> Vec<&ToolCall> {
        self.extract_tool_calls()
            .iter()
            .filter(|call| call.end.is_none())
            .collect()
    }

    /// Returns all iterations, oldest first.
    pub fn iterations(&self) -> &[ThreadIteration] {
        &self.iterations
    }

    /// Converts the thread to its iterations.
    pub fn into_iterations(self) -> Vec<ThreadIteration> {
        self.iterations
    }

    /// Returns the iteration with this number, from 1.
    pub fn get_iteration(&self, number: u32) -> Option<&ThreadIteration> {
        let at = usize::try_from(number).ok()?.checked_sub(1)?;
        self.iterations.get(at)
    }

    /// Returns the messages of the iteration with this number. Returns no messages for an unknown number.
    pub fn get_iteration_messages(&self, number: u32) -> Vec<Message> {
        self.get_iteration(number)
            .map(ThreadIteration::to_messages)
            .unwrap_or_default()
    }

    /// Returns the tool calls of the current iteration, also calls that have ended.
    pub fn extract_tool_calls(&self) -> &[ToolCall] {
        self.iterations.last().map_or(&[], |current| &current.tool_calls)
    }

    /// Returns the messages of all iterations, as [`to_messages`](Self::to_messages) does for a request.
    pub fn get_all_messages(&self) -> Vec<Message> {
        self.to_messages()
    }

    /// Returns all messages in order, each with its tool calls.
    pub fn to_messages(&self) -> Vec<Message> {
        self.iterations.iter().flat_map(ThreadIteration::to_messages).collect()
    }

    /// Returns the messages without those of the oldest `skipped_iterations` iterations.
    pub fn to_messages_without_oldest(&self, skipped_iterations: usize) -> Vec<Message> {
        let iterations = self.iterations.iter().skip(skipped_iterations);
        iterations.flat_map(ThreadIteration::to_messages).collect()
    }

    /// Returns the number of messages.
    pub fn message_count(&self) -> usize {
        self.iterations.iter().map(|iteration| iteration.messages.len()).sum()
    }

    /// Returns the text of the first user message.
    pub fn initial_query(&self) -> Option<&str> {
        let messages = self.iterations.iter().flat_map(|iteration| &iteration.messages);
        let mut users = messages.filter(|message| message.role == MessageRole::User);
        users.next().map(|message| message.content.as_str())
    }

    /// Returns the number of the next iteration.
    fn next_iteration_number(&self) -> u32 {
        u32::try_from(self.iterations.len()).map_or(u32::MAX, |count| count + 1)
    }
}

impl ThreadIteration {
    /// Creates an iteration that contains only this stop reason.
    pub fn only_stop_reason(reason: StopReason) -> Self {
        let mut iteration = Self::default();
        iteration.set_stop_reason(reason);
        iteration
    }

    /// Sets why the model stopped the reply.
    pub fn set_stop_reason(&mut self, reason: StopReason) {
        let reason = serde_json::to_value(reason).expect("a stop reason is a string");
        self.metadata.insert("stop_reason".to_owned(), reason);
    }

    /// Returns why the model stopped the reply, if that is known.
    pub fn stop_reason(&self) -> Option<StopReason> {
        let stop_reason = self.metadata.get("stop_reason")?;
        serde_json::from_value(stop_reason.clone()).ok()
    }

    /// Returns whether the model has replied in this iteration.
    pub fn has_reply(&self) -> bool {
        self.messages
            .iter()
            .any(|message| message.role == MessageRole::Assistant)
    }

    /// Returns the text of a reply that also calls tools. Returns `None` without tool calls or without text.
    pub fn text_beside_tool_calls(&self) -> Option<&str> {
        let mut replies = self.messages.iter().rev();
        let reply = replies.find(|message| message.role == MessageRole::Assistant)?;
        let text = reply.content.as_str();
        (!self.tool_calls.is_empty() && !text.trim().is_empty()).then_some(text)
    }

    /// Returns the iteration as JSON. Files have names, types and digests instead of bytes.
    pub fn to_json_without_bytes(&self) -> Value {
        let mut iteration = serde_json::json!(Self {
            messages: Vec::new(),
            tool_calls: Vec::new(),
            ..self.clone()
        });
        iteration["messages"] = self.messages.iter().map(Message::to_json_without_bytes).collect();
        iteration["tool_calls"] = self.tool_calls.iter().map(ToolCall::to_json_without_bytes).collect();
        iteration
    }

    /// Returns all files of the iteration: of its messages and of its tool calls.
    pub fn list_attachments(&self) -> impl Iterator<Item = &Attachment> {
        let called = self.tool_calls.iter();
        let of_messages = self.messages.iter().flat_map(|message| {
            let called = message.tool_calls.iter().flat_map(|call| &call.attachments);
            message.attachments.iter().chain(called)
        });
        of_messages.chain(called.flat_map(|call| &call.attachments))
    }

    /// Returns the messages of the iteration. The reply contains its tool calls.
    pub fn to_messages(&self) -> Vec<Message> {
        let mut messages = self.messages.clone();
        if let Some(reply) = messages
            .iter_mut()
            .rev()
            .find(|message| message.role == MessageRole::Assistant)
        {
            reply.tool_calls.clone_from(&self.tool_calls);
        }
        messages
    }
}
