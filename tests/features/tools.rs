//! What tools were called, as the journal has it.

use cucumber::gherkin::Step;
use cucumber::then;
use serde_json::Value;

use super::world::{World, json as parse};
use crate::support::exchange::tool_calls;
use crate::support::records;

/// The tool calls of the agent's execution, iteration by iteration.
fn calls(world: &World, execution: u64, agent: &str) -> Vec<Vec<Value>> {
    let runs = world.workspace.runs();
    let journal = records(&runs.last().expect("a run").join("journal.jsonl"));
    let calls = tool_calls(&journal, agent, execution);
    assert!(
        !calls.is_empty(),
        "{agent} has no execution {execution}\n{}",
        world.told()
    );
    calls
}

/// Columns: iteration, name, arguments, what it ended with (`result` or `error`), and what that is or says.
#[then(regex = r#"^execution (\d+) of "([^"]+)" called these tools:$"#)]
fn called(world: &mut World, execution: u64, agent: String, step: &Step) {
    let mut all = Vec::new();
    for (at, calls) in calls(world, execution, &agent).into_iter().enumerate() {
        all.extend(calls.into_iter().map(|call| (at + 1, call)));
    }
    let table = step.table.as_ref().expect("the step has a table");
    let rows: Vec<&Vec<String>> = table.rows.iter().skip(1).collect();
    assert_eq!(all.len(), rows.len(), "{all:#?}");
    for (row, (iteration, call)) in rows.into_iter().zip(all) {
        assert_eq!(row[0], iteration.to_string(), "{row:?} {call}");
        assert_eq!(call["name"], row[1].as_str(), "{row:?} {call}");
        assert_eq!(call["arguments"], parse(&row[2]), "{row:?} {call}");
        assert!(call["id"].is_string() && call["duration"].is_f64(), "{call}");
        let end = call.get(&row[3]).unwrap_or_else(|| panic!("{row:?} {call}"));
        match row[3].as_str() {
            "result" => assert_eq!(*end, parse(&row[4]), "{row:?}"),
            _ => assert!(
                end.as_str().is_some_and(|error| error.contains(&row[4])),
                "{row:?} {call}"
            ),
        }
    }
}

/// How long the n-th call of an iteration took.
#[then(regex = r#"^tool call (\d+) of execution (\d+) of "([^"]+)" took less than (\d+) seconds$"#)]
fn took(world: &mut World, call: usize, execution: u64, agent: String, seconds: f64) {
    let all: Vec<Value> = calls(world, execution, &agent).into_iter().flatten().collect();
    let duration = all[call - 1]["duration"].as_f64().expect("a number");
    assert!(duration < seconds, "{duration}");
}
