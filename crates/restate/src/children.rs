//! The runs of an agent's inner ensemble, which are workflows of their own.

use std::collections::HashMap;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use ensemble_core::conversation::{Event, Record};
use ensemble_core::runner::BoxFuture;
use ensemble_runs::elsewhere::{Elsewhere, InnerStart};
use tokio::sync::mpsc;

/// The runs that have ended, by name; one that has not is wanted.
pub struct Children {
    agent: Arc<str>,
    ended: HashMap<String, Arc<Vec<Record>>>,
    wanted: mpsc::UnboundedSender<InnerStart>,
}

impl Children {
    /// The runs of this agent's execution that have ended, and those that are wanted.
    pub fn of(agent: &Arc<str>, ended: Vec<(String, Arc<Vec<Record>>)>) -> (Self, mpsc::UnboundedReceiver<InnerStart>) {
        let (wanted, received) = mpsc::unbounded_channel();
        let children = Self {
            agent: agent.clone(),
            ended: ended.into_iter().collect(),
            wanted,
        };
        (children, received)
    }

    /// Gives executions and parts the times of their inner runs, which had ended before the executions were performed.
    pub fn set_times(&self, records: &mut [Record]) {
        for record in records {
            match &mut record.event {
                Event::ExecutionStarted(started) => {
                    let times = self.of_execution(&started.agent, started.execution, started.attempt);
                    if let Some((first, _)) = times {
                        record.at = first;
                    }
                }
                Event::ExecutionFinished(end) => {
                    let times = self.of_execution(&end.agent, end.execution, end.attempt);
                    end.execution_time += times.map_or(0.0, |(_, took)| took);
                }
                Event::PartEnded(part) => {
                    let name = format!("{}-{}.{}-{}", part.agent, part.execution, part.part, part.attempt);
                    let times = self.ended.get(&name).and_then(|records| times(&[records]));
                    if let Some((_, took)) = times {
                        part.execution_time += took;
                    }
                }
                _ => {}
            }
        }
    }

    /// When the runs of an execution began, and how long they took, side by side.
    fn of_execution(&self, agent: &str, execution: u32, attempt: u32) -> Option<(DateTime<Utc>, f64)> {
        if let Some(whole) = self.ended.get(&format!("{agent}-{execution}-{attempt}")) {
            return times(&[whole]);
        }
        let of_parts = format!("{agent}-{execution}.");
        let parts = self.ended.iter().filter(|(name, _)| name.starts_with(&of_parts));
        times(&parts.map(|(_, records)| &***records).collect::<Vec<_>>())
    }
}

/// When the first of these runs began, and the seconds until the last one had ended.
fn times(runs: &[&[Record]]) -> Option<(DateTime<Utc>, f64)> {
    let began = runs
        .iter()
        .filter_map(|records| records.first())
        .map(|first| first.at)
        .min()?;
    let ended = runs
        .iter()
        .filter_map(|records| Some(records.last()?.at - pauses(records)))
        .max()?;
    Some((began, (ended - began).to_std().unwrap_or_default().as_secs_f64()))
}

/// How long a run was cut short until it went on, in all.
fn pauses(records: &[Record]) -> TimeDelta {
    let steps = records.windows(2);
    let pauses = steps.filter(|step| matches!(step[1].event, Event::RunResumed(_)));
    pauses.map(|step| step[1].at - step[0].at).sum()
}

impl Elsewhere for Children {
    fn takes(&self, agent: &str) -> bool {
        *self.agent == *agent
    }

    fn drive(&self, start: InnerStart) -> BoxFuture<'_, Arc<Vec<Record>>> {
        Box::pin(async move {
            if let Some(records) = self.ended.get(&start.name) {
                return records.clone();
            }
            // Nobody hears the end: the execution is performed again when there is one.
            let _ = self.wanted.send(start);
            std::future::pending().await
        })
    }
}
