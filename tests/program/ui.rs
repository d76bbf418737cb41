//! The page in the browser: who may use it, and what it tells and does, over a real socket.

use crate::support::page::{Page, TOKEN, bearer};
use crate::support::{Workspace, eventually, records};
use serde_json::{Value, json};

const LOOP: &str = "\
name: two-drafts
default_task: the sea
agents:
  - name: writer
    model_profile: drafts
    prompt: 'Write about {{ input }}. {{ reviewer.notes }}'
    dependencies:
      - {agent_name: reviewer, feedback: true, condition: not output.good}
    conversation: {max_turns: 2}
  - name: reviewer
    script: reviewer.rhai
    depends_on: [writer]
    conversation: {max_turns: 2}
  - name: helper
    script: reviewer.rhai
    dependencies: [{agent_name: writer, condition: output.response == 'no'}]
model_profiles:
  drafts: {provider: simulated, replies: ['<b>one</b> & two', better]}
";
const REVIEWER: &str = "#{ good: execution == 2, notes: \"note \" + execution }";

const GATE: &str = "\
name: gate
agents:
  - {name: editor, input: {prompt: Print it?, choices: ['yes', 'no']}}
  - {name: printer, script: print.rhai, depends_on: [editor]}
";

pub(super) fn workspace() -> Workspace {
    let workspace = Workspace::new();
    workspace.write("ensembles/two-drafts.yaml", LOOP);
    workspace.write("ensembles/reviewer.rhai", REVIEWER);
    workspace.write("ensembles/gate.yaml", GATE);
    workspace.write("ensembles/print.rhai", "#{ printed: dependencies.editor.response }");
    workspace
}

fn kinds(rows: &Value) -> Vec<String> {
    let rows = rows["rows"].as_array().expect("rows").iter();
    rows.map(|row| match row["agent"].as_str() {
        Some(agent) => format!("{agent} {} by {}", row["state"].as_str().unwrap_or_default(), row["by"]),
        None => row["kind"].as_str().expect("a kind").to_owned(),
    })
    .collect()
}

/// Starts a run of `gate`, and waits until it asks.
pub(super) fn asking(page: &Page) -> String {
    let id = page.done("/api/start", &json!({"ensemble": "gate"}))["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    page.follow(&id)
        .until(|_, data| data["head"]["waiting"]["questions"][0]["agent"] == "editor");
    id
}

#[test]
fn only_who_knows_the_token_and_is_this_page_is_answered() {
    let workspace = workspace();
    let page = Page::start(&workspace);
    assert_eq!(page.link, format!("http://127.0.0.1:{}/#token={TOKEN}", page.port));
    let own = format!("origin: http://127.0.0.1:{}", page.port);
    let given = page.ask("POST", "/api/session", &[&own], &json!({"token": TOKEN}).to_string());
    let cookie = given.header("set-cookie").expect("a cookie").to_owned();
    assert!(cookie.ends_with("; Path=/; HttpOnly; SameSite=Strict"), "{cookie}");
    let cookie = format!("cookie: {}", cookie.split(';').next().expect("a pair"));
    let evil = "origin: http://evil.example";
    let rebound = format!("host: evil.example:{}", page.port);
    let start = json!({"ensemble": "gate"}).to_string();
    for (method, path, lines, body, status) in [
        ("GET", "/", &[][..], "", 200),
        ("GET", "/", &[rebound.as_str()], "", 403),
        ("GET", "/api/runs", &[], "", 401),
        ("GET", "/v1/models", &[], "", 401),
        (
            "GET",
            "/api/runs",
            &["authorization: Bearer a-token-of-the-testX"],
            "",
            401,
        ),
        ("GET", "/api/runs", &[&bearer()], "", 200),
        ("GET", "/api/runs", &[&bearer(), &rebound], "", 403),
        ("GET", "/api/runs", &[&bearer(), evil], "", 403),
        ("GET", "/api/runs", &[&cookie], "", 200),
        ("GET", "/api/runs", &[&cookie, "sec-fetch-site: cross-site"], "", 403),
        ("POST", "/api/start", &[&cookie, evil], &start, 403),
        ("POST", "/api/start", &[&cookie], &start, 403),
        ("POST", "/api/start", &[], &start, 401),
        (
            "POST",
            "/api/session",
            &[evil],
            &json!({"token": TOKEN}).to_string(),
            403,
        ),
        (
            "POST",
            "/api/session",
            &[],
            "{\"token\": \"another-token-of-tests\"}",
            401,
        ),
        ("DELETE", "/api/runs", &[&bearer()], "", 405),
        ("GET", "/api/nothing", &[&bearer()], "", 404),
        ("POST", "/api/start", &[&bearer()], "{", 400),
    ] {
        let answer = page.ask(method, path, lines, body);
        assert_eq!(answer.status, status, "{method} {path} {lines:?}: {answer:?}");
        let policy = answer.header("content-security-policy").expect("a policy");
        assert!(
            policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self';"),
            "{policy}"
        );
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("access-control-allow-origin"), None);
    }
    assert!(workspace.runs().is_empty(), "nothing was started");
    let started = page.ask("POST", "/api/start", &[&cookie, &own], &start);
    assert_eq!(started.status, 200, "{started:?}");
    assert_eq!(workspace.runs().len(), 1);
}

