//! The facts that the page shows, over a real socket: failures, results, activity, batches, and errors of the form.

use crate::support::page::Page;
use crate::support::{Workspace, eventually};
use serde_json::{Value, json};

const BAD: &str = "\
name: bad
agents:
  - {name: fetch, script: fetch.rhai}
  - {name: parse, script: parse.rhai, depends_on: [fetch], retry: {max_attempts: 2, delay_seconds: 0}}
";
const SHAPED: &str = "\
name: shaped
agents:
  - {name: fetch, script: fetch.rhai}
result: {rows: outputs.fetch.rows, first: 'outputs.fetch.rows[0]'}
";
const ASKED: &str = "\
name: asked
inputs:
  topic: {type: string}
  rounds: {type: integer, minimum: 1, maximum: 5}
agents:
  - {name: fetch, script: fetch.rhai}
";
const SLOW: &str = "\
name: slow
agents:
  - {name: work, script: 'tail -f /dev/null'}
  - {name: later, script: fetch.rhai, depends_on: [work]}
";
const GATE: &str = "\
name: gate
agents:
  - {name: left, ensemble: inner}
";
const INNER: &str = "\
name: inner
agents:
  - {name: ok, input: {prompt: 'Pay?', choices: ['yes', 'no']}}
";

fn workspace() -> Workspace {
    let workspace = Workspace::new();
    let texts = [
        ("bad", BAD),
        ("shaped", SHAPED),
        ("asked", ASKED),
        ("slow", SLOW),
        ("gate", GATE),
        ("inner", INNER),
    ];
    for (name, text) in texts {
        workspace.write(&format!("ensembles/{name}.yaml"), text);
    }
    workspace.write("ensembles/fetch.rhai", "#{ rows: [1, 2] }");
    workspace.write("ensembles/parse.rhai", "throw \"the column is missing\"");
    workspace
}

fn start(page: &Page, ensemble: &str) -> String {
    let started = page.done("/api/start", &json!({"ensemble": ensemble}));
    started["id"].as_str().expect("an id").to_owned()
}

/// Returns the head of the run when it has ended and no process drives it any more.
fn ended(page: &Page, id: &str, outcome: &str) -> Value {
    page.follow(id).until_outcome(outcome);
    eventually("the end of the process", || {
        let head = page.get(&format!("/api/run?id={id}"));
        (head["can"]["say"] == true || head["can"]["retry"].is_object()).then_some(head)
    })
}

#[test]
fn a_failed_run_says_what_failed_and_is_retried_from_there() {
    let workspace = workspace();
    let page = Page::start(&workspace);
    let id = start(&page, "bad");
    let head = ended(&page, &id, "agent_failed");
    let failure = &head["failure"];
    assert_eq!(
        (&failure["agent"], &failure["turn"], &failure["attempts"]),
        (&json!("parse"), &json!(2), &json!(2))
    );
    let error = failure["error"].as_str().expect("an error");
    assert!(error.contains("the column is missing"), "{error}");
    assert_eq!(head["can"]["retry"], json!({"turn": 2, "agent": "parse", "part": null}));
    assert_eq!(head["can"]["fork_before"], 1);
    assert_eq!(
        (&head["is_under_way"], &head["has_result"]),
        (&json!(false), &json!(false))
    );
    let detail = page.get(&format!("/api/execution?id={id}&turn=2&agent=parse"));
    assert_eq!(detail["state"], "failed");
    let attempts = detail["execution"]["attempts"].as_array().expect("attempts").iter();
    let words: Vec<&Value> = attempts.map(|attempt| &attempt["state"]).collect();
    assert_eq!(words, ["failed", "failed"]);
    // An agent that never ran took no time.
    workspace.write("ensembles/parse.rhai", "#{ ok: true }");
    let mut retry = head["can"]["retry"].clone();
    retry["id"] = id.into();
    let again = page.done("/api/rerun", &retry);
    let again = again["id"].as_str().expect("an id").to_owned();
    let head = ended(&page, &again, "completed");
    assert_eq!((&head["failure"], &head["can"]["retry"]), (&Value::Null, &Value::Null));
    assert_eq!(head["outputs"][0]["agent"], "parse");
}

