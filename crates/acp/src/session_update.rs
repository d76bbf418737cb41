//! The updates of a session that a client receives.

use std::sync::Arc;

use crate::budget_use::BudgetUsageUpdate;
use ensemble_core::store::RunId;
use serde_json::Value;

/// An update of a session for the client.
#[derive(Debug)]
pub(crate) enum SessionUpdate {
    /// The text of a prompt, which the live client shows by itself.
    Prompt(MessageChunk),
    User(MessageChunk),
    AgentMessage(MessageChunk),
    Thought(MessageChunk),
    Plan(Vec<(String, ProgressStatus)>),
    Card(ProgressCard),
    Title(String),
    Usage(BudgetUsageUpdate),
}

/// A piece of a message.
#[derive(Debug)]
pub(crate) struct MessageChunk {
    /// The id of the message.
    pub(crate) id: String,
    pub(crate) text: String,
    /// The execution that wrote the message. `None` means the user or the ensemble itself.
    pub(crate) source: Option<UpdateSource>,
}

/// The execution to which an update belongs: the agent, its number, and the names of the outer runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UpdateSource {
    /// The names of the nested runs, the outermost first.
    pub(crate) nested: Vec<String>,
    pub(crate) agent: Arc<str>,
    pub(crate) execution: u32,
}

impl UpdateSource {
    /// Creates the source of an execution of this run, which can be a nested run.
    pub(crate) fn new(run: &RunId, agent: &Arc<str>, execution: u32) -> Self {
        Self {
            nested: run.nested_names().map(str::to_owned).collect(),
            agent: agent.clone(),
            execution,
        }
    }

    /// Returns the id of the card of the execution.
    pub(crate) fn card_id(&self) -> String {
        let inside: String = self.nested.iter().map(|name| format!("{name}/")).collect();
        format!("{inside}{}#{}", self.agent, self.execution)
    }
}

/// Status of an agent or a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProgressStatus {
    Pending,
    Running,
    Completed,
    Failed,
}

/// A card of an execution or of a tool call in it.
#[derive(Debug)]
pub(crate) struct ProgressCard {
    pub(crate) id: String,
    pub(crate) source: UpdateSource,
    pub(crate) title: String,
    pub(crate) is_new: bool,
    pub(crate) is_tool: bool,
    pub(crate) status: ProgressStatus,
    pub(crate) input: Option<Value>,
    pub(crate) output: Option<Value>,
    pub(crate) text: Option<String>,
}
