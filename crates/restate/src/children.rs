//! Nested runs of an agent's execution, which are separate workflows.
//!
//! Invariant: an execution that needs nested runs returns without records, and is performed again with the records of the runs that have ended.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use ensemble_core::conversation::{CompletionReason, Event, Record};
use ensemble_core::runner::BoxFuture;
use ensemble_runs::options::nested_driver::{NestedRunDriver, NestedRunResult, NestedRunStart};
use tokio::sync::mpsc;

/// Driver of nested runs that returns the runs that have ended or wait for an answer, and requests the others.
pub struct NestedWorkflowRuns {
    agent: Arc<str>,
    ended_runs: HashMap<String, EndedNestedWorkflow>,
    begun_names: Vec<String>,
    /// Runs whose end was returned to the execution, in this order.
    observed_ends: Mutex<Vec<ReturnedNestedEnd>>,
    wanted_runs: mpsc::UnboundedSender<NestedRunStart>,
}

/// Nested run that has ended, or waits for an answer.
pub struct EndedNestedWorkflow {
    /// Records of the run. A stopped run may have more records.
    pub records: Arc<Vec<Record>>,
    /// Set if the run was stopped at the time limit of its attempt.
    pub is_late: bool,
}

/// End of a nested run that was returned to the execution.
struct ReturnedNestedEnd {
    name: String,
    attempt_name: String,
    is_waiting: bool,
    /// Time limit that the run exceeded.
    late: Option<Duration>,
}

/// Parses the index of the part in the name of a nested run, such as `each-1.2-1`. Returns 0 if the run belongs to no part.
fn part_index(name: &str) -> u32 {
    let execution = name.rsplit('-').nth(1);
    let part = execution.and_then(|execution| execution.split_once('.'));
    part.and_then(|(_, index)| index.parse().ok()).unwrap_or(0)
}

impl NestedWorkflowRuns {
    /// Creates the driver for an execution of the agent, and the receiver of the requested runs. `begun` lists the runs that an attempt
    /// without an end has started.
    pub fn for_execution(
        agent: &Arc<str>,
        ended: Vec<(String, EndedNestedWorkflow)>,
        begun: &[String],
    ) -> (Self, mpsc::UnboundedReceiver<NestedRunStart>) {
        let (wanted, received) = mpsc::unbounded_channel();
        let children = Self {
            agent: agent.clone(),
            ended_runs: ended.into_iter().collect(),
            begun_names: begun.to_vec(),
            observed_ends: Mutex::default(),
            wanted_runs: wanted,
        };
        (children, received)
    }

    /// Returns the name of the nested run whose question the execution passes on: the run of the first part that waits.
    pub fn first_asking_run(&self) -> Option<String> {
        let observed_ends = self.lock_observed_ends();
        // The first request of the execution is that of its first part.
        let first = observed_ends
            .iter()
            .filter(|heard| heard.is_waiting)
            .min_by_key(|heard| part_index(&heard.name));
        first.map(|heard| heard.name.clone())
    }

    /// Locks the list of returned ends.
    fn lock_observed_ends(&self) -> MutexGuard<'_, Vec<ReturnedNestedEnd>> {
        self.observed_ends.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the start of the nested run of this attempt, and its seconds. Returns `None` if its end was not returned.
    fn attempt_times(&self, attempt: &str) -> Option<(DateTime<Utc>, f64)> {
        let observed_ends = self.lock_observed_ends();
        let observed_end = observed_ends.iter().find(|heard| heard.attempt_name == attempt)?;
        let (began, took) = span_of_runs(&[&self.ended_runs.get(&observed_end.name)?.records])?;
        Some((began, observed_end.late.map_or(took, |limit| limit.as_secs_f64())))
    }

