//! One run, one state, one number: recorded runs through every front end.

use serde_json::{Value, json};

use crate::support::mcp_client::Client;
use crate::support::page::Page;
use crate::support::{Workspace, acp_client};

const ENSEMBLE: &str = "\
name: one
default_task: go
agents:
  - {name: a, model_profile: fake, prompt: x}
  - {name: b, model_profile: fake, prompt: y}
  - {name: inner, ensemble: inner.yaml}
  - {name: q, input: {prompt: 'Shall it go on?'}}
model_profiles:
  fake: {provider: simulated, replies: [fine]}
";

const INNER: &str = "name: inner\nagents: [{name: x, script: echo x}]\n";

/// A recorded run, and the facts that every front end must show.
struct Row {
    name: &'static str,
    events: Vec<Value>,
    state: &'static str,
    turns: u64,
    executions: u64,
    failed: u64,
    requests: u64,
}

fn event(name: &str, data: Value) -> Value {
    json!({"event": name, "data": data})
}

fn turn(turn: u32, agents: &[&str]) -> Value {
    let start = |agent: &&str| json!({"agent": agent, "execution": turn});
    let starts: Vec<Value> = agents.iter().map(start).collect();
    event("turn_started", json!({"turn": turn, "starts": starts}))
}

fn usage(requests: u64) -> Value {
    json!({"requests": requests, "input_tokens": 10 * requests, "output_tokens": requests, "estimated": false})
}

/// An event of an attempt in this turn.
fn attempt(name: &str, (turn, agent, attempt): (u32, &str, u32), rest: Value) -> Value {
    let mut data = json!({"turn": turn, "agent": agent, "execution": turn, "attempt": attempt});
    if let (Value::Object(data), Value::Object(rest)) = (&mut data, rest) {
        data.extend(rest);
    }
    event(name, data)
}

fn started(turn: u32, agent: &str, number: u32) -> Value {
    attempt("execution_started", (turn, agent, number), json!({}))
}

fn replied(turn: u32, agent: &str, number: u32, requests: u64) -> Value {
    let reply = json!({"iteration": {"number": 1, "messages": []}, "usage": usage(requests)});
    attempt("reply_received", (turn, agent, number), reply)
}

fn finished(turn: u32, agent: &str, number: u32, requests: u64) -> Value {
    let end = json!({"output": {"response": "fine"}, "execution_time": 1.0, "usage": usage(requests)});
    attempt("execution_finished", (turn, agent, number), end)
}

fn failure() -> Value {
    json!({"kind": "model", "error": "no"})
}

/// A request in a part or in a call of the first execution of `a` that was stopped.
fn stopped_at(place: Value, requests: u64) -> Value {
    let mut stopped = json!({"iteration": {"number": 1, "messages": []}, "usage": usage(requests)});
    if let (Value::Object(stopped), Value::Object(place)) = (&mut stopped, place) {
        stopped.extend(place);
    }
    attempt("request_stopped", (1, "a", 1), stopped)
}

fn closed(turn: u32) -> Value {
    event("turn_finished", json!({"turn": turn}))
}

fn ended(reason: &str) -> Value {
    event("run_ended", json!({"completion_reason": reason}))
}

fn cancelled() -> Value {
    event("interrupted", json!({"cause": "ctrl_c"}))
}

fn message() -> Value {
    event("message_added", json!({"text": "again"}))
}

fn part(key: &str, rest: Value) -> Value {
    let mut part =
        json!({"part": 0, "key": key, "count": 2, "item_digest": "", "execution_time": 1.0, "usage": usage(1)});
    if let (Value::Object(part), Value::Object(rest)) = (&mut part, rest) {
        part.extend(rest);
    }
    attempt("part_ended", (1, "a", 1), part)
}

