//! Single lines of text reports, which several reports share.

use chrono::{DateTime, Local, Utc};

use crate::report::format::{
    BAD, CAUTION, DIM, GOOD, NAME, explain_many_requests, format_count, format_duration, format_executions,
    render_usage,
};
use crate::report::parts::PartsSummary;
use crate::report::sanitized_writer::TrustedStyle;
use crate::report::values::render_value;
use crate::report::wrap::LineWidth;
use ensemble_core::conversation::{
    CompletionReason, DecisionSource, PermissionDecision, Record, RunEnded, RunInterruption,
};
use ensemble_core::operator::escape_hidden;
use ensemble_history::story::{RunStory, StoryAttemptEnd, StoryExecution, StoryPermissionDecision, StoryTurn};
use ensemble_history::{DriverProcess, GivenAnswer};
use ensemble_language::data::RunContext;

/// The indent of every row of an output.
pub(super) const OUTPUT_INDENT: usize = 4;

/// Renders the totals of a run: turns and time, requests and tokens.
pub(super) fn totals_lines(story: &RunStory) -> Vec<String> {
    let totals = story.history.run_totals();
    let mut lines = vec![format!(
        "{} · {} · {}",
        format_count(totals.turns.into(), "turn"),
        format_executions(totals.all.executions, totals.all.failed, 0, &totals.list_failed_work()),
        format_duration(story.active),
    )];
    let history = &story.history;
    let elapsed_seconds = history
        .latest_record_at()
        .zip(history.started_at())
        .map(|(latest, begun)| (latest - begun).as_seconds_f64());
    if let Some(elapsed_seconds) = elapsed_seconds.filter(|whole| whole - story.active >= 1.0) {
        lines[0].push_str(&format!(", {} with pauses", format_duration(elapsed_seconds)));
    }
    let usage = totals.all.usage;
    if usage.requests > 0 {
        lines.push(render_usage(&usage));
    }
    let failed = story.end_event().and_then(|ended| ended.failed.as_ref());
    let of_failed = |(turn, execution): &(u32, &StoryExecution)| {
        failed.is_some_and(|failed| failed.turn == *turn && failed.agent == execution.agent)
    };
    let execution = story
        .executions_by_turn()
        .find(of_failed)
        .map(|(_, execution)| execution);
    lines.extend(execution.and_then(|execution| {
        let finished = execution.finish_event.as_ref()?;
        explain_many_requests(
            &execution.agent,
            finished.attempt,
            execution.total_usage(),
            finished.failure()?,
        )
    }));
    lines
}

/// Describes the cause of an interruption.
pub(super) fn describe_interruption(cause: &RunInterruption) -> String {
    match cause {
        RunInterruption::Cancelled { by } => format!("stopped by {by}"),
        RunInterruption::Timeout => "stopped: the time limit of the run was reached".to_owned(),
    }
}

/// Returns the style and the mark of an outcome. A success with exhausted agents has the style of a warning.
pub(crate) fn outcome_mark(ended: &RunEnded) -> (TrustedStyle, &'static str) {
    match ended.completion_reason {
        _ if ended.is_success() && ended.exhausted.is_empty() => (GOOD, "✓"),
        _ if ended.is_success() => (CAUTION, "✓"),
        CompletionReason::WaitingForInput => (CAUTION, "?"),
        _ => (BAD, "✗"),
    }
}

/// Renders the stderr of a script unchanged.
pub(super) fn render_stderr(stderr: &str) -> String {
    LineWidth::UNLIMITED.wrap_block(&format!("{DIM}stderr:{DIM:#}\n{stderr}"), OUTPUT_INDENT)
}

