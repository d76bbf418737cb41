//! Signals, crashes, damaged journals and full disks: what was reported is never lost.

#![expect(clippy::disallowed_methods, reason = "tests look at files and start programs")]

use ensemble_core::log::JOURNAL_FORMAT;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Outcome, Running, Workspace, binary, eventually, records};
use serde_json::{Value, json};

/// Four agents in a row; `two` waits for a file called `go`. Each says in `side.txt` that it began.
fn chain() -> Workspace {
    let workspace = Workspace::new();
    workspace.write(
        "step.sh",
        "echo \"$ENSEMBLE_AGENT_NAME $ENSEMBLE_EXECUTION.$ENSEMBLE_ATTEMPT\" >> side.txt\n\
         if [ $ENSEMBLE_AGENT_NAME = two ]; then sleep 300 & echo $! > child.pid; echo $$ > two.pid; fi\n\
         if [ $ENSEMBLE_AGENT_NAME = two ] && [ ! -e go ]; then wait; fi\n\
         echo \"{\\\"by_$ENSEMBLE_AGENT_NAME\\\": $ENSEMBLE_TURN}\"",
    );
    workspace.write(
        "a.yaml",
        "name: chain\nagents:\n\
         \x20 - {name: one, script: step.sh}\n\
         \x20 - {name: two, script: step.sh, depends_on: [one]}\n\
         \x20 - {name: beside, script: step.sh, depends_on: [one]}\n\
         \x20 - {name: three, script: step.sh, depends_on: [two]}\n",
    );
    workspace
}

fn side(workspace: &Workspace) -> Vec<String> {
    let text = std::fs::read_to_string(workspace.path().join("side.txt")).unwrap_or_default();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// Starts the chain and waits until `two` runs and `beside` has finished.
fn started(workspace: &Workspace) -> Running {
    let running = workspace.spawn(["run", "a.yaml", "--output", "json"]);
    eventually("the second turn", || {
        let text = std::fs::read_to_string(workspace.runs().first()?.join("journal.jsonl")).ok()?;
        let finished = text
            .lines()
            .filter(|line| line.contains("\"execution_finished\""))
            .count();
        (finished == 2 && workspace.path().join("two.pid").exists()).then_some(())
    });
    running
}

fn dies(workspace: &Workspace, file: &str) {
    let pid = workspace.read(file);
    eventually(&format!("the end of {file}"), || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
        stat.map_or(true, |stat| stat.contains(") Z ")).then_some(())
    });
}

/// A result without what differs from run to run.
fn essence(outcome: &Outcome) -> Value {
    let result = outcome.json();
    let history = result["conversation_history"].as_array().expect("a history").iter();
    let entry = |entry: &Value| {
        json!([
            entry["turn_number"],
            entry["agent_name"],
            entry["output_data"],
            entry["success"]
        ])
    };
    json!({
        "reason": result["completion_reason"],
        "state": result["final_state"],
        "turns": result["turn_count"],
        "counts": result["agent_execution_count"],
        "history": history.map(entry).collect::<Vec<_>>(),
    })
}

fn undisturbed() -> Value {
    let workspace = chain();
    workspace.write("go", "");
    essence(&workspace.run(["run", "a.yaml", "--output", "json"]).expect_code(0))
}

fn resumed(workspace: &Workspace) -> Outcome {
    workspace.write("go", "");
    workspace.run(["resume", "--last", "--output", "json"])
}

#[test]
fn a_signal_stops_politely_and_resume_ends_as_if_nothing_had_happened() {
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let workspace = chain();
        let running = started(&workspace);
        running.signal(signal);
        let outcome = running.finish().expect_code(code);
        let result = outcome.json();
        assert_eq!(result["completion_reason"], "cancelled");
        assert_eq!(outcome.sequence(), ["1 one", "2 beside"]);
        assert_eq!(result["turn_count"], 1);
        assert_eq!(result["agent_execution_count"]["two"], 0);
        assert_eq!(result["final_state"], json!({"by_one": 1, "one": {"by_one": 1}}));
        dies(&workspace, "two.pid");
        dies(&workspace, "child.pid");
        let journal = workspace.journal();
        assert_eq!(journal.last().expect("records")["event"], "run_ended");
        assert_eq!(essence(&resumed(&workspace).expect_code(0)), undisturbed());
        assert_eq!(
            side(&workspace),
            ["beside 1.1", "one 1.1", "three 1.1", "two 1.1", "two 1.2"]
        );
    }
}

