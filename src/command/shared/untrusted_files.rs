//! What a command says of files that it has left alone.

use std::path::Path;

use ensemble_core::operator::visible;
use ensemble_project::LeftAlone;

/// Renders the message about a file that the command ignored.
pub(crate) fn note(left_alone: &LeftAlone) -> String {
    match left_alone {
        LeftAlone::Parts { path, lines } => {
            let lines: String = lines.iter().map(|line| format!("    {line}\n")).collect();
            format!(
                "note: {} is not trusted, so profiles in it that do this are left alone:\n{lines}  \
                 help: `ensemble trust {}` shows this and asks for trust; `--trust` trusts all files for one command\n",
                shown(path),
                shown(path)
            )
        }
        LeftAlone::Stranger(stranger) => format!(
            "note: {} belongs to {}, not to you, and is left alone\n  \
             help: make it yours with `chown`, or use it as it is with `--trust`\n",
            shown(&stranger.path),
            visible(&stranger.owner)
        ),
    }
}

/// The path, without characters that a terminal obeys.
pub(crate) fn shown(path: &Path) -> String {
    visible(&path.display().to_string())
}
