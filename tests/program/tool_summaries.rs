//! Large results of tools, which a model summarizes before the asking model receives them.

use serde_json::{Value, json};

use crate::support::acp_client::Client;
use crate::support::editor::Editor;
use crate::support::server::{Server, says};
use crate::support::{Workspace, eventually};

/// A script that shows what its model received last: the results of the calls.
const SHOWN: &str = "let last = messages[messages.len() - 1]; let calls = last.get(\"tool_calls\", []);\n\
                     if calls.is_empty() { #{ tool_calls: [#{ name: \"find\", arguments: #{ word: prompt } }] } } else { let all = \"\"; for made in calls { all += `${made}`; } all }";

/// An ensemble whose agent `a` calls the tool `find`; `tool`: the keys of the tool.
fn workspace(tool: &str, more: &str) -> Workspace {
    let workspace = Workspace::new();
    workspace.write(
        "a.yaml",
        format!(
            "name: a\nagents:\n  - {{name: a, model_profile: m, tools: [find], prompt: \"{{{{ input }}}}\"}}\ntools:\n  find: {{permission: \
             allow, {tool}}}\nmodel_profiles:\n  m: {{provider: simulated, script: shown.rhai}}\n  brief: {{provider: simulated, replies: \
             [in short]}}\n{more}"
        ),
    );
    workspace.write("shown.rhai", SHOWN);
    workspace.write(
        "long.rhai",
        "let text = \"\"; for n in 0..300 { text += `line ${n} `; } text",
    );
    workspace
}

/// A tool whose result has 2590 bytes.
const LONG: &str = "script: long.rhai, parameters: {type: object}";

fn run(workspace: &Workspace) -> Value {
    let outcome = workspace.run(["run", "a.yaml", "-i", "hello", "--output", "json"]);
    outcome.expect_code(0).json()
}

/// The calls that ended, as the journal has them.
fn ended_calls(workspace: &Workspace) -> Vec<Value> {
    let journal = workspace.journal();
    let ended = journal.iter().filter(|record| record["event"] == "tool_call_ended");
    ended.map(|record| record["data"].clone()).collect()
}

fn answer(result: &Value) -> &str {
    result["final_state"]["response"].as_str().expect("a text")
}

#[test]
fn acp_a_large_result_is_summarized_recorded_and_replayed() {
    let workspace = workspace(&format!("{LONG}, summarize_above: 1000, summarize_with: brief"), "");
    let result = run(&workspace);
    let heard = answer(&result);
    assert!(
        heard.contains("[a summary of the result, which has 2590 bytes]") && heard.contains("in short"),
        "{heard}"
    );
    assert!(!heard.contains("line 150"), "{heard}");
    assert_eq!(result["usage"]["requests"], 3, "{}", result["usage"]);
    assert_eq!(result["usage"]["by_tools"], 0);
    let ended = ended_calls(&workspace);
    assert_eq!(ended.len(), 1);
    let call = &ended[0]["call"];
    assert!(
        call["result"].as_str().is_some_and(|text| text.contains("line 150")),
        "{call}"
    );
    assert_eq!(call["summary"]["result_bytes"], 2590);
    assert_eq!(
        call["summary"]["model"], "simulated",
        "a simulated model has no further name"
    );
    assert_eq!(call["summary"]["usage"]["output_tokens"], 2);
    assert_eq!(call["summary"]["usage"]["requests"], 1);
    assert!(
        call["summary"]["usage"]["input_tokens"].as_u64() > Some(700),
        "it has read the result"
    );
    assert_eq!(ended[0]["usage"]["requests"], 1, "the call contains what it has paid");
    assert_eq!(ended[0]["usage"]["output_tokens"], 2);

    // Nothing is left of the model.
    workspace.write(
        "a.yaml",
        workspace.read("a.yaml").replace("[in short]", "[{error: gone}]"),
    );
    let replayed = workspace
        .run(["replay", "--last", "--output", "json"])
        .expect_code(0)
        .json();
    assert_eq!(answer(&replayed), heard);

    let shown = workspace
        .run(["runs", "show", "--last", "--messages"])
        .expect_code(0)
        .stdout;
    assert!(shown.contains("in short") && !shown.contains("line 150"), "{shown}");
    assert!(
        shown.contains("a summary by simulated, sent instead of the result of 2590 bytes"),
        "{shown}"
    );
    let shown = workspace.run(["runs", "show", "--last", "--messages", "--output", "json"]);
    let shown = shown.expect_code(0).stdout;
    assert!(shown.contains("in short") && shown.contains("line 150"), "both");

    // A later message of the conversation sends the summary again.
    workspace.write(
        "shown.rhai",
        "let all = \"\"; for one in messages { all += `${one}`; } all",
    );
    let later = workspace.run(["continue", "--last", "and now?", "--output", "json"]);
    let later = later.expect_code(0).json();
    assert!(
        answer(&later).contains("in short") && !answer(&later).contains("line 150"),
        "{later}"
    );
    assert_eq!(later["usage"]["requests"], 4, "without another summary");
}

