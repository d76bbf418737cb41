//! `--then`, `continue` and `fork` through the binary: conversations that go on, and those that part.

use crate::support::{Workspace, records};
use serde_json::json;

const CHAT: &str = r#"
name: chat
agents:
  - name: bot
    model_profile: m
    prompt: "{{ input }}"
    conversation: {max_turns: 1}
  - name: judge
    script: judge.rhai
    depends_on: [bot]
model_profiles:
  m: {provider: simulated, script: bot.rhai}
"#;

/// A bot that remembers how much was said to it, and a judge that quotes it.
fn chat() -> Workspace {
    let workspace = Workspace::new();
    workspace.write("chat.yaml", CHAT);
    workspace.write("bot.rhai", "`${messages.len()} messages, the last is ${prompt}`");
    workspace.write("judge.rhai", "#{ verdict: dependencies.bot.response }");
    workspace
}

fn run_id(workspace: &Workspace) -> String {
    let runs = workspace.runs();
    runs.last()
        .expect("a run")
        .file_name()
        .expect("a name")
        .to_string_lossy()
        .into_owned()
}

#[test]
fn a_message_opens_another_leg_with_context_and_memory_kept() {
    let workspace = chat();
    let outcome = workspace
        .run(["run", "chat.yaml", "-i", "one", "--then", "two", "--output", "json"])
        .expect_code(0);
    assert_eq!(outcome.sequence(), ["1 bot", "2 judge", "3 bot", "4 judge"]);
    let result = outcome.json();
    assert_eq!(result["final_state"]["verdict"], "3 messages, the last is two");
    assert_eq!(result["agent_execution_count"], json!({"bot": 2, "judge": 2}));
    let id = run_id(&workspace);
    let outcome = workspace
        .run(["continue", &id, "three", "--output", "json"])
        .expect_code(0);
    assert_eq!(outcome.sequence()[4..], ["5 bot", "6 judge"]);
    assert_eq!(
        outcome.json()["final_state"]["verdict"],
        "5 messages, the last is three"
    );
    assert_eq!(outcome.json()["input"], "three");
    let replayed = workspace.run(["replay", &id]).expect_code(0);
    assert_eq!(replayed.stdout, "✓ the same: 9 decisions in 6 turns\n");
}

#[test]
fn limits_count_from_the_last_message() {
    let workspace = chat();
    workspace.write(
        "short.yaml",
        format!("{CHAT}conversation_limits: {{max_total_turns: 2}}\n"),
    );
    let outcome = workspace
        .run(["run", "short.yaml", "-i", "one", "--then", "two", "--output", "json"])
        .expect_code(0);
    assert_eq!(outcome.json()["turn_count"], 4);
    assert_eq!(outcome.json()["completion_reason"], "completed");
}

#[test]
fn only_an_ended_run_can_be_continued() {
    let workspace = Workspace::new();
    workspace.write("ask.yaml", "name: ask\nagents:\n- {name: you, input: 'Well?'}\n");
    workspace.run(["run", "ask.yaml"]).expect_code(3);
    let id = run_id(&workspace);
    let refused = workspace.run(["continue", &id, "more"]).expect_code(2);
    assert!(refused.stderr.contains("has not ended"), "{}", refused.stderr);
    assert!(
        refused.stderr.contains(&format!("ensemble resume {id}")),
        "{}",
        refused.stderr
    );
}

