//! `ensemble mcp` over standard input and output: ensembles as tools, runs that outlive their calls, and help for authors.

use crate::support::mcp_client::{Client, document};
use crate::support::{Workspace, eventually};
use serde_json::{Value, json};

const REPORT: &str = "\
name: report
description: Writes a report.
inputs:
  topic: {type: string, description: What it is about.}
  parts: {type: integer, minimum: 1, default: 2}
agents:
  - name: writer
    model_profile: fake
    prompt: \"{{ inputs.topic }} in {{ inputs.parts }}\"
    output_schema: {type: object, additionalProperties: false, required: [text], properties: {text: {type: string}}}
result: writer
model_profiles:
  fake: {provider: simulated, replies: ['{\"text\": \"calm\"}']}
";
/// It ends when there is a file `go`.
const SLOW: &str = "name: slow\ndefault_task: wait\nagents:\n  - {name: waiter, script: 'echo x >> begun; until [ -e go ]; do sleep 0.05; done; echo done'}\n  \
                    - {name: last, script: 'echo end', depends_on: [waiter]}\n";

fn tools(client: &mut Client) -> Vec<Value> {
    client.ask("tools/list", json!({}))["tools"]
        .as_array()
        .expect("tools")
        .clone()
}

fn names(tools: &[Value]) -> Vec<&str> {
    tools.iter().filter_map(|tool| tool["name"].as_str()).collect()
}

fn begun(workspace: &Workspace) {
    eventually("the script", || workspace.path().join("begun").exists().then_some(()));
}

/// Do the values match the schemas of the tool?
#[track_caller]
fn matches(schema: &Value, value: &Value) {
    let validator = jsonschema::validator_for(schema).expect("a schema");
    let errors: Vec<String> = validator.iter_errors(value).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}\n{value:#}");
}

#[test]
fn each_ensemble_of_the_folder_is_a_typed_tool() {
    let workspace = Workspace::new();
    workspace.write("report.yaml", REPORT);
    workspace.write(
        "ensembles/two words.yaml",
        "name: w\nagents: [{name: a, script: echo a}]\n",
    );
    workspace.write(
        "list_runs.yaml",
        "name: taken\ndefault_task: x\nagents: [{name: a, script: echo a}]\n",
    );
    workspace.write(
        "broken.yaml",
        "name: broken\nagents: [{name: a, script: x, depends_on: [b]}]\n",
    );
    workspace.write("notes.yaml", "this: is no ensemble\n");
    let mut client = Client::start(&workspace, &[], json!({}));
    let tools = tools(&mut client);
    let names = names(&tools);
    let qualified = names[0]
        .strip_prefix("list_runs-")
        .expect("the name of a tool of the server");
    assert!(qualified.len() == 12, "{qualified}");
    assert_eq!(names[1..4], ["report", "two_words", "run_status"]);
    assert_eq!(names.len(), 3 + 12, "{names:?}");
    let report = &tools[1];
    assert!(
        report["description"]
            .as_str()
            .is_some_and(|text| text.starts_with("Writes a report.")),
        "{report}"
    );
    let input = &report["inputSchema"];
    assert_eq!(input["required"], json!(["topic"]));
    assert_eq!(
        input["properties"]["topic"],
        json!({"type": "string", "description": "What it is about."})
    );
    assert_eq!(input["properties"]["parts"]["default"], 2);
    assert_eq!(input["additionalProperties"], false);
    assert_eq!(
        tools[2]["inputSchema"]["required"],
        json!(["input"]),
        "nothing is known without a task"
    );
    assert_eq!(tools[0]["inputSchema"]["properties"]["input"]["default"], "x");
    for tool in &tools {
        let validator = jsonschema::meta::validate(&tool["inputSchema"]);
        assert!(validator.is_ok(), "{tool}");
    }

    let result = client.call("report", json!({"topic": "the sea"}));
    assert_eq!(result["isError"], false, "{result}");
    let told = document(&result);
    assert_eq!(
        (&told["status"], &told["result"]["text"]),
        (&json!("completed"), &json!("calm"))
    );
    matches(&report["outputSchema"], &told);
    let mut wrong = told.clone();
    wrong["result"] = json!({"text": 5});
    assert!(
        !jsonschema::is_valid(&report["outputSchema"], &wrong),
        "the result is typed"
    );
    assert_eq!(
        client.progress(),
        ["turn 1: writer", "writer has finished", "ended: completed"]
    );
    let started = &workspace.journal()[0]["data"];
    assert_eq!(started["inputs"], json!({"topic": "the sea", "parts": 2}));

    for (arguments, says) in [
        (json!({}), "the input `topic` is missing (string)"),
        (
            json!({"topic": "x", "parts": 0}),
            "the input `parts` does not match its schema",
        ),
        (
            json!({"topic": "x", "tropic": 1}),
            "there is no input `tropic`; did you mean `topic`?",
        ),
        (json!({"topic": "x", "input": 1}), "`input` is not a string"),
    ] {
        let why = client.refused("report", arguments);
        assert!(why.contains(says), "{why}");
    }
    assert!(
        client
            .refused("two_words", json!({"input": "x", "y": 1}))
            .contains("there is no argument `y`")
    );
    let id = client.begin_call("nothing", json!({}));
    assert_eq!(client.answer(id)["error"]["code"], -32602);
    assert_eq!(workspace.runs().len(), 1, "a refused call begins no run");

    let (code, said) = client.end();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("serving 3 ensembles of "), "{said}");
    assert!(said.contains("warning: broken.yaml is not served: 1 error"), "{said}");
}

