//! A saved result as a record: the JSON document of a run, or a `conversation_history` in ADR-005's shape.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::Value;

use ensemble_core::conversation::{
    AddedUserMessage, AgentStart, CompletionReason, Event, ExecutionEnd, ExecutionFinished, Record, RunCanceller,
    RunEnded, RunInterruption, RunStarted, TurnFinished, TurnStarted,
};
use ensemble_core::log::JOURNAL_FORMAT;
use ensemble_core::request::RequestOrigin;
use ensemble_core::thread::{StopReason, ThreadIteration};
use ensemble_language::data::{
    ExecutionFailure, FailureKind, JsonMap, ModelUsage, RunContext, parse_whole_object, value_to_output,
};
use ensemble_project::ProjectError;
use ensemble_scripts::regular_files;

use crate::error::RunError;

/// The JSON document of a saved result.
#[derive(Deserialize)]
struct SavedResultJson {
    run_id: Option<String>,
    ensemble: Option<String>,
    input: Option<String>,
    /// The first input, and what was said later on.
    #[serde(default)]
    messages: VecDeque<AddedUserMessage>,
    initial_context: Option<RunContext>,
    inputs: Option<RunContext>,
    #[serde(default)]
    stubs: BTreeMap<Arc<str>, Arc<str>>,
    #[serde(default)]
    responders: BTreeMap<Arc<str>, Arc<str>>,
    completion_reason: Option<String>,
    success: Option<bool>,
    detail: Option<String>,
    final_state: Option<RunContext>,
    conversation_history: Vec<SavedExecution>,
}

/// An execution in the conversation history of a saved result.
#[derive(Deserialize)]
struct SavedExecution {
    turn_number: u32,
    agent_name: Arc<str>,
    #[serde(default)]
    output_data: Value,
    success: Option<bool>,
    #[serde(default)]
    error: Value,
    usage: Option<ModelUsage>,
    stop_reason: Option<StopReason>,
    #[serde(default)]
    execution_time: Value,
    #[serde(default)]
    timestamp: Value,
}

/// The records that were reconstructed from a saved result.
pub struct SavedRecords {
    /// The records that such a run would have left, as far as the result contains them.
    pub records: Vec<Record>,
    /// The name of the ensemble, if the result contains one.
    pub ensemble: Option<String>,
    /// The context with which the run ended, if the result contains one.
    pub context: Option<RunContext>,
    /// Turns of which only the executions that had ended are known.
    pub(crate) partial_turns: BTreeSet<u32>,
}

impl SavedRecords {
    /// Loads the saved result from this file.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or contains no result.
    pub fn load(path: &Path) -> Result<Self, RunError> {
        let unreadable = |reason: String| ProjectError::Unreadable {
            path: path.to_owned(),
            reason,
        };
        let text = regular_files::read_bytes_with_limit(path, MAX_SAVED_RESULT_BYTES)
            .map_err(|error| unreadable(error.to_string()))?;
        let parsed = Self::parse(&text).map_err(|error| {
            unreadable(format!(
                "it is neither a journal nor a saved result with a `conversation_history`: {error}"
            ))
        });
        Ok(parsed?)
    }

    /// Parses a saved result.
    ///
    /// # Errors
    ///
    /// The text is not the JSON of a result.
    pub fn parse(text: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(text).map(saved_result_to_records)
    }
}

/// The maximum size of a saved result, in bytes: 1 GiB.
const MAX_SAVED_RESULT_BYTES: u64 = 1 << 30;