/// Renders the agents that were running when the run was stopped.
pub(super) fn render_stopped_agents(turn: &StoryTurn) -> String {
    let stopped = turn.executions.iter().filter(|execution| {
        let last = execution.attempts.last();
        last.is_some_and(|attempt| attempt.end == StoryAttemptEnd::Stopped)
    });
    stopped
        .map(|execution| {
            let agent = &execution.agent;
            let parts = PartsSummary::from_events(&execution.parts)
                .map(|parts| format!(" · {}", parts.render_part_counts(false)));
            let parts = parts.unwrap_or_default();
            format!("  {CAUTION}■{CAUTION:#} {NAME}{agent}{NAME:#} {DIM}was stopped{parts}{DIM:#}\n")
        })
        .collect()
}

/// Renders the agents that are running, or were running when the process exited.
pub(super) fn render_running_agents(turn: &StoryTurn, driver: DriverProcess) -> String {
    let open = turn
        .executions
        .iter()
        .filter(|execution| execution.finish_event.is_none());
    let tell = |execution: &StoryExecution| {
        let agent = &execution.agent;
        let progress = match (execution.attempts.last(), driver) {
            (None, _) => "has not started".to_owned(),
            (Some(attempt), DriverProcess::Process(_)) => format!(
                "attempt {}, since {}",
                attempt.attempt,
                attempt.started_at.with_timezone(&Local).format("%H:%M:%S")
            ),
            (Some(attempt), DriverProcess::NoProcess) => format!("attempt {} had not finished", attempt.attempt),
        };
        format!("  {CAUTION}…{CAUTION:#} {NAME}{agent}{NAME:#} {DIM}{progress}{DIM:#}\n")
    };
    open.map(tell).collect()
}

/// Formats the time of the record in the local time zone.
pub(super) fn format_local_time(record: &Record) -> String {
    record.at.with_timezone(&Local).format("%Y-%m-%d %H:%M:%S").to_string()
}

/// Formats the values of a context on one line.
pub(super) fn format_context_values(context: &RunContext, whole: bool) -> String {
    let pairs: Vec<String> = context
        .iter()
        .map(|(key, value)| format!("{key} = {}", render_value(value, whole)))
        .collect();
    pairs.join(", ")
}

/// Formats a time in UTC, for exported documents.
pub(super) fn format_utc(at: &DateTime<Utc>) -> String {
    at.format("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// Renders the answered question of an input agent, with its choices and the time of its answer.
pub(super) fn render_answered_question(execution: &StoryExecution) -> Option<String> {
    let question = execution.answered_question()?;
    let answered = execution
        .ended_at()
        .map(|at| format!(" · answered at {}", format_utc(&at)));
    Some(format!("asked: {question}{}", answered.unwrap_or_default()))
}

/// Renders the answers inside the execution, one line each: of people whom tools ask, and of nested runs.
pub(super) fn render_inner_answers(execution: &StoryExecution) -> Vec<String> {
    execution.answers.iter().map(GivenAnswer::describe).collect()
}

/// Renders the question that an operator was asked about a tool call. Returns `None` if an option has decided.
pub(super) fn render_permission_question(decided: &StoryPermissionDecision) -> Option<String> {
    let prompt = decided.event.prompt.as_ref()?;
    let choices = decided.event.choices.as_deref().unwrap_or_default();
    Some(format!("asked: {} ({})", escape_hidden(prompt), choices.join(", ")))
}

/// Renders the decision about a tool call, its source, and its time.
pub(super) fn render_decision(decision: &StoryPermissionDecision) -> String {
    let decided = &decision.event;
    let decision_text = match decided.decision {
        PermissionDecision::Once => "permitted once",
        PermissionDecision::Always => "permitted for the rest of the run",
        PermissionDecision::Denied => "denied",
    };
    let by = match (&decided.answered_by, decided.by) {
        (Some(by), _) => escape_hidden(&by.to_string()).to_string(),
        (None, DecisionSource::Operator) => "the user".to_owned(),
        (None, DecisionSource::Option) => "an option".to_owned(),
    };
    format!(
        "the tool `{}` was {decision_text} by {by} at {}",
        escape_hidden(&decided.tool),
        format_utc(&decision.at)
    )
}
