//! `ensemble rerun`: one execution of a recorded run once more, and everything that followed from it.

use super::args::RerunArgs;
use super::error::CliError;
use super::fork::{Fork, Origin, check_agents, reruns};
use super::project::Surroundings;
use super::reuse::reusable;
use super::run::Then;
use ensemble_core::conversation::{Event, Record, Start};
use ensemble_language::data::Context;
use ensemble_runs::journal::Store;

/// `ensemble rerun`.
pub(super) fn rerun(args: &RerunArgs, surroundings: &Surroundings) -> Result<u8, CliError> {
    let store = Store::of(&surroundings.project_root(&surroundings.folder));
    let origin = Origin::open(store.find(&args.run)?, surroundings)?;
    let (agent, turn) = place(&args.from)?;
    let records = &origin.journal.records;
    let (at, start) = started(records, agent, turn)
        .ok_or_else(|| CliError::usage_with_help(no_such(args, agent, turn), when_it_ran(records, agent)))?;
    let kept = &records[..at];
    let text = origin.text(args.ensemble.as_deref(), surroundings)?;
    check_agents(kept, &text.prepared, turn - 1)?;
    text.tell(kept, &origin, &args.showing, surroundings);
    let changes = text.changes().cloned().unwrap_or_default();
    let is_out = |agent: &str| changes.concern(agent) || reruns(&text.prepared, agent);
    let reuse = reusable(&origin, turn, is_out, Some((start.agent.clone(), start.execution)))?;
    let fork = Fork {
        kept: kept.to_vec(),
        turn: turn - 1,
        repeats: Some(args.from.as_str().into()),
        origin: &origin,
        text,
        reuse,
        set: Context::default(),
        then: messages(&records[at..]),
    };
    fork.start(&args.answering, &args.driving, &args.showing, surroundings)
}

/// `agent@turn`.
fn place(given: &str) -> Result<(&str, u32), CliError> {
    let parsed = given.split_once('@').filter(|(agent, _)| !agent.is_empty());
    let parsed = parsed.and_then(|(agent, turn)| Some((agent, turn.parse().ok().filter(|turn| *turn > 0)?)));
    parsed.ok_or_else(|| CliError::usage(format!("--from takes AGENT@TURN, not `{given}`")))
}

/// The start of the agent in that turn, and the position of the turn's first record.
fn started<'a>(records: &'a [Record], agent: &str, turn: u32) -> Option<(usize, &'a Start)> {
    records.iter().enumerate().find_map(|(at, record)| match &record.event {
        Event::TurnStarted(started) if started.turn == turn => {
            let start = started.starts.iter().find(|start| *start.agent == *agent)?;
            Some((at, start))
        }
        _ => None,
    })
}

fn no_such(args: &RerunArgs, agent: &str, turn: u32) -> String {
    format!("{agent} did not run in turn {turn} of run {}", args.run)
}

fn when_it_ran(records: &[Record], agent: &str) -> String {
    let turns = records.iter().filter_map(|record| match &record.event {
        Event::TurnStarted(turn) => Some(turn),
        _ => None,
    });
    let ran = turns
        .clone()
        .filter(|turn| turn.starts.iter().any(|start| *start.agent == *agent));
    let ran: Vec<String> = ran.map(|turn| turn.turn.to_string()).collect();
    if !ran.is_empty() {
        return format!("it ran in turn {}", ran.join(", "));
    }
    let mut agents: Vec<&str> = Vec::new();
    for start in turns.flat_map(|turn| &turn.starts) {
        if !agents.contains(&&*start.agent) {
            agents.push(&start.agent);
        }
    }
    format!("the agents that ran are {}", agents.join(", "))
}

/// What was said to the run later on: it is said again.
fn messages(records: &[Record]) -> Then {
    let said = records.iter().filter_map(|record| match &record.event {
        Event::MessageAdded(message) => Some(message.text.clone()),
        _ => None,
    });
    said.collect()
}
