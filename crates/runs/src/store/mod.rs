//! The stores of runs.

pub mod files;
