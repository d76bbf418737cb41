//! Messages between clients, the engine and workers. All messages are JSON; records are lines of a journal.
//!
//! Invariant: a run that is copied from the engine has the records that its workflow folded.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use ensemble_core::conversation::PermissionDecision;
use ensemble_core::conversation::{AgentWorkCounts, CompletionReason, Record, RunStarted};
use ensemble_core::records::{JournalLineError, append_record_line, parse_record_line};
use ensemble_core::request::{AnswerAuthor, RequestDigest};
use ensemble_core::store::RunId;
use ensemble_history::{RunState, RunSummary};
use ensemble_language::data::ModelUsage;
use ensemble_runs::PreparedAnswers;
use ensemble_runs::ReadyRun;
use ensemble_runs::batch::EngineRunOptions;
use ensemble_runs::steps::RecordedNestedRun;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Service that drives runs: a workflow, whose key is the id of the run.
pub const RUNS: &str = "EnsembleRun";
/// Service that performs executions.
pub const EXECUTIONS: &str = "EnsembleExecution";
/// Service that stores the ids of runs: an object, whose key is a day (`20261123`), or [`DAYS`].
pub const INDEX: &str = "EnsembleIndex";
/// Key of the index of days.
pub const DAYS: &str = "days";

/// Protocol of this build: the requests and records of runs, and the order of the calls of a workflow. The number is
/// increased with each change after which an older worker cannot continue a new run, or a newer worker an old run. A
/// field never changes its type, so that an older worker can read the protocol and refuse the run.
pub const PROTOCOL: u32 = 2;
/// The oldest protocol that this build reads.
pub const OLDEST_PROTOCOL: u32 = 2;

/// Version of a worker, and the protocols that the worker reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerVersion {
    /// Version of the program.
    pub version: String,
    /// Protocol of the runs that the worker starts.
    pub protocol: u32,
    /// Oldest protocol that the worker reads.
    pub oldest: u32,
}

impl WorkerVersion {
    /// Returns the version of this build.
    pub fn for_this_build() -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            protocol: PROTOCOL,
            oldest: OLDEST_PROTOCOL,
        }
    }

    /// Returns whether a worker of this version can continue a run with this protocol.
    pub fn can_continue_protocol(&self, protocol: u32) -> bool {
        (self.oldest..=self.protocol).contains(&protocol)
    }

    /// Renders the message with which the worker refuses a run with this protocol.
    pub fn refusal_text(&self, protocol: u32) -> String {
        let (version, newest, oldest) = (&self.version, self.protocol, self.oldest);
        let own = match oldest == newest {
            true => format!("protocol {newest}"),
            false => format!("protocols {oldest} to {newest}"),
        };
        format!(
            "worker {version} reads {own}, and the run has protocol {protocol}; a worker that reads it must continue it"
        )
    }
}

/// Request to start a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunStartRequest {
    /// Protocol of the program that starts the run.
    #[serde(default)]
    pub protocol: u32,
    /// Time of the start.
    pub at: DateTime<Utc>,
    /// Start event of the run, with its id.
    pub started: RunStarted,
    /// Text of the ensemble.
    pub ensemble: Arc<str>,
    /// File of the ensemble, relative to the folder that workers serve.
    pub file: String,
    /// Answers of the options of the command.
    #[serde(default)]
    pub answers: PreparedAnswers,
    /// Tools that may be called without a question.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_tools: Vec<String>,
    /// Tools that may not be called.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub denied_tools: Vec<String>,
    /// The run records a success with exhausted agents as no success: `--fail-on-limit`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub refuses_exhausted: bool,
    /// The run is inside another, whose values of `--model` these are. No list has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inside: Option<Vec<String>>,
    /// Workflow that drove this nested run until its interruption. The new workflow continues after its records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goes_on_after: Option<Arc<str>>,
    /// Answer to the question that the run waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered: Option<SentQuestionAnswer>,
}

