//! Runs that start with the records of other runs, and reuse their results.

pub(crate) mod forked_run;
pub(crate) mod merged_run;
pub(crate) mod reuse;
pub(crate) mod reused_results;
pub(crate) mod shared_records;
