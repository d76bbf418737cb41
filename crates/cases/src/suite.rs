//! A test file with its ensemble and its recorded runs, and what is wrong with them.
//!
//! Invariant: a case is tried only if its file has no error.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ensemble_language::cases::{TestFile, case_route, ensemble_beside};
use ensemble_language::diagnostic::{Diagnostic, Finding, Severity};
use ensemble_language::loader::codes::{NO_ENSEMBLE_TO_TEST, NO_RECORD};
use ensemble_language::loader::{self, LoadedCases};
use ensemble_language::source::{At, Route, Source, Span};
use ensemble_project::prepare::{Prepared, folder_of, prepare};
use ensemble_project::{Project, ProjectError};
use ensemble_runs::Runs;

use crate::check::check;
use crate::recorded::{Recorded, load};

/// A test file.
pub struct Suite {
    loaded: LoadedCases,
    /// The ensemble, if it can run.
    ensemble: Option<Arc<Prepared>>,
    /// For each case, its recorded run.
    recorded: Vec<Option<Arc<Recorded>>>,
    /// All findings, in the order of the text.
    pub findings: Vec<Diagnostic>,
}

/// A test file without errors.
#[derive(Clone, Copy)]
pub struct Sound<'s> {
    /// The cases.
    pub file: &'s TestFile,
    /// The ensemble.
    pub ensemble: &'s Arc<Prepared>,
    /// For each case, its recorded run.
    pub recorded: &'s [Option<Arc<Recorded>>],
}

impl Suite {
    /// Reads a test file that stands at `path`.
    pub fn read(source: &Source, path: &Path, runs: &Runs) -> Self {
        let loaded = loader::cases(source);
        let mut suite = Self {
            ensemble: None,
            recorded: Vec::new(),
            findings: Vec::new(),
            loaded,
        };
        let mut findings = Vec::new();
        if let Some(file) = &suite.loaded.file {
            match ensemble(file, path, runs.project()) {
                Ok(ensemble) => {
                    findings = check(file, ensemble.plan.ensemble());
                    suite.ensemble = Some(Arc::new(ensemble));
                }
                Err(finding) => findings.push(*finding),
            }
            suite.recorded = records(file, &folder_of(path, runs.project()), runs, &mut findings);
        }
        suite.findings = suite.loaded.diagnostics_with(&findings);
        suite
    }

    /// The text.
    pub fn source(&self) -> &Source {
        self.loaded.source()
    }

    /// The file, if it has no errors.
    pub fn sound(&self) -> Option<Sound<'_>> {
        let is_sound = self.findings.iter().all(|finding| finding.severity != Severity::Error);
        Some(Sound {
            file: self.loaded.file.as_ref().filter(|_| is_sound)?,
            ensemble: self.ensemble.as_ref()?,
            recorded: &self.recorded,
        })
    }

    /// The text as it was loaded.
    pub fn loaded(&self) -> &LoadedCases {
        &self.loaded
    }

    /// The bytes of a place.
    pub fn span(&self, at: &At) -> Span {
        let document = self.loaded.document.as_ref();
        document.map_or_else(Span::default, |document| document.resolve(at))
    }
}

/// The ensemble that the file tests.
fn ensemble(file: &TestFile, path: &Path, project: &Project) -> Result<Prepared, Box<Finding>> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let beside = || ensemble_beside(name).unwrap_or_default();
    let named = file.ensemble.as_deref().map_or_else(beside, str::to_owned);
    let place = || Route::root().key("ensemble").value();
    let ensemble: PathBuf = path.parent().unwrap_or(Path::new("")).join(&named);
    let absolute = project.folder.join(&ensemble);
    // Nobody waits for a pipe.
    let prepared = match absolute.exists() && !absolute.is_file() {
        true => Err(ProjectError::Unreadable {
            path: ensemble.clone(),
            reason: "it is not a regular file".to_owned(),
        }),
        false => prepare(&ensemble, project),
    };
    prepared.map_err(|error| {
        let shown = ensemble.display();
        Box::new(match error {
            ProjectError::Invalid(errors) => {
                let first = errors.first().map_or("", |error| error.message.as_str());
                let message = format!("{named} has errors, the first: {first}");
                Finding::error(NO_ENSEMBLE_TO_TEST, place(), message)
                    .help(format!("`ensemble validate {shown}` shows them"))
            }
            other => Finding::error(NO_ENSEMBLE_TO_TEST, place(), other.to_string())
                .help("`ensemble` names the file of the ensemble, relative to the test file"),
        })
    })
}

/// The recorded runs of the cases.
fn records(file: &TestFile, folder: &Path, runs: &Runs, findings: &mut Vec<Finding>) -> Vec<Option<Arc<Recorded>>> {
    let mut recorded = Vec::new();
    for (at, case) in file.cases.iter().enumerate() {
        let Some(from) = &case.from else {
            recorded.push(None);
            continue;
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let loaded = match runtime {
            Ok(runtime) => runtime.block_on(load(runs, folder, from)),
            Err(error) => Err(error.to_string()),
        };
        if let Err(why) = &loaded {
            let message = format!("the recorded run `{from}` cannot be used: {why}");
            let finding = Finding::error(NO_RECORD, case_route(at).key("from").value(), message);
            findings.push(finding.help("`ensemble explain E083` says which runs can be used"));
        }
        recorded.push(loaded.ok().map(Arc::new));
    }
    recorded
}
