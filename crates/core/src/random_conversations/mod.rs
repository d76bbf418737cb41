//! Random conversations for tests: decided by hand, or driven by the executor (feature `random-conversations`).

mod driver;
mod fated;

pub use driver::{HandDrivenConversation, WaitCounts, build_plan, perform_random_conversation};
pub use fated::{FrozenClock, drive_around, drive_from_records, run_started_event};
