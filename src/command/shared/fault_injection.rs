//! `ENSEMBLE_FAULT`: makes this process kill itself at a chosen append to a journal. `docs/testing.md` describes its
//! use. Builds for tests only: a release build has neither this variable nor the other.

#![cfg(debug_assertions)]

use crate::command::shared::error::CliError;
use ensemble_runs::store::files::{AppendFault, start_recording_effects};

/// Environment variable that describes the fault.
const FAULT_VARIABLE: &str = "ENSEMBLE_FAULT";
/// Environment variable with the file to which all effects on recorded runs are appended.
const EFFECTS_VARIABLE: &str = "ENSEMBLE_EFFECTS";

/// Arms the fault of `ENSEMBLE_FAULT`, and starts the recording of effects if `ENSEMBLE_EFFECTS` names a file.
///
/// # Errors
/// The value of a variable is not valid, or the file of effects cannot be opened.
pub(crate) fn arm_fault_from_environment() -> Result<(), CliError> {
    if let Some(path) = std::env::var_os(EFFECTS_VARIABLE).filter(|path| !path.is_empty()) {
        let recorded = start_recording_effects(path.as_ref());
        recorded.map_err(|error| CliError::usage_error(format!("{EFFECTS_VARIABLE}: {error}")))?;
    }
    let Some(fault_text) = std::env::var_os(FAULT_VARIABLE).filter(|asked| !asked.is_empty()) else {
        return Ok(());
    };
    let fault: Result<AppendFault, String> = fault_text.to_string_lossy().parse();
    fault
        .map(AppendFault::arm_for_process)
        .map_err(|error| CliError::usage_error(format!("{FAULT_VARIABLE}: {error}")))
}