#[test]
fn the_declared_result_is_shown() {
    let workspace = workspace();
    let page = Page::start(&workspace);
    let id = start(&page, "shaped");
    let head = ended(&page, &id, "completed");
    assert_eq!(head["has_result"], true);
    let result = page.get(&format!("/api/result?id={id}"));
    assert_eq!(result["result"], json!({"rows": [1, 2], "first": 1}));
    let other = start(&page, "bad");
    ended(&page, &other, "agent_failed");
    let answer = page.ask(
        "GET",
        &format!("/api/result?id={other}"),
        &[&crate::support::page::bearer()],
        "",
    );
    assert_eq!(answer.status, 404);
}

#[test]
fn an_agent_at_work_is_shown_at_work() {
    let workspace = workspace();
    let page = Page::start(&workspace);
    let id = start(&page, "slow");
    page.follow(&id)
        .until(|_, data| data["head"]["agents"][0]["activity"] == "runs");
    let head = page.get(&format!("/api/run?id={id}"));
    assert_eq!(
        (&head["state"], &head["is_under_way"]),
        (&json!("running"), &json!(true))
    );
    let [work, later] = [&head["agents"][0], &head["agents"][1]];
    assert!(work["seconds"].is_number(), "{work}");
    assert_eq!((&later["seconds"], &later["activity"]), (&Value::Null, &Value::Null));
    let rows = page.get(&format!("/api/rows?id={id}&from=0&count=10"));
    assert_eq!(rows["rows"][1]["state"], "runs");
    assert!(rows["rows"][1]["elapsed"].is_number(), "{rows}");
    let graph = page.ask(
        "GET",
        &format!("/api/graph?id={id}"),
        &[&crate::support::page::bearer()],
        "",
    );
    assert!(
        graph
            .body
            .contains("<g class=\"agent active\"><title>work, script, runs now</title>"),
        "{}",
        graph.body
    );
    // The time goes on without a record.
    let active = head["active"].as_f64().expect("a number");
    let later = page.get(&format!("/api/run?id={id}"))["active"]
        .as_f64()
        .expect("a number");
    assert!(later > active, "{active} {later}");
    page.done("/api/cancel", &json!({"id": id}));
    let head = ended(&page, &id, "cancelled");
    assert_eq!(head["agents"][0]["activity"], "stopped");
    assert_eq!(head["can"]["retry"], Value::Null);
}

#[test]
fn a_question_inside_a_run_makes_both_runs_and_their_agents_wait() {
    let workspace = workspace();
    let page = Page::start(&workspace);
    let id = start(&page, "gate");
    page.follow(&id)
        .until(|_, data| data["head"]["agents"][0]["activity"] == "asks");
    assert_eq!(page.get(&format!("/api/run?id={id}"))["state"], "waiting");
    let inner = page.get(&format!("/api/run?id={id}%2Fsub%2Fleft-1-1"));
    assert_eq!(
        (&inner["state"], &inner["agents"][0]["activity"]),
        (&json!("waiting"), &json!("asks"))
    );
    let graph = page.ask(
        "GET",
        &format!("/api/graph?id={id}"),
        &[&crate::support::page::bearer()],
        "",
    );
    assert!(graph.body.contains("waits for an answer"), "{}", graph.body);
}

#[test]
fn errors_of_inputs_name_their_fields() {
    let workspace = workspace();
    let page = Page::start(&workspace);
    let answer = page.post("/api/start", &json!({"ensemble": "asked", "values": {"rounds": 9}}));
    assert_eq!(answer.status, 400);
    let fields = &answer.json()["error"]["fields"];
    assert_eq!(fields["topic"], "the input `topic` is missing (string)");
    let rounds = fields["rounds"].as_str().expect("an error");
    assert!(
        rounds.starts_with("the input `rounds` does not match its schema"),
        "{rounds}"
    );
}

#[test]
fn the_run_of_a_row_is_shown_as_any_run() {
    let workspace = workspace();
    workspace.write(
        "rows.jsonl",
        "{\"topic\": \"a\", \"rounds\": 1}\n{\"topic\": \"b\", \"rounds\": 2}\n",
    );
    workspace.run(["batch", "asked", "--data", "rows.jsonl"]).expect_code(0);
    let page = Page::start(&workspace);
    assert_eq!(page.get("/api/runs")["runs"], json!([]));
    let rows = page.get("/api/batch?name=asked-rows");
    let id = rows["runs"][0]["run"].as_str().expect("an id");
    assert_eq!(page.get(&format!("/api/run?id={id}"))["state"], "completed");
}
