//! The events of a conversation: everything that was decided and everything that was observed.
//!
//! Events own their data and name agents by name, so that a journal can be read without the ensemble and
//! outlives changes of it. Decisions (`turn_started`, `turn_finished`, `run_ended`) follow from the state
//! and are reproduced by a replay; all others are observations, found again by turn, agent and attempt.

use std::fmt;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::CompletionReason;
use crate::thread::Iteration;
use ensemble_language::condition::Read;
use ensemble_language::data::{Context, Failure, Question, Request, Usage};

/// One event with its place in the journal and its time.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// From 0, without gaps.
    pub seq: u64,
    /// When it was committed.
    pub at: DateTime<Utc>,
    /// What happened.
    pub event: Event,
}

/// What can happen in a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", content = "data", rename_all = "snake_case")]
pub enum Event {
    /// The first event of every journal.
    RunStarted(RunStarted),
    /// Another process drives the run on.
    RunResumed(RunResumed),
    /// A user message opens another leg of a conversation that had ended.
    MessageAdded(MessageAdded),
    /// Whoever forked the run put these values into the context.
    ContextSet(Context),
    /// Decision: these agents run side by side.
    TurnStarted(TurnStarted),
    /// An attempt begins.
    ExecutionStarted(ExecutionStarted),
    /// An attempt failed and another follows.
    AttemptFailed(AttemptFailed),
    /// An execution ended.
    ExecutionFinished(ExecutionFinished),
    /// A question waits for an answer.
    InputRequested(InputRequested),
    /// Something outside the conversation ends the run.
    Interrupted(Interruption),
    /// Decision: all have ended, the results are merged.
    TurnFinished(TurnFinished),
    /// Decision: why it is over.
    RunEnded(RunEnded),
}

/// What the run was started with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunStarted {
    /// Version of the journal's format.
    pub format: u32,
    /// The run's id.
    pub run_id: Arc<str>,
    /// The ensemble's name.
    pub ensemble: Arc<str>,
    /// The file it was read from.
    pub ensemble_file: String,
    /// SHA-256 of the file's text, in hex.
    pub ensemble_digest: String,
    /// The folder scripts run in.
    pub project_root: String,
    /// The input.
    pub input: Arc<str>,
    /// The context that was given.
    #[serde(default, skip_serializing_if = "Context::is_empty")]
    pub context: Context,
    /// `--model` as given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<String>,
    /// Agents whose model is the embedded simulated one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub simulated: Vec<Arc<str>>,
    /// The run of which this is a fork.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<ForkedFrom>,
    /// Version of the program.
    pub program: String,
}

/// Where a fork leaves another run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkedFrom {
    /// The other run.
    pub run_id: Arc<str>,
    /// The last turn that both have.
    pub turn: u32,
    /// The execution that is repeated after it, as `agent@turn`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeats: Option<Arc<str>>,
    /// So many records were decided by another text or another context: a replay takes them as given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given: Option<u64>,
}

/// A process takes the run over.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RunResumed {
    /// Version of the program.
    pub program: String,
    /// Agents whose finished execution in the open turn does not count, since they have `on_resume: rerun`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub again: Vec<Arc<str>>,
}

/// A user message after the end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MessageAdded {
    /// It is the input from now on.
    pub text: Arc<str>,
}

/// The decision who runs in a turn, and why others do not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnStarted {
    /// From 1.
    pub turn: u32,
    /// Who runs, in declaration order.
    pub starts: Vec<Start>,
    /// Who was looked at and does not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<Waiting>,
}

/// One agent that runs in the turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// The agent.
    pub agent: Arc<str>,
    /// Which execution of the agent this is, from 1.
    pub execution: u32,
    /// Positions of the dependencies that count this start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counts: Vec<usize>,
    /// Agents whose failure this start handles.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub handles: Vec<Arc<str>>,
    /// The request that starts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Arc<Request>>,
    /// What it reads: agents, and which of their executions.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub reads: IndexMap<Arc<str>, u32>,
}

/// One agent that was looked at and does not run in the turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Waiting {
    /// The agent.
    pub agent: Arc<str>,
    /// Why not.
    #[serde(flatten)]
    pub reason: Reason,
}

/// Why an agent does not run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum Reason {
    /// These have not ended as it needs.
    WaitingFor {
        /// The agents.
        agents: Vec<Arc<str>>,
    },
    /// A condition was false.
    ConditionFalse {
        /// The agent it is about.
        dependency: Arc<str>,
        /// As written.
        condition: Arc<str>,
        /// What it read.
        values: Vec<Read>,
    },
    /// A limit of its own was reached: `max_turns`, or the `max_executions` of an edge.
    LimitReached {
        /// Which.
        limit: Arc<str>,
        /// At how many.
        count: u32,
    },
    /// It has seen everything.
    NothingNew,
    /// It is there for a tool, and does not run by itself.
    OnlyTool,
    /// It could have run, but the run had ended.
    RunEnded,
}

