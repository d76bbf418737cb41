//! Runs of the cases of one test file.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use super::case::{FinishedCaseRun, explore_for_coverage};
use super::mutations;
use super::suggestions;
use super::updates;
use crate::command::check::test::TestArgs;
use crate::command::check::test::coverage_picture;
use crate::command::shared::error::CliError;
use crate::command::shared::surroundings::CliEnvironment;
use ensemble_cases::coverage::{CaseCoverage, ReachedParts, UnreachedPart};
use ensemble_cases::drive::{CaseDriver, CaseResult};
use ensemble_cases::judge::UnmetExpectation;
use ensemble_cases::suite::{CheckedSuite, TestSuite};
use ensemble_core::operator::{Operator, UnattendedOperator};
use ensemble_explore::Exploration;
use ensemble_language::cases::{TestFile, case_route};
use ensemble_language::diagnostic::Diagnostic;
use ensemble_language::source::{LineColumn, SourceText};
use ensemble_project::PreparedEnsemble;
use ensemble_reports::report::graph::GraphPicture;
use ensemble_reports::report::test_report::{
    EnsembleCoverage, FailedExpectation, ShownCoverageGap, TestedCase, TestedFile,
};

/// Results of one test file, with its findings and its picture.
pub(crate) struct TestFileOutcome {
    pub(crate) file: TestedFile,
    pub(crate) picture: Option<GraphPicture>,
    pub(crate) findings: Vec<Diagnostic>,
}

/// Options that apply to each test file.
#[derive(Clone, Copy)]
pub(crate) struct TestOptions<'t> {
    pub(crate) args: &'t TestArgs,
    pub(crate) surroundings: &'t CliEnvironment,
    /// Time after which no further mutant is tested.
    pub(crate) end: Option<Instant>,
}

/// Runs the cases of a test file, with coverage, updates, suggestions or mutants as the options say. Creates `driver` if needed.
pub(crate) fn run_test_file(
    path: &Path,
    driver: &mut Option<CaseDriver>,
    trying: TestOptions<'_>,
) -> Result<TestFileOutcome, CliError> {
    let TestOptions { args, surroundings, .. } = trying;
    let nobody: Arc<dyn Operator> = Arc::new(UnattendedOperator);
    let driver = match driver {
        Some(driver) => driver,
        None => {
            let new_driver = CaseDriver::new(&surroundings.project, surroundings.runs_with_operator(&nobody));
            driver.insert(new_driver.map_err(|error| CliError::Internal(format!("cannot start the runtime: {error}")))?)
        }
    };
    let source = load_test_source(path, trying)?;
    let mut suite = TestSuite::load_and_check(&source, path, &surroundings.runs_without_operator());
    let mut file = TestedFile {
        name: source.name().to_owned(),
        ..TestedFile::default()
    };
    let is_new = **source.text() == *suggestions::PLACEHOLDER_TEST_FILE;
    let mut cases = if is_new {
        Vec::new()
    } else {
        run_selected_cases(&suite, driver, args)
    };
    if args.update {
        suite = updates::rewrite_expectations(suite, path, &mut cases, surroundings)?;
    }
    let mut picture = None;
    if let Some(sound) = suite.checked_suite() {
        let explored = args.coverage.then(|| explore_for_coverage(sound));
        if let Some(explored) = &explored {
            let mut reached = ReachedParts::default();
            for conversation in cases.iter().flat_map(|case| case.result.all_conversations()) {
                reached.add_conversation(&sound.ensemble.plan, &conversation.records);
            }
            file.coverage = Some(build_file_coverage(sound, &reached, explored));
            let paint =
                || coverage_picture::build_coverage_picture(&sound.ensemble.plan, &reached, explored, cases.len());
            picture = args.graph.is_some().then(paint);
        }
        if args.mutate {
            file.mutants = Some(mutations::run_cases_on_mutants(sound, &cases, driver, trying.end));
        }
        if args.suggest {
            file.suggestions = Some(suggestions::suggest_for_gaps(&suite, sound, &cases, driver));
        }
    }
    if let Some(TestFile { cases: tested, .. }) = suite
        .checked_suite()
        .map(|sound| sound.file)
        .or(suite.cases_of_refused_ensemble())
    {
        let to_tested = |case: &FinishedCaseRun| to_tested_case(&suite, &tested[case.at].name, case);
        file.cases = cases.iter().map(to_tested).collect();
    }
    Ok(TestFileOutcome {
        file,
        picture,
        findings: suite.findings,
    })
}

