//! `ENSEMBLE_FAULT`: this process is to kill itself at a chosen append to a journal. `docs/testing.md` says what for.

use super::error::CliError;
use ensemble_runs::files::Fault;

/// The variable.
const VARIABLE: &str = "ENSEMBLE_FAULT";

/// Arms the fault that the environment asks for.
///
/// # Errors
/// It asks for something else.
pub(super) fn arm() -> Result<(), CliError> {
    let Some(asked) = std::env::var_os(VARIABLE).filter(|asked| !asked.is_empty()) else {
        return Ok(());
    };
    let fault: Result<Fault, String> = asked.to_string_lossy().parse();
    fault
        .map(Fault::arm)
        .map_err(|error| CliError::usage(format!("{VARIABLE}: {error}")))
}
