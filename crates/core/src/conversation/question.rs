//! The events of a question that is not answered yet, and of an answer in a nested run.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};

use serde_json::Value;

use super::attempt_scope::{AttemptScope, flat_within};
use crate::request::{AnswerRecord, PendingRequest, RequestAddress, RequestDigest};
use ensemble_language::data::{OperatorQuestion, ToolPermissionRequest};

/// Event of a question or permission request that waits for an answer.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(from = "InputRequestedFields")]
pub struct InputRequested {
    /// The turn.
    pub turn: u32,
    /// The agent.
    pub agent: Arc<str>,
    /// The number of the execution of the agent.
    pub execution: u32,
    /// The question. In JSON, its keys are beside the keys above.
    pub question: OperatorQuestion,
    /// The address of the request.
    pub address: RequestAddress,
    /// The digest of what was shown.
    pub digest: RequestDigest,
    /// For a request of a nested run, or of an agent that is used as a tool: the number of the execution that asks.
    pub inner_execution: Option<u32>,
}

impl InputRequested {
    /// Returns the request that waits for an answer.
    pub fn pending_request(&self) -> PendingRequest {
        let address = match self.address.is_empty() {
            true => RequestAddress::for_agent(self.agent.clone()),
            false => self.address.clone(),
        };
        PendingRequest {
            address,
            agent: self.question.asked_by.clone().unwrap_or_else(|| self.agent.clone()),
            execution: self.inner_execution.unwrap_or(self.execution),
            digest: self.digest.clone(),
            question: self.question.clone(),
            position: Vec::new(),
        }
    }
}

impl Serialize for InputRequested {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut requested = serializer.serialize_struct("InputRequested", 11)?;
        requested.serialize_field("turn", &self.turn)?;
        requested.serialize_field("agent", &self.agent)?;
        requested.serialize_field("execution", &self.execution)?;
        requested.serialize_field("prompt", &self.question.prompt)?;
        requested.serialize_field("choices", &self.question.choices)?;
        if let Some(asked_by) = &self.question.asked_by {
            requested.serialize_field("asked_by", asked_by)?;
        }
        if let Some(permission) = &self.question.permission {
            requested.serialize_field("permission", permission)?;
        }
        if let Some(schema) = &self.question.output_schema {
            requested.serialize_field("output_schema", schema)?;
        }
        if !self.address.is_empty() {
            requested.serialize_field("address", &self.address)?;
            requested.serialize_field("digest", &self.digest)?;
        }
        if let Some(execution) = &self.inner_execution {
            requested.serialize_field("inner_execution", execution)?;
        }
        requested.end()
    }
}

/// Deserialized form of an [`InputRequested`].
#[derive(Deserialize)]
struct InputRequestedFields {
    turn: u32,
    agent: Arc<str>,
    execution: u32,
    prompt: String,
    choices: Vec<String>,
    asked_by: Option<Arc<str>>,
    permission: Option<Box<ToolPermissionRequest>>,
    output_schema: Option<Box<Value>>,
    #[serde(default)]
    address: RequestAddress,
    #[serde(default)]
    digest: RequestDigest,
    inner_execution: Option<u32>,
}

impl From<InputRequestedFields> for InputRequested {
    fn from(read: InputRequestedFields) -> Self {
        Self {
            turn: read.turn,
            agent: read.agent,
            execution: read.execution,
            question: OperatorQuestion {
                prompt: read.prompt,
                choices: read.choices,
                asked_by: read.asked_by,
                permission: read.permission,
                output_schema: read.output_schema,
            },
            address: read.address,
            digest: read.digest,
            inner_execution: read.inner_execution,
        }
    }
}

/// A question or a permission request of a nested run was answered. The records of the nested run contain the answer as well.
#[derive(Debug, Clone, PartialEq)]
pub struct NestedRequestAnswered {
    /// The execution, the part or the call that started the nested run.
    pub within: AttemptScope,
    /// The request, the answer, and who answered.
    pub answer: AnswerRecord,
    /// When the answer was recorded in the nested run.
    pub at: DateTime<Utc>,
    /// For a permission request: the tool.
    pub tool: Option<Arc<str>>,
}

flat_within! { NestedRequestAnswered { answer: AnswerRecord, at: DateTime<Utc>, ? tool: Arc<str>, } }