#[test]
fn the_page_is_whole_and_takes_nothing_from_elsewhere() {
    let workspace = Workspace::new();
    let page = Page::start(&workspace);
    let mut waiting = vec!["/".to_owned()];
    let mut seen = Vec::new();
    while let Some(path) = waiting.pop() {
        if seen.contains(&path) {
            continue;
        }
        let text = page.ask("GET", &path, &[], "");
        assert_eq!(text.status, 200, "{path}");
        let words = text.body.split(['"', '\'']).filter(|word| word.starts_with('/'));
        let is_file = |word: &&str| [".js", ".css", ".svg"].iter().any(|end| word.ends_with(end));
        waiting.extend(words.filter(is_file).map(str::to_owned));
        for inline in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "eval(",
            "document.write",
            "http:",
            "https:",
            "<style",
        ] {
            let is_name = path.ends_with(".svg") && inline == "http:";
            assert!(is_name || !text.body.contains(inline), "{path} contains {inline}");
        }
        seen.push(path);
    }
    assert!(seen.len() > 10, "{seen:?}");
}

#[test]
fn a_recorded_run_is_told_as_rows_executions_messages_and_a_graph() {
    let workspace = workspace();
    workspace.run(["run", "two-drafts"]).expect_code(0);
    let page = Page::start(&workspace);
    let runs = page.get("/api/runs");
    let run = &runs["runs"][0];
    let id = run["id"].as_str().expect("an id");
    assert_eq!(
        (&run["ensemble"], &run["outcome"], &run["executions"]),
        (&json!("two-drafts"), &json!("completed"), &json!(4))
    );

    let head = page.get(&format!("/api/run?id={id}"));
    assert_eq!(
        (&head["state"], &head["turns"], &head["rows"]),
        (&json!("completed"), &json!(4), &json!(9))
    );
    assert_eq!(
        head["can"],
        json!({"cancel": false, "resume": false, "say": true, "fork": true, "retry": null, "fork_before": null})
    );
    let agents = head["agents"].as_array().expect("agents");
    assert_eq!(
        (&agents[0]["executions"], &agents[0]["usage"]["requests"]),
        (&json!(2), &json!(2))
    );
    assert_eq!(
        agents[2]["idle"],
        "condition false on writer: output.response == 'no' (output.response = \"better\")"
    );

    let rows = page.get(&format!("/api/rows?id={id}&from=0&count=100"));
    assert_eq!(
        kinds(&rows),
        [
            "turn",
            "writer done by []",
            "turn",
            "reviewer done by [\"writer\"]",
            "turn",
            "writer done by [\"reviewer\"]",
            "turn",
            "reviewer done by [\"writer\"]",
            "ended",
        ]
    );
    assert_eq!(rows["rows"][1]["text"], "<b>one</b> & two");
    assert_eq!(
        page.get(&format!("/api/rows?id={id}&from=8&count=100"))["rows"]
            .as_array()
            .map(Vec::len),
        Some(1)
    );

    let detail = page.get(&format!("/api/execution?id={id}&turn=3&agent=writer"));
    assert_eq!(
        detail["dependencies"][0],
        json!({"from": "reviewer", "condition": "not output.good", "feedback": true, "fired": true})
    );
    assert_eq!(detail["execution"]["reads"], json!({"reviewer": 1}));
    let messages = page.get(&format!("/api/messages?id={id}&turn=3&agent=writer"));
    let asked = messages[0]["iterations"][0]["messages"][0]["content"]
        .as_str()
        .expect("a prompt");
    assert!(asked.contains("Write about the sea. note 1"), "{messages:#}");

    let graph = page.ask("GET", &format!("/api/graph?id={id}"), &[&bearer()], "");
    assert!(
        graph.body.contains("ran 2 times") && graph.body.contains("started once"),
        "{}",
        graph.body
    );
    assert!(!graph.body.contains("<style"), "{}", graph.body);
    let missing = page.ask("GET", "/api/run?id=nobody", &[&bearer()], "");
    assert_eq!(missing.status, 404, "{missing:?}");
}

