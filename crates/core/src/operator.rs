//! The operator of a run: the person or program that answers questions and requests for permission.
//!
//! Invariant: whoever answers gets all that the agent asks, and all arguments of a call.

use std::sync::Arc;
use std::time::Duration;

use ensemble_language::data::JsonMap;
pub use ensemble_language::hidden_characters::{escape_hidden, escape_hidden_lines};
use serde::Serialize;

use crate::conversation::PermissionDecision;
use crate::request::{AnswerAuthor, PendingRequest, RequestAnswer};
use crate::runner::BoxFuture;
use crate::store::RunId;

/// Responder to questions and permission requests: a person at a terminal, in an editor or in a browser, or a program.
///
/// Agents that run in parallel ask in parallel. Dropping the future withdraws the question: the run was cancelled, or needs no answer.
/// The clocks of the run pause during a question.
pub trait Operator: Send + Sync {
    /// Asks the question of an input agent and waits for the answer.
    fn ask_question(&self, asked: QuestionRequest) -> BoxFuture<'_, OperatorAnswer>;

    /// Asks for permission to call a tool and waits for the answer.
    fn request_permission(&self, requested: PermissionRequest) -> BoxFuture<'_, PermissionAnswer>;
}

/// Question of an input agent, with its run, default and time limit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct QuestionRequest {
    /// The id of the run, which may be inside another run.
    pub run: RunId,
    /// The question, with its identity.
    #[serde(flatten)]
    pub request: PendingRequest,
    /// The value of an empty answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<Arc<str>>,
    /// The time limit for the answer, from the moment at which the question is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// If the same question is asked again: why the previous answer was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

impl QuestionRequest {
    /// Returns the default for display in a form, with hidden characters escaped.
    pub fn escaped_default(&self) -> Option<String> {
        self.default.as_deref().map(escape_hidden_lines)
    }

    /// Returns the default or the choice that the form displayed as `shown`. Otherwise returns the text itself.
    pub fn unescape_answer<'a>(&'a self, shown: &'a str) -> &'a str {
        let default = self.default.as_deref();
        default
            .filter(|default| escape_hidden_lines(default) == shown)
            .unwrap_or_else(|| self.request.unescape_choice(shown))
    }
}

/// Result of a question to an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OperatorAnswer {
    /// The answer.
    Text {
        /// The text.
        text: String,
        /// Who answered.
        by: AnswerAuthor,
    },
    /// The time limit was reached.
    TimedOut,
    /// Nobody can answer: the run waits for an answer.
    Nobody,
    /// The client answers later: the run waits for the answer, even if the question has a default.
    Postponed,
}

impl OperatorAnswer {
    /// Creates an answer.
    pub fn from_text(text: impl Into<String>, by: impl Into<AnswerAuthor>) -> Self {
        Self::Text {
            text: text.into(),
            by: by.into(),
        }
    }
}

/// Request for permission to call a tool.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PermissionRequest {
    /// The id of the run, which may be inside another run.
    pub run: RunId,
    /// The request, with its identity.
    #[serde(flatten)]
    pub request: PendingRequest,
    /// The id of the call, as the model gave it.
    pub call: Arc<str>,
    /// The tool: its name, or `SERVER.TOOL`.
    pub tool: Arc<str>,
    /// All arguments of the call.
    pub arguments: JsonMap,
}

/// Open question or permission request.
#[derive(Debug, Clone, PartialEq)]
pub enum OperatorRequest {
    /// A question.
    Question(QuestionRequest),
    /// A permission request.
    Permission(PermissionRequest),
}

impl OperatorRequest {
    /// Returns the request with its identity.
    pub fn pending_request(&self) -> &PendingRequest {
        match self {
            Self::Question(question) => &question.request,
            Self::Permission(permission) => &permission.request,
        }
    }

    /// Returns the id of the run of the request, which can be a nested run.
    pub fn run_id(&self) -> &RunId {
        match self {
            Self::Question(question) => &question.run,
            Self::Permission(permission) => &permission.run,
        }
    }

    /// Returns whether the question has a default.
    fn has_default(&self) -> bool {
        matches!(self, Self::Question(question) if question.default.is_some())
    }

    /// Returns whether the answer is empty and the question has a default, which is the answer then.
    pub fn is_empty_answer_for_default(&self, answer: &RequestAnswer) -> bool {
        matches!(answer, RequestAnswer::Text(text) if text.trim().is_empty()) && self.has_default()
    }
}

/// The result of a permission request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PermissionAnswer {
    /// The operator has decided.
    Decided {
        /// The decision.
        decision: PermissionDecision,
        /// Who decided.
        by: AnswerAuthor,
    },
    /// The request was withdrawn without a decision: the call is not made.
    Cancelled,
    /// Nobody can decide: the run waits for a decision.
    Nobody,
}

impl PermissionAnswer {
    /// Creates the answer for a decision.
    pub fn from_decision(decision: PermissionDecision, by: impl Into<AnswerAuthor>) -> Self {
        Self::Decided {
            decision,
            by: by.into(),
        }
    }
}

/// An operator that never answers: questions wait, and tool calls that need permission are not made.
#[derive(Debug, Clone, Copy, Default)]
pub struct UnattendedOperator;

impl Operator for UnattendedOperator {
    fn ask_question(&self, _asked: QuestionRequest) -> BoxFuture<'_, OperatorAnswer> {
        Box::pin(std::future::ready(OperatorAnswer::Nobody))
    }

    fn request_permission(&self, _requested: PermissionRequest) -> BoxFuture<'_, PermissionAnswer> {
        Box::pin(std::future::ready(PermissionAnswer::Nobody))
    }
}
