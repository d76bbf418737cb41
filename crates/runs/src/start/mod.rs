//! The start of a run: new, recorded or nested.

pub(crate) mod agents;
pub(crate) mod carried_inputs;
pub(crate) mod definitions;
pub(crate) mod file_errors;
pub(crate) mod nested_run;
pub(crate) mod new_run;
pub(crate) mod ready;
pub mod recorded_run;
pub(crate) mod runs;
pub(crate) mod secrets;
pub(crate) mod substitutes;
