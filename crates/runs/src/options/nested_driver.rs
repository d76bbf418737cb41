//! Nested runs that another engine drives.
//!
//! Invariant: a driver receives only runs that are the whole execution of their agent, or one part of the execution.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ensemble_core::conversation::{Record, RunStarted};
use ensemble_core::runner::BoxFuture;

/// A nested run that an engine is to drive.
#[derive(Debug, Clone, PartialEq)]
pub struct NestedRunStart {
    /// The name of the nested run in its outer run.
    pub name: String,
    /// The name that a new run of this attempt would have. The name differs from `name` if the attempt resumes the run of an earlier
    /// attempt.
    pub attempt_name: String,
    /// True if the run belongs to one part of the agent's execution, next to the runs of other parts.
    pub is_part: bool,
    /// The first event of the run, with its id.
    pub start_event: RunStarted,
    /// The text of its ensemble.
    pub ensemble: Arc<str>,
    /// The file of its ensemble.
    pub file: PathBuf,
    /// The time limit of the attempt. The time in which the run waits for an answer does not count.
    pub limit: Option<Duration>,
}

/// The result of a nested run.
#[derive(Debug, Clone, PartialEq)]
pub enum NestedRunResult {
    /// The records of a run that has ended or waits for an answer.
    Ended(Arc<Vec<Record>>),
    /// The run did not end within the time limit of the attempt, and was stopped.
    TimedOut,
}

/// The driver of the runs of an agent's nested ensemble, and the time limit of each attempt.
#[derive(Clone)]
pub(crate) struct TimedNestedDriver {
    pub(crate) driver: Arc<dyn NestedRunDriver>,
    pub(crate) limit: Option<Duration>,
}

/// A driver of nested runs instead of the outer run. Each nested run is the whole execution of its agent, or a part of it.
pub trait NestedRunDriver: Send + Sync {
    /// Returns whether this driver drives the nested runs of the agent.
    fn drives_agent(&self, agent: &str) -> bool;

    /// Returns whether an attempt that did not end started a run with this name, so that the next attempt resumes the run.
    fn has_unfinished_run(&self, name: &str) -> bool;

    /// Drives a run until it ends, waits for an answer, or exceeds the time limit of the attempt. The runs of an agent with `for_each` are
    /// driven in parallel.
    fn drive_nested_run(&self, start: NestedRunStart) -> BoxFuture<'_, NestedRunResult>;
}
