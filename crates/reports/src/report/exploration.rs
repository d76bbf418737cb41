//! The result of `ensemble check`, as text for users and as JSON.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use super::format_count;
use ensemble_core::conversation::{CompletionReason, ExhaustedAgent};
use ensemble_explore::{
    AssumedClaim, ClaimSite, ExecutionResult, Exploration, ExplorationCoverage, ExplorationLimit, ExploredAgentSummary,
    ExploredExecution, MAX_STEPS_FROM_STATE, PossibleEnd, SpentBudget, StepReport,
};
use ensemble_language::plan::Plan;

/// The version of the JSON document.
const EXPLORATION_JSON_VERSION: u32 = 2;
/// The maximum number of turns of a path that is shown completely.
const MAX_SHOWN_TURNS: usize = 14;
/// The number of turns of a longer path that are shown at its beginning and at its end.
const TURNS_AT_PATH_ENDS: usize = 6;
/// The maximum number of listed ends of a group. Larger groups are counted, because independent loops multiply the ends.
const MAX_LISTED_ENDS: usize = 4;

/// Renders the result of an exploration for users.
fn render_exploration(ensemble: &str, found: &Exploration) -> String {
    let mut text = format!("{ensemble}: {}\n\n", render_coverage(&found.coverage));
    let is_complete = found.coverage.is_complete();
    let (turns, executions) = (
        format_count(u64::from(found.turns), "turn"),
        format_count(u64::from(found.executions), "execution"),
    );
    if is_complete {
        text.push_str(&format!("at most {turns} and {executions}\n\n"));
    } else {
        text.push_str(&format!("seen: {turns} and {executions}; there may be more\n\n"));
    }
    let width = found.agents.iter().map(|one| one.agent.len()).max().unwrap_or(0);
    for agent_summary in &found.agents {
        let summary = if is_complete {
            render_fully_explored_agent(agent_summary)
        } else {
            render_partly_explored_agent(agent_summary)
        };
        text.push_str(&format!("  {:width$}  {summary}\n", agent_summary.agent));
    }
    text.push_str(&render_grouped_ends(found));
    text.push_str("\nnot examined\n");
    for besides in &found.besides {
        text.push_str(&format!("  {}: {}\n", besides.reason, besides.when));
    }
    for note in list_exploration_restrictions(found) {
        text.push_str(&format!("  {note}\n"));
    }
    text
}

/// Renders the ends in groups that differ only in the exhausted agents. Counts the ends of a large group.
fn render_grouped_ends(found: &Exploration) -> String {
    let mut text = String::new();
    let mut is_headed = false;
    let group = |end: &PossibleEnd| (end.reason, end.success, end.not_run.is_empty(), end.after_failure);
    for ends in found.ends.chunk_by(|one, other| group(one) == group(other)) {
        let shown_count = if ends.len() > MAX_LISTED_ENDS { 1 } else { ends.len() };
        let (shown, counted) = ends.split_at(shown_count);
        for end in shown {
            if !end.success && !std::mem::replace(&mut is_headed, true) {
                text.push_str("\nends without success\n");
            }
            text.push_str(&render_end_with_path(end, found.coverage.is_complete()));
        }
        if !counted.is_empty() {
            text.push_str(&render_counted_ends(ends, counted.len(), found.are_ends_cut));
        }
    }
    if found.are_ends_cut {
        text.push_str("\nthere are more ends, which differ from these only in the agents that still have work\n");
    }
    text
}

/// Renders one end with its path.
fn render_end_with_path(end: &PossibleEnd, is_complete: bool) -> String {
    let mut text = format!("\n{}\n", render_end_headline(end, is_complete));
    append_shortened_path(&end.path, &mut text);
    for exhausted in &end.exhausted {
        text.push_str(&format!("  {:<8} {exhausted}\n", ""));
    }
    for not_run in &end.not_run {
        text.push_str(&format!(
            "  {:<8} {} never runs: {}\n",
            "", not_run.agent, not_run.reason
        ));
    }
    text
}

