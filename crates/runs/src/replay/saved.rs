//! A saved result as a record: the JSON document of a run, or a `conversation_history` in ADR-005's shape.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::Value;

use ensemble_agents::regular;
use ensemble_core::conversation::{
    Canceller, CompletionReason, Event, ExecutionEnd, ExecutionFinished, Interruption, LaterMessage, Record, RunEnded,
    RunStarted, Start, TurnFinished, TurnStarted,
};
use ensemble_core::log::FORMAT;
use ensemble_core::runner::Observation;
use ensemble_core::thread::{Iteration, StopReason};
use ensemble_language::data::{Context, Failure, FailureKind, JsonMap, Usage};

use super::compare::RecordedDecision;
use super::record::{Leg, Recordings, TurnsInMemory};
use super::recorded::{Recorded, RecordedTurn};
use crate::error::RunError;

#[derive(Deserialize)]
struct Saved {
    run_id: Option<String>,
    ensemble: Option<String>,
    input: Option<String>,
    /// The first input, and what was said later on.
    #[serde(default)]
    messages: VecDeque<LaterMessage>,
    initial_context: Option<Context>,
    inputs: Option<Context>,
    #[serde(default)]
    stubs: BTreeMap<Arc<str>, Arc<str>>,
    #[serde(default)]
    responders: BTreeMap<Arc<str>, Arc<str>>,
    completion_reason: Option<String>,
    detail: Option<String>,
    final_state: Option<Context>,
    conversation_history: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    turn_number: u32,
    agent_name: Arc<str>,
    #[serde(default)]
    output_data: Value,
    success: Option<bool>,
    #[serde(default)]
    error: Value,
    usage: Option<Usage>,
    stop_reason: Option<StopReason>,
    #[serde(default)]
    execution_time: Value,
    #[serde(default)]
    timestamp: Value,
}

/// Reads the saved result in `path`; also the name of its ensemble, if it says.
pub(crate) fn saved_result(path: &Path) -> Result<(Recordings, Option<String>), RunError> {
    let saved = read(path)?;
    let name = saved.ensemble.clone();
    Ok((recordings(saved), name))
}

/// Reads the saved result in `path` as the records that such a run would have left; also the context with which it
/// ended, if it says.
///
/// # Errors
/// The file cannot be read, or holds no result.
pub fn saved_records(path: &Path) -> Result<(Vec<Record>, Option<Context>), RunError> {
    let mut saved = read(path)?;
    let context = saved.final_state.take();
    Ok((records(saved), context))
}

/// The largest saved result that is read, in bytes: 1 GiB.
const LARGEST: u64 = 1 << 30;

fn read(path: &Path) -> Result<Saved, RunError> {
    let unreadable = |reason: String| RunError::Unreadable {
        path: path.to_owned(),
        reason,
    };
    let text = regular::read(path, LARGEST).map_err(|error| unreadable(error.to_string()))?;
    serde_json::from_slice(&text).map_err(|error| {
        unreadable(format!(
            "it is neither a journal nor a saved result with a `conversation_history`: {error}"
        ))
    })
}

/// The records that such a run would have left, as far as a result tells.
fn records(mut saved: Saved) -> Vec<Record> {
    let entries = std::mem::take(&mut saved.conversation_history);
    let ended = saved
        .completion_reason
        .as_deref()
        .and_then(reason)
        .map(|reason| RunEnded {
            completion_reason: reason,
            detail: saved.detail.take(),
            failed: None,
            condition: None,
            not_run: Vec::new(),
            warnings: Vec::new(),
        });
    let begun = entries.iter().find_map(Entry::timestamp).unwrap_or_default();
    let mut messages = saved.messages.iter().skip(1).cloned().collect::<VecDeque<_>>();
    let mut events = vec![(begun, Event::RunStarted(Box::new(run_started(saved))))];
    let mut executions = HashMap::new();
    let mut entries = entries.into_iter().peekable();
    while let Some(turn) = entries.peek().map(|entry| entry.turn_number) {
        let of_turn = std::iter::from_fn(|| entries.next_if(|entry| entry.turn_number == turn)).collect();
        let earlier = std::iter::from_fn(|| messages.pop_front_if(|message| message.after_turn < turn));
        events.extend(said(&events, earlier.collect()));
        turn_events(turn, of_turn, &mut executions, &mut events);
    }
    events.extend(said(&events, messages.into()));
    let latest = events.last().map_or(begun, |(at, _)| *at);
    events.extend(ended.map(|ended| (latest, Event::RunEnded(ended))));
    let record = |(seq, (at, event))| Record { seq, at, event };
    (0..).zip(events).map(record).collect()
}

