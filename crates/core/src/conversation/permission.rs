//! Decisions whether a tool call may be made.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::attempt_scope::{AttemptScope, flat_within};
pub use crate::request::PermissionDecision;
use crate::request::{AnswerAuthor, RequestAddress, RequestDigest};

/// The decision of an operator about a tool call that needs permission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermissionDecided {
    /// Where.
    pub within: AttemptScope,
    /// The id of the call.
    pub call: Arc<str>,
    /// The tool: its name, or `SERVER.TOOL`.
    pub tool: Arc<str>,
    /// The decision.
    pub decision: PermissionDecision,
    /// Who decided.
    pub by: DecisionSource,
    /// The address of the call.
    pub address: Option<RequestAddress>,
    /// The source of the decision, where known.
    pub answered_by: Option<AnswerAuthor>,
    /// The digest of the call: its address, its tool and its arguments. For an operator, the digest of what was shown.
    pub digest: Option<RequestDigest>,
    /// The rendered question, with the arguments, if an operator has decided.
    pub prompt: Option<String>,
    /// The choices, if an operator has decided.
    pub choices: Option<Vec<String>>,
}

flat_within! {
    PermissionDecided {
        call: Arc<str>, tool: Arc<str>, decision: PermissionDecision, by: DecisionSource,
        ? address: RequestAddress, ? answered_by: AnswerAuthor, ? digest: RequestDigest, ? prompt: String,
        ? choices: Vec<String>,
    }
}

/// The source of a decision about a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecisionSource {
    /// A person or program that was asked.
    Operator,
    /// An option with which the run was started or resumed.
    Option,
}