#[test]
fn a_small_result_and_an_error_are_sent_as_they_are() {
    for (tool, sent) in [
        (
            format!("{LONG}, summarize_above: 2590, summarize_with: brief"),
            "line 150",
        ),
        (
            "script: 'echo no >&2; exit 3', parameters: {type: object}, summarize_above: 1, summarize_with: brief"
                .to_owned(),
            "exit",
        ),
    ] {
        let workspace = workspace(&tool, "");
        let result = run(&workspace);
        assert!(answer(&result).contains(sent), "{result}");
        assert_eq!(result["usage"]["requests"], 2);
        assert!(ended_calls(&workspace)[0]["call"].get("summary").is_none());
    }
}

#[test]
fn the_agents_own_model_summarizes_by_default_and_uses_up_no_replies_of_the_agent() {
    let workspace = workspace(&format!("{LONG}, summarize_above: 1000"), "");
    let replies = "replies: [{tool_calls: [{name: find}]}, {tool_calls: [{name: find}]}, my own words, more words]";
    workspace.write(
        "a.yaml",
        workspace.read("a.yaml").replace("script: shown.rhai", replies),
    );
    let result = run(&workspace);
    assert_eq!(answer(&result), "my own words", "the third reply of the agent");
    let usage = &result["usage"];
    assert_eq!((&usage["requests"], &usage["summaries"]), (&json!(5), &json!(2)));
    let texts: Vec<String> = ended_calls(&workspace)
        .iter()
        .map(|ended| ended["call"]["summary"]["text"].as_str().expect("a text").to_owned())
        .collect();
    assert!(
        texts[0].ends_with("\nmy own words") && texts[1].ends_with("\nmore words"),
        "{texts:?}"
    );
    workspace.run(["replay", "--last"]).expect_code(0);
}

#[test]
fn summaries_have_their_own_numbers_also_in_later_messages_and_in_tests() {
    let tool = format!("{LONG}, summarize_above: 1000, summarize_with: brief");
    let workspace = workspace(&tool, "");
    let calls = "{tool_calls: [{name: find}]}";
    let text = workspace
        .read("a.yaml")
        .replace("[in short]", "[one, two, three]")
        .replace(
            "script: shown.rhai",
            &format!("replies: [{calls}, {calls}, first, {calls}, second]"),
        );
    workspace.write("a.yaml", text);
    let outcome = workspace.run(["run", "a.yaml", "-i", "hello", "--then", "again", "--output", "json"]);
    let result = outcome.expect_code(0).json();
    assert_eq!(answer(&result), "second");
    let texts: Vec<String> = ended_calls(&workspace)
        .iter()
        .map(|ended| ended["call"]["summary"]["text"].as_str().expect("a text").to_owned())
        .collect();
    let ends: Vec<bool> = texts
        .iter()
        .zip(["\none", "\ntwo", "\nthree"])
        .map(|(text, end)| text.ends_with(end))
        .collect();
    assert_eq!(ends, [true; 3], "{texts:?}");
    workspace.run(["replay", "--last"]).expect_code(0);

    // The replies of a stub are those of the agent, and the simulated model summarizes.
    workspace.write(
        "a.test.yaml",
        "ensemble: a.yaml\ncases:\n  - name: one call\n    input: hello\n    stubs:\n      a: {replies: [{tool: find, \
         arguments: {}}, {text: done}]}\n    expect: {outputs: {a: done}, warnings: []}\n",
    );
    let tested = workspace.run(["test", "a.yaml"]);
    let told = format!("{}{}", tested.stdout, tested.stderr);
    tested.expect_code(0);
    assert!(told.contains("1 passed"), "{told}");
}

