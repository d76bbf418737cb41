//! The reports of tests of ensembles: text for users, JSON, GitHub commands and JUnit XML.

mod github;
mod human;
mod json;
mod junit;

pub use github::render_github_test_report;
pub use human::{render_human_test_report, render_suggestions};
pub use json::render_json_test_report;
pub use junit::render_junit_test_report;

/// The result of a test file: its cases, coverage, mutants and suggestions.
#[derive(Debug, Clone, Default)]
pub struct TestedFile {
    /// The name of the test file.
    pub name: String,
    /// The cases that were run, in the order of the file.
    pub cases: Vec<TestedCase>,
    /// The coverage by the cases, if requested.
    pub coverage: Option<EnsembleCoverage>,
    /// The results of mutation testing, if requested.
    pub mutants: Option<EnsembleMutants>,
    /// The suggested cases for coverage gaps, if requested.
    pub suggestions: Option<SuggestedCases>,
}

/// The result of a test case: its time, and the expectations that are not met.
#[derive(Debug, Clone)]
pub struct TestedCase {
    /// The name of the case.
    pub name: String,
    /// The line of its name, from 1.
    pub line: usize,
    /// The duration of the case, in seconds.
    pub seconds: f64,
    /// The expectations that are not met. The case passes if the list is empty.
    pub failures: Vec<FailedExpectation>,
    /// The number of passed and of all repetitions, for a case that was run several times.
    pub pass_count: Option<(u32, u32)>,
    /// The expectations that were rewritten in the file, each with the old and the new value.
    pub updated_expectations: Vec<FailedExpectation>,
}

/// An expectation that is not met, with the expected and the actual value.
#[derive(Debug, Clone)]
pub struct FailedExpectation {
    /// The line in the test file, from 1.
    pub line: usize,
    /// The column, from 1.
    pub column: usize,
    /// The subject of the expectation.
    pub what: String,
    /// The expected value.
    pub expected: Option<String>,
    /// The actual value.
    pub actual: Option<String>,
    /// Advice for the user.
    pub help: Option<String>,
}

/// The coverage of an ensemble by the cases of a file, with its gaps.
#[derive(Debug, Clone)]
pub struct EnsembleCoverage {
    /// The file of the ensemble.
    pub ensemble: String,
    /// The counted kinds of parts, each with the number of reached parts and of all parts.
    pub counts: Vec<(&'static str, usize, usize)>,
    /// The parts that no case reaches.
    pub gaps: Vec<ShownCoverageGap>,
    /// True if all conversations were explored.
    pub is_complete: bool,
}

/// A part of an ensemble that no case reaches, as the report shows the part.
#[derive(Debug, Clone)]
pub struct ShownCoverageGap {
    /// The kind of the part.
    pub kind: &'static str,
    /// The description of the part.
    pub what: String,
    /// The line and column of the part in the ensemble. `None` if the part has no position.
    pub place: Option<(usize, usize)>,
}

/// The suggested cases for the coverage gaps of a file, as text.
#[derive(Debug, Clone, Default)]
pub struct SuggestedCases {
    /// The test file.
    pub file: String,
    /// The cases, as items of its `cases`.
    pub yaml: String,
    /// The number of suggested cases.
    pub cases: usize,
    /// The gaps that the suggested cases do not reach.
    pub unresolved_gaps: Vec<String>,
}

/// The mutants of an ensemble, with their status.
#[derive(Debug, Clone, Default)]
pub struct EnsembleMutants {
    /// The file of the ensemble.
    pub ensemble: String,
    /// The changes.
    pub mutants: Vec<ShownMutant>,
    /// The reason why no mutant was tried.
    pub not_tried_because: Option<String>,
}

/// A mutant of an ensemble, as the report shows the mutant.
#[derive(Debug, Clone)]
pub struct ShownMutant {
    /// The kind of the change.
    pub kind: &'static str,
    /// The line and column of the change in the ensemble.
    pub place: (usize, usize),
    /// The agent to which it belongs, if it belongs to one.
    pub agent: Option<String>,
    /// The text that the mutant replaces.
    pub from: String,
    /// The text of the mutant.
    pub to: String,
    /// The status of the mutant.
    pub status: MutantStatus,
}

/// The status of a mutant: killed, surviving, equivalent or not tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MutantStatus {
    /// These cases fail with the mutant.
    Killed(Vec<String>),
    /// No case fails with the mutant.
    Survived,
    /// No case can detect the mutant.
    Equivalent,
    /// The time was too short to try the mutant.
    NotTried,
}

impl MutantStatus {
    /// Returns the name of the status in JSON.
    fn json_word(&self) -> &'static str {
        match self {
            Self::Killed(_) => "noticed",
            Self::Survived => "survived",
            Self::Equivalent => "equivalent",
            Self::NotTried => "not_tried",
        }
    }
}

impl EnsembleMutants {
    /// Counts the mutants by status, in this order: killed, surviving, equivalent, not tried.
    fn count_by_status(&self) -> [usize; 4] {
        let count = |word| self.mutants.iter().filter(|one| one.status.json_word() == word).count();
        ["noticed", "survived", "equivalent", "not_tried"].map(count)
    }
}

impl ShownMutant {
    /// Describes the change of the mutant.
    fn describe_change(&self) -> String {
        let of = self
            .agent
            .as_ref()
            .map_or_else(String::new, |agent| format!("{agent}: "));
        let line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        format!("{of}`{}` -> `{}`", line(&self.from), line(&self.to))
    }
}

impl TestedFile {
    /// Returns whether a case fails or a mutant is not known to be killed.
    pub fn has_failed(&self) -> bool {
        let is_open = |mutants: &EnsembleMutants| {
            let [_, survived, _, not_tried] = mutants.count_by_status();
            survived + not_tried > 0
        };
        self.cases.iter().any(|case| !case.has_passed()) || self.mutants.as_ref().is_some_and(is_open)
    }
}

impl TestedCase {
    /// Returns whether all expectations are met.
    pub fn has_passed(&self) -> bool {
        self.failures.is_empty()
    }
}

/// Counts the passed and the failed cases.
fn count_passed_and_failed(files: &[TestedFile]) -> (usize, usize) {
    let cases = || files.iter().flat_map(|file| &file.cases);
    let passed = cases().filter(|case| case.has_passed()).count();
    (passed, cases().count() - passed)
}

/// Renders the failure on one line: `outcome: expected completed, found agent_failed`.
fn render_failure_line(unmet: &FailedExpectation) -> String {
    let mut text = unmet.what.clone();
    if let Some(expected) = &unmet.expected {
        text.push_str(&format!(": expected {expected}"));
    }
    if let Some(actual) = &unmet.actual {
        text.push_str(&format!(", found {actual}"));
    }
    text
}
