//! What the program did.

use cucumber::gherkin::Step;
use cucumber::then;
use serde_json::{Value, json};

use super::given::text;
use super::world::{World, at, json as parse};
use crate::support::records;

/// The rows of the table under a step, without its heading.
fn rows(step: &Step) -> Vec<Vec<String>> {
    let table = step.table.as_ref().expect("the step has a table");
    table.rows.iter().skip(1).cloned().collect()
}

#[then(regex = r"^the exit code is (\d+)$")]
fn exit_code(world: &mut World, code: i32) {
    assert_eq!(world.outcome().code, code, "{}", world.told());
}

#[then(regex = r#"^it ends as "([a-z_]+)" with exit code (\d+)$"#)]
fn ends_as(world: &mut World, reason: String, code: i32) {
    assert_eq!(world.outcome().code, code, "{}", world.told());
    assert_eq!(world.result()["completion_reason"], json!(reason), "{}", world.told());
}

#[then(regex = r"^the agents ran in this order:$")]
fn order(world: &mut World, step: &Step) {
    let expected: Vec<String> = rows(step)
        .into_iter()
        .flat_map(|row| {
            let turn = row[0].clone();
            let agents: Vec<String> = row[1].split(", ").map(|agent| format!("{turn} {agent}")).collect();
            agents
        })
        .collect();
    assert_eq!(world.outcome().sequence(), expected, "{}", world.told());
}

#[then(regex = r"^nobody ran$")]
fn nobody(world: &mut World) {
    assert_eq!(world.outcome().sequence(), Vec::<String>::new(), "{}", world.told());
}

#[then(regex = r"^the conversation took (\d+) turns?$")]
fn took_turns(world: &mut World, turns: u64) {
    assert_eq!(world.result()["turn_count"], json!(turns), "{}", world.told());
}

#[then(regex = r"^the execution counts are:$")]
fn counts(world: &mut World, step: &Step) {
    let expected: serde_json::Map<String, Value> = rows(step)
        .into_iter()
        .map(|row| (row[0].clone(), parse(&row[1])))
        .collect();
    assert_eq!(
        world.result()["agent_execution_count"],
        Value::Object(expected),
        "{}",
        world.told()
    );
}

#[then(regex = r#"^the (?:result|diagnostics) (?:has|have) "([^"]+)" = (.+)$"#)]
fn result_has(world: &mut World, path: String, value: String) {
    assert_eq!(at(&world.result(), &path), Some(&parse(&value)), "{}", world.told());
}

#[then(regex = r#"^the final state has "([^"]+)" = (.+)$"#)]
fn final_state_has(world: &mut World, path: String, value: String) {
    let result = world.result();
    assert_eq!(
        at(&result["final_state"], &path),
        Some(&parse(&value)),
        "{}",
        world.told()
    );
}

#[then(regex = r#"^the final state has no "([^"]+)"$"#)]
fn final_state_lacks(world: &mut World, path: String) {
    let result = world.result();
    assert!(result["final_state"].is_object(), "{}", world.told());
    assert_eq!(at(&result["final_state"], &path), None, "{}", world.told());
}

#[then(regex = r#"^execution (\d+) of "([^"]+)" gave "([^"]+)" = (.+)$"#)]
fn output_has(world: &mut World, n: usize, agent: String, path: String, value: String) {
    let entry = world.entry(&agent, n);
    assert_eq!(
        at(&entry["output_data"], &path),
        Some(&parse(&value)),
        "{}",
        world.told()
    );
    assert_eq!(entry["success"], json!(true), "{}", world.told());
}

#[then(regex = r#"^execution (\d+) of "([^"]+)" has "([^"]+)" = (.+)$"#)]
fn entry_has(world: &mut World, n: usize, agent: String, path: String, value: String) {
    let entry = world.entry(&agent, n);
    assert_eq!(at(&entry, &path), Some(&parse(&value)), "{}", world.told());
}

#[then(regex = r#"^execution (\d+) of "([^"]+)" failed \(([a-z_]+)\) saying "(.+)"$"#)]
fn failed(world: &mut World, n: usize, agent: String, kind: String, saying: String) {
    let entry = world.entry(&agent, n);
    assert_eq!(entry["success"], json!(false), "{entry}");
    assert_eq!(entry["output_data"]["kind"], json!(kind), "{entry}");
    let error = entry["error"].as_str().unwrap_or_default();
    assert!(error.contains(&saying), "{entry}");
}

