//! Compares what happened with what is expected. Pure: a function of records, the last state and the expectations.
//!
//! Invariant: it is pure, and looks at nothing else once a stub is missing.

mod missing_stubs;
mod observed;

use std::sync::Arc;

use ensemble_core::conversation::{ConversationState, Event, Record};
use ensemble_history::response_or_output;
use ensemble_language::cases::{CaseExpectations, expect_route};
use ensemble_language::condition::Condition;
use ensemble_language::data::JsonMap;
use ensemble_language::source::RouteLocation;
use ensemble_schema::JsonSchema;
use serde_json::{Map, Value};

use crate::check::locate_not_run_agent;
use crate::judge::missing_stubs::describe_missing_stub;
pub(crate) use crate::judge::observed::check_exit_after_refusal;
use crate::missing_parts::MissingStub;
use crate::watch::{ObservedParallelism, ObservedPrompt};

/// Finished conversation of a case, with its observations.
#[derive(Debug)]
pub struct CaseConversation {
    /// Its records.
    pub records: Vec<Record>,
    /// The fold of its records.
    pub state: ConversationState,
    /// The executions for which nothing was prepared.
    pub missing: Vec<MissingStub>,
    /// The prompts of the agents whose prompts are expected to contain texts.
    pub prompts: Vec<ObservedPrompt>,
    /// How many executions ran at once, of the agents for which that is limited.
    pub loads: Vec<ObservedParallelism>,
}

/// Expectation that a conversation does not meet.
#[derive(Debug, Clone, PartialEq)]
pub struct UnmetExpectation {
    /// The expectation, in the test file.
    pub at: RouteLocation,
    /// What it is about.
    pub what: String,
    /// What is expected.
    pub expected: Option<String>,
    /// What happened.
    pub actual: Option<String>,
    /// What to do.
    pub help: Option<String>,
}

impl UnmetExpectation {
    /// Creates the failure without expected value, actual value and help.
    pub fn new(at: RouteLocation, what: impl Into<String>) -> Self {
        Self {
            at,
            what: what.into(),
            expected: None,
            actual: None,
            help: None,
        }
    }

    pub(crate) fn from_difference(
        at: RouteLocation,
        what: impl Into<String>,
        expected: impl Into<String>,
        actual: impl Into<String>,
    ) -> Self {
        Self {
            expected: Some(expected.into()),
            actual: Some(actual.into()),
            ..Self::new(at, what)
        }
    }

    fn with_help(self, help: impl Into<String>) -> Self {
        Self {
            help: Some(help.into()),
            ..self
        }
    }
}

/// Returns the unmet expectations of the case, in the order of the documentation. If a stub is missing, only missing stubs are returned.
pub fn list_unmet_expectations(
    at: usize,
    expect: &CaseExpectations,
    conversation: &CaseConversation,
) -> Vec<UnmetExpectation> {
    if !conversation.missing.is_empty() {
        return conversation
            .missing
            .iter()
            .map(|missing| describe_missing_stub(at, missing))
            .collect();
    }
    let judge = CaseExpectationChecker {
        at,
        expect,
        conversation,
    };
    let mut failures = Vec::new();
    failures.extend(judge.check_expected_refusal());
    failures.extend(judge.check_outcome());
    failures.extend(judge.check_exit_code());
    failures.extend(judge.check_turns());
    failures.extend(judge.check_order());
    failures.extend(judge.check_executions());
    failures.extend(judge.check_never());
    failures.extend(judge.check_same_turn());
    failures.extend(judge.check_parallel_limits());
    failures.extend(judge.check_prompt_texts());
    failures.extend(judge.check_outputs());
    failures.extend(judge.check_schemas());
    failures.extend(judge.check_result());
    failures.extend(judge.check_exact_result());
    failures.extend(judge.check_conditions());
    failures.extend(judge.check_not_run());
    failures.extend(judge.check_exhausted());
    failures.extend(judge.check_warnings());
    failures.extend(judge.check_most_turns());
    failures.extend(judge.check_most_cost());
    failures
}

