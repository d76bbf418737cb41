//! The events of a conversation: all decisions and all observations.
//!
//! Events own their data and name agents by name. So a journal can be read without the ensemble, and it stays valid
//! when the ensemble changes. Decisions (`turn_started`, `turn_finished`, `run_ended`) follow from the state, and a
//! replay makes them again. All other events are observations; a replay finds them by turn, agent and attempt.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::attempt_scope::AttemptScope;
use super::end::ExecutionEnd;
use super::enforced_sandbox::EnforcedSandbox;
use super::exchange::{RecordedExchanges, ReplyReceived, RequestStopped, ToolCallEnded, ToolCallStarted};
use super::interruption::RunInterruption;
use super::part::PartAttemptEnded;
use super::permission::PermissionDecided;
use super::question::{InputRequested, NestedRequestAnswered};
use super::reason::SkippedAgent;
use super::run_ended::RunEnded;
use crate::request::{AnswerRecord, RequestOrigin};
use crate::thread::ThreadIteration;
use crate::trace::TraceParent;
use ensemble_language::condition::EvaluationNote;
use ensemble_language::data::{AgentRequest, ExecutionFailure, ModelUsage, RunContext};
use ensemble_language::definition::ExternalDefinitionDigests;

/// Event with its number in the journal and its time.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// The number of the record: from 0, without gaps.
    pub seq: u64,
    /// When the event was committed.
    pub at: DateTime<Utc>,
    /// The event.
    pub event: Event,
}

/// Event of a conversation: a decision of the run, or an observation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", content = "data", rename_all = "snake_case")]
pub enum Event {
    /// The first event of every journal.
    RunStarted(Box<RunStarted>),
    /// Another process continues the run.
    RunResumed(RunResumed),
    /// A user message continues a conversation that had ended.
    MessageAdded(MessageAdded),
    /// A fork added these values to the context.
    ContextSet(RunContext),
    /// Decision: a turn starts, and these agents run in parallel.
    TurnStarted(TurnStarted),
    /// An attempt of an execution starts.
    ExecutionStarted(ExecutionStarted),
    /// A model replied, and the execution goes on.
    ReplyReceived(Box<ReplyReceived>),
    /// A request to a model was stopped with the run.
    RequestStopped(Box<RequestStopped>),
    /// Somebody decided whether a tool may be called.
    PermissionDecided(Box<PermissionDecided>),
    /// A tool is about to be called.
    ToolCallStarted(Box<ToolCallStarted>),
    /// A tool call ended.
    ToolCallEnded(Box<ToolCallEnded>),
    /// A question or a permission request of a nested run was answered.
    NestedRequestAnswered(Box<NestedRequestAnswered>),
    /// An attempt failed, and another attempt follows.
    AttemptFailed(AttemptFailed),
    /// An attempt of a part of an execution ended.
    PartEnded(Box<PartAttemptEnded>),
    /// An execution ended.
    ExecutionFinished(ExecutionFinished),
    /// An agent asks a question, and the question is not answered yet.
    InputRequested(InputRequested),
    /// A cancellation or a time-out ends the run.
    Interrupted(RunInterruption),
    /// Decision: all executions of the turn have ended, and the results are merged.
    TurnFinished(TurnFinished),
    /// Decision: the conversation ends, with its outcome.
    RunEnded(RunEnded),
}

/// Event of the start of a run, with the arguments of the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunStarted {
    /// Version of the journal's format.
    pub format: u32,
    /// The id of the run.
    pub run_id: Arc<str>,
    /// The name of the ensemble.
    pub ensemble: Arc<str>,
    /// The file from which the ensemble was read.
    pub ensemble_file: String,
    /// SHA-256 of the text of the file, in hex.
    pub ensemble_digest: String,
    /// The folder in which scripts run.
    pub project_root: String,
    /// The input of the run.
    pub input: Arc<str>,
    /// The initial context.
    #[serde(default, skip_serializing_if = "RunContext::is_empty")]
    pub context: RunContext,
    /// What the run was given by name, with the defaults of what was not given.
    #[serde(default, skip_serializing_if = "RunContext::is_empty")]
    pub inputs: RunContext,
    /// The values of `--model`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<String>,
    /// The agents whose model is the built-in simulated model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub simulated: Vec<Arc<str>>,
    /// The agents that did not run, and the texts that were given in the place of their results.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stubs: BTreeMap<Arc<str>, Arc<str>>,
    /// The input agents and script agents for which a model answered that was named with the run, and its profile; or
    /// [`RunStarted::GENERATOR_RESPONDER`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub responders: BTreeMap<Arc<str>, Arc<str>>,
    /// For a nested run: the execution, the part or the call that started it.
    #[serde(default, skip_serializing_if = "RequestOrigin::is_outermost")]
    pub caller: RequestOrigin,
    /// The digests of scripts, nested ensembles and profiles behind each agent when the run was started; `None`: not
    /// recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definitions: Option<ExternalDefinitionDigests>,
    /// For a fork: the run from which it was forked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<ForkedFrom>,
    /// With telemetry: the span in which the run was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceParent>,
    /// The version of the program.
    pub program: String,
}

