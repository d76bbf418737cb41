//! What was not shown cannot be permitted: an answer belongs to the question that its client has seen, on each surface.
#![expect(
    clippy::disallowed_methods,
    reason = "a refusal is compared with the time that a wait would take"
)]

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::ui_chat::{complete, reply, request};
use crate::support::acp_client::Client as AcpClient;
use crate::support::mcp_client::Client as McpClient;
use crate::support::page::Page;
use crate::support::{Workspace, eventually};

/// A question, and a call of a tool that waits beside it.
const TEA: &str = "\
name: tea
agents:
  - {name: guest, input: {prompt: 'Do you like tea?', choices: ['yes', 'no']}}
  - {name: bot, model_profile: m, tools: [write]}
model_profiles:
  m: {provider: simulated, replies: [{tool_calls: [{name: write, arguments: {n: 4}}]}, done]}
tools:
  write: {script: 'echo w >> written.txt', parameters: {type: object}, permission: ask}
";

/// A question that is asked again about something else.
const FILES: &str = "\
name: files
agents:
  - name: lister
    script: 'n=$(cat n 2>/dev/null || echo 0); echo $((n + 1)) > n; echo file $n'
    dependencies: [{agent_name: gate, feedback: true}]
    conversation: {max_turns: 3}
  - {name: gate, input: {prompt: 'Delete {{ lister }}?'}, depends_on: [lister], conversation: {max_turns: 3}}
";

const GATE: &str = "name: gate\nagents:\n  - {name: editor, input: {prompt: 'Print it?'}}\n";

/// Answers a chat request, and returns the text and the run.
fn chat(page: &Page, model: &str, messages: &[(&str, &str)]) -> (String, String) {
    let document = complete(page, &request(model, messages)).json();
    let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{document}")).to_owned();
    (
        text(&document["choices"][0]["message"]["content"]),
        text(&document["metadata"]["run"]),
    )
}

#[test]
fn yes_to_a_question_permits_no_call_that_waits_beside_it() {
    let workspace = Workspace::new();
    workspace.write("ensembles/tea.yaml", TEA);
    let page = Page::start(&workspace);
    let (question, run) = chat(&page, "tea", &[("user", "go")]);
    assert_eq!(question, "Do you like tea? (yes, no)");
    eventually("the call waits", || {
        let head = page.get(&format!("/api/run?id={run}"));
        (!head["waiting"]["permissions"].as_array()?.is_empty()).then_some(())
    });
    page.answer(&run, "no");
    let yes = [("user", "go"), ("assistant", &*question), ("user", "yes")];
    for _ in 0..2 {
        let refused = complete(&page, &request("tea", &yes));
        assert_eq!(refused.status, 409, "{refused:?}");
        for word in [
            "was answered `no` by the page",
            "bot/write#1",
            "your answer was not used",
        ] {
            assert!(refused.body.contains(word), "{word}: {refused:?}");
        }
    }
    assert!(!workspace.path().join("written.txt").exists());
}

#[test]
fn two_conversations_with_the_same_words_answer_their_own_questions() {
    let workspace = Workspace::new();
    workspace.write("ensembles/gate.yaml", GATE);
    let page = Page::start(&workspace);
    let (first, one) = chat(&page, "gate", &[("user", "go")]);
    let (second, other) = chat(&page, "gate", &[("user", "go")]);
    assert_ne!(one, other);
    assert_eq!(first, "Print it?");
    assert_eq!(second, format!("Print it?\n\n(`editor` of run {other})"));
    for (question, run, answer) in [(&first, &one, "never"), (&second, &other, "always")] {
        let answered = chat(
            &page,
            "gate",
            &[("user", "go"), ("assistant", question), ("user", answer)],
        );
        assert_eq!(answered, (answer.to_owned(), run.clone()));
    }
}

