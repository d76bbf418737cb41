//! External agents: their tool calls in the record, and what they must ask for.

use serde_json::{Value, json};

use crate::support::acp_client::Client;
use crate::support::files::read;
use crate::support::{Outcome, Workspace, eventually};

/// A workspace whose agent does this to a prompt.
fn hostile(arguments: &str) -> Workspace {
    let workspace = Workspace::new();
    workspace.write("hostile.sh", read("tests/acp/hostile.sh"));
    let arguments = arguments.replace("HERE", &workspace.path().display().to_string());
    workspace.write(
        "a.yaml",
        format!(
            "name: a\nagents:\n  - name: a\n    acp: {{command: sh, args: [hostile.sh, {arguments}]}}\n    prompt: go\n"
        ),
    );
    workspace
}

fn run(workspace: &Workspace, options: &[&str]) -> Outcome {
    workspace.run(["run", "a.yaml", "--output", "json"].iter().chain(options))
}

fn output(outcome: &Outcome) -> Value {
    outcome.json()["conversation_history"][0]["output_data"].clone()
}

/// The records of this kind about a call.
fn records_of(workspace: &Workspace, kind: &str) -> Vec<Value> {
    let journal = workspace.journal().into_iter();
    journal.filter(|record| record["event"] == kind).collect()
}

#[test]
fn a_call_begins_and_ends_once_and_a_long_result_is_cut() {
    let workspace = hostile("twice");
    assert_eq!(output(&run(&workspace, &[]).expect_code(0))["response"], "done");
    assert_eq!(records_of(&workspace, "tool_call_started").len(), 1);
    let ended = records_of(&workspace, "tool_call_ended");
    assert_eq!(ended.len(), 1, "{ended:?}");
    let shown = workspace
        .run(["runs", "show", "--last", "--messages"])
        .expect_code(0)
        .stdout;
    let xs = shown.matches('x').count();
    assert!(
        shown.contains("[the rest is left out]") && (60_000..66_000).contains(&xs),
        "{xs} of 70,000"
    );
}

#[test]
fn a_program_that_says_more_than_may_be_kept_fails() {
    let failed = output(&run(&hostile("flood"), &[]).expect_code(1));
    assert_eq!(
        (&failed["kind"], &failed["error"]),
        (
            &json!("model"),
            &json!("the external agent: it sent more than 16 MiB of text")
        )
    );
}

#[test]
fn a_file_that_was_not_asked_for_needs_a_permission_of_its_own() {
    for method in ["fs/write_text_file", "fs/read_text_file"] {
        let kind = if method.contains("write") { "a.edit" } else { "a.read" };
        let workspace = hostile(&format!("file, {method}, HERE/x.txt"));
        workspace.write("x.txt", "as before");
        run(&workspace, &[]).expect_code(3);
        assert_eq!(workspace.read("x.txt"), "as before", "{method}: nobody was there");
        let denied = run(&workspace, &["--deny-tool", kind]).expect_code(0);
        assert_eq!(output(&denied)["response"], "refused", "{method}");
        assert_eq!(workspace.read("x.txt"), "as before");
        let allowed = run(&workspace, &["--allow-tool", kind]).expect_code(0);
        assert_eq!(output(&allowed)["response"], "done", "{method}");
    }
}

#[test]
fn a_file_of_a_call_that_was_permitted_is_not_asked_for_again() {
    let workspace = hostile("permit, HERE/x.txt");
    let mut client = Client::start(&workspace, "a.yaml", json!({}));
    let session = client.session(&workspace);
    let prompt = client.begin_prompt(&session, "go");
    client.permit();
    // Nothing else is asked before the answer.
    loop {
        let message = client.next();
        assert!(
            message.get("method").is_none() || message.get("id").is_none(),
            "{message}"
        );
        if message["id"] == prompt {
            assert_eq!(message["result"]["stopReason"], "end_turn", "{message}");
            break;
        }
    }
    assert_eq!(workspace.read("x.txt"), "changed");
    // The permitted call has begun, though the program did not say so.
    let begun = records_of(&workspace, "tool_call_started");
    assert_eq!(begun.len(), 2, "the call, and the file: {begun:?}");
}

#[test]
fn a_run_that_waits_for_a_permission_has_cancelled_the_prompt() {
    let workspace = hostile("permit, HERE/x.txt");
    run(&workspace, &[]).expect_code(3);
    eventually("the program was told", || {
        workspace.path().join("cancelled").exists().then_some(())
    });
    assert!(!workspace.path().join("x.txt").exists());
    let denied = hostile("permit, HERE/x.txt");
    let outcome = run(&denied, &["--deny-tool", "a.edit"]).expect_code(0);
    assert_eq!(output(&outcome)["response"], "not allowed");
    // A program that asked, and was refused, is not stopped because it tells the end of the call.
    let file = denied.read("a.yaml");
    denied.write("a.yaml", format!("{file}    permissions: {{edit: deny}}\n"));
    assert_eq!(output(&run(&denied, &[]).expect_code(0))["response"], "not allowed");
}

#[test]
fn the_last_diff_of_a_call_is_recorded_and_a_call_that_was_left_open_ends_with_the_prompt() {
    let workspace = hostile("diffs");
    run(&workspace, &[]).expect_code(0);
    let ended = records_of(&workspace, "tool_call_ended");
    assert_eq!(ended.len(), 1, "{ended:?}");
    let text = ended[0].to_string();
    assert!(text.contains("+three") && !text.contains("+two"), "{text}");
}

#[test]
fn a_program_whose_time_is_up_ends_while_the_run_goes_on() {
    let workspace = Workspace::new();
    workspace.write("hostile.sh", read("tests/acp/hostile.sh"));
    workspace.write(
        "b.sh",
        "i=0\nwhile kill -0 \"$(cat prompted)\" 2>/dev/null && [ $i -lt 400 ]; do sleep 0.05; i=$((i + 1)); done\n[ $i -lt 400 ] && echo gone || echo alive\n",
    );
    workspace.write(
        "a.yaml",
        "name: a\nagents:\n  - {name: a, acp: {command: sh, args: [hostile.sh, mute]}, prompt: go, timeout_seconds: 1}\n  - {name: b, script: b.sh, dependencies: [{agent_name: a, on: failure}]}\n",
    );
    let outcome = run(&workspace, &[]).expect_code(0);
    assert_eq!(outcome.json()["final_state"]["b"]["response"], "gone");
}
