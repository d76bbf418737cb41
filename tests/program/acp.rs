//! External agents: what a user sees of programs that speak the Agent Client Protocol, of good ones and of others.

#![expect(clippy::disallowed_methods, reason = "tests wait and look at files")]

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::files::read;
use crate::support::{Outcome, Workspace, eventually};

/// A workspace with an agent that does this to a prompt; `more`: lines of the agent.
fn hostile(arguments: &str, more: &str) -> Workspace {
    let workspace = Workspace::new();
    workspace.write("hostile.sh", read("tests/acp/hostile.sh"));
    let acp = format!("{{command: sh, args: [hostile.sh, {arguments}], env: {{GIVEN: x}}}}");
    workspace.write(
        "a.yaml",
        format!("name: a\nagents:\n  - name: a\n    acp: {acp}\n    prompt: go\n{more}"),
    );
    workspace
}

/// A workspace with the built-in agent, which does these steps.
fn simulated(replies: &str, more: &str) -> Workspace {
    let workspace = Workspace::new();
    workspace.write(
        "a.yaml",
        format!("name: a\nagents:\n  - name: a\n    acp: simulated\n    config: {{replies: [{replies}]}}\n{more}"),
    );
    workspace
}

fn run(workspace: &Workspace) -> Outcome {
    workspace.run(["run", "a.yaml", "--output", "json"])
}

/// The kind and the error of the first entry of the history.
fn failure(outcome: &Outcome) -> (String, String) {
    let entry = &outcome.json()["conversation_history"][0];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (
        text(&entry["output_data"]["kind"]),
        text(&entry["output_data"]["error"]),
    )
}