#[test]
fn a_killed_run_goes_on_and_repeats_only_what_was_under_way() {
    let workspace = chain();
    let running = started(&workspace);
    running.signal("KILL");
    running.finish().expect_code(137);
    dies(&workspace, "two.pid");
    // The next attempt writes its own number into child.pid.
    workspace.write("left.pid", workspace.read("child.pid"));
    assert_eq!(essence(&resumed(&workspace).expect_code(0)), undisturbed());
    dies(&workspace, "left.pid");
    assert_eq!(
        side(&workspace),
        ["beside 1.1", "one 1.1", "three 1.1", "two 1.1", "two 1.2"]
    );
    let attempts: Vec<u64> = workspace
        .journal()
        .iter()
        .filter(|record| record["event"] == "execution_started" && record["data"]["agent"] == "two")
        .filter_map(|record| record["data"]["attempt"].as_u64())
        .collect();
    assert_eq!(attempts, [1, 2]);
}

#[test]
fn two_signals_end_the_program_at_once() {
    let workspace = chain();
    workspace.write(
        "step.sh",
        "trap '' INT TERM HUP\necho $$ > two.pid\ntouch began\nwhile :; do sleep 0.1; done",
    );
    let running = workspace.spawn(["run", "a.yaml"]);
    eventually("the beginning", || {
        workspace.path().join("began").exists().then_some(())
    });
    running.signal("INT");
    running.signal("INT");
    running.finish().expect_code(130);
    dies(&workspace, "two.pid");
    for record in workspace.journal() {
        assert!(record["seq"].is_u64());
    }
}

#[test]
fn two_processes_cannot_drive_one_run() {
    let workspace = chain();
    let running = started(&workspace);
    let id = workspace.runs()[0]
        .file_name()
        .expect("an id")
        .to_string_lossy()
        .into_owned();
    let refused = workspace.run(["resume", &id]).expect_code(1);
    assert!(refused.stderr.contains(&id), "{}", refused.stderr);
    assert!(
        refused.stderr.contains(&running.0.id().to_string()),
        "{}",
        refused.stderr
    );
    assert_eq!(side(&workspace), ["beside 1.1", "one 1.1", "two 1.1"]);
    workspace.run(["runs", "rm", &id]).expect_code(1);
    running.signal("INT");
    running.finish().expect_code(130);
    resumed(&workspace).expect_code(0);
}

/// A folder in which the same run stands with another journal.
fn with_journal(original: &Workspace, text: &[u8]) -> Workspace {
    let workspace = Workspace::new();
    let run = &original.runs()[0];
    let id = run.file_name().expect("an id").to_string_lossy().into_owned();
    let folder = format!(".ensemble/runs/{id}");
    for name in ["a.yaml", "s.rhai"] {
        let path = original.path().join(name);
        if path.exists() {
            workspace.write(name, original.read(name));
        }
    }
    // The recorded folder is named in the journal, so scripts are found there as before.
    workspace.write(
        &format!("{folder}/ensemble.yaml"),
        std::fs::read(run.join("ensemble.yaml")).expect("a copy"),
    );
    workspace.write(&format!("{folder}/journal.jsonl"), text);
    workspace
}

/// A loop, a failure with its retry and its route, an answer, and a request.
fn eventful() -> Workspace {
    let workspace = Workspace::new();
    workspace.write(
        "a.yaml",
        r#"
name: eventful
agents:
  - name: writer
    model_profile: p
    prompt: Write.
    dependencies: [{agent_name: critic, feedback: true, condition: "output.again"}]
    conversation: {max_turns: 3}
  - name: critic
    script: s.rhai
    depends_on: [writer]
    conversation: {max_turns: 3, triggers_conversation: true}
  - name: flaky
    script: s.rhai
    retry: {max_attempts: 2, delay_seconds: 0.01}
  - name: medic
    script: s.rhai
    dependencies: [{agent_name: flaky, on: failure}]
  - name: asked
    input: {prompt: "Who?", responses: [Ada]}
    dependencies: [{agent_name: writer, condition: "false"}]
model_profiles:
  p: {provider: simulated, replies: [one, two, three]}
"#,
    );
    workspace.write(
        "s.rhai",
        r#"switch agent_name {
    "flaky" => throw "flaky",
    "medic" => #{ healed: failures.flaky.kind },
    _ => #{ again: execution < 2, agent_requests: if execution == 1 { [#{ target_agent: "asked" }] } else { [] } },
}"#,
    );
    workspace
}

