//! Preparation of an ensemble: reads, loads, checks and compiles a file, and reports all errors at once.
//!
//! Invariant: a `PreparedEnsemble` has no error.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::config::load_trusted_configs;
use crate::error::ProjectError;
use crate::project::{Project, is_yaml};
use ensemble_core::conversation::RunEnded;
use ensemble_language::check::{self, CheckContext};
use ensemble_language::diagnostic::{Diagnostic, Finding, FindingSeverity};
use ensemble_language::ensemble::{Agent, Ensemble};
use ensemble_language::loader::codes::{ALLOWANCE, CONDITION_FAILED};
use ensemble_language::loader::{self, EnsembleLoadResult, FixResolution, codes};
use ensemble_language::plan::Plan;
use ensemble_language::profiles::{ModelOverride, ModelProfiles};
use ensemble_language::source::{Route, SourceText, Span};

/// Maximum number of levels of nested ensembles.
pub const MAX_NESTING_DEPTH: usize = 8;

/// Ensemble that was loaded, checked and compiled, so that it can run.
#[derive(Debug)]
pub struct PreparedEnsemble {
    /// Text of the ensemble.
    pub source: SourceText,
    /// Document, with the positions of all parts.
    pub loaded: EnsembleLoadResult,
    /// Compiled plan.
    pub plan: Arc<Plan>,
    /// Absolute path of the file. A text without a file has a path that does not exist.
    pub file: PathBuf,
    /// Folder of the file.
    pub folder: PathBuf,
    /// Root of the project.
    pub root: PathBuf,
    /// Findings that are no errors.
    pub warnings: Vec<Diagnostic>,
}

/// Returns all findings about a loaded ensemble and about the files in the context. Parses conditions without compiling them.
pub fn check_loaded_ensemble(loaded: &EnsembleLoadResult, around: &dyn CheckContext) -> Vec<Diagnostic> {
    let ensemble = loaded.ensemble.as_ref();
    let findings = ensemble.map(|ensemble| check::check_with_context(ensemble, around));
    locate_and_filter_findings(loaded, findings, around.fixes())
}

/// Converts the findings to diagnostics with positions. Adds the findings about the text, removes allowed ones, and redacts secrets.
fn locate_and_filter_findings(
    loaded: &EnsembleLoadResult,
    findings: Option<Vec<Finding>>,
    fixes: FixResolution,
) -> Vec<Diagnostic> {
    let is_complete = findings.is_some();
    let text = check::TextSecrets::find_in(loaded.source(), loaded.document.as_ref());
    let mut findings = findings.unwrap_or_default();
    findings.extend(text.secret_warnings());
    let mut diagnostics = loaded.list_diagnostics(&findings, fixes);
    if let Some(document) = &loaded.document {
        diagnostics = check::filter_allowed_diagnostics(document, diagnostics, is_complete);
    }
    text.redact_diagnostics(&mut diagnostics);
    diagnostics
}

/// Prepares the ensemble in the file for a run.
///
/// # Errors
/// The file cannot be read, or the ensemble has errors.
pub fn prepare_file(path: &Path, project: &Project) -> Result<PreparedEnsemble, ProjectError> {
    let source = project.read_file(path)?;
    let loaded = loader::load_ensemble(&source);
    prepare_loaded_file(source, loaded, path, project)
}

/// Prepares the ensemble that another ensemble names.
///
/// # Errors
/// See [`prepare_file`]. The error quotes nothing of a file that is no ensemble.
pub fn prepare_nested_file(path: &Path, project: &Project) -> Result<PreparedEnsemble, ProjectError> {
    let source = project.read_file(path)?;
    let loaded = loader::load_ensemble(&source);
    match can_be_quoted(&loaded) {
        true => prepare_loaded_file(source, loaded, path, project),
        false => Err(ProjectError::NotEnsemble(describe_without_quoting(path, &loaded))),
    }
}

/// Prepares a loaded ensemble with the folder and the project root of its file.
fn prepare_loaded_file(
    source: SourceText,
    loaded: EnsembleLoadResult,
    path: &Path,
    project: &Project,
) -> Result<PreparedEnsemble, ProjectError> {
    let folder = ensemble_folder(path, project);
    let root = project.project_root(&folder);
    let absolute = project.folder.join(path);
    check_and_compile(
        source,
        loaded,
        absolute.canonicalize().unwrap_or(absolute),
        folder,
        root,
    )
}

/// Returns whether messages may quote the file that an ensemble names, because the file is an ensemble. Other files, such as a list of
/// passwords, are never quoted.
pub fn can_be_quoted(loaded: &EnsembleLoadResult) -> bool {
    loaded.document.is_some() && loaded.looks_like_ensemble()
}

/// Returns whether messages may quote the file that a client named, because it is an ensemble, or a YAML file that is meant as an
/// ensemble and has syntax errors.
pub fn can_be_quoted_to_client(path: &Path, loaded: &EnsembleLoadResult) -> bool {
    can_be_quoted(loaded) || (is_yaml(path) && loaded.looks_like_ensemble())
}

