//! Files with the content of runs, which only the user can read.

use std::io::Write;
use std::path::Path;

use crate::command::shared::error::CliError;
use crate::command::shared::surroundings::CliEnvironment;

/// Writes the bytes to the file that the user has named, and prints a note. A new file is readable for the user only.
pub(crate) fn write_bytes_and_report(path: &Path, bytes: &[u8], surroundings: &CliEnvironment) -> Result<(), CliError> {
    let path = surroundings.project.folder.join(path);
    let relative_path = surroundings.project.relative_path(&path);
    create_private_file(&path)
        .and_then(|mut file| file.write_all(bytes))
        .map_err(|error| CliError::usage_error(format!("cannot write {}: {error}", relative_path.display())))?;
    surroundings.print_err(&format!("wrote {}\n", relative_path.display()));
    Ok(())
}

/// Writes the text to a file. A new file is readable for the user only.
pub(crate) fn write_private_text(path: &Path, text: &str) -> std::io::Result<()> {
    create_private_file(path)?.write_all(text.as_bytes())
}

/// Opens the file for writing and empties it. A new file is readable for the user only.
fn create_private_file(path: &Path) -> std::io::Result<std::fs::File> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}
