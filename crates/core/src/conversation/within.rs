//! Where in a run something inside an execution happened.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The attempt of an execution, or of one of its parts, in which a reply or a call happened.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Within {
    /// The turn.
    pub turn: u32,
    /// The agent.
    pub agent: Arc<str>,
    /// The number of the execution of the agent.
    pub execution: u32,
    /// The number of the attempt.
    pub attempt: u32,
    /// With `for_each`: the key of the part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<Arc<str>>,
    /// For an agent that is used as a tool: the ids of the calls that contain it, the outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inside: Vec<Arc<str>>,
}

impl Within {
    pub(super) fn key(&self) -> ExchangeKey {
        (self.part.clone(), self.inside.clone())
    }
}

/// The part, and the ids of the calls that contain the agent.
pub(super) type ExchangeKey = (Option<Arc<str>>, Vec<Arc<str>>);