/// The events of these messages, after those events.
fn said(events: &[(DateTime<Utc>, Event)], messages: Vec<LaterMessage>) -> Vec<(DateTime<Utc>, Event)> {
    let latest = events.last().map(|(at, _)| *at).unwrap_or_default();
    let said = messages.into_iter();
    said.map(|later| (latest, Event::MessageAdded(later.message))).collect()
}

/// The events of one turn.
fn turn_events(
    turn: u32,
    entries: Vec<Entry>,
    executions: &mut HashMap<Arc<str>, u32>,
    events: &mut Vec<(DateTime<Utc>, Event)>,
) {
    let mut latest = events.last().map(|(at, _)| *at).unwrap_or_default();
    let begun = latest;
    let (mut starts, mut ends) = (Vec::new(), Vec::new());
    for entry in entries {
        let execution = executions.entry(entry.agent_name.clone()).or_default();
        *execution += 1;
        starts.push(Start {
            agent: entry.agent_name.clone(),
            execution: *execution,
            counts: Vec::new(),
            handles: Vec::new(),
            request: None,
            reads: IndexMap::new(),
        });
        latest = entry.timestamp().unwrap_or(latest);
        ends.push((latest, Event::ExecutionFinished(entry.finished(*execution))));
    }
    let waiting = Vec::new();
    events.push((begun, Event::TurnStarted(TurnStarted { turn, starts, waiting })));
    events.extend(ends);
    let closed = TurnFinished {
        turn,
        requests: IndexMap::new(),
        warnings: Vec::new(),
    };
    events.push((latest, Event::TurnFinished(closed)));
}

fn recordings(mut saved: Saved) -> Recordings {
    let reason = saved.completion_reason.as_deref().and_then(reason);
    let is_cut = reason.is_some_and(CompletionReason::is_resumable);
    // Turns count from 1; a record that counts from 0 is shifted.
    let shift = u32::from(saved.conversation_history.iter().any(|entry| entry.turn_number == 0));
    let mut turns: BTreeMap<u32, RecordedTurn> = BTreeMap::new();
    for entry in std::mem::take(&mut saved.conversation_history) {
        let turn = turns.entry(entry.turn_number + shift).or_default();
        let agent = entry.agent_name.clone();
        turn.executions.insert(agent, Recorded::Ended(entry.observation()));
    }
    let mut legs: Vec<Leg> = Vec::new();
    for later in saved.messages.iter().skip(1) {
        let rest = turns.split_off(&(later.after_turn + 1));
        let end = RecordedDecision::Ended {
            reason: later.ended,
            is_cut: false,
        };
        let mut leg = Leg::of(std::mem::replace(&mut turns, rest), end);
        leg.cut(later);
        legs.push(leg);
    }
    let last = turns.keys().next_back().copied();
    let mut rest = Leg::of(turns, RecordedDecision::Ended { reason, is_cut });
    if let (true, Some(last)) = (is_cut, last) {
        rest.turn_is_partial(last);
    }
    legs.push(rest);
    let turns = TurnsInMemory::new(legs);
    Recordings::new(run_started(saved), Box::new(turns))
}

impl Leg {
    fn of(turns: BTreeMap<u32, RecordedTurn>, end: RecordedDecision) -> Self {
        let decided = |(turn, told): (u32, RecordedTurn)| {
            let decision = RecordedDecision::Turn {
                turn,
                agents: told.executions.keys().cloned().collect(),
                is_partial: false,
            };
            (decision, told)
        };
        Self {
            turns: turns.into_iter().map(decided).collect(),
            end,
            message: None,
        }
    }

