//! The counts of a batch, failures first, and the causes of failures.

use std::collections::{BTreeMap, HashMap};

use ensemble_core::conversation::CompletionReason;

use super::entry::{ExhaustedRowPolicy, RowStatus};
use super::{BatchEntry, TableLine};

/// The number of rows with each status.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RowStatusCounts {
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

impl RowStatusCounts {
    /// Counts rows by their entries. A row without an entry has not ended.
    pub fn from_entries<'a>(entries: impl Iterator<Item = Option<&'a BatchEntry>>, limits: ExhaustedRowPolicy) -> Self {
        let mut counts = Self::default();
        entries.for_each(|entry| counts.count_entry(entry, limits));
        counts
    }

    /// Counts one row under its status. A waiting row is counted under the agents whose questions are open.
    fn count_entry(&mut self, entry: Option<&BatchEntry>, limits: ExhaustedRowPolicy) {
        self.rows += 1;
        match entry.map_or(RowStatus::Left, |entry| entry.status(limits)) {
            RowStatus::Failed => self.failed += 1,
            RowStatus::Limited => self.limited += 1,
            RowStatus::Succeeded => self.succeeded += 1,
            RowStatus::Left => self.left += 1,
            RowStatus::Waiting => {
                let agent = entry.map(BatchEntry::waiting_agent_names).unwrap_or_default();
                *self.waiting.entry(agent).or_default() += 1;
            }
        }
    }

    /// Returns the number of rows that wait for an answer.
    pub fn count_waiting_rows(&self) -> usize {
        self.waiting.values().sum()
    }

    /// Formats the counts that are not 0, failures first: `5 failed · 75 wait for gate · 220 completed`.
    pub fn to_summary_line(&self) -> String {
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

/// Rows with the same cause, with one example of the cause and of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowCauseGroup {
    /// The outcome with its cause: `agent_failed: sorter: HTTP 500`. Words that differ from row to row are `…`.
    pub cause: String,
    /// The numbers of the rows.
    pub rows: Vec<usize>,
    /// The run of the first row.
    pub run: String,
}

/// Groups the rows that failed or reached a limit by cause, the largest group first. Quoted texts and words with digits do not distinguish
/// causes.
pub fn group_failures<'a>(lines: impl Iterator<Item = TableLine<'a>>) -> Vec<RowCauseGroup> {
    group_rows_by_cause(lines, |entry, limits| {
        let is_failure = matches!(entry.status(limits), RowStatus::Failed | RowStatus::Limited);
        is_failure.then(|| describe_short_cause(entry))
    })
}

/// Groups the rows that succeeded with exhausted agents, failed parts or failed tool calls, the largest group first.
pub fn group_open_work<'a>(lines: impl Iterator<Item = TableLine<'a>>) -> Vec<RowCauseGroup> {
    group_rows_by_cause(lines, |entry, limits| {
        let open_work = entry.describe_open_work();
        open_work.filter(|_| entry.status(limits) == RowStatus::Succeeded)
    })
}

/// Groups the rows for which `describe` returns a text by the shape of the text.
fn group_rows_by_cause<'a>(
    lines: impl Iterator<Item = TableLine<'a>>,
    describe: impl Fn(&BatchEntry, ExhaustedRowPolicy) -> Option<String>,
) -> Vec<RowCauseGroup> {
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut groups: Vec<(Vec<CauseWord>, RowCauseGroup)> = Vec::new();
    for line in lines {
        let Some(entry) = line.entry else { continue };
        let Some(cause) = describe(entry, line.limits) else {
            continue;
        };
        let words = split_cause(&cause);
        let shape: String = words.iter().map(CauseWord::grouping_text).collect();
        let at = *places.entry(shape).or_insert(groups.len());
        match groups.get_mut(at) {
            Some((known, group)) => {
                let pairs = known.iter_mut().zip(&words);
                pairs.for_each(|(known, word)| known.is_same &= known.text == word.text);
                group.rows.push(line.number);
            }
            None => {
                let group = RowCauseGroup {
                    cause: String::new(),
                    rows: vec![line.number],
                    run: entry.run.clone(),
                };
                groups.push((words, group));
            }
        }
    }
    let with_cause = |(words, group): (Vec<CauseWord>, RowCauseGroup)| RowCauseGroup {
        cause: words.iter().map(CauseWord::common_text).collect(),
        ..group
    };
    let mut groups: Vec<RowCauseGroup> = groups.into_iter().map(with_cause).collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.rows.len()));
    groups
}

/// The maximum number of characters of a cause.
const MAX_CAUSE_CHARS: usize = 160;

/// The words after which a number distinguishes causes: `HTTP 500`, `exit code 3`, `answered 503`.
const WORDS_BEFORE_CODES: [&str; 8] = ["http", "code", "status", "answered", "error", "errno", "signal", "turn"];

/// The replacement of a word that differs from row to row.
const DIFFERENT_WORD_MARK: &str = "…";

/// Describes the cause in one line: the outcome and the first line of its details, and the last line of a program's output.
pub(super) fn describe_short_cause(entry: &BatchEntry) -> String {
    let detail = entry.detail.as_deref().unwrap_or_default();
    let mut lines: Vec<&str> = detail.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if !entry.exhausted.is_empty() && lines.len() > 1 {
        // The last line names the exhausted agents.
        lines.pop();
    }
    let detail = match lines.as_slice() {
        [first, .., last] if first.ends_with(':') => format!("{first} {last}"),
        [first, ..] => (*first).to_owned(),
        [] => String::new(),
    };
    let cause = match detail.is_empty() {
        true => entry.outcome.to_string(),
        // The details of an outcome without details of its own begin with the outcome.
        false if entry.outcome == CompletionReason::Completed && detail.starts_with("completed") => detail,
        false => format!("{}: {detail}", entry.outcome),
    };
    match cause.char_indices().nth(MAX_CAUSE_CHARS) {
        Some((end, _)) => format!("{}…", &cause[..end]),
        None => cause,
    }
}

