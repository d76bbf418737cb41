//! The findings about a text: those of `ensemble validate`.

use std::path::Path;
use std::sync::Arc;

use ensemble_language::diagnostic::{Code, Diagnostic, Severity};
use ensemble_language::loader;
use ensemble_language::source::{Source, Span};
use ensemble_runs::around::Folder;
use ensemble_runs::error::RunError;
use ensemble_runs::prepare::examine;
use ensemble_runs::project::Project;

/// The findings about a text that stands in this file or will; `None` if `is_wanted` says that nobody needs the answer any
/// more.
///
/// A file that is not an ensemble has no findings, unless it is a configuration.
pub fn check(
    path: &Path,
    text: &Arc<str>,
    folder: &Folder<'_>,
    project: &Project,
    is_wanted: &dyn Fn() -> bool,
) -> Option<Vec<Diagnostic>> {
    let source = Source::new(project.relative(path).display().to_string(), text.clone());
    if is_configuration(path, project) {
        return Some(loader::profiles(&source).err().unwrap_or_default());
    }
    let loaded = loader::load(&source);
    if !loaded.is_ensemble() {
        return Some(Vec::new());
    }
    is_wanted().then(|| examine(&loaded, folder))
}

/// Whether the file is the configuration of a project or of the user.
pub fn is_configuration(path: &Path, project: &Project) -> bool {
    let is_project = path.ends_with(".ensemble/config.yaml");
    is_project || project.user_config.as_deref().is_some_and(|user| user == path)
}

/// The findings because of which a configuration cannot be used.
pub fn faults(error: RunError) -> Vec<Diagnostic> {
    match error {
        RunError::Invalid(findings) => findings,
        RunError::Unreadable { path, reason } => vec![Diagnostic {
            severity: Severity::Error,
            code: Code::NONE,
            message: format!("the file cannot be read: {reason}"),
            source: Source::new(path.display().to_string(), ""),
            span: Span::default(),
            related: Vec::new(),
            help: None,
            fix: None,
        }],
        _ => Vec::new(),
    }
}
