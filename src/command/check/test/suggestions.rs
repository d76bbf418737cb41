//! `ensemble test --suggest`: prints cases for the parts that no case reaches.

use super::case::{FinishedCaseRun, explore_for_coverage};
use ensemble_cases::coverage::{CaseCoverage, ReachedParts, UnreachedPart};
use ensemble_cases::drive::CaseDriver;
use ensemble_cases::suggest::{render_case_as_yaml, suggest_cases_for_gaps};
use ensemble_cases::suite::{CheckedSuite, TestSuite};
use ensemble_language::cases::case_route;
use ensemble_reports::report::test_report::SuggestedCases;

/// Text of a test file that does not exist yet.
pub(crate) const PLACEHOLDER_TEST_FILE: &str = "cases: [{name: none, expect: {outcome: completed}}]";

/// Suggests cases for the parts of the ensemble that these cases do not reach, as YAML for the test file.
pub(crate) fn suggest_for_gaps(
    suite: &TestSuite,
    sound: CheckedSuite<'_>,
    cases: &[FinishedCaseRun],
    driver: &CaseDriver,
) -> SuggestedCases {
    let plan = &sound.ensemble.plan;
    let mut reached = ReachedParts::default();
    for conversation in cases.iter().flat_map(|case| case.result.all_conversations()) {
        reached.add_conversation(plan, &conversation.records);
    }
    let coverage = CaseCoverage::from_reached_parts(plan, &reached, &explore_for_coverage(sound));
    let gaps: Vec<UnreachedPart> = coverage.unreached_parts().cloned().collect();
    let suggested = suggest_cases_for_gaps(sound, &gaps, driver);
    let is_new = **suite.source().text() == *PLACEHOLDER_TEST_FILE;
    let indent = if is_new { 2 } else { case_indent(suite) };
    let texts: Vec<String> = suggested
        .cases
        .iter()
        .map(|one| render_case_as_yaml(&one.case, indent))
        .collect();
    let head = if is_new && !texts.is_empty() { "cases:\n" } else { "" };
    SuggestedCases {
        file: suite.source().name().to_owned(),
        yaml: format!("{head}{}", texts.join("\n")),
        cases: texts.len(),
        unresolved_gaps: suggested.unresolved_gaps.iter().map(|gap| gap.what.clone()).collect(),
    }
}

/// Returns the number of spaces before the cases of the file.
fn case_indent(suite: &TestSuite) -> usize {
    let text = suite.source().text();
    let first = suite.resolve_location(&case_route(0).into_value_location()).start;
    let line = text[..first].rfind('\n').map_or(0, |at| at + 1);
    let before = &text[line..first];
    match before.trim_start_matches(' ').starts_with('-') {
        true => before.len() - before.trim_start_matches(' ').len(),
        false => 2,
    }
}