#[test]
fn hidden_characters_of_a_question_are_spelt_out_in_a_chat() {
    let workspace = Workspace::new();
    workspace.write(
        "ensembles/gate.yaml",
        "name: gate\nagents:\n  - {name: editor, input: {prompt: \"Keep\\u202e it?\", choices: [\"keep\", \"del\\u202eete\"]}}\n",
    );
    let page = Page::start(&workspace);
    assert_eq!(
        reply(&page, "gate", &[("user", "go")]),
        "Keep\\u{202e} it? (keep, del\\u{202e}ete)"
    );
}

#[test]
fn an_answer_to_an_old_question_is_refused_with_the_question_that_waits() {
    let workspace = Workspace::new();
    workspace.write("ensembles/files.yaml", FILES);
    let page = Page::start(&workspace);
    let run = page.done("/api/start", &json!({"ensemble": "files", "input": ""}))["id"].clone();
    let run = run.as_str().expect("an id").to_owned();
    let asks = |text: &str| {
        eventually(text, || {
            let head = page.get(&format!("/api/run?id={run}"));
            (head["waiting"]["questions"][0]["prompt"] == text).then_some(())
        });
    };
    asks("Delete file 0?");
    let old = page.answering(&run, "answer", "yes");
    assert_eq!(page.post("/api/answer", &old).status, 200);
    asks("Delete file 1?");
    let refused = page.post("/api/answer", &old);
    assert_eq!(refused.status, 409, "{refused:?}");
    let told = refused.json()["error"]["message"]
        .as_str()
        .expect("a sentence")
        .to_owned();
    assert!(
        told.starts_with("`gate` was answered `yes` by the page at ") || told.contains("Delete file 1?"),
        "{told}"
    );
    let mut changed = page.answering(&run, "answer", "yes");
    changed["digest"] = json!("0123456789abcdef");
    let refused = page.post("/api/answer", &changed).json()["error"]["message"].clone();
    assert_eq!(
        refused,
        "`gate` now asks a different question: Delete file 1?; your answer was not used"
    );
    for missing in ["address", "digest"] {
        let mut body = page.answering(&run, "answer", "yes");
        body.as_object_mut().expect("an object").remove(missing);
        assert_eq!(page.post("/api/answer", &body).status, 400, "{missing}");
    }
    asks("Delete file 1?");
}

#[test]
fn a_prompt_of_an_editor_answers_only_a_question_that_it_was_shown() {
    let workspace = Workspace::new();
    workspace.write("gate.yaml", GATE);
    for (method, is_told) in [("session/load", true), ("session/resume", false)] {
        workspace.run(["run", "gate.yaml"]).expect_code(3);
        let runs = workspace.runs();
        let session = runs[0].file_name().expect("a name").to_string_lossy().into_owned();
        let mut client = AcpClient::start(&workspace, "gate.yaml", json!({}));
        let named = json!({"sessionId": session, "cwd": workspace.path(), "mcpServers": []});
        assert!(client.ask(method, named)["result"].is_object());
        let told = client.told("agent_message_chunk");
        assert_eq!(told.contains("Print it?"), is_told, "{method}: {told}");
        client.updates.clear();
        assert_eq!(client.prompt(&session, "yes")["result"]["stopReason"], "end_turn");
        let answers = || {
            let journal = workspace.journal();
            journal
                .iter()
                .filter(|record| record["data"]["answer"].is_object())
                .count()
        };
        if !is_told {
            let told = client.told("agent_message_chunk");
            assert!(
                told.contains("your message was not used") && told.ends_with("Print it?"),
                "{told}"
            );
            assert_eq!(answers(), 0);
            assert_eq!(client.prompt(&session, "yes")["result"]["stopReason"], "end_turn");
        }
        assert_eq!(answers(), 1, "{method}");
        client.leave();
        workspace.run(["runs", "rm", &session]).expect_code(0);
    }
}

