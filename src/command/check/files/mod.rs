//! Files that the arguments of a command select: search in folders, exclusions, and checks in parallel.

pub(crate) mod exclusions;
pub(crate) mod folders;
pub(crate) mod inputs;
pub(crate) mod ordered_work;
