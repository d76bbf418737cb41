//! The story of a run: its records, grouped by turn, execution and attempt.
//!
//! A journal contains events in the order of time. Readers ask which agents ran in turn 3, how often an execution was
//! tried, and what its result was. [`Story`] is computed from the records and answers this. It does not need the
//! ensemble: events contain the names of agents, so a story stays valid when the file changes. **Invariant:** a story
//! depends only on records, and makes no decisions.

mod asked;
mod compare;
mod exchanges;
mod fold;
mod paths;
mod share;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use chrono::{DateTime, Utc};
use indexmap::IndexMap;
use serde_json::Value;

use ensemble_core::conversation::{
    CompletionReason, ExecutionFinished, Interruption, PartEnded, PermissionDecided, RequestsByTarget, RunEnded,
    RunStarted, TurnFinished, Waiting,
};
use ensemble_core::thread::{StopReason, ToolCall};
use ensemble_language::data::{Context, Failure, Question, Request, Usage};

pub use asked::Asked;
pub use compare::{Comparison, ContextChange, Decision, Difference, Outcome, Parting, Side, Sides, compare};
pub use exchanges::{ExchangeEnd, FileRecords, ModelExchange, model_exchanges};
pub use paths::{Change, changes};
pub use share::{Share, Shares, shares};

/// The events of a run, grouped, as far as its records contain them.
#[derive(Debug, Clone, Default)]
pub struct Story {
    /// The data with which the run was started; `None` before the first record.
    pub started: Option<RunStarted>,
    /// When the run was started.
    pub begun: Option<DateTime<Utc>>,
    /// When the latest record was written.
    pub latest: Option<DateTime<Utc>>,
    /// All events, in order.
    pub events: Vec<StoryEvent>,
    /// The usage of all executions, including those in progress.
    pub usage: Usage,
    /// The seconds in which a process executed the run, without pauses before a resume or a message.
    pub active: f64,
    /// All warnings for the user.
    pub warnings: Vec<String>,
    /// Whether the run has ended and was not continued, according to its records.
    ended: bool,
}

