//! Agents that call one tool of an MCP server without a model.

#![expect(clippy::disallowed_methods, reason = "a test looks at what a server has written")]

use crate::support::editor::Editor;
use crate::support::exchange::tool_calls;
use crate::support::files::read;
use crate::support::terminal::Terminal;
use crate::support::{Outcome, Workspace, eventually, records};
use serde_json::{Value, json};

/// A workspace whose agent `a` calls this tool of the server `h`; `more`: keys of the server.
fn workspace(agent: &str, more: &str) -> Workspace {
    let workspace = Workspace::new();
    workspace.write("hostile.sh", read("tests/mcp/hostile.sh"));
    workspace.write(
        "a.yaml",
        format!(
            "name: called\nagents:\n  - {{name: a, {agent}}}\ntools:\n  h: {{timeout_seconds: 3, mcp: {{command: [sh, hostile.sh]}}, {more}}}\n"
        ),
    );
    workspace
}

fn allowed(agent: &str) -> Workspace {
    workspace(agent, "permission: allow")
}

fn run(workspace: &Workspace) -> Outcome {
    workspace.run(["run", "a.yaml", "-i", "hello", "--output", "json"])
}

fn output(outcome: &Outcome) -> Value {
    outcome.json()["conversation_history"][0]["output_data"].clone()
}

#[test]
fn the_result_of_a_tool_is_the_output_and_the_call_is_recorded() {
    for (tool, expected) in [
        ("right", json!({"n": 1})),
        ("json", json!({"n": 1})),
        ("grow", json!({"response": "grown"})),
    ] {
        let agent =
            format!("tool: h.{tool}, arguments: {{q: '{{{{ input }}}}', n: '{{{{ 2 + 3 }}}}', deep: [{{x: 1}}]}}");
        let workspace = allowed(&agent);
        let outcome = run(&workspace).expect_code(0);
        assert_eq!(output(&outcome), expected, "{tool}");
        let calls: Vec<Value> = tool_calls(&workspace.journal(), "a", 1).into_iter().flatten().collect();
        assert_eq!(calls.len(), 1, "{calls:?}");
        assert_eq!(calls[0]["name"], format!("h.{tool}"));
        assert_eq!(calls[0]["arguments"], json!({"q": "hello", "n": 5, "deep": [{"x": 1}]}));
        let heard = workspace.read("heard.txt");
        assert_eq!(
            heard.lines().filter(|line| line.contains("tools/call")).count(),
            1,
            "{heard}"
        );
    }
}

#[test]
fn what_goes_wrong_is_a_failure_with_its_kind() {
    for (agent, kind, error) in [
        (
            "tool: h.rigth",
            "unavailable",
            "has no tool `rigth`; did you mean `right`? it has: die, huge",
        ),
        (
            "tool: h.strict, arguments: {n: one}",
            "refusal",
            "the arguments of `h.strict` are wrong: ",
        ),
        (
            "tool: h.broken",
            "unavailable",
            "the schema of `h.broken` from its server cannot be used: ",
        ),
        ("tool: h.wrong", "reported", "does not match its `outputSchema`"),
        (
            "tool: h.die",
            "reported",
            "the server closed the connection before it answered",
        ),
        ("tool: h.stubborn", "timeout", "timed out after 3 s"),
        (
            "tool: h.right, output_schema: {type: object, required: [m]}",
            "schema",
            "\"m\" is a required property",
        ),
    ] {
        let outcome = run(&allowed(agent)).expect_code(1);
        let output = output(&outcome);
        assert_eq!(output["kind"], kind, "{agent}: {output}");
        let told = output["error"].as_str().unwrap_or_default();
        assert!(told.contains(error), "{agent}: {told}");
    }
    let small = workspace("tool: h.env", "permission: allow, max_result_bytes: 1");
    let output = output(&run(&small).expect_code(1));
    assert_eq!(output["kind"], "output_too_large", "{output}");
}

/// What another attempt cannot mend is not attempted again; a server may have its tool later.
#[test]
fn wrong_arguments_are_not_attempted_again() {
    for (tool, kind, attempts) in [("strict", "refusal", 1), ("rigth", "unavailable", 3)] {
        for parts in ["", ", for_each: {in: [1]}"] {
            let agent = format!("tool: h.{tool}, retry: {{max_attempts: 3, delay_seconds: 0}}{parts}");
            let workspace = allowed(&agent);
            let outcome = run(&workspace).expect_code(1);
            let journal = workspace.journal();
            let failed = journal
                .iter()
                .filter(|record| record["data"]["failure"]["kind"] == kind && record["data"]["attempt"].is_u64());
            let last = failed.filter_map(|record| record["data"]["attempt"].as_u64()).max();
            assert_eq!(last, Some(attempts), "{agent}: {journal:?}");
            assert_eq!(calls(&workspace), 0, "{agent}");
            // The rule is the same when the records are read: with attempts after a failure of this kind, and without.
            let id = outcome.json()["run_id"].as_str().unwrap_or_default().to_owned();
            workspace.run(["replay", &id]).expect_code(0);
        }
    }
}

