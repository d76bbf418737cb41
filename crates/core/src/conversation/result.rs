//! The result of a run as one JSON document.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Serialize;
use serde::ser::{SerializeMap, SerializeSeq, Serializer};
use serde_json::Value;

use super::{AddedUserMessage, ConversationState, ExecutionProgress, MessageAdded, RunEnded};
use ensemble_language::data;

/// The JSON result of a run, computed from its state.
pub struct RunResult<'a>(pub &'a ConversationState);

impl RunResult<'_> {
    /// Returns the document as indented JSON with a line break at the end.
    pub fn to_json_text(&self) -> String {
        serde_json::to_string_pretty(self).expect("results have string keys") + "\n"
    }

    /// Returns the value of the key `result`: the declared result, or the context if the ensemble declares no result.
    pub fn result_value(&self) -> Value {
        let value = match self.0.evaluate_declared_result() {
            Some(result) => serde_json::to_value(&result.value),
            None => serde_json::to_value(&**self.0.context()),
        };
        value.expect("results have string keys")
    }

    /// Returns the value of the key `usage`.
    pub fn usage_value(&self) -> Value {
        serde_json::to_value(ResultUsage(self.0)).expect("results have string keys")
    }
}

/// The JSON result of a run, with warnings and the refusal of its caller.
pub struct ReportedRunResult<'a> {
    /// The run.
    pub state: &'a ConversationState,
    /// Whether the caller refuses a run that was a success: `--fail-on-limit`.
    pub is_refused: bool,
    /// More warnings, after those of the run.
    pub warnings: &'a [String],
}

impl ReportedRunResult<'_> {
    /// Returns the document as indented JSON with a line break at the end.
    pub fn to_text(&self) -> String {
        serde_json::to_string_pretty(self).expect("results have string keys") + "\n"
    }
}

impl Serialize for ReportedRunResult<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize_result(self, serializer)
    }
}

impl Serialize for RunResult<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let reported = ReportedRunResult {
            state: self.0,
            is_refused: false,
            warnings: &[],
        };
        serialize_result(&reported, serializer)
    }
}

/// Writes all keys of the result document.
fn serialize_result<S: Serializer>(reported: &ReportedRunResult<'_>, serializer: S) -> Result<S::Ok, S::Error> {
    let state = reported.state;
    let is_success = |ended: &RunEnded| ended.is_success() && !reported.is_refused;
    let started = state.run_start();
    let run_end = state.run_end();
    let mut map = serializer.serialize_map(None)?;
    map.serialize_entry("run_id", &started.map(|started| &started.run_id))?;
    map.serialize_entry("ensemble", &started.map(|started| &started.ensemble))?;
    map.serialize_entry("completion_reason", &run_end.map(|ended| ended.completion_reason))?;
    map.serialize_entry("success", &run_end.map(is_success))?;
    map.serialize_entry("detail", &run_end.map(RunEnded::summary_sentence))?;
    map.serialize_entry("turn_count", &state.finished_turn_count())?;
    map.serialize_entry("agent_execution_count", &ResultExecutionCounts(state))?;
    match state.evaluate_declared_result() {
        Some(result) => map.serialize_entry("result", &result.value)?,
        None => map.serialize_entry("result", &**state.context())?,
    }
    map.serialize_entry("final_state", &**state.context())?;
    map.serialize_entry("conversation_history", &ResultHistory(state))?;
    let failed_work = state.count_failed_work_by_agent();
    if !failed_work.is_empty() {
        map.serialize_entry("failed_work", &failed_work)?;
    }
    map.serialize_entry("not_run", run_end.map_or(&[][..], |ended| &ended.not_run))?;
    map.serialize_entry("exhausted", run_end.map_or(&[][..], |ended| &ended.exhausted))?;
    map.serialize_entry("unfinished", &state.unfinished_executions().collect::<Vec<_>>())?;
    map.serialize_entry("usage", &ResultUsage(state))?;
    if let Some(budget) = state.budget_status() {
        map.serialize_entry("budget", &budget)?;
    }
    let of_result = run_end.map_or(&[][..], |ended| &ended.warnings);
    let warnings: Vec<&String> = state
        .warnings()
        .iter()
        .chain(of_result)
        .chain(reported.warnings)
        .collect();
    map.serialize_entry("warnings", &warnings)?;
    map.serialize_entry("simulated", &started.map(|started| &started.simulated))?;
    if let Some(started) = started.filter(|started| !started.stubs.is_empty()) {
        map.serialize_entry("stubs", &started.stubs)?;
    }
    if let Some(started) = started.filter(|started| !started.responders.is_empty()) {
        map.serialize_entry("responders", &started.responders)?;
    }
    map.serialize_entry("input", state.input())?;
    map.serialize_entry("messages", &ResultMessages(state))?;
    map.serialize_entry("inputs", &**state.inputs())?;
    map.serialize_entry("initial_context", &started.map(|started| &started.context))?;
    map.end()
}

