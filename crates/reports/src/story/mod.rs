//! The story of a run: its records brought together by turn, execution and attempt.
//!
//! A journal tells what happened in the order in which it happened. People ask otherwise: who ran in turn 3, how often
//! was it tried, what came of it. [`Story`] is the fold of the records that answers. It needs no ensemble: events name
//! agents, so a story outlives changes of the file. **Invariant:** a story is told from records alone, and never decides.

mod compare;
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
    CompletionReason, ExecutionFinished, Interruption, RunEnded, RunStarted, TurnFinished, Waiting,
};
use ensemble_core::thread::ToolCall;
use ensemble_language::data::{Context, Failure, Question, Request, Usage};

pub use compare::{Comparison, ContextChange, Decision, Difference, Outcome, Parting, Side, Sides, compare};
pub use paths::{Change, changes};
pub use share::{Share, Shares, shares};

/// What happened in a run, so far as its records tell.
#[derive(Debug, Clone, Default)]
pub struct Story {
    /// With what it was started; `None` before the first record.
    pub started: Option<RunStarted>,
    /// When it was started.
    pub begun: Option<DateTime<Utc>>,
    /// When the latest record was written.
    pub latest: Option<DateTime<Utc>>,
    /// Everything in order.
    pub chapters: Vec<Chapter>,
    /// What all executions cost, those under way included.
    pub usage: Usage,
    /// Seconds in which a process drove the run; pauses before a resume or a message are left out.
    pub active: f64,
    /// Everything the person who runs the ensemble should know.
    pub warnings: Vec<String>,
    /// The state of the process that drives it, as its records tell.
    ended: bool,
}

/// One thing after another.
#[derive(Debug, Clone)]
pub enum Chapter {
    /// A turn.
    Turn(Box<Turn>),
    /// A user message opened the conversation again.
    Message {
        /// What was said.
        text: Arc<str>,
        /// When.
        at: DateTime<Utc>,
    },
    /// Whoever forked the run put these values into the context.
    Given {
        /// The values.
        context: Context,
        /// When.
        at: DateTime<Utc>,
    },
    /// Something outside the conversation stopped it.
    Interrupted {
        /// What.
        cause: Interruption,
        /// When.
        at: DateTime<Utc>,
    },
    /// Another process went on with it.
    Resumed {
        /// When.
        at: DateTime<Utc>,
    },
    /// It ended; it may have been resumed or continued afterwards.
    Ended {
        /// How.
        ended: Box<RunEnded>,
        /// When.
        at: DateTime<Utc>,
    },
}

/// One turn.
#[derive(Debug, Clone)]
pub struct Turn {
    /// Its number, from 1.
    pub turn: u32,
    /// When it was decided.
    pub started_at: DateTime<Utc>,
    /// When it was closed; `None`: it stayed open.
    pub finished_at: Option<DateTime<Utc>>,
    /// Who ran, in declaration order.
    pub executions: Vec<Execution>,
    /// Who was looked at and did not.
    pub waiting: Vec<Waiting>,
    /// Requests for the next turn, by target.
    pub requests: IndexMap<Arc<str>, Arc<Request>>,
    /// What the person who runs the ensemble should know.
    pub warnings: Vec<String>,
}

/// One agent's part in a turn.
#[derive(Debug, Clone)]
pub struct Execution {
    /// The agent.
    pub agent: Arc<str>,
    /// Which execution of the agent, from 1.
    pub execution: u32,
    /// What it read: agents, and which of their executions.
    pub reads: IndexMap<Arc<str>, u32>,
    /// The request that started it.
    pub request: Option<Arc<Request>>,
    /// Agents whose failure it was started to handle.
    pub handles: Vec<Arc<str>>,
    /// Its attempts, the first one first.
    pub attempts: Vec<Attempt>,
    /// The question that it asked and that has no answer.
    pub question: Option<Question>,
    /// How it ended, without what was said to a model.
    pub finished: Option<ExecutionFinished>,
    /// The tools that its model has called.
    pub tool_calls: Vec<ToolCall>,
    /// What its model was not shown, as the thread notes it.
    pub dropped: Option<Value>,
    /// What all its attempts cost.
    pub usage: Option<Usage>,
}

