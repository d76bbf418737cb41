//! Hostile external agents: what a program can reach that a user did not permit.

#![expect(clippy::disallowed_methods, reason = "tests look at files")]

use std::fmt::Write;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::acp_client::Client;
use crate::support::files::read;
use crate::support::{Outcome, Running, Workspace, eventually};

/// A workspace whose agent plays these lines; `more`: lines of the agent.
fn attack(lines: &str, more: &str) -> Workspace {
    let workspace = Workspace::new();
    workspace.write("attacker.sh", read("tests/acp/attacker.sh"));
    workspace.write("attack.txt", lines);
    workspace.write(
        "a.yaml",
        format!("name: a\nagents:\n  - name: a\n    acp: {{command: sh, args: [attacker.sh]}}\n    prompt: go\n{more}"),
    );
    workspace
}

fn run(workspace: &Workspace, options: &[&str]) -> Outcome {
    workspace.run(["run", "a.yaml", "--output", "json"].iter().chain(options))
}

fn failure(outcome: &Outcome) -> (String, String) {
    let output = &outcome.json()["conversation_history"][0]["output_data"];
    let text = |key: &str| output[key].as_str().unwrap_or_default().to_owned();
    (text("kind"), text("error"))
}

fn update(update: &Value) -> String {
    let message =
        json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "SESSION", "update": update}});
    format!("> {message}\n")
}

fn text(text: &str) -> Value {
    json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}})
}

/// Asks for permission of a call, and waits for the answer.
fn ask(call: &Value) -> String {
    let options = json!([
        {"optionId": "y", "name": "Yes", "kind": "allow_once"}, {"optionId": "n", "name": "No", "kind": "reject_once"},
    ]);
    let params = json!({"sessionId": "SESSION", "toolCall": call, "options": options});
    let message = json!({"jsonrpc": "2.0", "id": "p", "method": "session/request_permission", "params": params});
    format!("> {message}\n<\n")
}

fn edit_call(kind: &str, path: &str, old: Option<&str>, new: &str) -> Value {
    let diff = json!({"type": "diff", "path": path, "oldText": old, "newText": new});
    json!({"toolCallId": "c", "title": "change", "kind": kind, "content": [diff]})
}

fn file(method: &str, path: &str, content: &str) -> String {
    let params = json!({"sessionId": "SESSION", "path": path, "content": content});
    let message = json!({"jsonrpc": "2.0", "id": "f", "method": method, "params": params});
    format!("> {message}\n<\n")
}

fn write_file(path: &str, content: &str) -> String {
    file("fs/write_text_file", path, content)
}

/// The permissions that the only run has recorded: the tools.
fn decided(workspace: &Workspace) -> Vec<String> {
    let journal = workspace.journal().into_iter();
    let decided = journal.filter(|record| record["event"] == "permission_decided");
    decided
        .map(|record| record["data"]["tool"].as_str().expect("a tool").to_owned())
        .collect()
}

fn run_id(workspace: &Workspace) -> String {
    let folder = workspace.runs().pop().expect("a run");
    folder.file_name().expect("a name").to_string_lossy().into_owned()
}

#[test]
fn a_permission_to_read_permits_no_write() {
    let reads = "    permissions: {read: allow}\n";
    // A request of the kind `read` that shows a diff needs the permission to edit.
    let lines = ask(&edit_call("read", "x.txt", None, "evil")) + &write_file("x.txt", "evil");
    let workspace = attack(&lines, reads);
    run(&workspace, &[]).expect_code(3);
    assert!(!workspace.path().join("x.txt").exists());
    let waits = workspace
        .journal()
        .into_iter()
        .find(|record| record["event"] == "input_requested");
    assert!(waits.expect("it waits").to_string().contains("a.edit"));
    // A permitted call to read does not cover a write of its file, though it covers a read, once.
    let call = json!({"toolCallId": "c", "title": "look", "kind": "read", "locations": [{"path": "x.txt"}]});
    for (then, code) in [
        (write_file("x.txt", "evil"), 3),
        (file("fs/read_text_file", "x.txt", ""), 0),
        (file("fs/read_text_file", "x.txt", "").repeat(2), 3),
        (file("fs/read_text_file", "y.txt", ""), 3),
    ] {
        let workspace = attack(&(ask(&call) + &then), "");
        workspace.write("x.txt", "as before");
        workspace.write("y.txt", "as before");
        run(&workspace, &["--allow-tool", "a/a.read#1"]).expect_code(code);
        assert_eq!(workspace.read("x.txt"), "as before", "{then}");
    }
}

