//! `ensemble continue`: runs that were cancelled, timed out or failed go on with a message, and nothing said is lost.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::server::{Answer, Part, Server, head, says};
use crate::support::terminal::Terminal;
use crate::support::{Workspace, eventually};

/// Sends nothing until the client goes.
fn silence() -> Answer {
    vec![
        head("text/event-stream"),
        Part::Drip(b": wait\n\n".to_vec(), Duration::from_millis(20)),
    ]
}

fn with_server(server: &Server, more: &str) -> Workspace {
    let workspace = Workspace::new();
    let url = server.url();
    workspace.write(
        "a.yaml",
        format!(
            "name: a\nagents:\n  - {{name: a, model_profile: m, prompt: \"{{{{ input }}}}\"}}\n{more}\
             model_profiles:\n  m: {{provider: openai, model: m, base_url: '{url}'}}\n"
        ),
    );
    workspace
}

fn contents(asked: &Value) -> Vec<String> {
    let messages = asked["messages"].as_array().expect("messages");
    let text = |message: &Value| {
        format!(
            "{}: {}",
            message["role"].as_str().unwrap_or_default(),
            message["content"].as_str().unwrap_or_default()
        )
    };
    messages.iter().map(text).collect()
}

#[test]
fn a_message_that_was_cancelled_is_remembered_when_the_run_is_continued() {
    let server = Server::new(|nth, _| if nth == 0 { silence() } else { says("Fine.") });
    let workspace = with_server(&server, "");
    let running = workspace.spawn(["run", "a.yaml", "--input", "first"]);
    eventually("the request", || (!server.asked().is_empty()).then_some(()));
    running.signal("INT");
    running.finish().expect_code(130);
    let journal = workspace.journal();
    let stopped = journal.iter().find(|record| record["event"] == "request_stopped");
    let stopped = &stopped.expect("a record of the request")["data"];
    assert_eq!(stopped["iteration"]["messages"][0]["content"], "first");
    assert_eq!(stopped["usage"]["requests"], 1);

    let continued = workspace
        .run(["continue", "--last", "second", "--output", "json"])
        .expect_code(0)
        .json();
    assert_eq!(continued["final_state"]["response"], "Fine.");
    assert_eq!(continued["usage"]["requests"], 2, "the stopped request was made");
    assert_eq!(continued["usage"]["by_tools"], 0);
    assert_eq!(continued["conversation_history"][0]["stop_reason"], "end_turn");
    let shown = workspace
        .run(["runs", "show", "--last", "--output", "json"])
        .expect_code(0)
        .json();
    assert!(shown.to_string().contains("\"stop_reason\":\"end_turn\""), "{shown}");
    assert_eq!(contents(&server.asked()[1].body), ["user: first", "user: second"]);
    assert_eq!(continued["messages"][0], json!({"text": "first", "after_turn": 0}));
    assert_eq!(
        continued["messages"][1],
        json!({"text": "second", "after_turn": 1, "ended": "cancelled"})
    );
    for record in [
        vec!["replay", "--last"],
        vec!["replay", "saved.json", "--ensemble", "a.yaml"],
    ] {
        workspace.write("saved.json", continued.to_string());
        let replayed = workspace.run(record).expect_code(0);
        let told = format!("{}{}", replayed.stdout, replayed.stderr);
        assert!(told.contains("4 decisions in 1 turn"), "{told}");
    }
}

#[test]
fn what_had_finished_in_an_abandoned_turn_is_merged_and_a_call_under_way_is_remembered_as_unknown() {
    let workspace = Workspace::new();
    workspace.write(
        "a.yaml",
        "name: a\nagents:\n  - {name: a, model_profile: m, tools: [hang], prompt: \"{{ input }}\"}\n  \
         - {name: quick, script: quick.rhai}\nmodel_profiles: {m: {provider: simulated, script: sim.rhai}}\n\
         tools: {hang: {script: hang.sh, parameters: {type: object}, timeout_seconds: 600}}\n",
    );
    workspace.write("quick.rhai", "#{ kept: execution }");
    workspace.write("hang.sh", "echo x > under_way\nsleep 300");
    workspace.write(
        "sim.rhai",
        "let last = messages[messages.len() - 1];\n\
         if last.content == \"hello\" && last.role == \"user\" { #{ tool_calls: [#{ name: \"hang\" }] } }\n\
         else { let all = []; for message in messages { all.push(message.role + \"=\" + message.content);\n\
         for made in message.get(\"tool_calls\", []) { all.push(made.name + \"!\" + made.get(\"error\", \"\")); } }\n\
         let text = \"\"; for one in all { text += one + \"; \"; } text }",
    );
    let running = workspace.spawn(["run", "a.yaml", "--input", "hello"]);
    eventually("the tool", || workspace.path().join("under_way").exists().then_some(()));
    running.signal("INT");
    running.finish().expect_code(130);
    let continued = workspace
        .run(["continue", "--last", "and now?", "--output", "json"])
        .expect_code(0)
        .json();
    let heard = continued["final_state"]["response"].as_str().expect("a text");
    assert!(heard.starts_with("user=hello; "), "{heard}");
    assert!(
        heard.contains("hang!the call was interrupted: it is not known"),
        "{heard}"
    );
    assert!(heard.ends_with("user=and now?; "), "{heard}");
    let history = continued["conversation_history"].as_array().expect("a history");
    let quick: Vec<&Value> = history.iter().filter(|entry| entry["agent_name"] == "quick").collect();
    assert_eq!(quick.len(), 2, "what had finished is kept: {history:?}");
    assert_eq!(
        (&quick[0]["turn_number"], &quick[1]["turn_number"]),
        (&json!(1), &json!(2))
    );
    workspace.run(["replay", "--last"]).expect_code(0);
    workspace.run(["runs", "show", "--last"]).expect_code(0);
}

