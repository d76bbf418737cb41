//! The interface for executing agents, as the executor uses it.
//!
//! A runner receives all data that it may use, reports its observations, and decides nothing about the conversation.
//!
//! Invariant: a runner receives all that it may know and decides nothing about the conversation; dropping the future of `Runner::execute_attempt`
//! stops the execution.

mod ledger;
mod parts;
mod records;
mod requests;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::conversation::{ExecutionFinished, NestedRequestAnswered, PartAttemptEnded, RunInterruption};
use crate::request::{AnswerRecord, PendingRequest, RequestOrigin};
use crate::stopwatch::Stopwatch;
use crate::thread::{Thread, ThreadIteration};
use ensemble_language::data::{
    AgentRequest, ExecutionFailure, FailureKind, JsonMap, ModelUsage, RemainingBudget, RunContext,
};
use ensemble_language::execution_history::ExecutionHistory;

pub use ledger::{AttemptLedger, LedgerEntries, NestedLedger, UnrecordedWork};
pub use parts::{ExecutionPart, PartedExecutionInput};
pub use records::{CallPosition, ExecutionRecorder, LogSender, UncommittedEvent};

/// A boxed future, for traits that are used as trait objects.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Number of bytes at the end of stderr that are kept for an execution.
pub const MAX_KEPT_STDERR: usize = 64 << 10;

/// Runner of one agent, which performs the executions of the agent.
pub trait Runner: Send + Sync {
    /// Performs one attempt. The caller enforces timeouts by dropping the future.
    fn execute_attempt(&self, execution: ExecutionInput) -> BoxFuture<'_, AttemptEnd>;
}

/// Returns the failure of an execution that had not ended when the time limit of its turn was reached.
pub fn turn_timeout_failure() -> ExecutionFailure {
    ExecutionFailure::new(FailureKind::Timeout, "turn_timeout_seconds was reached")
}

/// Returns the failure of an attempt that did not end within its time limit.
pub fn attempt_timeout_failure(limit: Duration) -> ExecutionFailure {
    ExecutionFailure::new(
        FailureKind::Timeout,
        format!("timed out after {} s", limit.as_secs_f64()),
    )
}

/// All data that one attempt of an execution can use.
#[derive(Debug, Clone)]
pub struct ExecutionInput {
    /// The id of the run.
    pub run_id: Arc<str>,
    /// The agent.
    pub agent_name: Arc<str>,
    /// The address of the execution among the requests of the outermost run.
    pub origin: RequestOrigin,
    /// The number of the execution of the agent, from 1.
    pub execution: u32,
    /// The number of the attempt of the execution, from 1.
    pub attempt: u32,
    /// The number of finished turns; the number of the current turn is one higher.
    pub turn_count: u32,
    /// The input of the run.
    pub input: Arc<str>,
    /// What the run was given by name.
    pub inputs: Arc<RunContext>,
    /// The context at the start of the turn.
    pub context: Arc<RunContext>,
    /// The latest outputs of the agents that it depends on, in declaration order, without agents that have no output. A
    /// failure replaces the output where a dependency has `on: failure` or `on: any`.
    pub dependencies: Vec<(Arc<str>, Arc<Value>)>,
    /// The latest outputs of these agents without failures; `None`: those in `dependencies`.
    pub latest_outputs: Option<Vec<(Arc<str>, Arc<Value>)>>,
    /// The failures of these agents, of those whose latest execution failed.
    pub failures: Vec<(Arc<str>, Arc<Value>)>,
    /// The agents whose new outputs started the execution.
    pub news: Vec<Arc<str>>,
    /// LLM agents whose prompt uses no variable: the latest outputs of the agents that are not in `dependencies`, in
    /// declaration order. The agent's own is among them if it does not remember it.
    pub other_outputs: Vec<(Arc<str>, Arc<Value>)>,
    /// The executions so far that the agent may read: scripts as many as `conversation.history` says, templates all.
    pub history: ExecutionHistory,
    /// All executions so far, whatever the agent itself may read: the state that a generator of a program gets.
    pub whole_history: ExecutionHistory,
    /// The agents of the latest three executions, the oldest first.
    pub recent_agents: Vec<Arc<str>>,
    /// The agent's `config`.
    pub parameters: Arc<JsonMap>,
    /// The request that started the agent, if there was one.
    pub request: Option<Arc<AgentRequest>>,
    /// LLM: the messages between the agent and its model in earlier executions, the oldest first; empty without memory.
    pub thread: Arc<Thread>,
    /// LLM: the number of requests that the agent sent to its model before this attempt.
    pub requests_made: u64,
    /// LLM: the number of requests before this attempt that wrote summaries for the agent.
    pub summaries_made: u64,
    /// LLM: the number of requests in the failed attempts of this execution, which count for `max_iterations`.
    pub ended_requests: u32,
    /// The number of attempts directly before this one that were interrupted. Their unfinished work may be continued.
    pub lost_attempts: u32,
    /// LLM: the tokens and cost that the run may still use.
    pub remaining: RemainingBudget,
    /// The error of the previous attempt, to be sent to the model.
    pub last_failure: Option<ExecutionFailure>,
    /// The ledger, which is kept when the runner is stopped.
    pub ledger: AttemptLedger,
    /// The stopwatch for the time-out of this attempt. It must be paused while a person is asked.
    pub stopwatch: Stopwatch,
    /// The part that is performed; `None`: the whole execution.
    pub part: Option<Arc<ExecutionPart>>,
    /// For a whole execution of an agent with `for_each`: what its parts have from the run.
    pub parts: Option<Box<PartedExecutionInput>>,
    /// Records what happens inside the execution, and has what was recorded of it before this attempt.
    pub records: ExecutionRecorder,
}

