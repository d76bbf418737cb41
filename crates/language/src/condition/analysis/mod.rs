//! What an expression demands of the values that it reads, before they exist: for checks, exploration and examples.
//!
//! `polarity` splits an expression by the answer that is wanted, and `paths` finds the values that it reads. The other files
//! use these two: `counts` of executions, `demands` on values, `truths` that are asked for, conditions that are `steady`,
//! and conditions that are `exclusive`.

pub(super) mod counts;
pub(super) mod demands;
mod exclusive;
pub(super) mod paths;
mod polarity;
mod steady;
pub(super) mod truths;
