//! `--update`: the expectations of a case, with what happened in the place of what was contradicted. Pure.
//!
//! A case that could not run, and a live case, keep their expectations. Schemas and conditions are kept, too: what happened
//! does not say what they should be.
//!
//! Invariant: a case that could not run stays as it is, and no case ends with nothing expected.

use std::sync::Arc;

use ensemble_history::response_or_output;
use ensemble_language::cases::{Case, Expect};
use serde_json::{Map, Value, json};

use crate::judge::{Conversation, Judge, is_same_turn, turns};

/// The expectations as they are written, with those replaced that the conversation contradicts; `None`: nothing is to be
/// replaced. What holds stays as it is written.
pub fn updated(case: &Case, written: &Value, conversation: &Conversation) -> Option<Value> {
    let ended = conversation.state.ended()?;
    if case.live || !conversation.missing.is_empty() {
        return None;
    }
    let actual = Actual {
        expect: &case.expect,
        judge: Judge {
            at: 0,
            expect: &case.expect,
            conversation,
        },
    };
    let mut new = Map::new();
    for (key, value) in written.as_object()? {
        new.extend(actual.instead_of(key, value).map(|value| (key.clone(), value)));
    }
    if new.is_empty() {
        // A case that expects nothing would pass whatever happens.
        new.insert("outcome".to_owned(), ended.completion_reason.as_str().into());
    }
    let new = Value::Object(new);
    (new != *written).then_some(new)
}

struct Actual<'c> {
    expect: &'c Expect,
    judge: Judge<'c>,
}

impl Actual<'_> {
    /// The value that this expectation should have; `None`: it cannot be met by any value.
    fn instead_of(&self, key: &str, written: &Value) -> Option<Value> {
        let kept = || Some(written.clone());
        match key {
            "outcome" => Some(self.outcome()),
            "turns" => Some(self.turns(written)),
            "order" => self.order().map(|names| as_written(names, &self.expect.order, written)),
            "executions" => Some(by_name(written, |name, _| Some(self.judge.count(name).into()))),
            "never" => {
                let never = |name: &Arc<str>| self.judge.count(name) == 0;
                let left: Vec<Arc<str>> = self.expect.never.iter().filter(|name| never(name)).cloned().collect();
                Some(as_written(left, &self.expect.never, written)).filter(|left| !is_empty(left) || is_empty(written))
            }
            "outputs" => filled(written, by_name(written, |name, value| self.output(name, value))),
            "result" => projected(written, &self.judge.actual_result()),
            "not_run" => filled(written, self.not_run(written)),
            "warnings" => Some(self.warnings(written)),
            "most_turns" => Some(self.most(written, self.judge.state().finished_turns().into())),
            "most_cost" => {
                let cost = self.judge.state().usage_until_now().cost.unwrap_or_default();
                let is_met = self.expect.most_cost.is_none_or(|most| cost <= most);
                let actual = || serde_json::from_str(&cost.to_string()).unwrap_or_else(|_| written.clone());
                Some(if is_met { written.clone() } else { actual() })
            }
            _ => kept(),
        }
    }

    fn outcome(&self) -> Value {
        let ended = self.judge.state().ended();
        ended.map_or(Value::Null, |ended| ended.completion_reason.as_str().into())
    }

    /// The turns; those that are as expected stay as they are written.
    fn turns(&self, written: &Value) -> Value {
        let expected = self.expect.turns.as_deref().unwrap_or_default();
        let spelt = |(at, turn): (usize, &Vec<Arc<str>>)| {
            let is_same = expected.get(at).is_some_and(|expected| is_same_turn(expected, turn));
            match (written.get(at).filter(|_| is_same), turn.as_slice()) {
                (Some(written), _) => written.clone(),
                (None, [one]) => json!(one),
                (None, several) => json!(several),
            }
        };
        turns(&self.judge.conversation.records)
            .iter()
            .enumerate()
            .map(spelt)
            .collect()
    }

    /// The agents of the list that run, in the order in which they do; `None`: none of them runs.
    fn order(&self) -> Option<Vec<Arc<str>>> {
        let expected = &self.expect.order;
        let actual = turns(&self.judge.conversation.records);
        let mut at = 0;
        let is_met = expected.iter().all(|name| {
            let found = actual.iter().skip(at).position(|turn| turn.contains(name));
            at += found.unwrap_or_default() + 1;
            found.is_some()
        });
        if is_met {
            return Some(expected.clone());
        }
        let mut left = expected.clone();
        let mut order = Vec::new();
        for turn in &actual {
            if let Some(at) = left.iter().position(|name| turn.contains(name)) {
                order.push(left.remove(at));
            }
        }
        (!order.is_empty()).then_some(order)
    }

    fn output(&self, name: &str, written: &Value) -> Option<Value> {
        let output = self.judge.output(name).ok()?;
        let whole = if written.is_string() {
            response_or_output(output)
        } else {
            output
        };
        projected(written, whole)
    }

    fn not_run(&self, written: &Value) -> Value {
        let ended = self.judge.state().ended();
        let not_run = ended.map_or(&[][..], |ended| &ended.not_run);
        let reason = |name: &str| not_run.iter().find(|one| *one.agent == *name).map(|one| &one.reason);
        match written {
            Value::Array(names) => {
                let is_left = |name: &&Value| name.as_str().is_some_and(|name| reason(name).is_some());
                names.iter().filter(is_left).cloned().collect()
            }
            _ => by_name(written, |name, part| {
                let reason = reason(name)?;
                let holds = part.as_str().is_some_and(|part| reason.contains(part));
                Some(if holds { part.clone() } else { json!(reason) })
            }),
        }
    }

    fn warnings(&self, written: &Value) -> Value {
        let actual = self.judge.actual_warnings();
        let parts: Vec<&str> = written
            .as_array()
            .map_or_else(Vec::new, |parts| parts.iter().filter_map(Value::as_str).collect());
        let is_there = |part: &&&str| actual.iter().any(|warning| warning.contains(**part));
        let kept: Vec<&str> = parts.iter().filter(is_there).copied().collect();
        let has_unexpected = parts.is_empty() && !actual.is_empty();
        if kept.len() == parts.len() && !has_unexpected {
            return written.clone();
        }
        let more = actual
            .iter()
            .map(|warning| warning.as_str())
            .filter(|warning| !kept.iter().any(|part| warning.contains(part)));
        json!(kept.iter().copied().chain(more).collect::<Vec<_>>())
    }

    fn most(&self, written: &Value, actual: u64) -> Value {
        match written.as_u64() {
            Some(most) if actual > most => actual.into(),
            _ => written.clone(),
        }
    }
}

