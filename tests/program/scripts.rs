//! Script agents that misbehave, through the binary.

#![expect(clippy::disallowed_methods, reason = "tests look at files and at the clock")]

use std::time::{Duration, Instant};

use crate::support::{Outcome, Workspace, eventually};

/// One agent called `it` that runs `it.sh`, with more keys.
fn one(script: &str, keys: &str) -> Workspace {
    let workspace = Workspace::new();
    workspace.write("it.sh", script);
    workspace.write(
        "a.yaml",
        format!("name: a\nagents:\n  - {{name: it, script: it.sh{keys}}}\n"),
    );
    workspace
}

fn run(workspace: &Workspace) -> Outcome {
    workspace.run(["run", "a.yaml", "--output", "json"])
}

/// Is the process whose number stands in the file still there, and no zombie?
fn is_alive(workspace: &Workspace, file: &str) -> bool {
    let pid = workspace.read(file);
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

#[track_caller]
fn dies(workspace: &Workspace, file: &str) {
    eventually(&format!("the end of {file}"), || {
        (!is_alive(workspace, file)).then_some(())
    });
}

#[test]
fn a_script_that_hangs_dies_with_its_children_when_its_time_is_up() {
    let workspace = one(
        "sleep 300 & echo $! > child.pid\n(sleep 300 & echo $! > grandchild.pid; wait) &\necho $$ > own.pid; wait",
        ", timeout_seconds: 1",
    );
    let begun = Instant::now();
    let outcome = run(&workspace).expect_code(1);
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    assert_eq!(
        outcome.json()["conversation_history"][0]["output_data"]["kind"],
        "timeout"
    );
    for file in ["own.pid", "child.pid", "grandchild.pid"] {
        dies(&workspace, file);
    }
}

#[test]
fn what_a_script_leaves_behind_is_killed_and_not_waited_for() {
    let workspace = one("sleep 300 & echo $! > child.pid\necho '{\"done\": true}'", "");
    let begun = Instant::now();
    let outcome = run(&workspace).expect_code(0);
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    assert_eq!(outcome.json()["final_state"]["done"], true);
    dies(&workspace, "child.pid");
}

#[test]
fn a_script_that_floods_stderr_is_no_failure_and_only_the_end_is_kept() {
    let workspace = one(
        "head -c 30000000 /dev/zero | tr '\\0' x >&2; echo the end >&2; echo '{\"done\": true}'",
        "",
    );
    let outcome = run(&workspace).expect_code(0);
    assert_eq!(outcome.json()["final_state"]["done"], true);
    let journal = workspace.journal();
    let finished = journal.iter().find(|record| record["event"] == "execution_finished");
    let stderr = finished.expect("it finished")["data"]["stderr"]
        .as_str()
        .expect("its stderr");
    assert!(stderr.trim_end().ends_with("the end"));
    assert!(stderr.len() < 1_000_000, "{}", stderr.len());
}

#[test]
fn a_script_may_ignore_a_large_stdin_or_close_it() {
    for script in [
        "exec true",
        "exec <&-; sleep 0.1; echo fine",
        "head -c 10 >/dev/null; echo fine",
    ] {
        let workspace = one(script, "");
        workspace.write("seed.json", format!("{{\"large\": \"{}\"}}", "x".repeat(3_000_000)));
        let outcome = workspace.run(["run", "a.yaml", "--context", "seed.json", "--output", "json"]);
        let outcome = outcome.expect_code(0);
        assert_eq!(outcome.json()["conversation_history"][0]["success"], true, "{script}");
    }
}

#[test]
fn a_large_context_reaches_a_script_whole() {
    let workspace = one("wc -c", "");
    workspace.write("seed.json", format!("{{\"large\": \"{}\"}}", "x".repeat(3_000_000)));
    let outcome = workspace.run(["run", "a.yaml", "--context", "seed.json", "--output", "json"]);
    let count = outcome.expect_code(0).json()["final_state"]["response"].as_u64();
    assert!(count.is_some_and(|count| count > 3_000_000), "{count:?}");
}

#[test]
fn bytes_that_are_no_text_are_replaced_with_a_warning() {
    let workspace = one("printf 'a\\377b'", "");
    let result = run(&workspace).expect_code(0).json();
    assert_eq!(result["final_state"]["response"], "a\u{fffd}b");
    let warning = result["warnings"][0].as_str().expect("a warning");
    assert!(warning.contains("UTF-8"), "{warning}");
}

#[test]
fn a_script_finds_the_ids_in_its_environment_and_stands_in_the_project_root() {
    let workspace = Workspace::new();
    workspace.write("project/.ensemble/config.yaml", "model_profiles: {}\n");
    workspace.write(
        "project/deep/a.yaml",
        "name: a\nagents:\n  - {name: it, script: it.sh}\n",
    );
    workspace.write(
        "project/deep/it.sh",
        "echo \"$ENSEMBLE_RUN_ID $ENSEMBLE_AGENT_NAME $ENSEMBLE_EXECUTION $ENSEMBLE_ATTEMPT $ENSEMBLE_TURN $PWD\"",
    );
    let outcome = workspace
        .run(["run", "project/deep/a.yaml", "--output", "json"])
        .expect_code(0);
    let result = outcome.json();
    let root = workspace.path().join("project");
    let id = result["run_id"].as_str().expect("an id");
    let expected = format!("{id} it 1 1 1 {}", root.display());
    assert_eq!(result["final_state"]["response"], expected);
    assert!(root.join(".ensemble/runs").join(id).join("journal.jsonl").is_file());
}

#[test]
fn scripts_are_looked_for_beside_the_ensemble_then_in_the_root_then_in_its_scripts() {
    let workspace = Workspace::new();
    workspace.write(".ensemble/config.yaml", "model_profiles: {}\n");
    workspace.write("deep/a.yaml", "name: a\nagents:\n  - {name: it, script: it.rhai}\n");
    let response = || {
        let outcome = workspace.run(["run", "deep/a.yaml", "--output", "json"]).expect_code(0);
        outcome.json()["final_state"]["response"].clone()
    };
    workspace.write("scripts/it.rhai", "\"scripts\"");
    assert_eq!(response(), "scripts");
    workspace.write("it.rhai", "\"root\"");
    assert_eq!(response(), "root");
    workspace.write("deep/it.rhai", "\"beside\"");
    assert_eq!(response(), "beside");
}

#[test]
fn a_program_and_a_command_line_are_scripts_too() {
    let workspace = Workspace::new();
    workspace.script("tool", "#!/bin/sh\necho \"tool\"");
    workspace.write(
        "a.yaml",
        "name: a\nagents:\n  - {name: tool, script: ./tool}\n  - {name: words, script: \"printf '%s+' 'one two' three\"}\n",
    );
    let result = run(&workspace).expect_code(0).json();
    assert_eq!(result["final_state"]["tool"]["response"], "tool");
    assert_eq!(result["final_state"]["words"]["response"], "one two+three+");
}

#[test]
fn a_missing_script_and_one_that_may_not_be_executed_say_what_to_do() {
    let workspace = Workspace::new();
    workspace.write("tool", "#!/bin/sh\necho");
    workspace.write(
        "a.yaml",
        "name: a\nagents:\n  - {name: tool, script: ./tool}\n  - {name: gone, script: gone.rhai}\n",
    );
    let told = workspace.run(["validate", "a.yaml"]);
    assert!(told.stdout.contains("chmod +x"), "{}", told.stdout);
    assert!(told.stdout.contains("gone.rhai"), "{}", told.stdout);
    let refused = workspace.run(["run", "a.yaml"]).expect_code(2);
    assert!(refused.stderr.contains("chmod +x"), "{}", refused.stderr);
    assert!(refused.stderr.contains("error[E106]"), "{}", refused.stderr);
    assert!(!workspace.path().join(".ensemble/runs").exists(), "no run was created");
}

#[test]
fn a_run_refuses_scripts_that_are_not_there_also_in_nested_ensembles_and_not_for_stubs() {
    let workspace = Workspace::new();
    workspace.write("inner.yaml", "name: i\nagents: [{name: deep, script: gone.sh}]\n");
    workspace.write("broken.rhai", "let = ;");
    workspace.write(
        "a.yaml",
        "name: a\nagents:\n  - {name: n, ensemble: inner.yaml}\n  - {name: b, script: broken.rhai}\n  - {name: c, script: no-such-program | cat}\n",
    );
    let refused = workspace.run(["run", "a.yaml"]).expect_code(2).stderr;
    for says in ["gone.sh", "broken.rhai:1:5", "no-such-program"] {
        assert!(refused.contains(says), "{refused}");
    }
    let stubs = ["--stub", "n.deep=1", "--stub", "b=2", "--stub", "c=3"];
    workspace.run(["run", "a.yaml"].into_iter().chain(stubs)).expect_code(0);
}

#[test]
fn a_resumed_and_a_continued_run_warn_of_scripts_that_have_changed() {
    let workspace = Workspace::new();
    workspace.write("s.sh", "echo 1");
    workspace.write(
        "a.yaml",
        "name: a\nagents:\n  - {name: s, script: s.sh}\n  - {name: q, input: {prompt: Well?}, depends_on: [s]}\n",
    );
    workspace.run(["run", "a.yaml"]).expect_code(3);
    for (text, command) in [
        ("echo 2", &["resume", "--last", "--answer", "q=y"][..]),
        ("echo 3", &["continue", "--last", "more", "--answer", "q=z"]),
    ] {
        workspace.write("s.sh", text);
        let told = workspace.run(command).expect_code(0).stderr;
        assert!(
            told.contains("warning: scripts or other files") && told.contains("`s.sh`"),
            "{told}"
        );
    }
}

#[test]
fn a_run_names_its_project_root_and_finds_ensembles_by_their_file_names() {
    let workspace = Workspace::new();
    workspace.write(
        ".ensemble/ensembles/a.yaml",
        "name: a\nagents: [{name: s, script: pwd}]\n",
    );
    let told = workspace.run(["run", "a.yaml"]).expect_code(0).stderr;
    assert!(!told.contains("the project root is"), "{told}");
    workspace.write("below/b.yaml", "name: b\nagents: [{name: s, script: pwd}]\n");
    let mut command = workspace.command(["run", "b.yaml"]);
    let told = command
        .current_dir(workspace.path().join("below"))
        .output()
        .expect("it runs");
    let told = String::from_utf8_lossy(&told.stderr);
    assert!(told.contains("note: the project root is "), "{told}");
}

#[test]
fn agents_of_a_turn_run_side_by_side() {
    let workspace = Workspace::new();
    // Each waits for all others to have begun, so that they can end only together.
    workspace.write(
        "meet.sh",
        "touch here.$ENSEMBLE_AGENT_NAME\nuntil [ -e here.a ] && [ -e here.b ] && [ -e here.c ]; do sleep 0.02; done",
    );
    let agents: String = ["a", "b", "c"]
        .map(|name| format!("  - {{name: {name}, script: meet.sh, timeout_seconds: 15}}\n"))
        .concat();
    workspace.write("a.yaml", format!("name: a\nagents:\n{agents}"));
    run(&workspace).expect_code(0);
    workspace.write(
        "a.yaml",
        format!("name: a\nagents:\n{agents}conversation_limits: {{parallel_agent_limit: 2}}\n").replace("15", "1"),
    );
    for file in ["here.a", "here.b", "here.c"] {
        std::fs::remove_file(workspace.path().join(file)).expect("it was there");
    }
    let result = run(&workspace).expect_code(1).json();
    assert_eq!(result["conversation_history"][0]["output_data"]["kind"], "timeout");
}

#[test]
fn a_rhai_script_stays_within_its_sandbox() {
    for (script, kind, says) in [
        ("let s = \"x\"; loop { s += s; }", "exit", ""),
        ("let a = []; a.pad(100_000_000, 1);", "exit", ""),
        ("fn f(n) { f(n + 1) + 1 } f(0)", "exit", ""),
        ("let a = []; loop { a = [a, a]; }", "exit", ""),
        ("import \"os\" as os; os::x()", "", "import"),
        ("eval(\"1\")", "", "eval"),
        ("open(\"/etc/passwd\")", "", "open"),
    ] {
        let workspace = Workspace::new();
        workspace.write("it.rhai", script);
        workspace.write("a.yaml", "name: a\nagents:\n  - {name: it, script: it.rhai}\n");
        let begun = Instant::now();
        let outcome = run(&workspace);
        if outcome.code == 2 {
            // A script that does not compile keeps the run from starting.
            assert!(
                kind.is_empty() && outcome.stderr.contains(says),
                "{script}: {}",
                outcome.stderr
            );
            continue;
        }
        let outcome = outcome.expect_code(1);
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "{script}: {:?}",
            begun.elapsed()
        );
        let entry = outcome.json()["conversation_history"][0].clone();
        assert!(
            kind.is_empty() || entry["output_data"]["kind"] == kind,
            "{script}: {entry}"
        );
        assert!(
            entry["error"].as_str().is_some_and(|error| error.contains(says)),
            "{script}: {entry}"
        );
    }
}

