//! The results of tests of ensembles: for people, as JSON, for GitHub and as JUnit XML.

mod github;
mod human;
mod json;
mod junit;

pub use github::render_github_test_report;
pub use human::{render_human_test_report, render_suggestions};
pub use json::render_json_test_report;
pub use junit::render_junit_test_report;

/// Test file whose cases were run.
#[derive(Debug, Clone, Default)]
pub struct TestedFile {
    /// Its name.
    pub name: String,
    /// The cases that were tried, in the order of the file.
    pub cases: Vec<TestedCase>,
    /// What the cases reach, if that was asked for.
    pub coverage: Option<EnsembleCoverage>,
    /// What becomes of changes of its ensemble, if that was asked for.
    pub mutants: Option<EnsembleMutants>,
    /// Cases for what no case reaches, if they were asked for.
    pub suggestions: Option<SuggestedCases>,
}

/// Test case that was run.
#[derive(Debug, Clone)]
pub struct TestedCase {
    /// Its name.
    pub name: String,
    /// The line of its name, from 1.
    pub line: usize,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// The expectations that are not met; none: the case passes.
    pub failures: Vec<FailedExpectation>,
    /// For a case that was held several times: in how many conversations it passed, and how many there were.
    pub pass_count: Option<(u32, u32)>,
    /// The expectations that were rewritten: what was expected, and what is expected now.
    pub updated_expectations: Vec<FailedExpectation>,
}

/// Expectation that is not met.
#[derive(Debug, Clone)]
pub struct FailedExpectation {
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

/// Parts of an ensemble that the cases of a file reach.
#[derive(Debug, Clone)]
pub struct EnsembleCoverage {
    /// The file of the ensemble.
    pub ensemble: String,
    /// What is counted, with how many are reached and how many there are.
    pub counts: Vec<(&'static str, usize, usize)>,
    /// What is not reached.
    pub gaps: Vec<ShownCoverageGap>,
    /// Whether all conversations were explored.
    pub is_complete: bool,
}

/// Part of an ensemble that no case reaches.
#[derive(Debug, Clone)]
pub struct ShownCoverageGap {
    /// Its kind.
    pub kind: &'static str,
    /// The words for it.
    pub what: String,
    /// Its line and column in the ensemble; `None`: it has no place.
    pub place: Option<(usize, usize)>,
}

/// Suggested cases for the gaps of a file.
#[derive(Debug, Clone, Default)]
pub struct SuggestedCases {
    /// The test file.
    pub file: String,
    /// The cases, as items of its `cases`.
    pub yaml: String,
    /// How many they are.
    pub cases: usize,
    /// What is not reached with them either.
    pub unresolved_gaps: Vec<String>,
}

/// Mutants of the ensemble of a file.
#[derive(Debug, Clone, Default)]
pub struct EnsembleMutants {
    /// The file of the ensemble.
    pub ensemble: String,
    /// The changes.
    pub mutants: Vec<ShownMutant>,
    /// Why none was tried.
    pub not_tried_because: Option<String>,
}

/// Mutant of an ensemble, as the report shows it.
#[derive(Debug, Clone)]
pub struct ShownMutant {
    /// Its kind.
    pub kind: &'static str,
    /// Its line and column in the ensemble.
    pub place: (usize, usize),
    /// The agent to which it belongs, if it belongs to one.
    pub agent: Option<String>,
    /// What stands there.
    pub from: String,
    /// What stands there instead.
    pub to: String,
    /// What became of it.
    pub status: MutantStatus,
}

/// Status of a mutant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MutantStatus {
    /// These cases fail with it.
    Killed(Vec<String>),
    /// No case fails with it.
    Survived,
    /// No case can notice it.
    Equivalent,
    /// There was no time to try it.
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
    /// Counts the mutants by status: killed, surviving, equivalent and not tried.
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