/// Request to perform an execution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExecutionRequest {
    /// Protocol of the run.
    #[serde(default)]
    pub protocol: u32,
    /// Id of the run.
    pub run: Arc<str>,
    /// Agent of the execution.
    pub agent: Arc<str>,
    /// Number of records of the run.
    pub records: u64,
    /// Answer to the question of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Value>,
    /// Author of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<AnswerAuthor>,
    /// Decision about the call that the agent waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided: Option<DecidedToolCall>,
    /// Nested runs of the execution that have ended, or wait for an answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inner: Vec<EndedNestedRun>,
    /// Names of the nested runs that were started by an attempt that did not end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub begun: Vec<String>,
    /// Set if the time limit of the turn is reached, so that unfinished work has failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub turn_is_up: bool,
}

/// Tool call with the decision about its permission.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DecidedToolCall {
    /// Tool: its name, or `SERVER.TOOL`.
    pub tool: Arc<str>,
    /// All arguments of the call.
    pub arguments: Map<String, Value>,
    /// Decision about the call.
    pub decision: PermissionDecision,
    /// Digest of the request that was shown.
    pub digest: RequestDigest,
    /// Author of the decision, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<AnswerAuthor>,
}

/// Nested run that has ended, or waits for an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EndedNestedRun {
    /// Name of the run in its outer run.
    pub name: String,
    /// Id of the run.
    pub run: Arc<str>,
    /// Set if the run was stopped at the time limit of the attempt.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_late: bool,
}

/// Request of an execution for a nested run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NestedRunRequest {
    /// Name of the run in its outer run.
    pub name: String,
    /// Start of the run.
    pub start: RunStartRequest,
    /// Time limit of the attempt that contains the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Duration>,
}

/// Result of the call of an execution.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ExecutionCallResult {
    /// Records of the execution, as lines of a journal.
    pub lines: String,
    /// Nested runs of the execution.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inside: Vec<NestedRunLines>,
    /// Nested runs that the execution needs before its end. The execution is performed again when one of them has ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wants: Vec<NestedRunRequest>,
    /// Name of the nested run whose question the execution passes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asks: Option<String>,
    /// Reason why the worker cannot run the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Set if the execution was stopped with its run, and has not ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_stopped: bool,
    /// Starts of the latest attempts, whose workers were lost before they left a record.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost_starts: Vec<DateTime<Utc>>,
}

/// Nested run with its records, as lines of a journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NestedRunLines {
    /// Name of the run.
    pub name: String,
    /// Text of the ensemble.
    pub ensemble: String,
    /// Records of the run, as lines of a journal.
    pub lines: String,
    /// Id of the workflow that has the records and the nested runs, if the run is a workflow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<Arc<str>>,
    /// Set if the outer run passes on the question of this run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub asks: bool,
    /// Nested runs of this run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inside: Vec<NestedRunLines>,
}

/// Records of a run from a number on, with the state of the run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RecordsReply {
    /// Start of the run; only with its first record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<RunStartRequest>,
    /// Records, as lines of a journal.
    pub lines: String,
    /// Nested runs; only with the first record.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inside: Vec<NestedRunLines>,
    /// Set if no more records follow.
    pub is_over: bool,
    /// The run has more records than a reply can contain.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_partial: bool,
    /// The reason why the worker refused the run before it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
}

/// Answer to a question of a run, as a client sends the answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SentQuestionAnswer {
    /// Agent that asks.
    pub agent: String,
    /// Number of the execution.
    pub execution: u32,
    /// Number of records of the run when it started to wait. An execution can ask several times, and the answer is for
    /// one question.
    pub asked: u64,
    /// Answer to the question.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub answer: Value,
    /// Decision, if the question was about the permission of a tool call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<PermissionDecision>,
    /// Digest of the request that was shown. The answer is for this request only.
    pub digest: RequestDigest,
    /// Author of the answer, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<AnswerAuthor>,
    /// Time of the answer.
    pub at: DateTime<Utc>,
    /// Whether the run that goes on with the answer records a success with exhausted agents as no success; `None`: as before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refuses_exhausted: Option<bool>,
}

