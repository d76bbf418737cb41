//! The decided requests in the records of a run.
//!
//! Invariant: an answer to a decided request is refused with the answer that was used, its source and its time.

use ensemble_core::conversation::Record;
use ensemble_core::request::{AnswerRefusal, RequestAddress};
use ensemble_history::list_given_answers;

use crate::drive::events::{RunEvent, RunEventKind};

/// Returns the refusal of an answer to the latest decided request with a matching address. Returns `None` if there is no such request.
pub(crate) fn refuse_decided_in_events(
    events: &[RunEvent],
    fits: impl Fn(&RequestAddress) -> bool,
) -> Option<AnswerRefusal> {
    let records = events.iter().filter_map(|event| match &event.kind {
        RunEventKind::Committed(record) => Some(&**record),
        _ => None,
    });
    refuse_decided_in_records(records, fits)
}

/// Returns the refusal of an answer to the latest decided request with a matching address. Returns `None` if there is no such request.
pub(crate) fn refuse_decided_in_records<'r>(
    records: impl DoubleEndedIterator<Item = &'r Record>,
    fits: impl Fn(&RequestAddress) -> bool,
) -> Option<AnswerRefusal> {
    let decided = |record: &Record| {
        let mut answers = list_given_answers(record).into_iter().rev();
        let given = answers.find(|given| fits(given.address()))?;
        Some(AnswerRefusal::Decided {
            address: given.record.address,
            answer: given.record.answer,
            by: given.record.by,
            at: given.at,
            pending: Vec::new(),
        })
    };
    records.rev().find_map(decided)
}

/// An answer of an option that no question has used.
#[derive(Debug, Clone, PartialEq)]
pub struct UnusedAnswer {
    /// The address, or the name of the agent.
    pub address: String,
    /// The answer.
    pub text: String,
    /// True if the answer was for every question or from a file, so that an unused answer is not an error.
    pub is_for_every_question: bool,
    /// The refusal, which states the answer that was used instead. `None` if the agent has not asked.
    pub decided_refusal: Option<AnswerRefusal>,
}

/// Returns the refusal of an answer to the latest decided request that this text names.
pub(crate) fn refuse_decided_by_name(events: &[RunEvent], given: &str) -> Option<AnswerRefusal> {
    refuse_decided_in_events(events, |address| address.match_precision(given).is_some())
}