#[test]
fn parallel_summaries_get_different_replies() {
    let tool = format!("{LONG}, summarize_above: 1000, summarize_with: brief");
    let workspace = workspace(&tool, "");
    let text = workspace
        .read("a.yaml")
        .replace("[in short]", "[one, two, three]")
        .replace(
            "script: shown.rhai",
            "replies: [{tool_calls: [{name: find}, {name: find}, {name: find}]}, done]",
        );
    workspace.write("a.yaml", text);
    run(&workspace);
    let mut texts: Vec<String> = ended_calls(&workspace)
        .iter()
        .filter_map(|ended| {
            ended["call"]["summary"]["text"]
                .as_str()?
                .lines()
                .last()
                .map(str::to_owned)
        })
        .collect();
    texts.sort();
    assert_eq!(texts, ["one", "three", "two"]);
}

#[test]
fn agents_ensembles_and_servers_as_tools_are_summarized_alike() {
    let helper = "  - {name: helper, script: long.rhai}\n";
    let server = r#"#!/bin/sh
say() { printf '%s\n' "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":$1}"; }
while IFS= read -r line; do
    id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
    case "$line" in
    *'"method":"initialize"'*) say '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}' ;;
    *'"method":"tools/list"'*) say '{"tools":[{"name":"it","description":"d","inputSchema":{"type":"object"}}]}' ;;
    *'"method":"tools/call"'*) say "{\"content\":[{\"type\":\"text\",\"text\":\"$(seq -s ' ' 1 800)\"}]}" ;;
    esac
done
"#;
    for (tool, name, hidden) in [
        ("agent: helper", "find", "line 150"),
        ("ensemble: inner.yaml", "find", "line 150"),
        ("mcp: {command: [./server.sh]}", "find__it", "400"),
    ] {
        let workspace = workspace(&format!("{tool}, summarize_above: 500, summarize_with: brief"), "");
        workspace.script("server.sh", server);
        workspace.write("inner.yaml", "name: inner\nagents: [{name: i, script: long.rhai}]\n");
        workspace.write(
            "a.yaml",
            workspace
                .read("a.yaml")
                .replace("\ntools:\n", &format!("\n{helper}tools:\n")),
        );
        let script = SHOWN.replace("\"find\"", &format!("\"{name}\""));
        workspace.write(
            "shown.rhai",
            script.replace("word: prompt", if name == "find" { "input: prompt" } else { "" }),
        );
        let result = run(&workspace);
        let heard = result["final_state"]["a"]["response"].as_str().expect("a text");
        assert!(heard.contains("in short") && !heard.contains(hidden), "{tool}: {heard}");
        let call = &ended_calls(&workspace)[0]["call"];
        assert!(call["result"].to_string().contains(hidden), "{tool}: {call}");
    }
}

#[test]
fn without_a_summary_the_beginning_and_the_end_are_sent_with_the_reason() {
    for (reply, reason) in [
        ("{error: overloaded}", "overloaded"),
        ("''", "the model's reply is empty"),
    ] {
        let workspace = workspace(&format!("{LONG}, summarize_above: 100, summarize_with: brief"), "");
        workspace.write(
            "a.yaml",
            workspace.read("a.yaml").replace("[in short]", &format!("[{reply}]")),
        );
        let result = run(&workspace);
        let heard = answer(&result);
        assert!(
            heard.contains("2590 bytes and could not be summarized") && heard.contains(reason),
            "{heard}"
        );
        assert!(
            heard.contains("line 0") && heard.contains("line 299") && !heard.contains("line 150"),
            "{heard}"
        );
        let warnings = result["warnings"].to_string();
        assert!(
            warnings.contains("was not summarized") && warnings.contains(reason),
            "{warnings}"
        );
        let call = &ended_calls(&workspace)[0]["call"];
        assert!(
            call["summary"]["error"]
                .as_str()
                .is_some_and(|error| error.contains(reason)),
            "{call}"
        );
        assert_eq!(result["usage"]["requests"], 3, "the request that failed is counted");
        assert_eq!(result["usage"]["summaries"], 1);
        workspace.run(["replay", "--last"]).expect_code(0);
    }
}

