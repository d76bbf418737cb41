//! Reports of runs and of findings: for people, as JSON, for CI, as pictures and as pages.

pub mod report;
pub mod story;
