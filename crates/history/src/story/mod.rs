//! The story of a run: its records, grouped by turn, execution and attempt.
//!
//! A journal contains events in the order of time. Readers need the agents that ran in turn 3, the number of attempts of an execution, or
//! its result. [`RunStory`] is computed from the records and contains these facts. A story does not need the ensemble, because events
//! contain the names of agents, so a story stays valid when the file changes. **Invariant:** a story depends only on records, and makes no
//! decisions.

mod compare;
mod exchanges;
mod first_request;
mod fold;
#[cfg(test)]
mod tests;
mod value_changes;

use std::sync::Arc;

use chrono::{DateTime, Utc};
use indexmap::IndexMap;
use serde::Serialize;
use serde_json::Value;

use ensemble_core::conversation::{
    ExecutionFinished, PartAttemptEnded, PermissionDecided, RequestsByTarget, RunEnded, RunInterruption, RunStarted,
    SkippedAgent, TurnFinished,
};
use ensemble_core::request::PendingRequest;
use ensemble_core::thread::{StopReason, ToolCall};
use ensemble_language::data::{AgentRequest, ExecutionFailure, ModelUsage, OperatorQuestion, RunContext};
use ensemble_language::ensemble::{BudgetStatus, ConversationLimits};

pub use compare::{
    BothRuns, ComparedOutcome, ComparedRun, ContextChange, FirstExecutionDifference, FirstTextDifference,
    FirstTurnDifference, RunComparison, compare_runs,
};
pub use exchanges::{ExchangeEnd, FileRecordNumbers, ModelExchange, collect_model_exchanges};
pub use first_request::FirstModelRequest;
pub use value_changes::{ValueChange, compare_values};

use crate::{AgentTotals, GivenAnswer, RunHistory};

/// The records of a run, grouped by turn, execution and attempt.
#[derive(Debug, Clone, Default)]
pub struct RunStory {
    /// The fold of the same records: state, totals and questions.
    pub history: RunHistory,
    /// All events, in order.
    pub events: Vec<StoryEvent>,
    /// The seconds in which a process executed the run, without pauses before a resume or a message.
    pub active: f64,
    /// All warnings for the user.
    pub warnings: Vec<String>,
    /// The limits of the ensemble of the run; `None` if the ensemble cannot be read.
    pub limits: Option<ConversationLimits>,
}

/// An event of a story.
#[derive(Debug, Clone)]
pub enum StoryEvent {
    /// A turn.
    Turn(Box<StoryTurn>),
    /// A user message continued the conversation.
    Message {
        /// The text.
        text: Arc<str>,
        /// The time.
        at: DateTime<Utc>,
    },
    /// A fork added these values to the context.
    ContextGiven {
        /// The values.
        context: RunContext,
        /// The time.
        at: DateTime<Utc>,
    },
    /// A cancellation or a time-out stopped the run.
    Interrupted {
        /// The cause.
        cause: RunInterruption,
        /// The time.
        at: DateTime<Utc>,
    },
    /// Another process continued the run.
    Resumed {
        /// The time.
        at: DateTime<Utc>,
    },
    /// The run ended; it may have been resumed or continued afterwards.
    Ended {
        /// The outcome.
        ended: Box<RunEnded>,
        /// The time.
        at: DateTime<Utc>,
    },
}