/// An event of a story.
#[derive(Debug, Clone)]
pub enum StoryEvent {
    /// A turn.
    Turn(Box<Turn>),
    /// A user message continued the conversation.
    Message {
        /// The text.
        text: Arc<str>,
        /// The time.
        at: DateTime<Utc>,
    },
    /// A fork added these values to the context.
    Given {
        /// The values.
        context: Context,
        /// The time.
        at: DateTime<Utc>,
    },
    /// A cancellation or a time-out stopped the run.
    Interrupted {
        /// The cause.
        cause: Interruption,
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

/// One turn.
#[derive(Debug, Clone)]
pub struct Turn {
    /// The number of the turn, from 1.
    pub turn: u32,
    /// When the turn started.
    pub started_at: DateTime<Utc>,
    /// When the turn finished; `None`: it is still open.
    pub finished_at: Option<DateTime<Utc>>,
    /// The executions, in declaration order.
    pub executions: Vec<Execution>,
    /// The agents that were examined and did not run.
    pub waiting: Vec<Waiting>,
    /// The new requests, by target agent.
    pub requests: RequestsByTarget,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

/// An execution of an agent in a turn.
#[derive(Debug, Clone)]
pub struct Execution {
    /// The agent.
    pub agent: Arc<str>,
    /// The number of the execution of the agent, from 1.
    pub execution: u32,
    /// The outputs that it read: the agent, and the number of its execution.
    pub reads: IndexMap<Arc<str>, u32>,
    /// The request that started it.
    pub request: Option<Arc<Request>>,
    /// The agents whose failure started it.
    pub handles: Vec<Arc<str>>,
    /// Its attempts, in order.
    pub attempts: Vec<Attempt>,
    /// The question that it asked and that is not answered.
    pub question: Option<Question>,
    /// Its result, without the messages to a model.
    pub finished: Option<ExecutionFinished>,
    /// The tool calls of its model until now, those of attempts that failed or were cut short included.
    pub tool_calls: Vec<ToolCall>,
    /// The texts of its model beside tool calls: the number of calls before the text, and the text.
    pub beside_calls: Vec<(usize, String)>,
    /// The decisions about tool calls that need permission, in order.
    pub permissions: Vec<PermissionDecided>,
    /// Why the model stopped its last reply.
    pub stop_reason: Option<StopReason>,
    /// The messages that its model did not receive, as the thread notes them.
    pub dropped: Option<Value>,
    /// What the model was asked first.
    pub asked: Option<Asked>,
    /// The usage of all attempts.
    pub usage: Option<Usage>,
    /// The attempts of its parts that have ended, in order, without the messages to a model.
    pub parts: Vec<PartEnded>,
}

/// An attempt of an execution.
#[derive(Debug, Clone)]
pub struct Attempt {
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// When it started.
    pub started_at: DateTime<Utc>,
    /// When it ended, if this was observed.
    pub ended_at: Option<DateTime<Utc>>,
    /// Its result.
    pub end: AttemptEnd,
}

/// The result of an attempt.
#[derive(Debug, Clone, PartialEq)]
pub enum AttemptEnd {
    /// The attempt has not ended.
    UnderWay,
    /// The attempt ended the execution.
    Final,
    /// The attempt failed, and another attempt followed.
    Failed {
        /// The failure.
        failure: Failure,
        /// The pause before the next attempt, in seconds.
        pause: f64,
        /// The end of its stderr.
        stderr: String,
    },
    /// The attempt asked a question, and there is no answer.
    Asked,
    /// The attempt was stopped with the run.
    Stopped,
    /// The process that executed the run ended during the attempt.
    Lost,
}

/// The progress of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The run has ended and cannot be resumed.
    Ended(CompletionReason),
    /// The run has stopped with this outcome, and `resume` can continue it.
    Stopped(CompletionReason),
    /// The run has no end: it is in progress, or its process has ended.
    Open,
}

impl Story {
    /// The turns in order.
    pub fn turns(&self) -> impl DoubleEndedIterator<Item = &Turn> {
        self.events.iter().filter_map(|event| match event {
            StoryEvent::Turn(turn) => Some(&**turn),
            _ => None,
        })
    }

    /// The latest turn. It is found from the end: this is asked once for each record of a long run.
    pub fn latest_turn(&self) -> Option<&Turn> {
        self.turns().next_back()
    }

    /// All executions with their turns, in order of turn and declaration.
    pub fn executions(&self) -> impl Iterator<Item = (u32, &Execution)> {
        self.turns()
            .flat_map(|turn| turn.executions.iter().map(|execution| (turn.turn, execution)))
    }

    /// The number of finished executions.
    pub fn execution_count(&self) -> usize {
        self.executions()
            .filter(|(_, execution)| execution.finished.is_some())
            .count()
    }

    /// The number of executions that failed after all their attempts.
    pub fn failure_count(&self) -> usize {
        self.executions()
            .filter(|(_, execution)| execution.failure().is_some())
            .count()
    }

    /// The number of finished turns.
    pub fn turn_count(&self) -> usize {
        self.turns().filter(|turn| turn.finished_at.is_some()).count()
    }

    /// The end of the run, if no later event continued it.
    pub fn ended(&self) -> Option<&RunEnded> {
        self.events.iter().rev().find_map(|event| match event {
            StoryEvent::Ended { ended, .. } if self.ended => Some(&**ended),
            _ => None,
        })
    }

    /// The progress of the run.
    pub fn progress(&self) -> Progress {
        match self.ended().map(|ended| ended.completion_reason) {
            Some(reason) if reason.is_resumable() => Progress::Stopped(reason),
            Some(reason) => Progress::Ended(reason),
            None => Progress::Open,
        }
    }

    /// The questions without an answer, each with the agent that asks.
    pub fn questions(&self) -> Vec<(Arc<str>, &Question)> {
        let open = self.turns().filter(|turn| turn.finished_at.is_none());
        let executions = open.flat_map(|turn| &turn.executions);
        executions
            .filter_map(|execution| {
                let question = execution.question.as_ref()?;
                let asks = question.asked_by.clone().unwrap_or_else(|| execution.agent.clone());
                Some((asks, question))
            })
            .collect()
    }
}

impl Turn {
    /// The time from start to end, in seconds.
    pub fn seconds(&self) -> Option<f64> {
        Some((self.finished_at? - self.started_at).as_seconds_f64())
    }

    fn execution_mut(&mut self, agent: &str) -> Option<&mut Execution> {
        self.executions.iter_mut().find(|execution| &*execution.agent == agent)
    }

    fn close(&mut self, event: &TurnFinished, at: DateTime<Utc>) {
        self.finished_at = Some(at);
        self.requests = event.requests.clone();
        self.warnings.extend(event.warnings.iter().cloned());
    }
}

impl Execution {
    /// The duration of all attempts, in seconds: of those that ended; for the last one, the measured duration.
    pub fn seconds(&self) -> f64 {
        let earlier = self.attempts.iter().filter(|attempt| attempt.end != AttemptEnd::Final);
        let earlier: f64 = earlier.filter_map(Attempt::seconds).sum();
        earlier + self.finished.as_ref().map_or(0.0, |finished| finished.execution_time)
    }

    /// The number of attempts, without attempts that only asked a question that was not answered.
    pub fn tries(&self) -> usize {
        let tries = self.attempts.iter().filter(|attempt| attempt.end != AttemptEnd::Asked);
        tries.count()
    }

    /// The output; `None` if the execution failed or has not ended.
    pub fn output(&self) -> Option<&Arc<Value>> {
        self.finished.as_ref()?.output()
    }

    /// The failure.
    pub fn failure(&self) -> Option<&Failure> {
        self.finished.as_ref()?.failure()
    }
}

impl Attempt {
    /// The duration, in seconds.
    pub fn seconds(&self) -> Option<f64> {
        Some((self.ended_at? - self.started_at).as_seconds_f64())
    }
}
