//! For people: a line for each case, then the failures, then what is not reached.

use anstyle::{AnsiColor, Style};

use super::{FileCoverage, TestedFile, Unmet, totals};
use crate::report::count;
use crate::report::door::Ink;

const GOOD: Ink = Ink::of(AnsiColor::Green.on_default().bold());
const BAD: Ink = Ink::of(AnsiColor::Red.on_default().bold());
const QUIET: Ink = Ink::of(Style::new().dimmed());

/// The text. `took` is the whole time in seconds.
pub fn human(files: &[TestedFile], took: f64, color: bool) -> String {
    let mut text = String::new();
    for file in files {
        for case in &file.cases {
            let word = match (case.passes(), color) {
                (true, true) => format!("{GOOD}PASS{GOOD:#}"),
                (false, true) => format!("{BAD}FAIL{BAD:#}"),
                (true, false) => "PASS".to_owned(),
                (false, false) => "FAIL".to_owned(),
            };
            text.push_str(&format!("{word} {}: {}\n", file.name, case.name));
        }
    }
    for file in files {
        for case in file.cases.iter().filter(|case| !case.passes()) {
            text.push_str(&format!("\n{}: {}\n", file.name, case.name));
            for unmet in &case.failures {
                failure(&file.name, unmet, &mut text);
            }
        }
    }
    for covered in files.iter().filter_map(|file| file.coverage.as_ref()) {
        text.push('\n');
        coverage(covered, &mut text);
    }
    let (passed, failed) = totals(files);
    let cases = count((passed + failed) as u64, "case");
    let time = format!("in {took:.3} s");
    let time = if color { format!("{QUIET}{time}{QUIET:#}") } else { time };
    text.push_str(&format!("\n{cases}: {passed} passed, {failed} failed, {time}\n"));
    text
}

fn failure(file: &str, unmet: &Unmet, text: &mut String) {
    text.push_str(&format!("  {file}:{}:{}: {}\n", unmet.line, unmet.column, unmet.what));
    let parts = [
        ("expected", &unmet.expected),
        ("actual", &unmet.actual),
        ("help", &unmet.help),
    ];
    for (word, part) in parts {
        if let Some(part) = part {
            text.push_str(&format!("    {word:<8}  {}\n", part.replace('\n', "\n              ")));
        }
    }
}

fn coverage(covered: &FileCoverage, text: &mut String) {
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
