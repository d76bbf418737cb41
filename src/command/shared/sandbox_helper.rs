//! The program as the helper of a sandbox: an internal command that the help does not show.

use ensemble_process::ProgramInvocation;
use ensemble_process::confine::run_sandbox_helper;

/// The name of the internal command.
const COMMAND: &str = "__sandbox";

/// Returns the command that starts a sandbox helper: this program with the internal command.
/// Returns `None` if the path of this program is unknown.
pub(crate) fn sandbox_helper_command() -> Option<ProgramInvocation> {
    let program = std::env::current_exe().ok()?;
    Some(ProgramInvocation {
        program,
        arguments: vec![COMMAND.into()],
    })
}

/// Runs this process as a sandbox helper and returns its exit code. Returns `None` if the process was not started as a helper.
pub(crate) fn run_if_sandbox_helper() -> Option<u8> {
    let mut arguments = std::env::args_os().skip(1);
    let is_called = arguments.next().is_some_and(|first| first == COMMAND);
    is_called.then(|| sandbox_helper_command().map(|own| run_sandbox_helper(&own, arguments)))?
}
