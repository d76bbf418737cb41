//! The project's own files.

#![expect(clippy::disallowed_methods, reason = "tests read the project's files")]

use std::path::{Path, PathBuf};

/// The project's folder.
pub(crate) fn project() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The text of a file of the project.
pub(crate) fn read(name: impl AsRef<Path>) -> String {
    let path = project().join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
