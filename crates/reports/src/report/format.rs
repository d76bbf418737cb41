//! Styles and number formats, for all reports for users.

use anstyle::{AnsiColor, Style};

use super::sanitized_writer::TrustedStyle;
use ensemble_core::conversation::{AgentWorkCounts, AttemptFailed};
use ensemble_language::data::{ExecutionFailure, FailureKind, ModelUsage};

/// The style of names.
pub(super) const NAME: TrustedStyle = TrustedStyle::new(Style::new().bold());
/// The style of less important text.
pub(super) const DIM: TrustedStyle = TrustedStyle::new(Style::new().dimmed());
/// The style of success.
pub(super) const GOOD: TrustedStyle = TrustedStyle::new(AnsiColor::Green.on_default().bold());
/// The style of failure.
pub(super) const BAD: TrustedStyle = TrustedStyle::new(AnsiColor::Red.on_default().bold());
/// The style of warnings.
pub(super) const CAUTION: TrustedStyle = TrustedStyle::new(AnsiColor::Yellow.on_default().bold());
/// The style of turn headings.
pub(super) const TURN: TrustedStyle = TrustedStyle::new(AnsiColor::Cyan.on_default().bold());

/// A rendered text. `has_cut` is true if a part of the text was left out.
#[derive(Debug, Default)]
pub(super) struct ShortenedText {
    pub(super) text: String,
    pub(super) has_cut: bool,
}

/// Renders a failed attempt that another attempt follows: the first line of its error, or all lines with `whole`.
pub(super) fn render_retried_attempt(failed: &AttemptFailed, whole: bool) -> ShortenedText {
    let error = failed.failure.error.trim_end();
    let has_cut = !whole && error.contains('\n');
    let error = match whole {
        true => error.replace('\n', "\n    "),
        false => error.lines().next().unwrap_or_default().to_owned(),
    };
    let text = format!(
        "  {CAUTION}retry{CAUTION:#}: {} failed ({}: {error}{}), again in {}\n",
        failed.agent,
        failure_kind_word(failed.failure.kind),
        if has_cut { " …" } else { "" },
        format_duration(failed.pause),
    );
    ShortenedText { text, has_cut }
}

/// Explains the number of requests of an agent that failed, if several attempts multiplied them.
pub(super) fn explain_many_requests(
    agent: &str,
    attempts: u32,
    used: Option<ModelUsage>,
    failure: &ExecutionFailure,
) -> Option<String> {
    let requests = used?.own_requests();
    let is_of_model = failure.kind == FailureKind::Model && attempts > 1 && requests > u64::from(attempts);
    is_of_model.then(|| {
        format!(
            "{agent} made {requests} requests in {attempts} attempts: its `retry` repeats the execution, and the `retry` of its model \
             profile repeats each request"
        )
    })
}

/// Renders `failed (model)`, with the number of the attempt if there were several.
pub(super) fn render_failure_heading(failure: &ExecutionFailure, attempt: u32) -> String {
    let kind = failure_kind_word(failure.kind);
    match attempt {
        0 | 1 => format!("{BAD}failed{BAD:#} ({kind})"),
        _ => format!("{BAD}failed{BAD:#} ({kind}) in attempt {attempt}"),
    }
}

/// Renders requests, tokens and cost as short text.
pub(super) fn render_usage(usage: &ModelUsage) -> String {
    let cached = match usage.cached {
        0 => String::new(),
        cached => format!(" ({cached} from the cache)"),
    };
    let requests = format!("{}{cached}", format_count(usage.requests, "model request"));
    let cost = usage.cost.map(|cost| format!("cost {cost}"));
    let parts: Vec<String> = std::iter::once(requests)
        .chain(render_token_counts(usage))
        .chain(cost)
        .collect();
    parts.join(" · ")
}

/// Renders the input and output tokens. Returns `None` if none was counted.
pub(super) fn render_token_counts(usage: &ModelUsage) -> Option<String> {
    let estimated = if usage.estimated { ", estimated" } else { "" };
    (usage.input_tokens + usage.output_tokens > 0).then(|| {
        format!(
            "{} in, {} out{estimated}",
            format_count(usage.input_tokens, "token"),
            usage.output_tokens
        )
    })
}

/// Renders the sum of the tokens. Returns `None` if none was counted.
pub(super) fn render_token_sum(usage: &ModelUsage) -> Option<String> {
    let sum = usage.input_tokens + usage.output_tokens;
    (sum > 0).then(|| format_count(sum, "token"))
}

/// Returns the word for the failure kind, as in the journal.
pub(super) fn failure_kind_word(kind: ensemble_language::data::FailureKind) -> String {
    serde_json::to_value(kind)
        .ok()
        .and_then(|kind| kind.as_str().map(str::to_owned))
        .unwrap_or_default()
}

/// Formats a count with its noun: `1 turn`, `2 turns`.
pub fn format_count(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

/// Formats execution counts: `3 executions`, `48 executions, 1 failed`. `unfinished_parts` counts ended parts of open executions.
pub(super) fn format_executions(
    all: usize,
    failed: usize,
    unfinished_parts: usize,
    failed_work: &[AgentWorkCounts],
) -> String {
    let mut parts = vec![format_count(all as u64, "execution")];
    if unfinished_parts > 0 {
        let ended = format_count(unfinished_parts as u64, "part");
        parts[0].push_str(&format!(" and {ended} of an unfinished execution"));
    }
    if failed > 0 {
        parts.push(format!("{failed} failed"));
    }
    parts.extend(failed_work.iter().flat_map(AgentWorkCounts::list_failure_sentences));
    parts.join(", ")
}

/// Formats a duration in seconds: `3 ms`, `1.2 s`, `2 min 5 s`, `1 h 20 min`.
pub(super) fn format_duration(seconds: f64) -> String {
    // A sum of no durations is -0.
    let seconds = seconds + 0.0;
    if seconds < 1.0 {
        format!("{:.0} ms", seconds * 1000.0)
    } else if seconds < 60.0 {
        format!("{seconds:.1} s")
    } else if seconds < 3600.0 {
        format!("{:.0} min {:.0} s", (seconds / 60.0).floor(), (seconds % 60.0).floor())
    } else {
        let minutes = (seconds / 60.0).floor();
        format!("{:.0} h {:.0} min", (minutes / 60.0).floor(), minutes % 60.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_people_say_them() {
        let table = [
            (0.0, "0 ms"),
            (-0.0, "0 ms"),
            (0.0123, "12 ms"),
            (1.25, "1.2 s"),
            (125.0, "2 min 5 s"),
            (119.9, "1 min 59 s"),
            (4_800.0, "1 h 20 min"),
        ];
        for (seconds, words) in table {
            assert_eq!(format_duration(seconds), words);
        }
    }
}
