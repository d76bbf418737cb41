//! What an LLM agent and its model have said to each other: messages in nested iterations.
//!
//! An iteration is one request with its reply. Results of tools close it and open the next, and so does a
//! correction. A call and its result are one record, so whoever drops messages cannot part them.
//!
//! A [`Thread`] is a value: whatever is added gives a new one, and nothing here knows a model, a clock or a file.

mod json;
mod live_output;
mod saved;
#[cfg(test)]
mod tests;
mod tool_call;
pub mod window;

pub use json::ThreadError;
pub use live_output::{ExecutionRef, LiveOutput, LiveUpdate, NoLiveOutput};
pub use saved::exchange;
pub use tool_call::{ToolCall, ToolEnd};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Who says a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The instructions.
    System,
    /// The task, or a correction.
    User,
    /// The model.
    Assistant,
}

/// Why a model, or whoever holds the dialogue with it, stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The model had said all, or waits for its tools.
    EndTurn,
    /// The limit of a reply was reached and the text is cut off, or what the run may use was used up.
    MaxTokens,
    /// The model still called tools after as many requests as were allowed.
    MaxTurnRequests,
    /// The model will not answer this.
    Refusal,
    /// The dialogue was stopped from outside.
    Cancelled,
}

/// One message of a thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Who says it.
    pub role: Role,
    /// What is said.
    pub content: String,
    /// Assistant: the tools that it calls, with what came of it. Within an iteration they stand beside the messages
    /// and this is empty; [`Thread::to_messages`] puts them here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
}

/// One request with its reply, and the tools that the reply called.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Iteration {
    /// From 1.
    pub number: u32,
    /// What was said in it: what is new to the model, then its reply.
    pub messages: Vec<Message>,
    /// The tools that the reply called, each with its result or error.
    #[serde(default)]
    pub tool_calls: Vec<ToolCall>,
    /// When the request was made; journals of early versions do not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<DateTime<Utc>>,
    /// When the reply and the tools' results were there; nothing while it is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<DateTime<Utc>>,
    /// What else is worth keeping: `stop_reason`, `model`, what a context window has dropped.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

/// Everything that an agent and its model have said, oldest first.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Thread {
    /// Numbered from 1 without gaps; only the last may be under way.
    iterations: Vec<Iteration>,
}

impl Message {
    /// A message that calls no tool.
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        Self {
            role,
            content: content.into(),
            tool_calls: Vec::new(),
        }
    }
}

impl Thread {
    /// A thread of these iterations, which get their numbers here.
    pub fn of(iterations: Vec<Iteration>) -> Self {
        Self::default().followed_by(iterations)
    }

    /// Opens the first iteration with the system prompt, if there is one, and the user's input.
    pub fn new(input: impl Into<String>, system_prompt: Option<String>, at: DateTime<Utc>) -> Self {
        let system = system_prompt.map(|prompt| Message::new(Role::System, prompt));
        let messages = system.into_iter().chain([Message::new(Role::User, input)]).collect();
        Self::default().opened(messages, at)
    }

    /// This thread, then those iterations.
    #[must_use]
    pub fn followed_by(mut self, iterations: Vec<Iteration>) -> Self {
        for iteration in iterations {
            let number = self.next_number();
            self.iterations.push(Iteration { number, ..iteration });
        }
        self
    }

    /// Opens an iteration with what is said to the model; the one before is complete then.
    #[must_use]
    pub fn opened(mut self, messages: Vec<Message>, at: DateTime<Utc>) -> Self {
        self = self.completed(at);
        self.iterations.push(Iteration {
            number: self.next_number(),
            messages,
            started_at: Some(at),
            ..Iteration::default()
        });
        self
    }

    /// Adds the model's reply to the current iteration, with the tools that it calls.
    #[must_use]
    pub fn add_assistant_message(mut self, content: impl Into<String>, tool_calls: Vec<ToolCall>) -> Self {
        if let Some(current) = self.iterations.last_mut() {
            current.messages.push(Message::new(Role::Assistant, content));
            current.tool_calls.extend(tool_calls);
        }
        self
    }

