//! The estimate of the usage of a run, from a recorded run.

use ensemble_core::conversation::RunEnded;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::report::format::{CAUTION, DIM, NAME, format_count, format_duration};
use crate::report::replacements::describe_replacements;
use crate::report::wrap::LineWidth;
use ensemble_history::story::{RunStory, StoryTurn};
use ensemble_history::{AgentTotals, RunState, RunTotals};

/// An estimate of the usage of a further run, from the usage of a recorded run.
#[derive(Debug)]
pub struct RunEstimate<'a> {
    /// The file to run.
    pub ensemble: &'a str,
    /// The recorded run.
    pub story: &'a RunStory,
    /// The state of the recorded run.
    pub state: RunState,
    /// The agents of the file, in declaration order.
    pub agents: Vec<(Arc<str>, AgentEstimate)>,
    /// The agents that ran and are no longer in the file.
    pub removed_agents: Vec<Arc<str>>,
    /// The totals of the recorded run, or of its last message.
    pub recorded_totals: &'a RunTotals,
    /// The data of the last message, for an estimate of the next message. `None` means an estimate of a whole run.
    pub next_message: Option<NextMessageEstimate>,
    /// True if the recorded ensemble is available, so that changed agents are known.
    pub can_compare: bool,
}

/// The basis of an estimate for the next message of a conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct NextMessageEstimate {
    /// The first turn that answers the last message of the recorded run.
    pub first_turn: u32,
    /// The agents that keep a thread.
    pub kept_threads: Vec<(Arc<str>, RememberedThread)>,
}

/// A thread that an agent remembers at the end of the recorded run, with its size in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RememberedThread {
    /// The tokens that each request of the next message repeats.
    pub tokens: u64,
    /// The tokens by which the thread has grown since the beginning of the last message.
    pub growth: u64,
    /// The number of threads of the agent: one, or one for each of its parts.
    pub threads: u64,
    /// True if the tokenizer of the model is unknown.
    pub is_estimated: bool,
}

/// The recorded usage of an agent in the ensemble file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum AgentEstimate {
    /// The agent ran, and has not changed.
    Ran(AgentTotals),
    /// The agent was not executed in the recorded run.
    Idle,
    /// The agent has changed in the file, so its recorded usage is not reliable.
    Changed(AgentTotals),
    /// The recorded ensemble did not contain the agent.
    New,
}

impl RunEstimate<'_> {
    /// Returns the total of the known usage of all agents.
    fn known_total(&self) -> AgentTotals {
        let shares = self.agents.iter().filter_map(|(_, known)| match known {
            AgentEstimate::Ran(share) => Some(*share),
            AgentEstimate::Idle | AgentEstimate::Changed(_) | AgentEstimate::New => None,
        });
        shares.fold(AgentTotals::default(), |sum, one| sum + one)
    }

    /// Returns the seconds in which turns were executed: of the last message if the estimate is for the next message, otherwise of the run.
    fn active_seconds(&self) -> f64 {
        match &self.next_message {
            None => self.story.active_seconds(),
            Some(next) => {
                let turns = self.story.turns().filter(|turn| turn.turn >= next.first_turn);
                // The sum of no durations is -0.
                turns
                    .filter_map(StoryTurn::duration_seconds)
                    .fold(0.0, |sum, one| sum + one)
            }
        }
    }

    /// Returns the names of the agents for whose estimate `of` is true.
    fn agent_names_where(&self, of: impl Fn(&AgentEstimate) -> bool) -> Vec<&str> {
        let agents = self.agents.iter().filter(|(_, known)| of(known));
        agents.map(|(name, _)| &**name).collect()
    }
}

