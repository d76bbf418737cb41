//! `ensemble mcp`: what a run asks a person, through the client.

use crate::support::mcp_client::{Client, document};
use crate::support::{Workspace, eventually};
use serde_json::{Value, json};

const GATE: &str = "\
name: gate
default_task: Print it.
agents:
  - {name: writer, script: echo a text}
  - {name: editor, input: {prompt: 'Print {{ writer }}?', choices: ['yes', 'no']}, depends_on: [writer]}
result: editor
";
const CAREFUL: &str = "\
name: careful
default_task: Write.
agents:
  - {name: clerk, model_profile: m, tools: [note]}
tools:
  note: {description: Writes a note., script: 'cat > note.json; echo noted', permission: ask, parameters: {type: object}}
model_profiles:
  m: {provider: simulated, replies: [{tool_calls: [{name: note, arguments: {text: \"a\\u001bb\"}}]}, done]}
";

/// The arguments that answer a request of a run.
fn answering(client: &mut Client, run: &Value, address: &str, answer: &str) -> Value {
    let told = client.document("run_status", json!({"run": run}));
    let mut requests = told["requests"].as_array().into_iter().flatten();
    let request = requests.find(|request| request["address"] == address);
    let digest = &request.unwrap_or_else(|| panic!("{address}: {told}"))["digest"];
    json!({"run": run, "address": address, "digest": digest, "answer": answer})
}

/// Answers a request of a run, and returns the state of the run.
fn answer(client: &mut Client, run: &Value, address: &str, text: &str) -> Value {
    let arguments = answering(client, run, address, text);
    client.document("answer_run", arguments)
}

fn forms() -> Value {
    json!({"elicitation": {}})
}

#[test]
fn a_question_waits_where_nobody_can_be_asked_and_answer_run_answers_it() {
    let workspace = Workspace::new();
    workspace.write("gate.yaml", GATE);
    let mut client = Client::start(&workspace, &[], json!({}));
    let told = client.document("gate", json!({}));
    assert_eq!(told["status"], "waiting");
    let question = &told["requests"][0];
    let expected = (&json!("editor"), &json!("Print a text?"), &json!(["yes", "no"]));
    assert_eq!(
        (&question["address"], &question["prompt"], &question["choices"]),
        expected
    );
    let run = &told["run"];
    let shown = answering(&mut client, run, "editor", "yes");
    for (key, value, why) in [
        ("address", "writer", "asks nothing"),
        ("digest", "0000000000000000", "a different question"),
        (
            "answer",
            "maybe",
            "`maybe` is not one of the choices of `editor`: yes, no",
        ),
    ] {
        let mut wrong = shown.clone();
        wrong[key] = json!(value);
        let told = client.refused("answer_run", wrong);
        assert!(told.contains(why), "{told}");
    }
    let told = client.document("answer_run", shown.clone());
    assert_eq!(
        (&told["status"], &told["result"]),
        (&json!("completed"), &json!({"response": "yes"}))
    );
    let told = client.refused("answer_run", shown);
    assert!(
        told.contains("`editor` was answered `yes` by an MCP client (test) at "),
        "{told}"
    );
}

#[test]
fn a_question_outlives_the_server() {
    let workspace = Workspace::new();
    workspace.write("gate.yaml", GATE);
    let mut client = Client::start(&workspace, &[], json!({}));
    let run = client.document("gate", json!({}))["run"].clone();
    client.kill();
    let mut client = Client::start(&workspace, &[], json!({}));
    assert_eq!(
        client.document("run_status", json!({"run": run}))["status"],
        "interrupted"
    );
    // The question was not recorded: the run asks it again.
    client.document("await_run", json!({"run": run}));
    let told = answer(&mut client, &run, "editor", "no");
    assert_eq!(
        (&told["status"], &told["result"]),
        (&json!("completed"), &json!({"response": "no"}))
    );

    // A run that the command line has left waiting.
    workspace.run(["run", "gate.yaml"]);
    let run = client.document("list_runs", json!({"limit": 1}))["runs"][0].clone();
    assert_eq!(run["status"], "waiting");
    let seen = client.document("await_run", json!({"run": run["run"]}));
    assert_eq!(seen["requests"][0]["prompt"], "Print a text?");
    let told = answer(&mut client, &run["run"], "editor", "2");
    assert_eq!(told["result"], json!({"response": "no"}), "the number of a choice");
}

#[test]
fn a_client_with_forms_asks_the_person() {
    let workspace = Workspace::new();
    workspace.write("gate.yaml", GATE);
    let mut client = Client::start(&workspace, &["--wait", "2s"], forms());
    let call = client.begin_call("gate", json!({}));
    let asked = client.hear("elicitation/create");
    assert_eq!(asked["params"]["message"], "editor asks: Print a text?");
    let schema = &asked["params"]["requestedSchema"];
    assert_eq!(schema["properties"]["answer"]["enum"], json!(["yes", "no"]));
    assert_eq!(schema["required"], json!(["answer"]));
    // A person may think for longer than a call waits for a run.
    std::thread::sleep(std::time::Duration::from_millis(2500));
    client.reply(&asked, json!({"action": "accept", "content": {"answer": "yes"}}));
    let told = document(&client.answer(call)["result"]);
    assert_eq!(
        (&told["status"], &told["result"]),
        (&json!("completed"), &json!({"response": "yes"}))
    );
    let journal = workspace.journal();
    let answers = journal.iter().map(|record| &record["data"]["answer"]);
    let answer = answers
        .into_iter()
        .find(|answer| answer.is_object())
        .expect("an answer");
    assert_eq!(
        (&answer["source"], &answer["prompt"], &answer["choices"]),
        (&json!("mcp"), &json!("Print a text?"), &json!(["yes", "no"]))
    );

    // A person who does not want to answer now.
    for action in ["decline", "cancel"] {
        let call = client.begin_call("gate", json!({}));
        let asked = client.hear("elicitation/create");
        client.reply(&asked, json!({"action": action}));
        let told = document(&client.answer(call)["result"]);
        assert_eq!(told["status"], "waiting", "{told}");
    }
}

#[test]
fn a_form_is_withdrawn_when_somebody_else_answers() {
    let workspace = Workspace::new();
    workspace.write("gate.yaml", GATE);
    let mut client = Client::start(&workspace, &[], forms());
    let call = client.begin_call("gate", json!({}));
    let asked = client.hear("elicitation/create");
    let run = client.document("list_runs", json!({}))["runs"][0]["run"].clone();
    assert_eq!(answer(&mut client, &run, "editor", "no")["status"], "completed");
    let withdrawn = client.hear("notifications/cancelled");
    assert_eq!(withdrawn["params"]["requestId"], asked["id"]);
    assert_eq!(
        document(&client.answer(call)["result"])["result"],
        json!({"response": "no"})
    );
}

#[test]
fn calls_that_need_permission_are_asked_for() {
    let workspace = Workspace::new();
    workspace.write("careful.yaml", CAREFUL);
    let noted = || workspace.path().join("note.json").exists();
    let mut client = Client::start(&workspace, &[], forms());
    for (decision, is_made) in [("deny", false), ("once", true)] {
        let call = client.begin_call("careful", json!({}));
        let asked = client.hear("elicitation/create");
        let message = asked["params"]["message"].as_str().expect("a text");
        assert!(
            message.starts_with("May clerk/note#1 call the tool note with {\"text\":\"a"),
            "{message}"
        );
        assert!(!message.contains('\u{1b}'), "{message:?}");
        assert_eq!(
            asked["params"]["requestedSchema"]["properties"]["decision"]["enum"],
            json!(["once", "always", "deny"])
        );
        assert!(!noted(), "before the decision");
        client.reply(&asked, json!({"action": "accept", "content": {"decision": decision}}));
        assert_eq!(document(&client.answer(call)["result"])["status"], "completed");
        assert_eq!(noted(), is_made, "{decision}");
    }
    std::fs::remove_file(workspace.path().join("note.json")).expect("it is there");

    let mut client = Client::start(&workspace, &[], json!({}));
    let told = client.document("careful", json!({}));
    assert_eq!(told["status"], "waiting");
    let wanted = &told["requests"][0];
    assert_eq!(
        (&wanted["agent"], &wanted["permission"]["tool"]),
        (&json!("clerk"), &json!("note"))
    );
    let unclear = answering(&mut client, &told["run"], "clerk/note#1", "yes");
    let why = client.refused("answer_run", unclear);
    assert!(why.contains("not one of the choices: once, always, deny"), "{why}");
    assert!(!noted());
    let told = answer(&mut client, &told["run"], "clerk/note#1", "once");
    assert_eq!(told["status"], "completed");
    assert!(noted());
}

#[test]
fn each_of_several_questions_is_answered_by_its_address() {
    let workspace = Workspace::new();
    workspace.write(
        "two.yaml",
        "name: two\ndefault_task: x\nagents:\n  - {name: a, input: {prompt: A?}}\n  - {name: b, input: {prompt: B?}}\n",
    );
    let mut client = Client::start(&workspace, &[], json!({}));
    let run = client.document("two", json!({}))["run"].clone();
    eventually("both questions", || {
        let told = client.document("run_status", json!({"run": run}));
        (told["requests"].as_array().map(Vec::len) == Some(2)).then_some(())
    });
    let told = answer(&mut client, &run, "b", "1");
    assert_eq!(told["requests"][0]["address"], "a", "{told}");
    let told = answer(&mut client, &run, "a", "2");
    assert_eq!(told["result"]["a"], json!({"response": "2"}), "{told}");
}

#[test]
fn a_client_of_the_newest_revision_repeats_its_call_with_the_answer() {
    let workspace = Workspace::new();
    workspace.write("gate.yaml", GATE);
    let mut client = Client::modern(&workspace, &[], forms());
    let discovered = client.ask("server/discover", json!({}));
    assert!(
        discovered["supportedVersions"].to_string().contains("2026-07-28"),
        "{discovered}"
    );
    let wanted = client.ask("tools/call", json!({"name": "gate", "arguments": {}}));
    assert_eq!(wanted["resultType"], "input_required", "{wanted}");
    let requests = wanted["inputRequests"].as_object().expect("requests");
    let (key, request) = requests.iter().next().expect("a request");
    assert_eq!(request["params"]["message"], "editor asks: Print a text?");
    let state = wanted["requestState"].clone();
    let repeated = |client: &mut Client, answer: Value| {
        let responses = json!({key.as_str(): answer});
        let params = json!({"name": "gate", "arguments": {}, "inputResponses": responses, "requestState": state});
        client.ask("tools/call", params)
    };
    let declined = repeated(&mut client, json!({"action": "decline"}));
    assert_eq!(declined["structuredContent"]["status"], "waiting", "{declined}");
    // The server may be another one meanwhile.
    client.kill();
    let mut client = Client::modern(&workspace, &[], forms());
    let done = repeated(&mut client, json!({"action": "accept", "content": {"answer": "yes"}}));
    assert_eq!(done["resultType"], "complete", "{done}");
    assert_eq!(done["structuredContent"]["result"], json!({"response": "yes"}));
    assert_eq!(workspace.runs().len(), 1, "no second run");

    // Without forms, the question is data.
    let mut client = Client::modern(&workspace, &[], json!({}));
    let told = client.ask("tools/call", json!({"name": "gate", "arguments": {}}));
    assert_eq!(told["structuredContent"]["status"], "waiting", "{told}");
}
