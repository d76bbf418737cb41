//! The clock on the wall.

use chrono::{DateTime, Utc};

use crate::executor::Clock;

/// The time that people agree on.
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> DateTime<Utc> {
        Utc::now()
    }
}
