//! `validate --fix` and `--diff`: applies the fixes of findings to files.
//!
//! A file is replaced as a whole: the new text is written beside it and takes its place at once, so that an interruption
//! leaves either text. A link stays a link, and the permissions stay. A file that was changed since it was read is left
//! alone.

use std::io::Write;
use std::path::Path;

use super::args::{ValidateArgs, ValidateFormat};
use super::error::CliError;
use ensemble_language::source::Source;
use ensemble_reports::report::unified;
use ensemble_runs::RunError;

/// What to do with fixes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fixing {
    /// Only report them.
    Report,
    /// Write them.
    Write { with_unsafe: bool },
    /// Show what would be written.
    Show { with_unsafe: bool },
}

impl Fixing {
    /// What the arguments ask for.
    pub(super) fn of(args: &ValidateArgs) -> Result<Self, CliError> {
        let with_unsafe = args.unsafe_fixes;
        let is_stdin = args.paths.iter().any(|path| path == "-");
        if args.fix && is_stdin && (args.paths.len() > 1 || args.output.unwrap_or_default() != ValidateFormat::Human) {
            return Err(CliError::usage_with_help(
                "with `--fix`, `-` must be the only input, and the format must be `human`",
                "the fixed text is printed to standard output",
            ));
        }
        match (args.fix, args.diff) {
            (true, _) => Ok(Self::Write { with_unsafe }),
            (_, true) => Ok(Self::Show { with_unsafe }),
            _ if with_unsafe => Err(CliError::usage_with_help(
                "`--unsafe-fixes` does nothing by itself",
                "add `--fix` to apply all fixes, or `--diff` to see them",
            )),
            _ => Ok(Self::Report),
        }
    }

    /// Whether unsafe fixes are applied; `None` if no fixes are.
    pub(super) fn with_unsafe(self) -> Option<bool> {
        match self {
            Self::Report => None,
            Self::Write { with_unsafe } | Self::Show { with_unsafe } => Some(with_unsafe),
        }
    }

    /// Whether only the differences are shown.
    pub(super) fn is_shown(self) -> bool {
        matches!(self, Self::Show { .. })
    }
}

/// The difference of two texts of a file.
pub(super) fn difference(before: &Source, after: &Source) -> String {
    unified(before.name(), before.text(), after.text())
}

/// Replaces the text of a file at once.
///
/// # Errors
/// The file cannot be written, or was changed since it was read.
pub(super) fn replace(path: &Path, before: &str, after: &str) -> Result<(), CliError> {
    replaced(path, before, after).map_err(|reason| {
        CliError::usage_with_help(
            format!("cannot write {}: {reason}", path.display()),
            "the file is as it was",
        )
    })
}

#[expect(clippy::disallowed_methods, reason = "the files of the user are written here")]
fn replaced(path: &Path, before: &str, after: &str) -> Result<(), String> {
    let said = |error: std::io::Error| error.to_string();
    let target = path.canonicalize().map_err(said)?;
    let data = std::fs::metadata(&target).map_err(said)?;
    if data.permissions().readonly() {
        return Err("it is read-only".to_owned());
    }
    let folder = target.parent().ok_or("it is in no folder")?;
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    let beside = folder.join(format!(".{name}.{}.fix", std::process::id()));
    let written = write_new(&beside, after, data.permissions()).map_err(said);
    let placed = written.and_then(|()| {
        if std::fs::read(&target).map_err(said)? != before.as_bytes() {
            return Err("it was changed while it was checked".to_owned());
        }
        std::fs::rename(&beside, &target).map_err(said)
    });
    if placed.is_err() {
        // The error itself is told.
        let _ = std::fs::remove_file(&beside);
    }
    placed
}

#[expect(clippy::disallowed_methods, reason = "the files of the user are written here")]
fn write_new(path: &Path, text: &str, permissions: std::fs::Permissions) -> std::io::Result<()> {
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(text.as_bytes())?;
    file.set_permissions(permissions)?;
    file.sync_all()
}

/// The reason why a file cannot be read.
pub(super) fn unreadable(error: &CliError) -> Option<(String, String)> {
    match error {
        CliError::Run(RunError::Unreadable { path, reason }) => Some((path.display().to_string(), reason.clone())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_changed_meanwhile_is_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.yaml");
        std::fs::write(&path, "theirs").expect("written");
        let error = replace(&path, "old", "new").expect_err("changed").to_string();
        assert!(error.contains("it was changed while it was checked"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).expect("text"), "theirs");
        replace(&path, "theirs", "new").expect("written");
        assert_eq!(std::fs::read_to_string(&path).expect("text"), "new");
        assert_eq!(
            std::fs::read_dir(folder.path()).expect("a folder").count(),
            1,
            "nothing is left beside it"
        );
    }
}
