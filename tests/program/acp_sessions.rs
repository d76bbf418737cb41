//! `ensemble acp`: how turns end, what is shown of runs, and what happens to sessions whose client is gone or does not read.

use std::io::Write;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::acp_client::Client;
use crate::support::files::read;
use crate::support::{Workspace, eventually};

/// The stop reason of a first prompt.
fn stop_reason(file: &str, text: &str) -> Value {
    let workspace = Workspace::new();
    workspace.write("hostile.sh", read("tests/acp/hostile.sh"));
    workspace.write(file, text);
    let mut client = Client::start(&workspace, file, json!({}));
    let session = client.session(&workspace);
    client.prompt(&session, "go")["result"]["stopReason"].clone()
}

/// The updates of this kind that came until now.
fn of_kind<'c>(client: &'c Client, kind: &str) -> Vec<&'c Value> {
    let updates = client.updates.iter().map(|message| &message["params"]["update"]);
    updates.filter(|update| update["sessionUpdate"] == kind).collect()
}

/// The texts of the messages with their ids, pieces put together.
fn messages(client: &Client) -> Vec<(String, String)> {
    let mut told: Vec<(String, String)> = Vec::new();
    for update in of_kind(client, "agent_message_chunk") {
        let id = update["messageId"].as_str().expect("an id").to_owned();
        let text = update["content"]["text"].as_str().expect("a text");
        match told.last_mut().filter(|(last, _)| *last == id) {
            Some((_, all)) => all.push_str(text),
            None => told.push((id, text.to_owned())),
        }
    }
    told
}

#[test]
fn limits_and_refusals_are_stop_reasons() {
    let profile = "model_profiles: {p: {provider: simulated, replies: [some words, more words]}}";
    let tokens = format!(
        "name: a\nconversation_limits: {{max_total_tokens: 1}}\n{profile}\nagents:\n  - {{name: a, model_profile: p}}\n  - {{name: b, \
         model_profile: p, depends_on: [a]}}\n"
    );
    assert_eq!(stop_reason("a.yaml", &tokens), "max_tokens");
    let refused =
        "name: c\nagents:\n  - {name: a, acp: {command: sh, args: [hostile.sh, stop, refusal]}, prompt: go}\n";
    assert_eq!(stop_reason("c.yaml", refused), "refusal");
    // No model has refused: the error says what did.
    let workspace = Workspace::new();
    workspace.write("hostile.sh", read("tests/mcp/hostile.sh"));
    workspace.write(
        "d.yaml",
        "name: d\nagents:\n  - {name: a, tool: h.strict, arguments: {n: x}}\ntools:\n  h: {mcp: {command: [sh, hostile.sh]}}\n",
    );
    let mut client = Client::start(&workspace, "d.yaml", json!({}));
    let session = client.session(&workspace);
    let answer = client.prompt(&session, "go");
    assert_eq!(answer["result"], Value::Null, "{answer}");
    let told = answer["error"]["message"].as_str().expect("a text");
    assert!(
        told.starts_with("agent_failed: ") && told.contains("the arguments of `h.strict` are wrong"),
        "{told}"
    );
}

