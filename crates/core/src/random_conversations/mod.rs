//! Random conversations for tests: decided by hand, or driven by the executor (feature `random-conversations`).

mod driver;
mod fated;

pub use driver::{Driver, Waited, plan_of, walk};
pub use fated::{Frozen, drive, drive_around, started};