#[test]
fn a_summary_is_never_longer_than_the_limit_and_its_model_reads_no_more_than_the_maximum() {
    let tool = format!("{LONG}, summarize_above: 60, max_result_bytes: 500, summarize_with: brief");
    let workspace = workspace(&tool, "");
    let text = workspace
        .read("a.yaml")
        .replace("replies: [in short]", "script: brief.rhai");
    workspace.write("a.yaml", text);
    workspace.write(
        "brief.rhai",
        "let rest = \"\"; rest.pad(500, 'x'); `${prompt.contains(\"line 150\")} ${rest}`",
    );
    let result = run(&workspace);
    let heard = answer(&result);
    assert!(heard.contains("which has 2590 bytes"), "the whole size: {heard}");
    assert!(heard.contains("bytes are left out here"), "{heard}");
    assert!(heard.contains("false"), "the middle was not read: {heard}");
    let sent = ended_calls(&workspace)[0]["call"]["summary"]["text"]
        .as_str()
        .map(str::len);
    assert!(sent < Some(200), "{sent:?}");
}

#[test]
fn the_bytes_that_are_left_out_are_those_of_the_whole_result() {
    for (above, most) in [(100, 500), (500, 100)] {
        let tool = format!("{LONG}, summarize_above: {above}, max_result_bytes: {most}, summarize_with: brief");
        let workspace = workspace(&tool, "");
        let text = workspace.read("a.yaml").replace("[in short]", "[{error: overloaded}]");
        workspace.write("a.yaml", text);
        let result = run(&workspace);
        let heard = answer(&result);
        assert!(heard.contains("the result has 2590 bytes"), "{heard}");
        assert!(heard.contains("[2490 of 2590 bytes are left out here]"), "{heard}");
        assert_eq!(heard.matches("left out here").count(), 1, "{heard}");
    }
}

#[test]
fn acp_a_client_is_told_that_a_result_was_not_summarized() {
    let workspace = workspace(&format!("{LONG}, summarize_above: 1000, summarize_with: brief"), "");
    let text = workspace.read("a.yaml").replace("[in short]", "[{error: overloaded}]");
    workspace.write("a.yaml", text);
    let said = |client: &Client| -> String {
        let updates = client.updates.iter().map(|message| &message["params"]["update"]);
        updates
            .filter(|update| update["sessionUpdate"] == "agent_message_chunk")
            .filter_map(|update| update["content"]["text"].as_str())
            .collect()
    };
    let told =
        "a result of the tool find was not summarized: overloaded; the model received its beginning and its end\n";
    let mut client = Client::start(&workspace, "a.yaml", json!({}));
    let session = client.session(&workspace);
    assert_eq!(client.prompt(&session, "go")["result"]["stopReason"], "end_turn");
    let live = said(&client);
    assert_eq!(live.matches(told).count(), 1, "{live}");
    drop(client);
    let mut client = Client::start(&workspace, "a.yaml", json!({}));
    let named = json!({"sessionId": session, "cwd": workspace.path(), "mcpServers": []});
    assert!(client.ask("session/load", named)["result"].is_object());
    assert_eq!(said(&client), live);
}

#[test]
fn the_usage_of_a_summary_counts_in_budgets() {
    // A budget that is used up before pays for no summary.
    for (limit, requests, error) in [(300, 2, Value::Null), (1, 1, json!("`max_total_tokens` is used up"))] {
        let limits = format!("conversation_limits: {{max_total_tokens: {limit}}}\n");
        let workspace = workspace(
            &format!("{LONG}, summarize_above: 1000, summarize_with: brief"),
            &limits,
        );
        let outcome = workspace.run(["run", "a.yaml", "-i", "hello", "--output", "json"]);
        let result = outcome.expect_code(1).json();
        let detail = &result["detail"];
        assert!(detail.to_string().contains("max_total_tokens"), "{detail}");
        assert_eq!(result["usage"]["requests"], requests, "the model was not asked again");
        assert_eq!(ended_calls(&workspace)[0]["call"]["summary"]["error"], error);
    }
}