impl RunStarted {
    /// The value in `responders` for an agent whose replies a generator of the program made. No profile has this name.
    pub const GENERATOR_RESPONDER: &str = "(generator)";
}

/// Origin of a fork: another run, and the turn after which the fork continues.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkedFrom {
    /// The id of the other run.
    pub run_id: Arc<str>,
    /// For a merge: the id of the second run, whose messages follow or alternate with those of the other run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merged_with: Option<Arc<str>>,
    /// The last turn that both runs share.
    pub turn: u32,
    /// The execution that is repeated after this turn, as `agent@turn`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeats: Option<Arc<str>>,
    /// The number of records that were decided with another ensemble text or another context. A replay does not decide
    /// them again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given: Option<u64>,
    /// Agents whose shared executions, up to the one with this number, were performed with another definition than that
    /// of this run.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub outdated: BTreeMap<Arc<str>, u32>,
}

/// The event of a run that another process continues.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RunResumed {
    /// The version of the program.
    pub program: String,
    /// The agents whose finished execution in the open turn is repeated, because they have `on_resume: rerun`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub again: Vec<Arc<str>>,
    /// The digests behind each agent from now on, if they are not those that were recorded before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definitions: Option<ExternalDefinitionDigests>,
    /// With telemetry: the span in which the run was resumed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceParent>,
}

/// The event of a user message that continues a finished conversation.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct MessageAdded {
    /// The message. It is the input from now on.
    pub text: Arc<str>,
    /// Values that are set with it in the context, and in place of inputs of the run.
    #[serde(default, skip_serializing_if = "RunContext::is_empty")]
    pub set: RunContext,
    /// The digests behind each agent from now on, if they are not those that were recorded before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definitions: Option<ExternalDefinitionDigests>,
    /// With telemetry: the span in which the run goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceParent>,
}

/// The event that starts a turn: the agents that run, and the reasons why other agents do not run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnStarted {
    /// The number of the turn, from 1.
    pub turn: u32,
    /// The agents that run, in declaration order.
    pub starts: Vec<AgentStart>,
    /// The agents that were examined and do not run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<SkippedAgent>,
    /// What the conditions of this decision read in vain, each read once in a run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<ExpressionReadWarning>,
}

/// A warning about a condition or an expression that read a missing key, or compared values that are never equal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpressionReadWarning {
    /// The condition or the expression: `critic.dependencies[0]`, `result.summary`.
    pub at: Arc<str>,
    /// The read in the user's text: `output.aproved`.
    pub read: String,
    /// The key that is missing; empty for a comparison.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// The sentence for the user.
    pub message: String,
}

impl ExpressionReadWarning {
    /// Creates the warning from a note of the expression at position `at`. `dependency` is the agent whose output the expression calls
    /// `output`.
    pub fn from_note(at: &Arc<str>, note: EvaluationNote, dependency: Option<&str>) -> Self {
        Self {
            at: at.clone(),
            message: note.describe(dependency),
            read: note.expression,
            key: note.key,
        }
    }

    /// Returns whether both warnings concern the same read of the same key.
    pub fn is_same_read(&self, other: &Self) -> bool {
        (&self.at, &self.read, &self.key) == (&other.at, &other.read, &other.key)
    }
}

/// Start of an agent in a turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentStart {
    /// The agent.
    pub agent: Arc<str>,
    /// The number of the execution of the agent, from 1.
    pub execution: u32,
    /// The positions of the dependencies that count this start (`max_executions`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counts: Vec<usize>,
    /// The agents whose failure this start handles.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub handles: Vec<Arc<str>>,
    /// The request that starts the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Arc<AgentRequest>>,
    /// The outputs that the execution reads: the agent, and the number of its execution.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub reads: IndexMap<Arc<str>, u32>,
    /// The agents whose new outputs start the agent; `None`: those of the dependencies in `counts`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub news: Option<Vec<Arc<str>>>,
}

/// The event of an attempt of an execution that starts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExecutionStarted {
    /// The turn.
    pub turn: u32,
    /// The agent.
    pub agent: Arc<str>,
    /// The number of the execution of the agent.
    pub execution: u32,
    /// The number of the attempt of the execution, from 1.
    pub attempt: u32,
}

