//! What a record says of a run: its executions, and the decisions that a replay compares with.
//!
//! A journal is read turn by turn while the replay goes on, so its length costs no memory.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;

use indicatif::ProgressBar;

use super::error::CliError;
use ensemble_agents::agent::{Observation, Recorded, RecordedTurn, Recording};
use ensemble_core::conversation::{
    CompletionReason, Event, ExecutionFinished, Interruption, Record, RunStarted, TurnStarted,
};
use ensemble_language::data::{JsonMap, Usage};
use ensemble_runs::journal::{self, ReadError, RecordedDecision, RecordedDecisions, Records};

/// What a record says, whatever its form.
pub(super) struct Recordings {
    /// With what the run was started.
    pub started: RunStarted,
    /// What the executions of the turn under way came to.
    pub recording: Recording,
    turns: Box<dyn Turns>,
}

/// The turns of a record, in order.
pub(super) trait Turns: Send {
    /// The next turn with what its executions came to, or the end of the conversation.
    fn next(&mut self) -> Result<(RecordedDecision, RecordedTurn), ReadError>;

    /// What was said after that end.
    fn message(&mut self) -> Option<Arc<str>>;

    /// Nothing more is asked.
    fn done(&self) {}

    /// Records at the beginning that are not decided again; then what is known of the turn that they leave open.
    fn given(&mut self, _each: &mut dyn FnMut(&Record)) -> Result<RecordedTurn, ReadError> {
        Ok(RecordedTurn::default())
    }
}

impl Recordings {
    /// A record of those turns.
    pub(super) fn new(started: RunStarted, turns: Box<dyn Turns>) -> Self {
        Self {
            started,
            recording: Recording::default(),
            turns,
        }
    }

    /// What the journal at `path` says. With `for_models` also what models and agents said to each other.
    pub(super) fn of_journal(path: &Path, for_models: bool, progress: ProgressBar) -> Result<Self, CliError> {
        let mut records = journal::open(path)?;
        let started = match records.next().transpose()?.map(|record| record.event) {
            Some(Event::RunStarted(started)) => started,
            _ => return Err(CliError::Internal("the journal does not begin with a run".to_owned())),
        };
        let given = started.forked_from.as_ref().and_then(|forked| forked.given);
        let turns = JournalTurns {
            records,
            given: given.unwrap_or_default(),
            pending: None,
            reason: None,
            is_cut: true,
            cut_by: None,
            for_models,
            progress,
        };
        Ok(Self::new(started, Box::new(turns)))
    }

    /// Hands over the records that are not decided again.
    pub(super) fn given(&mut self, mut each: impl FnMut(&Record)) -> Result<(), CliError> {
        let open = self.turns.given(&mut each)?;
        self.recording.set(open);
        Ok(())
    }

    /// The record has been decided again as far as it goes.
    pub(super) fn done(&self) {
        self.turns.done();
    }

    /// What was said after the end that has been reached.
    pub(super) fn message(&mut self) -> Option<Arc<str>> {
        self.turns.message()
    }
}

impl RecordedDecisions for Recordings {
    fn next_decision(&mut self) -> Result<RecordedDecision, ReadError> {
        let (decision, turn) = self.turns.next()?;
        self.recording.set(turn);
        Ok(decision)
    }
}

/// Turns that are all there.
pub(super) struct TurnsInMemory {
    /// The turns.
    pub turns: VecDeque<(RecordedDecision, RecordedTurn)>,
    /// The end that follows.
    pub end: RecordedDecision,
}

impl Turns for TurnsInMemory {
    fn next(&mut self) -> Result<(RecordedDecision, RecordedTurn), ReadError> {
        let end = || (self.end.clone(), RecordedTurn::default());
        Ok(self.turns.pop_front().unwrap_or_else(end))
    }

    fn message(&mut self) -> Option<Arc<str>> {
        None
    }
}

/// Turns as a journal tells them.
struct JournalTurns {
    records: Records<BufReader<File>>,
    /// Records that are not decided again.
    given: u64,
    /// The first record after the last turn.
    pending: Option<Event>,
    /// Why the conversation ended, as far as was read.
    reason: Option<CompletionReason>,
    is_cut: bool,
    cut_by: Option<Interruption>,
    for_models: bool,
    progress: ProgressBar,
}

