//! The result of a row.

use ensemble_core::conversation::{
    AgentWorkCounts, CompletionReason, ConversationState, ExhaustedAgent, RunResult, apply_fail_on_limit, run_exit_code,
};
use ensemble_core::request::PendingRequest;
use ensemble_language::data::Cost;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The result of a try of a row: a line of the index.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BatchEntry {
    /// The key of the row.
    pub id: String,
    /// The id of its run.
    pub run: String,
    /// The outcome of the run.
    pub outcome: CompletionReason,
    /// Whether the exit code of the run is 0 for a call that accepts exhausted agents; absent in older indexes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success: Option<bool>,
    /// The agents that their own limits kept from their work.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exhausted: Vec<ExhaustedAgent>,
    /// The agents of which a part or a tool call failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_work: Vec<AgentWorkCounts>,
    /// The failed parts and tool calls of nested runs, each with the address of its agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nested_failures: Vec<String>,
    /// More about the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The questions that wait for an answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<PendingRequest>,
    /// The number of turns.
    pub turns: u64,
    /// The result of the run.
    pub result: Value,
    /// The usage and cost of models.
    pub usage: Value,
}

/// The meaning of a successful run with exhausted agents: a success or a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExhaustedRowPolicy {
    /// The row succeeded.
    #[default]
    Accepted,
    /// A limit cut the row off: `--fail-on-limit`.
    Refused,
}

/// The status of a row in the report, in the order of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RowStatus {
    /// The run failed.
    Failed,
    /// The run waits for an answer.
    Waiting,
    /// A limit cut the run off.
    Limited,
    /// The run succeeded.
    Succeeded,
    /// The run has not ended.
    Left,
}

impl RowStatus {
    /// Returns the status as a word of the JSON output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Waiting => "waiting",
            Self::Limited => "limited",
            Self::Succeeded => "completed",
            Self::Left => "left",
        }
    }
}

impl BatchEntry {
    /// Creates the entry of a row from the state of its run. `id` is the key of the row. Returns `None` if the run has not ended.
    pub(crate) fn from_ended_run(id: &str, run: &str, state: &ConversationState) -> Option<Self> {
        let run_end = state.run_end()?;
        let document = RunResult(state);
        let is_waiting = run_end.completion_reason == CompletionReason::WaitingForInput;
        let questions = state.pending_requests().filter(|_| is_waiting);
        Some(Self {
            id: id.to_owned(),
            run: run.to_owned(),
            outcome: run_end.completion_reason,
            success: Some(run_end.is_accepted_success(state.plan().ensemble().limits.on_limit)),
            exhausted: run_end.exhausted.clone(),
            failed_work: state.count_failed_work_by_agent(),
            nested_failures: state.list_nested_failure_warnings(),
            detail: run_end.detail.as_deref().map(str::to_owned),
            questions: questions.cloned().collect(),
            turns: u64::from(state.finished_turn_count()),
            result: document.result_value(),
            usage: document.usage_value(),
        })
    }

    /// Returns the cost of this try, in the unit of the prices. Returns `None` if a price is missing.
    pub fn cost(&self) -> Option<Cost> {
        self.usage.get("cost")?.as_f64().map(Cost::from_amount)
    }

    /// Returns a count of the usage, such as `input_tokens`. Returns 0 if the usage has no such count.
    pub fn usage_count(&self, what: &str) -> u64 {
        self.usage.get(what).and_then(Value::as_u64).unwrap_or_default()
    }

    /// Returns whether the try used models whose price is not known.
    pub fn is_unpriced(&self) -> bool {
        let has_usage = self.usage_count("input_tokens") + self.usage_count("output_tokens") > 0;
        self.cost().is_none() && has_usage
    }

    /// Returns whether the run was cancelled, so that the next call on the batch resumes the run.
    pub fn is_cancelled(&self) -> bool {
        self.outcome == CompletionReason::Cancelled
    }

