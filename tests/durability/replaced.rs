//! A journal, a lock or a folder that is deleted or replaced while a run writes to it: the run stops with an error, and nobody else
//! gets it.

use crate::support::{Running, Workspace};

const ENSEMBLE: &str = "
name: replaced
agents:
  - {name: one, script: ./act.sh}
  - {name: two, script: two.rhai, depends_on: [one]}
";

pub(super) fn workspace(act: &str) -> Workspace {
    let workspace = Workspace::new();
    workspace.write("replaced.yaml", ENSEMBLE);
    workspace.write(
        "outer.yaml",
        "name: outer\nagents: [{name: inner, ensemble: replaced.yaml}]\n",
    );
    workspace.write("two.rhai", "#{ two: 2 }");
    workspace.script("act.sh", &format!("#!/bin/sh\nset -e\n{act}\necho '{{\"one\": 1}}'\n"));
    workspace
}

/// What a script may do to its own run.
const TABLE: [(&str, &str); 6] = [
    ("rm .ensemble/runs/*/journal.jsonl", "journal.jsonl was deleted"),
    ("rm -r .ensemble", "journal.jsonl was deleted"),
    ("rm .ensemble/runs/*/lock", "lock was deleted"),
    (
        "cd .ensemble/runs/*/; cp journal.jsonl new; mv new journal.jsonl",
        "journal.jsonl was replaced",
    ),
    ("cd .ensemble/runs/*/; cp lock new; mv new lock", "lock was replaced"),
    (
        "cp -r .ensemble new; mv .ensemble old; mv new .ensemble",
        "journal.jsonl was replaced",
    ),
];

#[test]
fn a_run_whose_journal_is_gone_stops_with_an_error() {
    for (act, told) in TABLE {
        for durability in ["none", "turn", "commit"] {
            let workspace = workspace(act);
            let ran = workspace
                .run(["run", "replaced.yaml", "--durability", durability])
                .expect_code(1);
            assert!(ran.stderr.contains(told), "{act}: {}", ran.stderr);
            assert!(
                ran.stderr.contains("while the run was executed"),
                "{act}: {}",
                ran.stderr
            );
            assert!(!ran.stdout.contains("completed"), "{act}: {}", ran.stdout);
        }
    }
}

#[test]
fn a_run_inside_the_run_notices_it_too() {
    for act in ["rm .ensemble/runs/*/sub/*/journal.jsonl", "rm .ensemble/runs/*/lock"] {
        let ran = workspace(act).run(["run", "outer.yaml"]).expect_code(1);
        let told = format!("{}{}", ran.stdout, ran.stderr);
        assert!(told.contains("was deleted while the run was executed"), "{act}: {told}");
    }
}

/// Resumes the run in the middle of itself, and says with which code that ended.
pub(super) const SECOND: &str = r#"set +e
"$PROGRAM" resume --last > second.txt 2>&1
echo "code $?" >> second.txt"#;

fn second_driver(before: &str) -> String {
    let workspace = workspace(&format!("{before}\n{SECOND}"));
    let mut command = workspace.command(["run", "replaced.yaml"]);
    command.env("PROGRAM", crate::support::binary());
    let _outcome = Running(command.spawn().expect("the program starts")).finish();
    workspace.read("second.txt")
}

#[test]
fn nobody_else_gets_a_run_whose_lock_is_gone() {
    for before in [
        "",
        "rm .ensemble/runs/*/lock",
        "cd .ensemble/runs/*/; cp lock new; mv new lock; cd ../../..",
    ] {
        let told = second_driver(before);
        assert!(
            told.contains("another process") && told.ends_with("code 1\n"),
            "{before}: {told}"
        );
    }
}