#[test]
fn without_a_person_the_run_waits_for_the_permission() {
    let workspace = workspace("tool: h.right, retry: {max_attempts: 3, delay_seconds: 0}", "");
    run(&workspace).expect_code(3);
    assert!(!workspace.read("heard.txt").contains("tools/call"));
    let refused = workspace
        .run(["run", "a.yaml", "--deny-tool", "h", "--output", "json"])
        .expect_code(1);
    assert_eq!(output(&refused)["kind"], "refusal", "{}", output(&refused));
    let allowed = workspace
        .run(["run", "a.yaml", "--allow-tool", "h.right", "--output", "json"])
        .expect_code(0);
    assert_eq!(output(&allowed), json!({"n": 1}));
}

#[test]
fn a_replay_starts_no_server_and_parts_call_their_tool() {
    let workspace = allowed("tool: h.right, arguments: {q: '{{ item }}'}, for_each: {in: [1, 2]}");
    let outcome = run(&workspace).expect_code(0);
    assert_eq!(output(&outcome)["items"], json!([{"n": 1}, {"n": 1}]));
    assert_eq!(
        workspace.read("starts.txt").lines().count(),
        1,
        "one server for both parts"
    );
    let id = outcome.json()["run_id"].as_str().unwrap_or_default().to_owned();
    workspace.run(["replay", &id]).expect_code(0);
    assert_eq!(workspace.read("starts.txt").lines().count(), 1);
}

fn calls(workspace: &Workspace) -> usize {
    let heard = std::fs::read_to_string(workspace.path().join("heard.txt")).unwrap_or_default();
    heard.lines().filter(|line| line.contains("tools/call")).count()
}

/// A call that was under way may have taken effect.
#[test]
fn a_call_that_was_cut_short_is_made_again_only_if_it_is_repeatable() {
    for (agent, more, all, kind) in [
        (
            "tool: h.slow, retry: {max_attempts: 3, delay_seconds: 0}",
            "",
            1,
            "refusal",
        ),
        ("tool: h.slow", ", repeatable: true", 2, "timeout"),
    ] {
        let workspace = workspace(agent, &format!("permission: allow{more}"));
        let running = workspace.spawn(["run", "a.yaml", "--quiet"]);
        eventually("the call", || (calls(&workspace) == 1).then_some(()));
        running.signal("KILL");
        running.finish();
        let resumed = workspace.run(["resume", "--last", "--output", "json"]).expect_code(1);
        let output = output(&resumed);
        assert_eq!(output["kind"], kind, "{more}: {output}");
        let told = output["error"].as_str().unwrap_or_default();
        let is_told = told.contains("the interrupted call of `h.slow` was not repeated");
        assert_eq!(is_told, all == 1, "{more}: {told}");
        assert_eq!(calls(&workspace), all, "{more}");
    }
}

/// Wherever the process is killed, the call is made at most once, and a result that is recorded is the output.
#[test]
fn a_call_is_made_at_most_once_wherever_the_process_is_killed() {
    let agent = "tool: h.right";
    let whole = allowed(agent);
    run(&whole).expect_code(0);
    let has_ended = |journal: &[Value]| journal.iter().any(|record| record["event"] == "tool_call_ended");
    assert!(has_ended(&whole.journal()));
    let mut results = 0;
    for append in 2..=whole.journal().len() {
        let workspace = allowed(agent);
        let mut command = workspace.command(["run", "a.yaml", "-i", "hello", "--quiet"]);
        command.env("ENSEMBLE_FAULT", format!("synced:{append}"));
        assert!(!command.status().expect("it runs").success(), "{append}");
        let before = records(&workspace.runs()[0].join("journal.jsonl"));
        let resumed = workspace.run(["resume", "--last", "--output", "json"]);
        assert!(calls(&workspace) <= 1, "{append}");
        if has_ended(&before) {
            assert_eq!((resumed.code, output(&resumed)), (0, json!({"n": 1})), "{append}");
            results += 1;
        } else if resumed.code != 0 {
            assert_eq!(output(&resumed)["kind"], "refusal", "{append}: {}", resumed.stdout);
        }
    }
    assert!(results > 0);
}

