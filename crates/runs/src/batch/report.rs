//! The counts of a batch, failures first, and the causes of failures.

use std::collections::BTreeMap;

use ensemble_core::conversation::CompletionReason;

use super::entry::{ExhaustedRows, RowStanding};
use super::{BatchEntry, TableLine};

/// The numbers of rows by their standing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BatchCounts {
    /// All rows.
    pub rows: usize,
    /// Rows whose runs failed.
    pub failed: usize,
    /// Rows that wait, by the agents whose questions wait for an answer.
    pub waiting: BTreeMap<String, usize>,
    /// Rows that a limit cut off.
    pub limited: usize,
    /// Rows that succeeded.
    pub succeeded: usize,
    /// Rows that have not ended.
    pub left: usize,
}

impl BatchCounts {
    /// Counts rows by their results; `None`: the row has not ended.
    pub fn from_entries<'a>(entries: impl Iterator<Item = Option<&'a BatchEntry>>, limits: ExhaustedRows) -> Self {
        let mut counts = Self::default();
        entries.for_each(|entry| counts.add(entry, limits));
        counts
    }

    fn add(&mut self, entry: Option<&BatchEntry>, limits: ExhaustedRows) {
        self.rows += 1;
        match entry.map_or(RowStanding::Left, |entry| entry.standing(limits)) {
            RowStanding::Failed => self.failed += 1,
            RowStanding::Limited => self.limited += 1,
            RowStanding::Succeeded => self.succeeded += 1,
            RowStanding::Left => self.left += 1,
            RowStanding::Waiting => {
                let agent = entry.map(BatchEntry::waiting_for).unwrap_or_default();
                *self.waiting.entry(agent).or_default() += 1;
            }
        }
    }

    /// Returns the number of rows that wait for an answer.
    pub fn waiting_rows(&self) -> usize {
        self.waiting.values().sum()
    }

    /// Returns the counts that are not 0, failures first: `5 failed · 75 wait for gate · 220 completed`.
    pub fn to_words(&self) -> String {
        let waiting = self.waiting.iter().map(|(agent, count)| {
            let verb = if *count == 1 { "waits" } else { "wait" };
            (*count, format!("{verb} for {agent}"))
        });
        let words = std::iter::once((self.failed, "failed".to_owned()))
            .chain(waiting)
            .chain([
                (self.limited, "cut off by a limit".to_owned()),
                (self.left, "left".to_owned()),
                (self.succeeded, "completed".to_owned()),
            ]);
        let words: Vec<String> = words
            .filter(|(count, _)| *count > 0)
            .map(|(count, words)| format!("{count} {words}"))
            .collect();
        words.join(" · ")
    }
}

/// Rows that failed for the same cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailureGroup {
    /// The outcome with its cause: `agent_failed: sorter: HTTP 500`. Parts that differ from row to row are `…`.
    pub cause: String,
    /// The numbers of the rows.
    pub rows: Vec<usize>,
    /// The place of the first row.
    pub place: String,
    /// The run of the first row.
    pub run: String,
}

/// Groups the rows that failed or that a limit cut off by their causes, the largest group first.
pub fn group_failures<'a>(lines: impl Iterator<Item = TableLine<'a>>) -> Vec<FailureGroup> {
    group_rows(lines, |entry, limits| {
        let is_failure = matches!(entry.standing(limits), RowStanding::Failed | RowStanding::Limited);
        is_failure.then(|| describe_cause(entry))
    })
}

/// Groups the rows that succeeded although agents were exhausted, or parts or tool calls failed, the largest group first.
pub fn group_open_work<'a>(lines: impl Iterator<Item = TableLine<'a>>) -> Vec<FailureGroup> {
    group_rows(lines, |entry, limits| {
        let open_work = entry.describe_open_work();
        open_work.filter(|_| entry.standing(limits) == RowStanding::Succeeded)
    })
}

