//! Compares what happened with what is expected. Pure: a function of records, the last state and the expectations.
//!
//! Invariant: it is pure, and looks at nothing else once a stub is missing.

use std::sync::Arc;

use ensemble_core::conversation::{ConversationState, Event, Record};
use ensemble_history::response_or_output;
use ensemble_language::cases::{Expect, case_route, expect_route};
use ensemble_language::condition::Condition;
use ensemble_language::data::JsonMap;
use ensemble_language::source::At;
use ensemble_schema::JsonSchema;
use serde_json::Value;

use crate::check::not_run_place;
use crate::stubs::{Missing, MissingPart};

/// A conversation that has ended.
#[derive(Debug)]
pub struct Conversation {
    /// Its records.
    pub records: Vec<Record>,
    /// The fold of its records.
    pub state: ConversationState,
    /// The executions for which nothing was prepared.
    pub missing: Vec<Missing>,
}

/// An expectation that is not met.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// The expectation, in the test file.
    pub at: At,
    /// What it is about.
    pub what: String,
    /// What is expected.
    pub expected: Option<String>,
    /// What happened.
    pub actual: Option<String>,
    /// What to do.
    pub help: Option<String>,
}

impl Failure {
    /// Without more to say than this.
    pub fn new(at: At, what: impl Into<String>) -> Self {
        Self {
            at,
            what: what.into(),
            expected: None,
            actual: None,
            help: None,
        }
    }

    fn differs(at: At, what: impl Into<String>, expected: impl Into<String>, actual: impl Into<String>) -> Self {
        Self {
            expected: Some(expected.into()),
            actual: Some(actual.into()),
            ..Self::new(at, what)
        }
    }

    fn help(self, help: impl Into<String>) -> Self {
        Self {
            help: Some(help.into()),
            ..self
        }
    }
}

/// The expectations of the case `at` that are not met, in the order of the keys of the documentation. If something was not
/// prepared, everything else follows from that, and is not examined.
pub fn judge(at: usize, expect: &Expect, conversation: &Conversation) -> Vec<Failure> {
    if !conversation.missing.is_empty() {
        return conversation
            .missing
            .iter()
            .map(|missing| not_prepared(at, missing))
            .collect();
    }
    let judge = Judge {
        at,
        expect,
        conversation,
    };
    let mut failures = Vec::new();
    failures.extend(judge.outcome());
    failures.extend(judge.turns());
    failures.extend(judge.order());
    failures.extend(judge.executions());
    failures.extend(judge.never());
    failures.extend(judge.outputs());
    failures.extend(judge.schemas());
    failures.extend(judge.result());
    failures.extend(judge.conditions());
    failures.extend(judge.not_run());
    failures.extend(judge.warnings());
    failures.extend(judge.most_turns());
    failures.extend(judge.most_cost());
    failures
}

fn not_prepared(at: usize, missing: &Missing) -> Failure {
    let Missing { agent, execution, what } = missing;
    let place = case_route(at).key("stubs").key(agent.clone()).as_key();
    match what {
        MissingPart::Stub(needs) => Failure::new(
            place,
            format!("{agent} has no stub for its execution {execution}, and needs {needs}"),
        )
        .help(format!(
            "add `stubs: {{{agent}: TEXT}}` to the case, or `live: true` to use what it needs"
        )),
        MissingPart::Execution(count) => Failure::new(
            place,
            format!("{agent} has no stub for its execution {execution}: the list has {count}"),
        )
        .help("add one to the list; a stub that is no list is for every execution"),
        MissingPart::Part(key) => Failure::new(
            place,
            format!("{agent} has no stub for its part `{key}` in its execution {execution}"),
        )
        .help(format!("add `{key}` to its `parts`")),
        MissingPart::Record => Failure::new(
            case_route(at).key("from").value(),
            format!("the recorded run has no execution {execution} of {agent}"),
        )
        .help(format!(
            "add `stubs: {{{agent}: TEXT}}` to the case, or record the run again"
        )),
    }
}

