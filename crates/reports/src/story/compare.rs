//! Where two runs part: who ran, what was said, how it ended, what it left.
//!
//! Executions are matched by agent and number, never by position. Times and ids differ between any two runs and are
//! not compared; usage is told, and makes two runs no different.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};

use super::paths::{Change, changes};
use super::{Chapter, Execution, Story, Turn};
use ensemble_core::conversation::ExecutionEnd;
use ensemble_language::data::{Context, Usage};

/// One of two runs.
#[derive(Debug, Clone, Copy)]
pub struct Side<'a> {
    /// What happened in it.
    pub story: &'a Story,
    /// The context with which it ended, if it is known.
    pub context: Option<&'a Context>,
}

/// The same of both runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sides<T> {
    /// Of the first.
    pub a: T,
    /// Of the second.
    pub b: T,
}

/// How two runs compare.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// Nothing that follows tells a difference, usage aside.
    pub same: bool,
    /// The input, or the message after it, at which they differ first; from 0, the input.
    pub input: Option<Parting<Option<Arc<str>>>>,
    /// Keys of the context that was given, where they differ.
    pub given: Vec<ContextChange>,
    /// The first turn in which others ran.
    pub decision: Option<Decision>,
    /// The first execution that both have and that ended otherwise.
    pub output: Option<Difference>,
    /// Executions that both have.
    pub shared_executions: usize,
    /// Those that ended otherwise.
    pub different_executions: usize,
    /// How they ended, where that differs.
    pub outcome: Option<Sides<Outcome>>,
    /// Keys of the last context, where they differ; `None`: one of the two contexts is not known.
    pub context: Option<Vec<ContextChange>>,
    /// What they cost.
    pub usage: Sides<Usage>,
}

/// The first of several at which the runs differ.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Parting<T> {
    /// Which.
    pub number: usize,
    /// What each has there.
    #[serde(flatten)]
    pub sides: Sides<T>,
}

/// The first turn in which others ran.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Decision {
    /// The turn.
    pub turn: u32,
    /// Who ran; `None`: there was no such turn.
    #[serde(flatten)]
    pub agents: Sides<Option<Vec<Arc<str>>>>,
    /// Why those that ran in one run only did not in the other, in words, as far as it is recorded.
    pub reasons: Sides<Vec<(Arc<str>, String)>>,
}

/// The first execution that ended otherwise.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    /// The agent.
    pub agent: Arc<str>,
    /// Which execution of the agent.
    pub execution: u32,
    /// In which turn of each run.
    pub turn: Sides<u32>,
    /// Where what it said differs; a failure stands under `failed`.
    pub changes: Vec<Change>,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// `None`: it has no end.
    pub completion_reason: Option<&'static str>,
    /// In words.
    pub detail: Option<String>,
}

/// A key of the context that differs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ContextChange {
    /// The key.
    pub key: Arc<str>,
    /// Where its values differ.
    pub changes: Vec<Change>,
}

/// Compares two runs.
pub fn compare(a: Side, b: Side) -> Comparison {
    let (shared_executions, different_executions, output) = outputs(a.story, b.story);
    let outcome = Sides {
        a: outcome(a.story),
        b: outcome(b.story),
    };
    let given = |story: &Story| story.started.as_ref().map(|started| started.context.clone());
    let mut comparison = Comparison {
        same: false,
        input: inputs(a.story, b.story),
        given: contexts(&given(a.story).unwrap_or_default(), &given(b.story).unwrap_or_default()),
        decision: decision(a.story, b.story),
        output,
        shared_executions,
        different_executions,
        outcome: (outcome.a != outcome.b).then_some(outcome),
        context: a.context.zip(b.context).map(|(a, b)| contexts(a, b)),
        usage: Sides {
            a: a.story.usage,
            b: b.story.usage,
        },
    };
    comparison.same = comparison.input.is_none()
        && comparison.given.is_empty()
        && comparison.decision.is_none()
        && comparison.output.is_none()
        && comparison.outcome.is_none()
        && comparison.context.as_ref().is_none_or(Vec::is_empty);
    comparison
}

/// The input and every message after it.
fn said(story: &Story) -> Vec<Arc<str>> {
    let input = story.started.iter().map(|started| started.input.clone());
    let messages = story.chapters.iter().filter_map(|chapter| match chapter {
        Chapter::Message { text, .. } => Some(text.clone()),
        Chapter::Given { context, .. } => Some(format!("context: {}", serde_json::json!(context)).into()),
        _ => None,
    });
    input.chain(messages).collect()
}