#[test]
fn only_the_served_folder_is_reached() {
    let workspace = Workspace::new();
    workspace.write("outside/secret.yaml", REPORT);
    workspace.write("served/report.yaml", REPORT);
    workspace.write("served/ensembles/inner.yaml", REPORT);
    let link = |to: &str, from: &str| {
        std::os::unix::fs::symlink(workspace.path().join(to), workspace.path().join(from)).expect("a link");
    };
    link("outside/secret.yaml", "served/linked.yaml");
    workspace.write(".ensemble/notes", "");
    workspace.write("ensembles/above.yaml", REPORT);
    let mut client = Client::start(&workspace, &["served"], json!({}));
    let tools = tools(&mut client);
    assert_eq!(
        names(&tools)[..3],
        ["inner", "report", "run_status"],
        "the root of the project is above"
    );
    let secret = workspace.path().join("outside/secret.yaml").display().to_string();
    for given in [
        "../outside/secret.yaml",
        "linked.yaml",
        "linked",
        "above",
        secret.as_str(),
    ] {
        for tool in ["validate", "check", "graph", "estimate"] {
            let why = client.refused(tool, json!({"ensemble": given}));
            assert!(why.contains("served folder"), "{tool} {given}: {why}");
        }
    }
    // The runs of the project are in one place, and those of other folders are nobody's business.
    workspace
        .run(["run", "ensembles/above.yaml", "--set", "topic=x"])
        .expect_code(0);
    let above = workspace.journal()[0]["data"]["run_id"].clone();
    for tool in ["run_status", "await_run", "resume_run", "cancel_run"] {
        let why = client.refused(tool, json!({"run": above}));
        assert!(why.contains("there is no run"), "{why}");
    }
    assert_eq!(client.document("list_runs", json!({}))["runs"], json!([]));
    assert!(
        client
            .refused("estimate", json!({"ensemble": "report"}))
            .contains("no run of this ensemble")
    );
    assert!(
        client
            .refused("estimate", json!({"ensemble": "report", "run": above}))
            .contains("there is no run")
    );

    client.document("report", json!({"topic": "x"}));
    let run = workspace.runs().pop().expect("a run");
    for given in [run.display().to_string(), ".ensemble/runs".to_owned(), "..".to_owned()] {
        let why = client.refused("run_status", json!({"run": given}));
        assert!(why.contains("there is no run"), "{why}");
    }
}

#[test]
fn a_call_waits_for_a_bounded_time_and_the_run_goes_on() {
    let workspace = Workspace::new();
    workspace.write("slow.yaml", SLOW);
    let mut client = Client::start(&workspace, &["--wait", "1s"], json!({}));
    let told = client.document("slow", json!({}));
    assert_eq!(told["status"], "running");
    assert!(
        told["next"].as_str().is_some_and(|next| next.contains("await_run")),
        "{told}"
    );
    let run = json!({"run": told["run"]});
    assert_eq!(client.document("run_status", run.clone())["status"], "running");
    let waited = client.document("await_run", json!({"run": told["run"], "wait_seconds": 0.1}));
    assert_eq!(waited["status"], "running");
    assert_eq!(client.document("list_runs", json!({}))["runs"][0]["status"], "running");
    workspace.write("go", "");
    client.progress();
    let waited = eventually("the end", || {
        let waited = client.document("await_run", run.clone());
        (waited["status"] != "running").then_some(waited)
    });
    assert_eq!(waited["status"], "completed", "{waited}");
    assert_eq!(
        waited["result"]["last"],
        json!({"response": "end"}),
        "without a `result`, the context"
    );
    assert_eq!(client.document("run_status", run.clone())["result"], waited["result"]);
    assert_eq!(client.document("await_run", run)["status"], "completed", "at once");
    assert!(
        client
            .refused("await_run", json!({"run": told["run"], "wait_seconds": -1}))
            .contains("wait_seconds")
    );
}

