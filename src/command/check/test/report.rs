//! One test of all files, and its report.

use std::path::PathBuf;
use std::time::Instant;

use super::trial::{TriedFile, Trying, try_file};
use crate::command::check::files::ordered_work::in_order;
use crate::command::check::test::coverage_picture;
use crate::command::check::test::{TestArgs, TestFormat};
use crate::command::shared::error::CliError;
use crate::command::shared::exit;
use crate::command::shared::surroundings::Surroundings;
use ensemble_language::diagnostic::{Diagnostic, Severity};
use ensemble_reports::report::graph::Picture;
use ensemble_reports::report::tested::TestedFile;
use ensemble_reports::report::{CheckedFile, Form, Github, diagnostics, tested};
use serde_json::Value;

/// Tries the cases of these files once, and prints the results. The value is the exit code.
///
/// # Errors
/// No case has the name that was asked for, or something cannot be written.
pub(crate) fn once(args: &TestArgs, paths: &[PathBuf], surroundings: &Surroundings) -> Result<u8, CliError> {
    let began = Instant::now();
    if let Some(file) = &args.graph {
        coverage_picture::format_of(file)?;
        if paths.len() != 1 {
            let message = format!("--graph draws one ensemble, and there are {} test files", paths.len());
            return Err(CliError::usage_with_help(message, "name the test file"));
        }
    }
    let mut all = Results::default();
    let trying = Trying {
        args,
        surroundings,
        end: began.checked_add(args.max_time),
    };
    in_order(
        paths.len(),
        || None,
        |driver, at| try_file(&paths[at], driver, trying),
        |tried| all.add(tried),
    );
    if let Some(fault) = all.faults.into_iter().next() {
        return Err(fault);
    }
    let errors = all.findings.iter().any(|finding| finding.severity == Severity::Error);
    if let (Some(filter), false) = (&args.filter, errors)
        && all.files.iter().all(|file| file.cases.is_empty())
    {
        return Err(CliError::usage(format!("no case has a name that contains `{filter}`")));
    }
    show(
        &all.files,
        &all.findings,
        began.elapsed().as_secs_f64(),
        args.output,
        surroundings,
    );
    if let (Some(file), Some(picture)) = (&args.graph, &all.picture) {
        coverage_picture::draw(picture, file, surroundings)?;
    }
    let fails = all.files.iter().any(TestedFile::fails);
    Ok(match (errors, fails) {
        (true, _) => exit::USAGE,
        (false, true) => exit::FAILED,
        (false, false) => exit::SUCCESS,
    })
}

/// The results of all files.
#[derive(Default)]
struct Results {
    files: Vec<TestedFile>,
    findings: Vec<Diagnostic>,
    /// The graph of the last ensemble, if it is to be drawn.
    picture: Option<Picture>,
    faults: Vec<CliError>,
}

impl Results {
    fn add(&mut self, tried: Result<TriedFile, CliError>) {
        match tried {
            Ok(tried) => {
                self.files.push(tried.file);
                self.findings.extend(tried.findings);
                self.picture = tried.picture;
            }
            Err(fault) => self.faults.push(fault),
        }
    }
}

/// Prints the results, and what is wrong with the test files.
fn show(files: &[TestedFile], findings: &[Diagnostic], took: f64, form: TestFormat, surroundings: &Surroundings) {
    let folder = &surroundings.project.folder;
    if !findings.is_empty() && matches!(form, TestFormat::Human | TestFormat::Junit) {
        surroundings.print_err(&diagnostics::human(findings, surroundings.colors_on_stderr()));
    }
    let text = match form {
        TestFormat::Human if files.iter().any(|file| file.suggestions.is_some()) => {
            // What is printed can be added to a file.
            surroundings.print_err(&tested::human(files, took, surroundings.colors_on_stderr()));
            tested::suggestions(files)
        }
        TestFormat::Human if files.iter().all(|file| file.cases.is_empty()) => String::new(),
        TestFormat::Human => tested::human(files, took, surroundings.streams.colors_on_stdout()),
        TestFormat::Json => {
            let found: Value = serde_json::from_str(&diagnostics::json(findings)).unwrap_or_default();
            tested::json(files, &found["diagnostics"], took)
        }
        TestFormat::Junit => tested::junit(files, folder, took),
        TestFormat::Github => {
            let found = Github { folder }.file(&CheckedFile {
                name: String::new(),
                findings: findings.to_vec(),
                fails: false,
            });
            format!("{found}{}", tested::github(files, folder))
        }
    };
    surroundings.print_as(form, &text);
}
