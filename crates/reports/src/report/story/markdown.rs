//! A run as Markdown, for code hosting sites. Outputs are in code blocks, so none of them becomes markup.

mod exchanges;

use serde_json::{Map, Value};

use super::html::{Exported, facts};
use super::lines::{decision_line, given, words};
use super::next::next;
use crate::report::format::{count, duration, kind_of};
use crate::report::parts::Parts;
use crate::report::reasons::grouped;
use ensemble_history::OutputView;
use ensemble_history::story::{AttemptEnd, Execution, StoryEvent, Turn};

/// A text with more lines is collapsed.
const LONG: usize = 24;

/// Creates the document, with its graph in Mermaid.
pub fn markdown(run: &Exported) -> String {
    let story = run.story;
    let name = story.started().map_or("", |started| &*started.ensemble);
    let mut text = format!("# {}: {}\n\n", inline(name), inline(&run.outcome().0));
    if let Some(detail) = story.ended().and_then(|ended| ended.detail.as_ref()) {
        text.push_str(&fenced(detail, "text"));
    }
    text.push_str("| | |\n|---|---|\n");
    for (label, fact) in facts(run) {
        text.push_str(&format!("| {label} | {} |\n", inline(&fact)));
    }
    text.push('\n');
    for line in next(story, run.driver)
        .iter()
        .filter(|line| line.purpose != "save it as a page")
    {
        text.push_str(&format!("{}: {}\n\n", line.purpose, code(&line.command)));
    }
    if let Some(started) = story.started().filter(|started| !started.input.is_empty()) {
        text.push_str(&format!("## Input\n\n{}", fenced(&started.input, "text")));
    }
    text.push_str(&format!("## Graph\n\n```mermaid\n{}```\n\n", run.graph));
    text.push_str(&format!("## Timeline\n\n{}\n## What happened\n\n", timeline(run)));
    for one in &story.events {
        text.push_str(&event(run, one));
    }
    if !story.warnings.is_empty() {
        text.push_str("## Warnings\n\n");
        for warning in &story.warnings {
            text.push_str(&format!("- {}\n", inline(warning)));
        }
        text.push('\n');
    }
    let context = serde_json::to_value(run.context).unwrap_or_default();
    text + "## Context at the end\n\n" + &fenced(&format!("{context:#}"), "json")[..]
}

/// A table of turns and agents, with the duration of each execution.
fn timeline(run: &Exported) -> String {
    let ran = |name: &str| run.story.executions().any(|(_, execution)| *execution.agent == *name);
    let agents: Vec<&str> = run
        .agents
        .iter()
        .map(|(name, _)| &**name)
        .filter(|name| ran(name))
        .collect();
    let mut text = format!("| turn | {} | took |\n", agents.join(" | "));
    text.push_str(&format!("|---:|{}---:|\n", "---|".repeat(agents.len())));
    for turn in run.story.turns() {
        let cells: Vec<String> = agents
            .iter()
            .map(|agent| {
                let execution = turn.executions.iter().find(|execution| *execution.agent == **agent);
                execution.map(length).unwrap_or_default()
            })
            .collect();
        let took = turn.seconds().map_or_else(|| "open".to_owned(), duration);
        text.push_str(&format!("| {} | {} | {took} |\n", turn.turn, cells.join(" | ")));
    }
    text
}

fn length(execution: &Execution) -> String {
    let took = duration(execution.totals.seconds);
    match (&execution.finished, execution.failure()) {
        (_, Some(_)) => format!("✗ {took}"),
        (Some(_), None) => format!("✓ {took}"),
        (None, _) if execution.question.is_some() => "asks".to_owned(),
        (None, _) => "no end".to_owned(),
    }
}

fn event(run: &Exported, event: &StoryEvent) -> String {
    match event {
        StoryEvent::Turn(one) => turn(run, one),
        StoryEvent::Message { text, .. } => format!("### you\n\n{}", fenced(text, "text")),
        StoryEvent::Given { context, at } => format!("*given at {}: {}*\n\n", time(at), inline(&given(context, true))),
        StoryEvent::Interrupted { cause, at } => format!("*{} at {}*\n\n", words(cause), time(at)),
        StoryEvent::Resumed { at } => format!("*resumed at {}*\n\n", time(at)),
        StoryEvent::Ended { ended, at } => format!("*{} at {}*\n\n", ended.completion_reason, time(at)),
    }
}

fn time(at: &chrono::DateTime<chrono::Utc>) -> String {
    at.format("%Y-%m-%d %H:%M:%S UTC").to_string()
}

fn turn(run: &Exported, turn: &Turn) -> String {
    let mut text = format!("### Turn {}\n\n", turn.turn);
    for one in &turn.executions {
        text.push_str(&execution(run, turn.turn, one));
    }
    let waiting: Vec<_> = turn.waiting.iter().collect();
    for (agents, reason) in grouped(&waiting) {
        text.push_str(&format!("- {} did not run: {}\n", agents.join(", "), inline(&reason)));
    }
    for warning in &turn.warnings {
        text.push_str(&format!("- warning: {}\n", inline(warning)));
    }
    text + "\n"
}

