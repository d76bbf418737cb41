//! The files that a command means: selected, searched in folders, and examined in parallel.

pub(crate) mod exclusions;
pub(crate) mod folders;
pub(crate) mod inputs;
pub(crate) mod ordered_work;