#[test]
fn resume_from_every_prefix_of_a_journal_ends_the_same() {
    let original = eventful();
    let outcome = original.run(["run", "a.yaml", "--output", "json"]).expect_code(0);
    assert_eq!(
        outcome.sequence(),
        [
            "1 writer", "1 flaky", "2 critic", "2 medic", "3 writer", "3 asked", "4 critic"
        ]
    );
    let expected = essence(&outcome);
    let journal = original.runs()[0].join("journal.jsonl");
    let bytes = std::fs::read(&journal).expect("the journal");
    let ends: Vec<usize> = (0..bytes.len())
        .filter(|at| bytes[*at] == b'\n')
        .map(|at| at + 1)
        .collect();
    assert!(ends.len() > 25, "{}", ends.len());
    for (line, end) in ends.iter().enumerate() {
        // A line that is torn in its middle counts as not written.
        let torn = ends.get(line + 1).map_or(*end, |next| (end + next) / 2);
        let workspace = with_journal(&original, &bytes[..torn]);
        let outcome = workspace.run(["resume", "--last", "--output", "json"]).expect_code(0);
        assert_eq!(essence(&outcome), expected, "after line {}", line + 1);
        let is_torn = outcome.stderr.contains("was incomplete and has been dropped");
        assert_eq!(is_torn, torn != *end, "after line {}: {}", line + 1, outcome.stderr);
        let again = workspace.run(["replay", "--quiet", &id(&workspace)]).expect_code(0);
        assert_eq!(again.stdout, "");
    }
}

fn id(workspace: &Workspace) -> String {
    workspace.runs()[0]
        .file_name()
        .expect("an id")
        .to_string_lossy()
        .into_owned()
}

#[test]
fn a_damaged_line_is_refused_with_its_number() {
    let original = eventful();
    original.run(["run", "a.yaml"]).expect_code(0);
    let journal = original.runs()[0].join("journal.jsonl");
    let bytes = std::fs::read(&journal).expect("the journal");
    let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    let damaged: Vec<(usize, Vec<u8>)> = vec![
        (5, {
            let mut lines: Vec<Vec<u8>> = lines.iter().map(|line| line.to_vec()).collect();
            let middle = lines[4].len() / 2;
            lines[4][middle] ^= 1;
            lines.concat()
        }),
        // A line is gone: the numbers have a gap.
        (5, [&lines[..4], &lines[5..]].concat().concat()),
        (5, [&lines[..4], &[b"{}\n".as_slice()], &lines[4..]].concat().concat()),
    ];
    for (line, bytes) in damaged {
        let workspace = with_journal(&original, &bytes);
        let id = id(&workspace);
        for command in [
            vec!["resume", &id],
            vec!["replay", &id],
            vec!["runs", "show", &id],
            vec!["runs", "export", &id],
        ] {
            let outcome = workspace.run(command.clone()).expect_code(2);
            assert!(
                outcome.stderr.contains(&format!("journal.jsonl:{line}:")),
                "{command:?}: {}",
                outcome.stderr
            );
        }
        let unchanged = std::fs::read(workspace.runs()[0].join("journal.jsonl")).expect("the journal");
        assert_eq!(unchanged, bytes);
    }
}

#[test]
fn a_journal_of_another_version_is_refused() {
    let original = eventful();
    original.run(["run", "a.yaml"]).expect_code(0);
    let text = std::fs::read_to_string(original.runs()[0].join("journal.jsonl")).expect("the journal");
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let (body, _) = lines[0]
        .replace(&format!("\"format\":{JOURNAL_FORMAT}"), "\"format\":999")
        .rsplit_once(",\"crc\"")
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .expect("a checksum");
    lines[0] = format!("{body},\"crc\":\"{:08x}\"}}", crc32fast::hash(body.as_bytes()));
    let workspace = with_journal(&original, format!("{}\n", lines.join("\n")).as_bytes());
    let outcome = workspace.run(["resume", &id(&workspace)]).expect_code(2);
    assert!(outcome.stderr.contains("999"), "{}", outcome.stderr);
}