pub(crate) struct CaseExpectationChecker<'c> {
    pub(crate) at: usize,
    pub(crate) expect: &'c CaseExpectations,
    pub(crate) conversation: &'c CaseConversation,
}

impl CaseExpectationChecker<'_> {
    fn key_location(&self, key: &str) -> RouteLocation {
        expect_route(self.at, key).into_value_location()
    }

    fn entry_location(&self, key: &str, name: &Arc<str>) -> RouteLocation {
        expect_route(self.at, key).with_key(name.clone()).into_value_location()
    }

    pub(crate) fn state(&self) -> &ConversationState {
        &self.conversation.state
    }

    fn check_outcome(&self) -> Option<UnmetExpectation> {
        let expected = &self.expect.outcomes;
        if expected.is_empty() {
            return None;
        }
        let (actual, detail) = match self.state().run_end() {
            Some(run_end) => (run_end.completion_reason.as_str(), run_end.detail.as_deref()),
            None => ("none", None),
        };
        // The details of `completed` begin with the outcome.
        let detail = detail.map(|detail| detail.strip_prefix("completed; ").unwrap_or(detail));
        let actual_text = detail.map_or_else(|| actual.to_owned(), |detail| format!("{actual} ({detail})"));
        (!expected.contains(&actual)).then(|| {
            let place = self.key_location("outcome");
            UnmetExpectation::from_difference(place, "outcome", expected.join(" or "), actual_text)
        })
    }

    fn check_turns(&self) -> Option<UnmetExpectation> {
        let expected = self.expect.turns.as_ref()?;
        let actual = list_agents_by_turn(&self.conversation.records);
        let alike = expected
            .iter()
            .zip(&actual)
            .take_while(|(one, other)| have_same_agents(one, other))
            .count();
        if alike == expected.len() && alike == actual.len() {
            return None;
        }
        let place = match alike < expected.len() {
            true => expect_route(self.at, "turns").with_index(alike).into_value_location(),
            false => self.key_location("turns"),
        };
        let subject = format!("turns, from turn {} on", alike + 1);
        Some(UnmetExpectation::from_difference(
            place,
            subject,
            format_turns(expected),
            format_turns(&actual),
        ))
    }

    fn check_order(&self) -> Option<UnmetExpectation> {
        let actual = list_agents_by_turn(&self.conversation.records);
        let mut turn = 0;
        for (position, name) in self.expect.order.iter().enumerate() {
            let Some(offset) = actual.iter().skip(turn).position(|agents| agents.contains(name)) else {
                let place = expect_route(self.at, "order")
                    .with_index(position)
                    .into_value_location();
                let after = match position {
                    0 => format!("{name} runs"),
                    _ => format!("{name} runs after {}", self.expect.order[position - 1]),
                };
                return Some(UnmetExpectation::from_difference(
                    place,
                    "order",
                    after,
                    format_turns(&actual),
                ));
            };
            turn += offset + 1;
        }
        None
    }

    pub(crate) fn execution_count(&self, name: &str) -> u32 {
        let state = self.state();
        state
            .plan()
            .find_agent_id(name)
            .map_or(0, |id| state.execution_count(id))
    }

    fn check_executions(&self) -> Vec<UnmetExpectation> {
        let counts = self.expect.executions.iter();
        let wrong = counts.filter(|(name, count)| self.execution_count(name) != *count);
        wrong
            .map(|(name, count)| {
                let place = self.entry_location("executions", name);
                let actual = self.execution_count(name).to_string();
                UnmetExpectation::from_difference(place, format!("executions of {name}"), count.to_string(), actual)
            })
            .collect()
    }

    fn check_never(&self) -> Vec<UnmetExpectation> {
        let names = self.expect.never.iter().enumerate();
        names
            .filter(|(_, name)| self.execution_count(name) > 0)
            .map(|(position, name)| {
                let place = expect_route(self.at, "never")
                    .with_index(position)
                    .into_value_location();
                let turns = list_agents_by_turn(&self.conversation.records);
                let first = turns
                    .iter()
                    .position(|agents| agents.contains(name))
                    .map_or(0, |at| at + 1);
                let actual = format!("it runs in turn {first}");
                UnmetExpectation::from_difference(place, format!("{name} never runs"), "no execution", actual)
            })
            .collect()
    }

    /// Returns the latest output of the agent.
    pub(crate) fn find_agent_output(&self, name: &str) -> Result<&Value, String> {
        let state = self.state();
        let Some(id) = state.plan().find_agent_id(name) else {
            return Err("there is no such agent".to_owned());
        };
        match (state.agent_state(id).output(), state.agent_state(id).latest_error()) {
            (Some(output), _) => Ok(output),
            (None, Some(error)) => Err(format!("no output: the agent failed with `{error}`")),
            (None, None) => Err("no output: the agent did not run".to_owned()),
        }
    }

    fn check_outputs(&self) -> Vec<UnmetExpectation> {
        let expected = self.expect.outputs.iter();
        expected
            .filter_map(|(name, expected)| {
                let place = self.entry_location("outputs", name);
                match self.find_agent_output(name) {
                    Err(reason) => Some(UnmetExpectation::from_difference(
                        place,
                        format!("output of {name}"),
                        expected.to_string(),
                        reason,
                    )),
                    Ok(output) => {
                        // A text stands for an output that is nothing but this text.
                        let actual_output = if expected.is_string() {
                            response_or_output(output)
                        } else {
                            output
                        };
                        find_first_difference(expected, actual_output, format!("output of {name}")).map(
                            |(what, expected, actual)| UnmetExpectation::from_difference(place, what, expected, actual),
                        )
                    }
                }
            })
            .collect()
    }

    fn check_schemas(&self) -> Vec<UnmetExpectation> {
        let mut failures = Vec::new();
        for (name, schema) in &self.expect.schemas {
            let place = || self.entry_location("schemas", name);
            let subject = format!("output of {name}");
            let output = match self.find_agent_output(name) {
                Ok(output) => output,
                Err(reason) => {
                    failures.push(UnmetExpectation::from_difference(
                        place(),
                        subject,
                        "an output that matches the schema",
                        reason,
                    ));
                    continue;
                }
            };
            // The loader has refused schemas that do not compile.
            let Ok(compiled) = JsonSchema::compile(schema) else {
                continue;
            };
            for error in compiled.find_errors(output) {
                let subject_path = format!("{subject}{}", error.path.replace('/', "."));
                failures.push(UnmetExpectation::from_difference(
                    place(),
                    subject_path,
                    "a value that matches the schema",
                    error.message,
                ));
            }
        }
        failures
    }

    /// Returns the declared result of the run, or the context without a declared result.
    pub(crate) fn actual_result(&self) -> Arc<Value> {
        let state = self.state();
        match state.evaluate_declared_result() {
            Some(result) => result.value,
            None => {
                let context = state.context().iter();
                let map: JsonMap = context
                    .map(|(key, value)| (key.to_string(), Value::clone(value)))
                    .collect();
                Value::Object(map).into()
            }
        }
    }

    fn check_result(&self) -> Option<UnmetExpectation> {
        let expected = self.expect.result.as_ref()?;
        let actual = self.actual_result();
        let (what, expected, actual) = find_first_difference(expected, &actual, "result".to_owned())?;
        Some(UnmetExpectation::from_difference(
            self.key_location("result"),
            what,
            expected,
            actual,
        ))
    }

    fn check_exact_result(&self) -> Option<UnmetExpectation> {
        let expected = self.expect.exact_result.as_ref()?;
        let actual = self.actual_result();
        (!are_equal_values(expected, &actual)).then(|| {
            let place = expect_route(self.at, "result")
                .with_key("exactly")
                .into_value_location();
            UnmetExpectation::from_difference(place, "result", expected.to_string(), actual.to_string())
        })
    }

    fn check_conditions(&self) -> Vec<UnmetExpectation> {
        let mut failures = Vec::new();
        let facts = self.state().condition_values_without_output();
        for (position, text) in self.expect.conditions.iter().enumerate() {
            let place = expect_route(self.at, "conditions")
                .with_index(position)
                .into_value_location();
            // The loader has refused conditions that do not compile.
            let Ok(condition) = Condition::compile(text) else {
                continue;
            };
            let actual = match condition.evaluate(&facts) {
                Ok(true) => continue,
                Ok(false) => {
                    let reads = condition.list_reads(&facts);
                    let reads = reads.iter().map(|read| format!("{} = {}", read.expression, read.value));
                    match reads.collect::<Vec<_>>().join(", ") {
                        reads if reads.is_empty() => "the condition is false".to_owned(),
                        reads => format!("the condition is false: {reads}"),
                    }
                }
                Err(error) => format!("the condition cannot be evaluated: {}", error.message),
            };
            failures.push(UnmetExpectation::from_difference(
                place,
                "condition",
                text.trim(),
                actual,
            ));
        }
        failures
    }

    fn check_not_run(&self) -> Vec<UnmetExpectation> {
        let not_run = self.state().run_end().map_or(&[][..], |ended| &ended.not_run);
        let mut failures = Vec::new();
        for (name, part) in &self.expect.not_run {
            let reason = not_run.iter().find(|one| one.agent == *name).map(|one| &one.reason);
            let actual = match reason {
                Some(reason) if reason.contains(part.as_str()) => continue,
                Some(reason) => reason.clone(),
                None => format!("it runs {}", format_times(self.execution_count(name))),
            };
            let expected = if part.is_empty() { "no execution" } else { part };
            let place = locate_not_run_agent(self.at, name);
            failures.push(UnmetExpectation::from_difference(
                place,
                format!("{name} does not run"),
                expected,
                actual,
            ));
        }
        failures
    }

    /// Returns the exhausted agents in the order of the file.
    pub(crate) fn list_exhausted_agents(&self) -> Vec<Arc<str>> {
        let exhausted = self.state().run_end().map_or(&[][..], |ended| &ended.exhausted);
        exhausted.iter().map(|one| one.agent.clone()).collect()
    }

    fn check_exhausted(&self) -> Option<UnmetExpectation> {
        let expected = self.expect.exhausted.as_ref()?;
        let actual = self.list_exhausted_agents();
        let names = |agents: &[Arc<str>]| match agents {
            [] => "no agent".to_owned(),
            agents => agents.join(", "),
        };
        (!have_same_agents(expected, &actual)).then(|| {
            let place = self.key_location("exhausted");
            UnmetExpectation::from_difference(place, "exhausted agents", names(expected), names(&actual))
        })
    }

    /// Returns the warnings of the run, also those at its end.
    pub(crate) fn list_run_warnings(&self) -> Vec<&String> {
        let of_result = self.state().run_end().map_or(&[][..], |ended| &ended.warnings);
        self.state().warnings().iter().chain(of_result).collect()
    }

    fn check_warnings(&self) -> Vec<UnmetExpectation> {
        let Some(expected) = &self.expect.warnings else {
            return Vec::new();
        };
        let actual = self.list_run_warnings();
        let warnings_text = || match actual.as_slice() {
            [] => "no warning".to_owned(),
            all => all
                .iter()
                .map(|warning| warning.as_str())
                .collect::<Vec<_>>()
                .join("; "),
        };
        if expected.is_empty() && !actual.is_empty() {
            return vec![UnmetExpectation::from_difference(
                self.key_location("warnings"),
                "warnings",
                "no warning",
                warnings_text(),
            )];
        }
        let missing = expected
            .iter()
            .enumerate()
            .filter(|(_, part)| !actual.iter().any(|warning| warning.contains(part.as_str())));
        missing
            .map(|(position, part)| {
                let place = expect_route(self.at, "warnings")
                    .with_index(position)
                    .into_value_location();
                UnmetExpectation::from_difference(place, "warnings", part.as_str(), warnings_text())
            })
            .collect()
    }

    fn check_most_turns(&self) -> Option<UnmetExpectation> {
        let max_turns = self.expect.most_turns?;
        let actual = self.state().finished_turn_count();
        (actual > max_turns).then(|| {
            UnmetExpectation::from_difference(
                self.key_location("most_turns"),
                "turns",
                format!("at most {max_turns}"),
                actual.to_string(),
            )
        })
    }

    fn check_most_cost(&self) -> Option<UnmetExpectation> {
        let max_cost = self.expect.most_cost?;
        let actual = self.state().usage_with_open_turn().cost.unwrap_or_default();
        (actual > max_cost).then(|| {
            UnmetExpectation::from_difference(
                self.key_location("most_cost"),
                "cost",
                format!("at most {max_cost}"),
                actual.to_string(),
            )
        })
    }
}