#[test]
fn a_question_is_answered_by_another_client_than_the_one_that_started_the_run() {
    let workspace = workspace();
    let page = Page::start(&workspace);
    let id = asking(&page);
    // Another address, another question of the address, and an answer that is none of the choices.
    for (key, value) in [
        ("address", "printer"),
        ("digest", "0000000000000000"),
        ("answer", "perhaps"),
    ] {
        let mut body = page.answering(&id, "answer", "yes");
        body[key] = json!(value);
        let wrong = page.post("/api/answer", &body);
        assert_eq!(wrong.status, 409, "{wrong:?}");
    }
    let mut second = page.follow(&id);
    let mut third = page.follow(&id);
    let (name, begin) = second.next();
    assert_eq!(
        (&*name, &begin["head"]["state"], &begin["head"]["can"]["cancel"]),
        ("begin", &json!("waiting"), &json!(true))
    );
    page.answer(&id, "yes");
    let mut told = Vec::new();
    second.until(|_, data| {
        let rows = data["rows"].as_array().into_iter().flatten();
        told.extend(
            rows.filter(|row| row["agent"] == "printer")
                .map(|row| row["state"].clone()),
        );
        data["head"]["state"] == "completed"
    });
    assert_eq!(told.last(), Some(&json!("done")), "{told:?}");
    third.until_outcome("completed");
    let journal = workspace.journal();
    assert!(
        journal
            .iter()
            .any(|record| record["data"]["output"]["printed"] == "yes"),
        "{journal:#?}"
    );
}

#[test]
fn a_run_is_stopped_resumed_and_continued() {
    let workspace = workspace();
    let page = Page::start(&workspace);
    let id = asking(&page);
    page.done("/api/cancel", &json!({"id": id}));
    page.follow(&id).until_outcome("cancelled");
    assert_eq!(page.post("/api/cancel", &json!({"id": id})).status, 409);
    page.done("/api/resume", &json!({"id": id}));
    page.follow(&id)
        .until(|_, data| data["head"]["waiting"]["questions"][0]["agent"] == "editor");
    page.answer(&id, "no");
    page.follow(&id).until_outcome("completed");
    page.done("/api/say", &json!({"id": id, "text": "once more"}));
    page.follow(&id)
        .until(|_, data| data["head"]["waiting"]["questions"][0]["agent"] == "editor");
    page.answer(&id, "yes");
    page.follow(&id).until_outcome("completed");
    let events: Vec<Value> = workspace
        .journal()
        .iter()
        .map(|record| record["event"].clone())
        .collect();
    for event in ["interrupted", "run_resumed", "message_added"] {
        assert!(events.contains(&json!(event)), "{event}: {events:?}");
    }
}

