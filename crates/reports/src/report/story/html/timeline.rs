//! A table of turns and agents: a bar for each execution, with the length of its duration.

use std::sync::Arc;

use super::markup::escape_html;
use super::{ExportedRun, execution_anchor};
use crate::report::format::format_duration;
use ensemble_history::story::{StoryExecution, StoryTurn};

/// Renders a table of turns and agents. Agents that never ran have no column.
pub(super) fn render_timeline(run: &ExportedRun) -> String {
    let agents: Vec<&Arc<str>> = run
        .agents
        .iter()
        .map(|(name, _)| name)
        .filter(|name| {
            run.story
                .executions_by_turn()
                .any(|(_, execution)| execution.agent == **name)
        })
        .collect();
    let longest = run
        .story
        .executions_by_turn()
        .map(|(_, execution)| execution.totals.seconds);
    let longest = longest.fold(0.0, f64::max);
    let mut text =
        String::from("<div class=\"scroll\" tabindex=\"0\"><table class=\"timeline\">\n<thead><tr><th>turn</th>");
    for agent in &agents {
        text.push_str(&format!("<th>{}</th>", escape_html(agent)));
    }
    text.push_str("<th class=\"number\">took</th></tr></thead>\n<tbody>\n");
    for turn in run.story.turns() {
        text.push_str(&render_turn_row(turn, &agents, longest));
    }
    text + "</tbody></table></div>\n"
}

/// Renders the row of a turn. `longest` is the longest execution in seconds.
fn render_turn_row(turn: &StoryTurn, agents: &[&Arc<str>], longest: f64) -> String {
    let number = turn.turn;
    let mut text = format!("<tr><th><a href=\"#turn-{number}\">{number}</a></th>");
    for agent in agents {
        let execution = turn.executions.iter().find(|execution| execution.agent == **agent);
        text.push_str(&execution.map_or_else(
            || "<td></td>".to_owned(),
            |one| render_execution_cell(number, one, longest),
        ));
    }
    let took = turn
        .duration_seconds()
        .map_or_else(|| "open".to_owned(), format_duration);
    text + &format!("<td class=\"number\">{took}</td></tr>\n")[..]
}

/// Renders the cell of an execution with a bar for its duration.
fn render_execution_cell(turn: u32, execution: &StoryExecution, longest: f64) -> String {
    let seconds = execution.totals.seconds;
    let share = if longest > 0.0 { seconds / longest } else { 0.0 };
    let percent = (share * 100.0).clamp(2.0, 100.0);
    let (class, words) = match (&execution.finish_event, execution.failure()) {
        (_, Some(_)) => ("failed", format!("✗ {}", format_duration(seconds))),
        (Some(_), None) => ("good", format_duration(seconds)),
        (None, _) if execution.question.is_some() => ("open", "asks".to_owned()),
        (None, _) => ("open", "no end".to_owned()),
    };
    let attempts = match execution.totals.attempts {
        0 | 1 => String::new(),
        attempts => format!(" · {attempts} attempts"),
    };
    format!(
        "<td><a class=\"cell {class}\" href=\"#{}\"><span class=\"bar\" style=\"width:{percent:.1}%\"></span><span>{words}{attempts}</span></a></td>",
        execution_anchor(turn, execution)
    )
}
