//! What the expressions of an agent read in vain.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use ensemble_core::runner::ExecutionInput;
use ensemble_language::condition::EvaluationNote;

/// Missing keys about which the agent has warned in this process, by run: parts of an outer run share the runners of their nested runs.
/// Warnings of earlier processes are in the journal.
#[derive(Debug, Default)]
pub(super) struct WarnedReads(Mutex<HashSet<(Arc<str>, String, String)>>);

impl WarnedReads {
    /// Adds a warning to the ledger of the execution for each missing key that neither this process nor the earlier warnings of the run
    /// report.
    pub(super) fn warn_about_new_reads(
        &self,
        notes: &[EvaluationNote],
        earlier_warnings: &[String],
        execution: &ExecutionInput,
    ) {
        if notes.is_empty() {
            return;
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for note in notes {
            let is_new = known.insert((execution.run_id.clone(), note.expression.clone(), note.key.clone()));
            if is_new
                && !earlier_warnings
                    .iter()
                    .any(|warning| note.is_same_read_as_sentence(warning))
            {
                execution.ledger.add_warning(note.describe(None));
            }
        }
    }
}