#[test]
fn a_folder_that_cannot_be_written_stops_before_anything_runs() {
    for place in [".ensemble", ".ensemble/runs"] {
        let workspace = chain();
        workspace.write("go", "");
        workspace.write(place, "a file stands in the way");
        let outcome = workspace.run(["run", "a.yaml"]).expect_code(1);
        assert!(outcome.stderr.contains(".ensemble"), "{}", outcome.stderr);
        assert_eq!(side(&workspace), Vec::<String>::new());
    }
}

#[test]
fn a_full_disk_stops_the_run_and_loses_nothing_that_was_reported() {
    let workspace = Workspace::new();
    workspace.write(
        "big.sh",
        "echo \"$ENSEMBLE_AGENT_NAME $ENSEMBLE_EXECUTION.$ENSEMBLE_ATTEMPT\" >> side.txt; head -c 3000 /dev/zero | tr '\\0' x",
    );
    workspace.write(
        "a.yaml",
        "name: big\nagents:\n  - {name: it, script: big.sh, conversation: {max_turns: 8, trigger: every_turn}}\n",
    );
    // The largest file that the program may write is 16 blocks; a write beyond it fails instead of ending the program.
    let mut limited = Command::new("sh");
    let template = workspace.command(["run"]);
    limited
        .args(["-c", "trap '' XFSZ; ulimit -f 24; exec \"$0\" \"$@\""])
        .arg(binary())
        .args(["run", "a.yaml", "--output", "events"])
        .current_dir(workspace.path())
        .env_clear()
        .envs(template.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let outcome = Running(limited.spawn().expect("sh starts")).finish().expect_code(1);
    assert!(outcome.stderr.contains("journal.jsonl"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("File too large"), "{}", outcome.stderr);
    let reported = outcome
        .stdout
        .lines()
        .filter(|line| line.contains("execution_finished"))
        .count();
    assert!(reported > 0, "something was reported");
    let outcome = workspace.run(["resume", "--last", "--output", "json"]).expect_code(0);
    assert_eq!(outcome.json()["agent_execution_count"]["it"], 8);
    let repeated = side(&workspace).len() - 8;
    assert!(repeated <= 1, "{:?}", side(&workspace));
}

#[test]
fn the_sequence_of_the_journal_has_no_gaps_and_finished_runs_are_not_touched_by_resume() {
    let workspace = eventful();
    workspace.run(["run", "a.yaml"]).expect_code(0);
    let journal: PathBuf = workspace.runs()[0].join("journal.jsonl");
    let seqs: Vec<u64> = records(&journal)
        .iter()
        .filter_map(|record| record["seq"].as_u64())
        .collect();
    assert!(seqs.iter().copied().eq(0..seqs.len() as u64), "{seqs:?}");
    let before = bytes(&journal);
    workspace.run(["resume", "--last"]).expect_code(0);
    assert_eq!(bytes(&journal), before);
}

fn bytes(path: &Path) -> Vec<u8> {
    std::fs::read(path).expect("the file")
}

#[test]
fn a_script_that_dies_of_the_same_ctrl_c_was_interrupted_and_did_not_fail() {
    let workspace = Workspace::new();
    // What a terminal does: the signal goes to both. The script is gone before the program looks: it is stopped until then.
    workspace.write(
        "both.sh",
        "run=$PPID; self=$$\n\
         setsid sh -c \"until grep -q ') Z ' /proc/$self/stat; do :; done; kill -INT $run; kill -CONT $run\" \\\n\
         \x20 </dev/null >/dev/null 2>&1 &\n\
         kill -STOP $run\n\
         kill -INT $$\n\
         sleep 300\n",
    );
    workspace.write("a.yaml", "name: a\nagents:\n  - {name: it, script: both.sh}\n");
    let outcome = workspace.run(["run", "a.yaml", "--output", "json"]);
    assert_eq!(outcome.code, 130, "{}", outcome.stderr);
    let journal = workspace.journal();
    let events: Vec<&str> = journal.iter().filter_map(|record| record["event"].as_str()).collect();
    assert!(!events.contains(&"execution_finished"), "{events:?}");
    assert!(events.contains(&"interrupted"), "{events:?}");
}

#[test]
fn a_script_that_dies_of_a_signal_of_its_own_has_failed() {
    let workspace = Workspace::new();
    workspace.write("own.sh", "kill -INT $$; sleep 300");
    workspace.write("a.yaml", "name: a\nagents:\n  - {name: it, script: own.sh}\n");
    let outcome = workspace.run(["run", "a.yaml", "--output", "json"]);
    assert_eq!(outcome.code, 1, "{}", outcome.stderr);
}