#[test]
fn forms_spell_out_hidden_characters_and_answer_with_the_choice_itself() {
    let gate = "name: gate\ndefault_task: x\nagents:\n  - {name: editor, input: {prompt: 'Well?', choices: [\"keep\", \"del\\u202eete\\u001b[8m\"]}}\nresult: editor\n";
    let workspace = Workspace::new();
    workspace.write("gate.yaml", gate);
    let shown = "del\\u{202e}ete\\u{1b}[8m";
    let mut client = McpClient::start(&workspace, &[], json!({"elicitation": {}}));
    let call = client.begin_call("gate", json!({}));
    let asked = client.hear("elicitation/create");
    let answer = &asked["params"]["requestedSchema"]["properties"]["answer"];
    assert_eq!(answer["enum"], json!(["keep", shown]));
    client.reply(&asked, json!({"action": "accept", "content": {"answer": shown}}));
    let ended = client.answer(call)["result"]["structuredContent"].clone();
    assert_eq!(
        ended["result"],
        json!({"response": "del\u{202e}ete\u{1b}[8m"}),
        "{ended}"
    );

    for (capabilities, place) in [
        (
            json!({"elicitation": {"form": {}}}),
            "/params/requestedSchema/properties/answer/enum/1",
        ),
        (json!({}), "/params/options/1/name"),
    ] {
        let workspace = Workspace::new();
        workspace.write("gate.yaml", gate);
        let mut client = AcpClient::start(&workspace, "gate.yaml", capabilities);
        let session = client.session(&workspace);
        let prompt = client.begin_prompt(&session, "go");
        let asked = client.asked();
        assert_eq!(asked.pointer(place), Some(&json!(shown)), "{asked}");
        let result = match place.contains("options") {
            true => json!({"outcome": {"outcome": "selected", "optionId": "1"}}),
            false => json!({"action": "accept", "content": {"answer": shown}}),
        };
        client.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": result}));
        assert_eq!(client.answer(prompt)["result"]["stopReason"], "end_turn");
        let output = workspace
            .journal()
            .iter()
            .find_map(|record| record["data"]["output"]["response"].as_str().map(str::to_owned));
        assert_eq!(output.as_deref(), Some("del\u{202e}ete\u{1b}[8m"));
    }
}

#[test]
fn an_answer_in_a_repeated_call_that_is_not_used_is_reported() {
    let workspace = Workspace::new();
    workspace.write(
        "files.yaml",
        FILES.replace("name: files", "name: files\ndefault_task: x"),
    );
    let mut client = McpClient::modern(&workspace, &[], json!({"elicitation": {}}));
    let call = json!({"name": "files", "arguments": {}});
    let wanted = client.ask("tools/call", call);
    let (key, _) = wanted["inputRequests"]
        .as_object()
        .and_then(|all| all.iter().next())
        .expect("a request");
    let answer = json!({"action": "accept", "content": {"answer": "yes"}});
    let repeated = |key: &str| {
        let responses = json!({key: answer});
        json!({"name": "files", "arguments": {}, "inputResponses": responses, "requestState": wanted["requestState"]})
    };
    let next = client.ask("tools/call", repeated(key));
    assert!(next.to_string().contains("Delete file 1?"), "{next}");
    let cancelled = client.ask(
        "tools/call",
        json!({"name": "cancel_run", "arguments": {"run": wanted["requestState"]}}),
    );
    assert_eq!(cancelled["structuredContent"]["status"], "cancelled", "{cancelled}");
    let begun = Instant::now();
    let refused = client.ask("tools/call", repeated(key));
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    let told = refused["structuredContent"]["refused"]
        .as_str()
        .unwrap_or_else(|| panic!("{refused}"));
    assert!(
        told.starts_with("1 answer was not used: the run no longer asks what was shown"),
        "{told}"
    );
    assert_eq!(refused["isError"], true, "{refused}");
}