#[test]
fn a_diff_that_was_shown_is_the_diff_that_is_written_once() {
    let shown = ask(&edit_call("edit", "x.txt", Some("old\n"), "new\n"));
    let good = write_file("x.txt", "new\n");
    let without_diff = ask(&json!({"toolCallId": "c", "title": "t", "kind": "edit", "locations": [{"path": "x.txt"}]}));
    let other_old = ask(&edit_call("edit", "x.txt", Some("something else\n"), "new\n"));
    let changed = update(&json!({
        "sessionUpdate": "tool_call_update", "toolCallId": "c",
        "content": [{"type": "diff", "path": "x.txt", "oldText": "old\n", "newText": "evil\n"}],
    }));
    let over = update(&json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed"}));
    for (lines, code, content) in [
        (format!("{shown}{good}"), 0, "new\n"),
        (format!("{shown}{good}{good}"), 3, "new\n"),
        (format!("{shown}{}", write_file("x.txt", "evil\n")), 3, "old\n"),
        (format!("{shown}{}", write_file("y.txt", "new\n")), 3, "old\n"),
        (format!("{shown}{changed}{}", write_file("x.txt", "evil\n")), 3, "old\n"),
        (format!("{shown}{over}{good}"), 3, "old\n"),
        (format!("{without_diff}{good}"), 3, "old\n"),
        (format!("{other_old}{good}"), 3, "old\n"),
        (format!("{shown}! printf 'mine\\n' > x.txt\n{good}"), 3, "mine\n"),
    ] {
        let workspace = attack(&lines, "");
        workspace.write("x.txt", "old\n");
        run(&workspace, &["--allow-tool", "a/a.edit#1"]).expect_code(code);
        assert_eq!(workspace.read("x.txt"), content, "{lines}");
        assert!(!workspace.path().join("y.txt").exists());
    }
}

#[test]
fn a_person_is_asked_about_the_change_that_is_made() {
    let lines = ask(&edit_call("read", "x.txt", None, "harmless\n")) + &write_file("x.txt", "evil\n");
    let workspace = attack(&lines, "");
    let mut client = Client::start(&workspace, "a.yaml", json!({}));
    let session = client.session(&workspace);
    let prompt = client.begin_prompt(&session, "go");
    for (tool, shown) in [("a.read", "+harmless"), ("a.edit", "+harmless"), ("a.edit", "+evil")] {
        let asked = client.permit().to_string();
        assert!(asked.contains(tool) && asked.contains(shown), "{tool}: {asked}");
    }
    assert_eq!(client.answer(prompt)["result"]["stopReason"], "end_turn");
    assert_eq!(workspace.read("x.txt"), "evil\n");
    assert_eq!(decided(&workspace), ["a.read", "a.edit", "a.edit"]);
}

#[test]
fn a_call_that_becomes_a_call_of_a_denied_kind_stops_the_program() {
    let permissions = "    permissions: {read: allow, execute: deny}\n";
    let asked = ask(&json!({"toolCallId": "c", "title": "look", "kind": "read"}));
    let becomes = |more: Value| {
        let mut news =
            json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "rm", "kind": "execute"});
        news.as_object_mut()
            .expect("a map")
            .extend(more.as_object().expect("a map").clone());
        update(&news)
    };
    let over = update(&json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed"}));
    let diff = json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "content": [
        {"type": "diff", "path": "x", "newText": "x"},
    ]});
    for (lines, permissions, denied) in [
        (asked.clone() + &becomes(json!({})), permissions, "execute"),
        (
            asked.clone() + &becomes(json!({"status": "in_progress"})),
            permissions,
            "execute",
        ),
        (
            asked.clone() + &becomes(json!({"status": "completed"})),
            permissions,
            "execute",
        ),
        (
            asked.clone() + &becomes(json!({"status": "failed"})),
            permissions,
            "execute",
        ),
        (
            asked.clone() + &over + &becomes(json!({"status": "in_progress"})),
            permissions,
            "execute",
        ),
        (
            asked.clone() + &update(&diff),
            "    permissions: {read: allow, edit: deny}\n",
            "edit",
        ),
    ] {
        let workspace = attack(&(lines.clone() + "! touch went-on\n<\n"), permissions);
        let (kind, error) = failure(&run(&workspace, &[]).expect_code(1));
        assert_eq!(kind, "sandbox", "{lines}: {error}");
        assert!(error.contains(&format!("denies `{denied}`")), "{error}");
    }
    // An option of the run denies like the ensemble.
    let workspace = attack(
        &(asked + &becomes(json!({})) + "<\n"),
        "    permissions: {read: allow}\n",
    );
    let (kind, error) = failure(&run(&workspace, &["--deny-tool", "a.execute"]).expect_code(1));
    assert_eq!(kind, "sandbox", "{error}");
}

