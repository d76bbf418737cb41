//! What a crash may take: nothing that had ended. Journals cut everywhere, and processes killed at any moment.

#![expect(clippy::disallowed_methods, reason = "tests make files")]

use std::path::Path;
use std::time::Instant;

use crate::support::{Workspace, eventually, records};
use serde_json::Value;

/// Two side by side, a loop between two, a failure that is handled, parts in a loop, an agent that reads the loop when it has
/// settled, and a side file that counts what was performed.
const ENSEMBLE: &str = r#"
name: crash
agents:
  - name: left
    script: ./work.sh
    conversation: {max_turns: 1}
  - name: right
    script: ./work.sh
    dependencies:
      - {agent_name: review, feedback: true, condition: "not output.approved"}
    conversation: {max_turns: 3}
  - name: review
    script: review.rhai
    dependencies:
      - {agent_name: right}
      - {agent_name: left}
    conversation: {max_turns: 3}
  - name: broken
    script: "exit 7"
    dependencies: [{agent_name: left}]
  - name: mender
    script: ./work.sh
    dependencies: [{agent_name: broken, on: failure}]
  - name: many
    script: ./work.sh
    dependencies:
      - {agent_name: left}
      - {agent_name: tally, feedback: true, condition: "not output.enough"}
    conversation: {max_turns: 3}
    for_each: {in: [a, b, c], key: item, max_parallel: 2}
  - name: tally
    script: tally.rhai
    depends_on: [many]
    conversation: {max_turns: 3}
  - name: reader
    script: ./work.sh
    dependencies: [{agent_name: tally, wait_for: settled}]
    conversation: {max_turns: 3}
"#;

const WORK: &str = r#"#!/bin/sh
cat > /dev/null
echo "$ENSEMBLE_AGENT_NAME $ENSEMBLE_EXECUTION$ENSEMBLE_PART" >> performed.txt
echo "{\"by\": \"$ENSEMBLE_AGENT_NAME\", \"n\": $ENSEMBLE_EXECUTION}"
"#;

fn workspace() -> Workspace {
    let workspace = Workspace::new();
    workspace.write("crash.yaml", ENSEMBLE);
    workspace.script("work.sh", WORK);
    workspace.write("review.rhai", "#{ approved: execution > 1 }");
    workspace.write(
        "tally.rhai",
        "#{ enough: execution > 1, counted: dependencies.many.count }",
    );
    workspace
}

/// A result without times, ids and numbers of attempts.
fn essence(mut result: Value) -> Value {
    for entry in result["conversation_history"].as_array_mut().expect("a history") {
        for key in ["execution_time", "timestamp", "attempt"] {
            entry[key] = Value::Null;
        }
    }
    result["run_id"] = Value::Null;
    result
}

/// What the journal's first lines say has ended, in the words of the side file.
fn ended(lines: &[&str]) -> Vec<String> {
    let records = lines.iter().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let ends = records
        .filter(|record| ["execution_finished", "part_ended"].contains(&record["event"].as_str().unwrap_or_default()));
    let ends = ends.filter(|record| record["data"]["output"]["by"].is_string());
    ends.map(|record| {
        format!(
            "{} {}{}",
            record["data"]["agent"].as_str().expect("a name"),
            record["data"]["execution"],
            record["data"]["key"].as_str().unwrap_or_default()
        )
    })
    .collect()
}

