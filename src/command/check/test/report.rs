//! One test of all files, and its report.

use std::path::PathBuf;
use std::time::Instant;

use super::trial::{TestFileOutcome, TestOptions, run_test_file};
use crate::command::check::files::ordered_work::run_parallel_in_order;
use crate::command::check::test::coverage_picture;
use crate::command::check::test::{TestArgs, TestFormat};
use crate::command::shared::error::CliError;
use crate::command::shared::exit;
use crate::command::shared::surroundings::CliEnvironment;
use ensemble_language::diagnostic::{Diagnostic, FindingSeverity};
use ensemble_reports::report::graph::GraphPicture;
use ensemble_reports::report::test_report::TestedFile;
use ensemble_reports::report::{FileFindings, FindingsReportFormat, GithubFindingsFormat, diagnostics, test_report};
use serde_json::Value;

/// Runs the cases of the files once and prints the results. Returns the exit code.
///
/// # Errors
/// No case matches `--filter`, or a file cannot be written.
pub(crate) fn test_files_and_print(
    args: &TestArgs,
    paths: &[PathBuf],
    surroundings: &CliEnvironment,
) -> Result<u8, CliError> {
    let began = Instant::now();
    if let Some(file) = &args.graph {
        coverage_picture::picture_format_for_file(file)?;
        if paths.len() != 1 {
            let message = format!("--graph needs one test file, and there are {} test files", paths.len());
            return Err(CliError::usage_error_with_help(message, "name one test file"));
        }
    }
    let mut all = AllTestResults::default();
    let trying = TestOptions {
        args,
        surroundings,
        end: began.checked_add(args.max_time),
    };
    run_parallel_in_order(
        paths.len(),
        || None,
        |driver, at| run_test_file(&paths[at], driver, trying),
        |tried| all.add_file(tried),
    );
    if let Some(fault) = all.faults.into_iter().next() {
        return Err(fault);
    }
    let errors = all
        .findings
        .iter()
        .any(|finding| finding.severity == FindingSeverity::Error);
    if let (Some(filter), false) = (&args.filter, errors)
        && all.files.iter().all(|file| file.cases.is_empty())
    {
        return Err(CliError::usage_error(format!(
            "no case has a name that contains `{filter}`"
        )));
    }
    print_results(
        &all.files,
        &all.findings,
        began.elapsed().as_secs_f64(),
        args.output,
        surroundings,
    );
    if let (Some(file), Some(picture)) = (&args.graph, &all.picture) {
        coverage_picture::write_picture_file(picture, file, surroundings)?;
    }
    let fails = all.files.iter().any(TestedFile::has_failed);
    Ok(match (errors, fails) {
        (true, _) => exit::USAGE,
        (false, true) => exit::FAILED,
        (false, false) => exit::SUCCESS,
    })
}

/// Results of all test files.
#[derive(Default)]
struct AllTestResults {
    files: Vec<TestedFile>,
    findings: Vec<Diagnostic>,
    /// Graph of the last ensemble, if `--graph` is set.
    picture: Option<GraphPicture>,
    faults: Vec<CliError>,
}

impl AllTestResults {
    /// Adds the result of a file, or the error that stopped its test.
    fn add_file(&mut self, tried: Result<TestFileOutcome, CliError>) {
        match tried {
            Ok(result) => {
                self.files.push(result.file);
                self.findings.extend(result.findings);
                self.picture = result.picture;
            }
            Err(fault) => self.faults.push(fault),
        }
    }
}

/// Prints the results of the cases, and the findings about the test files. `took` is the time in seconds.
fn print_results(
    files: &[TestedFile],
    findings: &[Diagnostic],
    took: f64,
    form: TestFormat,
    surroundings: &CliEnvironment,
) {
    let folder = &surroundings.project.folder;
    if !findings.is_empty() && matches!(form, TestFormat::Human | TestFormat::Junit) {
        surroundings.print_err(&diagnostics::render_diagnostics(
            findings,
            surroundings.colors_on_stderr(),
        ));
    }
    let text = match form {
        TestFormat::Human if files.iter().any(|file| file.suggestions.is_some()) => {
            // What is printed can be added to a file.
            surroundings.print_err(&test_report::render_human_test_report(
                files,
                took,
                surroundings.colors_on_stderr(),
            ));
            test_report::render_suggestions(files)
        }
        TestFormat::Human if files.iter().all(|file| file.cases.is_empty()) => String::new(),
        TestFormat::Human => {
            test_report::render_human_test_report(files, took, surroundings.streams.colors_on_stdout())
        }
        TestFormat::Json => {
            let document: Value =
                serde_json::from_str(&diagnostics::render_json_diagnostics(findings)).unwrap_or_default();
            test_report::render_json_test_report(files, &document["diagnostics"], took)
        }
        TestFormat::Junit => test_report::render_junit_test_report(files, folder, took),
        TestFormat::Github => {
            let annotations = GithubFindingsFormat { folder }.render_file(&FileFindings {
                name: String::new(),
                findings: findings.to_vec(),
                fails: false,
            });
            format!("{annotations}{}", test_report::render_github_test_report(files, folder))
        }
    };
    surroundings.print_out_in_format(form, &text);
}
