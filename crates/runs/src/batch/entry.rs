//! What has come of a row.

use ensemble_core::conversation::{
    CompletionReason, ConversationState, ExhaustedAgent, FailedWork, RunResult, apply_fail_on_limit, run_exit_code,
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
    /// How the run has ended.
    pub outcome: CompletionReason,
    /// Whether the exit code of the run is 0; absent in older indexes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success: Option<bool>,
    /// The agents that their own limits kept from their work.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exhausted: Vec<ExhaustedAgent>,
    /// The agents of which a part or a tool call failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_work: Vec<FailedWork>,
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
    /// What models were asked and have cost.
    pub usage: Value,
}

/// The meaning of a success with exhausted agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ExhaustedRows {
    /// The row succeeded.
    #[default]
    Accepted,
    /// A limit cut the row off: `--fail-on-limit`.
    Refused,
}

/// The standing of a row in the report, in the order of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RowStanding {
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

impl RowStanding {
    /// Returns the name for programs.
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
    /// Returns the result of the row whose run has this state. Returns `None` if the run has not ended.
    pub(crate) fn from_state(id: &str, run: &str, state: &ConversationState) -> Option<Self> {
        let run_end = state.run_end()?;
        let document = RunResult(state);
        let is_waiting = run_end.completion_reason == CompletionReason::WaitingForInput;
        let questions = state.pending_requests().filter(|_| is_waiting);
        Some(Self {
            id: id.to_owned(),
            run: run.to_owned(),
            outcome: run_end.completion_reason,
            success: Some(run_end.is_success()),
            exhausted: run_end.exhausted.clone(),
            failed_work: state.list_failed_work(),
            nested_failures: state.list_nested_failures(),
            detail: run_end.detail.as_deref().map(str::to_owned),
            questions: questions.cloned().collect(),
            turns: u64::from(state.finished_turns()),
            result: document.result_value(),
            usage: document.usage_value(),
        })
    }

    /// Returns the cost of this try, in the unit of the prices. Returns `None` if a price is missing.
    pub fn cost(&self) -> Option<Cost> {
        self.usage.get("cost")?.as_f64().map(Cost::from_amount)
    }

    /// Returns a number of the usage, such as `input_tokens`.
    pub fn usage_number(&self, what: &str) -> u64 {
        self.usage.get(what).and_then(Value::as_u64).unwrap_or_default()
    }

    /// Returns whether models were asked whose price is not known.
    pub fn is_unpriced(&self) -> bool {
        let has_usage = self.usage_number("input_tokens") + self.usage_number("output_tokens") > 0;
        self.cost().is_none() && has_usage
    }

    /// Returns whether the run was interrupted, so that it continues with the batch.
    pub fn is_interrupted(&self) -> bool {
        self.outcome == CompletionReason::Cancelled
    }

    /// Returns whether the exit code of the run is 0.
    pub fn is_success(&self, limits: ExhaustedRows) -> bool {
        self.exit_code(limits) == 0
    }

    /// Returns the exit code of the run.
    pub fn exit_code(&self, limits: ExhaustedRows) -> u8 {
        let success = self.success.unwrap_or(self.outcome == CompletionReason::Completed);
        let is_refused = limits == ExhaustedRows::Refused && !self.exhausted.is_empty();
        apply_fail_on_limit(run_exit_code(self.outcome, success, None), is_refused)
    }

    /// Returns the standing of the row in the report.
    pub fn standing(&self, limits: ExhaustedRows) -> RowStanding {
        match self.exit_code(limits) {
            0 => RowStanding::Succeeded,
            3 => RowStanding::Waiting,
            4 => RowStanding::Limited,
            _ if self.is_interrupted() => RowStanding::Left,
            _ => RowStanding::Failed,
        }
    }

    /// Returns what a run left undone although it went on: exhausted agents, failed parts and failed tool calls, also in nested
    /// runs.
    pub(super) fn describe_open_work(&self) -> Option<String> {
        let exhausted = self.exhausted.iter().map(ToString::to_string);
        let failed_work = self.failed_work.iter().flat_map(FailedWork::list_sentences);
        let nested_failures = self.nested_failures.iter().cloned();
        let sentences: Vec<String> = exhausted.chain(failed_work).chain(nested_failures).collect();
        (!sentences.is_empty()).then(|| sentences.join("; "))
    }

    /// Returns the agents whose questions wait for an answer; `a person` if an older index does not name them.
    pub fn waiting_for(&self) -> String {
        let mut agents: Vec<&str> = self.questions.iter().map(|question| &*question.agent).collect();
        agents.dedup();
        match agents.is_empty() {
            true => "a person".to_owned(),
            false => agents.join(" and "),
        }
    }
}

/// Returns the sum of two usages: of all numbers that both have, by name. Other values are those of the later one; `null`
/// is no usage.
pub(super) fn add_usage(earlier: &Value, later: &Value) -> Value {
    match (earlier, later) {
        (Value::Null, usage) | (usage, Value::Null) => usage.clone(),
        (Value::Object(earlier), Value::Object(later)) => {
            let mut sum = later.clone();
            for (name, value) in earlier {
                let added = match sum.get(name) {
                    Some(other) => add_usage(value, other),
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
            add_usage(&one, &other),
            json!({"requests": 3, "cost": 0.0033, "estimated": true,
                   "by_agent": {"b": {"requests": 1}, "a": {"requests": 2}}})
        );
        assert_eq!(add_usage(&Value::Null, &other), other);
        assert_eq!(add_usage(&one, &Value::Null), one);
    }
}