pub(crate) struct Judge<'c> {
    pub(crate) at: usize,
    pub(crate) expect: &'c Expect,
    pub(crate) conversation: &'c Conversation,
}

impl Judge<'_> {
    fn place(&self, key: &str) -> At {
        expect_route(self.at, key).value()
    }

    fn entry(&self, key: &str, name: &Arc<str>) -> At {
        expect_route(self.at, key).key(name.clone()).value()
    }

    pub(crate) fn state(&self) -> &ConversationState {
        &self.conversation.state
    }

    fn outcome(&self) -> Option<Failure> {
        let expected = self.expect.outcome?;
        let (actual, detail) = match self.state().ended() {
            Some(ended) => (ended.completion_reason.as_str(), ended.detail.as_deref()),
            None => ("none", None),
        };
        let told = detail.map_or_else(|| actual.to_owned(), |detail| format!("{actual} ({detail})"));
        (expected != actual).then(|| Failure::differs(self.place("outcome"), "outcome", expected, told))
    }

    fn turns(&self) -> Option<Failure> {
        let expected = self.expect.turns.as_ref()?;
        let actual = turns(&self.conversation.records);
        let alike = expected
            .iter()
            .zip(&actual)
            .take_while(|(one, other)| is_same_turn(one, other))
            .count();
        if alike == expected.len() && alike == actual.len() {
            return None;
        }
        let place = match alike < expected.len() {
            true => expect_route(self.at, "turns").index(alike).value(),
            false => self.place("turns"),
        };
        let what = format!("turns, from turn {} on", alike + 1);
        Some(Failure::differs(place, what, told_turns(expected), told_turns(&actual)))
    }

    fn order(&self) -> Option<Failure> {
        let actual = turns(&self.conversation.records);
        let mut turn = 0;
        for (position, name) in self.expect.order.iter().enumerate() {
            let Some(found) = actual.iter().skip(turn).position(|agents| agents.contains(name)) else {
                let place = expect_route(self.at, "order").index(position).value();
                let after = match position {
                    0 => format!("{name} runs"),
                    _ => format!("{name} runs after {}", self.expect.order[position - 1]),
                };
                return Some(Failure::differs(place, "order", after, told_turns(&actual)));
            };
            turn += found + 1;
        }
        None
    }

    pub(crate) fn count(&self, name: &str) -> u32 {
        let state = self.state();
        state.plan().id(name).map_or(0, |id| state.execution_count(id))
    }

    fn executions(&self) -> Vec<Failure> {
        let counts = self.expect.executions.iter();
        let wrong = counts.filter(|(name, count)| self.count(name) != *count);
        wrong
            .map(|(name, count)| {
                let place = self.entry("executions", name);
                let actual = self.count(name).to_string();
                Failure::differs(place, format!("executions of {name}"), count.to_string(), actual)
            })
            .collect()
    }

    fn never(&self) -> Vec<Failure> {
        let names = self.expect.never.iter().enumerate();
        names
            .filter(|(_, name)| self.count(name) > 0)
            .map(|(position, name)| {
                let place = expect_route(self.at, "never").index(position).value();
                let turns = turns(&self.conversation.records);
                let first = turns
                    .iter()
                    .position(|agents| agents.contains(name))
                    .map_or(0, |at| at + 1);
                let actual = format!("it runs in turn {first}");
                Failure::differs(place, format!("{name} never runs"), "no execution", actual)
            })
            .collect()
    }

    pub(crate) fn output(&self, name: &str) -> Result<&Value, String> {
        let state = self.state();
        let Some(id) = state.plan().id(name) else {
            return Err("there is no such agent".to_owned());
        };
        match (state.agent(id).output(), state.agent(id).latest_error()) {
            (Some(output), _) => Ok(output),
            (None, Some(error)) => Err(format!("no output: it failed with `{error}`")),
            (None, None) => Err("no output: it did not run".to_owned()),
        }
    }

    fn outputs(&self) -> Vec<Failure> {
        let expected = self.expect.outputs.iter();
        expected
            .filter_map(|(name, expected)| {
                let place = self.entry("outputs", name);
                match self.output(name) {
                    Err(why) => Some(Failure::differs(
                        place,
                        format!("output of {name}"),
                        expected.to_string(),
                        why,
                    )),
                    Ok(output) => {
                        // A text stands for an output that is nothing but this text.
                        let whole = if expected.is_string() {
                            response_or_output(output)
                        } else {
                            output
                        };
                        lacks(expected, whole, format!("output of {name}"))
                            .map(|(what, expected, actual)| Failure::differs(place, what, expected, actual))
                    }
                }
            })
            .collect()
    }

    fn schemas(&self) -> Vec<Failure> {
        let mut failures = Vec::new();
        for (name, schema) in &self.expect.schemas {
            let place = || self.entry("schemas", name);
            let what = format!("output of {name}");
            let output = match self.output(name) {
                Ok(output) => output,
                Err(why) => {
                    failures.push(Failure::differs(
                        place(),
                        what,
                        "an output that matches the schema",
                        why,
                    ));
                    continue;
                }
            };
            // The loader has refused schemas that do not compile.
            let Ok(compiled) = JsonSchema::compile(schema) else {
                continue;
            };
            for error in compiled.errors(output) {
                let what = format!("{what}{}", error.path.replace('/', "."));
                failures.push(Failure::differs(
                    place(),
                    what,
                    "what the schema describes",
                    error.message,
                ));
            }
        }
        failures
    }

    /// Returns the result of the run.
    pub(crate) fn actual_result(&self) -> Arc<Value> {
        let state = self.state();
        match state.run_value() {
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

    fn result(&self) -> Option<Failure> {
        let expected = self.expect.result.as_ref()?;
        let actual = self.actual_result();
        let (what, expected, actual) = lacks(expected, &actual, "result".to_owned())?;
        Some(Failure::differs(self.place("result"), what, expected, actual))
    }

    fn conditions(&self) -> Vec<Failure> {
        let mut failures = Vec::new();
        let facts = self.state().facts_without_output();
        for (position, text) in self.expect.conditions.iter().enumerate() {
            let place = expect_route(self.at, "conditions").index(position).value();
            // The loader has refused conditions that do not compile.
            let Ok(condition) = Condition::compile(text) else {
                continue;
            };
            let actual = match condition.evaluate(&facts) {
                Ok(true) => continue,
                Ok(false) => {
                    let reads = condition.reads(&facts);
                    let reads = reads.iter().map(|read| format!("{} = {}", read.expression, read.value));
                    match reads.collect::<Vec<_>>().join(", ") {
                        reads if reads.is_empty() => "it is false".to_owned(),
                        reads => format!("it is false: {reads}"),
                    }
                }
                Err(error) => format!("it has no answer: {}", error.message),
            };
            failures.push(Failure::differs(place, "condition", text.trim(), actual));
        }
        failures
    }

    fn not_run(&self) -> Vec<Failure> {
        let not_run = self.state().ended().map_or(&[][..], |ended| &ended.not_run);
        let mut failures = Vec::new();
        for (name, part) in &self.expect.not_run {
            let reason = not_run.iter().find(|one| one.agent == *name).map(|one| &one.reason);
            let actual = match reason {
                Some(reason) if reason.contains(part.as_str()) => continue,
                Some(reason) => reason.clone(),
                None => format!("it runs {}", times(self.count(name))),
            };
            let expected = if part.is_empty() { "no execution" } else { part };
            let place = not_run_place(self.at, name);
            failures.push(Failure::differs(
                place,
                format!("{name} does not run"),
                expected,
                actual,
            ));
        }
        failures
    }

    /// The warnings of the run and of its end.
    pub(crate) fn actual_warnings(&self) -> Vec<&String> {
        let of_result = self.state().ended().map_or(&[][..], |ended| &ended.warnings);
        self.state().warnings().iter().chain(of_result).collect()
    }

    fn warnings(&self) -> Vec<Failure> {
        let Some(expected) = &self.expect.warnings else {
            return Vec::new();
        };
        let actual = self.actual_warnings();
        let told = || match actual.as_slice() {
            [] => "no warning".to_owned(),
            all => all
                .iter()
                .map(|warning| warning.as_str())
                .collect::<Vec<_>>()
                .join("; "),
        };
        if expected.is_empty() && !actual.is_empty() {
            return vec![Failure::differs(
                self.place("warnings"),
                "warnings",
                "no warning",
                told(),
            )];
        }
        let missing = expected
            .iter()
            .enumerate()
            .filter(|(_, part)| !actual.iter().any(|warning| warning.contains(part.as_str())));
        missing
            .map(|(position, part)| {
                let place = expect_route(self.at, "warnings").index(position).value();
                Failure::differs(place, "warnings", part.as_str(), told())
            })
            .collect()
    }

    fn most_turns(&self) -> Option<Failure> {
        let most = self.expect.most_turns?;
        let actual = self.state().finished_turns();
        (actual > most).then(|| {
            Failure::differs(
                self.place("most_turns"),
                "turns",
                format!("at most {most}"),
                actual.to_string(),
            )
        })
    }

    fn most_cost(&self) -> Option<Failure> {
        let most = self.expect.most_cost?;
        let actual = self.state().usage_until_now().cost.unwrap_or_default();
        (actual > most).then(|| {
            Failure::differs(
                self.place("most_cost"),
                "cost",
                format!("at most {most}"),
                actual.to_string(),
            )
        })
    }
}

/// The agents of each turn.
pub fn turns(records: &[Record]) -> Vec<Vec<Arc<str>>> {
    let starts = records.iter().filter_map(|record| match &record.event {
        Event::TurnStarted(turn) => Some(&turn.starts),
        _ => None,
    });
    starts
        .map(|starts| starts.iter().map(|start| start.agent.clone()).collect())
        .collect()
}

/// Returns whether these are the same agents, in any order.
pub(crate) fn is_same_turn(one: &[Arc<str>], other: &[Arc<str>]) -> bool {
    let sorted = |turn: &[Arc<str>]| {
        let mut turn = turn.to_vec();
        turn.sort();
        turn
    };
    sorted(one) == sorted(other)
}

/// `a, b + c, a`: the agents of one turn stand together.
fn told_turns(turns: &[Vec<Arc<str>>]) -> String {
    match turns {
        [] => "no turn".to_owned(),
        turns => turns
            .iter()
            .map(|agents| agents.join(" + "))
            .collect::<Vec<_>>()
            .join(", "),
    }
}

fn times(count: u32) -> String {
    match count {
        1 => "once".to_owned(),
        count => format!("{count} times"),
    }
}

/// The first value that `actual` lacks: its place, what is expected there, and what is there.
fn lacks(expected: &Value, actual: &Value, place: String) -> Option<(String, String, String)> {
    match (expected, actual) {
        (Value::Object(expected), Value::Object(actual)) => expected.iter().find_map(|(key, value)| {
            let inside = format!("{place}.{key}");
            match actual.get(key) {
                Some(actual) => lacks(value, actual, inside),
                None => Some((inside, value.to_string(), "there is no such key".to_owned())),
            }
        }),
        (Value::Array(expected), Value::Array(actual)) if expected.len() == actual.len() => {
            let pairs = expected.iter().zip(actual).enumerate();
            pairs
                .map(|(at, (expected, actual))| lacks(expected, actual, format!("{place}[{at}]")))
                .find_map(|lack| lack)
        }
        (Value::Number(one), Value::Number(other)) if one.as_f64() == other.as_f64() => None,
        (expected, actual) if expected == actual => None,
        (expected, actual) => Some((place, expected.to_string(), actual.to_string())),
    }
}
