//! What the expressions of an agent read in vain.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use ensemble_core::runner::AttemptLedger;
use ensemble_language::condition::ReadNote;

/// The reads about which the agent has warned. Each of them is reported once in a run.
#[derive(Debug, Default)]
pub(super) struct NotedReads(Mutex<HashSet<(String, String)>>);

impl NotedReads {
    /// Adds a warning to the ledger for each read that is new.
    pub(super) fn report_notes(&self, notes: &[ReadNote], ledger: &AttemptLedger) {
        if notes.is_empty() {
            return;
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for note in notes {
            if known.insert((note.expression.clone(), note.key.clone())) {
                ledger.warn(note.describe(None));
            }
        }
    }
}