    /// The message follows. If the conversation had been cut short before it, its last turn was abandoned with the
    /// executions that had not ended.
    fn cut(&mut self, later: &LaterMessage) {
        self.message = Some(later.message.clone());
        let cut_by = match later.ended {
            Some(CompletionReason::Timeout) => Interruption::Timeout,
            Some(CompletionReason::Cancelled) => Interruption::Cancelled {
                by: Canceller::Keyboard,
            },
            _ => return,
        };
        let is_last = |(decision, _): &(RecordedDecision, RecordedTurn)| matches!(decision, RecordedDecision::Turn { turn, .. } if *turn == later.after_turn);
        if !self.turns.iter().any(is_last) {
            let decision = RecordedDecision::Turn {
                turn: later.after_turn,
                agents: BTreeSet::new(),
                is_partial: true,
            };
            self.turns.push_back((decision, RecordedTurn::default()));
        }
        self.turn_is_partial(later.after_turn);
        if let Some((_, told)) = self.turns.back_mut() {
            told.cut_by = Some(cut_by);
        }
    }

    /// Of this turn only those executions are known that had ended.
    fn turn_is_partial(&mut self, number: u32) {
        for (decision, _) in &mut self.turns {
            if let RecordedDecision::Turn { turn, is_partial, .. } = decision {
                *is_partial |= *turn == number;
            }
        }
    }
}

fn run_started(mut saved: Saved) -> RunStarted {
    RunStarted {
        format: FORMAT,
        run_id: saved.run_id.unwrap_or_default().into(),
        ensemble: saved.ensemble.unwrap_or_default().into(),
        ensemble_file: String::new(),
        ensemble_digest: String::new(),
        project_root: String::new(),
        input: match saved.messages.pop_front() {
            Some(first) => first.message.text,
            None => saved.input.unwrap_or_default().into(),
        },
        context: saved.initial_context.unwrap_or_default(),
        inputs: saved.inputs.unwrap_or_default(),
        models: Vec::new(),
        simulated: Vec::new(),
        stubs: saved.stubs,
        responders: saved.responders,
        definitions: None,
        forked_from: None,
        trace: None,
        program: String::new(),
    }
}

/// One of our reasons; others are not compared.
fn reason(text: &str) -> Option<CompletionReason> {
    CompletionReason::ALL.into_iter().find(|reason| reason.as_str() == text)
}

impl Entry {
    /// When it ended, if it says so as we do.
    fn timestamp(&self) -> Option<DateTime<Utc>> {
        self.timestamp.as_str()?.parse().ok()
    }

    fn finished(self, execution: u32) -> ExecutionFinished {
        let (turn, agent) = (self.turn_number, self.agent_name.clone());
        let execution_time = self.execution_time.as_f64().unwrap_or_default();
        let observed = self.observation();
        let end = match observed.result {
            Ok(output) => ExecutionEnd::Succeeded(Arc::new(Value::Object(output))),
            Err(failure) => ExecutionEnd::Failed(failure),
        };
        ExecutionFinished {
            turn,
            agent,
            execution,
            attempt: 1,
            end,
            execution_time,
            usage: observed.usage,
            stderr: String::new(),
            warnings: Vec::new(),
            exchange: observed.exchange,
            reused: false,
            sandboxes: Box::default(),
        }
    }

    fn observation(self) -> Observation {
        let success = self.success.unwrap_or(self.error.is_null());
        Observation {
            result: if success {
                Ok(output(self.output_data))
            } else {
                Err(failure(&self.output_data, &self.error))
            },
            usage: self.usage,
            exchange: self.stop_reason.map(Iteration::stopped_for).into_iter().collect(),
            parts: Vec::new(),
        }
    }
}

/// The output itself, or the one that stands as JSON text under `result`.
fn output(data: Value) -> JsonMap {
    let Value::Object(data) = data else {
        return JsonMap::from_iter([("response".to_owned(), data)]);
    };
    let held = match data.get("result") {
        Some(Value::String(text)) => serde_json::from_str::<JsonMap>(text).ok(),
        _ => None,
    };
    held.unwrap_or(data)
}

fn failure(data: &Value, error: &Value) -> Failure {
    let kind = data
        .get("kind")
        .cloned()
        .and_then(|kind| serde_json::from_value(kind).ok());
    let text = error
        .as_str()
        .or_else(|| data.get("error")?.as_str())
        .unwrap_or("it failed");
    Failure::new(kind.unwrap_or(FailureKind::Reported), text)
}