fn response(outcome: &Outcome) -> String {
    let entry = &outcome.json()["conversation_history"][0];
    entry["output_data"]["response"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn stop_reasons_are_successes_or_typed_failures() {
    for (stop, kind, error) in [
        ("refusal", "refusal", "refused"),
        ("max_turn_requests", "max_iterations", "its own limit of requests"),
        ("cancelled", "cancelled", "did not cancel it"),
        ("bored", "model", "does not match the protocol"),
    ] {
        let outcome = run(&hostile(&format!("stop, {stop}"), "")).expect_code(1);
        let (found, told) = failure(&outcome);
        assert_eq!(found, kind, "{stop}: {told}");
        assert!(told.contains(error), "{stop}: {told}");
    }
    for stop in ["end_turn", "max_tokens"] {
        run(&hostile(&format!("stop, {stop}"), "")).expect_code(0);
    }
}

#[test]
fn a_program_that_breaks_is_a_failure_with_its_words() {
    for (what, kind, error) in [
        ("die", "model", "something broke"),
        ("giant", "model", "a message of more than 16 MiB"),
        ("refuse", "model", "no login"),
    ] {
        let (found, told) = failure(&run(&hostile(what, "")).expect_code(1));
        assert_eq!(found, kind, "{what}: {told}");
        assert!(told.contains(error), "{what}: {told}");
    }
}

#[test]
fn lines_that_are_no_messages_and_unknown_requests_do_no_harm() {
    let outcome = run(&hostile("noise", "")).expect_code(0);
    assert_eq!(response(&outcome), "all the same");
}

#[test]
fn a_time_limit_reaches_a_program_that_says_nothing() {
    let workspace = hostile("mute", "    timeout_seconds: 0.5\n");
    let begun = Instant::now();
    let (kind, _) = failure(&run(&workspace).expect_code(1));
    assert_eq!(kind, "timeout");
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert_eq!(
        workspace.read("cancelled"),
        "yes\n",
        "it was told with `session/cancel`"
    );
}

#[test]
fn a_signal_reaches_the_program_too() {
    let workspace = hostile("mute", "");
    let run = workspace.spawn(["run", "a.yaml"]);
    eventually("the prompt is there", || {
        workspace.path().join("prompted").exists().then_some(())
    });
    run.signal("INT");
    run.finish().expect_code(130);
    assert_eq!(workspace.read("cancelled"), "yes\n");
}

#[test]
fn files_outside_of_the_project_are_not_reached() {
    let allowed = "    permissions: {read: allow, edit: allow}\n";
    for (method, path, expected) in [
        ("fs/read_text_file", "a.yaml", "done"),
        ("fs/read_text_file", "../secret", "refused"),
        ("fs/read_text_file", "/etc/passwd", "refused"),
        ("fs/read_text_file", "link", "refused"),
        ("fs/write_text_file", "new/file", "done"),
        ("fs/write_text_file", "../secret", "refused"),
        ("fs/write_text_file", "link", "refused"),
        ("fs/write_text_file", ".ensemble/config.yaml", "refused"),
    ] {
        let workspace = hostile(&format!("file, {method}, {path}"), allowed);
        std::os::unix::fs::symlink("/etc/hostname", workspace.path().join("link")).expect("linked");
        let outcome = run(&workspace).expect_code(0);
        assert_eq!(response(&outcome), expected, "{method} {path}");
    }
}

#[test]
fn the_environment_is_small() {
    let workspace = hostile("env", "");
    let mut command = workspace.command(["run", "a.yaml", "--output", "json"]);
    let child = command.env("SECRET", "s3cret").spawn().expect("the program starts");
    let outcome = crate::support::Running(child).finish().expect_code(0);
    assert_eq!(response(&outcome), "secret= given=x");
}

/// What becomes of a command, with these permissions and options.
fn command_is(permissions: &str, options: &[&str]) -> (i32, String) {
    let workspace = simulated(
        "{steps: [{execute: make, text: made}], text: end}",
        &format!("    permissions: {{{permissions}}}\n"),
    );
    let outcome = workspace.run([&["run", "a.yaml", "--output", "json"], options].concat());
    if outcome.code == 2 {
        return (2, String::new());
    }
    let ended = workspace
        .journal()
        .into_iter()
        .find(|record| record["event"] == "tool_call_ended");
    let end = ended.map(|record| {
        let call = &record["data"]["call"];
        call["error"].as_str().map_or(call["result"].to_string(), str::to_owned)
    });
    (outcome.code, end.unwrap_or_default())
}

#[test]
fn permissions_are_by_the_kind_of_tool() {
    for (permissions, options, code, end) in [
        ("execute: allow", &[][..], 0, "made"),
        ("execute: deny", &[], 0, "the ensemble does not permit it"),
        ("read: allow", &["--allow-tool", "a.execute"], 0, "made"),
        ("", &["--allow-tool", "a"], 0, "made"),
        ("", &["--deny-tool", "a.execute"], 0, "it is denied for this run"),
        (
            "execute: deny",
            &["--allow-tool", "*"],
            0,
            "the ensemble does not permit it",
        ),
        ("", &[], 3, ""),
        ("", &["--allow-tool", "a.run"], 2, ""),
    ] {
        let (found, told) = command_is(permissions, options);
        assert_eq!(found, code, "{permissions} {options:?}: {told}");
        assert!(told.contains(end), "{permissions} {options:?}: {told}");
    }
}

#[test]
fn a_run_that_waits_for_a_permission_goes_on_with_it() {
    let workspace = simulated("{steps: [{write: out.txt, text: hello}], text: end}", "");
    run(&workspace).expect_code(3);
    let id = workspace.runs()[0]
        .file_name()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    assert!(!workspace.path().join("out.txt").exists());
    workspace.run(["resume", &id, "--allow-tool", "a.edit"]).expect_code(0);
    assert_eq!(workspace.read("out.txt"), "hello");
}

#[test]
fn a_tool_of_a_denied_kind_that_was_not_asked_for_stops_the_program() {
    let (kind, told) = failure(&run(&hostile("sneaky", "    permissions: {execute: deny}\n")).expect_code(1));
    assert_eq!(kind, "sandbox", "{told}");
    assert!(told.contains("denies `execute`: rm -rf"), "{told}");
    run(&hostile("sneaky", "")).expect_code(0);
}

#[test]
fn a_changed_file_stands_in_the_journal_as_a_diff() {
    let workspace = simulated(
        "{steps: [{write: a.txt, text: \"two\\n\"}]}",
        "    permissions: {edit: allow}\n",
    );
    workspace.write("a.txt", "one\n");
    run(&workspace).expect_code(0);
    assert_eq!(workspace.read("a.txt"), "two\n");
    let diffs = workspace.journal().into_iter().filter_map(|record| {
        let diff = &record["data"]["call"]["result"]["diff"];
        diff.as_str().map(str::to_owned)
    });
    let mut diffs: Vec<String> = diffs.collect();
    // The call shows what the file then becomes.
    assert_eq!(diffs.len(), 2);
    diffs.dedup();
    assert_eq!(diffs, ["--- a.txt\n+++ a.txt\n@@ -1 +1 @@\n-one\n+two\n"]);
}

#[test]
fn one_session_serves_all_executions_and_an_answer_off_the_schema_is_sent_back() {
    let again = "    conversation: {max_turns: 2}\n    dependencies: [{agent_name: b, feedback: true}]\n  - {name: b, script: b.rhai, depends_on: [a]}\n";
    let workspace = hostile("remember", again);
    workspace.write("b.rhai", "1");
    let history = run(&workspace).expect_code(0).json()["conversation_history"].clone();
    let said = |at: usize| {
        history[at]["output_data"]["response"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let process = said(0).replace("prompt 1 of ", "");
    assert_eq!(said(2), format!("prompt 2 of {process}"));

    let schema = "    output_schema: {type: object, required: [n], properties: {n: {type: integer}}}\n    retry: {max_attempts: 2}\n";
    let outcome = run(&simulated("no, '{\"n\": 3}'", schema)).expect_code(0);
    assert_eq!(outcome.json()["conversation_history"][0]["output_data"]["n"], 3);
}

/// The answers of the agent, oldest first.
fn answers(outcome: &Outcome) -> Vec<String> {
    let history = outcome.json()["conversation_history"].clone();
    let entries = history.as_array().expect("a history").iter();
    let own = entries.filter(|entry| entry["agent_name"] == "a");
    let said = own.map(|entry| entry["output_data"]["response"].as_str().unwrap_or_default().to_owned());
    said.collect()
}

#[test]
fn without_memory_and_in_parts_each_execution_has_a_program_of_its_own() {
    let again = "    conversation: {max_turns: 2, memory: none}\n    dependencies: [{agent_name: b, feedback: true}]\n  - {name: b, script: b.sh, depends_on: [a]}\n";
    let workspace = hostile("remember", again);
    workspace.write(
        "b.sh",
        "pid=$(sed -n 's/.*prompt 1 of \\([0-9]*\\).*/\\1/p')\ni=0\nwhile kill -0 \"$pid\" 2>/dev/null && [ $i -lt 400 ]; do sleep 0.05; i=$((i + 1)); done\n[ $i -lt 400 ] && echo gone || echo alive\n",
    );
    let outcome = run(&workspace).expect_code(0);
    assert_eq!(
        outcome.json()["final_state"]["b"]["response"],
        "gone",
        "while another agent works"
    );
    let said = answers(&outcome);
    assert!(said.iter().all(|said| said.starts_with("prompt 1 of ")), "{said:?}");
    assert!(said.len() == 2 && said[0] != said[1], "two programs: {said:?}");

    let workspace = hostile("remember", "    for_each: {in: [x, y, z], max_parallel: 2}\n");
    let outcome = run(&workspace).expect_code(0);
    let items = outcome.json()["conversation_history"][0]["output_data"]["items"].clone();
    let items = items.as_array().expect("parts").iter();
    let mut said: Vec<String> = items
        .map(|item| item["response"].as_str().unwrap_or_default().to_owned())
        .collect();
    assert!(said.iter().all(|said| said.starts_with("prompt 1 of ")), "{said:?}");
    said.sort();
    said.dedup();
    assert_eq!(said.len(), 3, "three programs: {said:?}");
    let sessions = workspace.read("sessions.txt");
    assert_eq!(sessions.matches("session/new").count(), 3, "{sessions}");
}

#[test]
fn a_run_that_goes_on_loads_the_session_where_the_program_can() {
    for (mode, method, said) in [
        ("loads", "session/load", "prompt 1 of "),
        ("resumes", "session/resume", "prompt 1 of "),
        ("forgets", "session/load", "told again"),
        ("remember", "session/new", "told again"),
    ] {
        let workspace = hostile(mode, "");
        run(&workspace).expect_code(0);
        let run = workspace.runs()[0]
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        let outcome = workspace
            .run(["continue", &run, "and more", "--output", "json"])
            .expect_code(0);
        let answers = answers(&outcome);
        assert_eq!(answers.len(), 2, "{mode}: {answers:?}");
        assert!(answers[1].starts_with(said), "{mode}: {answers:?}");
        assert_ne!(answers[0], answers[1], "{mode}: another process");
        let sessions = workspace.read("sessions.txt");
        let second = sessions.lines().nth(1).expect("a second session");
        assert!(second.contains(method), "{mode}: {second}");
        let is_named = second.contains("\"sessionId\":\"s1\"");
        assert_eq!(is_named, method != "session/new", "{mode}: {second}");
    }
}

#[test]
fn a_killed_run_goes_on_where_the_program_was() {
    let workspace = hostile("halfway", "");
    let run = workspace.spawn(["run", "a.yaml"]);
    eventually("the tool call has ended", || {
        let journal = std::fs::read_to_string(workspace.runs().first()?.join("journal.jsonl")).ok()?;
        journal.contains("tool_call_ended").then_some(())
    });
    run.signal("KILL");
    drop(run.finish());
    let id = workspace.runs()[0]
        .file_name()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    let outcome = workspace.run(["resume", &id, "--output", "json"]).expect_code(0);
    assert_eq!(response(&outcome), "told what was done, and to go on");
}

#[test]
fn a_replay_starts_no_process() {
    let workspace = hostile("env", "");
    run(&workspace).expect_code(0);
    workspace.write("hostile.sh", "touch started");
    let id = workspace.runs()[0]
        .file_name()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    workspace.run(["replay", &id]).expect_code(0);
    assert!(!workspace.path().join("started").exists());
}

#[test]
fn a_missing_program_is_told_before_the_run() {
    let workspace = Workspace::new();
    workspace.write("a.yaml", "name: a\nagents: [{name: a, acp: claude}]\n");
    let outcome = workspace.run(["run", "a.yaml"]).expect_code(2);
    assert!(
        outcome
            .stderr
            .contains("npm install -g @agentclientprotocol/claude-agent-acp"),
        "{}",
        outcome.stderr
    );
    assert_eq!(workspace.runs().len(), 0);
    let outcome = workspace.run(["validate", "a.yaml"]).expect_code(0);
    let told = format!("{}{}", outcome.stdout, outcome.stderr);
    assert!(told.contains("warning[W003]"), "{told}");
}