/// Returns the agents that start in each turn.
pub fn list_agents_by_turn(records: &[Record]) -> Vec<Vec<Arc<str>>> {
    let starts = records.iter().filter_map(|record| match &record.event {
        Event::TurnStarted(turn) => Some(&turn.starts),
        _ => None,
    });
    starts
        .map(|starts| starts.iter().map(|start| start.agent.clone()).collect())
        .collect()
}

/// Returns whether both lists contain the same agents, in any order.
pub(crate) fn have_same_agents(one: &[Arc<str>], other: &[Arc<str>]) -> bool {
    let sorted = |turn: &[Arc<str>]| {
        let mut turn = turn.to_vec();
        turn.sort();
        turn
    };
    sorted(one) == sorted(other)
}

/// Formats the agents of turns, such as `a, b + c, a`.
fn format_turns(turns: &[Vec<Arc<str>>]) -> String {
    match turns {
        [] => "no turn".to_owned(),
        turns => turns
            .iter()
            .map(|agents| agents.join(" + "))
            .collect::<Vec<_>>()
            .join(", "),
    }
}

fn format_times(count: u32) -> String {
    match count {
        1 => "once".to_owned(),
        count => format!("{count} times"),
    }
}

/// Describes that a key is missing, and lists the keys of the map.
fn describe_missing_key(map: &Map<String, Value>) -> String {
    const MOST: usize = 12;
    if map.is_empty() {
        return "there is no such key; there are no keys".to_owned();
    }
    let keys: Vec<String> = map.keys().take(MOST).map(|key| format!("`{key}`")).collect();
    let more_text = match map.len().saturating_sub(MOST) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("there is no such key; the keys are {}{more_text}", keys.join(", "))
}