/// One try of an execution.
#[derive(Debug, Clone)]
pub struct Attempt {
    /// From 1.
    pub attempt: u32,
    /// When it began.
    pub started_at: DateTime<Utc>,
    /// When it ended, as far as somebody saw it.
    pub ended_at: Option<DateTime<Utc>>,
    /// What became of it.
    pub end: AttemptEnd,
}

/// What became of an attempt.
#[derive(Debug, Clone, PartialEq)]
pub enum AttemptEnd {
    /// Nothing yet.
    UnderWay,
    /// It ended the execution.
    Final,
    /// It failed, and another followed.
    Failed {
        /// Why.
        failure: Failure,
        /// The pause before the next, in seconds.
        pause: f64,
        /// The end of its stderr.
        stderr: String,
    },
    /// It asked and got no answer.
    Asked,
    /// It was stopped with the run.
    Stopped,
    /// The process that drove the run died meanwhile.
    Lost,
}

/// What can be said of a run as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// It has ended for good.
    Ended(CompletionReason),
    /// It has stopped so, and `resume` goes on with it.
    Stopped(CompletionReason),
    /// It has no end: it is under way, or its process has died.
    Open,
}

impl Story {
    /// The turns in order.
    pub fn turns(&self) -> impl Iterator<Item = &Turn> {
        self.chapters.iter().filter_map(|chapter| match chapter {
            Chapter::Turn(turn) => Some(&**turn),
            _ => None,
        })
    }

    /// All executions with their turns, in turn and declaration order.
    pub fn executions(&self) -> impl Iterator<Item = (u32, &Execution)> {
        self.turns()
            .flat_map(|turn| turn.executions.iter().map(|execution| (turn.turn, execution)))
    }

    /// How many executions have ended.
    pub fn execution_count(&self) -> usize {
        self.executions()
            .filter(|(_, execution)| execution.finished.is_some())
            .count()
    }

    /// How many turns were closed.
    pub fn turn_count(&self) -> usize {
        self.turns().filter(|turn| turn.finished_at.is_some()).count()
    }

    /// How the run ended, if nothing came after it.
    pub fn ended(&self) -> Option<&RunEnded> {
        self.chapters.iter().rev().find_map(|chapter| match chapter {
            Chapter::Ended { ended, .. } if self.ended => Some(&**ended),
            _ => None,
        })
    }

    /// How the run stands.
    pub fn progress(&self) -> Progress {
        match self.ended().map(|ended| ended.completion_reason) {
            Some(reason) if reason.is_resumable() => Progress::Stopped(reason),
            Some(reason) => Progress::Ended(reason),
            None => Progress::Open,
        }
    }

    /// The questions without an answer, each with the agent whose answer is wanted.
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
    /// Wall clock from its start to its end, in seconds.
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
    /// Wall clock of all attempts, in seconds: of those that ended, and of the last one as it was measured.
    pub fn seconds(&self) -> f64 {
        let earlier = self.attempts.iter().filter(|attempt| attempt.end != AttemptEnd::Final);
        let earlier: f64 = earlier.filter_map(Attempt::seconds).sum();
        earlier + self.finished.as_ref().map_or(0.0, |finished| finished.execution_time)
    }

    /// How many of its attempts were tries of the work: asking a question that nobody answered is none.
    pub fn tries(&self) -> usize {
        let tries = self.attempts.iter().filter(|attempt| attempt.end != AttemptEnd::Asked);
        tries.count()
    }

    /// What it said; `None` where it failed or has not ended.
    pub fn output(&self) -> Option<&Arc<Value>> {
        self.finished.as_ref()?.output()
    }

    /// Why it failed.
    pub fn failure(&self) -> Option<&Failure> {
        self.finished.as_ref()?.failure()
    }
}

impl Attempt {
    /// How long it took, in seconds.
    pub fn seconds(&self) -> Option<f64> {
        Some((self.ended_at? - self.started_at).as_seconds_f64())
    }
}
