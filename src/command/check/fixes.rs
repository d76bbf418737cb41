//! `ensemble validate --fix` and `--diff`: apply the fixes of findings to files.
//!
//! A file is replaced as a whole. A file that was changed since it was read stays unchanged.

use std::path::Path;

use crate::command::check::{ValidateArgs, ValidateFormat};
use crate::command::shared::error::CliError;
use ensemble_diff::render_unified_diff;
use ensemble_language::source::SourceText;
use ensemble_project::ProjectError;
use ensemble_project::atomic_write;
use ensemble_runs::RunError;

/// Choice to apply fixes, to show them, or neither.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FixMode {
    /// Only report fixes.
    Report,
    /// Write the fixed text to the files.
    Write { with_unsafe: bool },
    /// Show the differences that would be written.
    Show { with_unsafe: bool },
}

impl FixMode {
    /// Chooses the mode from the arguments.
    ///
    /// # Errors
    /// The arguments contradict each other.
    pub(crate) fn from_args(args: &ValidateArgs) -> Result<Self, CliError> {
        let with_unsafe = args.unsafe_fixes;
        let is_stdin = args.paths.iter().any(|path| path == "-");
        if args.fix && is_stdin && (args.paths.len() > 1 || args.output.unwrap_or_default() != ValidateFormat::Human) {
            return Err(CliError::usage_error_with_help(
                "with `--fix`, `-` must be the only input, and the format must be `human`",
                "the fixed text is printed to standard output",
            ));
        }
        match (args.fix, args.diff) {
            (true, _) => Ok(Self::Write { with_unsafe }),
            (_, true) => Ok(Self::Show { with_unsafe }),
            _ if with_unsafe => Err(CliError::usage_error_with_help(
                "`--unsafe-fixes` needs `--fix` or `--diff`",
                "add `--fix` to apply all fixes, or `--diff` to see them",
            )),
            _ => Ok(Self::Report),
        }
    }

    /// Returns whether unsafe fixes are applied. Returns `None` if no fixes are applied.
    pub(crate) fn applies_unsafe_fixes(self) -> Option<bool> {
        match self {
            Self::Report => None,
            Self::Write { with_unsafe } | Self::Show { with_unsafe } => Some(with_unsafe),
        }
    }

    /// Returns whether the command only shows the differences.
    pub(crate) fn is_diff_only(self) -> bool {
        matches!(self, Self::Show { .. })
    }
}

/// Renders the unified difference of two versions of a file.
pub(crate) fn render_difference(before: &SourceText, after: &SourceText) -> String {
    render_unified_diff(before.name(), before.text(), after.text())
}

/// Replaces the text of a file as a whole.
///
/// # Errors
/// The file cannot be written, or was changed since it was read.
pub(crate) fn replace_unchanged_file(path: &Path, before: &str, after: &str) -> Result<(), CliError> {
    atomic_write::replace_file_if_unchanged(path, before, after).map_err(|reason| {
        CliError::usage_error_with_help(
            format!("cannot write {}: {reason}", path.display()),
            "the file was not changed",
        )
    })
}

/// Returns the path and the reason of an error in reading a file. Returns `None` for other errors.
pub(crate) fn split_unreadable_error(error: &CliError) -> Option<(String, String)> {
    match error {
        CliError::Run(RunError::Project(ProjectError::Unreadable { path, reason })) => {
            Some((path.display().to_string(), reason.clone()))
        }
        _ => None,
    }
}