/// The names; the value as it is written if they are the expected ones.
fn as_written(names: Vec<Arc<str>>, expected: &[Arc<str>], written: &Value) -> Value {
    match names == expected {
        true => written.clone(),
        false => json!(names),
    }
}

/// A map with another value under each key, or without the key.
fn by_name(written: &Value, other: impl Fn(&str, &Value) -> Option<Value>) -> Value {
    let entries = written.as_object().into_iter().flatten();
    let entries = entries.filter_map(|(name, value)| Some((name.clone(), other(name, value)?)));
    Value::Object(entries.collect())
}

fn is_empty(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(Map::is_empty)
}

/// Nothing instead of what has become empty.
fn filled(written: &Value, new: Value) -> Option<Value> {
    (!is_empty(&new) || is_empty(written)).then_some(new)
}

/// The parts of the actual value that are expected; `None`: there are none.
fn projected(expected: &Value, actual: &Value) -> Option<Value> {
    match (expected, actual) {
        (Value::Object(expected), Value::Object(actual)) => {
            let entries = expected.iter().filter_map(|(key, expected)| {
                let actual = actual.get(key)?;
                Some((key.clone(), projected(expected, actual)?))
            });
            let entries: Map<String, Value> = entries.collect();
            (!entries.is_empty() || expected.is_empty()).then_some(Value::Object(entries))
        }
        (Value::Array(expected), Value::Array(actual)) if expected.len() == actual.len() => {
            let pairs = expected.iter().zip(actual);
            let items = pairs.map(|(expected, actual)| projected(expected, actual).unwrap_or_else(|| actual.clone()));
            Some(items.collect())
        }
        (Value::Number(one), Value::Number(other)) if one.as_f64() == other.as_f64() => Some(expected.clone()),
        (_, actual) => Some(actual.clone()),
    }
}