/// Returns whether two values are equal. Numbers are equal if their floating-point values are equal.
pub(crate) fn are_equal_values(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let is_same =
                |(key, value): (&String, &Value)| other.get(key).is_some_and(|other| are_equal_values(value, other));
            one.len() == other.len() && one.iter().all(is_same)
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| are_equal_values(one, other))
        }
        (Value::Number(one), Value::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        (one, other) => one == other,
    }
}

/// Returns the first expected value that `actual` does not have: its path, the expected text and the actual text.
fn find_first_difference(expected: &Value, actual: &Value, place: String) -> Option<(String, String, String)> {
    match (expected, actual) {
        (Value::Object(expected), Value::Object(actual)) => expected.iter().find_map(|(key, value)| {
            let inside = format!("{place}.{key}");
            match actual.get(key) {
                Some(actual) => find_first_difference(value, actual, inside),
                None => Some((inside, value.to_string(), describe_missing_key(actual))),
            }
        }),
        (Value::Array(expected), Value::Array(actual)) if expected.len() == actual.len() => {
            let pairs = expected.iter().zip(actual).enumerate();
            pairs
                .map(|(at, (expected, actual))| find_first_difference(expected, actual, format!("{place}[{at}]")))
                .find_map(|lack| lack)
        }
        (Value::Number(one), Value::Number(other)) if one.as_f64() == other.as_f64() => None,
        (expected, actual) if expected == actual => None,
        (expected, actual) => Some((place, expected.to_string(), actual.to_string())),
    }
}