/// An attempt begins.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExecutionStarted {
    /// The turn.
    pub turn: u32,
    /// The agent.
    pub agent: Arc<str>,
    /// Which execution of the agent.
    pub execution: u32,
    /// Which attempt of the execution, from 1.
    pub attempt: u32,
}

/// An attempt failed and another follows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttemptFailed {
    /// The turn.
    pub turn: u32,
    /// The agent.
    pub agent: Arc<str>,
    /// Which execution of the agent.
    pub execution: u32,
    /// Which attempt.
    pub attempt: u32,
    /// Why.
    pub failure: Failure,
    /// What it cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The end of its stderr.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stderr: String,
    /// What the person who runs the ensemble should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The pause before the next attempt, in seconds.
    pub pause: f64,
}

/// An execution ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "ExecutionFinishedFields")]
pub struct ExecutionFinished {
    /// The turn.
    pub turn: u32,
    /// The agent.
    pub agent: Arc<str>,
    /// Which execution of the agent.
    pub execution: u32,
    /// The attempt that ended it.
    pub attempt: u32,
    /// How it ended; in the journal the key is `output` or `failure`.
    #[serde(flatten)]
    pub end: ExecutionEnd,
    /// Wall clock of the last attempt, in seconds.
    pub execution_time: f64,
    /// What it cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The end of its stderr.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub stderr: String,
    /// What the person who runs the ensemble should know.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// LLM: the iterations of the execution; those of a success are added to the agent's thread.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exchange: Vec<Iteration>,
    /// It was taken over from the run of which this is a fork, and nothing was executed.
    #[serde(skip_serializing_if = "is_false")]
    pub reused: bool,
}

/// How an execution ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub enum ExecutionEnd {
    /// It succeeded with this output, a JSON object.
    #[serde(rename = "output")]
    Succeeded(Arc<Value>),
    /// It failed after its attempts.
    #[serde(rename = "failure")]
    Failed(Failure),
}

/// An [`ExecutionFinished`] as it is read: every key that may be absent has its default.
#[derive(Deserialize)]
struct ExecutionFinishedFields {
    turn: u32,
    agent: Arc<str>,
    execution: u32,
    attempt: u32,
    output: Option<Arc<Value>>,
    failure: Option<Failure>,
    execution_time: f64,
    usage: Option<Usage>,
    #[serde(default)]
    stderr: String,
    #[serde(default)]
    warnings: Vec<String>,
    #[serde(default, deserialize_with = "crate::thread::exchange")]
    exchange: Vec<Iteration>,
    #[serde(default)]
    reused: bool,
}

impl From<ExecutionFinishedFields> for ExecutionFinished {
    fn from(read: ExecutionFinishedFields) -> Self {
        Self {
            turn: read.turn,
            agent: read.agent,
            execution: read.execution,
            attempt: read.attempt,
            end: match (read.failure, read.output) {
                (Some(failure), _) => ExecutionEnd::Failed(failure),
                (None, Some(output)) => ExecutionEnd::Succeeded(output),
                (None, None) => ExecutionEnd::Succeeded(Arc::new(Value::Object(serde_json::Map::new()))),
            },
            execution_time: read.execution_time,
            usage: read.usage,
            stderr: read.stderr,
            warnings: read.warnings,
            exchange: read.exchange,
            reused: read.reused,
        }
    }
}

/// A question waits for an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InputRequested {
    /// The turn.
    pub turn: u32,
    /// The agent.
    pub agent: Arc<str>,
    /// Which execution of the agent.
    pub execution: u32,
    /// What is asked.
    #[serde(flatten)]
    pub question: Question,
}

/// What ends a run from outside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Cause", into = "Cause")]
pub enum Interruption {
    /// Somebody cancelled the run.
    Cancelled {
        /// Who did.
        by: Canceller,
    },
    /// The run's `timeout_seconds` were over.
    Timeout,
}

/// Who cancels a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Canceller {
    /// A person at the terminal, with Ctrl-C.
    Keyboard,
    /// Whoever sent SIGTERM to the process.
    Signal,
    /// A program that drives the run, by the name that it gives.
    Client(Arc<str>),
}

/// `Ctrl-C`, `SIGTERM`, or the client's name.
impl fmt::Display for Canceller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Keyboard => "Ctrl-C",
            Self::Signal => "SIGTERM",
            Self::Client(name) => name,
        })
    }
}

