//! A recorded run as Markdown, for code hosting sites. Outputs are in code blocks, so that they cannot become markup.

mod exchanges;

use serde_json::{Map, Value};

use super::html::{ExportedRun, list_header_entries};
use super::next_commands::suggest_next_commands;
use super::shared_lines::{
    describe_interruption, format_context_values, format_utc, render_answered_question, render_decision,
    render_inner_answers, render_permission_question,
};
use crate::report::format::{failure_kind_word, format_count, format_duration, render_token_sum};
use crate::report::parts::{PartsSummary, list_part_warnings};
use crate::report::reasons::group_by_reason;
use ensemble_history::OutputView;
use ensemble_history::story::{StoryAttemptEnd, StoryEvent, StoryExecution, StoryTurn};

/// A text with more lines is collapsed.
const MAX_EXPANDED_LINES: usize = 24;

/// Renders the run as a Markdown document with a Mermaid graph.
pub fn render_markdown(run: &ExportedRun) -> String {
    let story = run.story;
    let name = story.start_event().map_or("", |started| &*started.ensemble);
    let mut text = format!(
        "# {}: {}\n\n",
        escape_markdown_inline(name),
        escape_markdown_inline(&run.state_with_color().0)
    );
    if let Some(detail) = story.end_event().and_then(|ended| ended.detail.as_ref()) {
        text.push_str(&render_code_block(detail, "text"));
    }
    text.push_str("| | |\n|---|---|\n");
    for (label, fact) in list_header_entries(run) {
        text.push_str(&format!("| {label} | {} |\n", escape_markdown_inline(&fact)));
    }
    text.push('\n');
    for line in suggest_next_commands(story, run.driver)
        .iter()
        .filter(|line| line.purpose != "save it as a page")
    {
        text.push_str(&format!("{}: {}\n\n", line.purpose, render_code_span(&line.command)));
    }
    if let Some(started) = story.start_event().filter(|started| !started.input.is_empty()) {
        text.push_str(&format!("## Input\n\n{}", render_code_block(&started.input, "text")));
    }
    text.push_str(&format!("## Graph\n\n```mermaid\n{}```\n\n", run.graph));
    text.push_str(&format!(
        "## Timeline\n\n{}\n## What happened\n\n",
        render_timeline(run)
    ));
    for event in &story.events {
        text.push_str(&render_event(run, event));
    }
    if !story.warnings.is_empty() {
        text.push_str("## Warnings\n\n");
        for warning in &story.warnings {
            text.push_str(&format!("- {}\n", escape_markdown_inline(warning)));
        }
        text.push('\n');
    }
    let context = serde_json::to_value(run.context).unwrap_or_default();
    text + "## Final context\n\n" + &render_code_block(&format!("{context:#}"), "json")[..]
}

/// Renders a table of turns and agents with the duration of each execution.
fn render_timeline(run: &ExportedRun) -> String {
    let ran = |name: &str| {
        run.story
            .executions_by_turn()
            .any(|(_, execution)| *execution.agent == *name)
    };
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
                execution.map(render_execution_duration).unwrap_or_default()
            })
            .collect();
        let took = turn
            .duration_seconds()
            .map_or_else(|| "open".to_owned(), format_duration);
        text.push_str(&format!("| {} | {} | {took} |\n", turn.turn, cells.join(" | ")));
    }
    text
}

/// Renders the duration and the result of an execution.
fn render_execution_duration(execution: &StoryExecution) -> String {
    let took = format_duration(execution.totals.seconds);
    match (&execution.finish_event, execution.failure()) {
        (_, Some(_)) => format!("✗ {took}"),
        (Some(_), None) => format!("✓ {took}"),
        (None, _) if execution.question.is_some() => "asks".to_owned(),
        (None, _) => "no end".to_owned(),
    }
}

/// Renders an event of the run.
fn render_event(run: &ExportedRun, event: &StoryEvent) -> String {
    match event {
        StoryEvent::Turn(one) => render_turn(run, one),
        StoryEvent::Message { text, .. } => format!("### you\n\n{}", render_code_block(text, "text")),
        StoryEvent::ContextGiven { context, at } => format!(
            "*given at {}: {}*\n\n",
            format_utc(at),
            escape_markdown_inline(&format_context_values(context, true))
        ),
        StoryEvent::Interrupted { cause, at } => {
            format!("*{} at {}*\n\n", describe_interruption(cause), format_utc(at))
        }
        StoryEvent::Resumed { at } => format!("*resumed at {}*\n\n", format_utc(at)),
        StoryEvent::Ended { ended, at } => format!("*{} at {}*\n\n", ended.completion_reason, format_utc(at)),
    }
}

/// Renders a turn with its executions, skipped agents and warnings.
fn render_turn(run: &ExportedRun, turn: &StoryTurn) -> String {
    let mut text = format!("### Turn {}\n\n", turn.turn);
    for execution in &turn.executions {
        text.push_str(&render_execution(run, turn.turn, execution));
    }
    let waiting: Vec<_> = turn.skipped_agents.iter().collect();
    for (agents, reason) in group_by_reason(&waiting) {
        text.push_str(&format!(
            "- {} did not run: {}\n",
            agents.join(", "),
            escape_markdown_inline(&reason)
        ));
    }
    for warning in &turn.warnings {
        text.push_str(&format!("- warning: {}\n", escape_markdown_inline(warning)));
    }
    text + "\n"
}

