//! What the expressions of an agent read in vain.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use ensemble_core::runner::AttemptLedger;
use ensemble_language::condition::EvaluationNote;

/// Missing keys about which the agent has warned in this process. Warnings of earlier processes are in the journal.
#[derive(Debug, Default)]
pub(super) struct WarnedReads(Mutex<HashSet<(String, String)>>);

impl WarnedReads {
    /// Adds a warning to the ledger for each missing key that neither this process nor the earlier warnings report.
    pub(super) fn warn_about_new_reads(
        &self,
        notes: &[EvaluationNote],
        earlier_warnings: &[String],
        ledger: &AttemptLedger,
    ) {
        if notes.is_empty() {
            return;
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for note in notes {
            let is_new = known.insert((note.expression.clone(), note.key.clone()));
            if is_new
                && !earlier_warnings
                    .iter()
                    .any(|warning| note.is_same_read_as_sentence(warning))
            {
                ledger.add_warning(note.describe(None));
            }
        }
    }
}
