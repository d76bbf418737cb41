//! The differences between two runs, for users and as JSON.

use ensemble_diff::{LineChange, group_changed_lines};
use serde_json::{Value, json};

use crate::report::format::{BAD, CAUTION, DIM, GOOD, NAME, format_count, render_token_counts};
use crate::report::values::render_value;
use crate::report::wrap::LineWidth;
use ensemble_history::RunState;
use ensemble_history::story::{
    BothRuns, ComparedOutcome, ContextChange, FirstExecutionDifference, FirstTurnDifference, RunComparison, RunStory,
    ValueChange,
};

/// The maximum number of shown differences of one value; the JSON document contains all.
const MAX_SHOWN_CHANGES: usize = 12;

/// The number of unchanged lines around a changed line.
const CONTEXT_LINES: usize = 2;

/// A compared run, with its name on the command line.
#[derive(Debug, Clone, Copy)]
pub struct NamedRun<'a> {
    /// The name as typed.
    pub given_name: &'a str,
    /// The events of the run.
    pub story: &'a RunStory,
    /// The state of the run.
    pub state: RunState,
}

/// Renders the differences of two runs for users.
pub fn render_comparison(compared: &RunComparison, runs: &[NamedRun; 2], width: LineWidth) -> String {
    let mut text = format!("a  {}\nb  {}\n", render_run_line(&runs[0]), render_run_line(&runs[1]));
    for (here, there, run) in [("a", "b", 0), ("b", "a", 1)] {
        text.push_str(&render_fork_relation(here, there, &runs[run], &runs[1 - run]));
    }
    text.push('\n');
    if compared.same {
        let executions = format_count(compared.shared_executions as u64, "execution");
        text.push_str(&format!(
            "{GOOD}✓ the same{GOOD:#}: {executions}, decisions, outputs and outcome\n"
        ));
    } else {
        text.push_str(&render_differences(compared, runs));
    }
    text.push_str(&render_usage_difference(compared));
    if compared.context.is_none() {
        text.push_str(&format!(
            "{DIM}the final contexts are not compared: the ensemble of one run is not available{DIM:#}\n"
        ));
    }
    // Values and lines of texts are not wrapped.
    let is_value = |line: &str| line.starts_with("    ") && !line.starts_with("     ");
    let lines = text.split_inclusive('\n').map(|line| match is_value(line) {
        true => line.to_owned(),
        false => width.wrap_sentences(line),
    });
    lines.collect()
}

/// Converts the differences of two runs to a JSON document.
pub fn comparison_to_json(compared: &RunComparison, runs: &[NamedRun; 2]) -> Value {
    let about = |run: &NamedRun| {
        let started = run.story.start_event();
        let totals = run.story.history.run_totals();
        json!({
            "given": run.given_name,
            "run_id": started.map(|started| &started.run_id),
            "ensemble": started.map(|started| &started.ensemble),
            "ensemble_digest": started.map(|started| &started.ensemble_digest).filter(|digest| !digest.is_empty()),
            "state": run.state,
            "turn_count": totals.turns,
            "executions": totals.all.executions,
        })
    };
    let mut document = json!({"version": 1, "a": about(&runs[0]), "b": about(&runs[1])});
    if let (Value::Object(document), Ok(Value::Object(compared))) = (&mut document, serde_json::to_value(compared)) {
        document.extend(compared);
    }
    document
}

/// Renders the id, the ensemble, the state and the counts of a run on one line.
fn render_run_line(run: &NamedRun) -> String {
    let story = run.story;
    let started = story.start_event();
    let id = started.map_or("", |started| &*started.run_id);
    let name = if id.is_empty() { run.given_name } else { id };
    let ensemble = started.map_or("", |started| &*started.ensemble);
    let totals = story.history.run_totals();
    format!(
        "{NAME}{name}{NAME:#}  {ensemble}  {}, turns {}, executions {}",
        run.state, totals.turns, totals.all.executions
    )
}