#[test]
fn secrets_in_a_result_and_in_its_summary_are_redacted() {
    let server = Server::new(|_, _| says("it says sk-hidden-1234567890"));
    let workspace = workspace(
        "script: 'echo \"$MY_KEY\"; seq 1 200', parameters: {type: object}, env: [MY_KEY], summarize_above: 100, summarize_with: remote",
        &format!(
            "  remote: {{provider: openai, model: m, base_url: '{}', api_key_env: MY_KEY}}\n",
            server.url()
        ),
    );
    let mut command = workspace.command(["run", "a.yaml", "-i", "hello", "--output", "json"]);
    let child = command
        .env("MY_KEY", "sk-hidden-1234567890")
        .spawn()
        .expect("the program starts");
    let outcome = crate::support::Running(child).finish().expect_code(0);
    assert!(!outcome.stdout.contains("sk-hidden"), "{}", outcome.stdout);
    let ended = ended_calls(&workspace);
    let call = &ended[0]["call"];
    assert!(!call.to_string().contains("sk-hidden"), "{call}");
    let text = call["summary"]["text"].as_str();
    assert!(text.is_some_and(|text| text.ends_with("it says [secret]")), "{call}");
    assert!(
        call["result"]
            .as_str()
            .is_some_and(|text| text.starts_with("[secret]\n1\n2")),
        "{call}"
    );
    assert_eq!(call["summary"]["model"], "openai/m");
}

#[test]
fn a_resumed_execution_makes_no_second_summary() {
    let workspace = workspace(&format!("{LONG}, summarize_above: 1000, summarize_with: brief"), "");
    let replies = "replies: [{tool_calls: [{name: find}]}, {tool_calls: [{name: hang}]}, done]";
    let text = workspace.read("a.yaml").replace("script: shown.rhai", replies);
    let text = text.replace("tools: [find]", "tools: [find, hang]").replace(
        "tools:\n",
        "tools:\n  hang: {script: hang.sh, repeatable: true, parameters: {type: object}, timeout_seconds: 600}\n",
    );
    workspace.write("a.yaml", text);
    workspace.write(
        "hang.sh",
        "[ -e under_way ] && { echo well; exit; }\necho x > under_way\nsleep 300",
    );
    let running = workspace.spawn(["run", "a.yaml", "-i", "hello"]);
    eventually("the tool", || workspace.path().join("under_way").exists().then_some(()));
    running.signal("KILL");
    running.finish();
    let result = workspace
        .run(["resume", "--last", "--output", "json"])
        .expect_code(0)
        .json();
    assert_eq!(answer(&result), "done");
    assert_eq!(result["usage"]["requests"], 4, "{}", result["usage"]);
    let summaries = ended_calls(&workspace)
        .into_iter()
        .filter(|ended| ended["call"].get("summary").is_some());
    assert_eq!(summaries.count(), 1);
}

#[test]
fn test_files_stub_the_tool_and_the_summary_is_a_reply_of_the_stub() {
    let workspace = workspace(
        &format!("{LONG}, summarize_above: 10, summarize_with: far"),
        "  far: {provider: openai, model: m}\n",
    );
    workspace.write(
        "a.test.yaml",
        "ensemble: a.yaml\ncases:\n  - name: the stub summarizes\n    input: hello\n    stubs:\n      a: {replies: [{tool: find, \
         arguments: {}, result: a long result of the stub}, {text: in other words}, {text: done}]}\n    expect: {outputs: {a: done}, warnings: []}\n",
    );
    let tested = workspace.run(["test", "a.yaml"]);
    let told = format!("{}{}", tested.stdout, tested.stderr);
    tested.expect_code(0);
    assert!(told.contains("1 passed"), "{told}");
    // Without replies, the case names the model that it needs.
    workspace.write(
        "a.test.yaml",
        "ensemble: a.yaml\ncases: [{name: no stub, input: hello, expect: {outcome: completed}}]\n",
    );
    let tested = workspace.run(["test", "a.yaml"]);
    assert!(
        format!("{}{}", tested.stdout, tested.stderr).contains("openai/m"),
        "{}",
        tested.stdout
    );
}