/// Describes a file that is no ensemble or no valid YAML, without quoting the file, which can be any file of the machine.
pub fn describe_without_quoting(path: &Path, loaded: &EnsembleLoadResult) -> String {
    let path = path.display();
    let mut errors = loaded.diagnostics().into_iter();
    let first = errors.find(|one| one.severity == FindingSeverity::Error);
    match first.filter(|_| loaded.document.is_none() && loaded.looks_like_ensemble()) {
        Some(first) => {
            let place = first.source.line_column(first.span.start);
            let title = codes::ALL.iter().find(|(code, _)| *code == first.code);
            let title = title.map_or("", |(_, title)| title.trim_end_matches('.'));
            format!(
                "{path}:{}:{}: error[{}]: {title}",
                place.line, place.column, first.code.0
            )
        }
        None => format!("`{path}` is not an ensemble"),
    }
}

/// Prepares a text as if it were the text of `file` in `folder`.
pub fn prepare_text(
    source: SourceText,
    file: PathBuf,
    folder: PathBuf,
    root: PathBuf,
) -> Result<PreparedEnsemble, ProjectError> {
    let loaded = loader::load_ensemble(&source);
    check_and_compile(source, loaded, file, folder, root)
}

/// Checks and compiles a loaded ensemble.
///
/// # Errors
/// The ensemble has errors.
fn check_and_compile(
    source: SourceText,
    mut loaded: EnsembleLoadResult,
    file: PathBuf,
    folder: PathBuf,
    root: PathBuf,
) -> Result<PreparedEnsemble, ProjectError> {
    let ensemble = loaded.ensemble.take().map(Arc::new);
    let mut findings = ensemble.as_deref().map(check::check_ensemble);
    let is_sound = |findings: &[Finding]| {
        findings
            .iter()
            .all(|finding| finding.severity != FindingSeverity::Error)
    };
    let mut plan = None;
    if let (Some(ensemble), Some(ensemble_findings)) = (ensemble, &mut findings)
        && is_sound(ensemble_findings)
    {
        match Plan::build(ensemble) {
            Ok(built) => plan = Some(Arc::new(built)),
            Err(errors) => ensemble_findings.extend(errors),
        }
    }
    let (errors, warnings): (Vec<Diagnostic>, Vec<Diagnostic>) =
        locate_and_filter_findings(&loaded, findings, FixResolution::Resolved)
            .into_iter()
            .partition(|diagnostic| diagnostic.severity == FindingSeverity::Error);
    // A run does not look for profiles and files beforehand, so it cannot judge what allows their absence.
    let warnings = warnings
        .into_iter()
        .filter(|warning| warning.code != ALLOWANCE)
        .collect();
    match plan {
        Some(plan) if errors.is_empty() => Ok(PreparedEnsemble {
            source,
            loaded,
            plan,
            file,
            folder,
            root,
            warnings,
        }),
        _ => Err(ProjectError::Invalid(errors)),
    }
}

/// Returns the absolute folder that contains the file.
pub fn ensemble_folder(path: &Path, project: &Project) -> PathBuf {
    let absolute = project.folder.join(path);
    let absolute = absolute.canonicalize().unwrap_or(absolute);
    absolute.parent().unwrap_or(&project.folder).to_owned()
}

/// Collects all profiles that an ensemble in `folder` can use, in the order of their precedence. Reports untrusted configurations.
pub fn collect_profiles(
    ensemble: &Ensemble,
    folder: &Path,
    overrides: Vec<ModelOverride>,
    project: &Project,
) -> Result<ModelProfiles, ProjectError> {
    let mut profiles = ModelProfiles::new(overrides).with_source("the ensemble file", ensemble.model_profiles.clone());
    for config in load_trusted_configs(folder, project)? {
        profiles = config.add_to_profiles(profiles, project);
    }
    Ok(profiles)
}

impl PreparedEnsemble {
    /// Returns the ensemble with another plan, which was built from the same ensemble.
    #[must_use]
    pub fn with_plan(&self, plan: Arc<Plan>) -> Self {
        Self {
            source: self.source.clone(),
            loaded: self.loaded.clone(),
            plan,
            file: self.file.clone(),
            folder: self.folder.clone(),
            root: self.root.clone(),
            warnings: self.warnings.clone(),
        }
    }

    /// Returns the diagnostic for the condition or expression that ended the run, with its position in the file and the values it read.
    /// Returns `None` if the run ended otherwise.
    pub fn condition_diagnostic(&self, ended: &RunEnded) -> Option<Diagnostic> {
        let failure = ended.condition.as_ref()?;
        let (what, route) = match &failure.result {
            Some(key) => (
                "expression cannot be evaluated",
                Route::root().with_key("result").with_key(key.clone()),
            ),
            None if failure.success => ("expression cannot be evaluated", Route::root().with_key("success")),
            None => {
                let at = self.plan.find_agent_id(&failure.agent)?.index();
                let dependency = self.plan.ensemble().agents[at].dependencies.get(failure.position)?;
                (
                    "condition cannot be evaluated",
                    dependency.route_in(&Agent::route_at(at)).with_key("condition"),
                )
            }
        };
        let message = format!("the {what}: {}", failure.message);
        let mut finding = Finding::new_error(
            CONDITION_FAILED,
            route.into_text_location(Span::new(failure.start, failure.end)),
            message,
        );
        let values: Vec<String> = failure
            .values
            .iter()
            .map(|read| format!("{} = {}", read.expression, read.value))
            .collect();
        let reads = (!values.is_empty()).then(|| format!("it read {}", values.join(", ")));
        let help: Vec<String> = failure.help.clone().into_iter().chain(reads).collect();
        finding.help = (!help.is_empty()).then(|| help.join("; "));
        loader::locate_findings(&self.source, self.loaded.document.as_ref(), &[finding]).pop()
    }
}