fn rows() -> Vec<Row> {
    let row = |name, events, state, (turns, executions, failed, requests)| Row {
        name,
        events,
        state,
        turns,
        executions,
        failed,
        requests,
    };
    let failed_end = json!({"failure": failure(), "execution_time": 1.0, "usage": usage(1)});
    vec![
        row(
            "normal",
            vec![
                turn(1, &["a"]),
                started(1, "a", 1),
                finished(1, "a", 1, 2),
                closed(1),
                turn(2, &["b"]),
                started(2, "b", 1),
                finished(2, "b", 1, 1),
                closed(2),
                ended("completed"),
            ],
            "completed",
            (2, 2, 0, 3),
        ),
        row(
            "failed",
            vec![
                turn(1, &["a"]),
                started(1, "a", 1),
                attempt("execution_finished", (1, "a", 1), failed_end),
                closed(1),
                ended("agent_failed"),
            ],
            "agent_failed",
            (1, 1, 1, 1),
        ),
        row(
            "cancelled",
            vec![
                turn(1, &["a", "b"]),
                started(1, "a", 1),
                started(1, "b", 1),
                replied(1, "a", 1, 2),
                finished(1, "b", 1, 1),
                cancelled(),
                ended("cancelled"),
            ],
            "cancelled",
            (0, 1, 0, 3),
        ),
        row(
            "timeout",
            vec![
                turn(1, &["a"]),
                started(1, "a", 1),
                finished(1, "a", 1, 1),
                closed(1),
                turn(2, &["b"]),
                started(2, "b", 1),
                attempt(
                    "request_stopped",
                    (2, "b", 1),
                    json!({"iteration": {"number": 1, "messages": []}, "usage": usage(1)}),
                ),
                event("interrupted", json!({"cause": "timeout"})),
                ended("timeout"),
            ],
            "timeout",
            (1, 1, 0, 2),
        ),
        row(
            "waiting",
            vec![
                turn(1, &["q"]),
                started(1, "q", 1),
                event(
                    "input_requested",
                    json!({"turn": 1, "agent": "q", "execution": 1, "prompt": "Shall it go on?", "choices": []}),
                ),
                ended("waiting_for_input"),
            ],
            "waiting",
            (0, 0, 0, 0),
        ),
        row(
            "continued",
            vec![
                turn(1, &["a", "b"]),
                started(1, "a", 1),
                started(1, "b", 1),
                finished(1, "a", 1, 1),
                replied(1, "b", 1, 1),
                cancelled(),
                ended("cancelled"),
                message(),
                turn(2, &["a"]),
                started(2, "a", 1),
                finished(2, "a", 1, 1),
                closed(2),
                ended("completed"),
            ],
            "completed",
            (2, 2, 0, 3),
        ),
        row(
            "interrupted",
            vec![
                turn(1, &["a"]),
                started(1, "a", 1),
                replied(1, "a", 1, 1),
                cancelled(),
                ended("cancelled"),
                message(),
                turn(2, &["a"]),
                started(2, "a", 2),
                replied(2, "a", 2, 2),
            ],
            "interrupted",
            (0, 0, 0, 3),
        ),
        row(
            "parts",
            vec![
                turn(1, &["a"]),
                started(1, "a", 1),
                part("k", json!({"output": {}})),
                part("l", json!({"failure": failure()})),
                finished(1, "a", 1, 0),
                closed(1),
                ended("completed"),
            ],
            "completed",
            (1, 1, 0, 2),
        ),
        row(
            "stopped inside",
            vec![
                turn(1, &["a"]),
                started(1, "a", 1),
                replied(1, "a", 1, 1),
                stopped_at(json!({"inside": ["call"]}), 2),
                stopped_at(json!({"part": "k"}), 1),
                cancelled(),
                ended("cancelled"),
            ],
            "cancelled",
            (0, 0, 0, 4),
        ),
        row(
            "nested",
            vec![
                turn(1, &["inner"]),
                started(1, "inner", 1),
                finished(1, "inner", 1, 4),
                closed(1),
                ended("completed"),
            ],
            "completed",
            (1, 1, 0, 4),
        ),
        row(
            "retried",
            vec![
                turn(1, &["a"]),
                started(1, "a", 1),
                replied(1, "a", 1, 1),
                attempt(
                    "attempt_failed",
                    (1, "a", 1),
                    json!({"failure": failure(), "usage": usage(2), "pause": 0.0}),
                ),
                started(1, "a", 2),
                replied(1, "a", 2, 1),
                event("run_resumed", json!({"program": "0"})),
                started(1, "a", 3),
                finished(1, "a", 3, 1),
                closed(1),
                ended("completed"),
            ],
            "completed",
            (1, 1, 0, 4),
        ),
    ]
}

/// A line of a journal.
fn line(seq: usize, event: &Value) -> String {
    let (name, data) = (&event["event"], &event["data"]);
    let body = format!("{{\"seq\":{seq},\"at\":\"2026-01-01T00:00:{seq:02}.000Z\",\"event\":{name},\"data\":{data}");
    let crc = crc32fast::hash(body.as_bytes());
    format!("{body},\"crc\":\"{crc:08x}\"}}\n")
}

/// Writes the runs beside a real one, whose first record they have, and returns their ids.
fn write(workspace: &Workspace, rows: &[Row]) -> Vec<String> {
    workspace.write("one.yaml", ENSEMBLE);
    workspace.write("inner.yaml", INNER);
    workspace.run(["run", "one.yaml"]).expect_code(3);
    let real = workspace.runs().remove(0);
    let first = workspace.journal().remove(0);
    let mut ids = Vec::new();
    for (number, row) in rows.iter().enumerate() {
        let id = format!("run{number}-20260101-000000{number:03}");
        let mut begin = first["data"].clone();
        begin["run_id"] = json!(id);
        let events = std::iter::once(event("run_started", begin)).chain(row.events.iter().cloned());
        let lines: String = events.enumerate().map(|(seq, event)| line(seq, &event)).collect();
        workspace.write(&format!(".ensemble/runs/{id}/journal.jsonl"), lines);
        workspace.write(&format!(".ensemble/runs/{id}/ensemble.yaml"), ENSEMBLE);
        ids.push(id);
    }
    std::fs::remove_dir_all(real).expect("the real run is there");
    ids
}