/// There is no model of which replies could be told.
#[test]
fn a_run_that_is_stopped_in_the_call_says_so() {
    let workspace = allowed("tool: h.slow");
    let running = workspace.spawn(["run", "a.yaml"]);
    eventually("the call", || (calls(&workspace) == 1).then_some(()));
    running.signal("INT");
    let told = running.finish().expect_code(130).stderr;
    assert!(told.contains("  a was interrupted during its tool call\n"), "{told}");
}

#[test]
fn a_stub_takes_the_place_of_the_call() {
    let workspace = allowed("tool: h.right");
    let outcome = workspace
        .run(["run", "a.yaml", "--stub", "a={\"n\": 4}", "--output", "json"])
        .expect_code(0);
    assert_eq!(output(&outcome), json!({"n": 4}));
    workspace.write(
        "a.test.yaml",
        "cases:\n  - {name: one, stubs: {a: {json: {n: 5}}}, expect: {outputs: {a: {n: 5}}}}\n",
    );
    workspace.run(["test", "a.test.yaml"]).expect_code(0);
    assert!(!workspace.path().join("starts.txt").exists(), "no server is started");
}

/// What is called is what the author wrote: no text of others is a name or a template, and no server permits itself.
#[test]
fn no_text_decides_what_is_called_and_no_server_permits_its_call() {
    let named_by_input = allowed("tool: 'h.{{ input }}'");
    let outcome = named_by_input.run(["run", "a.yaml", "-i", "right", "--output", "json"]);
    let told = output(&outcome.expect_code(1));
    assert!(
        told["error"].to_string().contains("has no tool `{{ input }}`"),
        "{told}"
    );
    assert_eq!(calls(&named_by_input), 0);
    let workspace = allowed("tool: h.right, arguments: {q: '{{ input }}', '{{ input }}': 1}");
    let text = "{{ 2 + 3 }} \", {\"tool\": \"h.die\"}";
    workspace.run(["run", "a.yaml", "-i", text]).expect_code(0);
    let made = tool_calls(&workspace.journal(), "a", 1);
    let made: Vec<Value> = made.into_iter().flatten().collect();
    assert_eq!(made.len(), 1, "{made:?}");
    assert_eq!(made[0]["arguments"], json!({"q": text, "{{ input }}": 1}));
    // A tool that says that it only reads needs the permission, too.
    let reads = workspace_that_asks("tool: h.reads");
    let waits = run(&reads).expect_code(3);
    assert_eq!(waits.json()["completion_reason"], "waiting_for_input");
    assert_eq!(calls(&reads), 0);
    reads
        .run(["resume", "--last", "--allow-tool", "h.reads"])
        .expect_code(0);
    assert_eq!(calls(&reads), 1);
}

fn workspace_that_asks(agent: &str) -> Workspace {
    workspace(agent, "permission: ask")
}

/// A model that has such an agent as a tool chooses the arguments that its templates read, and not the call.
#[test]
fn a_model_that_asks_such_an_agent_needs_the_permission_of_the_server() {
    let workspace = Workspace::new();
    workspace.write("hostile.sh", read("tests/mcp/hostile.sh"));
    workspace.write(
        "a.yaml",
        "name: asked\nagents:\n  - {name: bot, model_profile: m, tools: [fetch]}\n  - {name: a, tool: h.right, arguments: {q: '{{ parameters.q }}'}}\n\
         tools:\n  fetch: {agent: a, description: it fetches, parameters: {type: object}}\n  h: {mcp: {command: [sh, hostile.sh]}}\n\
         model_profiles:\n  m: {provider: simulated, replies: [{tool_calls: [{name: fetch, arguments: {q: x, tool: h.die}}]}, done]}\n",
    );
    let waits = run(&workspace).expect_code(3);
    assert!(waits.stdout.contains("h.right"), "{}", waits.stdout);
    assert_eq!(calls(&workspace), 0);
    workspace
        .run(["resume", "--last", "--allow-tool", "h.right"])
        .expect_code(0);
    let heard = workspace.read("heard.txt");
    let made: Vec<&str> = heard.lines().filter(|line| line.contains("tools/call")).collect();
    assert_eq!(made.len(), 1, "{heard}");
    assert!(
        made[0].contains("\"name\":\"right\"") && made[0].contains("\"arguments\":{\"q\":\"x\"}"),
        "{heard}"
    );
}