/// Renders the estimate for users.
pub fn render_estimate(estimate: &RunEstimate, width: LineWidth) -> String {
    let story = estimate.story;
    let run = story.start_event().map_or("", |started| &*started.run_id);
    let total = estimate.known_total();
    let changed = estimate.agent_names_where(|known| matches!(known, AgentEstimate::Changed(_)));
    let new = estimate.agent_names_where(|known| matches!(known, AgentEstimate::New));
    let is_whole = changed.is_empty() && new.is_empty();
    let mut rows = vec![["agent", "executions", "requests", "tokens in", "tokens out", "time"].map(str::to_owned)];
    for (name, known) in &estimate.agents {
        rows.push(match known {
            AgentEstimate::Ran(share) => usage_table_row(name, share),
            AgentEstimate::Idle => text_table_row(name, "did not run"),
            AgentEstimate::Changed(_) => text_table_row(name, "unknown: changed"),
            AgentEstimate::New => text_table_row(name, "unknown: new"),
        });
    }
    rows.push(usage_table_row(if is_whole { "all" } else { "at least" }, &total));
    let basis = match &estimate.next_message {
        None => "estimated from run",
        Some(_) => "the next message, estimated from the last message of run",
    };
    let title = format!(
        "{NAME}{}{NAME:#}, {basis} {run} {DIM}({}, {}){DIM:#}\n\n",
        estimate.ensemble,
        estimate.state,
        format_count(estimate.recorded_totals.turns.into(), "turn"),
    );
    let mut text = String::new();
    let wall = format_duration(estimate.active_seconds());
    let note = if is_whole { "" } else { ", as recorded" };
    text.push_str(&format!("wall clock {wall}{note}\n"));
    text.push_str(&render_cost(estimate, &total));
    for (agent, kept) in estimate.next_message.iter().flat_map(|next| &next.kept_threads) {
        let mark = if kept.is_estimated { "~" } else { "" };
        text.push_str(&format!(
            "{agent} keeps a thread of {mark}{} tokens, which each of its requests contains\n",
            kept.tokens
        ));
    }
    for (names, meaning) in [
        (changed, "changed since the recorded run, so its figures do not apply"),
        (new, "new, so there are no figures"),
        (
            estimate.removed_agents.iter().map(|name| &**name).collect(),
            "no longer in the file; their figures are left out",
        ),
    ] {
        if !names.is_empty() {
            text.push_str(&format!("{CAUTION}{}{CAUTION:#}: {meaning}\n", names.join(", ")));
        }
    }
    text.push_str(&render_reliability_notes(estimate, &total));
    format!(
        "{}{}\n{}",
        width.wrap_sentences(&title),
        render_aligned_rows(&rows),
        width.wrap_sentences(&text)
    )
}

/// Renders the cost of the tokens at the prices of the file, and the agents without a price.
fn render_cost(estimate: &RunEstimate, total: &AgentTotals) -> String {
    let Some(cost) = total.usage.cost else {
        return String::new();
    };
    let without_price = estimate.agent_names_where(|known| match known {
        AgentEstimate::Ran(share) => share.usage.requests > 0 && share.usage.cost.is_none(),
        AgentEstimate::Idle | AgentEstimate::Changed(_) | AgentEstimate::New => false,
    });
    match without_price.as_slice() {
        [] => format!("cost {cost}\n"),
        names => format!(
            "cost {cost}, not counting {}: the price of the model is not known\n",
            names.join(", ")
        ),
    }
}

/// Renders notes about the reliability of the estimate.
fn render_reliability_notes(estimate: &RunEstimate, total: &AgentTotals) -> String {
    let mut text = String::new();
    if total.usage.estimated {
        text.push_str(&format!(
            "{DIM}~ estimated, because a provider did not report the tokens{DIM:#}\n"
        ));
    }
    let started = estimate.story.start_event();
    for (what, told) in started.map(describe_replacements).unwrap_or_default() {
        text.push_str(&format!(
            "{CAUTION}{what}{CAUTION:#}: {told}, so a real run takes longer\n"
        ));
    }
    if !estimate.can_compare {
        text.push_str(&format!(
            "{DIM}the recorded ensemble is not available, so changed agents are not detected{DIM:#}\n"
        ));
    }
    if estimate.story.end_event().is_none() {
        text.push_str(&format!(
            "{CAUTION}the recorded run did not finish{CAUTION:#}: a complete run takes longer\n"
        ));
    }
    text
}