/// A turn of a run, with its executions, skipped agents and new requests.
#[derive(Debug, Clone)]
pub struct StoryTurn {
    /// The number of the turn, from 1.
    pub turn: u32,
    /// The start of the turn.
    pub started_at: DateTime<Utc>,
    /// The end of the turn. `None` means that the turn is open.
    pub finished_at: Option<DateTime<Utc>>,
    /// The executions, in declaration order.
    pub executions: Vec<StoryExecution>,
    /// The agents that were examined and did not run.
    pub skipped_agents: Vec<SkippedAgent>,
    /// The new requests, by target agent.
    pub requests: RequestsByTarget,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

/// An execution of an agent in a turn, with its attempts, tool calls and result.
#[derive(Debug, Clone)]
pub struct StoryExecution {
    /// The agent.
    pub agent: Arc<str>,
    /// The number of the execution of the agent, from 1.
    pub execution: u32,
    /// The outputs that the execution read, by agent, with the number of the agent's execution.
    pub reads: IndexMap<Arc<str>, u32>,
    /// The request that started the execution.
    pub request: Option<Arc<AgentRequest>>,
    /// The agents whose failures started the execution.
    pub handles: Vec<Arc<str>>,
    /// The attempts, in order.
    pub attempts: Vec<StoryAttempt>,
    /// The first question that it asked and that is not answered.
    pub question: Option<OperatorQuestion>,
    /// All requests inside it without an answer, in the order of the file.
    pub open_requests: Vec<PendingRequest>,
    /// The answers inside it: of people whom tools ask, and of nested runs. It has its own answer in `finish_event`, and the
    /// decisions about its tool calls in `permissions`.
    pub answers: Vec<GivenAnswer>,
    /// Its result, without the messages to a model.
    pub finish_event: Option<ExecutionFinished>,
    /// The tool calls of the model until now, including calls of failed and interrupted attempts.
    pub tool_calls: Vec<ToolCall>,
    /// The texts that the model wrote next to tool calls, each with the number of calls before the text.
    pub beside_calls: Vec<(usize, String)>,
    /// The decisions about tool calls that need permission, in order.
    pub permissions: Vec<StoryPermissionDecision>,
    /// The reason why the model stopped its last reply.
    pub stop_reason: Option<StopReason>,
    /// The messages that the model did not receive, as the thread records them.
    pub dropped_messages: Option<Value>,
    /// The first model request.
    pub first_request: Option<FirstModelRequest>,
    /// The totals of all attempts.
    pub totals: AgentTotals,
    /// The ended attempts of the parts, in order, without the messages to a model.
    pub parts: Vec<PartAttemptEnded>,
}

/// A decision about a tool call, with its time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StoryPermissionDecision {
    /// The decision.
    #[serde(flatten)]
    pub event: PermissionDecided,
    /// The time of the decision.
    pub at: DateTime<Utc>,
}

/// An attempt of an execution, with its times and its result.
#[derive(Debug, Clone)]
pub struct StoryAttempt {
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// The start of the attempt.
    pub started_at: DateTime<Utc>,
    /// The end of the attempt, if it was observed.
    pub ended_at: Option<DateTime<Utc>>,
    /// The result of the attempt.
    pub end: StoryAttemptEnd,
}

/// The result of an attempt.
#[derive(Debug, Clone, PartialEq)]
pub enum StoryAttemptEnd {
    /// The attempt has not ended.
    InProgress,
    /// The attempt ended the execution.
    Final,
    /// The attempt failed, and another attempt followed.
    Failed {
        /// The failure.
        failure: ExecutionFailure,
        /// The pause before the next attempt, in seconds.
        pause: f64,
        /// The last part of the stderr output.
        stderr: String,
    },
    /// The attempt asked a question, and there is no answer.
    AskedQuestion,
    /// The attempt was stopped with the run.
    Stopped,
    /// The process that executed the run ended during the attempt.
    ProcessLost,
}

impl RunStory {
    /// Returns the first event of the run. Returns `None` before the first record.
    pub fn start_event(&self) -> Option<&RunStarted> {
        self.history.start_event()
    }

    /// Returns the end of the run. Returns `None` if the run has not ended or was continued.
    pub fn end_event(&self) -> Option<&RunEnded> {
        self.history.end_event()
    }

    /// Returns the pending questions and permission requests.
    pub fn pending_requests(&self) -> Vec<PendingRequest> {
        self.history.pending_requests()
    }

    /// Returns the seconds in which a process executed the run, including turns that a fork took over from another run.
    pub fn active_seconds(&self) -> f64 {
        let taken_over = self
            .turns()
            .filter(|turn| Some(turn.started_at) < self.history.started_at());
        self.active + taken_over.filter_map(StoryTurn::duration_seconds).sum::<f64>()
    }

    /// Returns the turns in order.
    pub fn turns(&self) -> impl DoubleEndedIterator<Item = &StoryTurn> {
        self.events.iter().filter_map(|event| match event {
            StoryEvent::Turn(turn) => Some(&**turn),
            _ => None,
        })
    }

    /// Returns what is left of the budget of the run; `None` without a budget, or if the limits are not known.
    pub fn budget_status(&self) -> Option<BudgetStatus> {
        self.history.budget_status(self.limits.as_ref()?)
    }