/// Renders the exhausted agents of a group of ends, each with its number of ends if all are listed.
fn render_counted_ends(ends: &[PossibleEnd], counted: usize, are_cut: bool) -> String {
    let at_least = if are_cut { "at least " } else { "" };
    let counted = format_count(counted as u64, "more end");
    let mut text = format!("  and {at_least}{counted} with other exhausted agents (--output json shows them):\n");
    let mut agents: BTreeMap<&ExhaustedAgent, usize> = BTreeMap::new();
    for exhausted in ends.iter().flat_map(|end| &end.exhausted) {
        *agents.entry(exhausted).or_default() += 1;
    }
    for (exhausted, count) in agents {
        let share = match are_cut {
            true => String::new(),
            false => format!(": {count} of {} ends", ends.len()),
        };
        text.push_str(&format!("  {:<8} {exhausted}{share}\n", ""));
    }
    text
}

/// Renders the number of explored states and the limit that stopped the exploration.
fn render_coverage(coverage: &ExplorationCoverage) -> String {
    let states = match coverage.parts {
        0 | 1 => format_count(coverage.states, "state"),
        parts => format!(
            "{} in {parts} independent parts",
            format_count(coverage.states, "state")
        ),
    };
    let cut = match coverage.cut {
        0 => String::new(),
        cut => format!(
            "; {cut} of them had more than {MAX_STEPS_FROM_STATE} possible next steps, of which only the simplest were followed"
        ),
    };
    let limit = match (coverage.stopped_by, coverage.cut) {
        (None, 0) => return format!("all conversations were examined, {states}"),
        (None, _) => return format!("not all conversations were examined, {states}{cut}"),
        (Some(ExplorationLimit::States), _) => "--max-states",
        (Some(ExplorationLimit::Time), _) => "--max-time",
    };
    let examined = match (coverage.complete_below, coverage.cut) {
        (Some(executions), 0) if executions > 0 => {
            let executions = format_count(u64::from(executions), "execution");
            format!("all conversations of fewer than {executions} were examined, longer ones in part")
        }
        _ => "conversations were examined only in part".to_owned(),
    };
    format!("stopped after {states}: {examined} ({limit} examines more){cut}")
}

/// Renders an agent after an incomplete exploration: observed and proven numbers.
fn render_partly_explored_agent(one: &ExploredAgentSummary) -> String {
    let left_out = one.left_out.as_deref();
    if one.bound == 0 {
        return format!("never runs: {}", left_out.unwrap_or("no agent starts it"));
    }
    let limit = match u64::from(one.most) < one.bound {
        true => format!(" (its limit is {})", one.bound),
        false => String::new(),
    };
    let seen_text = match one.most {
        0 => "not seen".to_owned(),
        most => format!("seen {}", format_times(most)),
    };
    let without = left_out.map(|why| format!("; a conversation without it was seen ({why})"));
    format!("{seen_text}{limit}{}", without.unwrap_or_default())
}

/// Renders an agent after a complete exploration.
fn render_fully_explored_agent(one: &ExploredAgentSummary) -> String {
    let left_out = one.left_out.as_deref();
    if one.most == 0 {
        return format!("never runs: {}", left_out.unwrap_or("no agent starts it"));
    }
    let mut limit_text = match (one.most, left_out) {
        (1, None) => "exactly once".to_owned(),
        (most, _) => format!("at most {}", format_times(most)),
    };
    if one.most < one.limit {
        limit_text.push_str(&format!(" (max_turns {} is never reached)", one.limit));
    }
    match left_out {
        Some(reason) => format!("{limit_text}, or never ({reason})"),
        None if one.most == 1 => limit_text,
        None => format!("{limit_text}, at least once"),
    }
}

/// Formats a number of times: `once`, `2 times`.
fn format_times(times: u32) -> String {
    if times == 1 {
        "once".to_owned()
    } else {
        format!("{times} times")
    }
}

/// Renders the outcome, the reason and the turn of an end.
fn render_end_headline(end: &PossibleEnd, is_complete: bool) -> String {
    let earliest = if is_complete { " at the earliest" } else { "" };
    let turns = match end.turns {
        0 => "before the first turn ends".to_owned(),
        turns => format!("after {}{earliest}", format_count(u64::from(turns), "turn")),
    };
    // The exhausted agents are listed below.
    let detail = end
        .detail
        .as_ref()
        .filter(|_| end.reason != CompletionReason::Completed);
    let about = match (&detail, end.not_run.is_empty(), end.after_failure) {
        (Some(detail), ..) => format!(" ({detail})"),
        (None, true, _) => " (all agents ran)".to_owned(),
        (None, false, false) => " (an agent never ran)".to_owned(),
        (None, false, true) => " (an agent never ran, and an agent failed)".to_owned(),
    };
    format!("{}{about}, {turns}", end.reason)
}