/// Each call is permitted by a person, who sees all arguments; `always` holds for the other calls of the run.
#[test]
fn a_person_at_the_terminal_permits_a_call_or_refuses_it() {
    let agent = "tool: h.right, arguments: {q: '{{ item }}'}, for_each: {in: [1, 2, 3], max_parallel: 1}";
    for (typed, code, expected, decisions) in [
        (&["y", "n"][..], 1, 1, &["once", "denied"][..]),
        (&["a"], 0, 3, &["always"]),
    ] {
        let workspace = workspace(agent, "");
        let mut terminal = Terminal::open(&workspace, &["run", "a.yaml"], &[("NO_COLOR", "1")]);
        for (at, answer) in typed.iter().enumerate() {
            terminal.wait_for(&format!(
                "a[{at}]/h.right#1 asks: may the tool `h.right` be called with {{\"q\":{}}}?",
                at + 1
            ));
            terminal.wait_for("3  always in this run");
            terminal.wait_for("> ");
            assert_eq!(calls(&workspace), at, "nothing is called before it is permitted");
            terminal.type_in(&format!("{answer}\n"));
        }
        let (ended, text) = terminal.finish();
        assert_eq!(ended, code, "{text}");
        assert_eq!(calls(&workspace), expected, "{text}");
        let journal = workspace.journal();
        let decided: Vec<&str> = journal
            .iter()
            .filter(|record| record["event"] == "permission_decided")
            .filter_map(|record| record["data"]["decision"].as_str())
            .take(decisions.len())
            .collect();
        assert_eq!(decided, decisions, "{text}");
    }
}

/// A second run with a part of the first one: what was called is not called again, and what is called is asked about again.
#[test]
fn a_fork_and_a_rerun_keep_the_call_or_make_it_anew() {
    let workspace = Workspace::new();
    workspace.write("hostile.sh", read("tests/mcp/hostile.sh"));
    workspace.write("b.rhai", "#{ m: dependencies.a.n + 1 }");
    workspace.write(
        "a.yaml",
        "name: called\nagents:\n  - {name: a, tool: h.right}\n  - {name: b, script: b.rhai, depends_on: [a]}\ntools:\n  h: {mcp: \
         {command: [sh, hostile.sh]}}\n",
    );
    let allowed = ["run", "a.yaml", "--allow-tool", "h", "--output", "json"];
    let first = workspace.run(allowed).expect_code(0).json()["run_id"].clone();
    let first = first.as_str().expect("an id");
    assert_eq!(calls(&workspace), 1);
    for again in [
        &["fork", first, "--at-turn", "1", "--output", "json"][..],
        &["rerun", first, "--from", "b@2", "--output", "json"],
    ] {
        let outcome = workspace.run(again).expect_code(0);
        assert_eq!(outcome.json()["final_state"]["m"], 2, "{again:?}");
        assert_eq!(calls(&workspace), 1, "{again:?}: the result is that of the first run");
    }
    // The permission of the first run is not that of another run.
    for again in [
        &["fork", first, "--at-turn", "0"][..],
        &["rerun", first, "--from", "a@1"],
    ] {
        workspace.run(again).expect_code(3);
        assert_eq!(calls(&workspace), 1, "{again:?}");
    }
    for (nth, again) in [
        &["fork", first, "--at-turn", "0", "--allow-tool", "h", "--output", "json"][..],
        &["rerun", first, "--from", "a@1", "--allow-tool", "h", "--output", "json"],
    ]
    .iter()
    .enumerate()
    {
        let outcome = workspace.run(*again).expect_code(0).json();
        assert_eq!(outcome["final_state"]["m"], 2, "{again:?}");
        assert_eq!(calls(&workspace), nth + 2, "{again:?}");
        let id = outcome["run_id"].as_str().expect("an id").to_owned();
        workspace.run(["replay", &id]).expect_code(0);
        assert_eq!(calls(&workspace), nth + 2, "a replay calls nothing");
    }
}

#[test]
fn an_editor_offers_the_servers() {
    let workspace = allowed("tool: h.right");
    let text = workspace.read("a.yaml");
    let mut editor = Editor::start(&workspace);
    editor.open("a.yaml", &text);
    let line = text
        .lines()
        .position(|line| line.contains("tool: h"))
        .expect("the line");
    let column = text
        .lines()
        .nth(line)
        .and_then(|line| line.find("h.right"))
        .expect("the name");
    let params = editor.at("a.yaml", line, column);
    let offered = editor.ask("textDocument/completion", params);
    let labels: Vec<&str> = offered
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|item| item["label"].as_str())
        .collect();
    assert_eq!(labels, ["h."]);
    editor.end();
}
