//! Edit, then go on: what is taken over, what is executed again, and what is said about it.

#![expect(clippy::disallowed_methods, reason = "tests make files")]

use crate::support::{Outcome, Running, Workspace, eventually, records};
use serde_json::{Value, json};

/// A root, and two branches from it that meet again.
const BRANCHES: &str = "name: branches\nagents:\n\
    \x20 - {name: root, script: say.sh, config: {word: root}}\n\
    \x20 - {name: x, script: say.sh, depends_on: [root], config: {word: x}}\n\
    \x20 - {name: y, script: say.sh, depends_on: [root], config: {word: y}}\n\
    \x20 - {name: x2, script: say.sh, depends_on: [x], config: {word: x2}}\n\
    \x20 - {name: y2, script: say.sh, depends_on: [y], config: {word: y2}}\n\
    \x20 - {name: both, script: both.rhai, depends_on: [x2, y2]}\n";

/// Notes in a side file that it ran, and says its word and what is in `more`.
const SAY: &str = "echo \"$ENSEMBLE_AGENT_NAME $ENSEMBLE_EXECUTION.$ENSEMBLE_ATTEMPT\" >> side.txt\n\
    word=$(sed 's/.*\"word\":\"\\([^\"]*\\)\".*/\\1/')\n\
    echo \"{\\\"$ENSEMBLE_AGENT_NAME-said\\\": \\\"$word$(cat more-$ENSEMBLE_AGENT_NAME 2> /dev/null)\\\"}\"";

fn branches() -> Workspace {
    let workspace = Workspace::new();
    workspace.write("a.yaml", BRANCHES);
    workspace.write("say.sh", SAY);
    workspace.write("both.rhai", "#{ heard: dependencies.x2, and: dependencies.y2 }");
    workspace
}

