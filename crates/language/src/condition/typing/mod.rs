//! What the parts of an expression can be, before a run.

pub(crate) mod check;
pub(crate) mod literals;
pub(crate) mod part_names;
pub(crate) mod types;
pub(crate) mod verdict;
