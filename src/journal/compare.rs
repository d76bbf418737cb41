//! The ledger of a replay: it writes nothing and compares every decision with the record.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Divergence, Ledger, LedgerError, SyncPoint};
use crate::conversation::{CompletionReason, Event, Record, TurnStarted};

/// The decisions of a record.
#[derive(Debug, Default)]
pub struct RecordedDecisions {
    /// Who ran in each turn.
    pub turns: BTreeMap<u32, BTreeSet<Arc<str>>>,
    /// The last turn lists only those who had ended: others may have been under way.
    pub last_turn_is_partial: bool,
    /// Why the run ended; `None`: the record was cut, or does not say.
    pub reason: Option<CompletionReason>,
    /// Nothing is known of what came after the last turn.
    pub is_cut: bool,
}

/// Compares instead of writing.
#[derive(Debug)]
pub struct ComparingLedger {
    decisions: RecordedDecisions,
    /// Decisions that were the same.
    pub compared: u64,
    /// The last turn that began.
    last_turn: u32,
}

impl ComparingLedger {
    /// Compares with these, which follow `last_turn`.
    pub fn new(decisions: RecordedDecisions, last_turn: u32) -> Self {
        Self {
            decisions,
            compared: 0,
            last_turn,
        }
    }

    fn turn(&mut self, decided: &TurnStarted) -> Result<(), LedgerError> {
        let agents: BTreeSet<Arc<str>> = decided.starts.iter().map(|start| start.agent.clone()).collect();
        let last = self.decisions.turns.keys().next_back().copied().unwrap_or(0);
        let Some(recorded) = self.decisions.turns.get(&decided.turn) else {
            if self.decisions.is_cut {
                return Err(LedgerError::EndOfRecord { turn: decided.turn });
            }
            return self.diverge(decided.turn, self.end(), listed(&agents));
        };
        let partial = self.decisions.last_turn_is_partial && decided.turn == last;
        let same = if partial {
            recorded.is_subset(&agents)
        } else {
            *recorded == agents
        };
        if !same {
            return self.diverge(decided.turn, listed(recorded), listed(&agents));
        }
        self.compared += 1;
        self.last_turn = decided.turn;
        Ok(())
    }

    fn ended(&mut self, turn: u32, reason: CompletionReason) -> Result<(), LedgerError> {
        let decided = format!("the run ends: {reason}");
        if let Some((_, recorded)) = self.decisions.turns.range(turn..).next() {
            return self.diverge(turn, listed(recorded), decided);
        }
        match self.decisions.reason {
            Some(recorded) if recorded != reason => self.diverge(turn, self.end(), decided),
            _ => {
                self.compared += 1;
                Ok(())
            }
        }
    }

    fn end(&self) -> String {
        match self.decisions.reason {
            Some(reason) => format!("the run ends: {reason}"),
            None => "the run ends".to_owned(),
        }
    }

    fn diverge<T>(&self, turn: u32, recorded: String, decided: String) -> Result<T, LedgerError> {
        Err(LedgerError::Diverged(Box::new(Divergence {
            turn,
            recorded,
            decided,
        })))
    }
}

impl Ledger for ComparingLedger {
    fn append(&mut self, record: &Record) -> Result<(), LedgerError> {
        match &record.event {
            Event::TurnStarted(turn) => self.turn(turn),
            Event::RunEnded(ended) => self.ended(self.last_turn + 1, ended.completion_reason),
            _ => Ok(()),
        }
    }

    fn sync(&mut self, _point: SyncPoint) -> Result<(), LedgerError> {
        Ok(())
    }
}

fn listed(agents: &BTreeSet<Arc<str>>) -> String {
    let names: Vec<&str> = agents.iter().map(|name| &**name).collect();
    names.join(", ")
}