#[test]
fn executions_tools_and_inner_runs_are_cards() {
    let workspace = Workspace::new();
    workspace.write(
        "outer.yaml",
        "name: outer\nagents:\n  - {name: part, ensemble: inner.yaml}\n  - {name: after, script: echo after, depends_on: [part]}\n",
    );
    workspace.write(
        "inner.yaml",
        "name: inner\nagents:\n  - {name: clerk, model_profile: m, tools: [note]}\ntools:\n  note: {description: Writes a note., \
         script: 'cat >/dev/null; echo noted', permission: allow, parameters: {type: object}}\nmodel_profiles:\n  \
         m: {provider: simulated, replies: [{tool_calls: [{name: note, arguments: {text: hello}}]}, inner words]}\n",
    );
    let mut client = Client::start(&workspace, "outer.yaml", json!({}));
    let session = client.session(&workspace);
    assert_eq!(client.prompt(&session, "go")["result"]["stopReason"], "end_turn");
    let cards = of_kind(&client, "tool_call");
    let about = cards.iter().map(|card| (card["title"].as_str(), card["kind"].as_str()));
    let about: Vec<_> = about.collect();
    let expected = [
        ("part", "think"),
        ("clerk", "think"),
        ("note", "other"),
        ("after", "think"),
    ];
    assert_eq!(about, expected.map(|(title, kind)| (Some(title), Some(kind))));
    assert_eq!(cards[0]["toolCallId"], "part#1");
    let inside = cards[1]["toolCallId"].as_str().expect("an id");
    assert!(inside.ends_with("/clerk#1"), "{inside}");
    assert_eq!(cards[2]["rawInput"], json!({"text": "hello"}));
    let updates = of_kind(&client, "tool_call_update");
    let ended = |id: &Value| {
        let mut of = updates.iter().filter(|update| update["toolCallId"] == *id);
        of.next_back().cloned().cloned().unwrap_or_default()
    };
    let note = ended(&cards[2]["toolCallId"]);
    assert_eq!(
        (&note["status"], &note["rawOutput"]),
        (&json!("completed"), &json!("noted"))
    );
    let clerk = ended(&cards[1]["toolCallId"]);
    assert_eq!(clerk["content"][0]["content"]["text"], "inner words");
    let plans = of_kind(&client, "plan");
    let last = plans.last().expect("a plan")["entries"].clone();
    let entry = |name: &str| json!({"content": name, "priority": "medium", "status": "completed"});
    assert_eq!(
        last,
        json!([entry("part"), entry("after")]),
        "the agents of the outer run"
    );
    let said: Vec<String> = messages(&client).into_iter().map(|(_, text)| text).collect();
    assert_eq!(said, ["after"], "only the outer run speaks");

    // Loaded, the outer run and the inner one are told.
    let live = cards
        .iter()
        .map(|card| card["toolCallId"].as_str().expect("an id").to_owned());
    let mut live: Vec<String> = live.collect();
    let mut client = Client::start(&workspace, "outer.yaml", json!({}));
    client.ask(
        "session/load",
        json!({"sessionId": session, "cwd": workspace.path(), "mcpServers": []}),
    );
    let cards = of_kind(&client, "tool_call");
    let loaded = cards
        .iter()
        .map(|card| card["toolCallId"].as_str().expect("an id").to_owned());
    let mut loaded: Vec<String> = loaded.collect();
    live.sort();
    loaded.sort();
    assert_eq!(loaded, live, "the cards have the ids of the live ones");
    let updates = of_kind(&client, "tool_call_update");
    let mut ends = updates.iter().filter(|update| update["status"] == "completed");
    assert!(
        ends.any(|update| update["content"][0]["content"]["text"] == "inner words"),
        "{updates:?}"
    );
    let said: Vec<String> = messages(&client).into_iter().map(|(_, text)| text).collect();
    assert_eq!(said, ["after"], "only the outer run speaks, also when it is told again");
}

#[test]
fn a_loaded_session_has_the_messages_and_the_ids_of_the_live_one() {
    let workspace = Workspace::new();
    workspace.write(
        "gate.yaml",
        "name: gate\nmodel_profiles: {p: {provider: simulated, replies: [printed now]}}\nagents:\n  - {name: editor, input: {prompt: \"Print \
         it?\"}}\n  - {name: printer, model_profile: p, depends_on: [editor]}\n",
    );
    let mut client = Client::start(&workspace, "gate.yaml", json!({"elicitation": {"form": {}}}));
    let session = client.session(&workspace);
    let prompt = client.begin_prompt(&session, "go");
    let asked = client.asked();
    let answer = json!({"action": "accept", "content": {"answer": "yes"}});
    client.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": answer}));
    assert_eq!(client.answer(prompt)["result"]["stopReason"], "end_turn");
    let live = messages(&client);
    let expected = [("editor#1?", "Print it?"), ("printer#1", "printed now")];
    assert_eq!(live, expected.map(|(id, text)| (id.to_owned(), text.to_owned())));
    // The answer was given in a form, so no prompt contains it.
    let heard = of_kind(&client, "user_message_chunk");
    let heard: Vec<_> = heard.iter().map(|update| update["content"]["text"].as_str()).collect();
    assert_eq!(heard, [Some("yes")]);
    drop(client);
    let journal = workspace.journal();
    let mut records = journal.iter().map(|record| &record["data"]["answer"]);
    let recorded = records.find(|answer| answer.is_object()).expect("an answer");
    assert_eq!(
        (&recorded["source"], &recorded["user"]),
        (&json!("acp"), &json!("test")),
        "the client answered"
    );

    let mut client = Client::start(&workspace, "gate.yaml", json!({}));
    let named = json!({"sessionId": session, "cwd": workspace.path(), "mcpServers": []});
    client.ask("session/load", named.clone());
    assert_eq!(messages(&client), live);
    let heard = of_kind(&client, "user_message_chunk");
    let heard: Vec<_> = heard.iter().map(|update| update["content"]["text"].as_str()).collect();
    assert_eq!(heard, [Some("go"), Some("yes")], "the answer is one of the user");

    // Another one is gone on with, without being told.
    client.updates.clear();
    assert!(client.ask("session/resume", named)["result"].is_object());
    assert!(client.updates.is_empty(), "{:?}", client.updates);
    let missing = json!({"sessionId": "none", "cwd": workspace.path(), "mcpServers": []});
    for method in ["session/load", "session/resume"] {
        assert_eq!(client.ask(method, missing.clone())["error"]["code"], -32002, "{method}");
    }
}