#[test]
fn a_cancelled_call_stops_its_run_and_a_cancelled_wait_does_not() {
    let workspace = Workspace::new();
    workspace.write("slow.yaml", SLOW);
    let mut client = Client::start(&workspace, &[], json!({}));
    let call = client.begin_call("slow", json!({}));
    begun(&workspace);
    let run = client.document("list_runs", json!({}))["runs"][0]["run"].clone();

    let wait = client.begin_call("await_run", json!({"run": run}));
    client.tell(
        "notifications/cancelled",
        json!({"requestId": wait, "reason": "enough"}),
    );
    assert_eq!(client.document("run_status", json!({"run": run}))["status"], "running");

    client.tell(
        "notifications/cancelled",
        json!({"requestId": call, "reason": "enough"}),
    );
    let told = eventually("the cancellation", || {
        let told = client.document("run_status", json!({"run": run}));
        (told["status"] == "cancelled").then_some(told)
    });
    assert!(
        told["next"].as_str().is_some_and(|next| next.contains("resume_run")),
        "{told}"
    );
    let interrupted = workspace
        .journal()
        .into_iter()
        .find(|record| record["event"] == "interrupted");
    assert_eq!(interrupted.expect("it is recorded")["data"]["by"], "an MCP client");
    assert_eq!(
        client.document("await_run", json!({"run": run}))["status"],
        "cancelled",
        "a wait resumes no cancelled run"
    );

    workspace.write("go", "");
    let told = client.document("resume_run", json!({"run": run}));
    assert_eq!(told["status"], "completed", "{told}");
    assert_eq!(
        client.document("resume_run", json!({"run": run, "message": "again"}))["status"],
        "completed"
    );
    assert!(
        client
            .refused("cancel_run", json!({"run": run}))
            .contains("nothing to cancel")
    );
    assert!(client.refused("resume_run", json!({"run": run})).contains("has ended"));
}

#[test]
fn cancel_run_stops_a_run_that_another_call_has_begun() {
    let workspace = Workspace::new();
    workspace.write("slow.yaml", SLOW);
    let mut client = Client::start(&workspace, &[], json!({}));
    let call = client.begin_call("slow", json!({}));
    begun(&workspace);
    let run = client.document("list_runs", json!({}))["runs"][0]["run"].clone();
    assert_eq!(
        client.document("cancel_run", json!({"run": run}))["status"],
        "cancelled"
    );
    let result = client.answer(call)["result"].clone();
    assert_eq!(document(&result)["status"], "cancelled");
    assert_eq!(result["isError"], true);
}

#[test]
fn a_failed_run_says_why() {
    let workspace = Workspace::new();
    workspace.write(
        "bad.yaml",
        "name: bad\ndefault_task: x\nagents: [{name: a, script: 'echo no >&2; exit 3'}]\n",
    );
    let mut client = Client::start(&workspace, &[], json!({}));
    let result = client.call("bad", json!({}));
    assert_eq!(result["isError"], true);
    let told = document(&result);
    assert_eq!(told["status"], "agent_failed");
    assert!(
        told["error"].as_str().is_some_and(|error| error.starts_with("a: ")),
        "{told}"
    );
}

#[test]
fn a_killed_server_loses_no_run() {
    let workspace = Workspace::new();
    workspace.write("slow.yaml", SLOW);
    let mut client = Client::start(&workspace, &[], json!({}));
    client.begin_call("slow", json!({}));
    begun(&workspace);
    client.kill();

    let mut client = Client::start(&workspace, &["--wait", "1s"], json!({}));
    let listed = client.document("list_runs", json!({}))["runs"][0].clone();
    assert_eq!(listed["status"], "interrupted", "{listed}");
    let run = json!({"run": listed["run"]});
    assert_eq!(
        client.document("run_status", run.clone())["status"],
        "interrupted",
        "a look resumes nothing"
    );
    assert_eq!(client.document("await_run", run.clone())["status"], "running");
    // The end of the input is the end of the server, and leaves the run as a kill does.
    assert_eq!(client.end().0, Some(0));

    workspace.write("go", "");
    let mut client = Client::start(&workspace, &[], json!({}));
    let told = client.document("await_run", run);
    assert_eq!(told["status"], "completed", "{told}");
    assert_eq!(workspace.runs().len(), 1);
    let resumed = workspace
        .journal()
        .iter()
        .filter(|record| record["event"] == "run_resumed")
        .count();
    assert_eq!(resumed, 2);
    let replayed = workspace.run(["replay", "--last"]);
    assert_eq!(replayed.code, 0, "{}", replayed.stderr);
}