/// A request to continue a run that was cut short.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ResumeRequest {
    /// The run accepts a success with exhausted agents. The time of the request.
    Accepting(DateTime<Utc>),
    /// The run records such a success as no success: `--fail-on-limit`. A worker that cannot do this refuses the request.
    Refusing {
        /// The time of the request.
        refuses_exhausted_at: DateTime<Utc>,
    },
}

impl ResumeRequest {
    /// Creates a request at this time.
    pub fn new(at: DateTime<Utc>, refuses_exhausted: bool) -> Self {
        match refuses_exhausted {
            true => Self::Refusing {
                refuses_exhausted_at: at,
            },
            false => Self::Accepting(at),
        }
    }

    /// Returns the time of the request.
    pub fn time(self) -> DateTime<Utc> {
        match self {
            Self::Accepting(at)
            | Self::Refusing {
                refuses_exhausted_at: at,
            } => at,
        }
    }

    /// Returns whether the run records a success with exhausted agents as no success.
    pub fn refuses_exhausted(self) -> bool {
        matches!(self, Self::Refusing { .. })
    }
}

impl From<DateTime<Utc>> for ResumeRequest {
    fn from(at: DateTime<Utc>) -> Self {
        Self::Accepting(at)
    }
}

impl SentQuestionAnswer {
    /// Renders the message for a client whose answer came after this answer.
    pub fn describe_earlier_answer(&self) -> String {
        let answer = match (&self.decision, &self.answer) {
            (Some(decision), _) => decision.as_str().to_owned(),
            (None, Value::String(text)) => text.clone(),
            (None, other) => other.to_string(),
        };
        let by = self.by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
        let at = self.at.format("%Y-%m-%d %H:%M:%S UTC");
        format!(
            "`{}` was answered `{answer}`{by} at {at}; your answer was not used",
            self.agent
        )
    }
}

/// Summary of the present state of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunBrief {
    /// Name of the ensemble.
    pub ensemble: Arc<str>,
    /// Start time of the run.
    pub started_at: DateTime<Utc>,
    /// State of the run.
    pub state: RunState,
    /// Outcome, if the run has ended or waits for an answer.
    pub outcome: Option<CompletionReason>,
    /// Set if the exit code of the ended run is 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success: Option<bool>,
    /// Details of the outcome: the limit, the agent, or the condition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Number of turns.
    pub turns: u32,
    /// Number of executions that ended.
    pub executions: usize,
    /// Number of executions that failed.
    pub failed: usize,
    /// Agents of whose executions a part or a tool call failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_work: Vec<AgentWorkCounts>,
    /// Requests, tokens and cost of all attempts.
    pub usage: ModelUsage,
    /// Set if the run is about to end, so that workers stop its executions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_stopping: bool,
}

impl RunBrief {
    /// Returns whether the run has ended. A run that waits for an answer has not ended.
    pub fn has_ended(&self) -> bool {
        self.state.is_ended()
    }
}

impl From<RunSummary> for RunBrief {
    fn from(summary: RunSummary) -> Self {
        Self {
            ensemble: summary.ensemble,
            started_at: summary.started_at,
            state: summary.state,
            outcome: summary.completion_reason,
            success: summary.success,
            detail: summary.detail,
            turns: summary.turns,
            executions: summary.executions,
            failed: summary.failed,
            failed_work: summary.failed_work,
            usage: summary.usage,
            is_stopping: false,
        }
    }
}

