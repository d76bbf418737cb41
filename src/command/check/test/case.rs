//! A case that was tried.

use ensemble_cases::drive::Tried;
use ensemble_cases::judge::Failure;
use ensemble_cases::suite::Sound;
use ensemble_explore::{Budget, Exploration, explore};

/// The number of states that are explored for `--coverage`.
const MAX_STATES: u64 = 20_000;

/// A case that was tried.
pub(crate) struct CaseTried {
    /// Which case of the file it is.
    pub(crate) at: usize,
    pub(crate) tried: Tried,
    pub(crate) seconds: f64,
    /// The expectations that were rewritten.
    pub(crate) updated: Vec<Failure>,
}

/// Explores the conversations of the ensemble.
pub(crate) fn explored(sound: Sound<'_>) -> Exploration {
    explore(&sound.ensemble.plan, Budget::of_states(MAX_STATES))
}
