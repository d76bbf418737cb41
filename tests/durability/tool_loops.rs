//! What a crash may take of an execution in which a model calls tools: nothing that was answered, and no call twice.

#![expect(clippy::disallowed_methods, reason = "tests make files")]

use serde_json::{Value, json};

use crate::support::exchange::tool_calls;
use crate::support::{Workspace, records};

/// Two calls side by side, an agent as a tool that calls a tool itself, an ensemble as a tool, and a reply that is sent
/// back. `ledger.txt` has a line for each side effect, `asked.txt` one for each request to a model.
const ENSEMBLE: &str = r#"
name: loop
agents:
  - name: boss
    model_profile: boss
    tools: [pay, ask, inside]
    retry: {max_attempts: 2}
    output_schema: {type: object, required: [n], properties: {n: {type: integer}}}
  - {name: helper, model_profile: helper, tools: [pay]}
tools:
  pay: {script: ./pay.sh, parameters: {type: object, properties: {what: {type: string}}}}
  ask: {agent: helper}
  inside: {ensemble: inside.yaml}
model_profiles:
  boss: {provider: simulated, script: boss.rhai}
  helper: {provider: simulated, script: helper.rhai}
"#;

const INSIDE: &str = r#"
name: inside
agents:
  - {name: first, script: ./pay.sh, config: {what: inside}}
  - {name: second, script: "echo done", depends_on: [first]}
"#;