#[test]
fn a_run_that_has_timed_out_or_failed_is_continued() {
    let workspace = Workspace::new();
    workspace.write(
        "slow.yaml",
        "name: slow\nconversation_limits: {timeout_seconds: 0.3}\nagents: [{name: a, script: slow.sh}]\n",
    );
    workspace.write("slow.sh", "grep -q quick - && echo '{\"well\": true}' || sleep 300");
    workspace.run(["run", "slow.yaml", "--input", "x"]).expect_code(4);
    let result = workspace
        .run(["continue", "--last", "quick", "--output", "json"])
        .expect_code(0)
        .json();
    assert_eq!(result["final_state"]["well"], true);
}

#[test]
fn a_continued_run_takes_values_and_an_edited_file_and_says_when_the_file_has_changed() {
    let workspace = Workspace::new();
    let text = "name: a\ninputs: {style: {default: plain, enum: [plain, bold]}}\nagents: [{name: a, script: a.rhai}]\n";
    workspace.write("a.yaml", text);
    workspace.write("a.rhai", "#{ heard: input + \" in \" + inputs.style }");
    workspace.run(["run", "a.yaml", "--input", "one"]).expect_code(0);
    let continued = workspace.run(["continue", "--last", "two", "--set", "style=bold", "--output", "json"]);
    assert_eq!(continued.expect_code(0).json()["final_state"]["heard"], "two in bold");
    let wrong = workspace
        .run(["continue", "--last", "two", "--set", "style=loud"])
        .expect_code(2);
    assert!(wrong.stderr.contains("style"), "{}", wrong.stderr);
    let unknown = workspace
        .run(["continue", "--last", "two", "--set", "stile=bold"])
        .expect_code(2);
    assert!(unknown.stderr.contains("did you mean `style`"), "{}", unknown.stderr);
    let replayed = workspace
        .run(["replay", "--last", "--output", "json"])
        .expect_code(0)
        .json();
    assert_eq!(replayed["final_state"]["heard"], "two in bold");

    workspace.write("b.rhai", "#{ heard: \"edited: \" + input + \" in \" + inputs.style }");
    workspace.write("a.yaml", text.replace("a.rhai", "b.rhai"));
    let told = workspace.run(["continue", "--last", "three"]).expect_code(0);
    assert!(
        told.stderr.contains("a.yaml has changed since the run started"),
        "{}",
        told.stderr
    );
    assert!(told.stderr.contains("ensemble continue"), "{}", told.stderr);
    let edited = workspace.run(["continue", "--last", "four", "--ensemble", "a.yaml", "--output", "json"]);
    let edited = edited.expect_code(0).json();
    assert_eq!(edited["final_state"]["heard"], "edited: four in bold");
    assert_eq!(edited["conversation_history"].as_array().map(Vec::len), Some(4));
    assert_eq!(workspace.runs().len(), 2, "the edited file goes on in a run of its own");
    workspace.run(["replay", "--last"]).expect_code(0);
}

#[test]
fn ctrl_c_stops_an_answer_and_the_chat_goes_on_with_the_message_kept() {
    let server = Server::new(|nth, _| if nth % 2 == 0 { silence() } else { says("Fine.") });
    let workspace = with_server(&server, "");
    let mut terminal = Terminal::open(&workspace, &["chat", "a.yaml"], &[]);
    // Twice: a signal that was dealt with does not make the next one end the process.
    for (message, next) in [("first", 1), ("third", 3)] {
        terminal.wait_for("> ");
        terminal.type_in(&format!("{message}\n"));
        eventually("the request", || (server.asked().len() == next).then_some(()));
        terminal.type_in("\u{3}");
        terminal.wait_for("cancelled");
        terminal.wait_for("> ");
        terminal.type_in("again\n");
        terminal.wait_for("Fine.");
    }
    terminal.wait_for("> ");
    terminal.type_in("\u{4}");
    assert_eq!(terminal.finish().0, 0);
    let asked = contents(&server.asked()[3].body);
    let expected = [
        "user: first",
        "user: again",
        "assistant: Fine.",
        "user: third",
        "user: again",
    ];
    assert_eq!(asked, expected);
}

#[test]
fn a_run_inside_an_abandoned_turn_is_left_and_the_next_one_is_new() {
    let workspace = Workspace::new();
    workspace.write(
        "a.yaml",
        "name: a\nagents: [{name: team, ensemble: inner.yaml, prompt: \"{{ input }}\"}]\n",
    );
    workspace.write("inner.yaml", "name: inner\nagents: [{name: one, script: one.sh}]\n");
    workspace.write(
        "one.sh",
        "grep -q quick - && { echo '{\"well\": true}'; exit; }\necho x > under_way\nsleep 300",
    );
    let running = workspace.spawn(["run", "a.yaml", "--input", "slow"]);
    eventually("the script", || {
        workspace.path().join("under_way").exists().then_some(())
    });
    running.signal("INT");
    running.finish().expect_code(130);
    let continued = workspace
        .run(["continue", "--last", "quick", "--output", "json"])
        .expect_code(0)
        .json();
    assert_eq!(continued["final_state"]["well"], true);
    assert_eq!(
        continued["conversation_history"][0]["attempt"], 2,
        "the abandoned attempt keeps its number"
    );
}