#[test]
fn an_id_that_was_permitted_permits_nothing_else() {
    let asked = |title: &str| ask(&json!({"toolCallId": "c", "title": title, "kind": "execute"}));
    for lines in [
        asked("ls") + &asked("rm -rf"),
        asked("ls")
            + &update(&json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed"}))
            + &asked("ls"),
    ] {
        let workspace = attack(&lines, "");
        run(&workspace, &["--allow-tool", "a/a.execute#1"]).expect_code(3);
        assert_eq!(decided(&workspace), ["a.execute"], "the second one waits");
    }
    // The ids that the program gives itself are not those of its files.
    let lines = ask(&json!({"toolCallId": "file-1", "title": "t", "kind": "read"})) + &write_file("x.txt", "evil");
    let workspace = attack(&lines, "    permissions: {read: allow}\n");
    run(&workspace, &[]).expect_code(3);
    assert!(!workspace.path().join("x.txt").exists());
}

#[test]
fn permitted_ids_do_not_survive_a_resume() {
    let asked = |title: &str| ask(&json!({"toolCallId": "c", "title": title, "kind": "execute"}));
    // The call was permitted and has begun. The run is killed, and the new process asks with the same id.
    let workspace = attack(&(asked("ls") + "! touch reached\n<\n"), "");
    let running = workspace.spawn(["run", "a.yaml", "--allow-tool", "a/a.execute#1"]);
    eventually("the call is permitted", || {
        workspace.path().join("reached").exists().then_some(())
    });
    running.signal("KILL");
    drop(running.finish());
    for title in ["ls", "rm -rf"] {
        workspace.write("attack.txt", asked(title));
        workspace.run(["resume", &run_id(&workspace)]).expect_code(3);
        assert_eq!(decided(&workspace), ["a.execute"], "{title}: nobody has decided again");
    }
}

#[test]
fn a_permission_for_a_call_that_waits_is_not_for_another_call_of_a_new_process() {
    let shown = |new: &str| ask(&edit_call("edit", "x.txt", None, new)) + &write_file("x.txt", new);
    let workspace = attack(&shown("good\n"), "");
    run(&workspace, &[]).expect_code(3);
    let resume = ["resume", &run_id(&workspace), "--allow-tool", "a/a.edit#1"];
    workspace.write("attack.txt", shown("evil\n"));
    workspace.run(resume).expect_code(3);
    assert!(!workspace.path().join("x.txt").exists());
    let workspace = attack(&shown("good\n"), "");
    run(&workspace, &[]).expect_code(3);
    workspace
        .run(["resume", &run_id(&workspace), "--allow-tool", "a/a.edit#1"])
        .expect_code(0);
    assert_eq!(workspace.read("x.txt"), "good\n");
}

#[test]
fn a_session_belongs_to_the_program_that_made_it() {
    let workspace = attack(&update(&text("done")), "");
    let agent = |name: &str, more: &str| {
        format!("  - {{name: {name}, acp: {{command: sh, args: [attacker.sh, {name}]}}, prompt: go{more}}}\n")
    };
    let again = ", conversation: {max_turns: 2}";
    let b = format!("{again}, dependencies: [{{agent_name: a}}]");
    let a = format!("{again}, dependencies: [{{agent_name: b, feedback: true}}]");
    workspace.write(
        "a.yaml",
        format!("name: a\nagents:\n{}{}", agent("a", &a), agent("b", &b)),
    );
    run(&workspace, &[]).expect_code(0);
    for name in ["a", "b"] {
        let heard = workspace.read(&format!("heard-{name}.txt"));
        assert_eq!(heard.matches("session/new").count(), 1, "{name}: {heard}");
        assert_eq!(heard.matches("session/prompt").count(), 2, "{name}: {heard}");
        assert!(!heard.contains("session/load"), "{name}: {heard}");
    }
    // Another program, or the same one with other arguments, does not get the id.
    let workspace = attack(&update(&text("done")), "");
    run(&workspace, &[]).expect_code(0);
    workspace.run(["continue", &run_id(&workspace), "more"]).expect_code(0);
    assert_eq!(workspace.read("heard-a.txt").matches("session/load").count(), 1);
    let file = workspace.read("a.yaml");
    workspace.write("a.yaml", file.replace("[attacker.sh]", "[attacker.sh, other]"));
    workspace
        .run(["continue", &run_id(&workspace), "more", "--ensemble", "a.yaml"])
        .expect_code(0);
    let heard = workspace.read("heard-other.txt");
    assert!(
        heard.contains("session/new") && !heard.contains("session/load"),
        "{heard}"
    );
}

#[test]
fn nothing_that_a_program_sends_shows_a_secret() {
    const SECRET: &str = "s3cret-0123456789";
    let (first, second) = SECRET.split_at(7);
    let thought =
        |text: &str| json!({"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": text}});
    let mut lines = String::new();
    for news in [
        thought(first),
        thought(second),
        text(first),
        text(second),
        json!({"sessionUpdate": "plan", "entries": [{"content": SECRET, "priority": "low", "status": "pending"}]}),
        json!({
            "sessionUpdate": "tool_call", "toolCallId": SECRET, "title": SECRET, "kind": "read", "status": "in_progress",
            "rawInput": {"a": SECRET}, "locations": [{"path": format!("/{SECRET}")}],
        }),
        json!({
            "sessionUpdate": "tool_call_update", "toolCallId": SECRET, "status": "failed",
            "content": [{"type": "content", "content": {"type": "text", "text": SECRET}}],
        }),
    ] {
        lines += &update(&news);
    }
    lines += &ask(&json!({
        "toolCallId": format!("x{SECRET}"), "title": SECRET, "kind": "execute", "rawInput": {"command": SECRET},
        "content": [{"type": "diff", "path": "x", "oldText": SECRET, "newText": "y"}],
    }));
    let more = format!(
        "> {}\n",
        json!({"jsonrpc": "2.0", "id": 9, "method": SECRET, "params": {}})
    );
    let workspace = attack(&(lines + &more + "<\n"), "");
    let file = workspace
        .read("a.yaml")
        .replace("args: [attacker.sh]", "args: [attacker.sh], env: {T: {env: MY_TOKEN}}");
    workspace.write("a.yaml", file);
    let mut texts = Vec::new();
    let with_secret = |arguments: &[&str]| {
        let mut command = workspace.command(arguments);
        Running(command.env("MY_TOKEN", SECRET).spawn().expect("the program starts")).finish()
    };
    for options in [
        &["run", "a.yaml", "--output", "events", "--live"][..],
        &["run", "a.yaml", "-v"],
        &["run", "a.yaml", "--output", "json", "--allow-tool", "*"],
        &["runs", "show", "--last", "-v", "--messages"],
    ] {
        let outcome = with_secret(options);
        texts.push(outcome.stdout + &outcome.stderr);
    }
    for folder in workspace.runs() {
        texts.push(std::fs::read_to_string(folder.join("journal.jsonl")).expect("a journal"));
    }
    assert!(texts.iter().any(|text| text.contains("[secret]")));
    for text in &texts {
        assert!(!text.contains("0123456789"), "{text}");
    }
    assert!(
        texts[0].contains("tool_started") || texts[0].contains("live"),
        "there are live lines: {}",
        texts[0]
    );
}

