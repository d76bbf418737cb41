//! The test report for users: a line for each case, then the failures, then the gaps.

use anstyle::{AnsiColor, Style};

use super::{
    EnsembleCoverage, EnsembleMutants, FailedExpectation, MutantStatus, SuggestedCases, TestedCase, TestedFile,
    count_passed_and_failed,
};
use crate::report::format_count;
use crate::report::sanitized_writer::TrustedStyle;

/// The style of success.
const GOOD: TrustedStyle = TrustedStyle::new(AnsiColor::Green.on_default().bold());
/// The style of failure.
const BAD: TrustedStyle = TrustedStyle::new(AnsiColor::Red.on_default().bold());
/// The style of less important text.
const QUIET: TrustedStyle = TrustedStyle::new(Style::new().dimmed());

/// Renders the test report for users. `took` is the whole time in seconds.
pub fn render_human_test_report(files: &[TestedFile], took: f64, color: bool) -> String {
    let mut text = String::new();
    for file in files {
        for case in &file.cases {
            let (word, ink) = match (case.has_passed(), case.updated_expectations.is_empty()) {
                (true, true) => ("PASS", GOOD),
                (true, false) => ("UPDATED", GOOD),
                (false, _) => ("FAIL", BAD),
            };
            let word = if color {
                format!("{ink}{word}{ink:#}")
            } else {
                word.to_owned()
            };
            let often = case
                .pass_count
                .map_or_else(String::new, |(passed, times)| format!(" ({passed} of {times})"));
            text.push_str(&format!("{word} {}: {}{often}\n", file.name, case.name));
        }
    }
    for file in files {
        let is_reported = |case: &&TestedCase| !case.has_passed() || !case.updated_expectations.is_empty();
        for case in file.cases.iter().filter(is_reported) {
            text.push_str(&format!("\n{}: {}\n", file.name, case.name));
            for unmet in &case.updated_expectations {
                append_failure(&file.name, unmet, ["before", "now", "help"], &mut text);
            }
            for unmet in &case.failures {
                append_failure(&file.name, unmet, ["expected", "actual", "help"], &mut text);
            }
        }
    }
    for covered in files.iter().filter_map(|file| file.coverage.as_ref()) {
        text.push('\n');
        append_coverage(covered, &mut text);
    }
    for changed in files.iter().filter_map(|file| file.mutants.as_ref()) {
        text.push('\n');
        append_mutants(changed, color, &mut text);
    }
    for suggested in files.iter().filter_map(|file| file.suggestions.as_ref()) {
        let cases = format_count(suggested.cases as u64, "case");
        text.push_str(&format!("\n{}: {cases} suggested\n", suggested.file));
        for gap in &suggested.unresolved_gaps {
            text.push_str(&format!("  no case was found for this: {gap}\n"));
        }
    }
    let (passed, failed) = count_passed_and_failed(files);
    let cases = format_count((passed + failed) as u64, "case");
    let time = format!("in {took:.3} s");
    let time = if color { format!("{QUIET}{time}{QUIET:#}") } else { time };
    text.push_str(&format!("\n{cases}: {passed} passed, {failed} failed, {time}\n"));
    text
}

/// Renders the suggested cases, with the names of the files if there are several.
pub fn render_suggestions(files: &[TestedFile]) -> String {
    let suggested = files.iter().filter_map(|file| file.suggestions.as_ref());
    let suggested: Vec<&SuggestedCases> = suggested.filter(|one| one.cases > 0).collect();
    let text = |one: &&SuggestedCases| match suggested.len() {
        1 => one.yaml.clone(),
        _ => format!("# {}\n{}", one.file, one.yaml),
    };
    suggested.iter().map(text).collect::<Vec<_>>().join("\n")
}

/// Appends an expectation that is not met. `words` label the expected value, the actual value and the help.
fn append_failure(file: &str, unmet: &FailedExpectation, words: [&str; 3], text: &mut String) {
    text.push_str(&format!("  {file}:{}:{}: {}\n", unmet.line, unmet.column, unmet.what));
    let parts = [&unmet.expected, &unmet.actual, &unmet.help];
    for (word, part) in words.into_iter().zip(parts) {
        if let Some(part) = part {
            text.push_str(&format!("    {word:<8}  {}\n", part.replace('\n', "\n              ")));
        }
    }
}

/// Appends the coverage of an ensemble with its gaps.
fn append_coverage(covered: &EnsembleCoverage, text: &mut String) {
    let counts = covered.counts.iter();
    let counts: Vec<String> = counts
        .map(|(what, reached, all)| format!("{what} {reached}/{all}"))
        .collect();
    text.push_str(&format!("coverage of {}: {}\n", covered.ensemble, counts.join(", ")));
    for gap in &covered.gaps {
        let place = gap
            .place
            .map_or_else(String::new, |(line, column)| format!(":{line}:{column}"));
        text.push_str(&format!("  {}{place}: {}\n", covered.ensemble, gap.what));
    }
    if !covered.is_complete {
        text.push_str("  not all conversations were explored, so more may be possible, or less\n");
    }
}

/// Appends the mutants, surviving ones first.
fn append_mutants(changed: &EnsembleMutants, color: bool, text: &mut String) {
    let file = &changed.ensemble;
    if let Some(reason) = &changed.not_tried_because {
        text.push_str(&format!("changes of {file}: none was tried, because {reason}\n"));
        return;
    }
    let [noticed, survived, equivalent, not_tried] = changed.count_by_status();
    text.push_str(&format!("changes of {file}: {noticed} noticed, {survived} survived"));
    if equivalent > 0 {
        text.push_str(&format!(", {equivalent} left out that no case can notice"));
    }
    if not_tried > 0 {
        text.push_str(&format!(", {not_tried} not tried in time"));
    }
    text.push('\n');
    let mut line = |word: &str, (line, column): (usize, usize), told: &str| {
        text.push_str(&format!("  {word} {file}:{line}:{column}: {told}\n"));
    };
    let survived = if color {
        format!("{BAD}SURVIVED{BAD:#}")
    } else {
        "SURVIVED".to_owned()
    };
    for mutant in changed
        .mutants
        .iter()
        .filter(|one| one.status == MutantStatus::Survived)
    {
        line(&survived, mutant.place, &mutant.describe_change());
    }
    for mutant in &changed.mutants {
        if let MutantStatus::Killed(cases) = &mutant.status {
            line(
                "noticed ",
                mutant.place,
                &format!("{}, by {}", mutant.describe_change(), format_case_names(cases)),
            );
        }
    }
}

/// Formats the first names and the number of the others.
fn format_case_names(cases: &[String]) -> String {
    const SHOWN: usize = 3;
    let names: Vec<String> = cases.iter().take(SHOWN).map(|name| format!("\"{name}\"")).collect();
    match cases.len().saturating_sub(SHOWN) {
        0 => names.join(", "),
        more => format!("{} and {}", names.join(", "), format_count(more as u64, "other case")),
    }
}
