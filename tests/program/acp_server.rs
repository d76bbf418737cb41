//! `ensemble acp`: an ensemble as one agent of a client of the Agent Client Protocol.

use serde_json::{Value, json};

use crate::support::Workspace;
use crate::support::acp_client::Client;

const TALK: &str = "name: talk\nmodel_profiles: {p: {provider: simulated, replies: [first words, second words]}}\nagents:\n  - {name: speaker, \
                    model_profile: p}\n";
const GATE: &str = "name: gate\nmodel_profiles: {p: {provider: simulated, replies: [printed]}}\nagents:\n  - {name: editor, input: {prompt: \"Print it?\"}}\n  \
                    - {name: printer, model_profile: p, depends_on: [editor]}\n";
const SLOW: &str = "name: slow\nagents:\n  - {name: sleeper, script: sleep.sh}\n";

#[test]
fn a_session_is_a_run_that_each_prompt_goes_on_with() {
    let workspace = Workspace::new();
    workspace.write("talk.yaml", TALK);
    let mut client = Client::start(&workspace, "talk.yaml", json!({}));
    let session = client.session(&workspace);
    assert_eq!(client.prompt(&session, "hello")["result"]["stopReason"], "end_turn");
    assert_eq!(client.told("agent_message_chunk"), "first words");
    assert_eq!(client.prompt(&session, "more")["result"]["stopReason"], "end_turn");
    assert!(!client.told("agent_message_chunk").is_empty());
    assert!(workspace.journal()[0]["data"]["run_id"] == session.as_str());

    // Another server tells the same story.
    drop(client);
    let mut client = Client::start(&workspace, "talk.yaml", json!({}));
    let loaded = json!({"sessionId": session, "cwd": workspace.path(), "mcpServers": []});
    assert!(client.ask("session/load", loaded)["result"].is_object());
    assert_eq!(client.told("user_message_chunk"), "hellomore");
}

#[test]
fn a_question_is_a_message_whose_answer_is_the_next_prompt_or_a_form() {
    let workspace = Workspace::new();
    workspace.write("gate.yaml", GATE);
    let mut client = Client::start(&workspace, "gate.yaml", json!({}));
    let session = client.session(&workspace);
    assert_eq!(client.prompt(&session, "go")["result"]["stopReason"], "end_turn");
    assert_eq!(client.told("agent_message_chunk"), "Print it?");
    assert_eq!(client.prompt(&session, "yes")["result"]["stopReason"], "end_turn");
    assert_eq!(client.told("agent_message_chunk"), "printed");

    let mut client = Client::start(&workspace, "gate.yaml", json!({"elicitation": {"form": {}}}));
    let session = client.session(&workspace);
    let prompt = client.begin_prompt(&session, "go");
    let asked = client.asked();
    assert_eq!(asked["method"], "elicitation/create", "{asked}");
    assert_eq!(asked["params"]["message"], "Print it?");
    client.send(
        &json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "accept", "content": {"answer": "yes"}}}),
    );
    assert_eq!(client.answer(prompt)["result"]["stopReason"], "end_turn");
}

#[test]
fn a_form_that_is_closed_stops_the_run_and_the_next_prompt_asks_again() {
    let workspace = Workspace::new();
    workspace.write("gate.yaml", GATE);
    let mut client = Client::start(&workspace, "gate.yaml", json!({"elicitation": {"form": {}}}));
    let session = client.session(&workspace);
    let prompt = client.begin_prompt(&session, "go");
    let asked = client.asked();
    client.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "cancel"}}));
    assert_eq!(client.answer(prompt)["result"]["stopReason"], "cancelled");
    let prompt = client.begin_prompt(&session, "again");
    let asked = client.asked();
    assert_eq!(asked["params"]["message"], "Print it?");
    client.send(
        &json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "accept", "content": {"answer": "yes"}}}),
    );
    assert_eq!(client.answer(prompt)["result"]["stopReason"], "end_turn");
}

#[test]
fn a_prompt_that_asks_ends_when_nobody_else_works() {
    let workspace = Workspace::new();
    workspace.write(
        "both.yaml",
        "name: both\nagents:\n  - {name: editor, input: {prompt: \"Print it?\"}}\n  - {name: worker, script: work.sh}\n",
    );
    workspace.script(
        "work.sh",
        "#!/bin/sh\ncat >/dev/null\nuntil [ -e goes ]; do sleep 0.05; done\necho '{\"said\": \"worked\"}'\n",
    );
    let mut client = Client::start(&workspace, "both.yaml", json!({}));
    let session = client.session(&workspace);
    let prompt = client.begin_prompt(&session, "go");
    client.ask("session/list", json!({"cwd": workspace.path()}));
    workspace.write("goes", "");
    assert_eq!(client.answer(prompt)["result"]["stopReason"], "end_turn");
    for text in ["worked", "Print it?"] {
        let is_told = |update: &Value| update.to_string().contains(text);
        assert!(client.updates.iter().any(is_told), "{text}: {:?}", client.updates);
    }
}

