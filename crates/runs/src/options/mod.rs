//! The options of a run.

pub mod arguments;
pub mod nested_driver;
pub(crate) mod replacements;
pub(crate) mod run_options;