    /// Puts what the tools gave to their calls, by id, closes the current iteration and opens the next.
    #[must_use]
    pub fn add_tool_results(mut self, results: Vec<ToolCall>, at: DateTime<Utc>) -> Self {
        if let Some(current) = self.iterations.last_mut() {
            for result in results {
                match current.tool_calls.iter_mut().find(|call| call.id == result.id) {
                    Some(call) => *call = result,
                    None => current.tool_calls.push(result),
                }
            }
        }
        self.opened(Vec::new(), at)
    }

    /// Notes something of the current iteration.
    #[must_use]
    pub fn noted(mut self, key: &str, value: impl Into<Value>) -> Self {
        if let Some(current) = self.iterations.last_mut() {
            current.metadata.insert(key.to_owned(), value.into());
        }
        self
    }

    /// Closes the current iteration, if it is still under way. One in which nothing was said is dropped.
    #[must_use]
    pub fn completed(mut self, at: DateTime<Utc>) -> Self {
        match self.iterations.last_mut() {
            Some(current) if current.messages.is_empty() && current.tool_calls.is_empty() => {
                self.iterations.pop();
            }
            Some(current) => current.completed_at = current.completed_at.or(Some(at)),
            None => {}
        }
        self
    }

    /// The number of the current iteration; 0 if there is none.
    pub fn current_iteration(&self) -> u32 {
        self.iterations.last().map_or(0, |current| current.number)
    }

    /// Are there that many iterations or more?
    pub fn exceeded_max_iterations(&self, max_iterations: u32) -> bool {
        self.current_iteration() >= max_iterations
    }

    /// Has the model said its last word? A thread without a word of the model is not ended, nor is one in which a
    /// tool was called and the model has not answered to it.
    pub fn is_ended(&self) -> bool {
        let Some(last) = self.iterations.last() else {
            return false;
        };
        let spoke_last = last
            .messages
            .last()
            .is_some_and(|message| message.role == Role::Assistant);
        spoke_last && last.tool_calls.is_empty()
    }

    /// The tools that the current iteration calls and that have not ended.
    pub fn extract_tool_calls(&self) -> Vec<&ToolCall> {
        let current = self.iterations.last().map_or(&[][..], |current| &current.tool_calls);
        current.iter().filter(|call| call.end.is_none()).collect()
    }

    /// All iterations, oldest first.
    pub fn iterations(&self) -> &[Iteration] {
        &self.iterations
    }

    /// The iterations themselves.
    pub fn into_iterations(self) -> Vec<Iteration> {
        self.iterations
    }

    /// The iteration of that number, from 1.
    pub fn get_iteration(&self, number: u32) -> Option<&Iteration> {
        let at = usize::try_from(number).ok()?.checked_sub(1)?;
        self.iterations.get(at)
    }

    /// The messages of the iteration of that number; none if there is no such iteration.
    pub fn get_iteration_messages(&self, number: u32) -> Vec<Message> {
        self.get_iteration(number)
            .map(Iteration::to_messages)
            .unwrap_or_default()
    }

    /// All messages in the order in which they were said, each with the tools that it calls.
    pub fn to_messages(&self) -> Vec<Message> {
        self.iterations.iter().flat_map(Iteration::to_messages).collect()
    }

    /// The first thing that a user said.
    pub fn initial_query(&self) -> Option<&str> {
        let messages = self.iterations.iter().flat_map(|iteration| &iteration.messages);
        let mut users = messages.filter(|message| message.role == Role::User);
        users.next().map(|message| message.content.as_str())
    }

    fn next_number(&self) -> u32 {
        u32::try_from(self.iterations.len()).map_or(u32::MAX, |count| count + 1)
    }
}

impl Iteration {
    /// Its messages, the calls with the reply that makes them.
    pub fn to_messages(&self) -> Vec<Message> {
        let mut messages = self.messages.clone();
        if let Some(reply) = messages
            .iter_mut()
            .rev()
            .find(|message| message.role == Role::Assistant)
        {
            reply.tool_calls.clone_from(&self.tool_calls);
        }
        messages
    }
}