/// What one front end shows of a run: `null` for what it does not show.
#[track_caller]
fn check(front_end: &str, row: &Row, shown: [&Value; 5]) {
    let facts = [
        json!(row.state),
        json!(row.turns),
        json!(row.executions),
        json!(row.failed),
        json!(row.requests),
    ];
    for (name, (fact, shown)) in ["state", "turns", "executions", "failed", "requests"]
        .iter()
        .zip(facts.iter().zip(shown))
    {
        assert!(
            shown.is_null() || fact == shown,
            "{name} of `{}` in {front_end}: {shown}, not {fact}",
            row.name
        );
    }
}

#[test]
fn every_front_end_shows_the_same_state_and_the_same_numbers() {
    let workspace = Workspace::new();
    let rows = rows();
    let ids = write(&workspace, &rows);
    let none = &Value::Null;
    let document = |words: &[&str]| workspace.run(words).expect_code(0).json();
    let listed = document(&["runs", "list", "--output", "json"]);
    let told = workspace.run(["runs", "list"]).expect_code(0).stdout;
    for (row, id) in rows.iter().zip(&ids) {
        let all = listed["runs"].as_array().expect("runs");
        let one = all.iter().find(|one| one["run_id"] == **id).expect("it is listed");
        let used = &one["usage"]["requests"];
        check(
            "runs list",
            row,
            [
                &one["state"],
                &one["turn_count"],
                &one["executions"],
                &one["failed"],
                used,
            ],
        );
        let line = told.lines().find(|line| line.contains(&**id)).expect("a line");
        let text = format!("{}, turns {}, executions {}", row.state, row.turns, row.executions);
        assert!(line.contains(&text), "{line}");

        let one = document(&["runs", "show", id, "--output", "json"]);
        let used = &one["usage"]["requests"];
        check(
            "runs show",
            row,
            [
                &one["state"],
                &one["turn_count"],
                &one["executions"],
                &one["failed"],
                used,
            ],
        );
        let told = workspace.run(["runs", "show", id]).expect_code(0).stdout;
        let turns = format!("{} turn{} · ", row.turns, if row.turns == 1 { "" } else { "s" });
        assert!(told.contains(&turns), "{}: {told}", row.name);

        let one = document(&["runs", "export", id]);
        let counts = one["agent_execution_count"].as_object().expect("counts");
        let executions: u64 = counts.values().filter_map(Value::as_u64).sum();
        let used = &one["usage"]["requests"];
        check(
            "the result",
            row,
            [none, &one["turn_count"], &json!(executions), none, used],
        );
        let by_agent = one["usage"]["by_agent"].as_object().expect("agents").values();
        let by_agent: u64 = by_agent.filter_map(|agent| agent["requests"].as_u64()).sum();
        assert_eq!(
            by_agent, row.requests,
            "{}: the usage by agent is the usage of all",
            row.name
        );

        let one = document(&["estimate", "one.yaml", "--from", id, "--output", "json"]);
        let all = &one["recorded"];
        let used = &all["usage"]["requests"];
        check(
            "estimate",
            row,
            [
                &one["state"],
                &one["turn_count"],
                &all["executions"],
                &all["failed"],
                used,
            ],
        );

        let one = document(&["runs", "diff", id, id, "--output", "json"]);
        let used = &one["usage"]["a"]["requests"];
        check(
            "runs diff",
            row,
            [
                &one["a"]["state"],
                &one["a"]["turn_count"],
                &one["a"]["executions"],
                none,
                used,
            ],
        );
    }
    let page = Page::start(&workspace);
    let listed = page.get("/api/runs");
    for (row, id) in rows.iter().zip(&ids) {
        let all = listed["runs"].as_array().expect("runs");
        let one = all.iter().find(|one| one["id"] == **id).expect("it is listed");
        let used = &one["usage"]["requests"];
        check(
            "the list of the page",
            row,
            [&one["state"], &one["turns"], &one["executions"], &one["failed"], used],
        );
        let one = page.get(&format!("/api/run?id={id}"));
        let used = &one["usage"]["requests"];
        check(
            "the page",
            row,
            [&one["state"], &one["turns"], &one["executions"], &one["failed"], used],
        );
    }
    let mut client = Client::start(&workspace, &[], json!({}));
    let listed = client.document("list_runs", json!({}));
    for (row, id) in rows.iter().zip(&ids) {
        let all = listed["runs"].as_array().expect("runs");
        let one = all.iter().find(|one| one["run"] == **id).expect("it is listed");
        check(
            "list_runs",
            row,
            [&one["status"], &one["turns"], &one["executions"], none, none],
        );
        let one = client.document("run_status", json!({"run": id}));
        check(
            "run_status",
            row,
            [&one["status"], &one["turns"], &one["executions"], none, none],
        );
    }
}

