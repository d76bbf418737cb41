//! The clock on the wall.

use chrono::{DateTime, SubsecRound, Utc};

use ensemble_core::executor::Clock;

/// The time that people agree on.
pub(super) struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> DateTime<Utc> {
        // As exactly as a journal keeps it, so that a run and its record tell the same.
        Utc::now().trunc_subsecs(6)
    }
}