impl Turns for JournalTurns {
    fn next(&mut self) -> Result<(RecordedDecision, RecordedTurn), ReadError> {
        if self.pending.is_none() {
            self.rest_of_turn()?;
        }
        self.progress.set_position(self.records.length());
        if !matches!(self.pending, Some(Event::TurnStarted(_))) {
            let ended = RecordedDecision::Ended {
                reason: self.reason,
                is_cut: self.is_cut,
            };
            return Ok((ended, RecordedTurn::default()));
        }
        let Some(Event::TurnStarted(started)) = self.pending.take() else {
            unreachable!("it has just been looked at");
        };
        (self.reason, self.is_cut, self.cut_by) = (None, true, None);
        let decision = RecordedDecision::Turn {
            turn: started.turn,
            agents: agents_of(&started),
            is_partial: false,
        };
        Ok((decision, self.rest_of_turn()?))
    }

    fn message(&mut self) -> Option<Arc<str>> {
        match self.pending.take() {
            Some(Event::MessageAdded(message)) => {
                (self.reason, self.is_cut) = (None, true);
                Some(message.text)
            }
            _ => None,
        }
    }

    fn done(&self) {
        self.progress.finish_and_clear();
    }

    fn given(&mut self, each: &mut dyn FnMut(&Record)) -> Result<RecordedTurn, ReadError> {
        let mut is_open = false;
        for _ in 0..self.given {
            let Some(record) = self.records.next().transpose()? else {
                break;
            };
            match &record.event {
                Event::TurnStarted(_) => is_open = true,
                Event::TurnFinished(_) => is_open = false,
                _ => {}
            }
            each(&record);
        }
        if is_open {
            self.rest_of_turn()
        } else {
            Ok(RecordedTurn::default())
        }
    }
}

impl JournalTurns {
    /// Reads on to the next turn or message, or to the end.
    fn rest_of_turn(&mut self) -> Result<RecordedTurn, ReadError> {
        let mut executions: HashMap<Arc<str>, Recorded> = HashMap::new();
        let mut spent: HashMap<Arc<str>, Usage> = HashMap::new();
        while let Some(record) = self.records.next().transpose()? {
            match record.event {
                Event::TurnStarted(_) | Event::MessageAdded(_) => {
                    self.pending = Some(record.event);
                    break;
                }
                Event::AttemptFailed(failed) => {
                    let usage = spent.entry(failed.agent).or_default();
                    *usage = *usage + failed.usage.unwrap_or_default();
                }
                Event::ExecutionFinished(finished) => {
                    let before = spent.get(&finished.agent).copied();
                    let agent = finished.agent.clone();
                    let ended = Recorded::Ended(observation(finished, before, self.for_models));
                    executions.insert(agent, ended);
                }
                Event::InputRequested(asked) => {
                    executions.insert(asked.agent, Recorded::Asked(asked.question));
                }
                Event::Interrupted(cause) => self.cut_by = Some(cause),
                Event::RunEnded(ended) => {
                    self.reason = Some(ended.completion_reason);
                    self.is_cut = ended.completion_reason.is_resumable();
                }
                Event::RunResumed(_) => (self.reason, self.is_cut, self.cut_by) = (None, true, None),
                Event::RunStarted(_) | Event::ContextSet(_) | Event::ExecutionStarted(_) | Event::TurnFinished(_) => {}
            }
        }
        Ok(RecordedTurn {
            executions,
            cut_by: self.cut_by,
        })
    }
}

fn agents_of(turn: &TurnStarted) -> BTreeSet<Arc<str>> {
    turn.starts.iter().map(|start| start.agent.clone()).collect()
}

fn observation(finished: ExecutionFinished, before: Option<Usage>, for_models: bool) -> Observation {
    let output = |output: Arc<serde_json::Value>| match Arc::unwrap_or_clone(output) {
        serde_json::Value::Object(output) => output,
        _ => JsonMap::new(),
    };
    Observation {
        result: match finished.failure {
            Some(failure) => Err(failure),
            None => Ok(finished.output.map_or_else(JsonMap::new, output)),
        },
        usage: match (before, finished.usage) {
            (Some(before), usage) => Some(before + usage.unwrap_or_default()),
            (None, usage) => usage,
        },
        exchange: if for_models { finished.exchange } else { Vec::new() },
    }
}