#[test]
fn a_run_of_another_process_is_followed_and_not_driven() {
    let workspace = Workspace::new();
    workspace.write("slow.yaml", SLOW);
    let mut client = Client::start(&workspace, &["--wait", "1s"], json!({}));
    let other = workspace.spawn(["run", "slow.yaml"]);
    begun(&workspace);
    let run = client.document("list_runs", json!({}))["runs"][0]["run"].clone();
    assert_eq!(client.document("await_run", json!({"run": run}))["status"], "running");
    assert!(
        client
            .refused("cancel_run", json!({"run": run}))
            .contains("executes run")
    );
    workspace.write("go", "");
    other.finish().expect_code(0);
    assert_eq!(client.document("await_run", json!({"run": run}))["status"], "completed");
}

#[test]
fn tools_appear_when_files_do() {
    let workspace = Workspace::new();
    let mut client = Client::start(&workspace, &[], json!({}));
    let before = tools(&mut client);
    assert_eq!(names(&before)[0], "run_status");
    workspace.write("report.yaml", REPORT);
    client.hear("notifications/tools/list_changed");
    let after = tools(&mut client);
    assert_eq!(names(&after)[0], "report");
}

#[test]
fn a_client_of_the_newest_revision_subscribes_to_changes() {
    let workspace = Workspace::new();
    let mut client = Client::modern(&workspace, &[], json!({}));
    client.begin(
        "subscriptions/listen",
        json!({"notifications": {"toolsListChanged": true}}),
    );
    client.hear("notifications/subscriptions/acknowledged");
    workspace.write("report.yaml", REPORT);
    client.hear("notifications/tools/list_changed");
}

#[test]
fn authors_are_helped_and_nothing_runs() {
    let workspace = Workspace::new();
    workspace.write("report.yaml", REPORT);
    workspace.write(
        "broken.yaml",
        "name: broken\nagents: [{name: a, script: x, depends_on: [b]}]\n",
    );
    let mut client = Client::start(&workspace, &[], json!({}));
    let text = |client: &mut Client, tool: &str, arguments: Value| {
        client.call(tool, arguments)["content"][0]["text"]
            .as_str()
            .expect("a text")
            .to_owned()
    };
    assert_eq!(
        text(&mut client, "schema", json!({})),
        workspace.run(["schema", "--skill"]).stdout
    );
    assert_eq!(
        text(&mut client, "schema", json!({"form": "json"})),
        workspace.run(["schema"]).stdout
    );
    assert_eq!(
        text(&mut client, "schema", json!({"form": "tests"})),
        workspace.run(["schema", "--tests"]).stdout
    );
    assert_eq!(
        text(&mut client, "explain", json!({"code": "e021"})),
        workspace.run(["explain", "E021"]).stdout
    );
    for format in ["mermaid", "ascii", "dot", "svg"] {
        let drawn = text(&mut client, "graph", json!({"ensemble": "report", "format": format}));
        assert_eq!(
            drawn,
            workspace.run(["graph", "report.yaml", "--output", format]).stdout
        );
    }
    assert!(text(&mut client, "graph", json!({"text": REPORT})).contains("writer"));

    let broken = client.document("validate", json!({"text": workspace.read("broken.yaml")}));
    let of_file = client.document("validate", json!({"ensemble": "broken.yaml"}));
    let of_all = client.document("validate", json!({}));
    assert_eq!(
        (&broken["valid"], &broken["diagnostics"][0]["code"]),
        (&json!(false), &json!("E021"))
    );
    assert_eq!(of_all, of_file, "the only one that is broken");
    let by_command = workspace.run(["validate", "--output", "json", "broken.yaml"]).json();
    assert_eq!(of_file["diagnostics"], by_command["diagnostics"]);
    assert_eq!(client.document("validate", json!({"text": REPORT}))["valid"], true);

    let checked = client.document("check", json!({"ensemble": "report"}));
    assert_eq!(checked["ends"][0]["completion_reason"], "completed", "{checked}");
    assert_eq!(
        client.document("check", json!({"text": REPORT}))["ends"],
        checked["ends"]
    );
    assert!(
        client
            .refused("check", json!({"text": "name: x\nagents: []"}))
            .contains("E018")
    );
    assert!(client.refused("check", json!({})).contains("give `ensemble` or `text`"));
    assert!(
        client
            .refused("explain", json!({"code": "E2"}))
            .contains("there is no code")
    );
    assert!(workspace.runs().is_empty());

    let run = client.document("report", json!({"topic": "x"}))["run"].clone();
    let estimated = client.document("estimate", json!({"ensemble": "report", "run": run}));
    assert_eq!(estimated, client.document("estimate", json!({"ensemble": "report"})));
    let by_command = workspace
        .run(["estimate", "report.yaml", "--last", "--output", "json"])
        .json();
    assert_eq!(estimated, by_command);
}