#[test]
fn a_program_that_sends_without_end_fails_with_a_reason() {
    let tiny =
        json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "SESSION", "update": text("x")}});
    let plan = json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "SESSION", "update": {
        "sessionUpdate": "plan", "entries": [{"content": "step", "priority": "low", "status": "pending"}],
    }}});
    let terminal = json!({"jsonrpc": "2.0", "id": 1, "method": "terminal/create", "params": {"sessionId": "SESSION"}});
    let write = json!({"jsonrpc": "2.0", "id": 1, "method": "fs/write_text_file", "params": {
        "sessionId": "SESSION", "path": "x.txt", "content": "y",
    }});
    let foreign =
        json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "other", "update": text("x")}});
    for (lines, expected) in [
        (format!("* 1000000 {tiny}\n"), "more than 200000 messages"),
        (format!("* 1000000 {foreign}\n"), "more than 200000 messages"),
        (format!("* 10000 {plan}\n"), "more than 1000 plans"),
        (
            format!("* 10000 {terminal}\n"),
            "more than 1000 requests that are not supported",
        ),
    ] {
        let begun = Instant::now();
        let (kind, error) = failure(&run(&attack(&lines, ""), &[]).expect_code(1));
        assert_eq!(kind, "model", "{error}");
        assert!(error.contains(expected), "{expected}: {error}");
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    }
    let mut calls = String::new();
    for number in 0..6000 {
        let news =
            json!({"sessionUpdate": "tool_call", "toolCallId": number.to_string(), "title": "t", "kind": "read"});
        write!(calls, "{}", update(&news)).expect("memory can be written");
    }
    let (_, error) = failure(&run(&attack(&calls, ""), &["--durability", "none"]).expect_code(1));
    assert!(error.contains("more than 5000 tool calls"), "{error}");
    // Requests that nobody has decided are bounded, too.
    let workspace = attack(&format!("* 1000 {write}\n"), "");
    let mut client = Client::start(&workspace, "a.yaml", json!({}));
    let session = client.session(&workspace);
    let prompt = client.begin_prompt(&session, "go");
    let answer = client.answer(prompt).to_string();
    assert!(answer.contains("more than 100 requests without waiting"), "{answer}");
    // So are those that wait for a later run, because nobody is there to decide.
    for lines in [
        format!("* 1000 {write}\n"),
        ask_for("t").replace("\n<\n", "\n").repeat(101),
    ] {
        let (_, error) = failure(&run(&attack(&lines, ""), &[]).expect_code(1));
        assert!(error.contains("more than 100 requests without waiting"), "{error}");
    }
    let most = ask_for("t").replace("\n<\n", "\n").repeat(100);
    run(&attack(&most, ""), &[]).expect_code(3);
}

