//! The runs of an agent's inner ensemble, which are workflows of their own.

use std::collections::HashMap;
use std::sync::Arc;

use chrono::TimeDelta;
use ensemble_core::conversation::{Event, Record};
use ensemble_core::runner::BoxFuture;
use ensemble_runs::elsewhere::{Elsewhere, InnerStart};
use tokio::sync::mpsc;

/// The runs that have ended, by name; one that has not is wanted.
pub struct Children {
    agent: Arc<str>,
    ended: HashMap<String, Vec<Record>>,
    wanted: mpsc::UnboundedSender<InnerStart>,
}

impl Children {
    /// The runs of this agent's execution that have ended, and those that are wanted.
    pub fn of(agent: &Arc<str>, ended: Vec<(String, Vec<Record>)>) -> (Self, mpsc::UnboundedReceiver<InnerStart>) {
        let (wanted, received) = mpsc::unbounded_channel();
        let children = Self {
            agent: agent.clone(),
            ended: ended.into_iter().collect(),
            wanted,
        };
        (children, received)
    }

    /// Gives executions the times of their inner runs, which had ended before the executions were performed.
    pub fn set_times(&self, records: &mut [Record]) {
        for record in records {
            let (agent, execution, attempt) = match &record.event {
                Event::ExecutionStarted(started) => (&started.agent, started.execution, started.attempt),
                Event::ExecutionFinished(end) => (&end.agent, end.execution, end.attempt),
                _ => continue,
            };
            let inner = self.ended.get(&format!("{agent}-{execution}-{attempt}"));
            let Some(inner @ [first, .., last]) = inner.map(Vec::as_slice) else {
                continue;
            };
            match &mut record.event {
                Event::ExecutionFinished(end) => {
                    let took = (last.at - first.at - pauses(inner)).to_std().unwrap_or_default();
                    end.execution_time += took.as_secs_f64();
                }
                _ => record.at = first.at,
            }
        }
    }
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

    fn drive(&self, start: InnerStart) -> BoxFuture<'_, Vec<Record>> {
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
