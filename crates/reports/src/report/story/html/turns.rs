//! The events of the run, turn by turn.

use serde_json::Value;

use super::markup::{block, escaped};
use super::{Exported, anchor, exchanges};
use crate::report::format::{count, duration, kind_of};
use crate::report::parts::Parts;
use crate::report::reasons::grouped;
use crate::report::story::lines::{given, words};
use ensemble_core::conversation::PartEnded;
use ensemble_history::OutputView;
use ensemble_history::story::{AttemptEnd, Execution, StoryEvent, Turn};

/// All events, in order.
pub(super) fn events(run: &Exported) -> String {
    run.story.events.iter().map(|one| event(run, one)).collect()
}

fn event(run: &Exported, event: &StoryEvent) -> String {
    match event {
        StoryEvent::Turn(one) => turn(run, one),
        StoryEvent::Message { text, .. } => {
            format!(
                "<section class=\"said\"><h3>you</h3>{}</section>\n",
                block(text, "text")
            )
        }
        StoryEvent::Given { context, at } => mark(&format!("given: {}", given(context, true)), at),
        StoryEvent::Interrupted { cause, at } => mark(&words(cause), at),
        StoryEvent::Resumed { at } => mark("resumed", at),
        StoryEvent::Ended { ended, at } => {
            let detail = ended.detail.as_ref().map(|detail| format!(": {detail}"));
            mark(
                &format!("{}{}", ended.completion_reason, detail.unwrap_or_default()),
                at,
            )
        }
    }
}

fn mark(what: &str, at: &chrono::DateTime<chrono::Utc>) -> String {
    let when = at.format("%Y-%m-%d %H:%M:%S UTC");
    format!("<p class=\"mark\"><b>{}</b> <time>{when}</time></p>\n", escaped(what))
}

fn turn(run: &Exported, turn: &Turn) -> String {
    let number = turn.turn;
    let since = run
        .story
        .history
        .started_at()
        .map(|begun| (turn.started_at - begun).as_seconds_f64());
    let mut about = vec![match since {
        Some(since) if since < 0.0 => "taken over from the other run".to_owned(),
        since => format!("after {}", duration(since.unwrap_or_default())),
    }];
    about.push(match turn.seconds() {
        Some(seconds) => format!("took {}", duration(seconds)),
        None => "still open".to_owned(),
    });
    let mut text = format!(
        "<section class=\"turn\" id=\"turn-{number}\">\n<h3>Turn {number} <small>{}</small></h3>\n",
        about.join(" · ")
    );
    for one in &turn.executions {
        text.push_str(&execution(run, turn, one));
    }
    let waiting: Vec<_> = turn.waiting.iter().collect();
    if !waiting.is_empty() {
        text.push_str("<ul class=\"idle\">\n");
        for (agents, reason) in grouped(&waiting) {
            text.push_str(&format!(
                "<li><b>{}</b> did not run: {}</li>\n",
                escaped(&agents.join(", ")),
                escaped(&reason)
            ));
        }
        text.push_str("</ul>\n");
    }
    for warning in &turn.warnings {
        text.push_str(&format!("<p class=\"warning\">{}</p>\n", escaped(warning)));
    }
    text + "</section>\n"
}

fn execution(run: &Exported, turn: &Turn, execution: &Execution) -> String {
    let (class, sign) = match (&execution.finished, execution.failure()) {
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
        anchor(turn.turn, execution),
        escaped(&execution.agent),
        escaped(&about(run, execution).join(" · ")),
    );
    text.push_str(&circumstances(execution));
    text.push_str(&exchanges::folded(
        &run.exchanges_of(turn.turn, execution),
        run.exchanges,
    ));
    if let Some(parts) = Parts::of(&execution.parts) {
        let is_over = execution.finished.is_some();
        text.push_str(&of_parts(&parts, &execution.parts, is_over));
    }
    if let Some(failure) = execution.failure() {
        text.push_str(&format!(
            "<p class=\"failure\">failed ({})</p>\n",
            kind_of(failure.kind)
        ));
        text.push_str(&block(&failure.error, "text failure"));
    }
    if let Some(output) = execution.output() {
        text.push_str(&output_text(output));
    }
    if let Some(question) = &execution.question {
        text.push_str(&block(&question.prompt, "text question"));
        for choice in &question.choices {
            text.push_str(&format!("<p class=\"choice\">· {}</p>\n", escaped(choice)));
        }
    }
    if let Some(finished) = &execution.finished {
        if !finished.stderr.trim().is_empty() {
            text.push_str("<p class=\"label\">stderr</p>\n");
            text.push_str(&block(&finished.stderr, "text stderr"));
        }
        for warning in &finished.warnings {
            text.push_str(&format!("<p class=\"warning\">{}</p>\n", escaped(warning)));
        }
    }
    text + "</article>\n"
}

