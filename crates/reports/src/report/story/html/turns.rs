//! The events of a run as HTML, turn by turn.

use serde_json::Value;

use super::markup::{escape_html, render_text_block};
use super::{ExportedRun, exchanges, execution_anchor};
use crate::report::format::{failure_kind_word, format_count, format_duration, render_token_counts};
use crate::report::parts::{PartsSummary, list_part_warnings};
use crate::report::reasons::group_by_reason;
use crate::report::story::shared_lines::{
    describe_interruption, format_context_values, format_utc, render_answered_question, render_decision,
    render_inner_answers, render_permission_question,
};
use ensemble_core::conversation::PartAttemptEnded;
use ensemble_history::OutputView;
use ensemble_history::story::{StoryAttemptEnd, StoryEvent, StoryExecution, StoryTurn};

/// Renders all events in order.
pub(super) fn render_events(run: &ExportedRun) -> String {
    run.story.events.iter().map(|one| render_event(run, one)).collect()
}

/// Renders an event of the run.
fn render_event(run: &ExportedRun, event: &StoryEvent) -> String {
    match event {
        StoryEvent::Turn(one) => render_turn(run, one),
        StoryEvent::Message { text, .. } => {
            format!(
                "<section class=\"said\"><h3>you</h3>{}</section>\n",
                render_text_block(text, "text")
            )
        }
        StoryEvent::ContextGiven { context, at } => {
            render_timed_note(&format!("given: {}", format_context_values(context, true)), at)
        }
        StoryEvent::Interrupted { cause, at } => render_timed_note(&describe_interruption(cause), at),
        StoryEvent::Resumed { at } => render_timed_note("resumed", at),
        StoryEvent::Ended { ended, at } => render_timed_note(&ended.to_outcome_sentence().0, at),
    }
}

/// Renders a note with its time.
fn render_timed_note(what: &str, at: &chrono::DateTime<chrono::Utc>) -> String {
    let when = format_utc(at);
    format!(
        "<p class=\"mark\"><b>{}</b> <time>{when}</time></p>\n",
        escape_html(what)
    )
}

/// Renders a turn with its executions, skipped agents and warnings.
fn render_turn(run: &ExportedRun, turn: &StoryTurn) -> String {
    let number = turn.turn;
    let since = run
        .story
        .history
        .started_at()
        .map(|begun| (turn.started_at - begun).as_seconds_f64());
    let mut about = vec![match since {
        Some(since) if since < 0.0 => "copied from the other run".to_owned(),
        since => format!("after {}", format_duration(since.unwrap_or_default())),
    }];
    about.push(match turn.duration_seconds() {
        Some(seconds) => format!("took {}", format_duration(seconds)),
        None => "still open".to_owned(),
    });
    let mut text = format!(
        "<section class=\"turn\" id=\"turn-{number}\">\n<h3>Turn {number} <small>{}</small></h3>\n",
        about.join(" · ")
    );
    for execution in &turn.executions {
        text.push_str(&render_execution(run, turn, execution));
    }
    let waiting: Vec<_> = turn.skipped_agents.iter().collect();
    if !waiting.is_empty() {
        text.push_str("<ul class=\"idle\">\n");
        for (agents, reason) in group_by_reason(&waiting) {
            text.push_str(&format!(
                "<li><b>{}</b> did not run: {}</li>\n",
                escape_html(&agents.join(", ")),
                escape_html(&reason)
            ));
        }
        text.push_str("</ul>\n");
    }
    for warning in &turn.warnings {
        text.push_str(&format!("<p class=\"warning\">{}</p>\n", escape_html(warning)));
    }
    text + "</section>\n"
}

/// Renders an execution with its messages, parts, and output or failure.
fn render_execution(run: &ExportedRun, turn: &StoryTurn, execution: &StoryExecution) -> String {
    let (class, sign) = match (&execution.finish_event, execution.failure()) {
        (_, Some(_)) => ("failed", "✗"),
        (Some(_), None) => ("good", "✓"),
        (None, _) => ("open", "?"),
    };
    let again = match execution.execution {
        1 => String::new(),
        execution => format!(" #{execution}"),
    };
    let mut text = format!(
        "<article class=\"execution {class}\" id=\"{}\">\n<h4><span class=\"sign\">{sign}</span> {}{again} <small>{}</small></h4>\n",
        execution_anchor(turn.turn, execution),
        escape_html(&execution.agent),
        escape_html(&list_execution_facts(run, execution).join(" · ")),
    );
    text.push_str(&render_execution_circumstances(execution));
    text.push_str(&exchanges::render_exchanges(
        &run.exchanges_of_execution(turn.turn, execution),
        run.exchanges,
    ));
    if let Some(parts) = PartsSummary::from_events(&execution.parts) {
        let is_over = execution.finish_event.is_some();
        text.push_str(&render_parts(&parts, &execution.parts, is_over));
    }
    if let Some(failure) = execution.failure() {
        text.push_str(&format!(
            "<p class=\"failure\">failed ({})</p>\n",
            failure_kind_word(failure.kind)
        ));
        text.push_str(&render_text_block(&failure.error, "text failure"));
    }
    if let Some(output) = execution.output() {
        text.push_str(&render_output(output));
    }
    for request in &execution.open_requests {
        let address = request.address.to_string();
        text.push_str(&format!(
            "<p class=\"label\">{} is waiting for an answer</p>\n",
            escape_html(&address)
        ));
        text.push_str(&render_text_block(&request.question.prompt, "text question"));
        for choice in &request.question.choices {
            text.push_str(&format!("<p class=\"choice\">· {}</p>\n", escape_html(choice)));
        }
    }
    if let Some(finished) = &execution.finish_event
        && !finished.stderr.trim().is_empty()
    {
        text.push_str("<p class=\"label\">stderr</p>\n");
        text.push_str(&render_text_block(&finished.stderr, "text stderr"));
    }
    let own_warnings = execution.finish_event.iter().flat_map(|finished| &finished.warnings);
    for warning in list_part_warnings(&execution.parts).iter().chain(own_warnings) {
        text.push_str(&format!("<p class=\"warning\">{}</p>\n", escape_html(warning)));
    }
    text + "</article>\n"
}

