//! The result of `check`, for users and as JSON.

use serde_json::{Value, json};

use super::count;
use ensemble_core::explore::{
    AgentSummary, Assumed, Coverage, End, ExecutionResult, Exploration, ExploredExecution, STEPS_FROM_ONE_STATE,
    StepReport,
};

/// The version of the JSON document.
const VERSION: u32 = 1;
/// A path with more turns is shown without its middle.
const LONGEST_PATH: usize = 14;
/// The number of turns of a longer path that are shown at its beginning and at its end.
const PATH_ENDS: usize = 6;

/// One result for users.
fn human(ensemble: &str, found: &Exploration) -> String {
    let mut text = format!("{ensemble}: {}\n\n", coverage(&found.coverage));
    let least = if found.coverage.is_complete() {
        ""
    } else {
        " were found"
    };
    let (turns, executions) = (
        count(u64::from(found.turns), "turn"),
        count(u64::from(found.executions), "execution"),
    );
    text.push_str(&format!("at most {turns} and {executions}{least}\n\n"));
    let width = found.agents.iter().map(|one| one.agent.len()).max().unwrap_or(0);
    for one in &found.agents {
        text.push_str(&format!("  {:width$}  {}\n", one.agent, summary(one, &found.coverage)));
    }
    for end in &found.ends {
        text.push_str(&format!("\n{}\n", headline(end)));
        path(&end.path, &mut text);
        for not_run in &end.not_run {
            text.push_str(&format!(
                "  {:<8} {} never runs: {}\n",
                "", not_run.agent, not_run.reason
            ));
        }
    }
    text.push_str("\nnot examined\n");
    for besides in &found.besides {
        text.push_str(&format!("  {}: {}\n", besides.reason, besides.when));
    }
    for note in notes(found) {
        text.push_str(&format!("  {note}\n"));
    }
    text
}

fn coverage(coverage: &Coverage) -> String {
    let states = count(coverage.states, "state");
    let cut = match coverage.cut {
        0 => String::new(),
        cut => format!(
            "; {cut} of them had more than {STEPS_FROM_ONE_STATE} possible next steps, of which only the simplest were followed"
        ),
    };
    match (coverage.gave_up_after, coverage.cut) {
        (None, 0) => format!("all conversations were examined, {states}"),
        (None, _) => format!("not all conversations were examined, {states}{cut}"),
        (Some(executions), _) => {
            let executions = count(u64::from(executions), "execution");
            format!(
                "stopped after {states}: conversations of up to {executions} were examined, longer ones were not \
                 (--max-states examines more){cut}"
            )
        }
    }
}

fn summary(one: &AgentSummary, coverage: &Coverage) -> String {
    let left_out = one.left_out.as_deref();
    if one.most == 0 {
        let never = if coverage.is_complete() {
            "never runs"
        } else {
            "did not run in any conversation that was examined"
        };
        return format!("{never}: {}", left_out.unwrap_or("no agent starts it"));
    }
    let mut most = format!("at most {}", times(one.most));
    if one.most < one.limit {
        most.push_str(&format!(" (max_turns {} is never reached)", one.limit));
    }
    match left_out {
        Some(why) => format!("{most}, or never ({why})"),
        None => format!("{most}, and at least once"),
    }
}

fn times(times: u32) -> String {
    if times == 1 {
        "once".to_owned()
    } else {
        format!("{times} times")
    }
}

fn headline(end: &End) -> String {
    let turns = match end.turns {
        0 => "before the first turn ends".to_owned(),
        turns => format!("after {} at the earliest", count(u64::from(turns), "turn")),
    };
    let about = match (&end.detail, end.not_run.is_empty(), end.after_failure) {
        (Some(detail), ..) => format!(" ({detail})"),
        (None, true, _) => " (all agents ran)".to_owned(),
        (None, false, false) => " (an agent never ran)".to_owned(),
        (None, false, true) => " (an agent never ran, and an agent failed)".to_owned(),
    };
    format!("{}{about}, {turns}", end.reason)
}

