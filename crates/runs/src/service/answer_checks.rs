//! Checks of answers against the record of a run, before the run continues.
//!
//! Invariant: all answers are checked before the first answer is used.

use ensemble_agents::agent::kinds::input::{PreparedAnswers, check_answer};
use ensemble_core::conversation::Record;
use ensemble_core::request::{
    AnswerRefusal, PendingRequest, RequestAddress, RequestAnswer, list_best_matches, resolve_pending_request,
};

use crate::drive::decided_requests::{refuse_decided_in_events, refuse_decided_in_records};
use crate::drive::events::{RunEvent, RunEventKind, RunTreeReader};
use crate::drive::request_desk::ClientAnswer;
use crate::error::RunError;
use crate::options::run_options::RunOptions;
use crate::start::recorded_run::RecordedRun;
use crate::start::runs::LeasedRun;

/// Checks the answer of a client to a run that no process drives.
///
/// # Errors
///
/// The request is decided, differs from the shown request, or does not accept the answer.
pub(crate) fn check_recorded_answer(
    recorded: &RecordedRun,
    events: &[RunEvent],
    answer: &ClientAnswer,
) -> Result<(), AnswerRefusal> {
    let mut pending = recorded.state.pending_requests();
    let Some(request) = pending.find(|request| request.address == answer.address) else {
        let decided = refuse_decided_in_events(events, |address| *address == answer.address);
        let pending = recorded_pending_addresses(recorded);
        return Err(match decided {
            Some(decided) => decided.with_pending_addresses(pending),
            None => AnswerRefusal::NotPending {
                given: answer.address.to_string(),
                pending,
            },
        });
    };
    if request.digest != answer.digest {
        return Err(AnswerRefusal::for_changed_request(request));
    }
    match &answer.answer {
        // An empty answer means the default, which the record does not have.
        RequestAnswer::Text(text) if text.trim().is_empty() && !request.is_permission() => Ok(()),
        given => check_answer(request, given, true),
    }
}

/// Returns the addresses of the pending requests of a recorded run.
fn recorded_pending_addresses(recorded: &RecordedRun) -> Vec<RequestAddress> {
    let pending = recorded.state.pending_requests();
    pending.map(|request| request.address.clone()).collect()
}

impl LeasedRun {
    /// Checks the answers and permissions of options before the run continues. Replaces the name of an answer to a pending request by its
    /// address.
    ///
    /// # Errors
    ///
    /// A request is decided, a name is not unique, or an answer is not one of the choices or does not match the schema.
    pub async fn check_resume_options(&self, options: &mut RunOptions) -> Result<(), RunError> {
        let mut names = options.allowed_tools.iter().chain(&options.denied_tools);
        if options.answers.list_addresses().next().is_none() && !names.any(|name| is_tool_call_address(name)) {
            return Ok(());
        }
        let recorded = self.recorded_run();
        let events = RunTreeReader::new(recorded.run.clone(), 0)
            .read_unread_records()
            .await?;
        let records = events.iter().filter_map(|event| match &event.kind {
            RunEventKind::Committed(record) => Some(&**record),
            _ => None,
        });
        let pending: Vec<PendingRequest> = recorded.state.pending_requests().cloned().collect();
        Ok(check_and_resolve_answers(
            options,
            &pending,
            records,
            recorded.has_final_end(),
        )?)
    }
}

/// Checks the answers and permissions of options against the pending requests of these records. Replaces names by addresses. `has_ended`
/// refuses unknown names.
///
/// # Errors
///
/// A request is decided, a name is not unique, or an answer is not one of the choices or does not match the schema.
pub fn check_and_resolve_answers<'r>(
    options: &mut RunOptions,
    pending: &[PendingRequest],
    records: impl DoubleEndedIterator<Item = &'r Record> + Clone,
    has_ended: bool,
) -> Result<(), AnswerRefusal> {
    let refused = |given: &str, refusal: AnswerRefusal| match refusal {
        AnswerRefusal::NotPending { .. } => {
            let is_meant = |address: &RequestAddress| address.match_precision(given).is_some();
            let decided = refuse_decided_in_records(records.clone(), is_meant);
            // An agent that has not asked can ask later.
            decided.or_else(|| has_ended.then_some(refusal))
        }
        refusal => Some(refusal),
    };
    resolve_answer_addresses(&mut options.answers, pending, &refused)?;
    let names = options.allowed_tools.iter().chain(&options.denied_tools);
    for name in names.filter(|name| is_tool_call_address(name)) {
        match resolve_pending_request(name, pending) {
            Ok(request) => {
                let shown = (request.address.to_string(), request.digest.clone());
                options.shown_requests.extend([shown]);
            }
            Err(refusal) => {
                if let Some(refusal) = refused(name, refusal) {
                    return Err(refusal);
                }
            }
        }
    }
    Ok(())
}

/// Returns whether a name of `--allow-tool` or `--deny-tool` is the address of a call.
fn is_tool_call_address(name: &str) -> bool {
    name.contains('#') && name.parse::<RequestAddress>().is_ok()
}

/// Replaces the names of answers by the addresses of the pending requests. Checks the answers.
fn resolve_answer_addresses(
    answers: &mut PreparedAnswers,
    pending: &[PendingRequest],
    refused: &dyn Fn(&str, AnswerRefusal) -> Option<AnswerRefusal>,
) -> Result<(), AnswerRefusal> {
    let mut next = Vec::new();
    for (given, text) in answers.next_answers() {
        let address = match resolve_pending_request(given, pending) {
            Ok(request) => {
                check_answer(request, &RequestAnswer::Text(text.clone()), false)?;
                request.address.to_string()
            }
            Err(refusal) => match refused(given, refusal) {
                Some(refusal) => return Err(refusal),
                None => given.clone(),
            },
        };
        next.push((address, text.clone()));
    }
    for (given, text) in answers.option_answers().skip(next.len()) {
        for request in list_best_matches(given, pending) {
            check_answer(request, &RequestAnswer::Text(text.to_owned()), false)?;
        }
    }
    for request in pending.iter().filter(|request| !request.is_permission()) {
        let has_option = |(given, _): (&str, &str)| list_best_matches(given, pending).contains(&request);
        if !answers.option_answers().any(has_option)
            && let Some(text) = answers.find_file_answer(&request.address, request.execution)
        {
            check_answer(request, &RequestAnswer::Text(text), false)?;
        }
    }
    answers.set_next_answers(next);
    Ok(())
}