#[test]
fn the_model_of_summaries_is_a_model_of_the_ensemble() {
    let workspace = workspace(&format!("{LONG}, summarize_above: 1000, summarize_with: brief"), "");
    let validated = workspace.run(["validate", "a.yaml"]).expect_code(0);
    let told = format!("{}{}", validated.stdout, validated.stderr);
    assert!(!told.contains("brief"), "it is used: {told}");
    let models = workspace.run(["models", "list", "a.yaml"]);
    assert!(models.stdout.contains("brief"), "{}", models.stdout);
    let result = run(&workspace);
    let estimated = workspace.run([
        "estimate",
        "a.yaml",
        "--from",
        result["run_id"].as_str().expect("an id"),
    ]);
    let tokens = result["usage"]["input_tokens"].to_string();
    assert!(
        estimated.expect_code(0).stdout.contains(&tokens),
        "with those of the summary"
    );
    workspace.write(
        "a.yaml",
        workspace
            .read("a.yaml")
            .replace("summarize_with: brief", "summarize_with: briefs"),
    );
    let validated = workspace.run(["validate", "a.yaml"]);
    let told = format!("{}{}", validated.stdout, validated.stderr);
    assert!(told.contains("briefs") && told.contains("W001"), "{told}");
    let refused = workspace.run(["run", "a.yaml"]).expect_code(2).stderr;
    assert!(refused.contains("unknown model profile `briefs`"), "{refused}");
}

#[test]
fn an_editor_offers_the_profiles_and_explains_the_keys() {
    let workspace = workspace(&format!("{LONG}, summarize_above: 1000, summarize_with: brief"), "");
    let text = workspace.read("a.yaml");
    let mut editor = Editor::start(&workspace);
    editor.open("a.yaml", &text);
    let (line, found) = text
        .lines()
        .enumerate()
        .find(|(_, line)| line.contains("summarize_with"))
        .expect("the line");
    let column = |mark: &str| found.find(mark).expect("the mark") + 2;
    let params = editor.at("a.yaml", line, column("brief"));
    let offered = editor.ask("textDocument/completion", params.clone());
    let items = offered.as_array().into_iter().flatten();
    let labels: Vec<&str> = items.filter_map(|item| item["label"].as_str()).collect();
    assert!(labels.contains(&"brief") && labels.contains(&"m"), "{labels:?}");
    let hover = editor.ask("textDocument/hover", params)["contents"]["value"].to_string();
    assert!(hover.contains("A model profile: `simulated`"), "{hover}");
    let params = editor.at("a.yaml", line, column("summarize_above"));
    let hover = editor.ask("textDocument/hover", params)["contents"]["value"].to_string();
    assert!(hover.contains("a model summarizes each larger result"), "{hover}");
    editor.end();
}

#[test]
fn acp_a_session_and_a_chat_send_the_summary() {
    let workspace = workspace(&format!("{LONG}, summarize_above: 1000, summarize_with: brief"), "");
    let mut client = Client::start(&workspace, "a.yaml", json!({}));
    let session = client.session(&workspace);
    assert_eq!(client.prompt(&session, "go")["result"]["stopReason"], "end_turn");
    let updates = client.updates.iter().map(|message| &message["params"]["update"]);
    let said: String = updates
        .filter(|update| update["sessionUpdate"] == "agent_message_chunk")
        .filter_map(|update| update["content"]["text"].as_str())
        .collect();
    assert!(said.contains("in short") && !said.contains("line 150"), "{said}");
    drop(client);
    let chat = workspace.run_with_stdin(["chat", "a.yaml"], "hello\n").expect_code(0);
    assert!(
        chat.stdout.contains("in short") && !chat.stdout.contains("line 150"),
        "{}",
        chat.stdout
    );
}