const BOSS: &str = r#"
let calls = 0;
let corrections = 0;
for message in messages {
    calls += message.get("tool_calls", []).len();
    if message.content.contains("rejected") { corrections += 1; }
}
if calls == 0 { #{ text: "I pay.", tool_calls: [#{ name: "pay", arguments: #{ what: "one" } }, #{ name: "pay", arguments: #{ what: "two" } }] } }
else if calls == 2 { #{ tool_calls: [#{ name: "ask", arguments: #{ input: "help" } }] } }
else if calls == 3 { #{ tool_calls: [#{ name: "inside", arguments: #{ input: "go" } }] } }
else if corrections == 0 { "no JSON" }
else { "{\"n\": " + calls + "}" }
"#;

const HELPER: &str = r#"
let calls = 0;
for message in messages { calls += message.get("tool_calls", []).len(); }
if calls == 0 { #{ tool_calls: [#{ name: "pay", arguments: #{ what: "helped" } }] } } else { "helped" }
"#;

const PAY: &str = r#"#!/bin/sh
what=$(sed -n 's/.*"what":"\([a-z]*\)".*/\1/p')
echo "$what" >> ledger.txt
echo "paid $what"
"#;

const ALL: [&str; 4] = ["helped", "inside", "one", "two"];

fn workspace(repeatable: bool) -> Workspace {
    let workspace = Workspace::new();
    let ensemble = match repeatable {
        true => ENSEMBLE.replace("./pay.sh, parameters", "./pay.sh, repeatable: true, parameters"),
        false => ENSEMBLE.to_owned(),
    };
    workspace.write("loop.yaml", ensemble);
    workspace.write("inside.yaml", INSIDE);
    workspace.write("boss.rhai", BOSS);
    workspace.write("helper.rhai", HELPER);
    workspace.script("pay.sh", PAY);
    workspace.write("ledger.txt", "");
    workspace
}

fn ledger(workspace: &Workspace) -> Vec<String> {
    let mut lines: Vec<String> = workspace.read("ledger.txt").lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// The number of records that a run appends, with those of the run inside it.
fn appends(workspace: &Workspace) -> usize {
    let run = &workspace.runs()[0];
    let inner = walkdir(&run.join("sub"));
    let count = |path: &std::path::Path| records(path).len();
    count(&run.join("journal.jsonl")) + inner.iter().map(|path| count(path)).sum::<usize>()
}

fn walkdir(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let entries = entries.map(|entry| entry.expect("an entry").path());
    entries
        .map(|folder| folder.join("journal.jsonl"))
        .filter(|path| path.exists())
        .collect()
}

/// The records of the journal, without one that is torn.
fn whole_records(journal: &std::path::Path) -> Vec<Value> {
    let text = std::fs::read_to_string(journal).expect("a journal");
    text.lines().map_while(|line| serde_json::from_str(line).ok()).collect()
}

#[test]
fn the_loop_does_what_the_other_tests_cut_short() {
    let workspace = workspace(false);
    let result = workspace
        .run(["run", "loop.yaml", "--output", "json"])
        .expect_code(0)
        .json();
    assert_eq!(result["final_state"]["n"], 4);
    assert_eq!(ledger(&workspace), ALL);
    assert_eq!(result["usage"]["requests"], 7);
    let journal = workspace.journal();
    let events: Vec<&str> = journal.iter().filter_map(|record| record["event"].as_str()).collect();
    let expected = [
        "run_started",
        "turn_started",
        "execution_started",
        // Two payments side by side.
        "reply_received",
        "tool_call_started",
        "tool_call_started",
        "tool_call_ended",
        "tool_call_ended",
        // The helper, with what it says and does.
        "reply_received",
        "tool_call_started",
        "reply_received",
        "tool_call_started",
        "tool_call_ended",
        "reply_received",
        "tool_call_ended",
        // The ensemble, whose records are its own.
        "reply_received",
        "tool_call_started",
        "tool_call_ended",
        // What is sent back.
        "reply_received",
        "execution_finished",
        "turn_finished",
        "run_ended",
    ];
    assert_eq!(events, expected);
    let sent_back = &journal[18]["data"]["iteration"];
    assert_eq!(sent_back["messages"][0]["content"], "no JSON");
    assert!(sent_back["metadata"]["rejected"].is_string(), "{sent_back}");
    let said: Vec<&Value> = journal
        .iter()
        .filter(|record| record["data"].get("inside").is_some())
        .collect();
    assert_eq!(said.len(), 4, "what happened inside the helper");
    let calls = tool_calls(&journal, "boss", 1);
    assert_eq!(calls[1][0]["result"], json!("helped"));
}

/// The process is killed at every append, before, in the middle of, and after the write; every run goes on.
#[test]
fn no_call_is_made_twice_and_no_answered_request_is_sent_again_wherever_the_process_is_killed() {
    let whole = workspace(false);
    whole.run(["run", "loop.yaml", "-q"]).expect_code(0);
    let appends = appends(&whole);
    for point in ["before", "torn", "written", "synced"] {
        for append in 2..=appends {
            let workspace = workspace(false);
            let fault = format!("{point}:{append}");
            let mut command = workspace.command(["run", "loop.yaml", "-q"]);
            command.env("ENSEMBLE_FAULT", &fault);
            let status = command.status().expect("it runs");
            assert!(!status.success(), "{fault}");
            let before = whole_records(&workspace.runs()[0].join("journal.jsonl"));
            let resumed = workspace.run(["resume", "--last", "--output", "json"]);
            let result = resumed.expect_code(0).json();
            assert_eq!(result["final_state"]["n"], 4, "{fault}");
            let paid = ledger(&workspace);
            let journal = workspace.journal();
            for what in ALL {
                let count = paid.iter().filter(|paid| *paid == what).count();
                let told = journal.iter().filter(|record| record["event"] == "tool_call_ended");
                let told = told.map(|record| &record["data"]["call"]);
                let mut told = told.filter(|call| call["arguments"]["what"] == what);
                let is_unknown = told.next().is_some_and(|call| call["error"].is_string());
                // The script of the run inside is an agent: a script that was cut short starts again.
                let most = if what == "inside" { 2 } else { 1 };
                assert!(count <= most, "{fault}: {what} was paid {count} times");
                assert!(count > 0 || is_unknown, "{fault}: {what} was neither paid nor told");
            }
            let inner = walkdir(&workspace.runs()[0].join("sub"));
            // One that was cut short before its first record is left empty.
            let has_begun = |path: &&std::path::PathBuf| !whole_records(path).is_empty();
            let begun = inner.iter().filter(has_begun).count();
            assert_eq!(begun, 1, "{fault}: the run inside went on");
            let replies = |journal: &[Value]| -> Vec<Value> {
                let replies = journal.iter().filter(|record| record["event"] == "reply_received");
                replies.map(|record| record["data"]["iteration"].clone()).collect()
            };
            assert!(replies(&journal).starts_with(&replies(&before)), "{fault}");
            assert_eq!(replies(&journal).len(), 6, "{fault}: no reply was asked for twice");
        }
    }
}

#[test]
fn a_repeatable_call_that_was_under_way_is_made_again() {
    for (repeatable, expected) in [(true, 2), (false, 1)] {
        let workspace = workspace(repeatable);
        workspace.script(
            "pay.sh",
            "#!/bin/sh\nwhat=$(sed -n 's/.*\"what\":\"\\([a-z]*\\)\".*/\\1/p')\necho \"$what\" >> ledger.txt\n\
             if [ $what = helped ] && [ ! -e go ]; then touch go; kill -9 $PPID; sleep 60; fi\necho paid\n",
        );
        let killed = workspace.run(["run", "loop.yaml", "-q"]);
        assert_eq!(killed.code, 137, "{}", killed.stderr);
        let resumed = workspace.run(["resume", "--last", "--output", "json"]).expect_code(0);
        assert_eq!(resumed.json()["final_state"]["n"], 4);
        let paid = ledger(&workspace);
        let count = |what: &str| paid.iter().filter(|paid| *paid == what).count();
        assert_eq!((count("one"), count("two")), (1, 1), "{repeatable}");
        assert_eq!(count("helped"), expected, "{repeatable}");
        let warnings = resumed.json()["warnings"].to_string();
        let told = warnings.contains("the interrupted call of `pay` was not repeated");
        assert_eq!(told, !repeatable, "{warnings}");
    }
}

#[test]
fn what_a_run_that_was_cut_short_has_used_is_counted_once() {
    let whole = workspace(false);
    let whole = whole
        .run(["run", "loop.yaml", "--output", "json"])
        .expect_code(0)
        .json();
    for append in [6, 12, 19] {
        let workspace = workspace(false);
        let mut command = workspace.command(["run", "loop.yaml", "-q"]);
        command.env("ENSEMBLE_FAULT", format!("synced:{append}"));
        command.status().expect("it runs");
        let result = workspace
            .run(["resume", "--last", "--output", "json"])
            .expect_code(0)
            .json();
        assert_eq!(result["usage"]["requests"], whole["usage"]["requests"], "{append}");
        let entry = &result["conversation_history"][0];
        assert_eq!(
            entry["usage"]["by_tools"], whole["conversation_history"][0]["usage"]["by_tools"],
            "{append}"
        );
        let replayed = workspace
            .run(["replay", "--last", "--output", "json"])
            .expect_code(0)
            .json();
        assert_eq!(replayed["usage"], result["usage"], "{append}: a replay says the same");
    }
}

/// The bytes of the journal of a run whose model calls a tool this many times.
fn journal_of_loop(calls: usize) -> usize {
    let workspace = Workspace::new();
    workspace.write(
        "a.yaml",
        format!(
            "name: a\nagents: [{{name: a, model_profile: m, tools: [t], max_iterations: {}}}]\n\
             tools: {{t: {{script: t.rhai, parameters: {{type: object}}}}}}\n\
             model_profiles: {{m: {{provider: simulated, script: m.rhai}}}}\n",
            calls + 1
        ),
    );
    workspace.write("t.rhai", "\"0123456789\"");
    workspace.write(
        "m.rhai",
        format!("if messages.len() > {calls} {{ \"done\" }} else {{ #{{ tool_calls: [#{{ name: \"t\" }}] }} }}"),
    );
    workspace
        .run(["run", "a.yaml", "-q", "--durability", "none"])
        .expect_code(0);
    let journal = workspace.runs()[0].join("journal.jsonl");
    let replies = workspace.journal();
    let replies = replies.iter().filter(|record| record["event"] == "reply_received");
    assert_eq!(replies.count(), calls);
    usize::try_from(std::fs::metadata(journal).expect("a journal").len()).expect("a length")
}

#[test]
fn the_journal_of_a_long_loop_grows_with_its_length() {
    let (short, long) = (journal_of_loop(40), journal_of_loop(400));
    assert!(long < 11 * short, "{short} bytes for 40 calls, {long} for 400");
}
