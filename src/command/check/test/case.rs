//! Test case that was run, and the exploration of its ensemble.

use ensemble_cases::drive::CaseResult;
use ensemble_cases::judge::UnmetExpectation;
use ensemble_cases::suite::CheckedSuite;
use ensemble_explore::{Exploration, ExplorationBudget, explore_plan};

/// Maximum number of states that `--coverage` explores.
const MAX_EXPLORED_STATES: u64 = 20_000;

/// Result of one run of a test case.
pub(crate) struct FinishedCaseRun {
    /// Index of the case in its file.
    pub(crate) at: usize,
    pub(crate) result: CaseResult,
    pub(crate) seconds: f64,
    /// Expectations that `--update` rewrote.
    pub(crate) updated_expectations: Vec<UnmetExpectation>,
}

/// Explores the conversations of the ensemble, up to a fixed number of states.
pub(crate) fn explore_for_coverage(sound: CheckedSuite<'_>) -> Exploration {
    explore_plan(
        &sound.ensemble.plan,
        ExplorationBudget::with_max_states(MAX_EXPLORED_STATES),
    )
}
