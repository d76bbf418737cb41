//! The summary of a run, for lists and clients.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use ensemble_core::conversation::{AgentWorkCounts, CompletionReason};
use ensemble_core::request::PendingRequest;
use ensemble_core::store::RunId;
use ensemble_language::data::ModelUsage;
use serde::Serialize;

use crate::state::RunState;

/// The summary of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunSummary {
    /// The id of the run.
    pub id: RunId,
    /// The name of the ensemble.
    pub ensemble: Arc<str>,
    /// The file of the ensemble.
    pub ensemble_file: String,
    /// The input.
    pub input: Arc<str>,
    /// The id of the run from which this run was forked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<Arc<str>>,
    /// The time at which the run was started.
    pub started_at: DateTime<Utc>,
    /// The time of the latest record.
    pub last_at: DateTime<Utc>,
    /// The state.
    pub state: RunState,
    /// The id of the process that drives the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<u32>,
    /// The outcome, if the run has ended and was not continued.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_reason: Option<CompletionReason>,
    /// True if the exit code of the run is 0. `None` if the run has not ended or was continued.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub success: Option<bool>,
    /// Details of the outcome: the limit, the agent, or the condition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The number of turns.
    pub turns: u32,
    /// The number of executions that ended.
    pub executions: usize,
    /// The number of executions that failed.
    pub failed: usize,
    /// The agents with failed parts or failed tool calls.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failed_work: Vec<AgentWorkCounts>,
    /// Requests, tokens and cost of all attempts.
    pub usage: ModelUsage,
    /// The recorded questions and permission requests without an answer, in the order of the file.
    pub questions: Vec<PendingRequest>,
    /// The number of records.
    pub records: u64,
}
