//! Errors of the files of a project, by kind. A front end adds the words for its command line.
//!
//! Invariant: a message names no option of a command line.

use std::fmt::Write;
use std::path::PathBuf;

use ensemble_language::diagnostic::Diagnostic;

use crate::owner::ForeignFile;

/// Error in resolving, loading or checking a file of the project.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum ProjectError {
    /// There is no such file, or no ensemble with the name.
    #[error("there is no {} `{given}`", if *is_path { "file" } else { "ensemble" })]
    NotFound {
        /// File or name of the ensemble.
        given: String,
        /// Set if the user named a file.
        is_path: bool,
        /// Similar file or name.
        similar: Option<String>,
        /// Searched places.
        looked: Vec<String>,
    },
    /// The path of an ensemble is a folder.
    #[error("{0} is a folder; name one ensemble")]
    IsFolder(String),
    /// The path is outside of the boundary folder.
    #[error("`{0}` is outside of the served folder")]
    Outside(String),
    /// The file that an ensemble or a client names is not an ensemble. The text quotes nothing of the file.
    #[error("{0}")]
    NotEnsemble(String),
    /// The file cannot be read.
    #[error("cannot read {}: {reason}", path.display())]
    Unreadable {
        /// Path of the file.
        path: PathBuf,
        /// Reason of the operating system.
        reason: String,
    },
    /// An ensemble, or a file that it uses, has errors.
    #[error("{}", render_diagnostic_lines(.0))]
    Invalid(Vec<Diagnostic>),
    /// The ensemble would use keys or values of the environment, and is not trusted.
    #[error("{} is not trusted, and it would do this:{}", path.display(), lines.iter().map(|line| format!("\n    {line}")).collect::<String>())]
    Untrusted {
        /// Path of the file.
        path: PathBuf,
        /// Uses of the environment, a line for each.
        lines: Vec<String>,
    },
    /// The file or folder belongs to another user.
    #[error("{} belongs to {}, not to you", .0.path.display(), .0.owner)]
    Stranger(ForeignFile),
}

impl ProjectError {
    /// Returns advice for an ensemble that was not found: a similar name, or the searched places.
    pub fn advice(&self) -> Option<String> {
        match self {
            Self::NotFound {
                similar: Some(similar), ..
            } => Some(format!("did you mean `{similar}`?")),
            Self::NotFound { looked, .. } => Some(format!("looked for {}", looked.join(", "))),
            _ => None,
        }
    }
}

/// Renders each diagnostic with its position, code and help on separate lines.
fn render_diagnostic_lines(diagnostics: &[Diagnostic]) -> String {
    let mut text = String::new();
    for (at, diagnostic) in diagnostics.iter().enumerate() {
        let place = diagnostic.source.line_column(diagnostic.span.start);
        let separator = if at == 0 { "" } else { "\n" };
        let _ = write!(
            text,
            "{separator}{}:{}:{}: {}: {}",
            diagnostic.source.name(),
            place.line,
            place.column,
            diagnostic.code.0,
            diagnostic.message
        );
        if let Some(help) = &diagnostic.help {
            let _ = write!(text, "\n  help: {help}");
        }
    }
    text
}
