//! Decisions whether a tool call may be made.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::within::{Within, flat_within};
use crate::request::{Answerer, RequestAddress};

/// The decision of an operator about a tool call that needs permission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermissionDecided {
    /// Where.
    pub within: Within,
    /// The id of the call.
    pub call: Arc<str>,
    /// The tool: its name, or `SERVER.TOOL`.
    pub tool: Arc<str>,
    /// The decision.
    pub decision: PermissionDecision,
    /// Who decided.
    pub by: DecidedBy,
    /// The address of the call.
    pub address: Option<RequestAddress>,
    /// The source of the decision, where known.
    pub answered_by: Option<Answerer>,
}

flat_within! {
    PermissionDecided {
        call: Arc<str>, tool: Arc<str>, decision: PermissionDecision, by: DecidedBy,
        ? address: RequestAddress, ? answered_by: Answerer,
    }
}

/// The decision whether a tool call may be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PermissionDecision {
    /// This call may be made.
    Once,
    /// This call and all later calls of the tool in this run may be made.
    Always,
    /// This call may not be made.
    Denied,
}

impl PermissionDecision {
    /// The word in the journal.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Always => "always",
            Self::Denied => "denied",
        }
    }

    /// Finds the decision with this word.
    pub fn from_word(word: &str) -> Option<Self> {
        let all = [Self::Once, Self::Always, Self::Denied];
        all.into_iter().find(|decision| decision.as_str() == word)
    }
}

/// The source of a decision about a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecidedBy {
    /// A person or program that was asked.
    Operator,
    /// An option with which the run was started or resumed.
    Option,
}
