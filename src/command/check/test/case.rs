//! A case that was tried.

use ensemble_cases::drive::CaseResult;
use ensemble_cases::judge::UnmetExpectation;
use ensemble_cases::suite::CheckedSuite;
use ensemble_explore::{Exploration, ExplorationBudget, explore_plan};

/// The number of states that are explored for `--coverage`.
const MAX_EXPLORED_STATES: u64 = 20_000;

/// A case that was tried.
pub(crate) struct FinishedCaseRun {
    /// Which case of the file it is.
    pub(crate) at: usize,
    pub(crate) result: CaseResult,
    pub(crate) seconds: f64,
    /// The expectations that were rewritten.
    pub(crate) updated_expectations: Vec<UnmetExpectation>,
}

/// Explores the conversations of the ensemble.
pub(crate) fn explore_for_coverage(sound: CheckedSuite<'_>) -> Exploration {
    explore_plan(
        &sound.ensemble.plan,
        ExplorationBudget::with_max_states(MAX_EXPLORED_STATES),
    )
}
