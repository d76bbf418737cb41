//! The event that ends a conversation: the outcome, its details, and what did not run.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::CompletionReason;
use super::exhausted::{ExhaustedAgent, describe_exhausted_agents};
use ensemble_language::condition::ConditionRead;
use ensemble_language::ensemble::OnLimit;

/// The event that ends a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunEnded {
    /// The outcome.
    pub completion_reason: CompletionReason,
    /// Whether the run reached its goal, so that its exit code is 0; absent in older journals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success: Option<bool>,
    /// Details of the outcome, as text: the limit, the agent, or the condition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The first failure that nobody has handled, if it is the outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<FailedExecution>,
    /// The condition that could not be evaluated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<ConditionFailure>,
    /// The agents that were never executed, in declaration order. An agent some of whose parts ended is not
    /// among them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_run: Vec<AgentNotRun>,
    /// The agents that still had work when their own limits kept them from running, in declaration order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exhausted: Vec<ExhaustedAgent>,
    /// Warnings about the result, and about conditions that decide whether an agent is exhausted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl RunEnded {
    /// Returns whether the run reached its goal. Without a recorded success, only `completed` counts.
    pub fn is_success(&self) -> bool {
        self.success
            .unwrap_or(self.completion_reason == CompletionReason::Completed)
    }

    /// Returns the end as a failure if the run succeeded with exhausted agents (`--fail-on-limit`). Otherwise returns `None`.
    pub fn to_exhausted_failure(&self) -> Option<Self> {
        let is_refused = self.is_success() && !self.exhausted.is_empty();
        is_refused.then(|| Self {
            success: Some(false),
            ..self.clone()
        })
    }

    /// Returns the end as a run records it. With `refuses_exhausted`, a success with exhausted agents is no success.
    #[must_use]
    pub fn for_record(self, refuses_exhausted: bool) -> Self {
        match refuses_exhausted {
            true => self.to_exhausted_failure().unwrap_or(self),
            false => self,
        }
    }

    /// Returns whether the run reached its goal for a caller that accepts exhausted agents, also if the record is of a caller that
    /// refused them.
    pub fn is_accepted_success(&self, on_limit: OnLimit) -> bool {
        let was_refused = self.completion_reason.is_natural_end(on_limit) && !self.exhausted.is_empty();
        self.is_success() || was_refused
    }

    /// Returns the sentence of the summary: the detail, or the outcome if there is nothing to add.
    pub fn summary_sentence(&self) -> &str {
        self.detail.as_deref().unwrap_or(self.completion_reason.as_str())
    }

    /// Returns whether a limit of the conversation ended the run without success.
    pub fn is_limit_failure(&self) -> bool {
        self.completion_reason.is_limit() && !self.is_success()
    }

    /// Adds the sentences about exhausted agents to the details.
    #[must_use]
    pub(crate) fn with_exhausted_details(self) -> Self {
        if self.exhausted.is_empty() {
            return self;
        }
        let separator = match &self.detail {
            Some(detail) if detail.contains('\n') => "\n",
            _ => "; ",
        };
        let before = self.detail.unwrap_or_else(|| self.completion_reason.to_string());
        let detail = format!("{before}{separator}{}", describe_exhausted_agents(&self.exhausted));
        Self {
            detail: Some(detail),
            ..self
        }
    }

    /// Returns the outcome with its details, and the byte position at which the outcome ends.
    pub fn to_outcome_sentence(&self) -> (String, usize) {
        let reason = self.completion_reason.as_str();
        let outcome = match self.is_limit_failure() {
            true => format!("cut off by {reason}"),
            false => reason.to_owned(),
        };
        let sentence = match &self.detail {
            // The details of an outcome without details of its own begin with the outcome.
            Some(detail) if detail.starts_with(reason) && self.completion_reason == CompletionReason::Completed => {
                detail.clone()
            }
            Some(detail) => format!("{outcome}: {detail}"),
            None => outcome.clone(),
        };
        (sentence, outcome.len())
    }

    /// Returns the outcome sentence without the error of the failed agent, and the byte position at which the outcome ends.
    pub fn to_sentence_without_error(&self) -> (String, usize) {
        let (mut sentence, outcome_end) = self.to_outcome_sentence();
        let failed = self.failed.as_ref().map(|failed| format!(": {} failed", failed.agent));
        let details = failed.filter(|failed| sentence[outcome_end..].starts_with(&format!("{failed}: ")));
        if let Some(details) = details {
            sentence.truncate(outcome_end + details.len());
            if !self.exhausted.is_empty() {
                sentence.push_str(&format!("; {}", describe_exhausted_agents(&self.exhausted)));
            }
        }
        (sentence, outcome_end)
    }
}

/// The agent and turn of an execution that failed after all its attempts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedExecution {
    /// The agent.
    pub agent: Arc<str>,
    /// The turn.
    pub turn: u32,
}

/// A failed evaluation of a condition, of `success`, or of an expression of the result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConditionFailure {
    /// The agent that has the dependency with the condition; empty for `success` and an expression of the result.
    pub agent: Arc<str>,
    /// The position of the dependency in the agent's list, from 0.
    pub position: usize,
    /// The key of the result, if an expression of the result could not be evaluated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Arc<str>>,
    /// Whether `success` could not be evaluated.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub success: bool,
    /// The text of the condition.
    pub text: Arc<str>,
    /// The first byte of the part of the text that causes the error.
    pub start: usize,
    /// The byte after that part.
    pub end: usize,
    /// The error message.
    pub message: String,
    /// What to write instead, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
    /// The values that the condition read.
    pub values: Vec<ConditionRead>,
}

/// An agent of which no execution has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentNotRun {
    /// The agent.
    pub agent: Arc<str>,
    /// The reason, as text.
    pub reason: String,
}

impl AgentNotRun {
    /// The reason of an agent whose first execution was under way when the run ended.
    pub const INTERRUPTED: &str = "interrupted";

    /// Returns a sentence for users: the agent was interrupted, or never ran for this reason.
    pub fn to_sentence(&self) -> String {
        match self.reason == Self::INTERRUPTED {
            true => format!("{} was interrupted in its first execution", self.agent),
            false => format!("{} never ran: {}", self.agent, self.reason),
        }
    }
}