/// Groups the rows for which `describe` returns a text by the text.
fn group_rows<'a>(
    lines: impl Iterator<Item = TableLine<'a>>,
    describe: impl Fn(&BatchEntry, ExhaustedRows) -> Option<String>,
) -> Vec<FailureGroup> {
    let mut groups: Vec<FailureGroup> = Vec::new();
    for line in lines {
        let Some(entry) = line.entry else { continue };
        let Some(cause) = describe(entry, line.limits) else {
            continue;
        };
        match groups.iter_mut().find(|group| group.cause == cause) {
            Some(group) => group.rows.push(line.number),
            None => groups.push(FailureGroup {
                cause,
                rows: vec![line.number],
                place: line.row.place.clone(),
                run: entry.run.clone(),
            }),
        }
    }
    groups.sort_by_key(|group| std::cmp::Reverse(group.rows.len()));
    groups
}

/// The highest number of characters of a cause.
const MAX_CAUSE: usize = 160;
/// The number of digits from which a number is taken for an identifier or a measurement.
const LONG_NUMBER: usize = 4;

/// Returns the outcome and the first line of its details, without what differs from row to row. A line that announces the
/// output of a program is followed by the last line of the output.
pub(super) fn describe_cause(entry: &BatchEntry) -> String {
    let detail = entry.detail.as_deref().unwrap_or_default();
    let mut lines: Vec<&str> = detail.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if !entry.exhausted.is_empty() && lines.len() > 1 {
        // The last line names the exhausted agents.
        lines.pop();
    }
    let cause_text = match lines.as_slice() {
        [first, .., last] if first.ends_with(':') => format!("{first} {last}"),
        [first, ..] => (*first).to_owned(),
        [] => String::new(),
    };
    let detail = mask_variable_parts(&cause_text);
    let cause = match detail.is_empty() {
        true => entry.outcome.to_string(),
        // The details of an outcome without details of its own begin with the outcome.
        false if entry.outcome == CompletionReason::Completed && detail.starts_with("completed") => detail,
        false => format!("{}: {detail}", entry.outcome),
    };
    match cause.char_indices().nth(MAX_CAUSE) {
        Some((end, _)) => format!("{}…", &cause[..end]),
        None => cause,
    }
}

/// Replaces quoted texts, identifiers with digits and long numbers by `…`.
fn mask_variable_parts(text: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (length, is_variable) = match first {
            '"' => match rest[1..].find('"') {
                Some(end) => (end + 2, true),
                None => (1, false),
            },
            first if first.is_alphanumeric() => {
                let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '-' && letter != '_');
                let word = &rest[..end.unwrap_or(rest.len())];
                (word.len(), is_identifier(word))
            }
            first => (first.len_utf8(), false),
        };
        masked.push_str(if is_variable { "…" } else { &rest[..length] });
        rest = &rest[length..];
    }
    masked
}

