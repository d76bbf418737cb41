//! The parts of an execution, for users: counts in one line, failures, and few parts in full.

use std::collections::BTreeMap;

use ensemble_core::conversation::PartAttemptEnded;
use ensemble_history::OutputView;
use ensemble_language::ensemble::ForEachSpec;
use serde_json::Value;

use super::format::{BAD, CAUTION, DIM, ShortenedText, failure_kind_word, format_count, format_duration};
use super::values::{self, render_value};

/// The maximum number of parts that are listed individually by default, and of listed failures.
const MAX_LISTED_PARTS: usize = 8;

/// A summary of the parts of one execution, in the order of the list.
#[derive(Debug)]
pub(super) struct PartsSummary<'p> {
    last_by_part: BTreeMap<u32, &'p PartAttemptEnded>,
    /// The number of attempts that another attempt followed.
    retries: usize,
    /// The number of items.
    item_count: usize,
}

impl<'p> PartsSummary<'p> {
    /// Summarizes the parts of these events. Returns `None` without events.
    pub(super) fn from_events(parts: impl IntoIterator<Item = &'p PartAttemptEnded>) -> Option<Self> {
        let mut summary = Self {
            last_by_part: BTreeMap::new(),
            retries: 0,
            item_count: 0,
        };
        for part in parts {
            summary.item_count = part.count as usize;
            if part.is_final() {
                summary.last_by_part.insert(part.part, part);
            } else {
                summary.retries += 1;
            }
        }
        (summary.item_count > 0).then_some(summary)
    }

    /// Returns the first failed part in the order of the list.
    pub(super) fn first_failed_part(&self) -> Option<&'p PartAttemptEnded> {
        self.failed_parts().next()
    }

    /// Iterates over the failed parts.
    fn failed_parts(&self) -> impl Iterator<Item = &'p PartAttemptEnded> {
        self.last_by_part
            .values()
            .copied()
            .filter(|part| part.failure().is_some())
    }

    /// Renders the counts: `12 parts: 10 succeeded, 2 failed`. With `is_over`, open parts count as stopped.
    pub(super) fn render_part_counts(&self, is_over: bool) -> String {
        let failed = self.failed_parts().count();
        let succeeded = self.last_by_part.len() - failed;
        let reused = self.last_by_part.values().filter(|part| part.reused).count();
        let open = self.item_count.saturating_sub(self.last_by_part.len());
        let mut words = vec![format!("{succeeded} succeeded")];
        if reused > 0 {
            words[0].push_str(&format!(" ({reused} reused)"));
        }
        let other_counts = [(failed, "failed"), (open, if is_over { "stopped" } else { "open" })];
        words.extend(
            other_counts
                .iter()
                .filter(|(number, _)| *number > 0)
                .map(|(number, word)| format!("{number} {word}")),
        );
        if self.retries > 0 {
            words.push(match self.retries {
                1 => "1 attempt repeated".to_owned(),
                retries => format!("{retries} attempts repeated"),
            });
        }
        format!("{}: {}", format_count(self.item_count as u64, "part"), words.join(", "))
    }

    /// Renders one line for each part of a short list, or for each failure of a long list. `whole` lists all parts.
    pub(super) fn render_part_lines(&self, whole: bool) -> ShortenedText {
        let mut shortened_text = ShortenedText::default();
        let is_short = whole || self.last_by_part.len() <= MAX_LISTED_PARTS;
        let mut failures = 0;
        for part in self.last_by_part.values() {
            if let Some(failure) = part.failure() {
                failures += 1;
                if whole || failures <= MAX_LISTED_PARTS {
                    let error = failure.error.trim_end();
                    let first = error.lines().next().unwrap_or_default();
                    shortened_text.has_cut |= !whole && first != error;
                    let error = match whole || first == error {
                        true => error,
                        false => cut_announcement(first),
                    };
                    let kind = failure_kind_word(failure.kind);
                    shortened_text.text.push_str(&format!(
                        "{DIM}[{}]{DIM:#} {BAD}failed{BAD:#} ({kind}): {error}\n",
                        part_key_on_one_line(part)
                    ));
                }
            } else if is_short {
                let output = part
                    .output()
                    .map_or_else(String::new, |output| render_output_line(output, whole));
                let took = match (whole, part.reused) {
                    (true, true) => format!(" {DIM}reused{DIM:#}"),
                    (true, false) => format!(" {DIM}{}{DIM:#}", format_duration(part.execution_time)),
                    (false, _) => String::new(),
                };
                shortened_text.has_cut |=
                    !whole && part.output().is_some_and(|output| values::has_shortened_keys(output));
                shortened_text.text.push_str(&format!(
                    "{DIM}[{}]{DIM:#} {output}{took}\n",
                    part_key_on_one_line(part)
                ));
            } else {
                shortened_text.has_cut = true;
            }
        }
        if failures > MAX_LISTED_PARTS && !whole {
            shortened_text.has_cut = true;
            shortened_text.text.push_str(&format!(
                "{CAUTION}and {} more failed{CAUTION:#}\n",
                failures - MAX_LISTED_PARTS
            ));
        }
        shortened_text
    }
}

