//! `ensemble test`: holds the conversations of test files, and compares them with what is expected.
//!
//! Files are tried on all cores; results are printed in the order of the files.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use super::args::{TestArgs, TestFormat, ValidateArgs};
use super::error::CliError;
use super::exit;
use super::in_order::in_order;
use super::inputs::{Input, inputs};
use super::painting;
use super::settings::Settings;
use super::surroundings::Surroundings;
use ensemble_cases::coverage::{Coverage, Gap, Reached};
use ensemble_cases::drive::Driver;
use ensemble_cases::judge::Failure;
use ensemble_cases::suite::{Sound, Suite};
use ensemble_core::explore::{Budget, explore};
use ensemble_core::operator::{Operator, Unattended};
use ensemble_language::cases::{ENDINGS, case_route, is_test_file};
use ensemble_language::diagnostic::{Diagnostic, Severity};
use ensemble_language::source::Place;
use ensemble_reports::report::graph::Picture;
use ensemble_reports::report::tested::{CoverageGap, FileCoverage, TestedCase, TestedFile, Unmet};
use ensemble_reports::report::{CheckedFile, Form, Github, diagnostics, tested};
use ensemble_runs::{Prepared, RunError};
use serde_json::Value;

/// The number of states that are explored for `--coverage`.
const MAX_STATES: u64 = 20_000;

/// `ensemble test`.
pub(super) fn test(args: &TestArgs, surroundings: &Surroundings) -> Result<u8, CliError> {
    let began = Instant::now();
    let paths = test_files(args, surroundings)?;
    if let Some(file) = &args.graph {
        painting::format_of(file)?;
        if paths.len() != 1 {
            let message = format!("--graph draws one ensemble, and there are {} test files", paths.len());
            return Err(CliError::usage_with_help(message, "name the test file"));
        }
    }
    let mut all = Results::default();
    in_order(
        paths.len(),
        || None,
        |driver, at| try_file(&paths[at], driver, args, surroundings),
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
    let fails = all.files.iter().flat_map(|file| &file.cases).any(|case| !case.passes());
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
            Input::File(path) => files.push(beside(path, surroundings)?),
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

/// The test file of an ensemble.
fn beside(path: PathBuf, surroundings: &Surroundings) -> Result<PathBuf, CliError> {
    let candidates = ENDINGS.map(|ending| path.with_extension(ending.trim_start_matches('.')));
    let found = candidates
        .iter()
        .find(|path| surroundings.project.folder.join(path).is_file());
    found.cloned().ok_or_else(|| {
        let message = format!("{} has no test file", path.display());
        CliError::usage_with_help(message, format!("its name would be {}", candidates[0].display()))
    })
}

/// A file that was tried, and what was found wrong with it.
struct TriedFile {
    file: TestedFile,
    picture: Option<Picture>,
    findings: Vec<Diagnostic>,
}

fn try_file(
    path: &Path,
    driver: &mut Option<Driver>,
    args: &TestArgs,
    surroundings: &Surroundings,
) -> Result<TriedFile, CliError> {
    let nobody: Arc<dyn Operator> = Arc::new(Unattended);
    let driver = match driver {
        Some(driver) => driver,
        None => {
            let made = Driver::new(&surroundings.project, surroundings.runs_with(&nobody));
            driver.insert(made.map_err(|error| CliError::Internal(format!("cannot start the runtime: {error}")))?)
        }
    };
    let source = surroundings.project.read(path)?;
    let suite = Suite::read(&source, path, &surroundings.runs());
    let mut file = TestedFile {
        name: source.name().to_owned(),
        cases: Vec::new(),
        coverage: None,
    };
    let mut picture = None;
    if let Some(sound) = suite.sound() {
        let mut reached = Reached::default();
        for (at, case) in sound.file.cases.iter().enumerate() {
            if args
                .filter
                .as_ref()
                .is_some_and(|filter| !case.name.contains(filter.as_str()))
            {
                continue;
            }
            let began = Instant::now();
            let tried = driver.run(sound, at);
            if let (true, Some(conversation)) = (args.coverage, &tried.conversation) {
                reached.add(&sound.ensemble.plan, &conversation.records);
            }
            let name = place(&suite, suite.span(&case_route(at).key("name").value()).start);
            file.cases.push(TestedCase {
                name: case.name.to_string(),
                line: name.line,
                seconds: began.elapsed().as_secs_f64(),
                failures: unmet(&suite, &tried.failures),
            });
        }
        file.coverage = args.coverage.then(|| coverage(sound, &reached));
        let cases = file.cases.len();
        picture = args
            .graph
            .is_some()
            .then(|| painting::painted(&sound.ensemble.plan, &reached, cases));
    }
    Ok(TriedFile {
        file,
        picture,
        findings: suite.findings,
    })
}

fn place(suite: &Suite, offset: usize) -> Place {
    suite.source().place(offset)
}

/// The failures in the order of the file.
fn unmet(suite: &Suite, failures: &[Failure]) -> Vec<Unmet> {
    let one = |failure: &Failure| {
        let Place { line, column } = place(suite, suite.span(&failure.at).start);
        Unmet {
            line,
            column,
            what: failure.what.clone(),
            expected: failure.expected.clone(),
            actual: failure.actual.clone(),
            help: failure.help.clone(),
        }
    };
    let mut unmet: Vec<Unmet> = failures.iter().map(one).collect();
    unmet.sort_by_key(|unmet| (unmet.line, unmet.column));
    unmet
}

fn coverage(sound: Sound<'_>, reached: &Reached) -> FileCoverage {
    let plan = &sound.ensemble.plan;
    let explored = explore(plan, Budget::of_states(MAX_STATES));
    let found = Coverage::of(plan, reached, &explored);
    let parts = [
        ("agents", &found.agents),
        ("dependencies", &found.dependencies),
        ("conditions", &found.conditions),
        ("outcomes", &found.outcomes),
    ];
    FileCoverage {
        ensemble: sound.ensemble.source.name().to_owned(),
        counts: parts
            .iter()
            .map(|(what, part)| (*what, part.reached, part.all))
            .collect(),
        gaps: found.gaps().map(|gap| shown_gap(sound.ensemble, gap)).collect(),
        is_complete: found.is_complete,
    }
}

fn shown_gap(ensemble: &Prepared, gap: &Gap) -> CoverageGap {
    let document = ensemble.loaded.document.as_ref();
    let place = gap.at.as_ref().zip(document).map(|(at, document)| {
        let place = ensemble.source.place(document.resolve(at).start);
        (place.line, place.column)
    });
    CoverageGap {
        kind: gap.kind,
        what: gap.what.clone(),
        place,
    }
}

/// Prints the results, and what is wrong with the test files.
fn show(files: &[TestedFile], findings: &[Diagnostic], took: f64, form: TestFormat, surroundings: &Surroundings) {
    let folder = &surroundings.project.folder;
    if !findings.is_empty() && matches!(form, TestFormat::Human | TestFormat::Junit) {
        surroundings.print_err(&diagnostics::human(findings, surroundings.colors_on_stderr()));
    }
    let text = match form {
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