impl RunStartRequest {
    /// Creates the request to start a new run that was prepared, with this id. Reads the file system to find the file in the project.
    ///
    /// # Errors
    /// The run is not new, or its ensemble is not in the project that workers serve. The message names the reason.
    pub fn from_ready_run(
        ready: &ReadyRun,
        id: &RunId,
        at: DateTime<Utc>,
        given: &EngineRunOptions,
    ) -> Result<Self, String> {
        let mut started = ready.start_event().cloned().ok_or("only a new run can be started")?;
        started.run_id = id.shared_text();
        let file = served_file_path(&started);
        let file = file.ok_or_else(|| {
            let (file, root) = (&started.ensemble_file, &started.project_root);
            format!("{file} is not in the project {root} that the workers serve")
        })?;
        Ok(Self {
            protocol: PROTOCOL,
            at,
            ensemble: ready.prepared_ensemble().source.text().clone(),
            file,
            started,
            answers: given.answers.clone(),
            allowed_tools: given.allowed_tools.clone(),
            denied_tools: given.denied_tools.clone(),
            refuses_exhausted: ready.refuses_exhausted(),
            inside: None,
            goes_on_after: None,
            answered: None,
        })
    }
}

/// Returns the file of the ensemble relative to the project root. Returns `None` if the file is outside.
fn served_file_path(started: &RunStarted) -> Option<String> {
    let file = std::fs::canonicalize(&started.ensemble_file).ok()?;
    let root = std::fs::canonicalize(&started.project_root).ok()?;
    Some(file.strip_prefix(root).ok()?.to_str()?.to_owned())
}

/// Encodes records as lines of a journal.
pub fn encode_record_lines<'a>(records: impl IntoIterator<Item = &'a Record>) -> String {
    let mut buffer = Vec::new();
    for record in records {
        append_record_line(record, &mut buffer);
    }
    String::from_utf8(buffer).expect("a journal is UTF-8")
}

/// Decodes the lines of a journal as records.
///
/// # Errors
/// A line is no record.
pub fn decode_record_lines(lines: &str) -> Result<Vec<Record>, JournalLineError> {
    lines.lines().map(|line| parse_record_line(line.as_bytes())).collect()
}

impl NestedRunLines {
    /// Converts a performed nested run with its nested runs to lines.
    pub fn from_nested_run(run: &RecordedNestedRun) -> Self {
        Self {
            name: run.name.clone(),
            ensemble: run.ensemble.clone(),
            lines: encode_record_lines(&run.records),
            run: None,
            asks: false,
            inside: run.inner_runs.iter().map(Self::from_nested_run).collect(),
        }
    }

    /// Returns whether this is a nested run of this execution of the agent, or of a part of the execution, by its name.
    pub fn belongs_to_execution(&self, agent: &str, execution: u32) -> bool {
        let suffix = self.name.strip_prefix(agent);
        let suffix = suffix.and_then(|rest| rest.strip_prefix(&format!("-{execution}")));
        let Some((part, attempt)) = suffix.and_then(|rest| rest.split_once('-')) else {
            return false;
        };
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number(attempt) && (part.is_empty() || part.strip_prefix('.').is_some_and(is_number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_of_one_execution_of_one_agent() {
        let rows = [
            ("a-1-1", "a", 1, true),
            ("a-1-12", "a", 1, true),
            ("a-1.0-1", "a", 1, true),
            ("a-12-1", "a", 1, false),
            ("a-1-1", "a", 2, false),
            ("a-1-1-1", "a", 1, false),
            ("a-1-1-1", "a-1", 1, true),
            ("a-1.0-1-1", "a", 1, false),
            ("a-1.0-1-1", "a-1.0", 1, true),
            ("a-1.0-1", "a-1.0", 1, false),
            ("ab-1-1", "a", 1, false),
        ];
        for (name, agent, execution, is_of) in rows {
            let inner = NestedRunLines {
                name: name.to_owned(),
                ensemble: String::new(),
                lines: String::new(),
                run: None,
                asks: false,
                inside: Vec::new(),
            };
            assert_eq!(
                inner.belongs_to_execution(agent, execution),
                is_of,
                "{name} of {agent}, {execution}"
            );
        }
    }
}