/// Who was performed since the last look, in order of name.
fn side(workspace: &Workspace) -> Vec<String> {
    let text = std::fs::read_to_string(workspace.path().join("side.txt")).unwrap_or_default();
    workspace.write("side.txt", "");
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

fn id(outcome: &Outcome) -> String {
    outcome.json()["run_id"].as_str().expect("an id").to_owned()
}

fn ran(workspace: &Workspace) -> String {
    let first = id(&workspace.run(["run", "a.yaml", "--output", "json"]).expect_code(0));
    assert_eq!(side(workspace).len(), 5);
    first
}

fn first_record(workspace: &Workspace, run: &str) -> Value {
    records(&workspace.path().join(format!(".ensemble/runs/{run}/journal.jsonl"))).remove(0)
}

#[test]
fn rerun_repeats_one_execution_and_what_followed_from_it_and_keeps_the_rest() {
    let workspace = branches();
    let first = ran(&workspace);
    workspace.write("more-x", "!");
    let again = workspace
        .run(["rerun", &first, "--from", "x@2", "--output", "json"])
        .expect_code(0);
    assert_eq!(side(&workspace), ["x 1.1", "x2 1.1"]);
    assert_eq!(again.json()["final_state"]["x-said"], "x!");
    assert_eq!(again.sequence(), ["1 root", "2 x", "2 y", "3 x2", "3 y2", "4 both"]);
    let second = id(&again);
    let forked = &first_record(&workspace, &second)["data"]["forked_from"];
    assert_eq!(*forked, json!({"run_id": first, "turn": 1, "repeats": "x@2"}));
    workspace.run(["replay", &second]).expect_code(0);
    // What followed is repeated even if the repeated execution says what it had said.
    workspace.run(["rerun", &second, "--from", "x@2"]).expect_code(0);
    assert_eq!(side(&workspace), ["x 1.1", "x2 1.1"]);
    assert_eq!(workspace.runs().len(), 3, "each is a run of its own");
}

#[test]
fn rerun_needs_an_execution_that_was() {
    let workspace = branches();
    let first = ran(&workspace);
    for (from, expected) in [
        ("x@3", "the agent ran in these turns: 2"),
        ("z@1", "the agents that ran are root, x, y"),
        ("x", "AGENT@TURN"),
        ("x@0", "AGENT@TURN"),
    ] {
        let refused = workspace.run(["rerun", &first, "--from", from]).expect_code(2);
        assert!(refused.stderr.contains(expected), "{from}: {}", refused.stderr);
    }
    assert_eq!(workspace.runs().len(), 1);
}

#[test]
fn later_messages_are_said_again_in_a_rerun() {
    let workspace = branches();
    let first = ran(&workspace);
    workspace.run(["continue", &first, "more"]).expect_code(0);
    side(&workspace);
    let again = workspace
        .run(["rerun", &first, "--from", "y@2", "--output", "json"])
        .expect_code(0);
    assert_eq!(again.json()["turn_count"], 8);
    assert_eq!(again.json()["input"], "more");
    assert_eq!(
        side(&workspace),
        ["y 1.1", "y2 1.1"],
        "the second leg reads what it had read"
    );
}

#[test]
fn an_edited_text_repeats_what_it_changes_and_takes_over_what_reads_the_same() {
    let workspace = branches();
    let first = ran(&workspace);
    // Another order, a new agent in front, a comment; and `y` says something else.
    let x = "  - {name: x, script: say.sh, depends_on: [root], config: {word: x}}\n";
    let edited = BRANCHES
        .replace(x, "")
        .replace(
            "agents:\n",
            &format!("agents: # edited\n  - {{name: new, script: say.sh}}\n{x}"),
        )
        .replace("{word: y}", "{word: why}");
    workspace.write("b.yaml", edited);
    let forked = workspace
        .run([
            "fork",
            &first,
            "--at-turn",
            "0",
            "--ensemble",
            "b.yaml",
            "--output",
            "json",
        ])
        .expect_code(0);
    assert!(
        forked.stderr.contains("b.yaml: changed: y (config); added: new\n"),
        "{}",
        forked.stderr
    );
    assert_eq!(side(&workspace), ["new 1.1", "y 1.1", "y2 1.1"]);
    assert_eq!(forked.json()["final_state"]["y-said"], "why");
    let journal = records(&workspace.runs()[1].join("journal.jsonl"));
    let reused = journal.iter().filter(|record| record["data"]["reused"] == true);
    let reused: Vec<&str> = reused.filter_map(|record| record["data"]["agent"].as_str()).collect();
    // `y2` read something else, and said what it had said: whoever reads that reads the same.
    assert_eq!(reused, ["root", "x", "x2", "both"]);
    // A fork without an edit is for real, and so is one with another context.
    workspace.run(["fork", &first, "--at-turn", "2"]).expect_code(0);
    assert_eq!(side(&workspace), ["x2 1.1", "y2 1.1"]);
}

#[test]
fn a_changed_agent_that_has_had_its_say_is_told_of() {
    let workspace = branches();
    let first = ran(&workspace);
    workspace.write("a.yaml", BRANCHES.replace("{word: x}", "{word: ex}"));
    let forked = workspace
        .run(["fork", &first, "--at-turn", "2", "--ensemble", "a.yaml"])
        .expect_code(0);
    let told = format!("ensemble rerun {first} --from x@2 --ensemble a.yaml");
    assert!(forked.stderr.contains(&told), "{}", forked.stderr);
    assert_eq!(
        side(&workspace),
        Vec::<String>::new(),
        "all the rest reads what it had read"
    );
    workspace
        .run(["rerun", &first, "--from", "x@2", "--ensemble", "a.yaml"])
        .expect_code(0);
    assert_eq!(side(&workspace), ["x 1.1", "x2 1.1"]);
}

/// Starts `a.yaml` with a `y` that waits, and kills it when `x` has finished beside it.
fn killed_in_turn_2() -> (Workspace, String) {
    let workspace = branches();
    workspace.write(
        "say.sh",
        format!("[ $ENSEMBLE_AGENT_NAME != y ] || [ -e go ] || while :; do sleep 0.01; done\n{SAY}"),
    );
    let running: Running = workspace.spawn(["run", "a.yaml"]);
    eventually("the end of x", || {
        let journal = std::fs::read_to_string(workspace.runs().first()?.join("journal.jsonl")).ok()?;
        (journal.matches("execution_finished").count() == 2).then_some(())
    });
    running.signal("KILL");
    running.finish().expect_code(137);
    assert_eq!(side(&workspace), ["root 1.1", "x 1.1"]);
    // Later executions of `y` do not wait; the old one does until it has been killed. The script stays as it is.
    workspace.write("go", "");
    let run = workspace.runs()[0]
        .file_name()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    (workspace, run)
}

#[test]
fn resume_says_that_the_file_has_changed_and_goes_on_with_its_copy() {
    let (workspace, run) = killed_in_turn_2();
    workspace.write(
        "a.yaml",
        format!("# a comment\n{}", BRANCHES.replace("{word: y2}", "{word: wy2}")),
    );
    let resumed = workspace.run(["resume", &run, "--output", "json"]).expect_code(0);
    assert!(
        resumed
            .stderr
            .contains("a.yaml has changed since the run started (changed: y2 (config))"),
        "{}",
        resumed.stderr
    );
    let command = format!("ensemble resume {run} --ensemble a.yaml");
    assert!(resumed.stderr.contains(&command), "{}", resumed.stderr);
    assert_eq!(resumed.json()["final_state"]["y2-said"], "y2");
    assert_eq!(side(&workspace), ["x2 1.1", "y 1.2", "y2 1.1"]);
}

#[test]
fn resume_with_an_edited_text_takes_over_what_had_finished_of_the_open_turn() {
    let (workspace, run) = killed_in_turn_2();
    workspace.write("a.yaml", BRANCHES.replace("{word: y}", "{word: why}"));
    let before = workspace.read(&format!(".ensemble/runs/{run}/journal.jsonl"));
    let resumed = workspace
        .run(["resume", &run, "--ensemble", "a.yaml", "--output", "json"])
        .expect_code(0);
    assert!(
        resumed.stderr.contains("a.yaml: changed: y (config)"),
        "{}",
        resumed.stderr
    );
    assert_eq!(side(&workspace), ["x2 1.1", "y 1.1", "y2 1.1"]);
    assert_eq!(resumed.json()["final_state"]["y-said"], "why");
    assert_eq!(workspace.read(&format!(".ensemble/runs/{run}/journal.jsonl")), before);
    workspace.run(["replay", &id(&resumed)]).expect_code(0);
    let refused = workspace
        .run(["resume", &id(&resumed), "--ensemble", "a.yaml"])
        .expect_code(2);
    assert!(refused.stderr.contains("has ended"), "{}", refused.stderr);
}

#[test]
fn what_an_edit_changes_is_executed_again_even_if_it_had_finished() {
    let (workspace, run) = killed_in_turn_2();
    workspace.write("a.yaml", BRANCHES.replace("{word: x}", "{word: ex}"));
    let resumed = workspace
        .run(["resume", &run, "--ensemble", "a.yaml", "--output", "json"])
        .expect_code(0);
    assert_eq!(side(&workspace), ["x 1.1", "x2 1.1", "y 1.1", "y2 1.1"]);
    assert_eq!(resumed.json()["final_state"]["x-said"], "ex");
}

/// An agent with a tool that is a script, and an agent that reads its output.
const PAY: &str = "name: pay\nagents:\n\
    \x20 - {name: pay, model_profile: m, prompt: Pay, tools: [charge]}\n\
    \x20 - {name: after, script: 'echo {}', depends_on: [pay]}\n\
    tools:\n\
    \x20 charge: {script: charge.rhai, description: Takes money, parameters: {type: object}}\n\
    model_profiles:\n\
    \x20 m: {provider: simulated, replies: [{tool_calls: [{name: charge, arguments: {}}]}, paid]}\n";

#[test]
fn a_change_behind_an_agent_is_named_and_is_never_reused() {
    let workspace = Workspace::new();
    workspace.write("pay.yaml", PAY);
    workspace.write("charge.rhai", "#{ charged: 1 }");
    let first = id(&workspace.run(["run", "pay.yaml", "--output", "json"]).expect_code(0));
    let fork = ["fork", &first, "--at-turn", "0", "--ensemble", "pay.yaml"];
    let same = workspace.run(fork).expect_code(0);
    assert!(
        same.stderr.contains("pay.yaml: no change that affects a run\n"),
        "{}",
        same.stderr
    );
    workspace.write("pay.yaml", PAY.replace("Takes money", "Takes all"));
    let tool = workspace.run(fork).expect_code(0);
    let expected = "pay.yaml: changed: pay\n  `pay`: tool `charge` has changed\n";
    assert!(tool.stderr.contains(expected), "{}", tool.stderr);
    let reused = |workspace: &Workspace| {
        let journal = records(&workspace.runs().last().expect("a run").join("journal.jsonl"));
        let reused = journal.iter().filter(|record| record["data"]["reused"] == true);
        let agents = reused.filter_map(|record| record["data"]["agent"].as_str().map(str::to_owned));
        agents.collect::<Vec<String>>()
    };
    assert_eq!(reused(&workspace), ["after"]);
    workspace.write("pay.yaml", PAY);
    workspace.write("charge.rhai", "#{ charged: 2 }");
    for words in [
        &fork[..],
        &["rerun", &first, "--from", "after@2"],
        &["continue", &first, "more", "--ensemble", "pay.yaml"],
        &["continue", &first, "more"],
    ] {
        let told = workspace.run(words).expect_code(0);
        let expected = "  `pay`: script `charge.rhai` has changed\n";
        assert!(told.stderr.contains(expected), "{words:?}: {}", told.stderr);
    }
    // The digest of a script is part of the record, and can be checked.
    let definitions = first_record(&workspace, &first)["data"]["definitions"].clone();
    let digest = definitions["pay"]["script: charge.rhai"].as_str();
    let expected = "d4745082f51bcc02ebf4b766ee50b908466c4fbcfe391c5c88b97a694dcd67af";
    assert_eq!(digest, Some(expected), "{definitions}");
}

#[test]
fn an_agent_that_must_be_asked_again_is_asked_again() {
    let text = BRANCHES.replace("{word: x}}", "{word: x}, conversation: {on_resume: rerun}}");
    let (workspace, run) = killed_in_turn_2();
    // The copy of the run is what it goes by, so that is where the key must stand.
    workspace.write(&format!(".ensemble/runs/{run}/ensemble.yaml"), &text);
    workspace.write("more-x", " later");
    let resumed = workspace.run(["resume", &run, "--output", "json"]).expect_code(0);
    assert_eq!(side(&workspace), ["x 1.2", "x2 1.1", "y 1.2", "y2 1.1"]);
    assert_eq!(resumed.json()["final_state"]["x-said"], "x later");
    assert_eq!(resumed.json()["final_state"]["both"]["heard"]["x2-said"], "x2");
    workspace.run(["replay", &run]).expect_code(0);
    // In a fork it is asked again in the last turn that both have, before anybody reads it.
    workspace.write("more-x", " and later");
    let forked = workspace
        .run(["fork", &run, "--at-turn", "2", "--output", "json"])
        .expect_code(0);
    assert_eq!(side(&workspace), ["x 1.1", "x2 1.1", "y2 1.1"]);
    assert_eq!(forked.json()["final_state"]["x-said"], "x and later");
    assert_eq!(forked.sequence(), ["1 root", "2 x", "2 y", "3 x2", "3 y2", "4 both"]);
    workspace.run(["replay", &id(&forked)]).expect_code(0);
    workspace.run(["fork", &run, "--at-turn", "3"]).expect_code(0);
    assert_eq!(side(&workspace), Vec::<String>::new());
}

#[test]
fn an_answer_that_is_given_comes_before_a_recorded_one() {
    let workspace = Workspace::new();
    let text =
        "name: ask\nagents:\n- {name: you, input: 'Well?'}\n- {name: echo, script: echo.rhai, depends_on: [you]}\n";
    workspace.write("ask.yaml", text);
    workspace.write("echo.rhai", "#{ echoed: dependencies.you.response }");
    let first = id(&workspace
        .run(["run", "ask.yaml", "--answer", "you=one", "--output", "json"])
        .expect_code(0));
    workspace.write(
        "ask.yaml",
        format!("{text}conversation_limits: {{max_total_turns: 5}}\n"),
    );
    let fork = [
        "fork",
        &first,
        "--at-turn",
        "0",
        "--ensemble",
        "ask.yaml",
        "--output",
        "json",
    ];
    let same = workspace.run(fork).expect_code(0);
    assert_eq!(same.json()["final_state"]["echoed"], "one");
    let other = workspace
        .run(fork.iter().chain(&["--answer", "you=two"]))
        .expect_code(0);
    assert_eq!(other.json()["final_state"]["echoed"], "two");
}

#[test]
fn a_fork_can_put_values_into_the_context() {
    let workspace = Workspace::new();
    workspace.write(
        "a.yaml",
        "name: a\nagents:\n- {name: one, script: one.rhai}\n- {name: two, script: two.rhai, dependencies: [{agent_name: one, condition: \"context.level > 1\"}]}\n",
    );
    workspace.write("one.rhai", "#{ level: 1 }");
    workspace.write("two.rhai", "#{ seen: context.level }");
    let first = id(&workspace.run(["run", "a.yaml", "--output", "json"]).expect_code(0));
    let forked = workspace
        .run(["fork", &first, "--at-turn", "1", "--set", "level=3", "--output", "json"])
        .expect_code(0);
    assert_eq!(forked.sequence(), ["1 one", "2 two"]);
    assert_eq!(forked.json()["final_state"]["seen"], 3);
    let second = id(&forked);
    workspace.run(["replay", &second]).expect_code(0);
    let told = workspace.run(["resume", &second, "--output", "json"]).expect_code(0);
    assert_eq!(told.json()["final_state"], forked.json()["final_state"]);
}

#[test]
fn a_run_of_another_project_is_named_by_its_path() {
    let workspace = branches();
    let run = ran(&workspace);
    let elsewhere = Workspace::new();
    let folder = workspace.path().join(".ensemble/runs").join(&run);
    let (folder, journal) = (
        folder.display().to_string(),
        folder.join("journal.jsonl").display().to_string(),
    );
    for place in [&folder, &journal] {
        elsewhere.run(["runs", "show", place]).expect_code(0);
        elsewhere.run(["runs", "export", place]).expect_code(0);
        let told = elsewhere.run(["resume", place, "--output", "json"]).expect_code(0);
        assert_eq!(id(&told), run);
    }
    elsewhere.run(["continue", &folder, "more"]).expect_code(0);
    assert_eq!(side(&workspace).len(), 5);
    elsewhere.run(["fork", &folder, "--at-turn", "2"]).expect_code(0);
    assert_eq!(side(&workspace), ["x2 1.1", "y2 1.1"]);
    assert_eq!(
        elsewhere.runs().len(),
        0,
        "a fork stands in the project of the run it comes from"
    );
    assert_eq!(workspace.runs().len(), 2);
    elsewhere.run(["runs", "rm", &folder]).expect_code(0);
    assert_eq!(workspace.runs().len(), 1);
    elsewhere.run(["runs", "show", "/"]).expect_code(2);
}

/// `poet` depends on `x` alone, and hears `y` too, since its prompt uses no variable.
const HEARS_ALL: &str = "name: hears\nagents:\n\
    \x20 - {name: root, script: say.sh, config: {word: root}}\n\
    \x20 - {name: x, script: say.sh, depends_on: [root], config: {word: x}}\n\
    \x20 - {name: y, script: say.sh, depends_on: [root], config: {word: y}}\n\
    \x20 - {name: poet, model_profile: echo, prompt: Go., depends_on: [x]}\n\
    model_profiles: {echo: {provider: simulated, script: echo.rhai}}\n";

#[test]
fn who_hears_everybody_follows_from_everybody() {
    for prompt in ["Go.", "'{{ transcript }}'", "'{{ history }}'"] {
        follows_from_everybody(&HEARS_ALL.replace("Go.", prompt));
    }
}

#[track_caller]
fn follows_from_everybody(ensemble: &str) {
    let workspace = branches();
    workspace.write("a.yaml", ensemble);
    workspace.write("echo.rhai", "#{ asked: prompt }.to_json()");
    let first = id(&workspace.run(["run", "a.yaml", "--output", "json"]).expect_code(0));
    let reused = |run: &str| -> Vec<String> {
        let records = records(&workspace.path().join(format!(".ensemble/runs/{run}/journal.jsonl")));
        let reused = records.iter().filter(|record| record["data"]["reused"] == true);
        let agents = reused.map(|record| record["data"]["agent"].as_str().expect("a name").to_owned());
        agents.collect()
    };
    let rerun = |from: &str| workspace.run(["rerun", &first, "--from", from, "--output", "json"]);
    // It is repeated even if what it hears is said again.
    assert_eq!(reused(&id(&rerun("y@2").expect_code(0))), ["x"]);
    workspace.write("more-y", "!");
    let again = rerun("y@2").expect_code(0);
    let asked = again.json()["final_state"]["asked"]
        .as_str()
        .expect("a text")
        .to_owned();
    assert!(asked.contains("{\"y-said\":\"y!\"}"), "{asked}");
    // An edit of an agent that it only hears concerns it too.
    workspace.write("b.yaml", ensemble.replace("{word: y}", "{word: why}"));
    let edited = workspace
        .run([
            "fork",
            &first,
            "--at-turn",
            "0",
            "--ensemble",
            "b.yaml",
            "--output",
            "json",
        ])
        .expect_code(0);
    assert_eq!(reused(&id(&edited)), ["root", "x"]);
}

#[test]
fn who_reads_the_history_follows_from_each_execution_in_it() {
    let workspace = branches();
    let ensemble = "name: told\nagents:\n\
        \x20 - {name: root, script: say.sh, config: {word: root}}\n\
        \x20 - name: y\n    script: say.sh\n    depends_on: [root]\n    config: {word: y}\n\
        \x20   conversation: {max_turns: 2, trigger: every_turn}\n\
        \x20 - {name: x, script: say.sh, depends_on: [root], config: {word: x}}\n\
        \x20 - {name: x2, script: say.sh, depends_on: [x], config: {word: x2}}\n\
        \x20 - {name: all, script: say.sh, depends_on: [x2], config: {word: all}, conversation: {history: 9}}\n\
        \x20 - {name: two, script: say.sh, depends_on: [x2], config: {word: two}, conversation: {history: 2}}\n";
    workspace.write("a.yaml", ensemble);
    let first = id(&workspace.run(["run", "a.yaml", "--output", "json"]).expect_code(0));
    side(&workspace);
    workspace.run(["rerun", &first, "--from", "y@2"]).expect_code(0);
    assert_eq!(side(&workspace), ["all 1.1", "y 1.1"], "two reads the third turn only");
}
