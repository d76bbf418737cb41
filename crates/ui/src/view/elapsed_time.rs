//! The time since a record, for runs that are under way.

use chrono::{DateTime, Utc};

/// Returns the seconds since the time; 0 if it is in the future.
/// Returns the seconds since this time, at least 0.
#[expect(
    clippy::disallowed_methods,
    reason = "the page shows how long work has lasted; nothing is decided by it"
)]
pub(super) fn seconds_since(time: DateTime<Utc>) -> f64 {
    (Utc::now() - time).as_seconds_f64().max(0.0)
}