#[test]
fn a_prompt_is_cancelled_at_once_and_the_session_goes_on_also_after_a_kill() {
    let workspace = Workspace::new();
    workspace.write("slow.yaml", SLOW);
    workspace.script(
        "sleep.sh",
        "#!/bin/sh\ncat >/dev/null\n[ -e done ] || { touch begun; sleep 60; }\necho '{\"said\": \"awake\"}'\n",
    );
    let mut client = Client::start(&workspace, "slow.yaml", json!({}));
    let session = client.session(&workspace);
    let begun = workspace.path().join("begun");
    let prompt = client.begin_prompt(&session, "go");
    crate::support::eventually("the script runs", || begun.exists().then_some(()));
    client.send(&json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}}));
    assert_eq!(client.answer(prompt)["result"]["stopReason"], "cancelled");

    std::fs::remove_file(&begun).expect("it is there");
    client.begin_prompt(&session, "again");
    crate::support::eventually("the script runs again", || begun.exists().then_some(()));
    client.kill();
    workspace.write("done", "");
    drop(client);
    let mut client = Client::start(&workspace, "slow.yaml", json!({}));
    let loaded = json!({"sessionId": session, "cwd": workspace.path(), "mcpServers": []});
    client.ask("session/load", loaded);
    client.updates.clear();
    assert_eq!(client.prompt(&session, "/resume")["result"]["stopReason"], "end_turn");
    assert_eq!(client.told("agent_message_chunk"), "awake");
}

#[test]
fn choices_are_options_and_tools_ask_for_permission() {
    let workspace = Workspace::new();
    workspace.write(
        "pick.yaml",
        "name: pick\nagents:\n  - {name: editor, input: {prompt: \"Print it?\", choices: [\"yes\", \"no\"]}}\n",
    );
    let mut client = Client::start(&workspace, "pick.yaml", json!({}));
    let session = client.session(&workspace);
    let prompt = client.begin_prompt(&session, "go");
    let asked = client.asked();
    assert_eq!(asked["method"], "session/request_permission", "{asked}");
    let options = asked["params"]["options"].as_array().expect("options").clone();
    let no = options.iter().find(|option| option["name"] == "no").expect("a choice");
    let chosen = json!({"outcome": {"outcome": "selected", "optionId": no["optionId"]}});
    client.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": chosen}));
    assert_eq!(client.answer(prompt)["result"]["stopReason"], "end_turn");
    assert!(
        workspace
            .journal()
            .iter()
            .any(|record| record["data"]["output"]["response"] == "no")
    );

    workspace.write(
        "careful.yaml",
        "name: careful\nagents:\n  - {name: clerk, model_profile: m, tools: [note]}\ntools:\n  note: {description: Writes a note., \
         script: 'cat > note.json; echo noted', permission: ask, parameters: {type: object}}\nmodel_profiles:\n  \
         m: {provider: simulated, replies: [{tool_calls: [{name: note, arguments: {text: hello}}]}, done]}\n",
    );
    let mut client = Client::start(&workspace, "careful.yaml", json!({}));
    let session = client.session(&workspace);
    let prompt = client.begin_prompt(&session, "go");
    let asked = client.permit();
    assert!(asked.to_string().contains("hello"), "{asked}");
    assert_eq!(client.answer(prompt)["result"]["stopReason"], "end_turn");
    assert!(workspace.path().join("note.json").exists());

    // A cancellation while the permission is open.
    let session = client.session(&workspace);
    let prompt = client.begin_prompt(&session, "go");
    client.asked();
    client.send(&json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}}));
    assert_eq!(client.answer(prompt)["result"]["stopReason"], "cancelled");
}

#[test]
fn questions_are_shown_in_the_order_of_the_file() {
    let workspace = Workspace::new();
    workspace.write(
        "two.yaml",
        "name: two\nagents:\n  - {name: b, input: {prompt: \"Which?\", choices: [\"yes\", \"no\"]}}\n  - {name: a, input: {prompt: \"Who?\"}}\n",
    );
    let mut client = Client::start(&workspace, "two.yaml", json!({}));
    let session = client.session(&workspace);
    let prompt = client.begin_prompt(&session, "go");
    let asked = client.asked();
    assert_eq!(asked["method"], "session/request_permission", "{asked}");
    assert!(!client.updates.iter().any(|update| update.to_string().contains("Who?")));
    let chosen = json!({"outcome": {"outcome": "selected", "optionId": asked["params"]["options"][0]["optionId"]}});
    client.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": chosen}));
    assert_eq!(client.answer(prompt)["result"]["stopReason"], "end_turn");
    assert!(client.updates.iter().any(|update| update.to_string().contains("Who?")));
    client.prompt(&session, "me");
    let outputs = workspace.journal();
    for answer in ["yes", "me"] {
        let is_answered = |record: &Value| record["data"]["output"]["response"] == answer;
        assert!(outputs.iter().any(is_answered), "{answer}: {outputs:?}");
    }
}