fn path(path: &[StepReport], text: &mut String) {
    let skipped = if path.len() > LONGEST_PATH {
        path.len() - 2 * PATH_ENDS
    } else {
        0
    };
    for (at, told) in path.iter().enumerate() {
        if skipped > 0 && at == PATH_ENDS {
            let more = count(skipped as u64, "more turn");
            text.push_str(&format!("  …        {more} (--output json shows them)\n"));
        }
        if skipped > 0 && (PATH_ENDS..PATH_ENDS + skipped).contains(&at) {
            continue;
        }
        let label = if told.runs.is_empty() {
            "end".to_owned()
        } else {
            format!("turn {}", told.turn)
        };
        let runs: Vec<String> = told.runs.iter().map(ran).collect();
        let since = told.assumed.iter().map(since);
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

fn ran(ran: &ExploredExecution) -> String {
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
        text.push_str(&format!(" and asks for {target}"));
    }
    if ran.spends_budget {
        text.push_str(" and reaches the token limit");
    }
    text
}

fn since(assumed: &Assumed) -> String {
    let Assumed {
        agent,
        dependency,
        claim,
        answer,
        ..
    } = assumed;
    let claim: Vec<&str> = claim.split_whitespace().collect();
    format!(
        "since {} is {answer} (when {agent} listens to {dependency})",
        claim.join(" ")
    )
}

fn notes(found: &Exploration) -> Vec<&'static str> {
    let asks = "requests: an agent asks for at most one other in an execution";
    found.requests.then_some(asks).into_iter().collect()
}

/// An ensemble and its exploration.
#[derive(Debug)]
pub struct Explored {
    /// The name of the ensemble.
    pub name: String,
    /// Its file.
    pub file: String,
    /// The result.
    pub found: Exploration,
}

/// The results for users: the ensemble, and those that it names, each with its file.
pub fn all_human(ensemble: &Explored, inner: &[Explored]) -> String {
    let mut text = human(&ensemble.name, &ensemble.found);
    for one in inner {
        let name = format!("{} ({})", one.name, one.file);
        text.push_str(&format!("\n{}", human(&name, &one.found)));
    }
    text
}

/// One JSON document; the ensembles that are named are under `inner`.
pub fn all_json(ensemble: &Explored, inner: &[Explored]) -> String {
    let mut whole = document(&ensemble.name, &ensemble.found);
    let of_inner = |one: &Explored| {
        let mut document = document(&one.name, &one.found);
        document["file"] = json!(one.file);
        document
    };
    whole["inner"] = inner.iter().map(of_inner).collect();
    format!("{whole:#}\n")
}

fn document(ensemble: &str, found: &Exploration) -> Value {
    let coverage = &found.coverage;
    let agent = |one: &AgentSummary| {
        json!({
            "agent": one.agent,
            "most_executions": one.most,
            "max_turns": one.limit,
            "left_out": one.left_out,
        })
    };
    let besides = found.besides.iter();
    json!({
        "version": VERSION,
        "ensemble": ensemble,
        "complete": coverage.is_complete(),
        "states": coverage.states,
        "steps": coverage.steps,
        "gave_up_after_executions": coverage.gave_up_after,
        "states_cut_short": coverage.cut,
        "most_turns": found.turns,
        "most_executions": found.executions,
        "agents": found.agents.iter().map(agent).collect::<Vec<_>>(),
        "ends": found.ends.iter().map(end_as_json).collect::<Vec<_>>(),
        "not_looked_at": besides
            .map(|besides| json!({"completion_reason": besides.reason, "when": besides.when}))
            .collect::<Vec<_>>(),
        "notes": notes(found),
    })
}

fn end_as_json(end: &End) -> Value {
    json!({
        "completion_reason": end.reason,
        "detail": end.detail,
        "turns": end.turns,
        "not_run": end.not_run,
        "after_failure": end.after_failure,
        "way": end.path.iter().map(step_as_json).collect::<Vec<_>>(),
    })
}

fn step_as_json(told: &StepReport) -> Value {
    let assumed = |one: &Assumed| {
        json!({
            "agent": one.agent,
            "dependency": one.dependency,
            "position": one.position,
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
            "uses_up_tokens": one.spends_budget,
        })
    };
    json!({
        "turn": told.turn,
        "assumed": told.assumed.iter().map(assumed).collect::<Vec<_>>(),
        "runs": told.runs.iter().map(ran).collect::<Vec<_>>(),
    })
}
