//! The task of a row in the next call, with its reason.

use std::collections::BTreeMap;

use ensemble_core::conversation::CompletionReason;
use ensemble_language::data::Cost;

use super::answers::has_answer_for_any;
use super::entry::{ExhaustedRowPolicy, RowStatus};
use super::identity::list_changed_parts;
use super::tries::sum_costs;
use super::{Batch, BatchEntry, PlannedRow};

/// A selection of rows that run again although their runs have ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetriedRows {
    /// Rows whose exit code is not 0.
    Failed,
    /// Rows with this outcome.
    Outcome(CompletionReason),
}

impl RetriedRows {
    /// Returns whether the row with this result runs again.
    fn selects_row(self, entry: &BatchEntry, limits: ExhaustedRowPolicy) -> bool {
        match self {
            Self::Failed => !entry.has_exit_code_zero(limits) && entry.status(limits) != RowStatus::Waiting,
            Self::Outcome(outcome) => entry.outcome == outcome,
        }
    }
}

/// The task of a row in the next call, with its reason.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum RowTask {
    /// The run has ended with an earlier version of what its result depends on, so the row runs again.
    RunOutdated {
        /// The parts that have changed; empty if the earlier version is not known.
        changed: Vec<String>,
    },
    /// The row runs for the first time.
    Run,
    /// The run was interrupted and continues.
    Resume,
    /// The run waits for an answer, and there is one.
    Answer,
    /// The run has ended and was chosen to run again.
    Retry,
    /// Another process executes the run.
    Elsewhere(u32),
    /// The run waits for an answer, and there is none.
    Wait,
    /// The run has ended.
    Nothing,
}

impl RowTask {
    /// Returns whether the next call runs the row.
    pub fn is_executed(&self) -> bool {
        !matches!(self, Self::Elsewhere(_) | Self::Wait | Self::Nothing)
    }

    /// Returns the task as a word of the JSON output.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::RunOutdated { .. } => "outdated",
            Self::Run => "new",
            Self::Resume => "interrupted",
            Self::Answer => "answered",
            Self::Retry => "retry",
            Self::Elsewhere(_) => "running",
            Self::Wait => "waiting",
            Self::Nothing => "finished",
        }
    }

    /// Describes why this number of rows is run or not run: `2 run again: tool `search` has changed`. `rows` is the number.
    pub fn describe_for_rows(&self, rows: usize) -> String {
        let choose = |one: &'static str, several: &'static str| if rows == 1 { one } else { several };
        let run = choose("runs", "run");
        let words = match self {
            Self::RunOutdated { changed } if changed.is_empty() => {
                format!("ended with an earlier version of the ensemble and {run} again")
            }
            Self::RunOutdated { changed } => {
                let verb = if changed.len() == 1 { "has" } else { "have" };
                format!("{run} again: {} {verb} changed", changed.join(", "))
            }
            Self::Run => format!("{run} for the first time"),
            Self::Resume => choose("was interrupted and continues", "were interrupted and continue").to_owned(),
            Self::Answer => choose("has an answer and continues", "have an answer and continue").to_owned(),
            Self::Retry => format!("{run} again because of --retry"),
            Self::Elsewhere(process) => format!("{} executed by process {process}", choose("is", "are")),
            Self::Wait => choose("waits for an answer", "wait for answers").to_owned(),
            Self::Nothing => format!("{} not run", choose("does", "do")),
        };
        format!("{rows} {words}")
    }
}

/// Rows with the same task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowTaskGroup {
    /// The task.
    pub task: RowTask,
    /// The number of rows.
    pub rows: usize,
    /// The known cost of the tries of these rows until now.
    pub cost: Option<Cost>,
}

impl Batch {
    /// Groups the rows by their tasks, with the number and cost of the rows.
    pub fn group_rows_by_task(&self) -> Vec<RowTaskGroup> {
        let mut groups: BTreeMap<RowTask, RowTaskGroup> = BTreeMap::new();
        for planned in &self.rows {
            let task = self.decide_row_task(planned);
            let group = groups.entry(task.clone()).or_insert(RowTaskGroup {
                task,
                rows: 0,
                cost: None,
            });
            group.rows += 1;
            group.cost = sum_costs([group.cost, planned.tries.known_cost()].into_iter().flatten());
        }
        groups.into_values().collect()
    }

    /// Counts the rows that the next call runs.
    pub fn count_rows_to_run(&self) -> usize {
        let rows = self.rows.iter();
        rows.filter(|planned| self.decide_row_task(planned).is_executed())
            .count()
    }

    /// Decides the task of a row in the next call.
    pub(super) fn decide_row_task(&self, planned: &PlannedRow) -> RowTask {
        let tries = &planned.tries;
        if let Some(open) = &tries.open {
            return open.driver.map_or(RowTask::Resume, RowTask::Elsewhere);
        }
        let Some(entry) = &tries.entry else {
            return match &tries.outdated {
                Some(outdated) => RowTask::RunOutdated {
                    changed: self.list_changes_since_version(&outdated.version),
                },
                None => RowTask::Run,
            };
        };
        if entry.is_cancelled() {
            return RowTask::Resume;
        }
        let is_waiting = entry.outcome == CompletionReason::WaitingForInput;
        if is_waiting {
            let answers = planned.answers.with_common_answers(&self.answers);
            if has_answer_for_any(&answers, &entry.questions, self.decides_tools) {
                return RowTask::Answer;
            }
        }
        match self.retry.iter().any(|rows| rows.selects_row(entry, self.limits)) {
            true => RowTask::Retry,
            false if is_waiting => RowTask::Wait,
            false => RowTask::Nothing,
        }
    }

    /// Lists the parts that have changed since this version. Returns an empty list if the version is unknown.
    fn list_changes_since_version(&self, version: &str) -> Vec<String> {
        let old = self.earlier_versions.get(version);
        old.map_or_else(Vec::new, |old| list_changed_parts(old, &self.version.parts))
    }
}
