//! The findings about a text: those of `ensemble validate`.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ensemble_language::cases::is_test_file;
use ensemble_language::diagnostic::{Code, Diagnostic, Severity};
use ensemble_language::fix::CheckedText;
use ensemble_language::loader::{self, Level, Loaded, Settings};
use ensemble_language::source::{Source, Span};
use ensemble_project::check::Folder;
use ensemble_project::config::config_files;
use ensemble_project::error::ProjectError;
use ensemble_project::prepare::{examine, folder_of};
use ensemble_project::project::Project;

/// The checks of files that are not ensembles. Whoever starts the server has them.
pub trait Checks: Send + Sync + fmt::Debug {
    /// The findings about the text of a test file.
    fn of_tests(&self, source: &Source, path: &Path, project: &Project) -> Vec<Diagnostic>;

    /// The findings about the text of a configuration.
    fn of_configuration(&self, source: &Source, path: &Path, project: &Project) -> Vec<Diagnostic>;
}

/// The purpose of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An ensemble, or any other file.
    Ensemble,
    /// The configuration of a project or of the user.
    Configuration,
    /// A test file.
    Tests,
}

impl Kind {
    /// The kind of the file at this path.
    pub fn of(path: &Path, project: &Project) -> Self {
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

/// A folder with texts in it: the files around them, and what the configuration of the project says of findings.
pub struct Place<'s> {
    folder: Folder<'s>,
    project: &'s Project,
    checks: &'s dyn Checks,
    /// The configurations, absolute.
    configurations: Vec<PathBuf>,
    settings: Settings,
}

impl<'s> Place<'s> {
    /// The folder in which the file stands or will.
    pub fn around(file: &Path, project: &'s Project, checks: &'s dyn Checks) -> Self {
        let files = config_files(&folder_of(file, project), project);
        let read = |path: &PathBuf| project.read(&project.relative(path)).ok();
        let settings = files.project.as_ref().and_then(read);
        let settings = settings.map_or_else(Settings::default, |source| loader::configuration(&source).settings);
        Self {
            folder: Folder::around(file, project).in_ci(settings.ci.unwrap_or(false)),
            project,
            checks,
            configurations: files.project.into_iter().chain(files.user).collect(),
            settings,
        }
    }

    /// The files around.
    pub fn folder(&self) -> &Folder<'s> {
        &self.folder
    }

    /// The findings about a text that stands in this file or will; `None` if `is_wanted` says that nobody needs the answer
    /// any more.
    ///
    /// A file that is not an ensemble has no findings, unless it is a configuration or a test file.
    pub fn check(&self, path: &Path, text: &Arc<str>, is_wanted: &dyn Fn() -> bool) -> Option<Vec<Diagnostic>> {
        let source = Source::new(self.shown(path), text.clone());
        if Kind::of(path, self.project) != Kind::Ensemble {
            return Some(self.check_other(path, &source));
        }
        let loaded = loader::load(&source);
        let is_ensemble = loaded.is_ensemble();
        if is_ensemble && !is_wanted() {
            return None;
        }
        Some(self.check_loaded(&loaded))
    }

    /// Checks a text for `fix_text`.
    pub(super) fn check_for_fixes(&self, path: &Path, source: &Source) -> CheckedText {
        if Kind::of(path, self.project) != Kind::Ensemble {
            return CheckedText {
                is_yaml: loader::outline(source).is_ok(),
                is_whole: true,
                findings: self.check_other(path, source),
            };
        }
        let loaded = loader::load(source);
        CheckedText {
            is_yaml: loaded.document.is_some(),
            is_whole: loaded.ensemble.is_some(),
            findings: self.check_loaded(&loaded),
        }
    }

    /// Returns the path as the project shows it.
    pub(super) fn shown(&self, path: &Path) -> String {
        self.project.relative(path).display().to_string()
    }

    fn check_other(&self, path: &Path, source: &Source) -> Vec<Diagnostic> {
        let shown = self.project.relative(path);
        self.settled(match Kind::of(path, self.project) {
            Kind::Configuration => self.checks.of_configuration(source, &shown, self.project),
            Kind::Tests | Kind::Ensemble => self.checks.of_tests(source, &shown, self.project),
        })
    }

    fn check_loaded(&self, loaded: &Loaded) -> Vec<Diagnostic> {
        match loaded.is_ensemble() {
            true => self.settled(examine(loaded, &self.folder)),
            false => Vec::new(),
        }
    }

    /// Takes the findings in the configurations around; they are returned once.
    pub fn take_faults(&mut self) -> Vec<Diagnostic> {
        let mut faults: Vec<Diagnostic> = self.folder.take_fault().and_then(unreadable).into_iter().collect();
        for path in &self.configurations {
            let shown = self.project.relative(path);
            if let Ok(source) = self.project.read(&shown) {
                let found = self.checks.of_configuration(&source, &shown, self.project);
                faults.extend(self.settled(found));
            }
        }
        faults
    }

    /// Findings with the levels that the configuration gives them.
    fn settled(&self, mut findings: Vec<Diagnostic>) -> Vec<Diagnostic> {
        let level = |code: Code| {
            let mut levels = self.settings.levels.iter();
            levels.find(|(known, _)| *known == code).map(|(_, level)| *level)
        };
        findings.retain(|finding| level(finding.code) != Some(Level::Off));
        for finding in &mut findings {
            if let Some(Level::As(severity)) = level(finding.code) {
                finding.severity = severity;
            }
        }
        findings
    }
}

/// The finding that a configuration cannot be read. What is wrong inside of it is found in its text.
fn unreadable(error: ProjectError) -> Option<Diagnostic> {
    let ProjectError::Unreadable { path, reason } = error else {
        return None;
    };
    Some(Diagnostic {
        severity: Severity::Error,
        code: Code::NONE,
        message: format!("the file cannot be read: {reason}"),
        source: Source::new(path.display().to_string(), ""),
        span: Span::default(),
        related: Vec::new(),
        help: None,
        fix: None,
    })
}
