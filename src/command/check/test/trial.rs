//! Holds the conversations of the cases of one test file.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use super::case::{CaseTried, explored};
use super::mutations;
use super::suggestions;
use super::updates;
use crate::command::check::test::TestArgs;
use crate::command::check::test::coverage_picture;
use crate::command::shared::error::CliError;
use crate::command::shared::surroundings::Surroundings;
use ensemble_cases::coverage::{Coverage, Gap, Reached};
use ensemble_cases::drive::Driver;
use ensemble_cases::judge::Failure;
use ensemble_cases::suite::{Sound, Suite};
use ensemble_core::operator::{Operator, Unattended};
use ensemble_explore::Exploration;
use ensemble_language::cases::case_route;
use ensemble_language::diagnostic::Diagnostic;
use ensemble_language::source::{Place, Source};
use ensemble_project::Prepared;
use ensemble_reports::report::graph::Picture;
use ensemble_reports::report::tested::{CoverageGap, FileCoverage, TestedCase, TestedFile, Unmet};

/// A file that was tried, and what was found wrong with it.
pub(crate) struct TriedFile {
    pub(crate) file: TestedFile,
    pub(crate) picture: Option<Picture>,
    pub(crate) findings: Vec<Diagnostic>,
}

/// The options that apply to each test file.
#[derive(Clone, Copy)]
pub(crate) struct Trying<'t> {
    pub(crate) args: &'t TestArgs,
    pub(crate) surroundings: &'t Surroundings,
    /// When no further change of an ensemble is tried.
    pub(crate) end: Option<Instant>,
}

/// Tries the cases of a file.
pub(crate) fn try_file(path: &Path, driver: &mut Option<Driver>, trying: Trying<'_>) -> Result<TriedFile, CliError> {
    let Trying { args, surroundings, .. } = trying;
    let nobody: Arc<dyn Operator> = Arc::new(Unattended);
    let driver = match driver {
        Some(driver) => driver,
        None => {
            let made = Driver::new(&surroundings.project, surroundings.runs_with(&nobody));
            driver.insert(made.map_err(|error| CliError::Internal(format!("cannot start the runtime: {error}")))?)
        }
    };
    let source = source(path, trying)?;
    let mut suite = Suite::read(&source, path, &surroundings.runs());
    let mut file = TestedFile {
        name: source.name().to_owned(),
        ..TestedFile::default()
    };
    let is_new = **source.text() == *suggestions::NO_CASE;
    let mut cases = if is_new {
        Vec::new()
    } else {
        tried_cases(&suite, driver, args)
    };
    if args.update {
        suite = updates::update(suite, path, &mut cases, surroundings)?;
    }
    let mut picture = None;
    if let Some(sound) = suite.sound() {
        let explored = args.coverage.then(|| explored(sound));
        if let Some(explored) = &explored {
            let mut reached = Reached::default();
            for conversation in cases.iter().flat_map(|case| case.tried.conversations()) {
                reached.add(&sound.ensemble.plan, &conversation.records);
            }
            file.coverage = Some(coverage(sound, &reached, explored));
            let paint = || coverage_picture::painted(&sound.ensemble.plan, &reached, explored, cases.len());
            picture = args.graph.is_some().then(paint);
        }
        if args.mutate {
            file.mutants = Some(mutations::mutants(sound, &cases, driver, trying.end));
        }
        if args.suggest {
            file.suggestions = Some(suggestions::suggestions(&suite, sound, &cases, driver));
        }
        file.cases = cases.iter().map(|case| shown_case(&suite, sound, case)).collect();
    }
    Ok(TriedFile {
        file,
        picture,
        findings: suite.findings,
    })
}

/// The test file. With `--suggest`, it need not be there.
fn source(path: &Path, trying: Trying<'_>) -> Result<Source, CliError> {
    let project = &trying.surroundings.project;
    match trying.args.suggest && !project.folder.join(path).exists() {
        true => Ok(Source::new(path.display().to_string(), suggestions::NO_CASE)),
        false => Ok(project.read(path)?),
    }
}

fn tried_cases(suite: &Suite, driver: &Driver, args: &TestArgs) -> Vec<CaseTried> {
    let Some(sound) = suite.sound() else { return Vec::new() };
    let is_asked = |name: &str| args.filter.as_ref().is_none_or(|filter| name.contains(filter.as_str()));
    let asked = sound.file.cases.iter().enumerate();
    let asked = asked.filter(|(_, case)| is_asked(&case.name));
    asked
        .map(|(at, _)| {
            let began = Instant::now();
            let tried = driver.run(sound, at);
            CaseTried {
                at,
                tried,
                seconds: began.elapsed().as_secs_f64(),
                updated: Vec::new(),
            }
        })
        .collect()
}

fn shown_case(suite: &Suite, sound: Sound<'_>, case: &CaseTried) -> TestedCase {
    let name = place(suite, suite.span(&case_route(case.at).key("name").value()).start);
    TestedCase {
        name: sound.file.cases[case.at].name.to_string(),
        line: name.line,
        seconds: case.seconds,
        failures: unmet(suite, &case.tried.failures),
        passed: case.tried.passed,
        updated: unmet(suite, &case.updated),
    }
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

fn coverage(sound: Sound<'_>, reached: &Reached, explored: &Exploration) -> FileCoverage {
    let found = Coverage::of(&sound.ensemble.plan, reached, explored);
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
