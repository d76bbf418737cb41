//! Answers that are there before the question, and people who can be asked.

use std::time::Duration;

use indexmap::IndexMap;
use serde_json::Value;

use crate::agent::BoxFuture;
use ensemble_language::data::Question;

/// Someone who can be asked; the edge of the program knows who.
///
/// Agents that run side by side ask side by side: an implementation with one terminal asks one after another.
pub trait Person: Send + Sync {
    /// Asks. The implementation keeps the time: `timeout` is what is left from the moment the question is shown.
    /// `default` is what an empty answer stands for.
    fn ask<'a>(
        &'a self,
        question: &'a Question,
        agent_name: &'a str,
        timeout: Option<Duration>,
        default: Option<&'a str>,
    ) -> BoxFuture<'a, Answered>;
}

/// Nobody: answers come from elsewhere, or not at all.
#[derive(Debug, Clone, Copy, Default)]
pub struct Nobody;

impl Person for Nobody {
    fn ask<'a>(
        &'a self,
        _question: &'a Question,
        _agent_name: &'a str,
        _timeout: Option<Duration>,
        _default: Option<&'a str>,
    ) -> BoxFuture<'a, Answered> {
        Box::pin(std::future::ready(Answered::NobodyThere))
    }
}

/// What came of asking a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answered {
    /// They said this.
    Text(String),
    /// They did not answer in time.
    TimedOut,
    /// There is no terminal, or its input has ended.
    NobodyThere,
}

/// Answers given with the run (`--answer`, `--answers`), by agent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answers(IndexMap<String, Answer>);

#[derive(Debug, Clone, PartialEq)]
enum Answer {
    /// Every execution gets it.
    Every(Value),
    /// The n-th execution gets the n-th.
    ByExecution(Vec<Value>),
}

/// What there is for one execution.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Injected<'a> {
    /// This.
    Answer(&'a Value),
    /// The agent's list has ended: this was to run without a person, so none is asked.
    Exhausted,
    /// Nothing was given for the agent.
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

    /// The agents that have an answer, for a caller who checks the names.
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