/// Asks for permission of a call with this title.
fn ask_for(title: &str) -> String {
    ask(&json!({"toolCallId": title, "title": title, "kind": "execute"}))
}

#[test]
fn an_option_that_denies_wins_over_a_kind_that_is_allowed() {
    let lines = ask(&edit_call("edit", "x.txt", None, "evil")) + &write_file("x.txt", "evil");
    for denied in ["a.edit", "a", "*", "a/a.edit#2"] {
        let workspace = attack(&lines, "    permissions: {edit: allow}\n");
        let allows = ["--allow-tool", "a.edit", "--deny-tool", denied];
        run(&workspace, &allows).expect_code(0);
        assert!(!workspace.path().join("x.txt").exists(), "{denied}");
        let decisions = workspace.journal().into_iter();
        let denials = decisions
            .filter(|record| record["data"]["decision"] == "denied")
            .count();
        assert_eq!(denials, if denied.contains('#') { 1 } else { 2 }, "{denied}");
    }
    let workspace = attack(&lines, "    permissions: {edit: allow}\n");
    run(&workspace, &[]).expect_code(0);
    assert_eq!(workspace.read("x.txt"), "evil");
}

#[test]
fn no_folder_of_settings_is_written_at_any_depth() {
    let edits = "    permissions: {edit: allow}\n";
    for path in [
        ".ensemble/config.yaml",
        "sub/.ensemble/config.yaml",
        "a/b/c/.ensemble/ensembles/x.yaml",
        "sub/.Ensemble/config.yaml",
        "sub/.ENSEMBLE/config.yaml",
        "./sub/./.ensemble/config.yaml",
        "link/config.yaml",
        "sub/.ensemble",
    ] {
        let workspace = attack(&write_file(path, "evil"), edits);
        std::fs::create_dir_all(workspace.path().join("other/.ensemble")).expect("made");
        std::os::unix::fs::symlink("other/.ensemble", workspace.path().join("link")).expect("linked");
        run(&workspace, &[]).expect_code(0);
        let heard = workspace.read("heard-a.txt");
        assert!(
            heard.lines().last().expect("an answer").contains("\"error\""),
            "{path}: {heard}"
        );
        assert!(!workspace.path().join(path).exists(), "{path}");
        assert!(!workspace.path().join("other/.ensemble/config.yaml").exists(), "{path}");
    }
}

#[test]
fn the_settings_of_the_user_are_not_written() {
    // The configuration of the user of a test is below the project.
    let path = "home/.config/ensemble/trust.json";
    let workspace = attack(&write_file(path, "evil"), "    permissions: {edit: allow}\n");
    run(&workspace, &[]).expect_code(0);
    assert!(workspace.read("heard-a.txt").contains("the settings of the user"));
    assert!(!workspace.path().join(path).exists());
}
