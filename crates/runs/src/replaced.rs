//! Replaces the text of a file at once.
//!
//! The new text is written beside the file and takes its place by a rename, so that an interruption leaves either text. A link
//! stays a link, and the permissions stay.

#![expect(clippy::disallowed_methods, reason = "files of the user are written here")]

use std::io::Write;
use std::path::Path;

/// Why a file has not been replaced. It is as it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotReplaced {
    /// Its text is another one than the caller has read.
    #[error("it was changed since it was read")]
    Changed,
    /// It must not be written.
    #[error("it is read-only")]
    ReadOnly,
    /// The system refuses it.
    #[error("{0}")]
    Refused(String),
}

impl From<std::io::Error> for NotReplaced {
    fn from(error: std::io::Error) -> Self {
        Self::Refused(error.to_string())
    }
}

/// Replaces the text of a file whose text is `before`.
///
/// # Errors
/// The file cannot be written, or its text is another one.
pub fn replace(path: &Path, before: &str, after: &str) -> Result<(), NotReplaced> {
    let target = path.canonicalize()?;
    let data = std::fs::metadata(&target)?;
    if data.permissions().readonly() {
        return Err(NotReplaced::ReadOnly);
    }
    let in_no_folder = || NotReplaced::Refused("it is in no folder".to_owned());
    let folder = target.parent().ok_or_else(in_no_folder)?;
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    let beside = folder.join(format!(".{name}.{}.fix", std::process::id()));
    let written = write_new(&beside, after, data.permissions());
    let placed = written.map_err(NotReplaced::from).and_then(|()| {
        if std::fs::read(&target)? != before.as_bytes() {
            return Err(NotReplaced::Changed);
        }
        Ok(std::fs::rename(&beside, &target)?)
    });
    if placed.is_err() {
        // The error itself is told.
        let _ = std::fs::remove_file(&beside);
    }
    placed
}

fn write_new(path: &Path, text: &str, permissions: std::fs::Permissions) -> std::io::Result<()> {
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(text.as_bytes())?;
    file.set_permissions(permissions)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_changed_meanwhile_is_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.yaml");
        std::fs::write(&path, "theirs").expect("written");
        assert_eq!(replace(&path, "old", "new"), Err(NotReplaced::Changed));
        assert_eq!(std::fs::read_to_string(&path).expect("text"), "theirs");
        replace(&path, "theirs", "new").expect("written");
        assert_eq!(std::fs::read_to_string(&path).expect("text"), "new");
        let left = std::fs::read_dir(folder.path()).expect("a folder").count();
        assert_eq!(left, 1, "nothing is left beside it");
    }
}