/// Renders a note if the run is a fork or a merge of the other run. `here` and `there` name the runs.
fn render_fork_relation(here: &str, there: &str, run: &NamedRun, other: &NamedRun) -> String {
    let origin = run.story.start_event().and_then(|started| started.forked_from.as_ref());
    let other_run_id = other.story.start_event().map(|started| &started.run_id);
    match origin {
        Some(origin) if origin.merged_with.is_some() => {
            let runs = [Some(&origin.run_id), origin.merged_with.as_ref()];
            match runs.contains(&other_run_id) {
                true => format!(
                    "   {DIM}{here} is a merge of {there} and another run after turn {}{DIM:#}\n",
                    origin.turn
                ),
                false => String::new(),
            }
        }
        Some(origin) if Some(&origin.run_id) == other_run_id => {
            format!(
                "   {DIM}{here} is a fork of {there} after turn {}{DIM:#}\n",
                origin.turn
            )
        }
        _ => String::new(),
    }
}

/// Renders all differences in the order of the runs.
fn render_differences(compared: &RunComparison, runs: &[NamedRun; 2]) -> String {
    let mut text = String::new();
    if let Some(input) = &compared.input {
        let headline = match input.number {
            0 => "the input differs".to_owned(),
            number => format!("message {number} after the input differs"),
        };
        text.push_str(&render_difference_headline(&headline));
        let text_value = |side: &Option<std::sync::Arc<str>>| side.as_ref().map(|text| Value::from(&**text));
        text.push_str(&render_value_change(&ValueChange {
            path: String::new(),
            a: text_value(&input.sides.a),
            b: text_value(&input.sides.b),
        }));
    }
    if !compared.given.is_empty() {
        text.push_str(&render_difference_headline("the initial context differs"));
        text.push_str(&render_context_changes(&compared.given));
    }
    // An output of turn n is read from turn n + 1 on.
    let said_at = compared.output.as_ref().map(|output| output.turn.a.min(output.turn.b));
    let said_first = said_at < compared.decision.as_ref().map(|decision| decision.turn);
    let output_text = compared
        .output
        .as_ref()
        .map(|output| render_output_difference(output, compared, runs));
    let decided = compared.decision.as_ref().map(render_decision_difference);
    let sections = if said_first {
        [output_text, decided]
    } else {
        [decided, output_text]
    };
    sections.into_iter().flatten().for_each(|part| text.push_str(&part));
    if let Some(BothRuns { a, b }) = &compared.outcome {
        text.push_str(&render_difference_headline("the outcome differs"));
        text.push_str(&format!("  a  {}\n  b  {}\n", render_outcome(a), render_outcome(b)));
    }
    if let Some(context) = compared.context.as_ref().filter(|context| !context.is_empty()) {
        let keys = format_count(context.len() as u64, "key");
        text.push_str(&render_difference_headline(&format!(
            "the final context differs in {keys}"
        )));
        text.push_str(&render_context_changes(context));
    }
    text
}

/// Renders the headline of a difference.
fn render_difference_headline(text: &str) -> String {
    format!("{CAUTION}✗{CAUTION:#} {NAME}{text}{NAME:#}\n")
}

/// Renders the agents that each run executes in a turn, and the reasons for the others.
fn render_decision_difference(decision: &FirstTurnDifference) -> String {
    let ran = |agents: &Option<Vec<std::sync::Arc<str>>>| match agents {
        Some(agents) => agents.join(", "),
        None => format!("{DIM}no such turn{DIM:#}"),
    };
    let mut text = render_difference_headline(&format!("different agents run in turn {}", decision.turn));
    for (side, agents, reasons) in [
        ("a", &decision.agents.a, &decision.reasons.a),
        ("b", &decision.agents.b, &decision.reasons.b),
    ] {
        text.push_str(&format!("  {side}  {}\n", ran(agents)));
        for (agent, reason) in reasons {
            text.push_str(&format!("     {DIM}{agent} does not run: {reason}{DIM:#}\n"));
        }
    }
    text
}

/// Renders the first different output, and the number of further ones.
fn render_output_difference(
    output: &FirstExecutionDifference,
    compared: &RunComparison,
    runs: &[NamedRun; 2],
) -> String {
    let turns = if output.turn.a == output.turn.b {
        format!("turn {}", output.turn.a)
    } else {
        format!("turn {} of a, {} of b", output.turn.a, output.turn.b)
    };
    let mut text = render_difference_headline(&format!(
        "{} #{} has a different output in {turns}",
        output.agent, output.execution
    ));
    text.push_str(&render_value_changes(&output.changes));
    let more = compared.different_executions - 1;
    if more > 0 {
        text.push_str(&format!(
            "  {DIM}and {more} more of {} in both runs{DIM:#}\n",
            format_count(compared.shared_executions as u64, "execution")
        ));
        let commands: Vec<String> = runs.iter().filter_map(suggest_show_command).collect();
        if let [a, b] = commands.as_slice() {
            text.push_str(&format!("  {DIM}show all with: {a}, {b}{DIM:#}\n"));
        }
    }
    text
}

