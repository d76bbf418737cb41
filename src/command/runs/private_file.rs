//! Files with what was said, which only the user may read.

use std::io::Write;
use std::path::Path;

use crate::command::shared::error::CliError;
use crate::command::shared::surroundings::CliEnvironment;

/// Writes the file that the user has named, and says so.
pub(crate) fn write_bytes_and_report(path: &Path, bytes: &[u8], surroundings: &CliEnvironment) -> Result<(), CliError> {
    let path = surroundings.project.folder.join(path);
    let relative_path = surroundings.project.relative_path(&path);
    create_private_file(&path)
        .and_then(|mut file| file.write_all(bytes))
        .map_err(|error| CliError::usage_error(format!("cannot write {}: {error}", relative_path.display())))?;
    surroundings.print_err(&format!("wrote {}\n", relative_path.display()));
    Ok(())
}

/// Writes a file with what was said. If it is new, only the user may read it.
pub(crate) fn write_private_text(path: &Path, text: &str) -> std::io::Result<()> {
    create_private_file(path)?.write_all(text.as_bytes())
}

fn create_private_file(path: &Path) -> std::io::Result<std::fs::File> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}
