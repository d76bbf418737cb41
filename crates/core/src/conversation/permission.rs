//! Decisions whether a tool call may be made.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::within::{Within, flat_within};

/// Somebody decided about a tool call that needs permission.
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
}

flat_within! {
    PermissionDecided { call: Arc<str>, tool: Arc<str>, decision: PermissionDecision, by: DecidedBy, }
}

/// Whether a tool call may be made.
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

/// Who decided about a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecidedBy {
    /// A person or program that was asked.
    Operator,
    /// An option with which the run was started or resumed.
    Option,
}