    /// Returns whether the exit code of the run is 0 under this meaning of exhausted agents, whatever option the run was executed with.
    pub fn has_exit_code_zero(&self, limits: ExhaustedRowPolicy) -> bool {
        self.exit_code(limits) == 0
    }

    /// Returns the exit code of the run.
    pub fn exit_code(&self, limits: ExhaustedRowPolicy) -> u8 {
        let success = self.outcome == CompletionReason::Completed || self.success == Some(true);
        let is_refused = limits == ExhaustedRowPolicy::Refused && !self.exhausted.is_empty();
        apply_fail_on_limit(run_exit_code(self.outcome, success, None), is_refused)
    }

    /// Returns the status of the row in the report.
    pub fn status(&self, limits: ExhaustedRowPolicy) -> RowStatus {
        match self.exit_code(limits) {
            0 => RowStatus::Succeeded,
            3 => RowStatus::Waiting,
            4 => RowStatus::Limited,
            _ if self.is_cancelled() => RowStatus::Left,
            _ => RowStatus::Failed,
        }
    }

    /// Describes the unfinished work of a run that continued: exhausted agents, failed parts and failed tool calls, also in nested
    /// runs.
    pub(super) fn describe_open_work(&self) -> Option<String> {
        let exhausted = self.exhausted.iter().map(ToString::to_string);
        let failed_work = self
            .failed_work
            .iter()
            .flat_map(AgentWorkCounts::list_failure_sentences);
        let nested_failures = self.nested_failures.iter().cloned();
        let sentences: Vec<String> = exhausted.chain(failed_work).chain(nested_failures).collect();
        (!sentences.is_empty()).then(|| sentences.join("; "))
    }

    /// Joins the names of the agents whose questions wait for an answer. Returns `a person` if an older index does not name the agents.
    pub fn waiting_agent_names(&self) -> String {
        let mut agents: Vec<&str> = self.questions.iter().map(|question| &*question.agent).collect();
        agents.dedup();
        match agents.is_empty() {
            true => "a person".to_owned(),
            false => agents.join(" and "),
        }
    }
}

/// Sums two usages: adds the numbers that both contain, by name, and takes all other values of the later usage.
pub(super) fn sum_usage(earlier: &Value, later: &Value) -> Value {
    match (earlier, later) {
        (Value::Null, usage) | (usage, Value::Null) => usage.clone(),
        (Value::Object(earlier), Value::Object(later)) => {
            let mut sum = later.clone();
            for (name, value) in earlier {
                let added = match sum.get(name) {
                    Some(other) => sum_usage(value, other),
                    None => value.clone(),
                };
                sum.insert(name.clone(), added);
            }
            Value::Object(sum)
        }
        (Value::Bool(earlier), Value::Bool(later)) => Value::Bool(*earlier || *later),
        (earlier, later) => match (earlier.as_u64(), later.as_u64(), earlier.as_f64(), later.as_f64()) {
            (Some(earlier), Some(later), _, _) => Value::from(earlier + later),
            (_, _, Some(earlier), Some(later)) => {
                Value::from((Cost::from_amount(earlier) + Cost::from_amount(later)).amount())
            }
            _ => later.clone(),
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn usages_are_added_by_name() {
        let (one, other) = (
            json!({"requests": 2, "cost": 0.0011, "estimated": true, "by_agent": {"a": {"requests": 2}}}),
            json!({"requests": 1, "cost": 0.0022, "estimated": false, "by_agent": {"b": {"requests": 1}}}),
        );
        assert_eq!(
            sum_usage(&one, &other),
            json!({"requests": 3, "cost": 0.0033, "estimated": true,
                   "by_agent": {"b": {"requests": 1}, "a": {"requests": 2}}})
        );
        assert_eq!(sum_usage(&Value::Null, &other), other);
        assert_eq!(sum_usage(&one, &Value::Null), one);
    }
}
