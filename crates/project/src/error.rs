//! Errors of the files of a project, by kind. The words for a command line are the front end's.
//!
//! Invariant: it names no option of a command line.

use std::fmt::Write;
use std::path::PathBuf;

use ensemble_language::diagnostic::Diagnostic;

use crate::owner::ForeignFile;

/// An error of the files of a project.
#[derive(Debug, thiserror::Error)]
pub enum ProjectError {
    /// No file, or no ensemble of that name, is there.
    #[error("there is no {} `{given}`", if *is_path { "file" } else { "ensemble" })]
    NotFound {
        /// The file or the name.
        given: String,
        /// Was a file given?
        is_path: bool,
        /// A file or a name that is spelled alike.
        similar: Option<String>,
        /// Where it was looked for.
        looked: Vec<String>,
    },
    /// A folder was given in the place of one ensemble.
    #[error("{0} is a folder; name one ensemble")]
    IsFolder(String),
    /// A path leads out of the folder at which paths end.
    #[error("`{0}` is outside of the served folder")]
    Outside(String),
    /// A file that an ensemble or a client names is not an ensemble; the text quotes nothing of it.
    #[error("{0}")]
    NotEnsemble(String),
    /// A file cannot be read.
    #[error("cannot read {}: {reason}", path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// An ensemble, or a file beside it, has errors.
    #[error("{}", render_diagnostic_lines(.0))]
    Invalid(Vec<Diagnostic>),
    /// An ensemble that is not trusted would use keys or values of the environment.
    #[error("{} is not trusted, and it would do this:{}", path.display(), lines.iter().map(|line| format!("\n    {line}")).collect::<String>())]
    Untrusted {
        /// The file.
        path: PathBuf,
        /// What it would do, a line for each thing.
        lines: Vec<String>,
    },
    /// A file or a folder belongs to somebody else.
    #[error("{} belongs to {}, not to you", .0.path.display(), .0.owner)]
    Stranger(ForeignFile),
}

impl ProjectError {
    /// Returns advice for an ensemble that was not found: the word that was probably meant, or the searched folders.
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

/// Each error with its place, code and help, on lines of its own.
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