#[test]
fn a_fork_shares_the_beginning_and_leaves_the_first_run_alone() {
    let workspace = chat();
    workspace.run(["run", "chat.yaml", "-i", "one"]).expect_code(0);
    let first = run_id(&workspace);
    let before = workspace.read(&format!(".ensemble/runs/{first}/journal.jsonl"));
    workspace.write("strict.yaml", CHAT.replace("judge.rhai", "strict.rhai"));
    workspace.write("strict.rhai", "#{ verdict: \"no: \" + dependencies.bot.response }");
    let forked = workspace
        .run([
            "fork",
            &first,
            "--at-turn",
            "1",
            "--ensemble",
            "strict.yaml",
            "--output",
            "json",
        ])
        .expect_code(0);
    assert_eq!(forked.sequence(), ["1 bot", "2 judge"]);
    assert_eq!(
        forked.json()["final_state"]["verdict"],
        "no: 1 messages, the last is one"
    );
    assert_eq!(workspace.read(&format!(".ensemble/runs/{first}/journal.jsonl")), before);
    let second = forked.json()["run_id"].as_str().expect("an id").to_owned();
    assert_ne!(second, first);
    let journal = records(&workspace.path().join(format!(".ensemble/runs/{second}/journal.jsonl")));
    // Another text decided the first turn: a replay takes its records as they are.
    let forked = &journal[0]["data"]["forked_from"];
    assert_eq!(*forked, json!({"run_id": first, "turn": 1, "given": 4}));
    let bots = journal
        .iter()
        .filter(|record| record["event"] == "execution_started" && record["data"]["agent"] == "bot");
    assert_eq!(bots.count(), 1, "what both runs share is not performed again");
    workspace.run(["replay", &second]).expect_code(0);
}

#[test]
fn a_fork_needs_a_turn_that_is_there_and_the_agents_that_ran() {
    let workspace = chat();
    workspace.run(["run", "chat.yaml", "-i", "one"]).expect_code(0);
    let id = run_id(&workspace);
    let refused = workspace.run(["fork", &id, "--at-turn", "3"]).expect_code(2);
    assert!(refused.stderr.contains("no finished turn 3"), "{}", refused.stderr);
    workspace.write(
        "other.yaml",
        "name: other\nagents:\n- {name: judge, script: judge.rhai}\n",
    );
    let refused = workspace
        .run(["fork", &id, "--at-turn", "1", "--ensemble", "other.yaml"])
        .expect_code(2);
    assert!(refused.stderr.contains("no agent `bot`"), "{}", refused.stderr);
    assert_eq!(workspace.runs().len(), 1, "nothing was started");
}

/// The records that are taken over keep their times; the fork's own begins when it begins.
#[test]
fn the_times_of_forks_and_reruns_are_their_own() {
    let workspace = chat();
    workspace.run(["run", "chat.yaml", "-i", "one"]).expect_code(0);
    let shown = |id: &str| {
        workspace
            .run(["runs", "show", id, "--output", "json"])
            .expect_code(0)
            .json()
    };
    let moment = |value: &serde_json::Value| {
        let text = value.as_str().expect("a time");
        chrono::DateTime::parse_from_rfc3339(text).expect("a time")
    };
    let id = run_id(&workspace);
    let origin = shown(&id);
    for words in [
        &["fork", &id, "--at-turn", "1"][..],
        &["rerun", &id, "--from", "judge@2"],
    ] {
        let words = words.iter().chain(&["--output", "json"]);
        let forked = workspace.run(words).expect_code(0).json();
        let fork = shown(forked["run_id"].as_str().expect("an id"));
        assert!(moment(&fork["started_at"]) >= moment(&origin["latest_at"]), "{fork}");
        let whole = (moment(&fork["latest_at"]) - moment(&fork["started_at"])).as_seconds_f64();
        let active = fork["active_seconds"].as_f64().expect("a number");
        assert!((active - whole).abs() < 0.001, "{active} of {whole}");
        let page = workspace
            .run(["runs", "export", "--last", "--format", "html"])
            .expect_code(0)
            .stdout;
        assert!(page.contains("copied from the other run"), "{page}");
    }
    let listed = workspace.run(["runs", "list", "--json"]).expect_code(0).json();
    let starts: Vec<_> = listed["runs"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|run| moment(&run["started_at"]))
        .collect();
    assert!(starts.is_sorted_by(|one, next| one < next), "{starts:?}");
}
