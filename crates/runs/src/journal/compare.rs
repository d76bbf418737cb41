//! The ledger of a replay: it writes nothing and compares every decision with the record.
//!
//! The record is asked for one decision at a time, so it need not be in memory.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Divergence, Ledger, LedgerError, ReadError, SyncPoint};
use ensemble_core::conversation::{CompletionReason, Event, Record, TurnStarted};

/// Tells what was decided, in order.
pub trait RecordedDecisions: Send {
    /// The next decision. After [`RecordedDecision::Ended`] it is not asked again.
    ///
    /// # Errors
    /// The record cannot be read.
    fn next_decision(&mut self) -> Result<RecordedDecision, ReadError>;
}

/// What was decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordedDecision {
    /// A turn began.
    Turn {
        /// Its number.
        turn: u32,
        /// Who ran in it.
        agents: BTreeSet<Arc<str>>,
        /// Only those are known who had ended; others may have been under way.
        is_partial: bool,
    },
    /// The conversation ended.
    Ended {
        /// Why; `None`: the record does not say.
        reason: Option<CompletionReason>,
        /// Nothing is known of what came after the last turn.
        is_cut: bool,
    },
}

/// Compares instead of writing.
pub struct ComparingLedger<'a> {
    recorded: &'a mut dyn RecordedDecisions,
    /// Decisions that were the same.
    pub compared: u64,
    /// The last turn that began.
    last_turn: u32,
}

impl<'a> ComparingLedger<'a> {
    /// Compares with these, which follow `last_turn`.
    pub fn new(recorded: &'a mut dyn RecordedDecisions, last_turn: u32) -> Self {
        Self {
            recorded,
            compared: 0,
            last_turn,
        }
    }

    fn next(&mut self) -> Result<RecordedDecision, LedgerError> {
        let next = self.recorded.next_decision();
        next.map_err(|error| LedgerError::Record(Box::new(error)))
    }

    fn turn(&mut self, decided: &TurnStarted) -> Result<(), LedgerError> {
        let agents: BTreeSet<Arc<str>> = decided.starts.iter().map(|start| start.agent.clone()).collect();
        match self.next()? {
            RecordedDecision::Ended { is_cut: true, .. } => Err(LedgerError::EndOfRecord { turn: decided.turn }),
            RecordedDecision::Ended { reason, .. } => diverge(decided.turn, ended(reason), listed(&agents)),
            RecordedDecision::Turn {
                turn,
                agents: recorded,
                is_partial,
            } => {
                let same = if is_partial {
                    recorded.is_subset(&agents)
                } else {
                    recorded == agents
                };
                if !same || turn != decided.turn {
                    return diverge(decided.turn, listed(&recorded), listed(&agents));
                }
                self.compared += 1;
                self.last_turn = decided.turn;
                Ok(())
            }
        }
    }

    fn ended(&mut self, decided: CompletionReason) -> Result<(), LedgerError> {
        let turn = self.last_turn + 1;
        match self.next()? {
            RecordedDecision::Turn { agents, .. } => diverge(turn, listed(&agents), ended(Some(decided))),
            RecordedDecision::Ended { reason, .. } if reason.is_some_and(|recorded| recorded != decided) => {
                diverge(turn, ended(reason), ended(Some(decided)))
            }
            RecordedDecision::Ended { .. } => {
                self.compared += 1;
                Ok(())
            }
        }
    }
}

impl Ledger for ComparingLedger<'_> {
    fn append(&mut self, record: &Record) -> Result<(), LedgerError> {
        match &record.event {
            Event::TurnStarted(turn) => self.turn(turn),
            Event::RunEnded(ended) => self.ended(ended.completion_reason),
            _ => Ok(()),
        }
    }

    fn sync(&mut self, _point: SyncPoint) -> Result<(), LedgerError> {
        Ok(())
    }
}

fn diverge<T>(turn: u32, recorded: String, decided: String) -> Result<T, LedgerError> {
    Err(LedgerError::Diverged(Box::new(Divergence {
        turn,
        recorded,
        decided,
    })))
}

fn ended(reason: Option<CompletionReason>) -> String {
    match reason {
        Some(reason) => format!("the run ends: {reason}"),
        None => "the run ends".to_owned(),
    }
}

fn listed(agents: &BTreeSet<Arc<str>>) -> String {
    let names: Vec<&str> = agents.iter().map(|name| &**name).collect();
    names.join(", ")
}
