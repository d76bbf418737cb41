//! The async runtime of the program: one thread, for one command.

use crate::command::shared::error::CliError;
use ensemble_process::resource_room;

/// Runs the future on a new runtime and waits for its result. Raises the limit of open files first.
/// The runtime ends without waiting for its other threads.
///
/// # Errors
/// The runtime cannot be started, or the future returned an error.
pub(crate) fn block_on<T>(future: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    resource_room::raise_open_file_limit();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| CliError::Internal(format!("cannot start the runtime: {error}")))?;
    let result = runtime.block_on(future);
    // A thread that waits for input of a person must not keep the process alive.
    runtime.shutdown_background();
    result
}