/// The first input and the user messages after it, each with the turn that it follows.
struct ResultMessages<'a>(&'a ConversationState);

impl Serialize for ResultMessages<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let later = self.0.messages();
        let first = self.0.run_start().map(|started| AddedUserMessage {
            message: MessageAdded {
                text: started.input.clone(),
                ..MessageAdded::default()
            },
            after_turn: 0,
            ended: None,
        });
        serializer.collect_seq(first.iter().chain(later))
    }
}

/// The number of executions by agent, for serialization.
struct ResultExecutionCounts<'a>(&'a ConversationState);

impl Serialize for ResultExecutionCounts<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let plan = self.0.plan();
        let mut map = serializer.serialize_map(None)?;
        for id in plan.agent_ids() {
            map.serialize_entry(plan.agent_name(id), &self.0.execution_count(id))?;
        }
        map.end()
    }
}

/// The history of the run, for serialization.
struct ResultHistory<'a>(&'a ConversationState);

impl Serialize for ResultHistory<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut seq = serializer.serialize_seq(None)?;
        for entry in self.0.list_executions() {
            seq.serialize_element(&*entry)?;
        }
        seq.end()
    }
}

/// The usage of the run in total and by agent, for serialization.
struct ResultUsage<'a>(&'a ConversationState);

impl Serialize for ResultUsage<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let by_agent = UsageByAgent(list_usage_by_agent(self.0));
        let mut map = serializer.serialize_map(None)?;
        write_usage_entries(&mut map, &self.0.usage_with_open_turn())?;
        map.serialize_entry("by_agent", &by_agent)?;
        map.end()
    }
}

/// The usage by agent, for serialization.
struct UsageByAgent<'a>(Vec<(&'a str, data::ModelUsage)>);

impl Serialize for UsageByAgent<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, usage)| (name, UsageEntry(usage))))
    }
}

/// The usage of one agent, for serialization.
struct UsageEntry<'a>(&'a data::ModelUsage);

impl Serialize for UsageEntry<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        write_usage_entries(&mut map, self.0)?;
        map.end()
    }
}

/// Writes the token counts, and the cost if it is known.
fn write_usage_entries<M: SerializeMap>(map: &mut M, usage: &data::ModelUsage) -> Result<(), M::Error> {
    map.serialize_entry("requests", &usage.requests)?;
    map.serialize_entry("cached", &usage.cached)?;
    map.serialize_entry("by_tools", &usage.by_tools)?;
    if usage.summaries > 0 {
        map.serialize_entry("summaries", &usage.summaries)?;
    }
    map.serialize_entry("input_tokens", &usage.input_tokens)?;
    map.serialize_entry("output_tokens", &usage.output_tokens)?;
    if usage.cached_tokens > 0 {
        map.serialize_entry("cached_tokens", &usage.cached_tokens)?;
    }
    map.serialize_entry("total_tokens", &(usage.input_tokens + usage.output_tokens))?;
    map.serialize_entry("estimated", &usage.estimated)?;
    match usage.cost {
        Some(cost) => map.serialize_entry("cost", &cost),
        None => Ok(()),
    }
}

/// Returns the model usage of each agent in declaration order. Omits agents without a model request.
pub fn list_usage_by_agent(state: &ConversationState) -> Vec<(&str, data::ModelUsage)> {
    let mut used: HashMap<Arc<str>, data::ModelUsage> = HashMap::new();
    let mut add = |agent: &Arc<str>, usage: Option<data::ModelUsage>| {
        if let Some(usage) = usage {
            let sum = used.entry(Arc::clone(agent)).or_default();
            *sum = *sum + usage;
        }
    };
    for entry in state.list_executions() {
        add(&entry.agent_name, entry.usage);
    }
    for slot in state.open_turn().into_iter().flat_map(|turn| &turn.slots) {
        if !matches!(slot.progress, ExecutionProgress::Finished(_)) {
            add(&slot.start.agent, slot.usage_so_far());
        }
    }
    let plan = state.plan();
    for id in plan.agent_ids() {
        add(plan.agent_name(id), state.agent_state(id).abandoned_usage());
    }
    let names = plan.agent_ids().map(|id| &**plan.agent_name(id));
    names.filter_map(|name| Some((name, used.remove(name)?))).collect()
}
