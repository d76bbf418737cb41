//! What can be known about a sound ensemble before it runs: one file for each check.
//!
//! Checks are pure and look at the typed ensemble alone. **Invariant:** an error here means that no run can
//! go as written; whatever merely looks odd is a warning or a hint.

mod allow;
mod circle;
mod limits;
mod news;
mod profiles;
mod state;
mod templates;
mod tools;

use crate::diagnostic::Finding;
use crate::ensemble::Ensemble;

pub use allow::apply_allowances;
pub use profiles::unknown_profiles;

/// Everything that the ensemble alone tells.
pub fn check(ensemble: &Ensemble) -> Vec<Finding> {
    let checks = [
        circle::check,
        news::check,
        limits::check,
        state::check,
        templates::check,
        tools::check,
    ];
    checks.iter().flat_map(|check| check(ensemble)).collect()
}

#[cfg(test)]
mod tests;
