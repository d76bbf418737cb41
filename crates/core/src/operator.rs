//! The operator of a run: the person or program that answers questions and requests for permission.
//!
//! Invariant: whoever answers gets all that the agent asks, and all arguments of a call.

use std::sync::Arc;
use std::time::Duration;

use ensemble_language::data::{JsonMap, Question};
pub use ensemble_language::shown::visible;
use serde::{Deserialize, Serialize};

use crate::runner::BoxFuture;
use crate::store::RunId;

/// Answers questions and permits tool calls: a person at a terminal, in an editor or in a browser, or a program.
///
/// Agents that run in parallel ask in parallel. When the future is dropped, the question is withdrawn: the run was
/// cancelled, or the answer is not needed any more. The clocks of the run are paused while an operator is asked.
pub trait Operator: Send + Sync {
    /// Asks the question of an input agent.
    fn ask(&self, asked: Asked) -> BoxFuture<'_, Answer>;

    /// Asks for permission to call a tool.
    fn permit(&self, requested: PermissionRequest) -> BoxFuture<'_, Decision>;
}

/// A question that an input agent asks.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Asked {
    /// The id of the run, which may be inside another run.
    pub run: RunId,
    /// The agent.
    pub agent: Arc<str>,
    /// The number of the execution of the agent, from 1.
    pub execution: u32,
    /// The question, with its choices.
    pub question: Question,
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

/// The result of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The answer.
    Text(String),
    /// The time limit was reached.
    TimedOut,
    /// Nobody can answer: the run waits for an answer.
    Nobody,
}

/// A call of a tool that needs permission.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PermissionRequest {
    /// The id of the run, which may be inside another run.
    pub run: RunId,
    /// The agent whose model wants to call the tool.
    pub agent: Arc<str>,
    /// The number of the execution of the agent, from 1.
    pub execution: u32,
    /// The id of the call, as the model gave it.
    pub call: Arc<str>,
    /// The tool: its name, or `SERVER.TOOL`.
    pub tool: Arc<str>,
    /// All arguments of the call.
    pub arguments: JsonMap,
}

/// The decision whether a tool may be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// This call may be made.
    Once,
    /// This call and all later calls of the tool in this run may be made.
    Always,
    /// This call may not be made.
    Denied,
    /// The question was withdrawn without a decision: the call is not made.
    Cancelled,
    /// Nobody can decide: the call is not made.
    Nobody,
}

/// An operator that never answers: questions wait, and calls that need permission are not made.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unattended;

impl Operator for Unattended {
    fn ask(&self, _asked: Asked) -> BoxFuture<'_, Answer> {
        Box::pin(std::future::ready(Answer::Nobody))
    }

    fn permit(&self, _requested: PermissionRequest) -> BoxFuture<'_, Decision> {
        Box::pin(std::future::ready(Decision::Nobody))
    }
}
