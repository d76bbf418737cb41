//! Messages about files of a project that the program ignored.

use std::path::Path;

use ensemble_core::operator::escape_hidden;
use ensemble_project::IgnoredContent;

/// Renders the note about an untrusted file, or a file of another owner, that the command ignored.
pub(crate) fn render_ignored_file_note(left_alone: &IgnoredContent) -> String {
    match left_alone {
        IgnoredContent::IgnoredParts { path, lines } => {
            let lines: String = lines.iter().map(|line| format!("    {line}\n")).collect();
            format!(
                "note: {} is not trusted, so its profiles that do the following are ignored:\n{lines}  \
                 help: `ensemble trust {}` shows this and asks for trust; `--trust` trusts all files for one command\n",
                escape_path(path),
                escape_path(path)
            )
        }
        IgnoredContent::ForeignFile(stranger) => format!(
            "note: {} belongs to {}, not to you, and is ignored\n  \
             help: take the ownership with `chown`, or use the file as it is with `--trust`\n",
            escape_path(&stranger.path),
            escape_hidden(&stranger.owner)
        ),
    }
}

/// Returns the path as text, with its control characters escaped.
pub(crate) fn escape_path(path: &Path) -> String {
    escape_hidden(&path.display().to_string())
}
