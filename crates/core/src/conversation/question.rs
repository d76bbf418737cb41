//! The event of a question that is not answered yet.

use std::sync::Arc;

use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};

use ensemble_language::data::{Question, WantedPermission};

/// An agent asks a question, and the question is not answered yet.
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
    pub question: Question,
}

impl Serialize for InputRequested {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut requested = serializer.serialize_struct("InputRequested", 7)?;
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
        requested.end()
    }
}

/// The form in which an [`InputRequested`] is read.
#[derive(Deserialize)]
struct InputRequestedFields {
    turn: u32,
    agent: Arc<str>,
    execution: u32,
    prompt: String,
    choices: Vec<String>,
    asked_by: Option<Arc<str>>,
    permission: Option<Box<WantedPermission>>,
}

impl From<InputRequestedFields> for InputRequested {
    fn from(read: InputRequestedFields) -> Self {
        Self {
            turn: read.turn,
            agent: read.agent,
            execution: read.execution,
            question: Question {
                prompt: read.prompt,
                choices: read.choices,
                asked_by: read.asked_by,
                permission: read.permission,
            },
        }
    }
}
