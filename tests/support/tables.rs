//! Tables of the project's documents.

use super::files::read;

/// The rows of the first table after the line that holds `mark`, as cells without white space around them.
pub(crate) fn table(document: &str, mark: &str) -> Vec<Vec<String>> {
    let text = read(document);
    let after = text.lines().skip_while(|line| !line.contains(mark)).skip(1);
    let rows: Vec<Vec<String>> = after
        .skip_while(|line| !line.starts_with('|'))
        .take_while(|line| line.starts_with('|'))
        .skip(2)
        .map(|line| {
            let line = line.trim_matches('|').replace("\\|", "\u{0}");
            line.split('|').map(|cell| cell.trim().replace('\u{0}', "|")).collect()
        })
        .collect();
    assert!(!rows.is_empty(), "{document} has no table after {mark}");
    rows
}

/// The parts of a text that stand between backticks.
pub(crate) fn code_in(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}