/// Loads the text of the test file. With `--suggest`, a missing file gets a placeholder text.
fn load_test_source(path: &Path, trying: TestOptions<'_>) -> Result<SourceText, CliError> {
    let project = &trying.surroundings.project;
    match trying.args.suggest && !project.folder.join(path).exists() {
        true => Ok(SourceText::new(
            path.display().to_string(),
            suggestions::PLACEHOLDER_TEST_FILE,
        )),
        false => Ok(project.read_file(path)?),
    }
}

/// Runs the cases whose names match `--filter`. If the suite is invalid, every case fails.
fn run_selected_cases(suite: &TestSuite, driver: &CaseDriver, args: &TestArgs) -> Vec<FinishedCaseRun> {
    let sound = suite.checked_suite();
    let Some(file) = sound.map(|sound| sound.file).or(suite.cases_of_refused_ensemble()) else {
        return Vec::new();
    };
    let is_asked = |name: &str| args.filter.as_ref().is_none_or(|filter| name.contains(filter.as_str()));
    let cases = file.cases.iter().enumerate();
    let selected_cases = cases.filter(|(_, case)| is_asked(&case.name));
    selected_cases
        .map(|(at, case)| {
            let began = Instant::now();
            let case_result = match sound {
                Some(sound) => driver.run_and_judge_case(sound, at),
                None => CaseResult::from_expected_refusal(at, case),
            };
            FinishedCaseRun {
                at,
                result: case_result,
                seconds: began.elapsed().as_secs_f64(),
                updated_expectations: Vec::new(),
            }
        })
        .collect()
}

/// Converts the run of a case to the form for reports.
fn to_tested_case(suite: &TestSuite, case_name: &str, case: &FinishedCaseRun) -> TestedCase {
    let name = line_column_in_suite(
        suite,
        suite
            .resolve_location(&case_route(case.at).with_key("name").into_value_location())
            .start,
    );
    TestedCase {
        name: case_name.to_owned(),
        line: name.line,
        seconds: case.seconds,
        failures: to_sorted_failures(suite, &case.result.failures),
        pass_count: case.result.pass_count,
        updated_expectations: to_sorted_failures(suite, &case.updated_expectations),
    }
}

/// Returns the position of the byte offset in the test file.
fn line_column_in_suite(suite: &TestSuite, offset: usize) -> LineColumn {
    suite.source().line_column(offset)
}

/// Converts unmet expectations to the form for reports, in the order of the file.
fn to_sorted_failures(suite: &TestSuite, failures: &[UnmetExpectation]) -> Vec<FailedExpectation> {
    let to_test_failure = |failure: &UnmetExpectation| {
        let LineColumn { line, column } = line_column_in_suite(suite, suite.resolve_location(&failure.at).start);
        FailedExpectation {
            line,
            column,
            what: failure.what.clone(),
            expected: failure.expected.clone(),
            actual: failure.actual.clone(),
            help: failure.help.clone(),
        }
    };
    let mut unmet: Vec<FailedExpectation> = failures.iter().map(to_test_failure).collect();
    unmet.sort_by_key(|unmet| (unmet.line, unmet.column));
    unmet
}

/// Compares the reached parts with the explored parts, and counts them by kind.
fn build_file_coverage(sound: CheckedSuite<'_>, reached: &ReachedParts, explored: &Exploration) -> EnsembleCoverage {
    let coverage = CaseCoverage::from_reached_parts(&sound.ensemble.plan, reached, explored);
    let parts = [
        ("agents", &coverage.agents),
        ("dependencies", &coverage.dependencies),
        ("conditions", &coverage.conditions),
        ("outcomes", &coverage.outcomes),
    ];
    EnsembleCoverage {
        ensemble: sound.ensemble.source.name().to_owned(),
        counts: parts
            .iter()
            .map(|(what, part)| (*what, part.reached, part.all))
            .collect(),
        gaps: coverage
            .unreached_parts()
            .map(|gap| to_coverage_gap(sound.ensemble, gap))
            .collect(),
        is_complete: coverage.is_complete,
    }
}

/// Converts an unreached part to the form for reports, with its position in the file.
fn to_coverage_gap(ensemble: &PreparedEnsemble, gap: &UnreachedPart) -> ShownCoverageGap {
    let document = ensemble.loaded.document.as_ref();
    let place = gap.at.as_ref().zip(document).map(|(at, document)| {
        let place = ensemble.source.line_column(document.resolve_span(at).start);
        (place.line, place.column)
    });
    ShownCoverageGap {
        kind: gap.kind,
        what: gap.what.clone(),
        place,
    }
}
