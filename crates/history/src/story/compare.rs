//! Compares two runs: the agents that ran, their outputs, the outcomes, and the contexts.
//!
//! Executions are matched by agent and number, not by position. Times and ids always differ and are not compared. Usage
//! is reported, but is not a difference.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};

use super::paths::{Change, changes};
use super::{Execution, Story, StoryEvent, Turn};
use ensemble_core::conversation::ExecutionEnd;
use ensemble_language::data::{Context, Usage};

/// One side of a comparison of two runs.
#[derive(Debug, Clone, Copy)]
pub struct Side<'a> {
    /// The events of the run.
    pub story: &'a Story,
    /// The context at the end, if it is known.
    pub context: Option<&'a Context>,
}

/// The same property of both runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sides<T> {
    /// Of the first run.
    pub a: T,
    /// Of the second run.
    pub b: T,
}

/// The result of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// Whether there is no difference, apart from usage.
    pub same: bool,
    /// The first input or message that differs; number 0 is the input.
    pub input: Option<Parting<Option<Arc<str>>>>,
    /// The keys of the initial context that differ.
    pub given: Vec<ContextChange>,
    /// The first turn in which different agents ran.
    pub decision: Option<Decision>,
    /// The first execution that both runs have and whose results differ.
    pub output: Option<Difference>,
    /// The number of executions that both runs have.
    pub shared_executions: usize,
    /// The number of these executions whose results differ.
    pub different_executions: usize,
    /// The outcomes, if they differ.
    pub outcome: Option<Sides<Outcome>>,
    /// The keys of the last context that differ; `None`: one of the contexts is not known.
    pub context: Option<Vec<ContextChange>>,
    /// The usage of both runs.
    pub usage: Sides<Usage>,
}

/// The first of several texts that differs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Parting<T> {
    /// Its number.
    pub number: usize,
    /// The text in each run.
    #[serde(flatten)]
    pub sides: Sides<T>,
}

/// The first turn in which different agents ran.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Decision {
    /// The number of the turn.
    pub turn: u32,
    /// The agents that ran; `None`: the run has no such turn.
    #[serde(flatten)]
    pub agents: Sides<Option<Vec<Arc<str>>>>,
    /// For agents that ran only in the other run: why they did not run in this run, as far as it is recorded.
    pub reasons: Sides<Vec<(Arc<str>, String)>>,
}

/// The first execution whose results differ.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    /// The agent.
    pub agent: Arc<str>,
    /// The number of the execution of the agent.
    pub execution: u32,
    /// The turn of the execution in each run.
    pub turn: Sides<u32>,
    /// The differences of the outputs; a failure is under the key `failed`.
    pub changes: Vec<Change>,
}

/// The end of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// The outcome; `None`: the run has not ended.
    pub completion_reason: Option<&'static str>,
    /// The details, as text.
    pub detail: Option<String>,
}

/// A key of the context whose values differ.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ContextChange {
    /// The key.
    pub key: Arc<str>,
    /// The differences of its values.
    pub changes: Vec<Change>,
}

/// Compares two runs.
pub fn compare(a: Side, b: Side) -> Comparison {
    let (shared_executions, different_executions, output) = outputs(a.story, b.story);
    let outcome = Sides {
        a: outcome(a.story),
        b: outcome(b.story),
    };
    let given = |story: &Story| story.started().map(|started| started.context.clone());
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
            a: a.story.history.totals().all.usage,
            b: b.story.history.totals().all.usage,
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

/// The input, and all messages after it.
fn said(story: &Story) -> Vec<Arc<str>> {
    let input = story.started().into_iter().map(|started| started.input.clone());
    let messages = story.events.iter().filter_map(|event| match event {
        StoryEvent::Message { text, .. } => Some(text.clone()),
        StoryEvent::Given { context, .. } => Some(format!("context: {}", serde_json::json!(context)).into()),
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

/// The order of the agents in the file may differ; this is not a difference between the turns.
fn ran(turn: &Turn) -> BTreeSet<Arc<str>> {
    in_order(turn).into_iter().collect()
}

/// The reasons why agents that ran in the other run did not run here.
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

/// The number of executions in both runs, the number of those that differ, and the first of those.
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

/// The result of the execution.
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