#[test]
fn a_run_that_waits_for_an_answer_and_that_nobody_drives_goes_on_with_it() {
    let workspace = workspace();
    workspace.write(
        "ensembles/outer.yaml",
        "name: outer\nagents: [{name: inner, ensemble: gate.yaml}]\n",
    );
    // The agent that asks may be one of a conversation inside.
    for ensemble in ["gate", "outer"] {
        workspace.run(["run", ensemble]).expect_code(3);
        let page = Page::start(&workspace);
        let id = page.get("/api/runs")["runs"][0]["id"]
            .as_str()
            .expect("an id")
            .to_owned();
        let head = page.get(&format!("/api/run?id={id}"));
        assert_eq!(
            (&head["state"], &head["questions"][0]["agent"]),
            (&json!("waiting"), &json!("editor")),
            "{ensemble}"
        );
        page.answer(&id, "yes");
        page.follow(&id).until_outcome("completed");
    }
}

#[test]
fn a_call_that_needs_permission_is_shown_with_its_arguments_and_decided() {
    for (decision, is_written) in [("once", true), ("denied", false)] {
        let workspace = Workspace::new();
        workspace.write(
            "ensembles/w.yaml",
            "name: w\nagents: [{name: a, model_profile: m, tools: [write]}]\nmodel_profiles:\n  m:\n    provider: \
             simulated\n    replies:\n      - {text: t, tool_calls: [{name: write, arguments: {n: 4}}]}\n      - done\ntools:\n  \
             write: {script: \"echo w >> written.txt\", parameters: {type: object}, permission: ask}\n",
        );
        let page = Page::start(&workspace);
        let id = page.done("/api/start", &json!({"ensemble": "w", "input": "go"}))["id"]
            .as_str()
            .expect("an id")
            .to_owned();
        let asked = page
            .follow(&id)
            .until(|_, data| data["head"]["waiting"]["permissions"][0]["permission"]["tool"] == "write");
        let wanted = &asked["head"]["waiting"]["permissions"][0];
        assert_eq!(wanted["permission"]["arguments"], json!({"n": 4}));
        assert_eq!(wanted["address"], "a/write#1");
        let shown = page.answering(&id, "decision", decision);
        let mut other = shown.clone();
        other["address"] = json!("a/write#2");
        assert_eq!(page.post("/api/permit", &other).status, 409);
        let mut nobody = shown.clone();
        nobody["decision"] = json!("nobody");
        assert_eq!(page.post("/api/permit", &nobody).status, 400);
        page.done("/api/permit", &shown);
        let again = page.post("/api/permit", &shown);
        assert_eq!(again.status, 409, "{again:?}");
        assert!(again.body.contains("your answer was not used"), "{again:?}");
        page.follow(&id).until_outcome("completed");
        let written = workspace.path();
        let is_there = written.join("written.txt").exists() || written.join("ensembles/written.txt").exists();
        assert_eq!(is_there, is_written, "{decision}");
    }
}

#[test]
fn a_killed_server_loses_nothing_and_its_clients_find_it_again() {
    let workspace = workspace();
    let page = Page::start(&workspace);
    let (id, port) = (asking(&page), page.port);
    page.server.signal("KILL");
    drop(page);
    let page = Page::start_at(&workspace, port);
    let (name, begin) = page.follow(&id).next();
    assert_eq!(
        (&*name, &begin["head"]["state"], &begin["head"]["can"]["resume"]),
        ("begin", &json!("interrupted"), &json!(true))
    );
    page.done("/api/resume", &json!({"id": id}));
    page.follow(&id)
        .until(|_, data| data["head"]["waiting"]["questions"][0]["agent"] == "editor");
    page.answer(&id, "yes");
    page.follow(&id).until_outcome("completed");
}