const ASKING: &str = "\
name: asking
agents:
  - {name: left, ensemble: asked.yaml}
  - {name: right, ensemble: asked.yaml}
";

const ASKED: &str = "name: asked\nagents: [{name: ok, input: {prompt: Shall it be?}}]\n";

/// The addresses and texts of requests in a document.
fn requests(list: &Value) -> Vec<(&str, &str)> {
    let all = list.as_array().map_or(&[][..], Vec::as_slice);
    assert!(all.iter().all(|one| one["digest"].is_string()), "{list}");
    let words = all.iter().map(|one| (one["address"].as_str(), one["prompt"].as_str()));
    words
        .map(|(address, prompt)| (address.unwrap_or_default(), prompt.unwrap_or_default()))
        .collect()
}

#[test]
fn every_front_end_shows_the_same_requests() {
    let workspace = Workspace::new();
    workspace.write("asking.yaml", ASKING);
    workspace.write("asked.yaml", ASKED);
    workspace.run(["run", "asking.yaml"]).expect_code(3);
    let id = workspace.runs()[0]
        .file_name()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    let facts = vec![("left.ok", "Shall it be?"), ("right.ok", "Shall it be?")];
    let shown = workspace
        .run(["runs", "show", &id, "--output", "json"])
        .expect_code(0)
        .json();
    assert_eq!(requests(&shown["questions"]), facts, "runs show");
    let told = workspace.run(["runs", "show", &id]).expect_code(0).stdout;
    let listed = workspace.run(["runs", "list"]).expect_code(0).stdout;
    for (address, prompt) in &facts {
        assert!(told.contains(address) && told.contains(prompt), "{told}");
    }
    assert!(listed.contains("waiting"), "{listed}");
    let page = Page::start(&workspace);
    let one = page.get(&format!("/api/run?id={id}"));
    assert_eq!(requests(&one["questions"]), facts, "the page");
    drop(page);
    let mut client = Client::start(&workspace, &[], json!({}));
    let one = client.document("run_status", json!({"run": id}));
    assert_eq!(requests(&one["requests"]), facts, "run_status");
    let mut client = acp_client::Client::start(&workspace, "asking.yaml", json!({}));
    let session = client.session(&workspace);
    client.prompt(&session, "go");
    assert_eq!(client.told("agent_message_chunk"), facts[0].1, "ACP asks the first");
}

#[test]
fn every_front_end_shows_the_same_output_and_counts_it_once() {
    let workspace = Workspace::new();
    workspace.write(
        "said.yaml",
        "name: said\ndefault_task: go\nresult: {answer: outputs.a.response}\nagents: [{name: a, model_profile: p, prompt: x}]\nmodel_profiles:\n  p: {provider: simulated, replies: [fine words]}\n",
    );
    let text = "fine words";
    let run = workspace.run(["run", "said.yaml", "--output", "json"]).expect_code(0);
    let id = run.json()["run_id"].as_str().expect("an id").to_owned();
    assert_eq!(
        (&run.json()["turn_count"], &run.json()["usage"]["requests"]),
        (&json!(1), &json!(1))
    );
    for words in [
        &["run", "said.yaml", "--quiet"][..],
        &["runs", "show", &id],
        &["runs", "export", &id],
    ] {
        let told = workspace.run(words).expect_code(0).stdout;
        assert!(told.contains(text), "{words:?}: {told}");
    }
    workspace.write("rows.jsonl", "{\"input\": \"go\"}\n");
    let batch = ["batch", "said.yaml", "--data", "rows.jsonl", "--map", "input=input"];
    workspace.run(batch).expect_code(0);
    let rows = workspace.read(".ensemble/batches/said-rows/results.jsonl");
    let row: Value = serde_json::from_str(rows.lines().next().expect("a row")).expect("JSON");
    assert_eq!(
        (&row["turns"], &row["usage"]["requests"]),
        (&json!(1), &json!(1)),
        "{row}"
    );
    assert!(row.to_string().contains(text), "{row}");
    let mut client = Client::start(&workspace, &[], json!({}));
    let one = client.document("run_status", json!({"run": id}));
    assert_eq!(one["result"]["answer"], json!(text), "run_status");
    let mut client = acp_client::Client::start(&workspace, "said.yaml", json!({}));
    let session = client.session(&workspace);
    client.prompt(&session, "go");
    let shown = client.told("agent_message_chunk");
    assert!(shown.contains(text), "ACP: {shown}");
}