#[test]
fn an_answer_counts_only_in_a_call_of_the_tool_that_asked() {
    let workspace = Workspace::new();
    workspace.write("gate.yaml", GATE.replace("name: gate", "name: gate\ndefault_task: x"));
    workspace.write("other.yaml", GATE.replace("name: gate", "name: other\ndefault_task: x"));
    let mut client = McpClient::modern(&workspace, &[], json!({"elicitation": {}}));
    let wanted = client.ask("tools/call", json!({"name": "gate", "arguments": {}}));
    let (key, _) = wanted["inputRequests"]
        .as_object()
        .and_then(|all| all.iter().next())
        .expect("a request");
    let run = wanted["requestState"].clone();
    let answer = json!({"action": "accept", "content": {"answer": "yes"}});
    let calls = [
        ("other", json!({})),
        ("validate", json!({"ensemble": "gate"})),
        ("list_runs", json!({})),
        ("run_status", json!({"run": run})),
        ("await_run", json!({"run": run})),
        ("await_run", json!({})),
        ("nothing", json!({})),
    ];
    let state = |client: &mut McpClient| {
        let call = json!({"name": "run_status", "arguments": {"run": run}});
        client.ask("tools/call", call)["structuredContent"]["status"].clone()
    };
    let begun = Instant::now();
    for (tool, arguments) in calls {
        let digest = key.rsplit(' ').next().expect("a digest");
        for key in [
            key.clone(),
            digest.to_owned(),
            format!("gate {digest} "),
            format!("{tool}  {digest}"),
        ] {
            let responses = json!({key: answer});
            let call = json!({"name": tool, "arguments": arguments, "inputResponses": responses, "requestState": run});
            let refused = client.ask("tools/call", call);
            assert_eq!(refused["isError"], true, "{tool}: {refused}");
            assert_eq!(state(&mut client), "waiting", "{tool}");
        }
    }
    // An answer that does not fit is refused at once; the run is not waited for.
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    let responses = json!({key.as_str(): answer});
    let call = json!({"name": "gate", "arguments": {}, "inputResponses": responses, "requestState": run});
    let done = client.ask("tools/call", call);
    assert_eq!(done["structuredContent"]["status"], "completed", "{done}");
}

/// Finds the execution of an agent in a document.
fn find_execution<'v>(document: &'v Value, agent: &str) -> Option<&'v Value> {
    match document {
        Value::Object(map) if document["agent"] == agent && map.contains_key("attempts") => Some(document),
        Value::Object(map) => map.values().find_map(|one| find_execution(one, agent)),
        Value::Array(list) => list.iter().find_map(|one| find_execution(one, agent)),
        _ => None,
    }
}

#[test]
fn whoever_decided_is_in_the_record_and_in_each_report() {
    let workspace = Workspace::new();
    workspace.write("tea.yaml", TEA);
    let mut command = workspace.command(["run", "tea.yaml", "--answer", "guest=yes", "--allow-tool", "write"]);
    let ended = command.env("USER", "alice").output().expect("it runs");
    assert!(ended.status.success(), "{ended:?}");
    let shown: Value = workspace.run(["runs", "show", "--last", "--output", "json"]).json();
    let of = |agent: &str| find_execution(&shown, agent).unwrap_or_else(|| panic!("{agent}: {shown}"));
    let answer = &of("guest")["answer"];
    let expected = json!({
        "address": "guest", "prompt": "Do you like tea?", "choices": ["yes", "no"], "answer": "yes",
        "source": "option", "user": "alice", "at": answer["at"],
    });
    assert_eq!(*answer, expected);
    assert!(answer["at"].is_string(), "{answer}");
    let decided = &of("bot")["permissions"][0];
    assert_eq!(
        decided["answered_by"],
        json!({"source": "option", "user": "alice"}),
        "{decided}"
    );
    assert!(decided["at"].is_string() && decided["digest"].is_string(), "{decided}");
    for form in ["markdown", "html"] {
        let report = workspace
            .run(["runs", "export", "--last", "--output", form])
            .expect_code(0)
            .stdout;
        for words in [
            "answered by an option (alice)",
            "Do you like tea? (yes, no) · answered at 2",
        ] {
            assert!(report.contains(words), "{form}: {words}: {report}");
        }
        assert!(
            report.contains("was permitted for the rest of the run by an option (alice) at 2"),
            "{form}"
        );
    }
}