fn lines_of(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn a_journal_cut_anywhere_goes_on_to_the_same_end_and_repeats_nothing_that_had_ended() {
    let workspace = workspace();
    let whole = essence(
        workspace
            .run(["run", "crash.yaml", "--output", "json"])
            .expect_code(0)
            .json(),
    );
    let counts = &whole["agent_execution_count"];
    assert_eq!((&counts["many"], &counts["tally"]), (&2.into(), &2.into()));
    assert_eq!(counts["reader"], 1, "it waited until the loop had settled");
    let folder = workspace.runs().remove(0);
    let id = folder.file_name().expect("a name").to_string_lossy().into_owned();
    let journal = std::fs::read_to_string(folder.join("journal.jsonl")).expect("a journal");
    let lines: Vec<&str> = journal.lines().collect();
    let mut cuts: Vec<String> = (1..lines.len()).map(|kept| lines[..kept].join("\n") + "\n").collect();
    // Half of the next line stands there too, as a crash in the middle of a write would leave it.
    cuts.extend((1..lines.len()).map(|kept| lines[..kept].join("\n") + "\n" + &lines[kept][..lines[kept].len() / 2]));
    for cut in cuts {
        std::fs::write(folder.join("journal.jsonl"), &cut).expect("the journal can be written");
        std::fs::write(workspace.path().join("performed.txt"), "").expect("the side file can be written");
        let resumed = workspace.run(["resume", &id, "--output", "json"]);
        let last = cut.lines().last().unwrap_or_default();
        let is_torn = !cut.ends_with('\n');
        assert_eq!(
            resumed.stderr.contains("was incomplete and has been dropped"),
            is_torn,
            "{last}\n{}",
            resumed.stderr
        );
        assert_eq!(essence(resumed.expect_code(0).json()), whole, "cut after {last}");
        let kept: Vec<&str> = cut.lines().collect();
        let performed = lines_of(&workspace.path().join("performed.txt"));
        for had_ended in ended(&kept) {
            assert!(!performed.contains(&had_ended), "{had_ended} was repeated after {last}");
        }
        let after = records(&folder.join("journal.jsonl"));
        let ends: Vec<u64> = after
            .iter()
            .map(|record| record["seq"].as_u64().expect("a number"))
            .collect();
        assert!(ends.iter().copied().eq(0..ends.len() as u64), "numbers without gaps");
    }
}

#[test]
fn a_journal_cut_at_any_byte_of_its_last_records_is_read_with_a_warning() {
    let workspace = Workspace::new();
    workspace.write("one.yaml", "name: one\nagents:\n- {name: it, script: it.rhai}\n");
    workspace.write("it.rhai", "#{ said: \"é\", third: 1.0 / 3.0 }");
    let whole = essence(
        workspace
            .run(["run", "one.yaml", "--output", "json"])
            .expect_code(0)
            .json(),
    );
    let journal = workspace.runs()[0].join("journal.jsonl");
    let bytes = std::fs::read(&journal).expect("a journal");
    let ends: Vec<usize> = (0..bytes.len())
        .filter(|at| bytes[*at] == b'\n')
        .map(|at| at + 1)
        .collect();
    for cut in ends[ends.len() - 3]..bytes.len() {
        std::fs::write(&journal, &bytes[..cut]).expect("the journal can be written");
        let resumed = workspace.run(["resume", "--last", "--output", "json"]).expect_code(0);
        assert_eq!(
            resumed.stderr.contains("was incomplete and has been dropped"),
            !ends.contains(&cut),
            "{cut}: {}",
            resumed.stderr
        );
        assert_eq!(essence(resumed.json()), whole, "cut at byte {cut}");
    }
}

#[test]
fn the_claim_of_a_dead_driver_counts_for_nothing() {
    let workspace = workspace();
    workspace.script(
        "work.sh",
        "#!/bin/sh\nuntil [ -e go ]; do sleep 0.01; done\necho '{}'\n",
    );
    let running = workspace.spawn(["run", "crash.yaml"]);
    let lock = eventually("the lock", || {
        let lock = workspace.runs().first()?.join("lock");
        std::fs::read_to_string(&lock)
            .ok()
            .filter(|text| text.ends_with('\n'))
            .map(|_| lock)
    });
    eventually("the journal", || {
        let journal = workspace.runs()[0].join("journal.jsonl");
        (!lines_of(&journal).is_empty()).then_some(())
    });
    let owner = std::fs::read_to_string(&lock).expect("a lock");
    assert_eq!(owner, format!("pid {}\n", running.0.id()));
    let refused = workspace.run(["resume", "--last"]).expect_code(1);
    assert!(
        refused.stderr.contains(&format!("another process ({})", owner.trim())),
        "{}",
        refused.stderr
    );
    running.signal("KILL");
    running.finish().expect_code(137);
    workspace.write("go", "");
    workspace.run(["resume", "--last"]).expect_code(0);
    let taken = std::fs::read_to_string(&lock).expect("a lock");
    assert!(taken.starts_with("pid ") && taken != owner, "{taken}");
}

#[test]
fn a_flipped_byte_anywhere_but_in_the_last_line_is_refused_with_its_line() {
    let workspace = workspace();
    workspace.run(["run", "crash.yaml"]).expect_code(0);
    let folder = workspace.runs().remove(0);
    let id = folder.file_name().expect("a name").to_string_lossy().into_owned();
    let journal = std::fs::read(folder.join("journal.jsonl")).expect("a journal");
    let lines = journal.iter().filter(|byte| **byte == b'\n').count();
    let last_line = journal[..journal.len() - 1]
        .iter()
        .rposition(|byte| *byte == b'\n')
        .expect("lines")
        + 1;
    for at in (10..last_line).step_by(last_line / 40) {
        if journal[at] == b'\n' {
            continue;
        }
        let mut damaged = journal.clone();
        damaged[at] ^= 1;
        std::fs::write(folder.join("journal.jsonl"), &damaged).expect("the journal can be written");
        let line = journal[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
        let refused = workspace.run(["resume", &id]).expect_code(2);
        let place = format!("journal.jsonl:{line}: the journal is damaged");
        assert!(
            refused.stderr.contains(&place),
            "byte {at} of {lines} lines\n{}",
            refused.stderr
        );
    }
}

/// How many runs are killed at random moments.
fn kills() -> u64 {
    let asked = std::env::var("ENSEMBLE_TEST_KILLS").ok();
    asked.map_or(24, |asked| asked.parse().expect("ENSEMBLE_TEST_KILLS is a number"))
}

#[test]
fn a_process_killed_at_any_moment_loses_nothing() {
    let reference = workspace();
    let begun = Instant::now();
    let whole = essence(
        reference
            .run(["run", "crash.yaml", "--output", "json"])
            .expect_code(0)
            .json(),
    );
    let undisturbed = begun.elapsed();
    let mut killed = 0;
    let rounds = kills();
    for round in 0..rounds {
        let workspace = workspace();
        let running = workspace.spawn(["run", "crash.yaml", "--output", "json"]);
        eventually("the run's journal", || {
            workspace
                .runs()
                .first()
                .map(|run| run.join("journal.jsonl").exists())
                .filter(|there| *there)
        });
        // Moments spread over the run, not chosen by it: that is what is tested.
        std::thread::sleep(undisturbed.mul_f64(fastrand::f64()));
        if running.is_alive() {
            running.signal("KILL");
            killed += 1;
        }
        running.finish();
        let before: Vec<String> = lines_of(&workspace.runs()[0].join("journal.jsonl"));
        let had_ended = ended(&before.iter().map(String::as_str).collect::<Vec<_>>());
        std::fs::write(workspace.path().join("performed.txt"), "").expect("the side file can be written");
        if before.is_empty() {
            // Killed before the first event: there is no run yet, and that is said.
            workspace.run(["resume", "--last"]).expect_code(2);
            continue;
        }
        let resumed = workspace.run(["resume", "--last", "--output", "json"]).expect_code(0);
        assert_eq!(essence(resumed.json()), whole, "round {round}");
        let performed = lines_of(&workspace.path().join("performed.txt"));
        for name in had_ended {
            assert!(!performed.contains(&name), "round {round}: {name} was repeated");
        }
    }
    assert!(
        killed > rounds / 10,
        "only {killed} of {rounds} were killed before they ended"
    );
}