/// An [`Interruption`] as a journal has it.
#[derive(Clone, Serialize, Deserialize)]
#[serde(tag = "cause", rename_all = "snake_case")]
enum Cause {
    CtrlC,
    Terminated,
    Cancelled { by: Arc<str> },
    Timeout,
}

impl From<Cause> for Interruption {
    fn from(cause: Cause) -> Self {
        let by = match cause {
            Cause::Timeout => return Self::Timeout,
            Cause::CtrlC => Canceller::Keyboard,
            Cause::Terminated => Canceller::Signal,
            Cause::Cancelled { by } => Canceller::Client(by),
        };
        Self::Cancelled { by }
    }
}

impl From<Interruption> for Cause {
    fn from(interruption: Interruption) -> Self {
        match interruption {
            Interruption::Timeout => Self::Timeout,
            Interruption::Cancelled { by } => match by {
                Canceller::Keyboard => Self::CtrlC,
                Canceller::Signal => Self::Terminated,
                Canceller::Client(by) => Self::Cancelled { by },
            },
        }
    }
}

/// All have ended; their results are merged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnFinished {
    /// The turn.
    pub turn: u32,
    /// Requests for the next turn, by target.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub requests: IndexMap<Arc<str>, Arc<Request>>,
    /// What the person who runs the ensemble should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// Why it is over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunEnded {
    /// The outcome.
    pub completion_reason: CompletionReason,
    /// In words, where there is more to say: which limit, which agent, which condition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The condition that had no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<ConditionFailure>,
    /// Agents that never executed, in declaration order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_run: Vec<NotRun>,
}

/// A condition that had no answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConditionFailure {
    /// The agent that listens.
    pub agent: Arc<str>,
    /// The position among its dependencies, from 0.
    pub position: usize,
    /// The condition as written.
    pub text: Arc<str>,
    /// First byte of the offending part of the text.
    pub start: usize,
    /// One past its last byte.
    pub end: usize,
    /// What is wrong.
    pub message: String,
    /// What the condition read.
    pub values: Vec<Read>,
}

/// An agent that never executed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotRun {
    /// The agent.
    pub agent: Arc<str>,
    /// Why, in words.
    pub reason: String,
}

fn is_false(value: &bool) -> bool {
    !value
}

impl Event {
    /// Its name in the journal.
    pub fn name(&self) -> &'static str {
        match self {
            Self::RunStarted(_) => "run_started",
            Self::RunResumed(_) => "run_resumed",
            Self::MessageAdded(_) => "message_added",
            Self::ContextSet(_) => "context_set",
            Self::TurnStarted(_) => "turn_started",
            Self::ExecutionStarted(_) => "execution_started",
            Self::AttemptFailed(_) => "attempt_failed",
            Self::ExecutionFinished(_) => "execution_finished",
            Self::InputRequested(_) => "input_requested",
            Self::Interrupted(_) => "interrupted",
            Self::TurnFinished(_) => "turn_finished",
            Self::RunEnded(_) => "run_ended",
        }
    }
}

impl ExecutionFinished {
    /// Did it succeed?
    pub fn success(&self) -> bool {
        matches!(self.end, ExecutionEnd::Succeeded(_))
    }

    /// Its output, if it succeeded.
    pub fn output(&self) -> Option<&Arc<Value>> {
        match &self.end {
            ExecutionEnd::Succeeded(output) => Some(output),
            ExecutionEnd::Failed(_) => None,
        }
    }

    /// Why it failed, if it did.
    pub fn failure(&self) -> Option<&Failure> {
        match &self.end {
            ExecutionEnd::Succeeded(_) => None,
            ExecutionEnd::Failed(failure) => Some(failure),
        }
    }
}

/// As reports say it: `waiting for writer`, `condition false: …`.
impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WaitingFor { agents } => write!(f, "waiting for {}", agents.join(", ")),
            Self::ConditionFalse {
                dependency,
                condition,
                values,
            } => {
                write!(f, "condition false on {dependency}: {condition}")?;
                for (at, read) in values.iter().enumerate() {
                    let separator = if at == 0 { " (" } else { ", " };
                    write!(f, "{separator}{} = {}", read.expression, read.value)?;
                }
                if values.is_empty() { Ok(()) } else { f.write_str(")") }
            }
            Self::LimitReached { limit, count } => write!(f, "limit reached: {limit} {count}"),
            Self::NothingNew => f.write_str("nothing new"),
            Self::OnlyTool => f.write_str("it is a tool and does not run by itself"),
            Self::RunEnded => f.write_str("the run ended first"),
        }
    }
}