#[test]
fn a_closed_session_is_cancelled_and_forgotten() {
    let workspace = Workspace::new();
    workspace.write(
        "slow.yaml",
        "name: slow\nagents: [{name: a, script: 'touch begun; sleep 60'}]\n",
    );
    let mut client = Client::start(&workspace, "slow.yaml", json!({}));
    let session = client.session(&workspace);
    let prompt = client.begin_prompt(&session, "go");
    let begun = workspace.path().join("begun");
    eventually("the script runs", || begun.exists().then_some(()));
    let close = client.begin("session/close", json!({"sessionId": session}));
    // The answers come in any order.
    let is_answer = |message: &Value| message.get("method").is_none();
    let mut answers: Vec<Value> = std::iter::repeat_with(|| client.next())
        .filter(is_answer)
        .take(2)
        .collect();
    answers.sort_by_key(|answer| answer["id"].as_u64());
    let [stopped, closed] = answers.try_into().expect("two");
    assert_eq!((&stopped["id"], &closed["id"]), (&json!(prompt), &json!(close)));
    assert_eq!(stopped["result"]["stopReason"], "cancelled", "{stopped}");
    assert_eq!(closed["result"], json!({}));
    let again = client.prompt(&session, "again");
    assert_eq!(again["error"]["code"], -32002, "{again}");
    let journal = workspace.journal();
    assert_eq!(
        journal.last().expect("records")["data"]["completion_reason"],
        "cancelled"
    );
}

#[test]
fn a_run_whose_client_is_gone_is_cut_short_and_goes_on_later() {
    let workspace = Workspace::new();
    workspace.write(
        "slow.yaml",
        "name: slow\nagents: [{name: a, script: '[ -e done ] || { touch begun; sleep 60; }; echo awake'}]\n",
    );
    let mut client = Client::start(&workspace, "slow.yaml", json!({}));
    let session = client.session(&workspace);
    client.begin_prompt(&session, "go");
    let begun = workspace.path().join("begun");
    eventually("the script runs", || begun.exists().then_some(()));
    client.leave();
    let journal = workspace.journal();
    assert!(
        journal.iter().all(|record| record["event"] != "execution_finished"),
        "{journal:?}"
    );
    workspace.write("done", "");
    let mut client = Client::start(&workspace, "slow.yaml", json!({}));
    let named = json!({"sessionId": session, "cwd": workspace.path(), "mcpServers": []});
    assert!(client.ask("session/load", named)["result"].is_object());
    client.updates.clear();
    assert_eq!(client.prompt(&session, "/resume")["result"]["stopReason"], "end_turn");
    assert_eq!(client.told("agent_message_chunk"), "awake");
}

