//! `ensemble test`: holds the conversations of test files, and compares them with what is expected.
//!
//! Files are tried on all cores; results are printed in the order of the files.

mod mutating;
mod suggesting;
mod tried;
mod trying;
mod updating;

use std::path::PathBuf;
use std::time::Instant;

use super::args::{TestArgs, TestFormat, ValidateArgs};
use super::error::CliError;
use super::exit;
use super::in_order::in_order;
use super::inputs::{Input, inputs};
use super::painting;
use super::settings::Settings;
use super::surroundings::Surroundings;
use ensemble_language::cases::{ENDINGS, is_test_file};
use ensemble_language::diagnostic::{Diagnostic, Severity};
use ensemble_reports::report::graph::Picture;
use ensemble_reports::report::tested::TestedFile;
use ensemble_reports::report::{CheckedFile, Form, Github, diagnostics, tested};
use ensemble_runs::RunError;
use serde_json::Value;
use trying::{TriedFile, Trying, try_file};

/// `ensemble test`.
pub(super) fn test(args: &TestArgs, surroundings: &Surroundings) -> Result<u8, CliError> {
    let began = Instant::now();
    updating::allowed(args)?;
    let paths = test_files(args, surroundings)?;
    if let Some(file) = &args.graph {
        painting::format_of(file)?;
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
        painting::draw(picture, file, surroundings)?;
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

/// The test files that the arguments mean.
fn test_files(args: &TestArgs, surroundings: &Surroundings) -> Result<Vec<PathBuf>, CliError> {
    let mut files = Vec::new();
    let search = ValidateArgs {
        paths: args.paths.clone(),
        ..ValidateArgs::default()
    };
    let settings = Settings::of(&search, &surroundings.project)?;
    for input in inputs(&search, &settings, surroundings)?.list {
        match input {
            Input::Stdin(_) => return Err(CliError::usage("a test file is not read from standard input")),
            Input::Found(path) if is_test_file(&path.to_string_lossy()) => files.push(path),
            Input::Found(_) => {}
            Input::Unreadable(path, reason) => return Err(CliError::Run(RunError::Unreadable { path, reason })),
            Input::File(path) if is_test_file(&path.to_string_lossy()) => files.push(path),
            Input::File(path) => files.push(beside(path, args.suggest, surroundings)?),
        }
    }
    match files.is_empty() {
        true => Err(CliError::usage_with_help(
            "there is no test file",
            "write one beside the ensemble: `team.test.yaml` tests `team.yaml`",
        )),
        false => Ok(files),
    }
}

/// The test file of an ensemble, which is to be made if it may be missing.
fn beside(path: PathBuf, may_be_missing: bool, surroundings: &Surroundings) -> Result<PathBuf, CliError> {
    let candidates = ENDINGS.map(|ending| path.with_extension(ending.trim_start_matches('.')));
    let found = candidates
        .iter()
        .find(|path| surroundings.project.folder.join(path).is_file());
    let found = found.or(may_be_missing.then_some(&candidates[0]));
    found.cloned().ok_or_else(|| {
        let message = format!("{} has no test file", path.display());
        CliError::usage_with_help(message, format!("its name would be {}", candidates[0].display()))
    })
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