/// Returns whether a word is an identifier or a measurement: many digits, or digits among letters of a long word.
fn is_identifier(word: &str) -> bool {
    let digits = word.chars().filter(char::is_ascii_digit).count();
    let is_number = digits == word.chars().count();
    match is_number {
        true => digits >= LONG_NUMBER,
        false => digits >= LONG_NUMBER || (digits > 0 && word.chars().count() >= 8),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::BatchRow;
    use super::*;

    fn entry(outcome: CompletionReason, detail: &str) -> BatchEntry {
        BatchEntry {
            id: "row-1".to_owned(),
            run: "row-1-v12345678".to_owned(),
            outcome,
            success: None,
            exhausted: Vec::new(),
            failed_work: Vec::new(),
            detail: Some(detail.to_owned()).filter(|detail| !detail.is_empty()),
            questions: Vec::new(),
            turns: 1,
            result: json!(null),
            usage: json!({}),
        }
    }

    #[test]
    fn failures_are_named_first_and_apart_from_rows_that_wait() {
        let entries = [
            Some(entry(CompletionReason::Completed, "")),
            Some(entry(CompletionReason::WaitingForInput, "")),
            Some(entry(CompletionReason::AgentFailed, "x")),
            Some(entry(CompletionReason::Timeout, "")),
            Some(entry(CompletionReason::Cancelled, "")),
            None,
        ];
        let counts = BatchCounts::from_entries(entries.iter().map(Option::as_ref), ExhaustedRows::Accepted);
        assert_eq!(
            counts.to_words(),
            "1 failed · 1 waits for a person · 1 cut off by a limit · 2 left · 1 completed"
        );
        assert_eq!((counts.rows, counts.waiting_rows()), (6, 1));
    }

    #[test]
    fn causes_are_equal_if_they_differ_only_in_identifiers() {
        let failed = |detail: &str| entry(CompletionReason::AgentFailed, detail);
        let entries = [
            failed("sorter failed: HTTP 500: request req_8f3a2b1c failed after 1532 ms"),
            failed("sorter failed: exit code 3"),
            failed("sorter failed: HTTP 500: request req_99aa00bb failed after 20411 ms"),
            failed("sorter failed: HTTP 503: \"overloaded\""),
            failed("sorter failed: stderr ends with:\n  Traceback\n  KeyError: 'x'\n"),
            entry(CompletionReason::Completed, ""),
        ];
        let row = BatchRow::default();
        let lines = (1..).zip(&entries).map(|(number, entry)| TableLine {
            number,
            row: &row,
            entry: Some(entry),
            tries: None,
            limits: ExhaustedRows::Accepted,
        });
        let groups = group_failures(lines);
        let causes: Vec<(&str, &[usize])> = groups.iter().map(|group| (&*group.cause, &*group.rows)).collect();
        assert_eq!(
            causes,
            [
                (
                    "agent_failed: sorter failed: HTTP 500: request … failed after … ms",
                    &[1, 3][..]
                ),
                ("agent_failed: sorter failed: exit code 3", &[2]),
                ("agent_failed: sorter failed: HTTP 503: …", &[4]),
                ("agent_failed: sorter failed: stderr ends with: KeyError: 'x'", &[5]),
            ]
        );
    }

    #[test]
    fn exhausted_agents_and_failed_work_are_reported_also_if_the_row_succeeded() {
        let parts = serde_json::from_value(json!([
            {"agent": "fetch", "parts": {"failed": 1, "count": 3}, "tool_calls": {"failed": 0, "count": 0}}
        ]));
        let exhausted = serde_json::from_value(json!([{"agent": "writer", "limit": "max_turns", "count": 3}]));
        let entries = [
            BatchEntry {
                failed_work: parts.expect("failed work"),
                ..entry(CompletionReason::Completed, "")
            },
            BatchEntry {
                exhausted: exhausted.expect("an exhausted agent"),
                ..entry(CompletionReason::Completed, "completed; it had work")
            },
        ];
        let row = BatchRow::default();
        let report = |limits| {
            let lines = || {
                (1..).zip(&entries).map(|(number, entry)| TableLine {
                    number,
                    row: &row,
                    entry: Some(entry),
                    tries: None,
                    limits,
                })
            };
            let counts = BatchCounts::from_entries(entries.iter().map(Some), limits);
            let groups = [group_failures(lines()), group_open_work(lines())];
            let texts = groups.map(|groups| groups.into_iter().map(|group| group.cause).collect::<Vec<_>>());
            (counts.to_words(), texts)
        };
        let (fetch, writer) = (
            "1 of 3 parts of `fetch` failed".to_owned(),
            "`writer` reached `max_turns: 3` while it still had work".to_owned(),
        );
        assert_eq!(
            report(ExhaustedRows::Accepted),
            ("2 completed".to_owned(), [vec![], vec![fetch.clone(), writer]])
        );
        let cause = "completed; it had work".to_owned();
        assert_eq!(
            report(ExhaustedRows::Refused),
            (
                "1 cut off by a limit · 1 completed".to_owned(),
                [vec![cause], vec![fetch]]
            )
        );
    }
}
