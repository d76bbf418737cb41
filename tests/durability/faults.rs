//! The process kills itself at every append to a journal, and is resumed: the end is that of a run that nobody disturbed.

#![expect(clippy::disallowed_methods, reason = "tests make files")]

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::support::{Outcome, Workspace, records};
use serde_json::Value;

/// Two side by side, attempts, a failure that is handled, a request, a question, a loop, and an inner conversation.
const ENSEMBLE: &str = r#"
name: faults
agents:
  - {name: left, script: ./work.sh}
  - name: stubborn
    script: ./stubborn.sh
    retry: {max_attempts: 3, delay_seconds: 0}
  - {name: broken, script: broken.rhai, depends_on: [left]}
  - name: mender
    script: ./work.sh
    dependencies: [{agent_name: broken, on: failure}]
  - name: chief
    script: chief.rhai
    depends_on: [left, stubborn]
    dependencies: [{agent_name: helper, feedback: true}]
    conversation: {max_turns: 2, triggers_conversation: true}
  - name: helper
    script: ./work.sh
    dependencies: [{agent_name: chief, condition: "false"}]
  - {name: team, ensemble: team.yaml, depends_on: [left]}
  - {name: guest, input: "Tea?", depends_on: [team]}
  - {name: last, script: last.rhai, depends_on: [guest, helper]}
"#;

const TEAM: &str = "name: team\nagents:\n\
    \x20 - {name: one, script: ./work.sh}\n\
    \x20 - {name: two, script: ./work.sh, depends_on: [one]}\n\
    \x20 - {name: beside, script: ./work.sh, depends_on: [one]}\n";

const WORK: &str = r#"#!/bin/sh
echo "$ENSEMBLE_AGENT_NAME $ENSEMBLE_EXECUTION.$ENSEMBLE_ATTEMPT" >> performed.txt
echo "{\"by_$ENSEMBLE_AGENT_NAME\": $ENSEMBLE_EXECUTION}"
"#;

/// Fails the first time that anybody asks.
const STUBBORN: &str = r#"#!/bin/sh
echo "$ENSEMBLE_AGENT_NAME $ENSEMBLE_EXECUTION.$ENSEMBLE_ATTEMPT" >> performed.txt
[ -e asked ] || { touch asked; exit 1; }
echo '{"agreed": true}'
"#;

fn workspace() -> Workspace {
    let workspace = Workspace::new();
    workspace.write("faults.yaml", ENSEMBLE);
    workspace.write("team.yaml", TEAM);
    workspace.script("work.sh", WORK);
    workspace.script("stubborn.sh", STUBBORN);
    workspace.write("broken.rhai", "throw \"it is stuck\"");
    workspace.write(
        "chief.rhai",
        "if execution < 2 { #{ agent_requests: [#{ target_agent: \"helper\", parameters: #{ n: 0.1 + 0.2 } }] } } else { #{ content: true } }",
    );
    workspace.write("last.rhai", "#{ drinks: dependencies.guest.response, at: 1.0 / 3.0 }");
    workspace
}

const RUN: [&str; 6] = ["run", "faults.yaml", "--answer", "guest=tea", "--output", "json"];
const RESUME: [&str; 6] = ["resume", "--last", "--always-answer", "guest=tea", "--output", "json"];

/// A result without times, ids and numbers of attempts.
fn essence(outcome: &Outcome) -> Value {
    let mut result = outcome.json();
    for entry in result["conversation_history"].as_array_mut().expect("a history") {
        for key in ["execution_time", "timestamp", "attempt"] {
            entry[key] = Value::Null;
        }
    }
    result["run_id"] = Value::Null;
    result
}

/// The journals of the only run: its own, and those of its inner conversations.
fn journals(workspace: &Workspace) -> Vec<PathBuf> {
    let Some(run) = workspace.runs().pop() else {
        return Vec::new();
    };
    let inner = std::fs::read_dir(run.join("sub")).into_iter().flatten().flatten();
    let folders = inner.map(|entry| entry.path()).chain([run.clone()]);
    folders
        .map(|folder| folder.join("journal.jsonl"))
        .filter(|journal| journal.exists())
        .collect()
}

/// Whole lines of a journal that was perhaps torn.
fn whole_records(journal: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(journal).unwrap_or_default();
    let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    lines
        .map(|line| serde_json::from_str(line).expect("a record"))
        .collect()
}

/// `agent execution` of everything that the journals say has ended.
fn ended(workspace: &Workspace) -> HashSet<String> {
    let all = journals(workspace)
        .into_iter()
        .flat_map(|journal| whole_records(&journal));
    let ends = all.filter(|record| record["event"] == "execution_finished");
    ends.map(|record| name(&record)).collect()
}

fn name(record: &Value) -> String {
    let agent = record["data"]["agent"].as_str().expect("a name");
    format!("{agent} {}", record["data"]["execution"])
}