#[test]
fn a_rhai_script_that_takes_too_long_is_stopped_by_the_agents_timeout() {
    let workspace = Workspace::new();
    workspace.write("it.rhai", "let a = []; loop { a.push(1); }");
    workspace.write(
        "a.yaml",
        "name: a\nagents:\n  - {name: it, script: it.rhai, timeout_seconds: 0.5}\n",
    );
    let entry = run(&workspace).expect_code(1).json()["conversation_history"][0].clone();
    assert_eq!(entry["output_data"]["kind"], "timeout", "{entry}");
}

#[test]
fn text_before_the_json_of_a_script_is_warned_of() {
    let workspace = Workspace::new();
    workspace.script("s.sh", "#!/bin/sh\necho loading\necho '{\"ready\": true}'\n");
    workspace.write("a.yaml", "name: a\nagents: [{name: it, script: ./s.sh}]\n");
    let ran = workspace.run(["run", "a.yaml"]).expect_code(0);
    let expected = "warning: it: printed no JSON; its output has only `response`: there is text before the JSON object that \
                    begins in line 2; write such text to standard error\n";
    assert!(ran.stderr.contains(expected), "{}", ran.stderr);
    workspace.script("s.sh", "#!/bin/sh\necho loading >&2\necho '{\"ready\": true}'\n");
    let ran = workspace
        .run(["run", "a.yaml", "--output", "json"])
        .expect_code(0)
        .json();
    assert_eq!(ran["final_state"]["ready"], true);
    assert_eq!(ran["warnings"], serde_json::json!([]));
}
