//! The exit codes of the program.

use std::process::ExitCode;

use ensemble_core::conversation::{RunEnded, RunInterruption, apply_fail_on_limit, run_exit_code};

/// Success.
pub(crate) const SUCCESS: u8 = 0;
/// Failed run, or error of the program.
pub(crate) const FAILURE: u8 = 1;
/// `runs diff`: different runs.
pub(crate) const DIFFERENT: u8 = 1;
/// `test`: failed case.
pub(crate) const FAILED: u8 = 1;
/// Usage error, invalid ensemble or missing file. No run was started.
pub(crate) const USAGE: u8 = 2;
/// Replay with other decisions than its record.
pub(crate) const DIVERGED: u8 = 5;
/// `batch`: `--max-cost` kept rows from running, regardless of the other rows.
pub(crate) const BUDGET: u8 = 6;

/// Exit codes of a command that runs a conversation, with their meanings, for `--help` and the manual.
pub(crate) const RUN_CODES: &[(&str, &str)] = &[
    (
        "0",
        "The run reached its goal: it completed, `success` is true, and every `required` agent has succeeded",
    ),
    (
        "1",
        "The run failed or did not reach its goal, the program had an error, or standard output could not be written",
    ),
    ("2", "The command line or a file is not valid; nothing was executed"),
    (
        "3",
        "The conversation waits for an answer; `ensemble resume` continues the run",
    ),
    (
        "4",
        "A limit cut the run off; with --fail-on-limit, also if an agent still had work at its own limit",
    ),
    ("130, 143", "Ctrl-C; SIGTERM"),
];

/// Returns the exit code of a run with this end. `cause` distinguishes Ctrl-C from SIGTERM.
/// With `fail_on_limit`, exhausted agents turn success into the exit code of a limit.
pub(crate) fn exit_code_for_end(ended: &RunEnded, cause: Option<&RunInterruption>, fail_on_limit: bool) -> u8 {
    let code = run_exit_code(ended.completion_reason, ended.is_success(), cause);
    apply_fail_on_limit(code, fail_on_limit && !ended.exhausted.is_empty())
}

/// Converts the exit code to the type of the standard library.
pub(crate) fn to_exit_code(code: u8) -> ExitCode {
    ExitCode::from(code)
}