#[test]
fn an_ensemble_that_is_not_trusted_does_not_run() {
    let workspace = Workspace::new();
    let text = "name: keyed\ndefault_task: x\nagents: [{name: a, model_profile: m}]\nmodel_profiles:\n  m: {provider: openai, model: x, \
                base_url: 'http://127.0.0.1:1/', api_key_env: HOME}\n";
    workspace.write("keyed.yaml", text);
    let mut command = workspace.command(["mcp"]);
    command.env_remove("ENSEMBLE_TRUST");
    let mut client = Client::bare(command);
    client.ask(
        "initialize",
        json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}),
    );
    assert!(client.refused("keyed", json!({})).contains("is not trusted"));
    assert!(workspace.runs().is_empty());
}

#[test]
fn what_is_no_message_is_answered_and_no_reason_to_end() {
    let workspace = Workspace::new();
    workspace.write(
        "loud.yaml",
        "name: loud\ndefault_task: x\nagents: [{name: a, script: 'echo out; echo err >&2'}]\n",
    );
    let mut client = Client::start(&workspace, &[], json!({}));
    client.write("this is no JSON");
    client.write("[]");
    let told = client.document("loud", json!({}));
    assert_eq!(told["status"], "completed");
    let stray = client.wait("nothing that is no message", |message| {
        message.get("not a message").is_some() || message["id"] == 99 || message["error"].is_object()
    });
    assert!(stray["error"].is_object(), "{stray}");

    let mut client = Client::bare(workspace.command(["mcp"]));
    client.write(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    let (code, said) = client.end();
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("standard input is not valid in the Model Context Protocol"),
        "{said}"
    );
    assert_eq!(
        Client::bare(workspace.command(["mcp"])).end().0,
        Some(0),
        "a client that says nothing"
    );
    workspace.run(["mcp", "nowhere"]).expect_code(2);
}

#[test]
fn a_new_file_does_not_take_over_the_tool_of_another_ensemble() {
    let workspace = Workspace::new();
    let ensemble = |says: &str| format!("name: r\ndefault_task: x\nagents: [{{name: a, script: echo {says}}}]\n");
    workspace.write(".ensemble/ensembles/review.yaml", ensemble("mine"));
    let mut client = Client::start(&workspace, &[], json!({}));
    let before = tools(&mut client);
    assert_eq!(names(&before)[0], "review");
    // Each of these files would be found first, or has the same name with other characters.
    for newcomer in ["review.yaml", "review.yml", "Review.yaml"] {
        workspace.write(newcomer, ensemble("theirs"));
        let mut client = Client::start(&workspace, &[], json!({}));
        let after = tools(&mut client);
        let after_names = names(&after);
        assert!(
            !after_names.contains(&"review") && !after_names.contains(&"Review"),
            "{newcomer}: {after_names:?}"
        );
        let told = |file: &str| {
            let mut described = after
                .iter()
                .filter(|tool| tool["description"].to_string().contains(file));
            described
                .next()
                .and_then(|tool| tool["name"].as_str())
                .map(str::to_owned)
        };
        let mine = told("Its file is .ensemble/ensembles/review.yaml:").expect("it is served under another name");
        let result = client.ask("tools/call", json!({"name": mine, "arguments": {}}));
        assert!(result.to_string().contains("mine"), "{newcomer}: {result}");
        std::fs::remove_file(workspace.path().join(newcomer)).expect("removed");
    }
}
