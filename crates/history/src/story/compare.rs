//! The comparison of two runs: the agents that ran, their outputs, the outcomes, and the contexts.
//!
//! Executions are matched by agent and number, not by position. Times and ids always differ and are not compared. Usage
//! is reported, but is not a difference.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};

use super::value_changes::{ValueChange, compare_values};
use super::{RunStory, StoryEvent, StoryExecution, StoryTurn};
use ensemble_core::conversation::ExecutionEnd;
use ensemble_language::data::{ModelUsage, RunContext};

/// A run of a comparison, with its story and its last context.
#[derive(Debug, Clone, Copy)]
pub struct ComparedRun<'a> {
    /// The events of the run.
    pub story: &'a RunStory,
    /// The context at the end, if it is known.
    pub context: Option<&'a RunContext>,
}

/// A property of both compared runs: `a` of the first run, `b` of the second run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BothRuns<T> {
    /// The property of the first run.
    pub a: T,
    /// The property of the second run.
    pub b: T,
}

/// The result of comparing two runs: the first differences, the changed context, and the usage.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunComparison {
    /// True if there is no difference apart from usage.
    pub same: bool,
    /// The first input or message that differs; number 0 is the input.
    pub input: Option<FirstTextDifference<Option<Arc<str>>>>,
    /// The keys of the initial context that differ.
    pub given: Vec<ContextChange>,
    /// The first turn in which different agents ran.
    pub decision: Option<FirstTurnDifference>,
    /// The first execution that both runs have and whose results differ.
    pub output: Option<FirstExecutionDifference>,
    /// The number of executions that both runs have.
    pub shared_executions: usize,
    /// The number of these executions whose results differ.
    pub different_executions: usize,
    /// The outcomes, if they differ.
    pub outcome: Option<BothRuns<ComparedOutcome>>,
    /// The keys of the last context that differ. `None` if one of the contexts is unknown.
    pub context: Option<Vec<ContextChange>>,
    /// The usage of both runs.
    pub usage: BothRuns<ModelUsage>,
}

/// The first input or message that differs, with its number and the texts of both runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FirstTextDifference<T> {
    /// The number of the text: 0 for the input, from 1 for messages.
    pub number: usize,
    /// The text in each run.
    #[serde(flatten)]
    pub sides: BothRuns<T>,
}

/// The first turn in which the runs executed different agents.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FirstTurnDifference {
    /// The number of the turn.
    pub turn: u32,
    /// The agents that ran in each run. `None` if the run has no such turn.
    #[serde(flatten)]
    pub agents: BothRuns<Option<Vec<Arc<str>>>>,
    /// The recorded reasons of agents that ran only in the other run.
    pub reasons: BothRuns<Vec<(Arc<str>, String)>>,
}

/// The first shared execution whose results differ, with the differences.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FirstExecutionDifference {
    /// The agent.
    pub agent: Arc<str>,
    /// The number of the execution of the agent.
    pub execution: u32,
    /// The turn of the execution in each run.
    pub turn: BothRuns<u32>,
    /// The differences of the outputs; a failure is under the key `failed`.
    pub changes: Vec<ValueChange>,
}

/// The outcome of a run, as the comparison shows the outcome.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparedOutcome {
    /// The outcome. `None` if the run has not ended.
    pub completion_reason: Option<&'static str>,
    /// The details, as text.
    pub detail: Option<String>,
}

/// A key of the context whose values differ, with the differences.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ContextChange {
    /// The key.
    pub key: Arc<str>,
    /// The differences between the values of the key.
    pub changes: Vec<ValueChange>,
}

