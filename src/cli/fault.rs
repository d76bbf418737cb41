//! `ENSEMBLE_FAULT`: makes this process kill itself at a chosen append to a journal. `docs/testing.md` describes its
//! use.

use super::error::CliError;
use ensemble_runs::files::Fault;

/// The environment variable.
const VARIABLE: &str = "ENSEMBLE_FAULT";

/// Arms the fault that the environment variable describes.
///
/// # Errors
/// The value of the variable is not valid.
pub(super) fn arm() -> Result<(), CliError> {
    let Some(asked) = std::env::var_os(VARIABLE).filter(|asked| !asked.is_empty()) else {
        return Ok(());
    };
    let fault: Result<Fault, String> = asked.to_string_lossy().parse();
    fault
        .map(Fault::arm)
        .map_err(|error| CliError::usage(format!("{VARIABLE}: {error}")))
}