/// Converts a saved result to records. Shifts turns that count from 0, so that they count from 1.
fn saved_result_to_records(mut saved: SavedResultJson) -> SavedRecords {
    let reason = saved.completion_reason.as_deref().and_then(parse_completion_reason);
    // Turns count from 1; a record that counts from 0 is shifted.
    let shift = u32::from(saved.conversation_history.iter().any(|entry| entry.turn_number == 0));
    let mut turns: BTreeMap<u32, Vec<SavedExecution>> = BTreeMap::new();
    for entry in std::mem::take(&mut saved.conversation_history) {
        turns.entry(entry.turn_number + shift).or_default().push(entry);
    }
    let started_at = turns
        .values()
        .flatten()
        .find_map(SavedExecution::parse_timestamp)
        .unwrap_or_default();
    let messages: Vec<AddedUserMessage> = saved.messages.iter().skip(1).cloned().collect();
    let (ensemble, context) = (saved.ensemble.clone(), saved.final_state.take());
    let (success, detail) = (saved.success, saved.detail.take());
    let mut converter = SavedResultEvents {
        latest: started_at,
        events: Vec::new(),
        executions: HashMap::new(),
        partial_turns: BTreeSet::new(),
    };
    converter.add_event(Event::RunStarted(Box::new(build_start_event(saved))));
    for message in messages {
        let later = turns.split_off(&(message.after_turn + 1));
        for (turn, entries) in std::mem::replace(&mut turns, later) {
            converter.add_turn_events(turn, entries);
        }
        converter.add_message_events(message);
    }
    for (turn, entries) in turns {
        converter.add_turn_events(turn, entries);
    }
    if let Some(reason) = reason {
        if reason.is_resumable() {
            converter.mark_last_turn_partial();
        }
        converter.add_event(Event::RunEnded(build_end_event(reason, success, detail)));
    }
    let record = |(seq, (at, event))| Record { seq, at, event };
    SavedRecords {
        records: (0..).zip(converter.events).map(record).collect(),
        ensemble,
        context,
        partial_turns: converter.partial_turns,
    }
}

/// The events that are reconstructed from a saved result.
struct SavedResultEvents {
    /// The time of the latest event.
    latest: DateTime<Utc>,
    events: Vec<(DateTime<Utc>, Event)>,
    executions: HashMap<Arc<str>, u32>,
    partial_turns: BTreeSet<u32>,
}

impl SavedResultEvents {
    /// Adds an event with the time of the latest execution.
    fn add_event(&mut self, event: Event) {
        self.events.push((self.latest, event));
    }

    /// Adds the start, the executions and the end of a turn.
    fn add_turn_events(&mut self, turn: u32, entries: Vec<SavedExecution>) {
        let started_at = self.latest;
        let (mut starts, mut ends) = (Vec::new(), Vec::new());
        for entry in entries {
            let execution = self.executions.entry(entry.agent_name.clone()).or_default();
            *execution += 1;
            starts.push(AgentStart {
                news: None,
                agent: entry.agent_name.clone(),
                execution: *execution,
                counts: Vec::new(),
                handles: Vec::new(),
                request: None,
                reads: IndexMap::new(),
            });
            self.latest = entry.parse_timestamp().unwrap_or(self.latest);
            ends.push((
                self.latest,
                Event::ExecutionFinished(entry.into_finished_event(turn, *execution)),
            ));
        }
        let waiting = Vec::new();
        let started = Event::TurnStarted(TurnStarted {
            turn,
            starts,
            waiting,
            warnings: Vec::new(),
        });
        self.events.push((started_at, started));
        self.events.extend(ends);
        self.add_event(Event::TurnFinished(TurnFinished {
            turn,
            requests: IndexMap::new(),
            requested_at_limit: Vec::new(),
            warnings: Vec::new(),
        }));
    }

    /// Adds a user message, and the end of the conversation before it. After an interruption, the last turn is abandoned with its
    /// unfinished executions.
    fn add_message_events(&mut self, later: AddedUserMessage) {
        let cut_by = match later.ended {
            Some(CompletionReason::Timeout) => Some(RunInterruption::Timeout),
            Some(CompletionReason::Cancelled) => Some(RunInterruption::Cancelled {
                by: RunCanceller::Keyboard,
            }),
            _ => None,
        };
        if let Some(cut_by) = cut_by {
            if self.last_started_turn() != Some(later.after_turn) {
                self.add_turn_events(later.after_turn, Vec::new());
            }
            self.mark_last_turn_partial();
            self.add_event(Event::Interrupted(cut_by));
        }
        if let Some(reason) = later.ended {
            self.add_event(Event::RunEnded(build_end_event(reason, None, None)));
        }
        self.add_event(Event::MessageAdded(later.message));
    }