#[test]
fn a_client_that_does_not_read_holds_up_no_run() {
    let workspace = Workspace::new();
    workspace.write(
        "tick.rhai",
        "let text = \"x\"; text.pad(400, 'x'); #{ text: text, n: execution }",
    );
    workspace.write(
        "loop.yaml",
        "name: loop\nconversation_limits: {max_total_turns: 200}\nagents:\n  - {name: tick, script: tick.rhai, conversation: {trigger: \
         every_turn, max_turns: 200}}\n",
    );
    let mut command = workspace.command(["acp", "loop.yaml"]);
    let child = command.stdin(Stdio::piped()).spawn();
    // Its standard output is a pipe that nobody reads.
    let mut server = crate::support::Running(child.expect("the program starts"));
    let stdin = server.0.stdin.as_mut().expect("a pipe");
    let mut say = |message: Value| writeln!(stdin, "{message}").expect("the server reads");
    say(json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}));
    let mut line = String::new();
    let stdout = server.0.stdout.take().expect("a pipe");
    let mut stdout = std::io::BufReader::new(stdout);
    std::io::BufRead::read_line(&mut stdout, &mut line).expect("an answer");
    let new = json!({"cwd": workspace.path(), "mcpServers": []});
    say(json!({"jsonrpc": "2.0", "id": 2, "method": "session/new", "params": new}));
    line.clear();
    std::io::BufRead::read_line(&mut stdout, &mut line).expect("an answer");
    let answer: Value = serde_json::from_str(&line).expect("a frame");
    let session = answer["result"]["sessionId"].clone();
    let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": "go"}]});
    say(json!({"jsonrpc": "2.0", "id": 3, "method": "session/prompt", "params": prompt}));
    eventually("the run ends", || {
        let path = workspace.runs().first()?.join("journal.jsonl");
        let journal = path.strip_prefix(workspace.path()).ok()?.to_str()?;
        let is_there = path.is_file() && workspace.read(journal).contains("run_ended");
        is_there.then_some(())
    });
    // The client reads nothing and is gone: the server ends all the same.
    drop(server.0.stdin.take());
    eventually("the server ends", || server.0.try_wait().expect("it is ours"));
}

#[test]
fn chosen_models_and_ensembles_are_those_of_the_run() {
    let workspace = Workspace::new();
    workspace.write(
        "ensembles/remote.yaml",
        "name: remote\nmodel_profiles: {p: {provider: openai, model: big, base_url: 'http://127.0.0.1:9'}}\nagents: [{name: a, model_profile: p}]\n",
    );
    workspace.write(
        "ensembles/other.yaml",
        "name: other\nagents: [{name: b, script: echo other}]\n",
    );
    let mut client = Client::start(&workspace, "ensembles", json!({}));
    let session = client.session(&workspace);
    let choose = |client: &mut Client, id: &str, value: &str| {
        let chosen = json!({"sessionId": session, "configId": id, "value": value});
        client.ask("session/set_config_option", chosen)
    };
    let options = choose(&mut client, "ensemble", "remote")["result"]["configOptions"].clone();
    let about = &options[1];
    assert_eq!(
        (&about["id"], &about["currentValue"]),
        (&json!("model:p"), &json!("as_written"))
    );
    assert_eq!(about["category"], "model");
    let values: Vec<_> = about["options"]
        .as_array()
        .expect("values")
        .iter()
        .map(|value| value["name"].as_str())
        .collect();
    assert_eq!(values, [Some("openai/big"), Some("simulated")]);
    let options = choose(&mut client, "model:p", "simulated")["result"]["configOptions"].clone();
    assert_eq!(options[1]["currentValue"], "simulated");
    for (id, value) in [
        ("model:p", "ollama/none"),
        ("model:none", "simulated"),
        ("ensemble", "none"),
    ] {
        assert_eq!(choose(&mut client, id, value)["error"]["code"], -32602, "{id} {value}");
    }
    assert_eq!(client.prompt(&session, "go")["result"]["stopReason"], "end_turn");
    assert_eq!(workspace.journal()[0]["data"]["ensemble"], "remote");
    // What has begun is another ensemble no more.
    assert_eq!(choose(&mut client, "ensemble", "other")["error"]["code"], -32602);
}

#[test]
fn the_plan_begins_anew_with_each_prompt_and_the_usage_is_that_of_the_session() {
    let workspace = Workspace::new();
    workspace.write(
        "a.yaml",
        "name: a\nconversation_limits: {max_total_tokens: 100000}\nmodel_profiles: {p: {provider: simulated, replies: [some words]}}\nagents:\n  \
         - {name: a, model_profile: p}\n  - {name: b, model_profile: p, depends_on: [a]}\n",
    );
    let mut client = Client::start(&workspace, "a.yaml", json!({}));
    let session = client.session(&workspace);
    client.prompt(&session, "go");
    let used: Vec<u64> = of_kind(&client, "usage_update")
        .iter()
        .map(|update| update["used"].as_u64().expect("a number"))
        .collect();
    let journal = workspace.journal();
    let ended = journal.iter().filter(|record| record["event"] == "execution_finished");
    let tokens = ended.map(|record| {
        let count = |key: &str| record["data"]["usage"][key].as_u64().expect("a number");
        count("input_tokens") + count("output_tokens")
    });
    let tokens: Vec<u64> = tokens.collect();
    assert_eq!(used, [tokens[0], tokens[0] + tokens[1]]);
    client.updates.clear();
    client.prompt(&session, "and more");
    let statuses = |plan: &Value| {
        let entries = plan["entries"].as_array().expect("entries").iter();
        entries.map(|entry| entry["status"].clone()).collect::<Vec<Value>>()
    };
    let plans = of_kind(&client, "plan");
    assert_eq!(statuses(plans[0]), ["pending", "pending"], "{:?}", plans[0]);
    assert_eq!(statuses(plans.last().expect("plans")), ["completed", "completed"]);
}