#[then(regex = r#"^"([^"]+)" never ran: (.+)$"#)]
fn never_ran(world: &mut World, agent: String, reason: String) {
    let result = world.result();
    let not_run = result["not_run"].as_array().expect("a list").iter();
    let own: Vec<&Value> = not_run.filter(|entry| entry["agent"] == agent).collect();
    assert_eq!(own.len(), 1, "{}", world.told());
    assert_eq!(own[0]["reason"], json!(reason), "{}", world.told());
}

#[then(regex = r"^everybody ran$")]
fn everybody(world: &mut World) {
    assert_eq!(world.result()["not_run"], json!([]), "{}", world.told());
}

#[then(regex = r#"^a warning says "(.+)"$"#)]
fn warning(world: &mut World, saying: String) {
    let result = world.result();
    let warnings = result["warnings"].as_array().expect("a list");
    let says = |warning: &Value| warning.as_str().is_some_and(|text| text.contains(&saying));
    assert!(warnings.iter().any(says), "{}", world.told());
}

#[then(regex = r"^there are no warnings$")]
fn no_warnings(world: &mut World) {
    assert_eq!(world.result()["warnings"], json!([]), "{}", world.told());
}

#[then(regex = r#"^(stdout|stderr) (says|does not say) "(.+)"$"#)]
fn says(world: &mut World, stream: String, verb: String, saying: String) {
    let outcome = world.outcome();
    let said = if stream == "stdout" {
        &outcome.stdout
    } else {
        &outcome.stderr
    };
    assert_eq!(said.contains(&saying), verb == "says", "{saying}\n{}", world.told());
}

#[then(regex = r"^(stdout|stderr) is empty$")]
fn empty(world: &mut World, stream: String) {
    let outcome = world.outcome();
    let said = if stream == "stdout" {
        &outcome.stdout
    } else {
        &outcome.stderr
    };
    assert_eq!(said, "", "{}", world.told());
}

#[then(regex = r"^(stdout|stderr) is:$")]
fn is_exactly(world: &mut World, stream: String, step: &Step) {
    let outcome = world.outcome();
    let said = if stream == "stdout" {
        &outcome.stdout
    } else {
        &outcome.stderr
    };
    assert_eq!(*said, text(step), "{}", world.told());
}

#[then(regex = r"^no run was started$")]
fn no_run(world: &mut World) {
    assert!(world.workspace.runs().is_empty(), "{}", world.told());
}

#[then(regex = r#"^the file "([^"]+)" holds:$"#)]
fn file_holds(world: &mut World, name: String, step: &Step) {
    assert_eq!(world.workspace.read(&name), text(step), "{}", world.told());
}

#[then(regex = r#"^the file "([^"]+)" is there$"#)]
fn file_is_there(world: &mut World, name: String) {
    assert!(world.workspace.path().join(&name).exists(), "{}", world.told());
}

#[then(regex = r#"^there is no file "([^"]+)"$"#)]
fn no_file(world: &mut World, name: String) {
    assert!(!world.workspace.path().join(&name).exists(), "{}", world.told());
}

#[then(regex = r"^it took less than (\d+) seconds$")]
fn quick(world: &mut World, seconds: u64) {
    assert!(world.took.as_secs() < seconds, "{:?}\n{}", world.took, world.told());
}

/// Columns: severity, code, line, column, what the message says.
#[then(regex = r"^the findings are:$")]
fn findings(world: &mut World, step: &Step) {
    let result = world.result();
    let found = result["diagnostics"].as_array().expect("a list");
    let rows = rows(step);
    assert_eq!(found.len(), rows.len(), "{}", world.told());
    for (row, finding) in rows.iter().zip(found) {
        assert_eq!(finding["severity"], json!(row[0]), "{}", world.told());
        let place = format!("{}:{}", finding["line"], finding["column"]);
        assert_eq!(place, row[1], "{}", world.told());
        let message = finding["message"].as_str().expect("a text");
        assert!(message.contains(&row[2]), "{row:?}\n{}", world.told());
    }
}

