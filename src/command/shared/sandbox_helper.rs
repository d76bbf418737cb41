//! The program as the helper of a sandbox: an internal command that the help does not show.

use ensemble_process::ProgramInvocation;
use ensemble_process::confine::run_sandbox_helper;

/// The name of the internal command.
const COMMAND: &str = "__sandbox";

/// Returns the command that starts a helper: this program with the internal command.
pub(crate) fn sandbox_helper_command() -> Option<ProgramInvocation> {
    let program = std::env::current_exe().ok()?;
    Some(ProgramInvocation {
        program,
        arguments: vec![COMMAND.into()],
    })
}

/// Acts as the helper and returns its exit code, if this process was started as one.
pub(crate) fn run_if_sandbox_helper() -> Option<u8> {
    let mut arguments = std::env::args_os().skip(1);
    let is_called = arguments.next().is_some_and(|first| first == COMMAND);
    is_called.then(|| sandbox_helper_command().map(|own| run_sandbox_helper(&own, arguments)))?
}
