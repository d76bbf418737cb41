//! The parts and tool calls that failed since the last message of a session.

use ensemble_core::conversation::{Event, FailedWork, Record, list_nested_failures};
use ensemble_history::RunHistory;

/// Failed work of the outermost run and of its nested runs since the last message.
#[derive(Default)]
pub(crate) struct MessageFailedWork {
    history: RunHistory,
    /// The warnings about failed work of nested runs, each with the address of its agent.
    nested: Vec<String>,
}

impl MessageFailedWork {
    /// Applies the next record of the outermost run.
    pub(crate) fn apply_record(&mut self, record: &Record) {
        if matches!(record.event, Event::MessageAdded(_)) {
            *self = Self::default();
        }
        self.history.apply_record(record);
        self.nested.extend(list_nested_failures(&record.event));
    }

    /// Returns what failed, as one text. Returns `None` if nothing failed.
    pub(crate) fn to_text(&self) -> Option<String> {
        let own_work = self.history.run_totals().list_failed_work();
        let own_sentences = own_work.iter().flat_map(FailedWork::list_sentences);
        let mut nested = self.nested.clone();
        nested.sort_unstable();
        let sentences: Vec<String> = own_sentences.chain(nested).collect();
        (!sentences.is_empty()).then(|| sentences.join(", "))
    }
}