/// Renders an execution with its questions, decisions, attempts, messages and output.
fn render_execution(run: &ExportedRun, turn: u32, execution: &StoryExecution) -> String {
    let again = match execution.execution {
        1 => String::new(),
        number => format!(" #{number}"),
    };
    let mut about: Vec<String> = run
        .agent_kind(&execution.agent)
        .map(str::to_owned)
        .into_iter()
        .collect();
    about.push(render_execution_duration(execution));
    if execution.totals.attempts > 1 {
        about.push(format_count(execution.totals.attempts as u64, "attempt"));
    }
    about.extend(execution.total_usage().as_ref().and_then(render_token_sum));
    about.extend(
        execution
            .describe_answer_author()
            .map(|author| escape_markdown_inline(&author)),
    );
    let mut text = format!("**{}**{again} · {}\n\n", execution.agent, about.join(" · "));
    if let Some(question) = render_answered_question(execution) {
        text.push_str(&format!("- {}\n\n", escape_markdown_inline(&question)));
    }
    for decided in &execution.permissions {
        text.push_str(&format!("- {}\n\n", escape_markdown_inline(&render_decision(decided))));
        if let Some(question) = render_permission_question(decided) {
            text.push_str(&format!("- {}\n\n", escape_markdown_inline(&question)));
        }
    }
    for line in render_inner_answers(execution) {
        text.push_str(&format!("- {}\n\n", escape_markdown_inline(&line)));
    }
    for attempt in &execution.attempts {
        let number = attempt.attempt;
        match &attempt.end {
            StoryAttemptEnd::Failed { failure, pause, .. } => text.push_str(&format!(
                "- attempt {number} failed ({}): {}; again after {}\n\n",
                failure_kind_word(failure.kind),
                escape_markdown_inline(&failure.error),
                format_duration(*pause)
            )),
            StoryAttemptEnd::ProcessLost => text.push_str(&format!(
                "- attempt {number} was lost: the process ended before it finished\n\n"
            )),
            StoryAttemptEnd::Stopped => text.push_str(&format!("- attempt {number} was stopped\n\n")),
            StoryAttemptEnd::InProgress => text.push_str(&format!("- attempt {number} was under way\n\n")),
            StoryAttemptEnd::Final | StoryAttemptEnd::AskedQuestion => {}
        }
    }
    text.push_str(&exchanges::render_exchanges(
        &run.exchanges_of_execution(turn, execution),
        run.exchanges,
    ));
    if let Some(parts) = PartsSummary::from_events(&execution.parts) {
        text.push_str(&format!(
            "{}\n\n",
            parts.render_part_counts(execution.finish_event.is_some())
        ));
        for part in execution.parts.iter().filter(|part| part.failure().is_some()) {
            let error = part.failure().map_or("", |failure| &failure.error);
            text.push_str(&format!(
                "- part {} failed: {}\n",
                escape_markdown_inline(&part.key),
                escape_markdown_inline(error)
            ));
        }
        text.push('\n');
    }
    let own_warnings = execution.finish_event.iter().flat_map(|finished| &finished.warnings);
    for warning in list_part_warnings(&execution.parts).iter().chain(own_warnings) {
        text.push_str(&format!("- warning: {}\n\n", escape_markdown_inline(warning)));
    }
    if let Some(failure) = execution.failure() {
        text.push_str(&format!("failed ({}):\n\n", failure_kind_word(failure.kind)));
        text.push_str(&render_code_block(&failure.error, "text"));
    }
    for request in &execution.open_requests {
        let address = request.address.to_string();
        text.push_str(&format!(
            "{} is waiting for an answer:\n\n",
            escape_markdown_inline(&address)
        ));
        text.push_str(&render_code_block(&request.question.prompt, "text"));
        for choice in &request.question.choices {
            text.push_str(&format!("- {}\n", escape_markdown_inline(choice)));
        }
    }
    text + &execution
        .output()
        .map(|output| render_output(output))
        .unwrap_or_default()[..]
}

/// Renders an output: the response as text, other keys as JSON.
fn render_output(output: &Value) -> String {
    if !output.is_object() {
        return render_code_block(&format!("{output:#}"), "json");
    }
    let view = OutputView::new(output);
    let mut text = match view.response {
        Some(Value::String(response)) => render_code_block(response, "text"),
        Some(response) => render_code_block(&format!("{response:#}"), "json"),
        None => String::new(),
    };
    let other_entries: Map<String, Value> = view
        .other_entries()
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    if !other_entries.is_empty() {
        text.push_str(&render_code_block(
            &format!("{:#}", Value::Object(other_entries)),
            "json",
        ));
    }
    text
}

/// Renders a code block with a fence that the text does not contain. Collapses long text.
fn render_code_block(text: &str, language: &str) -> String {
    let text = text.trim_end();
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat((longest + 1).max(3));
    let block = format!("{fence}{language}\n{text}\n{fence}\n\n");
    let lines = text.lines().count();
    if lines <= MAX_EXPANDED_LINES {
        return block;
    }
    format!("<details><summary>{lines} lines</summary>\n\n{block}</details>\n\n")
}

/// Renders the text on one line, with escaped markup.
fn escape_markdown_inline(text: &str) -> String {
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

/// Renders a command as inline code.
fn render_code_span(command: &str) -> String {
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
        assert_eq!(render_code_block("x\n", "text"), "```text\nx\n```\n\n");
        assert_eq!(
            render_code_block("```\n# x\n````", "text"),
            "`````text\n```\n# x\n````\n`````\n\n"
        );
        assert!(render_code_block(&"x\n".repeat(40), "text").starts_with("<details><summary>40 lines"));
    }

    #[test]
    fn a_line_holds_no_markup() {
        assert_eq!(
            escape_markdown_inline("a <b>\n*c* | [d](e) `f`"),
            "a \\<b\\> \\*c\\* \\| \\[d\\](e) \\`f\\`"
        );
    }
}
