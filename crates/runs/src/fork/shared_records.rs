//! The records that a run shares with the run from which it was forked.
//!
//! Invariant: shared records are equal in both runs, and in the same order.

use std::sync::Arc;

use ensemble_core::conversation::{AgentStart, Event, Record};

use crate::error::RunError;
use crate::prepare::PreparedEnsemble;
use crate::start::recorded_run::{RecordedRun, has_rerun_on_resume};

/// Lists the agents that were executed, each with the turn, in order.
pub(crate) fn list_executed_agents(records: &[Record]) -> impl Iterator<Item = (u32, &Arc<str>)> {
    list_execution_starts(records).map(|(turn, start)| (turn, &start.agent))
}

/// Lists the executions that were started, each with the turn.
pub(crate) fn list_execution_starts(records: &[Record]) -> impl Iterator<Item = (u32, &AgentStart)> {
    let turns = records.iter().filter_map(|record| match &record.event {
        Event::TurnStarted(turn) => Some(turn),
        _ => None,
    });
    turns.flat_map(|turn| turn.starts.iter().map(|start| (turn.turn, start)))
}

/// Returns the records up to the end of the turn, including values that a fork set directly after the turn. Turn 0 ends after the first
/// record.
///
/// # Errors
///
/// The run has no such finished turn.
pub(crate) fn records_until_turn(origin: &RecordedRun, turn: u32) -> Result<&[Record], RunError> {
    let records = &origin.journal.records;
    let ends = |record: &Record| match &record.event {
        Event::RunStarted(_) => turn == 0,
        Event::TurnFinished(finished) => finished.turn == turn,
        _ => false,
    };
    if let Some(at) = records.iter().position(ends) {
        let is_set = |record: &&Record| matches!(record.event, Event::ContextSet(_));
        let set = records[at + 1..].iter().take_while(is_set).count();
        return Ok(&records[..=at + set]);
    }
    let finished = records
        .iter()
        .filter(|record| matches!(record.event, Event::TurnFinished(_)));
    Err(RunError::NoTurn {
        run: origin.run.id().clone(),
        turn,
        finished: finished.count(),
    })
}

/// Returns the records up to the end of the last finished turn, or up to the message after the turn.
pub(crate) fn records_until_finished_turn(records: &[Record]) -> &[Record] {
    let is_kept = |record: &Record| {
        matches!(
            record.event,
            Event::RunStarted(_) | Event::TurnFinished(_) | Event::MessageAdded(_) | Event::ContextSet(_)
        )
    };
    let end = records.iter().rposition(is_kept).map_or(0, |at| at + 1);
    &records[..end]
}

/// Returns the records. If an agent with `on_resume: rerun` was executed in the last turn, removes its results, so that the turn is open
/// again.
pub(crate) fn reopen_turn_for_reruns(kept: &[Record], turn: u32, prepared: &PreparedEnsemble) -> Vec<Record> {
    let again: Vec<&Arc<str>> = list_executed_agents(kept)
        .filter(|(ran_in, agent)| *ran_in == turn && has_rerun_on_resume(prepared, agent))
        .map(|(_, agent)| agent)
        .collect();
    if again.is_empty() {
        return kept.to_vec();
    }
    let stays = |record: &&Record| match &record.event {
        Event::ExecutionStarted(event) => event.turn != turn || !again.contains(&&event.agent),
        Event::AttemptFailed(event) => event.turn != turn || !again.contains(&&event.agent),
        Event::PartEnded(event) => event.turn != turn || !again.contains(&&event.agent),
        Event::ExecutionFinished(event) => event.turn != turn || !again.contains(&&event.agent),
        Event::InputRequested(event) => event.turn != turn || !again.contains(&&event.agent),
        Event::TurnFinished(event) => event.turn != turn,
        other => other
            .attempt_scope()
            .is_none_or(|within| within.turn != turn || !again.contains(&&within.agent)),
    };
    kept.iter().filter(stays).cloned().collect()
}

/// Checks that the ensemble contains every agent that was executed.
///
/// # Errors
///
/// An agent is missing.
pub(crate) fn check_agents_exist(kept: &[Record], prepared: &PreparedEnsemble, turn: u32) -> Result<(), RunError> {
    match list_executed_agents(kept).find(|(_, agent)| prepared.plan.find_agent_id(agent).is_none()) {
        None => Ok(()),
        Some((_, agent)) => Err(RunError::AgentIsGone {
            agent: agent.to_string(),
            turn,
        }),
    }
}

/// Returns the start of the agent in this turn, and the index of the turn's first record.
pub(crate) fn find_execution_start<'a>(
    records: &'a [Record],
    agent: &str,
    turn: u32,
) -> Option<(usize, &'a AgentStart)> {
    records.iter().enumerate().find_map(|(at, record)| match &record.event {
        Event::TurnStarted(started) if started.turn == turn => {
            let start = started.starts.iter().find(|start| *start.agent == *agent)?;
            Some((at, start))
        }
        _ => None,
    })
}

/// Returns the error that the agent was not executed in this turn, with the executions that the run has.
pub(crate) fn missing_execution_error(origin: &RecordedRun, agent: &str, turn: u32) -> RunError {
    let records = &origin.journal.records;
    let mut agents: Vec<String> = Vec::new();
    for (_, ran) in list_executed_agents(records) {
        if !agents.iter().any(|known| **known == **ran) {
            agents.push(ran.to_string());
        }
    }
    RunError::NoExecution {
        run: origin.run.id().to_string(),
        agent: agent.to_owned(),
        turn,
        ran_in: list_executed_agents(records)
            .filter(|(_, ran)| ***ran == *agent)
            .map(|(turn, _)| turn)
            .collect(),
        agents,
    }
}

/// Lists the user messages that were added after the input.
pub(crate) fn list_later_messages(records: &[Record]) -> Vec<Arc<str>> {
    let messages = records.iter().filter_map(|record| match &record.event {
        Event::MessageAdded(message) => Some(message.text.clone()),
        _ => None,
    });
    messages.collect()
}