/// The event of a failed attempt that another attempt follows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttemptFailed {
    /// The turn.
    pub turn: u32,
    /// The agent.
    pub agent: Arc<str>,
    /// The number of the execution of the agent.
    pub execution: u32,
    /// The number of the attempt.
    pub attempt: u32,
    /// The reason of the failure.
    pub failure: ExecutionFailure,
    /// The usage of the attempt: tokens and cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<ModelUsage>,
    /// The end of the text that the attempt wrote to stderr.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stderr: String,
    /// Warnings for the user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// LLM: the iterations of the attempt that no earlier record contains.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exchange: Vec<ThreadIteration>,
    /// The pause before the next attempt, in seconds.
    pub pause: f64,
}

/// The event of an execution that has ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "ExecutionFinishedFields")]
pub struct ExecutionFinished {
    /// The turn.
    pub turn: u32,
    /// The agent.
    pub agent: Arc<str>,
    /// The number of the execution of the agent.
    pub execution: u32,
    /// The number of the last attempt.
    pub attempt: u32,
    /// The result; in the journal the key is `output` or `failure`.
    #[serde(flatten)]
    pub end: ExecutionEnd,
    /// The duration of the last attempt, in seconds.
    pub execution_time: f64,
    /// The usage of the last attempt: tokens and cost. The records of the failed attempts have theirs; a copied result
    /// has the usage of all attempts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<ModelUsage>,
    /// The end of the text that the execution wrote to stderr.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub stderr: String,
    /// Warnings for the user.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// LLM: the iterations of the execution that no earlier record contains. What is [remembered](crate::thread::select_remembered_iterations)
    /// of all iterations of a successful execution is added to the agent's thread.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exchange: Vec<ThreadIteration>,
    /// The result was copied from the run of which this run is a fork, and nothing was executed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub reused: bool,
    /// What was enforced for the processes of the last attempt that have a sandbox, each sandbox once.
    #[serde(skip_serializing_if = "<[EnforcedSandbox]>::is_empty")]
    pub sandboxes: Box<[EnforcedSandbox]>,
    /// Input agents: the question, the answer, and who answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<Box<AnswerRecord>>,
}

/// Deserialized form of an [`ExecutionFinished`], with a default for every key that can be absent.
#[derive(Deserialize)]
struct ExecutionFinishedFields {
    turn: u32,
    agent: Arc<str>,
    execution: u32,
    attempt: u32,
    output: Option<Arc<Value>>,
    failure: Option<ExecutionFailure>,
    execution_time: f64,
    usage: Option<ModelUsage>,
    #[serde(default)]
    stderr: String,
    #[serde(default)]
    warnings: Vec<String>,
    #[serde(default)]
    exchange: Vec<ThreadIteration>,
    #[serde(default)]
    reused: bool,
    #[serde(default)]
    sandboxes: Box<[EnforcedSandbox]>,
    #[serde(default)]
    answer: Option<Box<AnswerRecord>>,
}

impl From<ExecutionFinishedFields> for ExecutionFinished {
    fn from(read: ExecutionFinishedFields) -> Self {
        Self {
            turn: read.turn,
            agent: read.agent,
            execution: read.execution,
            attempt: read.attempt,
            end: ExecutionEnd::from_fields(read.failure, read.output),
            execution_time: read.execution_time,
            usage: read.usage,
            stderr: read.stderr,
            warnings: read.warnings,
            exchange: read.exchange,
            reused: read.reused,
            sandboxes: read.sandboxes,
            answer: read.answer,
        }
    }
}

/// The event of a finished turn: all executions have ended, and their results are merged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnFinished {
    /// The turn.
    pub turn: u32,
    /// The new requests by target agent, each list in the order of the agents that ask.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub requests: RequestsByTarget,
    /// The agents for which requests were ignored, because they have reached their `max_turns`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requested_at_limit: Vec<Arc<str>>,
    /// Warnings for the user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// New requests to agents, by the name of the target agent.
pub type RequestsByTarget = IndexMap<Arc<str>, Vec<Arc<AgentRequest>>>;

impl ForkedFrom {
    /// Returns the relation to the original run as a label, and the original run with its turn: `("forked from", "r1 after turn 2")`.
    pub fn describe_origin(&self) -> (&'static str, String) {
        match &self.merged_with {
            Some(second) => (
                "merged from",
                format!("{} and {second} after turn {}", self.run_id, self.turn),
            ),
            None => ("forked from", format!("{} after turn {}", self.run_id, self.turn)),
        }
    }
}

impl Event {
    /// Returns the attempt in which the event happened. Returns `None` for events outside of an execution.
    pub fn attempt_scope(&self) -> Option<&AttemptScope> {
        match self {
            Self::ReplyReceived(event) => Some(&event.within),
            Self::RequestStopped(event) => Some(&event.within),
            Self::PermissionDecided(event) => Some(&event.within),
            Self::ToolCallStarted(event) => Some(&event.within),
            Self::ToolCallEnded(event) => Some(&event.within),
            Self::NestedRequestAnswered(event) => Some(&event.within),
            _ => None,
        }
    }

