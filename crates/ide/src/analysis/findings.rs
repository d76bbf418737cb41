//! The findings about a text: those of `ensemble validate`.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ensemble_language::cases::is_test_file;
use ensemble_language::diagnostic::{Diagnostic, FindingCode, FindingSeverity};
use ensemble_language::fix::TextFindings;
use ensemble_language::loader::{self, EnsembleLoadResult, FindingLevel, ValidateSettings};
use ensemble_language::source::{SourceText, Span};
use ensemble_project::check::EnsembleFolder;
use ensemble_project::config::find_config_files;
use ensemble_project::error::ProjectError;
use ensemble_project::prepare::{check_loaded_ensemble, ensemble_folder};
use ensemble_project::project::Project;

/// The checks of files that are not ensembles, which the caller provides.
pub trait ProjectFileChecks: Send + Sync + fmt::Debug {
    /// Returns the findings about the text of a test file.
    fn check_test_file(&self, source: &SourceText, path: &Path, project: &Project) -> Vec<Diagnostic>;

    /// Returns the findings about the text of a configuration.
    fn check_configuration(&self, source: &SourceText, path: &Path, project: &Project) -> Vec<Diagnostic>;
}

/// The purpose of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EditedFileKind {
    /// An ensemble, or any other file.
    Ensemble,
    /// The configuration of a project or of the user.
    Configuration,
    /// A test file.
    Tests,
}

impl EditedFileKind {
    /// Returns the kind of the file at this path.
    pub fn for_path(path: &Path, project: &Project) -> Self {
        let is_project = path.ends_with(".ensemble/config.yaml");
        if is_project || project.user_config.as_deref().is_some_and(|user| user == path) {
            return Self::Configuration;
        }
        match is_test_file(&path.to_string_lossy()) {
            true => Self::Tests,
            false => Self::Ensemble,
        }
    }
}

/// A folder with the files and the configuration that the checks of its texts need.
pub struct FolderChecks<'s> {
    folder: EnsembleFolder<'s>,
    project: &'s Project,
    checks: &'s dyn ProjectFileChecks,
    /// The configurations, absolute.
    configurations: Vec<PathBuf>,
    settings: ValidateSettings,
}

impl<'s> FolderChecks<'s> {
    /// Loads the configuration for the folder of a file, which need not exist.
    pub fn for_file(file: &Path, project: &'s Project, checks: &'s dyn ProjectFileChecks) -> Self {
        let files = find_config_files(&ensemble_folder(file, project), project);
        let read = |path: &PathBuf| project.read_file(&project.relative_path(path)).ok();
        let settings = files.project.as_ref().and_then(read);
        let settings = settings.map_or_else(ValidateSettings::default, |source| {
            loader::load_configuration(&source).settings
        });
        Self {
            folder: EnsembleFolder::for_file(file, project).with_ci(settings.ci.unwrap_or(false)),
            project,
            checks,
            configurations: files.project.into_iter().chain(files.user).collect(),
            settings,
        }
    }

    /// Returns the files around.
    pub fn ensemble_folder(&self) -> &EnsembleFolder<'s> {
        &self.folder
    }

    /// Checks a text as the content of this file, with the configured levels. Returns `None` if `is_wanted` returns false
    /// before the slow checks.
    pub fn check_text_if_wanted(
        &self,
        path: &Path,
        text: &Arc<str>,
        is_wanted: &dyn Fn() -> bool,
    ) -> Option<Vec<Diagnostic>> {
        let source = SourceText::new(self.display_path(path), text.clone());
        if EditedFileKind::for_path(path, self.project) != EditedFileKind::Ensemble {
            return Some(self.check_configuration_or_tests(path, &source));
        }
        let loaded = loader::load_ensemble(&source);
        let is_ensemble = loaded.looks_like_ensemble();
        if is_ensemble && !is_wanted() {
            return None;
        }
        Some(self.check_loaded_ensemble(&loaded))
    }

    /// Checks a text for applying fixes. Also returns whether the text is YAML and complete.
    pub(super) fn check_for_fixes(&self, path: &Path, source: &SourceText) -> TextFindings {
        if EditedFileKind::for_path(path, self.project) != EditedFileKind::Ensemble {
            return TextFindings {
                is_yaml: loader::parse_yaml_partially(source).is_ok(),
                is_whole: true,
                findings: self.check_configuration_or_tests(path, source),
            };
        }
        let loaded = loader::load_ensemble(source);
        TextFindings {
            is_yaml: loaded.document.is_some(),
            is_whole: loaded.ensemble.is_some(),
            findings: self.check_loaded_ensemble(&loaded),
        }
    }

    /// Returns the path relative to the project, for messages.
    pub(super) fn display_path(&self, path: &Path) -> String {
        self.project.relative_path(path).display().to_string()
    }

    /// Checks a configuration or a test file.
    fn check_configuration_or_tests(&self, path: &Path, source: &SourceText) -> Vec<Diagnostic> {
        let shown_path = self.project.relative_path(path);
        self.apply_configured_levels(match EditedFileKind::for_path(path, self.project) {
            EditedFileKind::Configuration => self.checks.check_configuration(source, &shown_path, self.project),
            EditedFileKind::Tests | EditedFileKind::Ensemble => {
                self.checks.check_test_file(source, &shown_path, self.project)
            }
        })
    }

    /// Checks an ensemble. A text that is no ensemble has no findings.
    fn check_loaded_ensemble(&self, loaded: &EnsembleLoadResult) -> Vec<Diagnostic> {
        match loaded.looks_like_ensemble() {
            true => self.apply_configured_levels(check_loaded_ensemble(loaded, &self.folder)),
            false => Vec::new(),
        }
    }

    /// Returns the findings about the configurations of the folder. An unreadable configuration is only reported by the first call.
    pub fn check_folder_configurations(&mut self) -> Vec<Diagnostic> {
        let mut faults: Vec<Diagnostic> = self
            .folder
            .take_config_error()
            .and_then(unreadable_configuration_finding)
            .into_iter()
            .collect();
        for path in &self.configurations {
            let shown_path = self.project.relative_path(path);
            if let Ok(source) = self.project.read_file(&shown_path) {
                let diagnostics = self.checks.check_configuration(&source, &shown_path, self.project);
                faults.extend(self.apply_configured_levels(diagnostics));
            }
        }
        faults
    }

    /// Removes the findings that the configuration turns off, and changes the severity of others.
    fn apply_configured_levels(&self, mut findings: Vec<Diagnostic>) -> Vec<Diagnostic> {
        let level = |code: FindingCode| {
            let mut levels = self.settings.levels.iter();
            levels.find(|(known, _)| *known == code).map(|(_, level)| *level)
        };
        findings.retain(|finding| level(finding.code) != Some(FindingLevel::Off));
        for finding in &mut findings {
            if let Some(FindingLevel::As(severity)) = level(finding.code) {
                finding.severity = severity;
            }
        }
        findings
    }
}

/// Builds the error that a configuration cannot be read. Errors inside a configuration are reported in its text.
fn unreadable_configuration_finding(error: ProjectError) -> Option<Diagnostic> {
    let ProjectError::Unreadable { path, reason } = error else {
        return None;
    };
    Some(Diagnostic {
        severity: FindingSeverity::Error,
        code: FindingCode::NONE,
        message: format!("the file cannot be read: {reason}"),
        source: SourceText::new(path.display().to_string(), ""),
        span: Span::default(),
        related: Vec::new(),
        help: None,
        fix: None,
    })
}
