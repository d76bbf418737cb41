//! Who is asked while a run goes on: questions to a person, and requests for permission, as data.

use std::sync::Arc;
use std::time::Duration;

use ensemble_language::data::{JsonMap, Question};
use serde::{Deserialize, Serialize};

use crate::runner::BoxFuture;
use crate::store::RunId;

/// Whoever answers questions and permits calls: a person at a terminal, in an editor, in a browser, or a program.
///
/// Agents that run side by side ask side by side. A future that is dropped takes the question back: the run was
/// cancelled, or its answer is not needed any more. The clocks of the run stand while an operator is asked.
pub trait Operator: Send + Sync {
    /// Asks the question of an input agent.
    fn ask(&self, asked: Asked) -> BoxFuture<'_, Answer>;

    /// Asks whether a tool may be called.
    fn permit(&self, requested: PermissionRequest) -> BoxFuture<'_, Decision>;
}

/// A question that an input agent asks.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Asked {
    /// The run, which may be inside another.
    #[serde(serialize_with = "as_text")]
    pub run: RunId,
    /// The agent.
    pub agent: Arc<str>,
    /// Which execution of the agent, from 1.
    pub execution: u32,
    /// The question, with its choices.
    pub question: Question,
    /// What an empty answer stands for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<Arc<str>>,
    /// The time that is left to answer, from the moment the question is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// Why the answer before was refused, when the same question is asked again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// What came of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// This text.
    Text(String),
    /// The time was up.
    TimedOut,
    /// Nobody is there: the run waits for an answer.
    Nobody,
}

/// A call of a tool that needs permission.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PermissionRequest {
    /// The run, which may be inside another.
    #[serde(serialize_with = "as_text")]
    pub run: RunId,
    /// The agent whose model wants to call the tool.
    pub agent: Arc<str>,
    /// Which execution of the agent, from 1.
    pub execution: u32,
    /// The id of the call, as the model gave it.
    pub call: Arc<str>,
    /// The tool: its name, or `SERVER.TOOL`.
    pub tool: Arc<str>,
    /// All arguments.
    pub arguments: JsonMap,
}

/// Whether a tool may be called.
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
    /// Nobody is there to decide: the call is not made.
    Nobody,
}

/// Nobody: questions wait, and calls that need permission are not made.
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

fn as_text<S: serde::Serializer>(id: &RunId, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(id.as_str())
}
