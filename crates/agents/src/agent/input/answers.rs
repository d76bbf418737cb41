//! Answers that are given before the question.

use indexmap::IndexMap;
use serde_json::Value;

/// Answers given with the run (`--answer`, `--answers`), by agent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answers(IndexMap<String, Answer>);

#[derive(Debug, Clone, PartialEq)]
enum Answer {
    /// The answer for every execution.
    Every(Value),
    /// One answer for each execution, in order.
    ByExecution(Vec<Value>),
}

/// The given answer for one execution.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Injected<'a> {
    /// An answer.
    Answer(&'a Value),
    /// The list of the agent has no more answers. The operator is not asked, because the run was meant to need none.
    Exhausted,
    /// No answers were given for the agent.
    Nothing,
}

impl Answers {
    /// Adds what was given for an agent: a list is by execution (`null` leaves one out), anything else is for every
    /// execution. It replaces what was given before.
    pub fn insert(&mut self, agent_name: impl Into<String>, answer: Value) {
        let answer = match answer {
            Value::Array(answers) => Answer::ByExecution(answers),
            other => Answer::Every(other),
        };
        self.0.insert(agent_name.into(), answer);
    }

    /// What was given, by agent: a list is by execution.
    pub fn given(&self) -> impl Iterator<Item = (&str, Value)> {
        self.0.iter().map(|(agent, answer)| {
            let answer = match answer {
                Answer::Every(value) => value.clone(),
                Answer::ByExecution(values) => Value::Array(values.clone()),
            };
            (agent.as_str(), answer)
        })
    }

    /// The names of agents with an answer, so that a caller can check the names.
    pub fn agents(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The answer for that execution (from 1).
    pub(super) fn find(&self, agent_name: &str, execution: u32) -> Injected<'_> {
        let answer = match self.0.get(agent_name) {
            None => return Injected::Nothing,
            Some(Answer::Every(answer)) => Some(answer),
            Some(Answer::ByExecution(answers)) => usize::try_from(execution)
                .ok()
                .and_then(|number| answers.get(number.checked_sub(1)?)),
        };
        answer
            .filter(|answer| !answer.is_null())
            .map_or(Injected::Exhausted, Injected::Answer)
    }
}