/// A word of a cause, or the characters between two words.
#[derive(Debug)]
struct CauseWord {
    text: String,
    /// True if rows with another word at this position have the same cause.
    is_variable: bool,
    /// True if all rows of the group have this word at this position.
    is_same: bool,
}

impl CauseWord {
    /// Returns the text for comparing causes: the word, or a placeholder if the word is variable.
    fn grouping_text(&self) -> &str {
        if self.is_variable {
            DIFFERENT_WORD_MARK
        } else {
            &self.text
        }
    }

    /// Returns the word, or a placeholder if the word differs between the rows of the group.
    fn common_text(&self) -> &str {
        if self.is_same { &self.text } else { DIFFERENT_WORD_MARK }
    }
}

/// Splits a cause into words. Quoted texts and words with digits are variable, except codes, the outcome and the agent after it.
fn split_cause(cause: &str) -> Vec<CauseWord> {
    let mut words = Vec::new();
    let mut rest = cause;
    let (mut is_after_outcome, mut is_after_name) = (false, false);
    let mut word_before = String::new();
    while let Some(first) = rest.chars().next() {
        let (length, can_differ) = match first {
            '"' => match rest[1..].find('"') {
                Some(end) => (end + 2, true),
                None => (1, false),
            },
            first if first.is_alphanumeric() => {
                let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '-' && letter != '_');
                let word = &rest[..end.unwrap_or(rest.len())];
                let is_code = is_code_number(word) && WORDS_BEFORE_CODES.contains(&word_before.as_str());
                word_before = word.to_lowercase();
                let is_name = is_after_outcome && !std::mem::replace(&mut is_after_name, is_after_outcome);
                (word.len(), word.chars().any(char::is_numeric) && !is_code && !is_name)
            }
            first => {
                is_after_outcome |= first == ':';
                (first.len_utf8(), false)
            }
        };
        words.push(CauseWord {
            text: rest[..length].to_owned(),
            is_variable: can_differ && is_after_outcome,
            is_same: true,
        });
        rest = &rest[length..];
    }
    words
}

/// Returns whether a word is a number of at most three digits.
fn is_code_number(word: &str) -> bool {
    word.len() <= 3 && word.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use std::borrow::Cow;

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
            nested_failures: Vec::new(),
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
        let counts = RowStatusCounts::from_entries(entries.iter().map(Option::as_ref), ExhaustedRowPolicy::Accepted);
        assert_eq!(
            counts.to_summary_line(),
            "1 failed · 1 waits for a person · 1 cut off by a limit · 2 left · 1 completed"
        );
        assert_eq!((counts.rows, counts.count_waiting_rows()), (6, 1));
    }

    #[test]
    fn causes_are_equal_if_they_differ_only_in_identifiers() {
        let failed = |detail: &str| entry(CompletionReason::AgentFailed, detail);
        let entries = [
            failed("sorter failed: HTTP 500: request req_8f3a2b1c failed after 1532 ms"),
            failed("sorter failed: exit code 3"),
            failed("sorter failed: HTTP 500: request req_99aa00bb failed after 20411 ms"),
            failed("sorter failed: HTTP 503: \"overloaded\" (request 12 of gpt-4o)"),
            failed("sorter failed: HTTP 503: \"overloaded\" (request 13 of gpt-4o)"),
            failed("sorter2 failed: HTTP 503: \"overloaded\" (request 14 of gpt-4o)"),
            failed("sorter failed: exit code 4"),
            failed("sorter failed: stderr ends with:\n  Traceback\n  KeyError: 'x'\n"),
            entry(CompletionReason::Completed, ""),
        ];
        let row = BatchRow::default();
        let lines = (1..).zip(&entries).map(|(number, entry)| TableLine {
            number,
            row: Cow::Borrowed(&row),
            entry: Some(entry),
            tries: None,
            limits: ExhaustedRowPolicy::Accepted,
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
                (
                    "agent_failed: sorter failed: HTTP 503: \"overloaded\" (request … of gpt-4o)",
                    &[4, 5]
                ),
                ("agent_failed: sorter failed: exit code 3", &[2]),
                (
                    "agent_failed: sorter2 failed: HTTP 503: \"overloaded\" (request 14 of gpt-4o)",
                    &[6]
                ),
                ("agent_failed: sorter failed: exit code 4", &[7]),
                ("agent_failed: sorter failed: stderr ends with: KeyError: 'x'", &[8]),
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
                    row: Cow::Borrowed(&row),
                    entry: Some(entry),
                    tries: None,
                    limits,
                })
            };
            let counts = RowStatusCounts::from_entries(entries.iter().map(Some), limits);
            let groups = [group_failures(lines()), group_open_work(lines())];
            let texts = groups.map(|groups| groups.into_iter().map(|group| group.cause).collect::<Vec<_>>());
            (counts.to_summary_line(), texts)
        };
        let (fetch, writer) = (
            "1 of 3 parts of `fetch` failed".to_owned(),
            "`writer` reached `max_turns: 3` while it still had work".to_owned(),
        );
        assert_eq!(
            report(ExhaustedRowPolicy::Accepted),
            ("2 completed".to_owned(), [vec![], vec![fetch.clone(), writer]])
        );
        let cause = "completed; it had work".to_owned();
        assert_eq!(
            report(ExhaustedRowPolicy::Refused),
            (
                "1 cut off by a limit · 1 completed".to_owned(),
                [vec![cause], vec![fetch]]
            )
        );
    }
}