#[test]
fn the_last_message_says_which_parts_failed() {
    let workspace = Workspace::new();
    workspace.write(
        "parts.yaml",
        "name: parts\nagents:\n  - {name: each, script: each.rhai, for_each: {in: [1, 2], key: item, on_error: collect}}\n",
    );
    workspace.write("each.rhai", "if item == 1 { throw \"bad\" } \"good\"");
    let mut client = Client::start(&workspace, "parts.yaml", json!({}));
    let session = client.session(&workspace);
    assert_eq!(client.prompt(&session, "go")["result"]["stopReason"], "end_turn");
    let messages = client.told("agent_message_chunk");
    assert!(messages.contains("1 of 2 parts of `each` failed"), "{messages}");
}

#[test]
fn ends_of_runs_are_told_as_they_are() {
    let workspace = Workspace::new();
    workspace.write(
        "loop.yaml",
        "name: loop\nconversation_limits: {max_total_turns: 2}\nagents:\n  - {name: tick, script: tick.rhai, conversation: {trigger: every_turn, max_turns: 9}}\n",
    );
    workspace.write("tick.rhai", "#{ n: execution }");
    workspace.write("bad.yaml", "name: bad\nagents:\n  - {name: breaks, script: bad.rhai}\n");
    workspace.write("bad.rhai", "throw `it broke`;");
    let mut client = Client::start(&workspace, "loop.yaml", json!({}));
    let session = client.session(&workspace);
    assert_eq!(
        client.prompt(&session, "go")["result"]["stopReason"],
        "max_turn_requests"
    );
    let cards = |updates: &[Value]| {
        let updates = updates
            .iter()
            .map(|message| message["params"]["update"]["sessionUpdate"].clone());
        updates.filter(|kind| kind == "tool_call").count()
    };
    assert_eq!(cards(&client.updates), 2, "{:?}", client.updates);
    assert!(
        client
            .updates
            .iter()
            .any(|message| message["params"]["update"]["sessionUpdate"] == "plan")
    );

    let mut client = Client::start(&workspace, "bad.yaml", json!({}));
    let session = client.session(&workspace);
    let failed = client.prompt(&session, "go");
    let message = failed["error"].to_string();
    assert!(message.contains("breaks") && message.contains("it broke"), "{failed}");
    let place = &failed["error"]["data"];
    assert_eq!(
        (&place["run"], &place["outcome"]),
        (&json!(session), &json!("agent_failed")),
        "{failed}"
    );
    assert_eq!(place["failed"], json!({"agent": "breaks", "turn": 1}), "{failed}");

    let listed = client.ask("session/list", json!({"cwd": workspace.path()}));
    assert_eq!(
        listed["result"]["sessions"].as_array().map(Vec::len),
        Some(2),
        "{listed}"
    );
}

#[test]
fn a_folder_offers_its_ensembles_and_models_are_options() {
    let workspace = Workspace::new();
    workspace.write("ensembles/talk.yaml", TALK);
    workspace.write("ensembles/gate.yaml", GATE);
    let mut client = Client::start(&workspace, "ensembles", json!({}));
    let answer = client.ask("session/new", json!({"cwd": workspace.path(), "mcpServers": []}));
    let text = answer.to_string();
    assert!(
        text.contains("talk") && text.contains("gate") && text.contains("configOptions"),
        "{answer}"
    );
}

#[test]
fn a_cancellation_ends_the_prompt_that_it_names_and_no_other() {
    let workspace = Workspace::new();
    workspace.write(
        "slow.yaml",
        "name: slow\nagents:\n  - {name: slow, script: 'while [ ! -e awake ]; do sleep 0.05; done; echo awake'}\n",
    );
    let mut client = Client::start(&workspace, "slow.yaml", json!({}));
    let sessions = [
        client.session(&workspace),
        client.session(&workspace),
        client.session(&workspace),
    ];
    let prompts = sessions.each_ref().map(|session| client.begin_prompt(session, "go"));
    // Another prompt of a session whose prompt goes on.
    let refused = client.prompt(&sessions[0], "more");
    assert_eq!(
        (&refused["error"]["code"], &refused["error"]["message"]),
        (&json!(-32600), &json!("the previous prompt is still running"))
    );
    client.send(&json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": sessions[0]}}));
    assert_eq!(client.answer(prompts[0])["result"]["stopReason"], "cancelled");
    client.send(&json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": prompts[1]}}));
    assert_eq!(client.answer(prompts[1])["result"]["stopReason"], "cancelled");
    workspace.write("awake", "");
    assert_eq!(client.answer(prompts[2])["result"]["stopReason"], "end_turn");
}

#[test]
fn nothing_is_done_before_initialize() {
    let workspace = Workspace::new();
    let mut client = Client::bare(&workspace, ".");
    let answer = client.ask("session/new", json!({"cwd": workspace.path(), "mcpServers": []}));
    assert_eq!(
        (&answer["error"]["code"], &answer["error"]["message"]),
        (&json!(-32600), &json!("the first request must be `initialize`"))
    );
}