fn inputs(a: &Story, b: &Story) -> Option<Parting<Option<Arc<str>>>> {
    let (a, b) = (said(a), said(b));
    let number = (0..a.len().max(b.len())).find(|at| a.get(*at) != b.get(*at))?;
    Some(Parting {
        number,
        sides: Sides {
            a: a.get(number).cloned(),
            b: b.get(number).cloned(),
        },
    })
}

fn decision(a: &Story, b: &Story) -> Option<Decision> {
    let (a, b): (Vec<&Turn>, Vec<&Turn>) = (a.turns().collect(), b.turns().collect());
    let at =
        (0..a.len().max(b.len())).find(|at| a.get(*at).map(|turn| ran(turn)) != b.get(*at).map(|turn| ran(turn)))?;
    let (a, b) = (a.get(at).copied(), b.get(at).copied());
    Some(Decision {
        turn: a.or(b).map_or(0, |turn| turn.turn),
        reasons: Sides {
            a: reasons(a, b),
            b: reasons(b, a),
        },
        agents: Sides {
            a: a.map(in_order),
            b: b.map(in_order),
        },
    })
}

fn in_order(turn: &Turn) -> Vec<Arc<str>> {
    turn.executions
        .iter()
        .map(|execution| execution.agent.clone())
        .collect()
}

/// The order of the file may have changed; who ran has not, for that.
fn ran(turn: &Turn) -> BTreeSet<Arc<str>> {
    in_order(turn).into_iter().collect()
}

/// Why those that ran in the other did not run here.
fn reasons(here: Option<&Turn>, there: Option<&Turn>) -> Vec<(Arc<str>, String)> {
    let (Some(here), Some(there)) = (here, there) else {
        return Vec::new();
    };
    let there = ran(there);
    let missing = here.waiting.iter().filter(|waiting| there.contains(&waiting.agent));
    missing
        .map(|waiting| (waiting.agent.clone(), waiting.reason.to_string()))
        .collect()
}

/// How many executions both have, how many of them ended otherwise, and the first of those.
fn outputs(a: &Story, b: &Story) -> (usize, usize, Option<Difference>) {
    let others: HashMap<(&str, u32), (u32, &Execution)> = b
        .executions()
        .map(|(turn, execution)| ((&*execution.agent, execution.execution), (turn, execution)))
        .collect();
    let (mut shared, mut different, mut first) = (0, 0, None);
    for (turn, one) in a.executions() {
        let Some((other_turn, other)) = others.get(&(&*one.agent, one.execution)) else {
            continue;
        };
        let (Some(said), Some(said_there)) = (ending(one), ending(other)) else {
            continue;
        };
        shared += 1;
        if said == said_there {
            continue;
        }
        different += 1;
        first.get_or_insert_with(|| Difference {
            agent: one.agent.clone(),
            execution: one.execution,
            turn: Sides {
                a: turn,
                b: *other_turn,
            },
            changes: changes(&said, &said_there),
        });
    }
    (shared, different, first)
}

/// What the execution came to.
fn ending(execution: &Execution) -> Option<Value> {
    let finished = execution.finished.as_ref()?;
    Some(match &finished.end {
        ExecutionEnd::Failed(failure) => json!({"failed": failure}),
        ExecutionEnd::Succeeded(output) => Value::clone(output),
    })
}

fn outcome(story: &Story) -> Outcome {
    let ended = story.ended();
    Outcome {
        completion_reason: ended.map(|ended| ended.completion_reason.as_str()),
        detail: ended.and_then(|ended| ended.detail.clone()),
    }
}

fn contexts(a: &Context, b: &Context) -> Vec<ContextChange> {
    let only_b = b.iter().map(|(key, _)| key).filter(|key| a.get(key).is_none());
    let keys = a.iter().map(|(key, _)| key).chain(only_b);
    let change = |key: &Arc<str>| {
        let (one, other) = (a.get(key), b.get(key));
        let changes = match (one, other) {
            (Some(one), Some(other)) => changes(one, other),
            (one, other) => vec![Change {
                path: String::new(),
                a: one.map(|value| Value::clone(value)),
                b: other.map(|value| Value::clone(value)),
            }],
        };
        let key = key.clone();
        (!changes.is_empty()).then_some(ContextChange { key, changes })
    };
    keys.filter_map(change).collect()
}
