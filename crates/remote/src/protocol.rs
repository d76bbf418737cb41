//! What is sent. Everything is JSON; records are lines of a journal.
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

/// The service that drives runs: a workflow, whose key is the id of the run.
pub const RUNS: &str = "EnsembleRun";
/// The service that performs executions.
pub const EXECUTIONS: &str = "EnsembleExecution";
/// The service that knows the ids of runs: an object, whose key is a day (`20261123`), or [`DAYS`].
pub const INDEX: &str = "EnsembleIndex";
/// The key of the index of days.
pub const DAYS: &str = "days";

/// The protocol of this build: the requests and records of runs, and the order of the calls of a workflow. It is
/// increased with each change after which an older worker cannot continue a new run, or a newer worker an old run. A
/// field never changes its type, so that an older worker can read the protocol and refuse the run.
pub const PROTOCOL: u32 = 1;
/// The oldest protocol that this build reads.
pub const OLDEST_PROTOCOL: u32 = 1;

/// The version of a worker, and the protocols that it reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerVersion {
    /// The version of the program.
    pub version: String,
    /// The protocol of the runs that it starts.
    pub protocol: u32,
    /// The oldest protocol that it reads.
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

    /// Returns the sentence with which the worker refuses a run with this protocol.
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

/// A run to be started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunStartRequest {
    /// The protocol of the program that starts the run.
    #[serde(default)]
    pub protocol: u32,
    /// When it is started.
    pub at: DateTime<Utc>,
    /// What it is started with, with its id.
    pub started: RunStarted,
    /// The text of its ensemble.
    pub ensemble: Arc<str>,
    /// The file of its ensemble, relative to the folder that workers serve.
    pub file: String,
    /// Answers that were given with the run.
    #[serde(default)]
    pub answers: PreparedAnswers,
    /// Tools that may be called without asking.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_tools: Vec<String>,
    /// Tools that may not be called.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub denied_tools: Vec<String>,
    /// The run is inside another, whose values of `--model` these are. No list has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inside: Option<Vec<String>>,
    /// The workflow that drove this run until it was cut short with the run that it is inside: this one goes on after its records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goes_on_after: Option<Arc<str>>,
    /// The answer to the question that the run waited for until now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered: Option<SentQuestionAnswer>,
}

/// An execution to be performed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExecutionRequest {
    /// The protocol of the run.
    #[serde(default)]
    pub protocol: u32,
    /// The id of the run.
    pub run: Arc<str>,
    /// The agent.
    pub agent: Arc<str>,
    /// How many records the run has.
    pub records: u64,
    /// The answer to the agent's question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Value>,
    /// Who gave the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<AnswerAuthor>,
    /// The decision about the call that the agent waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided: Option<DecidedToolCall>,
    /// The runs of its inner ensemble that have ended, or wait for an answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inner: Vec<EndedNestedRun>,
    /// The names of the runs of its inner ensemble that were begun, if an attempt of the execution did not end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub begun: Vec<String>,
    /// The time of the turn is up: what has not ended has failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub turn_is_up: bool,
}

/// A decision about a call of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DecidedToolCall {
    /// The tool: its name, or `SERVER.TOOL`.
    pub tool: Arc<str>,
    /// All arguments of the call.
    pub arguments: Map<String, Value>,
    /// Whether it may be made.
    pub decision: PermissionDecision,
    /// The digest of the request that was shown.
    pub digest: RequestDigest,
    /// Who decided, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<AnswerAuthor>,
}

/// A run of an inner ensemble that has ended, or waits for an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EndedNestedRun {
    /// Its name in the run that it is inside.
    pub name: String,
    /// Its id.
    pub run: Arc<str>,
    /// It had not ended within the time limit of the attempt, and was stopped.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_late: bool,
}

/// A run of an inner ensemble that is wanted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NestedRunRequest {
    /// Its name in the run that it is inside.
    pub name: String,
    /// How it starts.
    pub start: RunStartRequest,
    /// The time limit of the attempt that it is performed in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Duration>,
}