/// Appends the turns of a path, without the middle of a long path.
fn append_shortened_path(path: &[StepReport], text: &mut String) {
    let skipped = if path.len() > MAX_SHOWN_TURNS {
        path.len() - 2 * TURNS_AT_PATH_ENDS
    } else {
        0
    };
    for (at, told) in path.iter().enumerate() {
        if skipped > 0 && at == TURNS_AT_PATH_ENDS {
            let more = format_count(skipped as u64, "more turn");
            text.push_str(&format!("  …        {more} (--output json shows them)\n"));
        }
        if skipped > 0 && (TURNS_AT_PATH_ENDS..TURNS_AT_PATH_ENDS + skipped).contains(&at) {
            continue;
        }
        let label = if told.runs.is_empty() {
            "end".to_owned()
        } else {
            format!("turn {}", told.turn)
        };
        let runs: Vec<String> = told.runs.iter().map(render_explored_execution).collect();
        let since = told.assumed.iter().map(render_assumption);
        let lines = Some(runs.join(", "))
            .filter(|runs| !runs.is_empty())
            .into_iter()
            .chain(since);
        for (at, line) in lines.enumerate() {
            let label = if at == 0 { &*label } else { "" };
            text.push_str(&format!("  {label:<8} {line}\n"));
        }
    }
}

/// Renders an execution of a path with its result.
fn render_explored_execution(ran: &ExploredExecution) -> String {
    let mut text = ran.agent.to_string();
    if ran.execution > 1 {
        text.push_str(&format!(" #{}", ran.execution));
    }
    match ran.result {
        ExecutionResult::Succeeded => {}
        ExecutionResult::Failed => text.push_str(" fails"),
        ExecutionResult::Unanswered => text.push_str(" gets no answer"),
    }
    if let Some(target) = &ran.requests {
        text.push_str(&format!(" and requests {target}"));
    }
    match ran.spent_budget {
        Some(SpentBudget::Tokens(_)) => text.push_str(" and reaches the token limit"),
        Some(SpentBudget::Cost(_)) => text.push_str(" and reaches the cost limit"),
        None => {}
    }
    text
}

/// Renders the assumed value of a condition.
fn render_assumption(assumed: &AssumedClaim) -> String {
    let AssumedClaim { site, claim, answer } = assumed;
    let claim: Vec<&str> = claim.split_whitespace().collect();
    let site = match site {
        ClaimSite::Dependency { agent, dependency, .. } => format!("when {agent} listens to {dependency}"),
        ClaimSite::Success => "success of the ensemble".to_owned(),
    };
    format!("since {} is {answer} ({site})", claim.join(" "))
}

/// Lists the restrictions of the exploration.
fn list_exploration_restrictions(found: &Exploration) -> Vec<&'static str> {
    let asks = "requests: several requests of one execution";
    found.requests.then_some(asks).into_iter().collect()
}

/// An ensemble with the result of its exploration.
#[derive(Debug)]
pub struct ExploredEnsemble {
    /// The name of the ensemble.
    pub name: String,
    /// The file of the ensemble.
    pub file: String,
    /// The result.
    pub found: Exploration,
}

impl ExploredEnsemble {
    /// Creates the result for the ensemble in this file.
    pub fn new(plan: &Plan, file: &Path, found: Exploration) -> Self {
        Self {
            name: plan.ensemble().name.to_string(),
            file: file.display().to_string(),
            found,
        }
    }
}

/// Renders the results for users: the ensemble and its nested ensembles, each with its file.
pub fn render_explorations(ensemble: &ExploredEnsemble, inner: &[ExploredEnsemble]) -> String {
    let mut text = render_exploration(&ensemble.name, &ensemble.found);
    for nested_ensemble in inner {
        let name = format!("{} ({})", nested_ensemble.name, nested_ensemble.file);
        text.push_str(&format!("\n{}", render_exploration(&name, &nested_ensemble.found)));
    }
    text
}