impl ExecutionInput {
    /// Returns the latest outputs of the dependencies, also of agents whose latest execution failed. Scripts read these outputs.
    pub fn latest_success_outputs(&self) -> &[(Arc<str>, Arc<Value>)] {
        self.latest_outputs.as_deref().unwrap_or(&self.dependencies)
    }

    /// Creates the input of the first attempt of an execution, without outputs of other agents.
    pub fn first_attempt_without_outputs(agent_name: impl Into<Arc<str>>, execution: u32) -> Self {
        let agent_name = agent_name.into();
        Self {
            run_id: "run".into(),
            origin: RequestOrigin::default().append_agent(agent_name.clone(), 0, execution),
            agent_name,
            execution,
            attempt: 1,
            turn_count: 0,
            input: "".into(),
            inputs: Arc::default(),
            context: Arc::default(),
            dependencies: Vec::new(),
            latest_outputs: None,
            failures: Vec::new(),
            news: Vec::new(),
            other_outputs: Vec::new(),
            history: ExecutionHistory::default(),
            whole_history: ExecutionHistory::default(),
            recent_agents: Vec::new(),
            parameters: Arc::default(),
            request: None,
            thread: Arc::default(),
            requests_made: 0,
            summaries_made: 0,
            ended_requests: 0,
            lost_attempts: 0,
            remaining: RemainingBudget::default(),
            last_failure: None,
            ledger: AttemptLedger::default(),
            stopwatch: Stopwatch::default(),
            part: None,
            parts: None,
            records: ExecutionRecorder::default(),
        }
    }
}

/// End of one attempt: a result, requests that wait for an operator, or an interruption.
#[derive(Debug, Clone)]
pub enum AttemptEnd {
    /// The attempt ended.
    Finished(AttemptResult),
    /// A record contains the end of the execution, after all its attempts.
    Recorded(AttemptResult),
    /// A record contains the end of the execution, and the result is copied into another run.
    Reused(AttemptResult),
    /// Nobody can answer these requests, which are in the order of the file; the run has to wait.
    NeedsInput(Vec<PendingRequest>),
    /// The record was interrupted at this point.
    Interrupted(RunInterruption),
}

/// The result of an attempt.
#[derive(Debug, Clone)]
pub struct AttemptResult {
    /// The output, or the failure.
    pub result: Result<JsonMap, ExecutionFailure>,
    /// LLM: the usage of the attempt.
    pub usage: Option<ModelUsage>,
    /// LLM: the iterations of this attempt that were not recorded while it ran.
    pub exchange: Vec<ThreadIteration>,
    /// Input agents: the answered question of a recorded execution. A runner that asks keeps it in the ledger.
    pub answer: Option<Box<AnswerRecord>>,
    /// The parts of a recorded execution, which are written before its end. A runner that performs parts records each
    /// when it ends, and leaves this empty.
    pub parts: Vec<Arc<PartAttemptEnded>>,
    /// The answers inside a recorded execution that its exchange does not contain, which are written before its end.
    pub nested_answers: Vec<NestedRequestAnswered>,
}

impl AttemptResult {
    /// Creates the result of an attempt without model usage and without parts.
    pub fn from_result(result: Result<JsonMap, ExecutionFailure>) -> Self {
        Self {
            result,
            usage: None,
            exchange: Vec::new(),
            answer: None,
            parts: Vec::new(),
            nested_answers: Vec::new(),
        }
    }

    /// Creates the result from the record of the end of an execution.
    /// The parts, the usage of earlier attempts and the recorded iterations are in earlier records.
    pub fn from_record(finished: ExecutionFinished) -> Self {
        Self {
            usage: finished.usage,
            exchange: finished.exchange,
            answer: finished.answer,
            ..Self::from_result(finished.end.into_result())
        }
    }

    /// Removes the exchange between agent and model, except for the reason why the model stopped.
    #[must_use]
    pub fn without_iterations(self) -> Self {
        let last = self.exchange.last().and_then(ThreadIteration::stop_reason);
        Self {
            exchange: last.map(ThreadIteration::only_stop_reason).into_iter().collect(),
            ..self
        }
    }
}

impl AttemptEnd {
    /// Creates a successful attempt with this output, without usage.
    pub fn from_output(output: JsonMap) -> Self {
        Self::Finished(AttemptResult::from_result(Ok(output)))
    }

    /// Creates a failed attempt, without usage.
    pub fn from_failure(kind: FailureKind, error: impl Into<String>) -> Self {
        Self::Finished(AttemptResult::from_result(Err(ExecutionFailure::new(kind, error))))
    }
}