/// The result of an execution.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ExecutionCallResult {
    /// Its records, as lines of a journal.
    pub lines: String,
    /// The runs of its inner ensembles.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inside: Vec<NestedRunLines>,
    /// It needs these runs before it can end; it is performed again when one of them has ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wants: Vec<NestedRunRequest>,
    /// It asks what this run of its inner ensemble asks: its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asks: Option<String>,
    /// Why it was not performed at all: the worker cannot run the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// It was stopped with the run, and has not ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_stopped: bool,
    /// The starts of the latest attempts, whose workers were lost before they left a record.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost_starts: Vec<DateTime<Utc>>,
}

/// A run inside a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NestedRunLines {
    /// Its name.
    pub name: String,
    /// The text of its ensemble.
    pub ensemble: String,
    /// Its records, as lines of a journal.
    pub lines: String,
    /// The id of the workflow that has its records and the runs inside it, where it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<Arc<str>>,
    /// The run around it asks what this one asks.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub asks: bool,
    /// The runs inside it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inside: Vec<NestedRunLines>,
}

/// Records of a run, from one on.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RecordsReply {
    /// What the run was started with; only with its first record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<RunStartRequest>,
    /// The records, as lines of a journal.
    pub lines: String,
    /// The runs inside the run; only with its first record.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inside: Vec<NestedRunLines>,
    /// Whether the run is over: no more records come.
    pub is_over: bool,
}

/// An answer to a question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SentQuestionAnswer {
    /// The agent.
    pub agent: String,
    /// The number of its execution.
    pub execution: u32,
    /// How many records the run had when it waited for the answer. An execution can ask several times, and an answer is for
    /// one question.
    pub asked: u64,
    /// The answer.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub answer: Value,
    /// If the question was whether a tool may be called: the decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<PermissionDecision>,
    /// The digest of the request that was shown. The answer is for this request only.
    pub digest: RequestDigest,
    /// Who gave the answer, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<AnswerAuthor>,
    /// When it was given.
    pub at: DateTime<Utc>,
}

impl SentQuestionAnswer {
    /// Returns the sentence for a client whose answer comes after this one.
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

/// The summary of a run until now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunBrief {
    /// The name of its ensemble.
    pub ensemble: Arc<str>,
    /// When it began.
    pub started_at: DateTime<Utc>,
    /// The state.
    pub state: RunState,
    /// The outcome, if the run has ended or waits for an answer.
    pub outcome: Option<CompletionReason>,
    /// Whether the exit code of the run is 0, if the run has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success: Option<bool>,
    /// Details of the outcome: the limit, the agent, or the condition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The number of turns.
    pub turns: u32,
    /// The number of executions that ended.
    pub executions: usize,
    /// The number of executions that failed.
    pub failed: usize,
    /// The agents of whose executions a part or a tool call failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_work: Vec<AgentWorkCounts>,
    /// Requests, tokens and cost of all attempts.
    pub usage: ModelUsage,
    /// The run is about to end: workers stop its executions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_stopping: bool,
}

impl RunBrief {
    /// Returns whether the run is over. A run that waits for an answer is not over.
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
    /// Returns a new run that was made ready, with this id.
    ///
    /// # Errors
    /// The run is not new, or its ensemble is not in the project that workers serve: the text says which.
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
            inside: None,
            goes_on_after: None,
            answered: None,
        })
    }
}

/// Returns the file of the ensemble as workers find it: relative to the project's root.
fn served_file_path(started: &RunStarted) -> Option<String> {
    let file = std::fs::canonicalize(&started.ensemble_file).ok()?;
    let root = std::fs::canonicalize(&started.project_root).ok()?;
    Some(file.strip_prefix(root).ok()?.to_str()?.to_owned())
}

/// Records as lines of a journal.
pub fn encode_record_lines<'a>(records: impl IntoIterator<Item = &'a Record>) -> String {
    let mut buffer = Vec::new();
    for record in records {
        append_record_line(record, &mut buffer);
    }
    String::from_utf8(buffer).expect("a journal is UTF-8")
}

/// Lines of a journal as records.
///
/// # Errors
/// A line is no record.
pub fn decode_record_lines(lines: &str) -> Result<Vec<Record>, JournalLineError> {
    lines.lines().map(|line| parse_record_line(line.as_bytes())).collect()
}

impl NestedRunLines {
    /// Returns the run as it is sent.
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

    /// Returns whether this is the run of this execution of an agent, or of a part of it.
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