/// Converts the estimate to a JSON document. Totals contain only known values: neither changed nor new agents.
pub fn estimate_to_json(estimate: &RunEstimate) -> Value {
    let agents = estimate.agents.iter().map(|(name, known)| {
        let (state, share) = match known {
            AgentEstimate::Ran(share) => ("same", Some(share)),
            AgentEstimate::Idle => ("idle", None),
            AgentEstimate::Changed(share) => ("changed", Some(share)),
            AgentEstimate::New => ("new", None),
        };
        json!({"agent": name, "state": state, "recorded": share})
    });
    let story = estimate.story;
    let next_message = estimate.next_message.as_ref().map(|next| {
        let threads = next
            .kept_threads
            .iter()
            .map(|(agent, kept)| json!({"agent": agent, "tokens": kept.tokens, "estimated": kept.is_estimated}));
        json!({"kept_threads": threads.collect::<Vec<_>>()})
    });
    let mut document = json!({
        "version": 1,
        "ensemble_file": estimate.ensemble,
        "from": story.start_event().map(|started| &started.run_id),
        "state": estimate.state,
        "completion_reason": story.end_event().map(|ended| ended.completion_reason),
        "success": story.end_event().map(RunEnded::is_success),
        "turn_count": estimate.recorded_totals.turns,
        "agents": agents.collect::<Vec<_>>(),
        "no_longer_there": estimate.removed_agents,
        "known": estimate.known_total(),
        "recorded": estimate.recorded_totals.all,
        "recorded_wall_seconds": estimate.active_seconds(),
        "simulated": story.start_event().map(|started| &started.simulated),
        "agents_compared": estimate.can_compare,
    });
    if let Some(next_message) = next_message {
        document["next_message"] = next_message;
    }
    document
}

/// Formats the usage of an agent as a row of the table.
fn usage_table_row(name: &str, share: &AgentTotals) -> [String; 6] {
    let usage = share.usage;
    let mark = if usage.estimated { "~" } else { "" };
    let tokens = |tokens: u64| {
        if usage.requests == 0 {
            "–".to_owned()
        } else {
            format!("{mark}{tokens}")
        }
    };
    let mut executions = share.executions.to_string();
    if share.attempts > share.executions {
        executions.push_str(&format!(" ({} attempts)", share.attempts));
    }
    [
        name.to_owned(),
        executions,
        if usage.requests == 0 {
            "–".to_owned()
        } else {
            usage.requests.to_string()
        },
        tokens(usage.input_tokens),
        tokens(usage.output_tokens),
        format_duration(share.seconds),
    ]
}

/// Creates a row with a text instead of numbers.
fn text_table_row(name: &str, words: &str) -> [String; 6] {
    let [requests, input, output, time] = std::array::from_fn(|_| String::new());
    [name.to_owned(), words.to_owned(), requests, input, output, time]
}

/// Renders the rows in columns: names left-aligned, numbers right-aligned. A text instead of numbers can exceed its column.
fn render_aligned_rows(rows: &[[String; 6]]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter(|row| column == 0 || !row[2].is_empty());
        cells.map(|row| row[column].chars().count()).max().unwrap_or(0)
    };
    let widths: [usize; 6] = std::array::from_fn(width);
    let mut text = String::new();
    for (number, row) in rows.iter().enumerate() {
        let mut line = format!("{:1$}", row[0], widths[0]);
        for (cell, width) in row[1..].iter().zip(&widths[1..]) {
            line.push_str("  ");
            if row[2].is_empty() {
                line.push_str(cell);
            } else {
                line.push_str(&format!("{cell:>width$}"));
            }
        }
        let line = line.trim_end();
        let line = if number == 0 {
            format!("{DIM}{line}{DIM:#}")
        } else {
            line.to_owned()
        };
        text.push_str(&line);
        text.push('\n');
    }
    text
}