/// Renders one JSON document. Nested ensembles are under `inner`.
pub fn render_explorations_json(ensemble: &ExploredEnsemble, inner: &[ExploredEnsemble]) -> String {
    let mut root_document = exploration_json(&ensemble.name, &ensemble.found);
    let of_inner = |one: &ExploredEnsemble| {
        let mut document = exploration_json(&one.name, &one.found);
        document["file"] = json!(one.file);
        document
    };
    root_document["inner"] = inner.iter().map(of_inner).collect();
    format!("{root_document:#}\n")
}

/// Converts an exploration to JSON.
fn exploration_json(ensemble: &str, found: &Exploration) -> Value {
    let coverage = &found.coverage;
    let agent = |one: &ExploredAgentSummary| {
        json!({
            "agent": one.agent,
            "most_executions": claim_if_complete(coverage.is_complete(), one.most),
            "seen_executions": one.most,
            "bound_executions": one.bound,
            "max_turns": one.limit,
            "left_out": one.left_out,
        })
    };
    let besides = found.besides.iter();
    json!({
        "version": EXPLORATION_JSON_VERSION,
        "ensemble": ensemble,
        "complete": coverage.is_complete(),
        "states": coverage.states,
        "steps": coverage.steps,
        "parts": coverage.parts,
        "stopped_by": coverage.stopped_by.map(|limit| match limit {
            ExplorationLimit::States => "max_states",
            ExplorationLimit::Time => "max_time",
        }),
        "complete_below_executions": coverage.complete_below.filter(|_| coverage.cut == 0),
        "states_cut_short": coverage.cut,
        "most_turns": claim_if_complete(coverage.is_complete(), found.turns),
        "most_executions": claim_if_complete(coverage.is_complete(), found.executions),
        "seen_turns": found.turns,
        "seen_executions": found.executions,
        "bound_turns": found.turns_bound,
        "bound_executions": found.executions_bound,
        "agents": found.agents.iter().map(agent).collect::<Vec<_>>(),
        "ends_cut": found.are_ends_cut,
        "ends": found.ends.iter().map(end_to_json).collect::<Vec<_>>(),
        "not_looked_at": besides
            .map(|besides| json!({"completion_reason": besides.reason, "when": besides.when}))
            .collect::<Vec<_>>(),
        "notes": list_exploration_restrictions(found),
    })
}

/// Returns the number only if the exploration is complete, because the number is a claim about all conversations.
fn claim_if_complete(is_complete: bool, number: u32) -> Option<u32> {
    is_complete.then_some(number)
}

/// Converts an end to JSON.
fn end_to_json(end: &PossibleEnd) -> Value {
    json!({
        "completion_reason": end.reason,
        "success": end.success,
        "detail": end.detail,
        "turns": end.turns,
        "not_run": end.not_run,
        "exhausted": end.exhausted,
        "after_failure": end.after_failure,
        "way": end.path.iter().map(step_to_json).collect::<Vec<_>>(),
    })
}

/// Converts a turn of a path to JSON.
fn step_to_json(told: &StepReport) -> Value {
    let assumed = |one: &AssumedClaim| {
        let (agent, dependency, position) = match &one.site {
            ClaimSite::Dependency {
                agent,
                dependency,
                position,
            } => (Some(agent), Some(dependency), Some(position)),
            ClaimSite::Success => (None, None, None),
        };
        json!({
            "agent": agent,
            "dependency": dependency,
            "position": position,
            "success": one.site == ClaimSite::Success,
            "claim": one.claim,
            "answer": one.answer,
        })
    };
    let ran = |one: &ExploredExecution| {
        json!({
            "agent": one.agent,
            "execution": one.execution,
            "ended": match one.result {
                ExecutionResult::Succeeded => "succeeded",
                ExecutionResult::Failed => "failed",
                ExecutionResult::Unanswered => "unanswered",
            },
            "requests": one.requests,
            "uses_up_tokens": matches!(one.spent_budget, Some(SpentBudget::Tokens(_))),
            "uses_up_cost": matches!(one.spent_budget, Some(SpentBudget::Cost(_))),
        })
    };
    json!({
        "turn": told.turn,
        "assumed": told.assumed.iter().map(assumed).collect::<Vec<_>>(),
        "runs": told.runs.iter().map(ran).collect::<Vec<_>>(),
    })
}
