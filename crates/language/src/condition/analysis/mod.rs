//! What an expression demands of the values that it reads, before they exist: for checks, exploration and examples.
//!
//! `polarity` splits an expression by the answer that is wanted, and `paths` finds the values that it reads. The other files
//! use these two: `counts` of executions, `demands` on values, `truths` that are asked for, conditions that are `steady`,
//! and conditions that are `exclusive`.

pub(crate) mod claims;
pub(super) mod counts;
pub(super) mod demands;
mod exclusive;
mod failure_reads;
pub(crate) mod member_reads;
pub(crate) mod mutants;
pub(super) mod paths;
mod polarity;
pub(crate) mod reads;
mod recomputation;
pub(super) mod truths;
