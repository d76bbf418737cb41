//! Who asks: the question of an execution can be that of a run inside the run.
//!
//! Invariant: it reads what the engine has, and keeps nothing.

use std::sync::Arc;

use ensemble_core::conversation::{Event, Record};
use ensemble_core::store::RunId;

use crate::{Remote, RemoteError};

/// Who asks a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asker {
    /// The run, which may be inside another.
    pub run: RunId,
    /// The agent.
    pub agent: Arc<str>,
    /// The number of its execution.
    pub execution: u32,
}

impl Remote {
    /// Who asks what this execution of a run asks: it, or an agent of a run inside it.
    ///
    /// # Errors
    /// The engine cannot be reached or refuses.
    pub async fn asker(&self, run: &RunId, agent: &Arc<str>, execution: u32) -> Result<Asker, RemoteError> {
        let mut asker = Asker {
            run: run.clone(),
            agent: agent.clone(),
            execution,
        };
        let mut sent = self.records(run.as_str(), 0).await?;
        loop {
            let mut inside = sent.inside.iter();
            let child = inside.find(|inner| inner.asks && inner.is_of(&asker.agent, asker.execution));
            let Some((name, workflow)) = child.and_then(|child| Some((&child.name, child.run.clone()?))) else {
                return Ok(asker);
            };
            let run = RunId::new(format!("{}/sub/{name}", asker.run));
            sent = self.records(&workflow, 0).await?;
            let Some((agent, execution)) = first_to_ask(&self.decoded(&sent.lines)?) else {
                return Ok(asker);
            };
            asker = Asker { run, agent, execution };
        }
    }
}

/// The agent that asks, and the number of its execution: of several, the first of the turn.
fn first_to_ask(records: &[Record]) -> Option<(Arc<str>, u32)> {
    let turns = records.iter().rev().filter_map(|record| match &record.event {
        Event::TurnStarted(turn) => Some(&turn.starts),
        _ => None,
    });
    let starts = turns.into_iter().next()?;
    // Who asked before the run went on asks again, or has its answer.
    let leg = records
        .iter()
        .rev()
        .take_while(|record| !matches!(record.event, Event::RunResumed(_)));
    let asked = leg.filter_map(|record| match &record.event {
        Event::InputRequested(asked) => Some((asked.agent.clone(), asked.execution)),
        _ => None,
    });
    asked.min_by_key(|(agent, _)| starts.iter().position(|start| start.agent == *agent))
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use serde_json::{Value, json};

    use super::*;

    fn record(seq: u64, event: Value) -> Record {
        let event: Event = serde_json::from_value(event).expect("an event");
        Record {
            seq,
            at: DateTime::UNIX_EPOCH,
            event,
        }
    }

    fn asks(agent: &str) -> Value {
        json!({"event": "input_requested", "data": {"turn": 1, "agent": agent, "execution": 1, "prompt": "?", "choices": []}})
    }

    #[test]
    fn of_several_the_first_of_the_turn_asks_and_none_that_asked_before_the_run_went_on() {
        let turn = json!({"event": "turn_started", "data": {"turn": 1, "starts": [{"agent": "a", "execution": 1}, {"agent": "b", "execution": 1}, {"agent": "c", "execution": 1}], "waiting": []}});
        let resumed = json!({"event": "run_resumed", "data": {"program": "0"}});
        let rows: [(&[Value], Option<&str>); 4] = [
            (std::slice::from_ref(&turn), None),
            (&[turn.clone(), asks("c"), asks("b")], Some("b")),
            (&[turn.clone(), asks("a"), resumed.clone(), asks("c")], Some("c")),
            (&[turn.clone(), asks("a"), resumed], None),
        ];
        for (events, wanted) in rows {
            let records: Vec<Record> = (0..)
                .zip(events)
                .map(|(seq, event)| record(seq, event.clone()))
                .collect();
            let asking = first_to_ask(&records).map(|(agent, _)| agent);
            assert_eq!(asking.as_deref(), wanted, "{events:?}");
        }
    }
}
