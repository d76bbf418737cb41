//! Conditions on one set of facts: what they mean, what is refused, what they read, and that nothing hurts them.

mod comprehensions;
mod meaning;
mod properties;
mod reading;
mod refusals;
mod safe_fixes;
mod typing;

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use super::*;

struct Turns {
    entries: Vec<Value>,
    asked: AtomicUsize,
}

impl ConditionHistory for Turns {
    fn len(&self) -> usize {
        self.entries.len()
    }
    fn field_value(&self, at: usize, name: &str) -> Option<Arc<Value>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.field_names()
            .contains(&name)
            .then(|| Arc::new(self.entries[at].get(name).cloned().unwrap_or_default()))
    }
    fn field_names(&self) -> &'static [&'static str] {
        &["turn_number", "agent_name", "output_data", "success", "error"]
    }
}

struct Latest(Vec<(&'static str, Value)>);

impl ConditionOutputs for Latest {
    fn latest_output(&self, agent: &str) -> Option<Arc<Value>> {
        let found = self.0.iter().find(|(name, _)| *name == agent);
        found.map(|(_, output)| Arc::new(output.clone()))
    }
    fn agents_with_output(&self) -> Vec<Arc<str>> {
        self.0.iter().map(|(name, _)| (*name).into()).collect()
    }
}

struct Agents(Vec<(&'static str, u64)>);

impl ExecutionCounts for Agents {
    fn execution_count(&self, agent: &str) -> Option<u64> {
        self.0.iter().find(|(name, _)| *name == agent).map(|(_, count)| *count)
    }
    fn agent_names(&self) -> Vec<Arc<str>> {
        self.0.iter().map(|(name, _)| (*name).into()).collect()
    }
}

fn turns(entries: Vec<Value>) -> Arc<Turns> {
    Arc::new(Turns {
        entries,
        asked: AtomicUsize::new(0),
    })
}

fn facts() -> ConditionSnapshot {
    let context = json!({
        "needs_clarification": true, "score": 0.75, "count": 3, "name": "Ada", "none": null, "zero": 0, "empty": "",
        "tags": ["a", "b"], "nested": {"deep": {"x": 1, "list": [1, 2.0, {"k": "v"}]}}, "no_items": [], "no_keys": {},
        "big": 18_446_744_073_709_551_615_u64, "yes": true, "len": 7, "ünï": "é→z", "long": "x".repeat(500), "keys": 5,
        "ints": [3, 1, 2], "half": 2.5, "said_no": " No\n", "said_off": "OFF", "said_yes": "yes", "max": i64::MAX, "mixed": [1, "a"],
    });
    let context = context.as_object().unwrap().iter();
    ConditionSnapshot {
        context: Arc::new(
            context
                .map(|(key, value)| (key.as_str().into(), Arc::new(value.clone())))
                .collect(),
        ),
        output: Some(Arc::new(
            json!({"score": 8, "text": "all good", "items": [1, 2], "error": null}),
        )),
        turn_count: 2,
        history: turns(vec![
            json!({"turn_number": 1, "agent_name": "writer", "output_data": {"draft": "one"}, "success": true}),
            json!({"turn_number": 2, "agent_name": "reviewer", "output_data": {"score": 8}, "success": false}),
        ]),
        executions: Arc::new(Agents(vec![
            ("writer", 1),
            ("reviewer", 1),
            ("idle", 0),
            ("my-agent", 4),
        ])),
        input: "please write".into(),
        inputs: Arc::new(
            [
                ("topic".into(), Arc::new(json!("sea"))),
                ("depth".into(), Arc::new(json!(3))),
            ]
            .into_iter()
            .collect(),
        ),
        outputs: Arc::new(Latest(vec![
            ("writer", json!({"draft": "one"})),
            ("my-agent", json!({"n": [1, 2]})),
        ])),
        part: None,
    }
}

fn answer(text: &str, facts: &ConditionSnapshot) -> String {
    match Condition::compile(text) {
        Err(error) => format!("compile: {} [{}]", error.message, error.help.unwrap_or_default()),
        Ok(condition) => match condition.evaluate(facts) {
            Ok(answer) => answer.to_string(),
            Err(error) => format!("error: {}", error.message),
        },
    }
}

#[track_caller]
fn check(rows: &[(&str, &str)]) {
    let facts = facts();
    rows.iter().for_each(|(text, _)| typing::fits(text));
    let wrong: Vec<String> = rows
        .iter()
        .map(|(text, expected)| (text, expected, answer(text, &facts)))
        .filter(|(_, expected, answer)| match **expected {
            "true" | "false" => answer != *expected,
            part => !answer.contains(part) || answer == "true" || answer == "false",
        })
        .map(|(text, expected, answer)| format!("{text}\n    expected {expected}\n    got      {answer}"))
        .collect();
    assert!(wrong.is_empty(), "{} rows:\n{}", wrong.len(), wrong.join("\n"));
}

const T: &str = "true";
const F: &str = "false";