/// The counts, and each part with its result, folded away.
fn of_parts(parts: &Parts<'_>, ended: &[PartEnded], is_over: bool) -> String {
    let counts = escaped(&parts.counts(is_over));
    let mut text = format!("<details class=\"parts\"><summary>{counts}</summary>\n<dl>\n");
    for part in ended {
        let result = match (part.failure(), part.output()) {
            (Some(failure), _) => block(&format!("failed: {}", failure.error), "text failure"),
            (None, Some(output)) => value(output),
            (None, None) => String::new(),
        };
        let took = duration(part.execution_time);
        text.push_str(&format!(
            "<dt>{} <small>{took}</small></dt><dd>{result}</dd>\n",
            escaped(&part.key)
        ));
    }
    text + "</dl>\n</details>\n"
}

/// Kind, time, tokens.
fn about(run: &Exported, execution: &Execution) -> Vec<String> {
    let mut about: Vec<String> = run.kind(&execution.agent).map(str::to_owned).into_iter().collect();
    if execution.finished.is_some() {
        about.push(duration(execution.totals.seconds));
    }
    if execution.totals.attempts > 1 {
        about.push(count(execution.totals.attempts as u64, "attempt"));
    }
    if let Some(usage) = execution.usage() {
        let estimated = if usage.estimated { ", estimated" } else { "" };
        about.push(format!(
            "{} tokens in, {} out{estimated}",
            usage.input_tokens, usage.output_tokens
        ));
    }
    about
}

/// The request, the inputs, and the failed attempts of an execution.
fn circumstances(execution: &Execution) -> String {
    let mut text = String::new();
    if !execution.reads.is_empty() {
        let reads: Vec<String> = execution
            .reads
            .iter()
            .map(|(agent, number)| format!("{agent} #{number}"))
            .collect();
        text.push_str(&format!("<p class=\"label\">read {}</p>\n", escaped(&reads.join(", "))));
    }
    if let Some(request) = &execution.request {
        let parameters = request.parameters.to_string();
        text.push_str(&format!(
            "<p class=\"label\">asked by {}: <code>{}</code></p>\n",
            escaped(&request.from),
            escaped(&parameters)
        ));
    }
    for attempt in &execution.attempts {
        let number = attempt.attempt;
        let line = match &attempt.end {
            AttemptEnd::Failed { failure, pause, .. } => format!(
                "attempt {number} failed ({}): {}; again after {}",
                kind_of(failure.kind),
                failure.error.trim_end(),
                duration(*pause)
            ),
            AttemptEnd::Lost => format!("attempt {number} was lost: the process ended before it finished"),
            AttemptEnd::Stopped => format!("attempt {number} was stopped"),
            AttemptEnd::UnderWay => format!("attempt {number} was under way"),
            AttemptEnd::Final | AttemptEnd::Asked => continue,
        };
        text.push_str(&format!("<p class=\"attempt\">{}</p>\n", escaped(&line)));
    }
    text
}

/// An output: the response as text, other keys by name.
fn output_text(output: &Value) -> String {
    if !output.is_object() {
        return value(output);
    }
    let view = OutputView::new(output);
    let mut text = view.response.map(value).unwrap_or_default();
    let mut others = view.others().peekable();
    if others.peek().is_some() {
        text.push_str("<dl>\n");
        for (key, one) in others {
            text.push_str(&format!("<dt>{}</dt><dd>{}</dd>\n", escaped(key), value(one)));
        }
        text.push_str("</dl>\n");
    }
    text
}

/// A string unchanged, other values as JSON.
pub(super) fn value(value: &Value) -> String {
    match value {
        Value::String(text) => block(text, "text"),
        Value::Array(_) | Value::Object(_) => block(&format!("{value:#}"), "json"),
        short => format!("<code>{}</code>", escaped(&short.to_string())),
    }
}