#[test]
fn a_loaded_session_tells_the_text_before_calls_with_an_id_for_each_message() {
    let workspace = Workspace::new();
    workspace.write(
        "a.yaml",
        "name: a\nmodel_profiles: {p: {provider: simulated, replies: [{text: I look, tool_calls: [{name: look}]}, {text: once more, \
         tool_calls: [{name: look}]}, I have seen it]}}\ntools: {look: {script: 'echo seen', permission: allow, parameters: {type: object}}}\n\
         agents:\n  - {name: a, model_profile: p, tools: [look]}\n  - {name: team, ensemble: inner.yaml, depends_on: [a]}\n\
         \x20 - {name: b, acp: simulated, depends_on: [a], prompt: go, permissions: {execute: allow}, config: {replies: [{thought: hm, \
         steps: [{execute: make, text: made}], text: done}]}}\n",
    );
    workspace.write("inner.yaml", "name: inner\nagents: [{name: i, script: echo i}]\n");
    let mut client = Client::start(&workspace, "a.yaml", json!({}));
    let session = client.session(&workspace);
    assert_eq!(client.prompt(&session, "go")["result"]["stopReason"], "end_turn");
    // Agents that have listeners do not speak for the ensemble: only the cards of `a` are shown.
    let live = messages(&client);
    let metas = |client: &Client| -> Vec<Value> {
        let kinds = ["agent_message_chunk", "agent_thought_chunk", "tool_call"];
        let updates = kinds.iter().flat_map(|kind| of_kind(client, kind));
        updates.map(|update| update["_meta"]["ensemble"].clone()).collect()
    };
    for expected in [
        json!({"agent": "a", "execution": 1}),
        json!({"agent": "b", "execution": 1}),
        json!({"agent": "i", "execution": 1, "nested": ["team@1"]}),
    ] {
        let found = metas(&client);
        let same = |meta: &Value| meta["agent"] == expected["agent"] && meta["execution"] == 1;
        assert!(found.iter().any(same), "{expected}: {found:?}");
        assert!(
            found
                .iter()
                .all(|meta| meta["agent"] != "i" || meta["nested"].is_array()),
            "{found:?}"
        );
    }
    drop(client);
    let mut client = Client::start(&workspace, "a.yaml", json!({}));
    let loaded = json!({"sessionId": session, "cwd": workspace.path(), "mcpServers": []});
    assert!(client.ask("session/load", loaded)["result"].is_object());
    assert_eq!(messages(&client), live);
    assert!(
        live.iter().any(|(id, text)| id.starts_with("b#1") && text == "done"),
        "{live:?}"
    );

    let alone = workspace.read("a.yaml");
    let alone = alone.split("  - {name: team").next().expect("a part");
    workspace.write("b.yaml", alone);
    let mut client = Client::start(&workspace, "b.yaml", json!({}));
    let session = client.session(&workspace);
    assert_eq!(client.prompt(&session, "go")["result"]["stopReason"], "end_turn");
    let live = messages(&client);
    let expected = [("a#1", "I look"), ("a#1.2", "once more"), ("a#1.3", "I have seen it")];
    assert_eq!(live, expected.map(|(id, text)| (id.to_owned(), text.to_owned())));
    drop(client);
    let mut client = Client::start(&workspace, "b.yaml", json!({}));
    let loaded = json!({"sessionId": session, "cwd": workspace.path(), "mcpServers": []});
    assert!(client.ask("session/load", loaded)["result"].is_object());
    assert_eq!(messages(&client), live);
}
