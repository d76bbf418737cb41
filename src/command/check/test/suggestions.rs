//! `ensemble test --suggest`: prints cases for what no case reaches.

use super::case::{CaseTried, explored};
use ensemble_cases::coverage::{Coverage, Gap, Reached};
use ensemble_cases::drive::Driver;
use ensemble_cases::suggest::{suggest, yaml};
use ensemble_cases::suite::{Sound, Suite};
use ensemble_language::cases::case_route;
use ensemble_reports::report::tested::Suggestions;

/// What stands in the place of a test file that is not there yet.
pub(crate) const NO_CASE: &str = "cases: [{name: none, expect: {outcome: completed}}]";

/// The cases for the gaps that these leave.
pub(crate) fn suggestions(suite: &Suite, sound: Sound<'_>, cases: &[CaseTried], driver: &Driver) -> Suggestions {
    let plan = &sound.ensemble.plan;
    let mut reached = Reached::default();
    for conversation in cases.iter().flat_map(|case| case.tried.conversations()) {
        reached.add(plan, &conversation.records);
    }
    let found = Coverage::of(plan, &reached, &explored(sound));
    let gaps: Vec<Gap> = found.gaps().cloned().collect();
    let suggested = suggest(sound, &gaps, driver);
    let is_new = **suite.source().text() == *NO_CASE;
    let indent = if is_new { 2 } else { indent(suite) };
    let texts: Vec<String> = suggested.cases.iter().map(|one| yaml(&one.case, indent)).collect();
    let head = if is_new && !texts.is_empty() { "cases:\n" } else { "" };
    Suggestions {
        file: suite.source().name().to_owned(),
        yaml: format!("{head}{}", texts.join("\n")),
        cases: texts.len(),
        open: suggested.open.iter().map(|gap| gap.what.clone()).collect(),
    }
}

/// Returns the indentation of the cases of the file.
fn indent(suite: &Suite) -> usize {
    let text = suite.source().text();
    let first = suite.span(&case_route(0).value()).start;
    let line = text[..first].rfind('\n').map_or(0, |at| at + 1);
    let before = &text[line..first];
    match before.trim_start_matches(' ').starts_with('-') {
        true => before.len() - before.trim_start_matches(' ').len(),
        false => 2,
    }
}
