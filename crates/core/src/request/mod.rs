//! Questions and permission requests: their identity, and the record of their answers.
//!
//! **Invariant:** an answer names the address of a request and the digest of what was shown. It applies to that request
//! and to nothing else.

mod address;
mod address_match;
mod answer;

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use address::{AddressError, AddressSegment, AddressToolCall, RequestAddress};
pub use address_match::{AddressMatchPrecision, find_most_precise_match};
pub use answer::{
    AnswerAuthor, AnswerRecord, AnswerRefusal, AnswerSource, PermissionDecision, RequestAnswer, list_best_matches,
    render_question_line, resolve_choice, resolve_pending_request,
};

use ensemble_language::data::{JsonMap, OperatorQuestion, ToolPermissionRequest};
use ensemble_language::hidden_characters::escape_hidden;

/// The number of bytes of the arguments of a call that a question shows.
const MAX_SHOWN_ARGUMENTS: usize = 64 << 10;

/// Execution, part or tool call from which a request or a nested run originates.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RequestOrigin {
    /// The address.
    pub address: RequestAddress,
    /// The positions in the file, the list of parts and the calls that lead to the address. Requests are listed in this
    /// order.
    #[serde(default)]
    pub position: Vec<u32>,
    /// Whether a call that leads to the address belongs to an agent with an exclusive tool. Such a call can keep the calls
    /// of other parts from starting.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_exclusive_tools: bool,
}

impl RequestOrigin {
    /// Returns whether the origin is the outermost run.
    pub fn is_outermost(&self) -> bool {
        self.address.is_empty()
    }

    /// Returns the origin of an execution of an agent, with the position of the agent in the file.
    #[must_use]
    pub fn append_agent(&self, agent: Arc<str>, index: usize, execution: u32) -> Self {
        let positions = [index.try_into().unwrap_or(u32::MAX), execution];
        self.with_appended_positions(self.address.append_agent(agent), positions)
    }

    /// Returns the origin of a part of this execution.
    #[must_use]
    pub fn set_last_part(&self, key: Arc<str>, index: u32) -> Self {
        self.with_appended_positions(self.address.set_last_part(key), [index])
    }

    /// Returns the origin of a tool call in this execution. `index` is the position among all calls of the execution.
    #[must_use]
    pub fn append_tool_call(&self, tool: Arc<str>, number: u32, index: u32) -> Self {
        self.with_appended_positions(self.address.append_tool_call(tool, number), [index])
    }

    /// Adds whether the agent of the call has an exclusive tool.
    #[must_use]
    pub fn with_exclusive_tools(self, has_exclusive_tools: bool) -> Self {
        Self {
            has_exclusive_tools: self.has_exclusive_tools || has_exclusive_tools,
            ..self
        }
    }

    fn with_appended_positions(&self, address: RequestAddress, positions: impl IntoIterator<Item = u32>) -> Self {
        let mut position = self.position.clone();
        position.extend(positions);
        Self {
            address,
            position,
            has_exclusive_tools: self.has_exclusive_tools,
        }
    }
}

/// Digest of all that was shown for a request: address, run, text, choices, tool and arguments.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RequestDigest(Arc<str>);

impl RequestDigest {
    /// Creates the digest from its text.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RequestDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Question or permission request that waits for an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingRequest {
    /// The address.
    pub address: RequestAddress,
    /// The agent that asks.
    pub agent: Arc<str>,
    /// The number of the execution of this agent, from 1.
    pub execution: u32,
    /// The digest of what is shown.
    pub digest: RequestDigest,
    /// The question with its choices. For a permission request, it has the call.
    #[serde(flatten)]
    pub question: OperatorQuestion,
    /// The position in the order of the file.
    #[serde(skip)]
    pub position: Vec<u32>,
}

impl PendingRequest {
    /// Returns whether this is a permission request.
    pub fn is_permission(&self) -> bool {
        self.question.permission.is_some()
    }

    /// Returns the choices with hidden characters escaped, as front ends show them.
    pub fn escaped_choices(&self) -> Vec<String> {
        let choices = self.question.choices.iter();
        choices.map(|choice| escape_hidden(choice)).collect()
    }

    /// Returns the choice whose escaped form is `shown`. Returns `shown` itself without such a choice.
    pub fn unescape_choice<'a>(&'a self, shown: &'a str) -> &'a str {
        let mut choices = self.question.choices.iter();
        choices
            .find(|choice| escape_hidden(choice) == shown)
            .map_or(shown, String::as_str)
    }

    /// Compares the positions of two requests in the file, by which requests are sorted.
    pub fn compare_positions(&self, other: &Self) -> Ordering {
        self.position.cmp(&other.position)
    }
}

/// Builds the question of a permission request. Shortens long arguments, and states the number of hidden bytes.
pub fn build_permission_question(tool: &str, arguments: &JsonMap) -> OperatorQuestion {
    let text = escape_hidden(&Value::Object(arguments.clone()).to_string());
    let arguments_text = match text.len() > MAX_SHOWN_ARGUMENTS {
        false => text,
        true => {
            let beginning = &text[..text.floor_char_boundary(MAX_SHOWN_ARGUMENTS)];
            let hidden = text.len() - beginning.len();
            format!("{beginning}… ({hidden} more bytes of the arguments are in the run's journal)")
        }
    };
    let prompt = format!(
        "may the tool `{}` be called with {arguments_text}?",
        escape_hidden(tool)
    );
    OperatorQuestion {
        permission: Some(Box::new(ToolPermissionRequest {
            tool: tool.into(),
            arguments: arguments.clone(),
        })),
        ..OperatorQuestion::new(prompt, Vec::new())
    }
}