/// Attempts that the side file tells of: `agent execution.attempt`.
fn performed(workspace: &Workspace) -> Vec<String> {
    let text = std::fs::read_to_string(workspace.path().join("performed.txt")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn with_fault(workspace: &Workspace, arguments: &[&str], fault: &str) -> Outcome {
    let mut command = workspace.command(arguments);
    command.env("ENSEMBLE_FAULT", fault);
    crate::support::Running(command.spawn().expect("the program starts")).finish()
}

/// Kills a run there, resumes it, and says what is wrong with that.
fn disturbed(fault: &str, again: Option<&str>, undisturbed: &Value) -> Result<(), String> {
    let workspace = workspace();
    let killed = with_fault(&workspace, &RUN, fault);
    check(killed.code == 137, || {
        format!("ended with {}\n{}", killed.code, killed.stderr)
    })?;
    let begun = journals(&workspace)
        .iter()
        .any(|journal| !whole_records(journal).is_empty());
    if !begun {
        let refused = workspace.run(RESUME);
        return check(refused.code == 2, || format!("nothing was begun\n{}", refused.stderr));
    }
    let mut had_ended = ended(&workspace);
    let mut before = performed(&workspace).len();
    if let Some(again) = again {
        let killed = with_fault(&workspace, &RESUME, again);
        check(killed.code == 137, || {
            format!("the resumed run ended with {}\n{}", killed.code, killed.stderr)
        })?;
        repeats_nothing(&workspace, before, &had_ended)?;
        (had_ended, before) = (ended(&workspace), performed(&workspace).len());
    }
    let resumed = workspace.run(RESUME);
    check(resumed.code == 0, || {
        format!("resumed with {}\n{}", resumed.code, resumed.stderr)
    })?;
    let essence = essence(&resumed);
    check(essence == *undisturbed, || format!("another end:\n{essence:#}"))?;
    repeats_nothing(&workspace, before, &had_ended)?;
    attempts_are_numbered(&workspace)
}

fn check(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}

/// What was performed since then is nothing that had ended.
fn repeats_nothing(workspace: &Workspace, since: usize, had_ended: &HashSet<String>) -> Result<(), String> {
    for line in &performed(workspace)[since..] {
        let execution = line.split('.').next().unwrap_or(line);
        check(!had_ended.contains(execution), || format!("{line} was repeated"))?;
    }
    Ok(())
}

/// Every execution ended once, and its attempts are 1, 2, 3, …
fn attempts_are_numbered(workspace: &Workspace) -> Result<(), String> {
    for journal in journals(workspace) {
        let mut ended = HashSet::new();
        let mut attempts = std::collections::HashMap::<String, u64>::new();
        for record in whole_records(&journal) {
            match record["event"].as_str() {
                Some("execution_started") => {
                    let next = attempts.entry(name(&record)).or_default();
                    *next += 1;
                    check(record["data"]["attempt"] == *next, || {
                        format!("not attempt {next}: {record}")
                    })?;
                }
                Some("execution_finished") => {
                    check(ended.insert(name(&record)), || format!("ended twice: {record}"))?;
                }
                _ => {}
            }
        }
    }
    Ok(())
}

#[test]
fn a_process_killed_at_any_append_loses_and_repeats_nothing() {
    let reference = workspace();
    let outcome = reference.run(RUN).expect_code(0);
    let undisturbed = essence(&outcome);
    let appends: usize = journals(&reference).iter().map(|journal| records(journal).len()).sum();
    assert!(appends > 40 && journals(&reference).len() == 2, "{appends} appends");
    let mut cases = Vec::new();
    for append in 1..=appends {
        for point in ["before", "torn", "written", "synced"] {
            // Some are killed once more, soon after they were resumed.
            let again = format!("torn:{}", 2 + append % 4);
            let again = (point == "written" && append + 8 < appends).then_some(again);
            cases.push((format!("{point}:{append}"), again));
        }
    }
    let problems: Vec<String> = std::thread::scope(|scope| {
        let halves = [0, 1].map(|half| {
            let (cases, undisturbed) = (&cases, &undisturbed);
            scope.spawn(move || {
                let mine = cases.iter().skip(half).step_by(2);
                let found = mine.filter_map(|(fault, again)| {
                    let problem = disturbed(fault, again.as_deref(), undisturbed).err()?;
                    Some(format!("{fault} then {again:?}: {problem}"))
                });
                found.collect::<Vec<String>>()
            })
        });
        halves
            .into_iter()
            .flat_map(|half| half.join().expect("no panic"))
            .collect()
    });
    assert!(
        problems.is_empty(),
        "{} of {}:\n{}",
        problems.len(),
        cases.len(),
        problems.join("\n")
    );
}

#[test]
fn a_fault_that_is_none_is_refused() {
    for fault in ["torn", "torn:0", "later:3", "torn:x"] {
        let refused = with_fault(&workspace(), &RUN, fault).expect_code(2);
        assert!(refused.stderr.contains("ENSEMBLE_FAULT"), "{}", refused.stderr);
    }
}
