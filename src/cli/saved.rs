//! A saved result as a record: the JSON document of a run, or a `conversation_history` in ADR-005's shape.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::error::CliError;
use super::recordings::{Recordings, TurnsInMemory};
use crate::agent::{Observation, Recorded, RecordedTurn};
use crate::conversation::{CompletionReason, RunStarted};
use crate::data::{Context, Failure, FailureKind, JsonMap, Usage};
use crate::journal::{FORMAT, RecordedDecision};

#[derive(Deserialize)]
struct Saved {
    run_id: Option<String>,
    ensemble: Option<String>,
    input: Option<String>,
    initial_context: Option<Context>,
    completion_reason: Option<String>,
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
}

/// Reads the saved result in `path`; also the name of its ensemble, if it says.
pub fn saved_result(path: &Path) -> Result<(Recordings, Option<String>), CliError> {
    let unreadable = |reason: String| CliError::Unreadable {
        path: path.to_owned(),
        reason,
    };
    let text = std::fs::read(path).map_err(|error| unreadable(error.to_string()))?;
    let saved: Saved = serde_json::from_slice(&text).map_err(|error| {
        unreadable(format!(
            "it is neither a journal nor a saved result with a `conversation_history`: {error}"
        ))
    })?;
    let name = saved.ensemble.clone();
    Ok((recordings(saved), name))
}

fn recordings(saved: Saved) -> Recordings {
    let reason = saved.completion_reason.as_deref().and_then(reason);
    let is_cut = reason.is_some_and(CompletionReason::is_resumable);
    // Turns count from 1; a record that counts from 0 is shifted.
    let shift = u32::from(saved.conversation_history.iter().any(|entry| entry.turn_number == 0));
    let mut turns: BTreeMap<u32, RecordedTurn> = BTreeMap::new();
    for entry in saved.conversation_history {
        let turn = turns.entry(entry.turn_number + shift).or_default();
        let agent = entry.agent_name.clone();
        turn.executions.insert(agent, Recorded::Ended(entry.observation()));
    }
    let last = turns.keys().next_back().copied();
    let decided = |(turn, told): (u32, RecordedTurn)| {
        let decision = RecordedDecision::Turn {
            turn,
            agents: told.executions.keys().cloned().collect(),
            is_partial: is_cut && Some(turn) == last,
        };
        (decision, told)
    };
    let turns = TurnsInMemory {
        turns: turns.into_iter().map(decided).collect(),
        end: RecordedDecision::Ended { reason, is_cut },
    };
    let started = RunStarted {
        format: FORMAT,
        run_id: saved.run_id.unwrap_or_default().into(),
        ensemble: saved.ensemble.unwrap_or_default().into(),
        ensemble_file: String::new(),
        ensemble_digest: String::new(),
        project_root: String::new(),
        input: saved.input.unwrap_or_default().into(),
        context: saved.initial_context.unwrap_or_default(),
        models: Vec::new(),
        simulated: Vec::new(),
        forked_from: None,
        program: String::new(),
    };
    Recordings::new(started, Box::new(turns))
}

/// One of our reasons; others are not compared.
fn reason(text: &str) -> Option<CompletionReason> {
    CompletionReason::ALL.into_iter().find(|reason| reason.as_str() == text)
}

impl Entry {
    fn observation(self) -> Observation {
        let success = self.success.unwrap_or(self.error.is_null());
        Observation {
            result: if success {
                Ok(output(self.output_data))
            } else {
                Err(failure(&self.output_data, &self.error))
            },
            usage: self.usage,
            exchange: Vec::new(),
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