fn execution(run: &Exported, turn: u32, execution: &Execution) -> String {
    let again = match execution.execution {
        1 => String::new(),
        number => format!(" #{number}"),
    };
    let mut about: Vec<String> = run.kind(&execution.agent).map(str::to_owned).into_iter().collect();
    about.push(length(execution));
    if execution.totals.attempts > 1 {
        about.push(count(execution.totals.attempts as u64, "attempt"));
    }
    if let Some(usage) = execution.usage() {
        about.push(format!("{} tokens", usage.input_tokens + usage.output_tokens));
    }
    let mut text = format!("**{}**{again} · {}\n\n", execution.agent, about.join(" · "));
    for decided in &execution.permissions {
        text.push_str(&format!("- {}\n\n", inline(&decision_line(decided))));
    }
    for attempt in &execution.attempts {
        let number = attempt.attempt;
        match &attempt.end {
            AttemptEnd::Failed { failure, pause, .. } => text.push_str(&format!(
                "- attempt {number} failed ({}): {}; again after {}\n\n",
                kind_of(failure.kind),
                inline(&failure.error),
                duration(*pause)
            )),
            AttemptEnd::Lost => text.push_str(&format!(
                "- attempt {number} was lost: the process ended before it finished\n\n"
            )),
            AttemptEnd::Stopped => text.push_str(&format!("- attempt {number} was stopped\n\n")),
            AttemptEnd::UnderWay => text.push_str(&format!("- attempt {number} was under way\n\n")),
            AttemptEnd::Final | AttemptEnd::Asked => {}
        }
    }
    text.push_str(&exchanges::folded(&run.exchanges_of(turn, execution), run.exchanges));
    if let Some(parts) = Parts::of(&execution.parts) {
        text.push_str(&format!("{}\n\n", parts.counts(execution.finished.is_some())));
        for part in execution.parts.iter().filter(|part| part.failure().is_some()) {
            let error = part.failure().map_or("", |failure| &failure.error);
            text.push_str(&format!("- part {} failed: {}\n", inline(&part.key), inline(error)));
        }
        text.push('\n');
    }
    if let Some(failure) = execution.failure() {
        text.push_str(&format!("failed ({}):\n\n", kind_of(failure.kind)));
        text.push_str(&fenced(&failure.error, "text"));
    }
    if let Some(question) = &execution.question {
        text.push_str(&fenced(&question.prompt, "text"));
        for choice in &question.choices {
            text.push_str(&format!("- {}\n", inline(choice)));
        }
    }
    text + &execution.output().map(|output| output_text(output)).unwrap_or_default()[..]
}

/// The response as text, other keys as JSON.
fn output_text(output: &Value) -> String {
    if !output.is_object() {
        return fenced(&format!("{output:#}"), "json");
    }
    let view = OutputView::new(output);
    let mut text = match view.response {
        Some(Value::String(response)) => fenced(response, "text"),
        Some(response) => fenced(&format!("{response:#}"), "json"),
        None => String::new(),
    };
    let others: Map<String, Value> = view.others().map(|(key, value)| (key.clone(), value.clone())).collect();
    if !others.is_empty() {
        text.push_str(&fenced(&format!("{:#}", Value::Object(others)), "json"));
    }
    text
}

/// A code block whose end marker does not occur in the text; collapsed if it is long.
fn fenced(text: &str, language: &str) -> String {
    let text = text.trim_end();
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat((longest + 1).max(3));
    let block = format!("{fence}{language}\n{text}\n{fence}\n\n");
    let lines = text.lines().count();
    if lines <= LONG {
        return block;
    }
    format!("<details><summary>{lines} lines</summary>\n\n{block}</details>\n\n")
}

/// Renders one line of text, with markup escaped.
fn inline(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut escaped = String::with_capacity(text.len());
    for c in words.join(" ").chars() {
        if matches!(
            c,
            '\\' | '`' | '*' | '[' | ']' | '<' | '>' | '|' | '#' | '~' | '$' | '&' | '@' | '!'
        ) {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

/// A command as typed.
fn code(command: &str) -> String {
    let longest = command.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let space = if longest > 0 { " " } else { "" };
    format!("{fence}{space}{command}{space}{fence}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_is_longer_than_any_inside() {
        assert_eq!(fenced("x\n", "text"), "```text\nx\n```\n\n");
        assert_eq!(fenced("```\n# x\n````", "text"), "`````text\n```\n# x\n````\n`````\n\n");
        assert!(fenced(&"x\n".repeat(40), "text").starts_with("<details><summary>40 lines"));
    }

    #[test]
    fn a_line_holds_no_markup() {
        assert_eq!(
            inline("a <b>\n*c* | [d](e) `f`"),
            "a \\<b\\> \\*c\\* \\| \\[d\\](e) \\`f\\`"
        );
    }
}
