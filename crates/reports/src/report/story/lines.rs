//! Single lines of the text report of a run.

use chrono::Local;

use crate::report::door::Ink;
use crate::report::format::{BAD, CAUTION, DIM, GOOD, NAME, count, duration, executions, multiplied, used};
use crate::report::parts::Parts;
use crate::report::values::value_text;
use crate::report::wrap::LineWidth;
use ensemble_core::conversation::{
    CompletionReason, DecidedBy, Interruption, PermissionDecided, PermissionDecision, Record,
};
use ensemble_core::operator::visible;
use ensemble_history::Driver;
use ensemble_history::story::{AttemptEnd, Execution, Story, Turn};
use ensemble_language::data::Context;

/// The indent of every row of an output.
pub(super) const INDENT: usize = 4;

/// The totals of a run: turns and time, requests and tokens.
pub(super) fn totals(story: &Story) -> Vec<String> {
    let totals = story.history.totals();
    let mut lines = vec![format!(
        "{} · {} · {}",
        count(totals.turns.into(), "turn"),
        executions(totals.all.executions, totals.all.failed),
        duration(story.active),
    )];
    let history = &story.history;
    let whole = history
        .latest_at()
        .zip(history.started_at())
        .map(|(latest, begun)| (latest - begun).as_seconds_f64());
    if let Some(whole) = whole.filter(|whole| whole - story.active >= 1.0) {
        lines[0].push_str(&format!(", {} with pauses", duration(whole)));
    }
    let usage = totals.all.usage;
    if usage.requests > 0 {
        lines.push(used(&usage));
    }
    let failed = story.ended().and_then(|ended| ended.failed.as_ref());
    let of_failed = |(turn, execution): &(u32, &Execution)| {
        failed.is_some_and(|failed| failed.turn == *turn && failed.agent == execution.agent)
    };
    let execution = story.executions().find(of_failed).map(|(_, execution)| execution);
    lines.extend(execution.and_then(|execution| {
        let finished = execution.finished.as_ref()?;
        multiplied(
            &execution.agent,
            finished.attempt,
            execution.usage(),
            finished.failure()?,
        )
    }));
    lines
}

/// The cause of an interruption, as text.
pub(super) fn words(cause: &Interruption) -> String {
    match cause {
        Interruption::Cancelled { by } => format!("stopped by {by}"),
        Interruption::Timeout => "stopped: the time limit of the run was reached".to_owned(),
    }
}

pub(super) fn mark(reason: CompletionReason) -> (Ink, &'static str) {
    match reason {
        CompletionReason::Completed => (GOOD, "✓"),
        reason if reason.is_limit() => (CAUTION, "■"),
        CompletionReason::WaitingForInput => (CAUTION, "?"),
        _ => (BAD, "✗"),
    }
}

/// The text that a script wrote to stderr, unchanged.
pub(super) fn as_written(stderr: &str) -> String {
    LineWidth::UNLIMITED.block(&format!("{DIM}stderr:{DIM:#}\n{stderr}"), INDENT)
}

/// The agents that were running when the run was stopped.
pub(super) fn stopped(turn: &Turn) -> String {
    let stopped = turn.executions.iter().filter(|execution| {
        let last = execution.attempts.last();
        last.is_some_and(|attempt| attempt.end == AttemptEnd::Stopped)
    });
    stopped
        .map(|execution| {
            let agent = &execution.agent;
            let parts = Parts::of(&execution.parts).map(|parts| format!(" · {}", parts.counts(false)));
            let parts = parts.unwrap_or_default();
            format!("  {CAUTION}■{CAUTION:#} {NAME}{agent}{NAME:#} {DIM}was stopped{parts}{DIM:#}\n")
        })
        .collect()
}

/// The agents that are running, or were running when the process ended.
pub(super) fn under_way(turn: &Turn, driver: Driver) -> String {
    let open = turn.executions.iter().filter(|execution| execution.finished.is_none());
    let tell = |execution: &Execution| {
        let agent = &execution.agent;
        let what = match (execution.attempts.last(), driver) {
            (None, _) => "has not started".to_owned(),
            (Some(attempt), Driver::Process(_)) => format!(
                "attempt {}, since {}",
                attempt.attempt,
                attempt.started_at.with_timezone(&Local).format("%H:%M:%S")
            ),
            (Some(attempt), Driver::Nobody) => format!("attempt {} had not finished", attempt.attempt),
        };
        format!("  {CAUTION}…{CAUTION:#} {NAME}{agent}{NAME:#} {DIM}{what}{DIM:#}\n")
    };
    open.map(tell).collect()
}

pub(super) fn time(record: &Record) -> String {
    record.at.with_timezone(&Local).format("%Y-%m-%d %H:%M:%S").to_string()
}

/// Values that were added to a context, on one line.
pub(super) fn given(context: &Context, whole: bool) -> String {
    let pairs: Vec<String> = context
        .iter()
        .map(|(key, value)| format!("{key} = {}", value_text(value, whole)))
        .collect();
    pairs.join(", ")
}

/// Renders the decision about a tool call, and its source.
pub(super) fn decision_line(decided: &PermissionDecided) -> String {
    let how = match decided.decision {
        PermissionDecision::Once => "permitted once",
        PermissionDecision::Always => "permitted for the rest of the run",
        PermissionDecision::Denied => "denied",
    };
    let by = match (&decided.answered_by, decided.by) {
        (Some(by), _) => visible(&by.to_string()).to_string(),
        (None, DecidedBy::Operator) => "whoever was asked".to_owned(),
        (None, DecidedBy::Option) => "an option".to_owned(),
    };
    format!("the tool `{}` was {how} by {by}", visible(&decided.tool))
}