/// Compares two runs: their inputs, contexts, turns, executions and outcomes.
pub fn compare_runs(a: ComparedRun, b: ComparedRun) -> RunComparison {
    let (shared_executions, different_executions, output) = compare_executions(a.story, b.story);
    let outcome = BothRuns {
        a: compared_outcome(a.story),
        b: compared_outcome(b.story),
    };
    let run_context = |story: &RunStory| story.start_event().map(|started| started.context.clone());
    let mut comparison = RunComparison {
        same: false,
        input: find_first_message_difference(a.story, b.story),
        given: compare_contexts(
            &run_context(a.story).unwrap_or_default(),
            &run_context(b.story).unwrap_or_default(),
        ),
        decision: find_first_turn_difference(a.story, b.story),
        output,
        shared_executions,
        different_executions,
        outcome: (outcome.a != outcome.b).then_some(outcome),
        context: a.context.zip(b.context).map(|(a, b)| compare_contexts(a, b)),
        usage: BothRuns {
            a: a.story.history.run_totals().all.usage,
            b: b.story.history.run_totals().all.usage,
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

/// Lists the input and all later messages. Values that a fork added to the context count as messages.
fn list_input_and_messages(story: &RunStory) -> Vec<Arc<str>> {
    let input = story.start_event().into_iter().map(|started| started.input.clone());
    let messages = story.events.iter().filter_map(|event| match event {
        StoryEvent::Message { text, .. } => Some(text.clone()),
        StoryEvent::ContextGiven { context, .. } => Some(format!("context: {}", serde_json::json!(context)).into()),
        _ => None,
    });
    input.chain(messages).collect()
}

/// Finds the first input or message that differs. Returns `None` if all are equal.
fn find_first_message_difference(a: &RunStory, b: &RunStory) -> Option<FirstTextDifference<Option<Arc<str>>>> {
    let (a, b) = (list_input_and_messages(a), list_input_and_messages(b));
    let number = (0..a.len().max(b.len())).find(|at| a.get(*at) != b.get(*at))?;
    Some(FirstTextDifference {
        number,
        sides: BothRuns {
            a: a.get(number).cloned(),
            b: b.get(number).cloned(),
        },
    })
}

/// Finds the first turn in which different agents ran. Returns `None` if all turns are equal.
fn find_first_turn_difference(a: &RunStory, b: &RunStory) -> Option<FirstTurnDifference> {
    let (a, b): (Vec<&StoryTurn>, Vec<&StoryTurn>) = (a.turns().collect(), b.turns().collect());
    let at = (0..a.len().max(b.len())).find(|at| {
        a.get(*at).map(|turn| executed_agent_set(turn)) != b.get(*at).map(|turn| executed_agent_set(turn))
    })?;
    let (a, b) = (a.get(at).copied(), b.get(at).copied());
    Some(FirstTurnDifference {
        turn: a.or(b).map_or(0, |turn| turn.turn),
        reasons: BothRuns {
            a: list_idle_reasons(a, b),
            b: list_idle_reasons(b, a),
        },
        agents: BothRuns {
            a: a.map(list_executed_agents),
            b: b.map(list_executed_agents),
        },
    })
}

/// Lists the agents of the turn's executions, in declaration order.
fn list_executed_agents(turn: &StoryTurn) -> Vec<Arc<str>> {
    turn.executions
        .iter()
        .map(|execution| execution.agent.clone())
        .collect()
}

/// Returns the agents of the turn's executions as a set, because their order in the file is not a difference.
fn executed_agent_set(turn: &StoryTurn) -> BTreeSet<Arc<str>> {
    list_executed_agents(turn).into_iter().collect()
}

/// Lists the agents that ran only in the turn `there`, each with the recorded reason why the turn `here` skipped the agent.
fn list_idle_reasons(here: Option<&StoryTurn>, there: Option<&StoryTurn>) -> Vec<(Arc<str>, String)> {
    let (Some(turn), Some(other_turn)) = (here, there) else {
        return Vec::new();
    };
    let other_agents = executed_agent_set(other_turn);
    let missing = turn
        .skipped_agents
        .iter()
        .filter(|waiting| other_agents.contains(&waiting.agent));
    missing
        .map(|waiting| (waiting.agent.clone(), waiting.reason.to_string()))
        .collect()
}

/// Compares the executions that both runs have. Returns the number of shared executions, the number of different ones, and the first
/// different one.
fn compare_executions(a: &RunStory, b: &RunStory) -> (usize, usize, Option<FirstExecutionDifference>) {
    let other_executions: HashMap<(&str, u32), (u32, &StoryExecution)> = b
        .executions_by_turn()
        .map(|(turn, execution)| ((&*execution.agent, execution.execution), (turn, execution)))
        .collect();
    let (mut shared, mut different, mut first) = (0, 0, None);
    for (turn, one) in a.executions_by_turn() {
        let Some((other_turn, other)) = other_executions.get(&(&*one.agent, one.execution)) else {
            continue;
        };
        let (Some(result), Some(said_there)) = (comparable_result(one), comparable_result(other)) else {
            continue;
        };
        shared += 1;
        if result == said_there {
            continue;
        }
        different += 1;
        first.get_or_insert_with(|| FirstExecutionDifference {
            agent: one.agent.clone(),
            execution: one.execution,
            turn: BothRuns {
                a: turn,
                b: *other_turn,
            },
            changes: compare_values(&result, &said_there),
        });
    }
    (shared, different, first)
}

/// Returns the output, or the failure under the key `failed`. Returns `None` if the execution has not ended.
fn comparable_result(execution: &StoryExecution) -> Option<Value> {
    let finished = execution.finish_event.as_ref()?;
    Some(match &finished.end {
        ExecutionEnd::Failed(failure) => json!({"failed": failure}),
        ExecutionEnd::Succeeded(output) => Value::clone(output),
    })
}

/// Returns the outcome of the run with its details.
fn compared_outcome(story: &RunStory) -> ComparedOutcome {
    let run_end = story.end_event();
    ComparedOutcome {
        completion_reason: run_end.map(|ended| ended.completion_reason.as_str()),
        detail: run_end.and_then(|ended| ended.detail.clone()),
    }
}

/// Lists the keys whose values differ, with the differences.
fn compare_contexts(a: &RunContext, b: &RunContext) -> Vec<ContextChange> {
    let only_b = b.iter().map(|(key, _)| key).filter(|key| a.get(key).is_none());
    let keys = a.iter().map(|(key, _)| key).chain(only_b);
    let change = |key: &Arc<str>| {
        let (one, other) = (a.get(key), b.get(key));
        let changes = match (one, other) {
            (Some(one), Some(other)) => compare_values(one, other),
            (one, other) => vec![ValueChange {
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
