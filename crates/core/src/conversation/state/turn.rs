//! A turn that is under way.

use chrono::{DateTime, Utc};

use crate::conversation::event::{ExecutionFinished, Start};
use ensemble_language::data::{Failure, Question, Usage};
use ensemble_language::plan::AgentId;

/// A turn that has started and not finished.
#[derive(Debug, Clone)]
pub struct OpenTurn {
    /// Its number, from 1.
    pub turn: u32,
    /// Its executions, in declaration order.
    pub slots: Vec<Slot>,
}

/// One execution of an open turn.
#[derive(Debug, Clone)]
pub struct Slot {
    /// The agent.
    pub agent: AgentId,
    /// The decision that started it.
    pub start: Start,
    /// The last attempt that began; 0: none yet.
    pub attempt: u32,
    /// Attempts that failed; those lost to a crash are not among them.
    pub failed_attempts: u32,
    /// The number of the last attempt that was not cut short; 0: none.
    pub last_ended: u32,
    /// Why the last of them failed.
    pub last_failure: Option<Failure>,
    /// What its failed attempts cost.
    pub usage: Option<Usage>,
    /// How far it is.
    pub progress: OpenExecution,
}

/// How far an execution of an open turn is.
#[derive(Debug, Clone)]
pub enum OpenExecution {
    /// Not ended.
    Pending,
    /// A question is open.
    Waiting(Question),
    /// Ended; merged when the turn closes.
    Finished(Box<(ExecutionFinished, DateTime<Utc>)>),
}
