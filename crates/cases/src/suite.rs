//! A test file with its ensemble and its recorded runs, and what is wrong with them.
//!
//! Invariant: a case is tried only if its file has no error.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ensemble_language::cases::{TestFile, case_route, default_ensemble_name};
use ensemble_language::diagnostic::{Diagnostic, Finding, FindingSeverity};
use ensemble_language::loader::codes::{NO_ENSEMBLE_TO_TEST, NO_RECORD};
use ensemble_language::loader::{self, TestFileLoadResult};
use ensemble_language::source::{Route, RouteLocation, SourceText, Span};
use ensemble_project::prepare::{PreparedEnsemble, ensemble_folder, prepare_nested_file};
use ensemble_project::{Project, ProjectError};
use ensemble_runs::Runs;

use crate::check::check_test_cases;
use crate::recorded_case::{RecordedCaseRun, load_recorded_run};

/// Test file with its ensemble, recorded runs and findings.
pub struct TestSuite {
    loaded: TestFileLoadResult,
    /// The ensemble, if it can run.
    ensemble: Option<Arc<PreparedEnsemble>>,
    /// Whether the ensemble has errors, as every case expects.
    is_refused: bool,
    /// For each case, its recorded run.
    recorded: Vec<Option<Arc<RecordedCaseRun>>>,
    /// All findings, in the order of the text.
    pub findings: Vec<Diagnostic>,
}

/// Test file without errors, with its ensemble and recorded runs.
#[derive(Clone, Copy)]
pub struct CheckedSuite<'s> {
    /// The cases.
    pub file: &'s TestFile,
    /// The ensemble.
    pub ensemble: &'s Arc<PreparedEnsemble>,
    /// For each case, its recorded run.
    pub recorded: &'s [Option<Arc<RecordedCaseRun>>],
}

impl TestSuite {
    /// Loads the test file at `path` with its ensemble and recorded runs, and collects the findings.
    pub fn load_and_check(source: &SourceText, path: &Path, runs: &Runs) -> Self {
        let loaded = loader::load_test_file(source);
        let mut suite = Self {
            ensemble: None,
            is_refused: false,
            recorded: Vec::new(),
            findings: Vec::new(),
            loaded,
        };
        let mut findings = Vec::new();
        if let Some(file) = &suite.loaded.file {
            match prepare_tested_ensemble(file, path, runs.project()) {
                Ok(ensemble) => {
                    findings = check_test_cases(file, ensemble.plan.ensemble());
                    suite.ensemble = Some(Arc::new(ensemble));
                }
                Err(error) if error.has_errors && file.cases.iter().all(|case| case.expect.expects_refusal()) => {
                    suite.is_refused = true;
                }
                Err(error) => findings.push(error.finding),
            }
            suite.recorded = load_recorded_runs(file, &ensemble_folder(path, runs.project()), runs, &mut findings);
        }
        suite.findings = suite.loaded.diagnostics_with(&findings);
        suite
    }

    /// Returns the text.
    pub fn source(&self) -> &SourceText {
        self.loaded.source()
    }

    /// Returns the cases and the ensemble. Returns `None` if a finding is an error.
    pub fn checked_suite(&self) -> Option<CheckedSuite<'_>> {
        let is_sound = self
            .findings
            .iter()
            .all(|finding| finding.severity != FindingSeverity::Error);
        Some(CheckedSuite {
            file: self.loaded.file.as_ref().filter(|_| is_sound)?,
            ensemble: self.ensemble.as_ref()?,
            recorded: &self.recorded,
        })
    }

    /// Returns the cases if the ensemble is refused and all cases expect the refusal. Returns `None` if the file has other errors.
    pub fn cases_of_refused_ensemble(&self) -> Option<&TestFile> {
        let file = self.loaded.file.as_ref().filter(|_| self.is_refused)?;
        let mut findings = self.findings.iter();
        findings
            .all(|finding| finding.severity != FindingSeverity::Error)
            .then_some(file)
    }

    /// Returns the result of loading the test file.
    pub fn load_result(&self) -> &TestFileLoadResult {
        &self.loaded
    }

    /// Returns the byte range of a location in the text.
    pub fn resolve_location(&self, at: &RouteLocation) -> Span {
        let document = self.loaded.document.as_ref();
        document.map_or_else(Span::default, |document| document.resolve_span(at))
    }
}

/// Error about an ensemble that cannot be tested.
struct UntestableEnsemble {
    finding: Finding,
    /// Whether the file of the ensemble has errors, so that a run refuses the ensemble.
    has_errors: bool,
}

/// Prepares the ensemble that the file tests: the named file, or the file with the matching name.
fn prepare_tested_ensemble(
    file: &TestFile,
    path: &Path,
    project: &Project,
) -> Result<PreparedEnsemble, Box<UntestableEnsemble>> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let beside = || default_ensemble_name(name).unwrap_or_default();
    let ensemble_name = file.ensemble.as_deref().map_or_else(beside, str::to_owned);
    let place = || Route::root().with_key("ensemble").into_value_location();
    let ensemble: PathBuf = path.parent().unwrap_or(Path::new("")).join(&ensemble_name);
    prepare_nested_file(&ensemble, project).map_err(|error| {
        let ensemble_path = ensemble.display();
        let has_errors = matches!(error, ProjectError::Invalid(_) | ProjectError::NotEnsemble(_));
        let finding = match error {
            ProjectError::Invalid(errors) => {
                let first = errors.first().map_or("", |error| error.message.as_str());
                let message = format!("{ensemble_name} has errors; the first one is: {first}");
                Finding::new_error(NO_ENSEMBLE_TO_TEST, place(), message)
                    .with_help(format!("run `ensemble validate {ensemble_path}` to see all errors"))
            }
            other => Finding::new_error(NO_ENSEMBLE_TO_TEST, place(), other.to_string())
                .with_help("write the path of the ensemble file, relative to the test file, as `ensemble`"),
        };
        Box::new(UntestableEnsemble { finding, has_errors })
    })
}

/// Loads the recorded run of each case with `from`. Adds a finding for each record that cannot be used.
fn load_recorded_runs(
    file: &TestFile,
    folder: &Path,
    runs: &Runs,
    findings: &mut Vec<Finding>,
) -> Vec<Option<Arc<RecordedCaseRun>>> {
    let mut recorded = Vec::new();
    for (at, case) in file.cases.iter().enumerate() {
        let Some(from) = &case.from else {
            recorded.push(None);
            continue;
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let loaded = match runtime {
            Ok(runtime) => runtime.block_on(load_recorded_run(runs, folder, from)),
            Err(error) => Err(error.to_string()),
        };
        if let Err(reason) = &loaded {
            let message = format!("the recorded run `{from}` cannot be used: {reason}");
            let finding = Finding::new_error(
                NO_RECORD,
                case_route(at).with_key("from").into_value_location(),
                message,
            );
            findings.push(finding.with_help("run `ensemble explain E083` to see which runs can be used"));
        }
        recorded.push(loaded.ok().map(Arc::new));
    }
    recorded
}