    /// Returns the last turn before the first failed execution; 0 if there is none.
    pub fn last_turn_before_failure(&self) -> u32 {
        let has_failed = |turn: &StoryTurn| turn.executions.iter().any(|execution| execution.failure().is_some());
        let finished = self.turns().filter(|turn| turn.finished_at.is_some());
        let sound = finished.take_while(|turn| !has_failed(turn));
        sound.last().map_or(0, |turn| turn.turn)
    }

    /// Finds the execution of the agent in this turn.
    pub fn find_execution(&self, turn: u32, agent: &str) -> Option<&StoryExecution> {
        let turn = self.turns().find(|one| one.turn == turn)?;
        turn.executions.iter().find(|execution| &*execution.agent == agent)
    }

    /// Returns the latest turn, searched from the end, because callers need the turn for each record of a long run.
    pub fn latest_turn(&self) -> Option<&StoryTurn> {
        self.turns().next_back()
    }

    /// Returns all executions with their turns, in order of turn and declaration.
    pub fn executions_by_turn(&self) -> impl Iterator<Item = (u32, &StoryExecution)> {
        self.turns()
            .flat_map(|turn| turn.executions.iter().map(|execution| (turn.turn, execution)))
    }
}

impl StoryTurn {
    /// Returns the seconds from the start to the end of the turn. Returns `None` if the turn is open.
    pub fn duration_seconds(&self) -> Option<f64> {
        Some((self.finished_at? - self.started_at).as_seconds_f64())
    }

    /// Returns the execution of the agent in this turn.
    fn execution_mut(&mut self, agent: &str) -> Option<&mut StoryExecution> {
        self.executions.iter_mut().find(|execution| &*execution.agent == agent)
    }

    /// Sets the end, the requests and the warnings of the turn.
    fn close_turn(&mut self, event: &TurnFinished, at: DateTime<Utc>) {
        self.finished_at = Some(at);
        self.requests = event.requests.clone();
        self.warnings.extend(event.warnings.iter().cloned());
    }
}

impl StoryExecution {
    /// Describes the author of the answer to an input agent's question. Returns `None` without an answer.
    pub fn describe_answer_author(&self) -> Option<String> {
        let answer = self.finish_event.as_ref()?.answer.as_ref()?;
        Some(answer.describe_authorship())
    }

    /// Returns the answered question of an input agent, with its choices. Returns `None` without an answer.
    pub fn answered_question(&self) -> Option<String> {
        let answer = self.finish_event.as_ref()?.answer.as_ref()?;
        Some(answer.question_text())
    }

    /// Returns the time at which the execution ended. Returns `None` if the execution has not ended, or its end is unknown.
    pub fn ended_at(&self) -> Option<DateTime<Utc>> {
        self.finish_event.as_ref()?;
        self.attempts.last()?.ended_at
    }

    /// Returns the usage of all attempts. Returns `None` if the execution has used no model.
    pub fn total_usage(&self) -> Option<ModelUsage> {
        Some(self.totals.usage).filter(|usage| *usage != ModelUsage::default())
    }

    /// Returns the output. Returns `None` if the execution failed or has not ended.
    pub fn output(&self) -> Option<&Arc<Value>> {
        self.finish_event.as_ref()?.output()
    }

    /// Returns the failure. Returns `None` if the execution succeeded or has not ended.
    pub fn failure(&self) -> Option<&ExecutionFailure> {
        self.finish_event.as_ref()?.failure()
    }
}

impl StoryAttempt {
    /// Describes the result of the attempt in a word or two. `execution` is the execution that contains the attempt.
    pub fn describe_end(&self, execution: &StoryExecution) -> &'static str {
        match &self.end {
            StoryAttemptEnd::Final if execution.failure().is_some() => "failed",
            StoryAttemptEnd::Final => "succeeded",
            StoryAttemptEnd::InProgress => "under way",
            StoryAttemptEnd::Failed { .. } => "failed",
            StoryAttemptEnd::AskedQuestion => "asked",
            StoryAttemptEnd::Stopped => "stopped",
            StoryAttemptEnd::ProcessLost => "lost",
        }
    }

    /// Returns the seconds from the start to the end of the attempt. Returns `None` if the end is unknown.
    pub fn duration_seconds(&self) -> Option<f64> {
        Some((self.ended_at? - self.started_at).as_seconds_f64())
    }
}
