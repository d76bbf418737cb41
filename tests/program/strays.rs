//! Processes that leave the group of their script, and the last moment of a script that is ended.

#![cfg(target_os = "linux")]
#![expect(clippy::disallowed_methods, reason = "tests look at processes")]

use std::time::{Duration, Instant};

use crate::support::{Workspace, eventually};

/// Is the process there, and no zombie?
fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

/// The number that a script has written.
fn pid(workspace: &Workspace, file: &str) -> String {
    eventually(file, || {
        let text = std::fs::read_to_string(workspace.path().join(file)).ok()?;
        text.ends_with('\n').then(|| text.trim().to_owned())
    })
}

/// A shell that starts a process in a session of its own, whose parent ends at once, and writes its number.
fn daemon(file: &str, how: &str) -> String {
    format!(
        "setsid sh -c '{how} sleep 1000 >/dev/null 2>&1 </dev/null & echo $! > {file}.new; mv {file}.new {file}' &\nwhile [ ! -e {file} ]; do sleep 0.02; done\n"
    )
}

#[test]
fn what_has_left_its_group_ends_with_the_run() {
    let workspace = Workspace::new();
    let script = format!("{}{}echo done", daemon("marked", ""), daemon("bare", "env -i"));
    workspace.write("it.sh", script);
    workspace.write("a.yaml", "name: a\nagents:\n  - {name: it, script: it.sh}\n");
    workspace.run(["run", "a.yaml"]).expect_code(0);
    for file in ["marked", "bare"] {
        assert!(!is_alive(&pid(&workspace, file)), "{file}");
    }
}

#[test]
fn it_ends_with_its_execution_while_others_run_and_theirs_stay() {
    let workspace = Workspace::new();
    workspace.write("short.sh", format!("{}echo done", daemon("of_short", "")));
    let long = format!(
        "{}while [ ! -e go ]; do sleep 0.02; done\nkill -0 $(cat of_long) && echo '{{\"there\": true}}'",
        daemon("of_long", "")
    );
    workspace.write("long.sh", long);
    workspace.write("next.sh", "while [ ! -e of_long ]; do sleep 0.02; done; echo done");
    workspace.write(
        "a.yaml",
        "name: a\nagents:\n  - {name: long, script: long.sh}\n  - {name: short, script: short.sh}\n  - {name: next, script: next.sh}\n",
    );
    let running = workspace.spawn(["run", "a.yaml", "--output", "json"]);
    let (short, long) = (pid(&workspace, "of_short"), pid(&workspace, "of_long"));
    eventually("the end of the stray", || (!is_alive(&short)).then_some(()));
    assert!(is_alive(&long));
    workspace.write("go", "");
    let outcome = running.finish().expect_code(0);
    assert_eq!(outcome.json()["final_state"]["there"], true, "{}", outcome.stdout);
    assert!(!is_alive(&long));
}

#[test]
fn the_watchdog_finds_it_after_the_run_was_killed() {
    let workspace = Workspace::new();
    workspace.write("it.sh", format!("{}sleep 1000", daemon("marked", "")));
    workspace.write("a.yaml", "name: a\nagents:\n  - {name: it, script: it.sh}\n");
    let running = workspace.spawn(["run", "a.yaml"]);
    let stray = pid(&workspace, "marked");
    assert!(is_alive(&stray));
    running.signal("KILL");
    running.finish();
    eventually("the end of the stray", || (!is_alive(&stray)).then_some(()));
}

#[test]
fn a_script_that_is_ended_has_a_moment_to_clean_up() {
    let workspace = Workspace::new();
    // What it prints meanwhile does not end it either.
    workspace.write(
        "it.sh",
        "trap 'echo cleaning; echo cleaning >&2; echo cleaned > cleaned; exit 0' TERM\ntouch ready\nwhile :; do sleep 0.02; done",
    );
    workspace.write(
        "a.yaml",
        "name: a\nagents:\n  - {name: it, script: it.sh, timeout_seconds: 1}\n",
    );
    let outcome = workspace.run(["run", "a.yaml", "--output", "json"]).expect_code(1);
    assert_eq!(
        outcome.json()["conversation_history"][0]["output_data"]["kind"],
        "timeout"
    );
    assert_eq!(workspace.read("cleaned"), "cleaned\n");
    // By a signal to the run as well.
    std::fs::remove_file(workspace.path().join("cleaned")).expect("removed");
    std::fs::remove_file(workspace.path().join("ready")).expect("removed");
    workspace.write("a.yaml", "name: a\nagents:\n  - {name: it, script: it.sh}\n");
    let running = workspace.spawn(["run", "a.yaml"]);
    eventually("the script", || workspace.path().join("ready").exists().then_some(()));
    running.signal("TERM");
    running.finish().expect_code(143);
    assert_eq!(workspace.read("cleaned"), "cleaned\n");
}

#[test]
fn a_script_that_does_not_listen_is_killed_before_its_next_attempt() {
    let workspace = Workspace::new();
    workspace.write(
        "it.sh",
        "trap '' TERM\nif [ -e pid ]; then kill -0 $(cat pid) && exit 3; echo done; exit 0; fi\necho $$ > pid\nwhile :; do sleep 0.02; done",
    );
    workspace.write(
        "a.yaml",
        "name: a\nagents:\n  - {name: it, script: it.sh, timeout_seconds: 1, retry: {max_attempts: 2, delay_seconds: 0}}\n",
    );
    let begun = Instant::now();
    workspace.run(["run", "a.yaml"]).expect_code(0);
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    assert!(!is_alive(&workspace.read("pid")));
}