    /// Marks the last turn as partial: executions can be missing.
    fn mark_last_turn_partial(&mut self) {
        self.partial_turns.extend(self.last_started_turn());
    }

    /// Returns the number of the last turn that was started.
    fn last_started_turn(&self) -> Option<u32> {
        self.events.iter().rev().find_map(|(_, event)| match event {
            Event::TurnStarted(started) => Some(started.turn),
            _ => None,
        })
    }
}

/// Creates the event of the end of a run. Omits a detail that repeats the reason.
fn build_end_event(completion_reason: CompletionReason, success: Option<bool>, detail: Option<String>) -> RunEnded {
    RunEnded {
        completion_reason,
        success,
        // A result says the outcome itself where there is nothing to add.
        detail: detail.filter(|detail| detail != completion_reason.as_str()),
        failed: None,
        condition: None,
        not_run: Vec::new(),
        exhausted: Vec::new(),
        warnings: Vec::new(),
    }
}

/// Creates the first event of the run.
fn build_start_event(mut saved: SavedResultJson) -> RunStarted {
    RunStarted {
        format: JOURNAL_FORMAT,
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
        caller: RequestOrigin::default(),
        definitions: None,
        forked_from: None,
        trace: None,
        program: String::new(),
    }
}

/// Returns the completion reason with this name. Returns `None` for a name of another program, which is not compared.
fn parse_completion_reason(text: &str) -> Option<CompletionReason> {
    CompletionReason::ALL.into_iter().find(|reason| reason.as_str() == text)
}

impl SavedExecution {
    /// Parses the time of the end of the execution. Returns `None` if the entry has no timestamp of this program.
    fn parse_timestamp(&self) -> Option<DateTime<Utc>> {
        self.timestamp.as_str()?.parse().ok()
    }

    /// Converts the entry to the event of a finished execution.
    fn into_finished_event(self, turn: u32, execution: u32) -> ExecutionFinished {
        let success = self.success.unwrap_or(self.error.is_null());
        let execution_time = self.execution_time.as_f64().unwrap_or_default();
        let result = match success {
            true => Ok(parse_saved_output(self.output_data)),
            false => Err(parse_saved_failure(&self.output_data, &self.error)),
        };
        ExecutionFinished {
            turn,
            agent: self.agent_name,
            execution,
            attempt: 1,
            end: ExecutionEnd::from_result(result),
            execution_time,
            usage: self.usage,
            stderr: String::new(),
            warnings: Vec::new(),
            exchange: self
                .stop_reason
                .map(ThreadIteration::only_stop_reason)
                .into_iter()
                .collect(),
            reused: false,
            sandboxes: Box::default(),
            answer: None,
        }
    }
}

/// Returns the output itself, or the object in the JSON text under `result`.
fn parse_saved_output(data: Value) -> JsonMap {
    let inner = data.get("result").and_then(Value::as_str).and_then(parse_whole_object);
    inner.unwrap_or_else(|| value_to_output(data))
}

/// Parses the failure of an execution from its output and error.
fn parse_saved_failure(data: &Value, error: &Value) -> ExecutionFailure {
    let kind = data
        .get("kind")
        .cloned()
        .and_then(|kind| serde_json::from_value(kind).ok());
    let text = error
        .as_str()
        .or_else(|| data.get("error")?.as_str())
        .unwrap_or("it failed");
    let stream = |name: &str| data.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    ExecutionFailure {
        exit_code: data
            .get("exit_code")
            .and_then(Value::as_i64)
            .and_then(|code| code.try_into().ok()),
        stdout: stream("stdout"),
        stderr: stream("stderr"),
        ..ExecutionFailure::new(kind.unwrap_or(FailureKind::Reported), text)
    }
}
