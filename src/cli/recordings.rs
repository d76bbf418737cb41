//! What a record says of a run: its executions, and the decisions that a replay compares with.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::error::CliError;
use super::resume::started;
use crate::agent::{Observation, Recorded, Recording};
use crate::conversation::{Event, ExecutionFinished, Interruption, Record, RunStarted, TurnStarted};
use crate::data::{JsonMap, Usage};
use crate::journal::{Journal, RecordedDecisions};

/// What a record says, whatever its form.
pub struct Recordings {
    /// With what the run was started.
    pub started: RunStarted,
    /// What its executions came to.
    pub recording: Recording,
    /// What was decided, for the input and for every message that was added.
    pub legs: Vec<Leg>,
}

/// What was decided from one user message to the end that it led to.
#[derive(Debug, Default)]
pub struct Leg {
    /// The message; `None` for the run's input.
    pub message: Option<Arc<str>>,
    /// The decisions.
    pub decisions: RecordedDecisions,
}

/// What a journal says.
pub fn of_journal(journal: &Journal) -> Result<Recordings, CliError> {
    let mut recordings = Recordings {
        started: started(journal)?.clone(),
        recording: Recording::default(),
        legs: vec![Leg::open(None)],
    };
    let mut spent: BTreeMap<Arc<str>, Usage> = BTreeMap::new();
    for record in &journal.records {
        take(&mut recordings, &mut spent, record);
    }
    Ok(recordings)
}

fn take(recordings: &mut Recordings, spent: &mut BTreeMap<Arc<str>, Usage>, record: &Record) {
    let Some(Leg { decisions, .. }) = recordings.legs.last_mut() else {
        return;
    };
    match &record.event {
        Event::TurnStarted(turn) => {
            spent.clear();
            decisions.turns.insert(turn.turn, agents_of(turn));
        }
        Event::AttemptFailed(failed) => {
            let usage = spent.entry(failed.agent.clone()).or_default();
            *usage = *usage + failed.usage.unwrap_or_default();
        }
        Event::ExecutionFinished(finished) => {
            let before = spent.get(&finished.agent).copied();
            let ended = Recorded::Ended(observation(finished, before));
            recordings
                .recording
                .insert(finished.turn, finished.agent.clone(), ended);
        }
        Event::InputRequested(asked) => {
            let question = Recorded::Asked(asked.question.clone());
            recordings.recording.insert(asked.turn, asked.agent.clone(), question);
        }
        Event::Interrupted(cause) => recordings.recording.cut_by = Some(*cause),
        Event::RunEnded(ended) => {
            decisions.reason = Some(ended.completion_reason);
            decisions.is_cut = ended.completion_reason.is_resumable();
        }
        Event::RunResumed(_) => {
            decisions.reason = None;
            decisions.is_cut = true;
            recordings.recording.cut_by = None::<Interruption>;
        }
        Event::MessageAdded(message) => recordings.legs.push(Leg::open(Some(message.text.clone()))),
        Event::RunStarted(_) | Event::ContextSet(_) | Event::ExecutionStarted(_) | Event::TurnFinished(_) => {}
    }
}

impl Leg {
    /// One of which nothing is known yet.
    fn open(message: Option<Arc<str>>) -> Self {
        let decisions = RecordedDecisions {
            is_cut: true,
            ..RecordedDecisions::default()
        };
        Self { message, decisions }
    }
}

fn agents_of(turn: &TurnStarted) -> BTreeSet<Arc<str>> {
    turn.starts.iter().map(|start| start.agent.clone()).collect()
}

fn observation(finished: &ExecutionFinished, before: Option<Usage>) -> Observation {
    let output = || -> JsonMap {
        finished
            .output
            .as_ref()
            .and_then(|output| output.as_object().cloned())
            .unwrap_or_default()
    };
    Observation {
        result: match &finished.failure {
            Some(failure) => Err(failure.clone()),
            None => Ok(output()),
        },
        usage: match (before, finished.usage) {
            (Some(before), usage) => Some(before + usage.unwrap_or_default()),
            (None, usage) => usage,
        },
        exchange: finished.exchange.clone(),
    }
}