#[then(regex = r"^there are no findings$")]
fn no_findings(world: &mut World) {
    assert_eq!(world.result()["diagnostics"], json!([]), "{}", world.told());
}

/// The latest run's reason, as reports word it.
#[then(regex = r#"^the journal says that "([^"]+)" did not run in turn (\d+): (.+)$"#)]
fn journal_says(world: &mut World, agent: String, turn: u64, reason: String) {
    let runs = world.workspace.runs();
    let journal = records(&runs.last().expect("a run").join("journal.jsonl"));
    let turns = journal.iter().filter(|record| record["event"] == "turn_started");
    let started = turns
        .map(|record| &record["data"])
        .find(|data| data["turn"] == json!(turn));
    let waiting = started.expect("the turn started")["waiting"].as_array().cloned();
    let waiting = waiting.unwrap_or_default();
    let own = waiting.iter().find(|waiting| waiting["agent"] == agent);
    let own = own.unwrap_or_else(|| panic!("{agent} was not looked at: {waiting:?}"));
    let mut expected = parse(&reason);
    expected["agent"] = json!(agent);
    assert_eq!(*own, expected, "{waiting:?}");
}

#[then(regex = r#"^execution (\d+) of "([^"]+)" quotes the output of "([^"]+)" unchanged$"#)]
fn quotes(world: &mut World, n: usize, agent: String, other: String) {
    let said = world.entry(&agent, n)["output_data"]["response"].clone();
    let said = said.as_str().expect("a text");
    let output = world.entry(&other, 1)["output_data"].clone();
    let quoted = said.find('{').map(|start| &said[start..]).unwrap_or_default();
    let mut values = serde_json::Deserializer::from_str(quoted).into_iter::<Value>();
    assert_eq!(values.next().and_then(Result::ok), Some(output), "{said}");
}

#[then(regex = r"^the history's entries are complete$")]
fn complete(world: &mut World) {
    let result = world.result();
    for entry in result["conversation_history"].as_array().expect("a history") {
        for (key, is_right) in [
            ("turn_number", entry["turn_number"].is_u64()),
            ("agent_name", entry["agent_name"].is_string()),
            ("input_data", entry["input_data"].is_object()),
            ("output_data", entry["output_data"].is_object()),
            ("execution_time", entry["execution_time"].is_f64()),
            ("timestamp", entry["timestamp"].is_string()),
            ("success", entry["success"].is_boolean()),
            ("error", entry.get("error").is_some()),
            ("attempt", entry["attempt"].is_u64()),
            ("usage", entry.get("usage").is_some()),
        ] {
            assert!(is_right, "{key}: {entry}");
        }
    }
}

#[then(regex = r"^the executions started in this order: (.+)$")]
fn started(world: &mut World, agents: String) {
    let runs = world.workspace.runs();
    let journal = records(&runs.last().expect("a run").join("journal.jsonl"));
    let started = journal.iter().filter(|record| record["event"] == "execution_started");
    let order: Vec<&str> = started.filter_map(|record| record["data"]["agent"].as_str()).collect();
    assert_eq!(order.join(", "), agents);
}

#[then(regex = r"^there is one run$")]
fn one_run(world: &mut World) {
    assert_eq!(world.workspace.runs().len(), 1);
}

/// Columns: place, what the message says. Others may stand beside them.
#[then(regex = r"^the findings include:$")]
fn findings_include(world: &mut World, step: &Step) {
    let result = world.result();
    let found = result["diagnostics"].as_array().expect("a list");
    let matches = |row: &[String], finding: &Value| {
        let place = format!("{}:{}", finding["line"], finding["column"]);
        place == row[0]
            && finding["message"]
                .as_str()
                .is_some_and(|message| message.contains(&row[1]))
    };
    for row in rows(step) {
        assert!(
            found.iter().any(|finding| matches(&row, finding)),
            "{row:?}\n{}",
            world.told()
        );
    }
    let lines: Vec<_> = found.iter().map(|finding| finding["line"].as_u64()).collect();
    assert!(lines.is_sorted(), "{lines:?}");
}
