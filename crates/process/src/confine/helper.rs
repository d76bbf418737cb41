//! The second process of a sandbox: what it is called with, and what it tells.

use std::ffi::OsString;

use super::super::ProgramInvocation;
use super::{SandboxHelperTask, sandbox_entry, supervisor};

/// The first argument of the helper that starts, watches and ends the process in the sandbox.
pub(super) const SUPERVISE_ARGUMENT: &str = "supervise";

/// The first argument of the helper that becomes the process in the sandbox.
pub(super) const ENTER_ARGUMENT: &str = "enter";

/// The exit code of a helper that could not set the sandbox up, or that ended the process at a limit.
const HELPER_EXIT_CODE: u8 = 125;

/// Prefix of the stderr line in which a helper reports its error.
const HELPER_LINE_PREFIX: &str = "ensemble sandbox: ";

/// Formats the stderr line in which a helper reports its error.
fn format_helper_line(why: &str) -> String {
    format!("{HELPER_LINE_PREFIX}{why}\n")
}

/// Finds the error of a helper in the last line of stderr.
pub(super) fn find_helper_message(stderr: &str) -> Option<&str> {
    stderr.trim_end().lines().next_back()?.strip_prefix(HELPER_LINE_PREFIX)
}

/// Runs a sandbox helper: `arguments` follow those of `own`, the command of the helper. Returns the exit code of the process.
///
/// The entering helper does not return if it succeeds, because it becomes the command.
pub fn run_sandbox_helper(own: &ProgramInvocation, arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let mut arguments = arguments.into_iter();
    let mode = arguments.next();
    let task = arguments.next();
    let program = arguments.next();
    let task = task.and_then(|task| serde_json::from_str::<SandboxHelperTask>(task.to_str()?).ok());
    let (Some(task), Some(program)) = (task, program) else {
        return print_helper_failure("it was called without rules and a program");
    };
    let command = ProgramInvocation {
        program: program.into(),
        arguments: arguments.collect(),
    };
    let exit_result = match mode.as_ref().and_then(|mode| mode.to_str()) {
        Some(SUPERVISE_ARGUMENT) => supervisor::run_supervised_command(own, &task, &command),
        Some(ENTER_ARGUMENT) => Err(sandbox_entry::enter_sandbox(&task, &command)),
        _ => Err("it was called in an unknown way".to_owned()),
    };
    exit_result.unwrap_or_else(|why| print_helper_failure(&why))
}

/// Prints the error to stderr and returns the exit code of a failed helper.
fn print_helper_failure(why: &str) -> u8 {
    use std::io::Write;
    let _nobody_reads = std::io::stderr().write_all(format_helper_line(why).as_bytes());
    HELPER_EXIT_CODE
}