    /// Returns the attempt in which the event happened, for changes. Returns `None` for events outside of an execution.
    pub(crate) fn attempt_scope_mut(&mut self) -> Option<&mut AttemptScope> {
        match self {
            Self::ReplyReceived(event) => Some(&mut event.within),
            Self::RequestStopped(event) => Some(&mut event.within),
            Self::PermissionDecided(event) => Some(&mut event.within),
            Self::ToolCallStarted(event) => Some(&mut event.within),
            Self::ToolCallEnded(event) => Some(&mut event.within),
            Self::NestedRequestAnswered(event) => Some(&mut event.within),
            _ => None,
        }
    }

    /// Returns the turn of the event. Returns `None` for events of the run.
    pub fn turn(&self) -> Option<u32> {
        match self {
            Self::TurnStarted(event) => Some(event.turn),
            Self::TurnFinished(event) => Some(event.turn),
            Self::ExecutionStarted(event) => Some(event.turn),
            Self::AttemptFailed(event) => Some(event.turn),
            Self::PartEnded(event) => Some(event.turn),
            Self::ExecutionFinished(event) => Some(event.turn),
            Self::InputRequested(event) => Some(event.turn),
            other => other.attempt_scope().map(|within| within.turn),
        }
    }

    /// Returns the agent whose execution the event concerns. Returns `None` for events of a turn or of the run.
    pub fn agent_name(&self) -> Option<&str> {
        match self {
            Self::ExecutionStarted(event) => Some(&event.agent),
            Self::AttemptFailed(event) => Some(&event.agent),
            Self::PartEnded(event) => Some(&event.agent),
            Self::ExecutionFinished(event) => Some(&event.agent),
            Self::InputRequested(event) => Some(&event.agent),
            _ => self.attempt_scope().map(|within| &*within.agent),
        }
    }

    /// Applies the event to the exchanges of its execution. Ignores events outside of exchanges.
    pub fn apply_to_exchanges(&self, exchanges: &mut RecordedExchanges) {
        match self {
            Self::ReplyReceived(event) => exchanges.apply_reply(event),
            Self::RequestStopped(event) => exchanges.apply_stopped_request(event),
            Self::PermissionDecided(event) => exchanges.apply_decision(event),
            Self::ToolCallStarted(event) => exchanges.apply_call_start(event),
            Self::ToolCallEnded(event) => exchanges.apply_call_end(event),
            Self::NestedRequestAnswered(event) => exchanges.apply_nested_answer(event),
            _ => {}
        }
    }

    /// Returns the name of the event in the journal.
    pub fn event_name(&self) -> &'static str {
        match self {
            Self::RunStarted(_) => "run_started",
            Self::RunResumed(_) => "run_resumed",
            Self::MessageAdded(_) => "message_added",
            Self::ContextSet(_) => "context_set",
            Self::TurnStarted(_) => "turn_started",
            Self::ExecutionStarted(_) => "execution_started",
            Self::ReplyReceived(_) => "reply_received",
            Self::RequestStopped(_) => "request_stopped",
            Self::PermissionDecided(_) => "permission_decided",
            Self::ToolCallStarted(_) => "tool_call_started",
            Self::ToolCallEnded(_) => "tool_call_ended",
            Self::NestedRequestAnswered(_) => "nested_request_answered",
            Self::AttemptFailed(_) => "attempt_failed",
            Self::PartEnded(_) => "part_ended",
            Self::ExecutionFinished(_) => "execution_finished",
            Self::InputRequested(_) => "input_requested",
            Self::Interrupted(_) => "interrupted",
            Self::TurnFinished(_) => "turn_finished",
            Self::RunEnded(_) => "run_ended",
        }
    }
}

impl ExecutionFinished {
    /// Returns whether the execution succeeded.
    pub fn is_success(&self) -> bool {
        matches!(self.end, ExecutionEnd::Succeeded(_))
    }

    /// Returns the output of a successful execution. Returns `None` if the execution failed.
    pub fn output(&self) -> Option<&Arc<Value>> {
        match &self.end {
            ExecutionEnd::Succeeded(output) => Some(output),
            ExecutionEnd::Failed(_) => None,
        }
    }

    /// Returns the failure of a failed execution. Returns `None` if the execution succeeded.
    pub fn failure(&self) -> Option<&ExecutionFailure> {
        match &self.end {
            ExecutionEnd::Succeeded(_) => None,
            ExecutionEnd::Failed(failure) => Some(failure),
        }
    }
}
