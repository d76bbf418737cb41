//! The answers of operators in the records of a run: who answered which request, and when.
//!
//! **Invariant:** every front end lists the answers from here: those of input agents, of people whom a tool asks, of parts and
//! of nested runs, and the decisions about tool calls.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::attempt_scope::AttemptScope;
use super::event::{Event, Record};
use super::permission::PermissionDecided;
use super::question::NestedRequestAnswered;
use crate::request::{AnswerRecord, RequestAddress};
use crate::thread::{ThreadIteration, ToolCall};
use ensemble_language::hidden_characters::escape_hidden;

/// An answered question or a decided permission request, with its time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GivenAnswer {
    /// The request, the answer, and who answered.
    #[serde(flatten)]
    pub record: AnswerRecord,
    /// For a permission request: the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<Arc<str>>,
    /// When the answer was recorded.
    pub at: DateTime<Utc>,
}

impl GivenAnswer {
    fn from_record(record: &AnswerRecord, at: DateTime<Utc>) -> Self {
        Self {
            record: record.clone(),
            tool: None,
            at,
        }
    }

    fn from_nested(answered: &NestedRequestAnswered) -> Self {
        Self {
            record: answered.answer.clone(),
            tool: answered.tool.clone(),
            at: answered.at,
        }
    }

    /// Returns a decision about a tool call as an answer. Returns `None` if the record does not say who decided.
    fn from_decision(decided: &PermissionDecided, at: DateTime<Utc>) -> Option<Self> {
        let prompt = || format!("may the tool `{}` be called?", decided.tool);
        Some(Self {
            record: AnswerRecord {
                address: decided.address.clone()?,
                prompt: decided.prompt.clone().unwrap_or_else(prompt),
                choices: decided.choices.clone().unwrap_or_default(),
                answer: decided.decision.as_str().to_owned(),
                by: decided.answered_by.clone()?,
                unattended: false,
            },
            tool: Some(decided.tool.clone()),
            at,
        })
    }

    /// Returns the address of the request.
    pub fn address(&self) -> &RequestAddress {
        &self.record.address
    }

    /// Returns the answer on one line for people: the address, the question, the answer, who answered, and when.
    pub fn describe(&self) -> String {
        let at = self.at.format("%Y-%m-%d %H:%M:%S UTC");
        format!("{} at {at}", describe_answer(&self.record))
    }

    /// Returns the event with which an outer run records the answer of its nested run.
    pub fn to_nested_event(&self) -> NestedRequestAnswered {
        NestedRequestAnswered {
            within: AttemptScope::default(),
            answer: self.record.clone(),
            at: self.at,
            tool: self.tool.clone(),
        }
    }
}

/// Returns an answered request on one line for people: the address, the question, the answer, and who answered.
pub fn describe_answer(answer: &AnswerRecord) -> String {
    let question = answer.question_text();
    let question = question.split_whitespace().collect::<Vec<_>>().join(" ");
    let address = answer.address.to_string();
    let text = format!(
        "{address} asked: {question} · {} · {}",
        answer.answer,
        answer.describe_authorship()
    );
    escape_hidden(&text)
}

/// Lists the answers that the record contains, in order: also those of nested runs.
pub fn list_given_answers(record: &Record) -> Vec<GivenAnswer> {
    let own = match &record.event {
        Event::ExecutionFinished(finished) => {
            let answer = finished.answer.as_deref();
            answer.map(|answer| GivenAnswer::from_record(answer, record.at))
        }
        Event::PermissionDecided(decided) => GivenAnswer::from_decision(decided, record.at),
        _ => None,
    };
    let mut answers = list_inner_answers(record);
    answers.extend(own);
    answers
}

/// Lists the answers inside an execution that the record contains: those that tools asked for, and those of nested runs.
/// They are neither the answer of the execution itself nor decisions about its tool calls.
pub fn list_inner_answers(record: &Record) -> Vec<GivenAnswer> {
    let at = record.at;
    match &record.event {
        Event::NestedRequestAnswered(answered) => vec![GivenAnswer::from_nested(answered)],
        Event::ToolCallEnded(ended) => list_call_answers(&ended.call, at).collect(),
        // These iterations are in no earlier record.
        Event::AttemptFailed(failed) => list_answers_of_calls(&failed.exchange, at),
        Event::PartEnded(part) => list_answers_of_calls(&part.exchange, at),
        Event::ExecutionFinished(finished) => list_answers_of_calls(&finished.exchange, at),
        _ => Vec::new(),
    }
}

fn list_answers_of_calls(iterations: &[ThreadIteration], at: DateTime<Utc>) -> Vec<GivenAnswer> {
    let calls = iterations.iter().flat_map(|iteration| &iteration.tool_calls);
    calls.flat_map(|call| list_call_answers(call, at)).collect()
}

fn list_call_answers(call: &ToolCall, at: DateTime<Utc>) -> impl Iterator<Item = GivenAnswer> {
    let answers = call.answers.iter();
    answers.map(move |answer| GivenAnswer::from_record(answer, at))
}

/// Lists the answers inside an execution that a copy of the result of the execution does not contain, as the events with which
/// the copy records them. `copies_exchange`: the copy contains the tool calls of the agent itself.
pub fn list_copied_answers(record: &Record, copies_exchange: bool) -> Vec<NestedRequestAnswered> {
    let Some(within) = record.event.attempt_scope() else {
        return Vec::new();
    };
    let is_copied = copies_exchange && within.outer_calls.is_empty();
    if matches!(record.event, Event::ToolCallEnded(_)) && is_copied {
        return Vec::new();
    }
    let answers = list_inner_answers(record).into_iter();
    let with_scope = |given: GivenAnswer| NestedRequestAnswered {
        within: within.clone(),
        ..given.to_nested_event()
    };
    answers.map(with_scope).collect()
}
