//! The runs of an agent's inner ensemble, which are workflows of their own.
//!
//! Invariant: an execution that needs such runs returns without records, and is performed again with the records of those that have ended.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use ensemble_core::conversation::{CompletionReason, Event, Record};
use ensemble_core::runner::BoxFuture;
use ensemble_runs::options::nested_driver::{NestedRunDriver, NestedRunResult, NestedRunStart};
use tokio::sync::mpsc;

/// The runs that have ended or wait for an answer, by name; one that has not is wanted.
pub struct NestedWorkflowRuns {
    agent: Arc<str>,
    ended_runs: HashMap<String, EndedNestedWorkflow>,
    begun_names: Vec<String>,
    /// The runs whose end was heard here, in this order.
    observed_ends: Mutex<Vec<ReturnedNestedEnd>>,
    wanted_runs: mpsc::UnboundedSender<NestedRunStart>,
}

/// A run that has ended, or waits for an answer.
pub struct EndedNestedWorkflow {
    /// Its records. One that was stopped may have more.
    pub records: Arc<Vec<Record>>,
    /// It had not ended within the time limit of its attempt, and was stopped.
    pub is_late: bool,
}

/// A run whose end was heard.
struct ReturnedNestedEnd {
    name: String,
    attempt_name: String,
    is_waiting: bool,
    /// The time limit that it did not keep.
    late: Option<Duration>,
}

/// Returns the index of the part in the name of an inner run, such as `each-1.2-1`; 0 if the run is of no part.
fn part_index(name: &str) -> u32 {
    let execution = name.rsplit('-').nth(1);
    let part = execution.and_then(|execution| execution.split_once('.'));
    part.and_then(|(_, index)| index.parse().ok()).unwrap_or(0)
}

impl NestedWorkflowRuns {
    /// Returns the runs of this agent's execution that have ended, and those that are wanted. `begun`: the names of
    /// those that an attempt has begun which did not end.
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

    /// Returns the run whose question the execution asks, after it has asked.
    pub fn first_asking_run(&self) -> Option<String> {
        let observed_ends = self.lock_observed_ends();
        // The first request of the execution is that of its first part.
        let first = observed_ends
            .iter()
            .filter(|heard| heard.is_waiting)
            .min_by_key(|heard| part_index(&heard.name));
        first.map(|heard| heard.name.clone())
    }

    fn lock_observed_ends(&self) -> MutexGuard<'_, Vec<ReturnedNestedEnd>> {
        self.observed_ends.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns when the run of this attempt began, and the seconds that it took.
    fn attempt_times(&self, attempt: &str) -> Option<(DateTime<Utc>, f64)> {
        let observed_ends = self.lock_observed_ends();
        let observed_end = observed_ends.iter().find(|heard| heard.attempt_name == attempt)?;
        let (began, took) = span_of_runs(&[&self.ended_runs.get(&observed_end.name)?.records])?;
        Some((began, observed_end.late.map_or(took, |limit| limit.as_secs_f64())))
    }

    /// Gives executions and parts the times of their inner runs, which had ended before the executions were performed.
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

    /// Returns when the runs of an execution began, and how long they took concurrently.
    fn execution_times(&self, agent: &str, execution: u32, attempt: u32) -> Option<(DateTime<Utc>, f64)> {
        if let Some(times) = self.attempt_times(&format!("{agent}-{execution}-{attempt}")) {
            return Some(times);
        }
        let of_parts = format!("{agent}-{execution}.");
        let parts = self.ended_runs.iter().filter(|(name, _)| name.starts_with(&of_parts));
        span_of_runs(&parts.map(|(_, ended)| &**ended.records).collect::<Vec<_>>())
    }
}

/// Returns when the first of these runs began, and the seconds until the last one had ended, since they last waited for
/// an answer.
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

/// Returns the records since the run got the answer that it waited for.
fn records_after_last_answer(records: &[Record]) -> &[Record] {
    let before_last = records.split_last().map_or(records, |(_, before)| before);
    let waited = before_last.iter().rposition(is_end_waiting_for_answer);
    &records[waited.map_or(0, |waited| waited + 1)..]
}

/// Returns whether this is the end of a run that waits for an answer.
fn is_end_waiting_for_answer(record: &Record) -> bool {
    matches!(&record.event, Event::RunEnded(ended) if ended.completion_reason == CompletionReason::WaitingForInput)
}

/// Returns how long a run was interrupted in all.
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
