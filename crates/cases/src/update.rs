//! `--update`: the expectations of a case, with what happened in the place of what was contradicted. Pure.
//!
//! A case that could not run, and a live case, keep their expectations. Schemas and conditions are kept, too: what happened
//! does not say what they should be.
//!
//! Invariant: a case that could not run stays as it is, and no case ends with nothing expected.

use std::sync::Arc;

use ensemble_history::response_or_output;
use ensemble_language::cases::{CaseExpectations, TestCase};
use serde_json::{Map, Value, json};

use crate::judge::{CaseConversation, CaseExpectationChecker, are_equal_values, have_same_agents, list_agents_by_turn};

/// Replaces the written expectations that the conversation contradicts, and keeps the others as written.
/// Returns `None` if nothing has to be replaced.
pub fn update_contradicted_expectations(
    case: &TestCase,
    written: &Value,
    conversation: &CaseConversation,
) -> Option<Value> {
    let run_end = conversation.state.run_end()?;
    if case.live || !conversation.missing.is_empty() {
        return None;
    }
    let actual = ExpectationUpdater {
        expect: &case.expect,
        judge: CaseExpectationChecker {
            at: 0,
            expect: &case.expect,
            conversation,
        },
    };
    let mut new = Map::new();
    for (key, value) in written.as_object()? {
        new.extend(actual.update_expectation(key, value).map(|value| (key.clone(), value)));
    }
    if new.is_empty() {
        // A case that expects nothing would pass whatever happens.
        new.insert("outcome".to_owned(), run_end.completion_reason.as_str().into());
    }
    let new = Value::Object(new);
    (new != *written).then_some(new)
}

/// Updater of the expectations of a case.
struct ExpectationUpdater<'c> {
    expect: &'c CaseExpectations,
    judge: CaseExpectationChecker<'c>,
}

impl ExpectationUpdater<'_> {
    /// Returns the new value of the expectation. Returns `None` if no value can meet the expectation.
    fn update_expectation(&self, key: &str, written: &Value) -> Option<Value> {
        let keep_written = || Some(written.clone());
        match key {
            "outcome" => Some(self.update_outcome(written)),
            "exit" => Some(self.judge.exit_code_of_run_command().into()),
            "refused" => None,
            "at_once" => Some(map_object_values(written, |name, limit| {
                Some(self.raise_maximum(limit, self.judge.max_parallel_executions(name).into()))
            })),
            "result" if self.expect.exact_result.is_some() => Some(self.update_exact_result(written)),
            "turns" => Some(self.update_turns(written)),
            "order" => self
                .update_order()
                .map(|names| keep_written_names(names, &self.expect.order, written)),
            "executions" => Some(map_object_values(written, |name, _| {
                Some(self.judge.execution_count(name).into())
            })),
            "never" => {
                let never = |name: &Arc<str>| self.judge.execution_count(name) == 0;
                let remaining_names: Vec<Arc<str>> =
                    self.expect.never.iter().filter(|name| never(name)).cloned().collect();
                Some(keep_written_names(remaining_names, &self.expect.never, written))
                    .filter(|left| !is_empty_collection(left) || is_empty_collection(written))
            }
            "outputs" => reject_newly_empty(
                written,
                map_object_values(written, |name, value| self.update_agent_output(name, value)),
            ),
            "result" => project_to_expected(written, &self.judge.actual_result()),
            "not_run" => reject_newly_empty(written, self.update_not_run(written)),
            "exhausted" => Some(json!(self.judge.list_exhausted_agents())),
            "warnings" => Some(self.update_warnings(written)),
            "most_turns" => Some(self.raise_maximum(written, self.judge.state().finished_turn_count().into())),
            "most_cost" => {
                let cost = self.judge.state().usage_with_open_turn().cost.unwrap_or_default();
                let is_met = self.expect.most_cost.is_none_or(|most| cost <= most);
                let actual = || serde_json::from_str(&cost.to_string()).unwrap_or_else(|_| written.clone());
                Some(if is_met { written.clone() } else { actual() })
            }
            _ => keep_written(),
        }
    }

    /// Returns the written outcomes if they contain the actual outcome. Otherwise returns the actual outcome.
    fn update_outcome(&self, written: &Value) -> Value {
        let actual = self.actual_outcome();
        let is_expected = actual
            .as_str()
            .is_some_and(|actual| self.expect.outcomes.contains(&actual));
        if is_expected { written.clone() } else { actual }
    }

    /// Returns the written result if it equals the actual result. Otherwise returns the actual result.
    fn update_exact_result(&self, written: &Value) -> Value {
        let actual = self.judge.actual_result();
        let is_same = |expected: &Value| are_equal_values(expected, &actual);
        match self.expect.exact_result.as_ref().is_some_and(is_same) {
            true => written.clone(),
            false => json!({"exactly": *actual}),
        }
    }

    /// Returns the outcome of the conversation.
    fn actual_outcome(&self) -> Value {
        let run_end = self.judge.state().run_end();
        run_end.map_or(Value::Null, |ended| ended.completion_reason.as_str().into())
    }

    /// Returns the actual turns. Turns that are as expected stay as written.
    fn update_turns(&self, written: &Value) -> Value {
        let expected = self.expect.turns.as_deref().unwrap_or_default();
        let spelt = |(at, turn): (usize, &Vec<Arc<str>>)| {
            let is_same = expected
                .get(at)
                .is_some_and(|expected| have_same_agents(expected, turn));
            match (written.get(at).filter(|_| is_same), turn.as_slice()) {
                (Some(written_turn), _) => written_turn.clone(),
                (None, [one]) => json!(one),
                (None, several) => json!(several),
            }
        };
        list_agents_by_turn(&self.judge.conversation.records)
            .iter()
            .enumerate()
            .map(spelt)
            .collect()
    }

    /// Returns the agents of the list that run, in the order in which they run. Returns `None` if none of them runs.
    fn update_order(&self) -> Option<Vec<Arc<str>>> {
        let expected = &self.expect.order;
        let actual = list_agents_by_turn(&self.judge.conversation.records);
        let mut at = 0;
        let is_met = expected.iter().all(|name| {
            let offset = actual.iter().skip(at).position(|turn| turn.contains(name));
            at += offset.unwrap_or_default() + 1;
            offset.is_some()
        });
        if is_met {
            return Some(expected.clone());
        }
        let mut remaining_names = expected.clone();
        let mut order = Vec::new();
        for turn in &actual {
            if let Some(at) = remaining_names.iter().position(|name| turn.contains(name)) {
                order.push(remaining_names.remove(at));
            }
        }
        (!order.is_empty()).then_some(order)
    }

    /// Returns the expected parts with their actual values. Returns `None` without an output.
    fn update_agent_output(&self, name: &str, written: &Value) -> Option<Value> {
        let output = self.judge.find_agent_output(name).ok()?;
        let actual_output = if written.is_string() {
            response_or_output(output)
        } else {
            output
        };
        project_to_expected(written, actual_output)
    }

    /// Removes the agents that ran, and replaces reasons that do not match.
    fn update_not_run(&self, written: &Value) -> Value {
        let run_end = self.judge.state().run_end();
        let not_run = run_end.map_or(&[][..], |ended| &ended.not_run);
        let reason = |name: &str| not_run.iter().find(|one| *one.agent == *name).map(|one| &one.reason);
        match written {
            Value::Array(names) => {
                let is_left = |name: &&Value| name.as_str().is_some_and(|name| reason(name).is_some());
                names.iter().filter(is_left).cloned().collect()
            }
            _ => map_object_values(written, |name, part| {
                let reason = reason(name)?;
                let holds = part.as_str().is_some_and(|part| reason.contains(part));
                Some(if holds { part.clone() } else { json!(reason) })
            }),
        }
    }

    /// Removes expected warnings that did not occur, and adds the actual warnings if there are unexpected ones.
    fn update_warnings(&self, written: &Value) -> Value {
        let actual = self.judge.list_run_warnings();
        let parts: Vec<&str> = written
            .as_array()
            .map_or_else(Vec::new, |parts| parts.iter().filter_map(Value::as_str).collect());
        let is_there = |part: &&&str| actual.iter().any(|warning| warning.contains(**part));
        let kept_parts: Vec<&str> = parts.iter().filter(is_there).copied().collect();
        let has_unexpected = parts.is_empty() && !actual.is_empty();
        if kept_parts.len() == parts.len() && !has_unexpected {
            return written.clone();
        }
        let more = actual
            .iter()
            .map(|warning| warning.as_str())
            .filter(|warning| !kept_parts.iter().any(|part| warning.contains(part)));
        json!(kept_parts.iter().copied().chain(more).collect::<Vec<_>>())
    }

    /// Returns the actual value if it exceeds the written maximum. Otherwise returns the written value.
    fn raise_maximum(&self, written: &Value, actual: u64) -> Value {
        match written.as_u64() {
            Some(maximum) if actual > maximum => actual.into(),
            _ => written.clone(),
        }
    }
}