/// Removes the end of the line that announces lines after it: `; stdout ends with:`.
fn cut_announcement(line: &str) -> &str {
    let announcing = line.strip_suffix(':').and_then(|line| line.rsplit_once("; "));
    announcing.map_or(line, |(before, _)| before)
}

/// Removes the keys that `for_each` itself adds to an output.
pub(super) fn without_part_keys(output: &Value) -> Value {
    let entries = output.as_object().into_iter().flatten();
    let own_entries = entries.filter(|(key, _)| !ForEachSpec::OUTPUT_KEYS.contains(&key.as_str()));
    Value::Object(own_entries.map(|(key, value)| (key.clone(), value.clone())).collect())
}

/// Returns the warnings of all attempts of the parts, in the order of the list, each with the key of its part.
pub(super) fn list_part_warnings(parts: &[PartAttemptEnded]) -> Vec<String> {
    let mut in_order: Vec<&PartAttemptEnded> = parts.iter().filter(|part| !part.warnings.is_empty()).collect();
    in_order.sort_by_key(|part| (part.part, part.attempt));
    let list = |part: &PartAttemptEnded| {
        let key = part_key_on_one_line(part);
        let warnings = part.warnings.iter();
        warnings.map(|warning| format!("[{key}] {warning}")).collect::<Vec<_>>()
    };
    in_order.into_iter().flat_map(list).collect()
}

/// Returns the key of a part on one line, shortened.
fn part_key_on_one_line(part: &PartAttemptEnded) -> String {
    values::shorten_text(&part.key.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Renders an output on one line: its response, or its keys.
fn render_output_line(output: &Value, whole: bool) -> String {
    let text = match output.as_object() {
        Some(object) if object.len() == 1 && object.contains_key("response") => render_value(&object["response"], true),
        Some(object) => {
            let is_told = |key: &str| key != "response" || OutputView::new(output).response.is_some();
            let shown_entries = object.iter().filter(|(key, _)| is_told(key));
            let entries = shown_entries.map(|(key, value)| format!("{key}: {}", render_value(value, whole)));
            entries.collect::<Vec<_>>().join(", ")
        }
        None => output.to_string(),
    };
    match whole {
        true => text,
        false => values::shorten_text(&text.split_whitespace().collect::<Vec<_>>().join(" ")),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use ensemble_core::conversation::ExecutionEnd;
    use ensemble_language::data::{ExecutionFailure, FailureKind};

    fn part(index: u32, count: u32, error: Option<&str>) -> PartAttemptEnded {
        PartAttemptEnded {
            turn: 1,
            agent: "a".into(),
            execution: 1,
            attempt: 1,
            part: index,
            key: format!("k{index}").into(),
            count,
            item_digest: "".into(),
            end: match error {
                Some(error) => ExecutionEnd::Failed(ExecutionFailure::new(FailureKind::Exit, error)),
                None => ExecutionEnd::Succeeded(Arc::new(serde_json::json!({"n": index}))),
            },
            execution_time: 0.5,
            usage: None,
            stderr: String::new(),
            warnings: Vec::new(),
            exchange: Vec::new(),
            pause: None,
            reused: false,
        }
    }

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn a_hundred_parts_are_one_line_and_their_failures_are_told() {
        let failed = |index: u32| [3, 70].contains(&index).then_some("no\nsuch file");
        let all: Vec<PartAttemptEnded> = (0..100).map(|index| part(index, 100, failed(index))).collect();
        let parts = PartsSummary::from_events(&all).expect("parts");
        assert_eq!(parts.render_part_counts(true), "100 parts: 98 succeeded, 2 failed");
        let lines = parts.render_part_lines(false);
        assert_eq!(plain(&lines.text), "[k3] failed (exit): no\n[k70] failed (exit): no\n");
        assert!(lines.has_cut);
        assert_eq!(
            parts.render_part_lines(true).text.lines().count(),
            102,
            "an error of two lines counts twice"
        );
        assert_eq!(parts.first_failed_part().map(|part| &*part.key), Some("k3"));
    }

    #[test]
    fn a_few_parts_are_listed() {
        let again = PartAttemptEnded {
            pause: Some(1.0),
            ..part(0, 3, Some("busy"))
        };
        let all = [part(1, 3, None), again, part(0, 3, None)];
        let parts = PartsSummary::from_events(&all).expect("parts");
        assert_eq!(
            parts.render_part_counts(true),
            "3 parts: 2 succeeded, 1 stopped, 1 attempt repeated"
        );
        assert_eq!(
            parts.render_part_counts(false),
            "3 parts: 2 succeeded, 1 open, 1 attempt repeated"
        );
        assert_eq!(plain(&parts.render_part_lines(false).text), "[k0] n: 0\n[k1] n: 1\n");
        assert!(PartsSummary::from_events([]).is_none());
    }
}