/// Returns the command that shows the whole run. Returns `None` for a saved result.
fn suggest_show_command(run: &NamedRun) -> Option<String> {
    let id = &run.story.start_event()?.run_id;
    let is_recorded = !id.is_empty() && !id.contains('/') && id.starts_with(run.given_name);
    is_recorded.then(|| format!("ensemble runs show {id} -v"))
}

/// Renders the different values of the context.
fn render_context_changes(keys: &[ContextChange]) -> String {
    let with_key = |key: &ContextChange| -> Vec<ValueChange> {
        let path = |path: &str| match path.chars().next() {
            None => key.key.to_string(),
            Some('[') => format!("{}{path}", key.key),
            Some(_) => format!("{}.{path}", key.key),
        };
        let changes = key.changes.iter().map(|change| ValueChange {
            path: path(&change.path),
            ..change.clone()
        });
        changes.collect()
    };
    render_value_changes(&keys.iter().flat_map(with_key).collect::<Vec<_>>())
}

/// Renders the first changes, and the number of further ones.
fn render_value_changes(changes: &[ValueChange]) -> String {
    let mut text: String = changes
        .iter()
        .take(MAX_SHOWN_CHANGES)
        .map(render_value_change)
        .collect();
    if changes.len() > MAX_SHOWN_CHANGES {
        let more = changes.len() - MAX_SHOWN_CHANGES;
        text.push_str(&format!("  {DIM}and {more} more (--output json shows them){DIM:#}\n"));
    }
    text
}

/// Renders one change: two values, each on a line, or the changed lines of a text.
fn render_value_change(change: &ValueChange) -> String {
    let path = if change.path.is_empty() {
        String::new()
    } else {
        format!("  {}\n", change.path)
    };
    if let (Some(Value::String(a)), Some(Value::String(b))) = (&change.a, &change.b)
        && (a.trim_end().contains('\n') || b.trim_end().contains('\n'))
    {
        return path + render_changed_lines(a, b).as_str();
    }
    let mut text = path;
    for (sign, style, value) in [("-", BAD, &change.a), ("+", GOOD, &change.b)] {
        if let Some(value) = value {
            let mut value_text = render_value(value, false);
            if value_text != render_value(value, true) {
                value_text.push_str(" (--output json shows the whole value)");
            }
            text.push_str(
                &value_text
                    .lines()
                    .map(|line| format!("    {style}{sign} {line}{style:#}\n"))
                    .collect::<String>(),
            );
        }
    }
    text
}

/// Renders the changed lines with a few lines around them.
fn render_changed_lines(a: &str, b: &str) -> String {
    let mut text = String::new();
    for (number, group) in group_changed_lines(a, b, CONTEXT_LINES).into_iter().enumerate() {
        if number > 0 {
            text.push_str(&format!("    {DIM}…{DIM:#}\n"));
        }
        for (change, line) in group {
            let (sign, style) = match change {
                LineChange::Removed => ("-", BAD),
                LineChange::Added => ("+", GOOD),
                LineChange::Kept => (" ", DIM),
            };
            let value = line.trim_end_matches(['\n', '\r']);
            text.push_str(&format!("    {style}{sign} {value}{style:#}\n"));
        }
    }
    text
}

/// Renders an outcome with its detail.
fn render_outcome(outcome: &ComparedOutcome) -> String {
    let reason = outcome.completion_reason.unwrap_or("no outcome");
    match &outcome.detail {
        Some(detail) => format!("{reason}: {detail}"),
        None => reason.to_owned(),
    }
}

/// Renders the usage of both runs, if a model was used and the usage differs.
fn render_usage_difference(compared: &RunComparison) -> String {
    let BothRuns { a, b } = compared.usage;
    if a == b {
        return String::new();
    }
    let words = |usage: ensemble_language::data::ModelUsage| {
        let requests = format_count(usage.requests, "model request");
        std::iter::once(requests)
            .chain(render_token_counts(&usage))
            .collect::<Vec<_>>()
            .join(" · ")
    };
    format!("{DIM}usage{DIM:#}\n  a  {}\n  b  {}\n", words(a), words(b))
}