/// Returns the written value if the names are the expected names. Otherwise returns the names.
fn keep_written_names(names: Vec<Arc<str>>, expected: &[Arc<str>], written: &Value) -> Value {
    match names == expected {
        true => written.clone(),
        false => json!(names),
    }
}

/// Returns an object with other values. Omits keys for which `other` returns `None`.
fn map_object_values(written: &Value, other: impl Fn(&str, &Value) -> Option<Value>) -> Value {
    let entries = written.as_object().into_iter().flatten();
    let entries = entries.filter_map(|(name, value)| Some((name.clone(), other(name, value)?)));
    Value::Object(entries.collect())
}

/// Returns whether the value is an empty list or object.
fn is_empty_collection(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(Map::is_empty)
}

/// Returns `None` if the new value is empty and the written value was not.
fn reject_newly_empty(written: &Value, new: Value) -> Option<Value> {
    (!is_empty_collection(&new) || is_empty_collection(written)).then_some(new)
}

/// Returns the actual values of the expected keys. Returns `None` if no expected key exists.
fn project_to_expected(expected: &Value, actual: &Value) -> Option<Value> {
    match (expected, actual) {
        (Value::Object(expected), Value::Object(actual)) => {
            let entries = expected.iter().filter_map(|(key, expected)| {
                let actual = actual.get(key)?;
                Some((key.clone(), project_to_expected(expected, actual)?))
            });
            let entries: Map<String, Value> = entries.collect();
            (!entries.is_empty() || expected.is_empty()).then_some(Value::Object(entries))
        }
        (Value::Array(expected), Value::Array(actual)) if expected.len() == actual.len() => {
            let pairs = expected.iter().zip(actual);
            let items =
                pairs.map(|(expected, actual)| project_to_expected(expected, actual).unwrap_or_else(|| actual.clone()));
            Some(items.collect())
        }
        (Value::Number(one), Value::Number(other)) if one.as_f64() == other.as_f64() => Some(expected.clone()),
        (_, actual) => Some(actual.clone()),
    }
}
