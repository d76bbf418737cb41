//! The results of tests of ensembles: for people, as JSON, for GitHub and as JUnit XML.

mod github;
mod human;
mod json;
mod junit;

pub use github::github;
pub use human::human;
pub use json::json;
pub use junit::junit;

/// A test file whose cases were tried.
#[derive(Debug, Clone)]
pub struct TestedFile {
    /// Its name.
    pub name: String,
    /// The cases that were tried, in the order of the file.
    pub cases: Vec<TestedCase>,
    /// What the cases reach, if that was asked for.
    pub coverage: Option<FileCoverage>,
}

/// A case that was tried.
#[derive(Debug, Clone)]
pub struct TestedCase {
    /// Its name.
    pub name: String,
    /// The line of its name, from 1.
    pub line: usize,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// The expectations that are not met; none: the case passes.
    pub failures: Vec<Unmet>,
}

/// An expectation that is not met.
#[derive(Debug, Clone)]
pub struct Unmet {
    /// Its line in the test file, from 1.
    pub line: usize,
    /// Its column, from 1.
    pub column: usize,
    /// What it is about.
    pub what: String,
    /// What is expected.
    pub expected: Option<String>,
    /// What happened.
    pub actual: Option<String>,
    /// What to do.
    pub help: Option<String>,
}

/// What the cases of a file reach of its ensemble.
#[derive(Debug, Clone)]
pub struct FileCoverage {
    /// The file of the ensemble.
    pub ensemble: String,
    /// What is counted, with how many are reached and how many there are.
    pub counts: Vec<(&'static str, usize, usize)>,
    /// What is not reached.
    pub gaps: Vec<CoverageGap>,
    /// Whether all conversations were explored.
    pub is_complete: bool,
}

/// What no case reaches.
#[derive(Debug, Clone)]
pub struct CoverageGap {
    /// Its kind.
    pub kind: &'static str,
    /// The words for it.
    pub what: String,
    /// Its line and column in the ensemble; `None`: it has no place.
    pub place: Option<(usize, usize)>,
}

impl TestedCase {
    /// Whether all expectations are met.
    pub fn passes(&self) -> bool {
        self.failures.is_empty()
    }
}

/// The numbers of cases that pass and that fail.
fn totals(files: &[TestedFile]) -> (usize, usize) {
    let cases = || files.iter().flat_map(|file| &file.cases);
    let passed = cases().filter(|case| case.passes()).count();
    (passed, cases().count() - passed)
}

/// The failure in one line: `outcome: expected completed, found agent_failed`.
fn in_one_line(unmet: &Unmet) -> String {
    let mut text = unmet.what.clone();
    if let Some(expected) = &unmet.expected {
        text.push_str(&format!(": expected {expected}"));
    }
    if let Some(actual) = &unmet.actual {
        text.push_str(&format!(", found {actual}"));
    }
    text
}