    /// Adds the times of nested runs to the executions and parts in the records, because the runs ended before the executions were performed.
    pub fn add_nested_run_times(&self, records: &mut [Record]) {
        for record in records {
            match &mut record.event {
                Event::ExecutionStarted(started) => {
                    let times = self.execution_times(&started.agent, started.execution, started.attempt);
                    if let Some((first, _)) = times {
                        record.at = first;
                    }
                }
                Event::ExecutionFinished(end) => {
                    let times = self.execution_times(&end.agent, end.execution, end.attempt);
                    end.execution_time += times.map_or(0.0, |(_, took)| took);
                }
                Event::PartEnded(part) => {
                    let name = format!("{}-{}.{}-{}", part.agent, part.execution, part.part, part.attempt);
                    if let Some((_, took)) = self.attempt_times(&name) {
                        part.execution_time += took;
                    }
                }
                _ => {}
            }
        }
    }

    /// Returns the start of the first nested run of an execution, and the seconds until the last one ended.
    fn execution_times(&self, agent: &str, execution: u32, attempt: u32) -> Option<(DateTime<Utc>, f64)> {
        if let Some(times) = self.attempt_times(&format!("{agent}-{execution}-{attempt}")) {
            return Some(times);
        }
        let of_parts = format!("{agent}-{execution}.");
        let parts = self.ended_runs.iter().filter(|(name, _)| name.starts_with(&of_parts));
        span_of_runs(&parts.map(|(_, ended)| &**ended.records).collect::<Vec<_>>())
    }
}

/// Returns the start of the first of these runs, and the seconds until the end of the last one, since they last waited for
/// an answer. Excludes pauses.
fn span_of_runs(runs: &[&[Record]]) -> Option<(DateTime<Utc>, f64)> {
    let runs: Vec<&[Record]> = runs.iter().map(|records| records_after_last_answer(records)).collect();
    let began = runs
        .iter()
        .filter_map(|records| records.first())
        .map(|first| first.at)
        .min()?;
    let ended_at = runs
        .iter()
        .filter_map(|records| Some(records.last()?.at - total_interruption_time(records)))
        .max()?;
    Some((began, (ended_at - began).to_std().unwrap_or_default().as_secs_f64()))
}

/// Returns the records after the last answer that the run waited for.
fn records_after_last_answer(records: &[Record]) -> &[Record] {
    let before_last = records.split_last().map_or(records, |(_, before)| before);
    let waited = before_last.iter().rposition(is_end_waiting_for_answer);
    &records[waited.map_or(0, |waited| waited + 1)..]
}

/// Returns whether the record is the end of a run that waits for an answer.
fn is_end_waiting_for_answer(record: &Record) -> bool {
    matches!(&record.event, Event::RunEnded(ended) if ended.completion_reason == CompletionReason::WaitingForInput)
}

/// Returns the total time in which the run was interrupted.
fn total_interruption_time(records: &[Record]) -> TimeDelta {
    let steps = records.windows(2);
    let pauses = steps.filter(|step| matches!(step[1].event, Event::RunResumed(_)));
    pauses.map(|step| step[1].at - step[0].at).sum()
}

impl NestedRunDriver for NestedWorkflowRuns {
    fn drives_agent(&self, agent: &str) -> bool {
        *self.agent == *agent
    }

    fn has_unfinished_run(&self, name: &str) -> bool {
        self.begun_names.iter().any(|begun| begun == name)
    }

    fn drive_nested_run(&self, start: NestedRunStart) -> BoxFuture<'_, NestedRunResult> {
        Box::pin(async move {
            if let Some(EndedNestedWorkflow { records, is_late }) = self.ended_runs.get(&start.name) {
                self.lock_observed_ends().push(ReturnedNestedEnd {
                    name: start.name,
                    attempt_name: start.attempt_name,
                    is_waiting: !is_late && records.last().is_some_and(is_end_waiting_for_answer),
                    late: start.limit.filter(|_| *is_late),
                });
                return match is_late {
                    true => NestedRunResult::TimedOut,
                    false => NestedRunResult::Ended(records.clone()),
                };
            }
            // Nobody hears the end: the execution is performed again when there is one.
            let _ = self.wanted_runs.send(start);
            std::future::pending().await
        })
    }
}
