//! A `budget` where the conversation has no budget.

use super::check_subject::CheckSubject;
use crate::diagnostic::Finding;
use crate::loader::codes;
use crate::source::Route;

/// Warns of a `budget` that sets the messages of no limit.
pub(super) fn check_budget_scope(subject: &CheckSubject<'_>) -> Vec<Finding> {
    let limits = &subject.ensemble.limits;
    if limits.budget.is_none() || limits.max_total_tokens.is_some() || limits.max_cost.is_some() {
        return Vec::new();
    }
    let place = Route::root().with_key("conversation_limits").with_key("budget");
    let message = "`budget` has no effect: there is neither `max_total_tokens` nor `max_cost`";
    let finding = Finding::new_warning(codes::IDLE_BUDGET, place.into_key_location(), message);
    vec![finding.with_help("set one of the two limits, or remove `budget`")]
}