/// Renders the counts, and each part with its result in a collapsed block.
fn render_parts(parts: &PartsSummary<'_>, ended: &[PartAttemptEnded], is_over: bool) -> String {
    let counts = escape_html(&parts.render_part_counts(is_over));
    let mut text = format!("<details class=\"parts\"><summary>{counts}</summary>\n<dl>\n");
    for part in ended {
        let result = match (part.failure(), part.output()) {
            (Some(failure), _) => render_text_block(&format!("failed: {}", failure.error), "text failure"),
            (None, Some(output)) => render_value(output),
            (None, None) => String::new(),
        };
        let took = format_duration(part.execution_time);
        text.push_str(&format!(
            "<dt>{} <small>{took}</small></dt><dd>{result}</dd>\n",
            escape_html(&part.key)
        ));
    }
    text + "</dl>\n</details>\n"
}

/// Lists the kind, duration and usage of an execution.
fn list_execution_facts(run: &ExportedRun, execution: &StoryExecution) -> Vec<String> {
    let mut about: Vec<String> = run
        .agent_kind(&execution.agent)
        .map(str::to_owned)
        .into_iter()
        .collect();
    if execution.finish_event.is_some() {
        about.push(format_duration(execution.totals.seconds));
    }
    if execution.totals.attempts > 1 {
        about.push(format_count(execution.totals.attempts as u64, "attempt"));
    }
    if let Some(usage) = execution.total_usage() {
        about.extend(render_token_counts(&usage));
    }
    about.extend(execution.describe_answer_author());
    about
}

/// Renders the read outputs, the request, the answers and decisions, and the attempts of an execution.
fn render_execution_circumstances(execution: &StoryExecution) -> String {
    let mut text = String::new();
    if !execution.reads.is_empty() {
        let reads: Vec<String> = execution
            .reads
            .iter()
            .map(|(agent, number)| format!("{agent} #{number}"))
            .collect();
        text.push_str(&format!(
            "<p class=\"label\">read {}</p>\n",
            escape_html(&reads.join(", "))
        ));
    }
    if let Some(request) = &execution.request {
        let parameters = request.parameters.to_string();
        text.push_str(&format!(
            "<p class=\"label\">asked by {}: <code>{}</code></p>\n",
            escape_html(&request.from),
            escape_html(&parameters)
        ));
    }
    let mut evidence: Vec<String> = render_answered_question(execution).into_iter().collect();
    for decided in &execution.permissions {
        evidence.push(render_decision(decided));
        evidence.extend(render_permission_question(decided));
    }
    evidence.extend(render_inner_answers(execution));
    for line in evidence {
        text.push_str(&format!("<p class=\"label\">{}</p>\n", escape_html(&line)));
    }
    for attempt in &execution.attempts {
        let number = attempt.attempt;
        let line = match &attempt.end {
            StoryAttemptEnd::Failed { failure, pause, .. } => format!(
                "attempt {number} failed ({}): {}; again after {}",
                failure_kind_word(failure.kind),
                failure.error.trim_end(),
                format_duration(*pause)
            ),
            StoryAttemptEnd::ProcessLost => format!("attempt {number} was lost: the process ended before it finished"),
            StoryAttemptEnd::Stopped => format!("attempt {number} was stopped"),
            StoryAttemptEnd::InProgress => format!("attempt {number} was under way"),
            StoryAttemptEnd::Final | StoryAttemptEnd::AskedQuestion => continue,
        };
        text.push_str(&format!("<p class=\"attempt\">{}</p>\n", escape_html(&line)));
    }
    text
}

/// Renders an output: the response as text, other keys by name.
fn render_output(output: &Value) -> String {
    if !output.is_object() {
        return render_value(output);
    }
    let view = OutputView::new(output);
    let mut text = view.response.map(render_value).unwrap_or_default();
    let mut entries = view.other_entries().peekable();
    if entries.peek().is_some() {
        text.push_str("<dl>\n");
        for (key, one) in entries {
            text.push_str(&format!(
                "<dt>{}</dt><dd>{}</dd>\n",
                escape_html(key),
                render_value(one)
            ));
        }
        text.push_str("</dl>\n");
    }
    text
}

/// Renders a string unchanged, other values as JSON.
pub(super) fn render_value(value: &Value) -> String {
    match value {
        Value::String(text) => render_text_block(text, "text"),
        Value::Array(_) | Value::Object(_) => render_text_block(&format!("{value:#}"), "json"),
        short => format!("<code>{}</code>", escape_html(&short.to_string())),
    }
}