#[test]
fn a_run_of_another_process_is_followed_and_left_alone() {
    let workspace = Workspace::new();
    workspace.write(
        "slow.yaml",
        "name: slow\nagents:\n  - {name: first, script: first.rhai}\n  - {name: second, script: wait.sh, depends_on: [first]}\n",
    );
    workspace.write("first.rhai", "#{ x: 1 }");
    workspace.write(
        "wait.sh",
        "touch began; while [ ! -e go ]; do sleep 0.02; done; echo done",
    );
    let page = Page::start(&workspace);
    let running = workspace.spawn(["run", "slow.yaml"]);
    eventually("the second agent", || {
        workspace.path().join("began").exists().then_some(())
    });
    let id = page.get("/api/runs")["runs"][0]["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    let mut events = page.follow(&id);
    let (_, begin) = events.next();
    assert_eq!(
        (&begin["head"]["state"], &begin["head"]["process"]),
        (&json!("running"), &json!(running.0.id()))
    );
    assert_eq!(begin["head"]["can"]["cancel"], json!(false));
    assert_eq!(page.post("/api/cancel", &json!({"id": id})).status, 409);
    workspace.write("go", "");
    events.until(|_, data| {
        data["rows"]
            .as_array()
            .into_iter()
            .flatten()
            .any(|row| row["agent"] == "second" && row["state"] == "done")
    });
    events.until_outcome("completed");
    running.finish().expect_code(0);
}

#[test]
fn forks_and_reruns_begin_new_runs_also_by_the_edited_file() {
    let workspace = workspace();
    workspace.run(["run", "two-drafts"]).expect_code(0);
    let page = Page::start(&workspace);
    let head = page.get("/api/runs")["runs"][0].clone();
    let id = head["id"].as_str().expect("an id");
    let file = page.get(&format!("/api/run?id={id}"))["file"].clone();
    workspace.write("ensembles/two-drafts.yaml", LOOP.replace("better", "much better"));
    for (path, body, expected) in [
        ("/api/fork", json!({"id": id, "turn": 2}), "better"),
        ("/api/rerun", json!({"id": id, "turn": 3, "agent": "writer"}), "better"),
        (
            "/api/rerun",
            json!({"id": id, "turn": 3, "agent": "writer", "file": file}),
            "much better",
        ),
    ] {
        let made = page.done(path, &body)["id"].as_str().expect("an id").to_owned();
        let end = page.follow(&made).until_outcome("completed");
        assert_eq!(end["head"]["forked_from"]["run_id"], id, "{body}");
        let rows = page.get(&format!("/api/rows?id={made}&from=0&count=100"));
        let texts: Vec<&Value> = rows["rows"]
            .as_array()
            .expect("rows")
            .iter()
            .map(|row| &row["text"])
            .collect();
        assert!(texts.contains(&&json!(expected)), "{body}: {texts:?}");
    }
    assert_eq!(page.post("/api/fork", &json!({"id": id, "turn": 99})).status, 409);
}

#[test]
fn a_replay_with_the_edited_file_tells_the_first_difference_and_graphs_go_back() {
    let workspace = workspace();
    workspace.run(["run", "two-drafts"]).expect_code(0);
    let page = Page::start(&workspace);
    let id = page.get("/api/runs")["runs"][0]["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    let file = page.get(&format!("/api/run?id={id}"))["file"].clone();
    let same = page.done("/api/replay", &json!({"id": id, "file": file}));
    assert_eq!((&same["outcome"], &same["compared"]), (&json!("same"), &json!(5)));
    workspace.write(
        "ensembles/two-drafts.yaml",
        LOOP.replace("not output.good", "output.good"),
    );
    assert_eq!(page.done("/api/replay", &json!({"id": id}))["outcome"], "same");
    let edited = page.done("/api/replay", &json!({"id": id, "file": file}));
    assert_eq!((&edited["outcome"], &edited["turn"]), (&json!("diverged"), &json!(3)));
    assert_eq!(
        (&edited["recorded"], &edited["decided"]),
        (&json!("writer"), &json!("the run ends: completed"))
    );
    assert!(
        edited["why"][0]
            .as_str()
            .is_some_and(|why| why.contains("writer does not run")),
        "{edited}"
    );
    let journal = workspace.journal();

    let graph = |turn: &str| {
        page.ask("GET", &format!("/api/graph?id={id}{turn}"), &[&bearer()], "")
            .body
    };
    assert!(graph("").contains("ran 2 times"));
    let before = graph("&turn=2");
    assert!(
        before.contains("ran once") && !before.contains("ran 2 times"),
        "{before}"
    );
    assert!(!graph("&turn=0").contains("ran once"));
    assert_eq!(workspace.journal(), journal, "nothing is written");
}

#[test]
fn the_form_of_an_ensemble_is_made_of_its_inputs() {
    let workspace = Workspace::new();
    workspace.write(
        "ensembles/form.yaml",
        "name: form\ndescription: a form\ninputs:\n  topic: {type: string}\n  lines: {type: integer, default: 3, minimum: 1}\n\
         agents: [{name: a, script: a.rhai}]\n",
    );
    workspace.write("ensembles/a.rhai", "#{ said: inputs.topic + inputs.lines }");
    workspace.write("ensembles/broken.yaml", "name: broken\nagents: [{name: a}]\n");
    let page = Page::start(&workspace);
    let ensembles = page.get("/api/ensembles");
    let form = ensembles
        .as_array()
        .expect("a list")
        .iter()
        .find(|one| one["name"] == "form")
        .expect("the form");
    assert_eq!(form["inputs"][0]["name"], "topic");
    assert_eq!(
        (&form["inputs"][1]["default"], &form["inputs"][1]["schema"]["minimum"]),
        (&json!(3), &json!(1))
    );
    let missing = page.post("/api/start", &json!({"ensemble": "form"}));
    assert_eq!(missing.status, 400, "{missing:?}");
    assert!(missing.body.contains("the input `topic` is missing"), "{missing:?}");
    assert!(workspace.runs().is_empty());
    let id = page.done(
        "/api/start",
        &json!({"ensemble": "form", "values": {"topic": "7", "lines": 5}}),
    )["id"]
        .clone();
    page.follow(id.as_str().expect("an id")).until_outcome("completed");
    let runs = workspace.runs();
    let journal = records(&runs[0].join("journal.jsonl"));
    assert!(
        journal.iter().any(|record| record["data"]["output"]["said"] == "75"),
        "{journal:#?}"
    );
}

#[test]
fn runs_inside_a_run_have_views_of_their_own() {
    let workspace = workspace();
    workspace.write(
        "outer.yaml",
        "name: outer\nagents: [{name: inner, ensemble: ensembles/two-drafts.yaml}, {name: parts, ensemble: ensembles/two-drafts.yaml, for_each: {times: 2}}]\n",
    );
    workspace.run(["run", "outer.yaml"]).expect_code(0);
    let page = Page::start(&workspace);
    let id = page.get("/api/runs")["runs"][0]["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    let detail = page.get(&format!("/api/execution?id={id}&turn=1&agent=inner"));
    assert_eq!(detail["inside"], json!(["inner-1-1"]));
    let detail = page.get(&format!("/api/execution?id={id}&turn=1&agent=parts"));
    assert_eq!(detail["inside"], json!(["parts-1.0-1", "parts-1.1-1"]));
    let head = page.get(&format!("/api/run?id={id}%2Fsub%2Finner-1-1"));
    assert_eq!(
        (&head["ensemble"], &head["rows"], &head["can"]["say"]),
        (&json!("two-drafts"), &json!(9), &json!(false))
    );
}
