//! Code of several groups of commands: the environment, errors and exit codes, help, internal commands.

pub(super) mod error;
pub(super) mod exit;
#[cfg(debug_assertions)]
pub(super) mod fault_injection;
pub(super) mod help;
mod merge_help;
pub(super) mod output_form;
pub(super) mod panics;
pub(super) mod runtime;
pub(super) mod sandbox_helper;
pub(super) mod simulated_agent;
pub(super) mod spelling;
pub(super) mod surroundings;
pub(super) mod telemetry;
pub(super) mod untrusted_files;
pub(super) mod watchdog;
