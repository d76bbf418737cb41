//! What becomes of a run's child processes, however the run ends.

#![expect(clippy::disallowed_methods, reason = "tests look at processes")]

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

use crate::support::{Outcome, Running, Workspace, eventually};

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

const ENSEMBLE: &str = "name: a\nagents:\n  - {name: holder, script: hold.sh}\n";

/// Tells its own number and its child's, and ends when there is a file `go`.
const HOLD: &str = "sleep 1000 &
echo \"$$ $!\" > pids.new
mv pids.new pids
while [ ! -e go ]; do sleep 0.02; done
echo gone
";

/// A run in the middle of a script.
struct Held {
    workspace: Workspace,
    running: Running,
    /// The script and its child.
    script: Vec<u32>,
    watchdog: u32,
}

impl Held {
    fn new() -> Self {
        Self::of(ENSEMBLE)
    }

    fn of(ensemble: &str) -> Self {
        let workspace = Workspace::new();
        workspace.write("a.yaml", ensemble);
        workspace.script("hold.sh", HOLD);
        let mut command = workspace.command(["run", "a.yaml", "--output", "json"]);
        let running = Running(command.process_group(0).spawn().expect("the program starts"));
        let script = pids(&workspace);
        let watchdog = eventually("a watchdog", || watchdogs_of(running.0.id()).pop());
        Self {
            workspace,
            running,
            script,
            watchdog,
        }
    }

    /// Lets the script end.
    fn go(&self) {
        self.workspace.write("go", "");
    }

    /// Nothing of the run is there any more.
    #[track_caller]
    fn all_are_gone(&self, script: &[u32]) {
        die(script);
        die(&[self.watchdog]);
    }
}

/// The numbers that the script told.
fn pids(workspace: &Workspace) -> Vec<u32> {
    eventually("a script", || {
        let told = std::fs::read_to_string(workspace.path().join("pids")).ok()?;
        Some(told.split_whitespace().map(|pid| pid.parse().expect("a pid")).collect())
    })
}

/// All processes that run: number, parent, command line.
fn processes() -> Vec<(u32, u32, String)> {
    let ps = Command::new("ps").args(["-A", "-o", "pid=,ppid=,stat=,args="]).output();
    let listed = String::from_utf8_lossy(&ps.expect("ps is there").stdout).into_owned();
    let process = |line: &str| {
        let mut words = line.split_whitespace();
        let (pid, parent) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let is_dead = words.next()?.starts_with(['Z', 'X']);
        (!is_dead).then(|| (pid, parent, words.collect::<Vec<_>>().join(" ")))
    };
    listed.lines().filter_map(process).collect()
}

fn watchdogs_of(run: u32) -> Vec<u32> {
    let processes = processes().into_iter();
    let watchdogs = processes.filter(|(_, parent, command)| *parent == run && command.ends_with(" __watchdog"));
    watchdogs.map(|(pid, ..)| pid).collect()
}

#[track_caller]
fn die(pids: &[u32]) {
    eventually("their end", || {
        let alive = processes();
        (!alive.iter().any(|(pid, ..)| pids.contains(pid))).then_some(())
    });
}

fn send(signal: &str, to: impl std::fmt::Display) {
    let sent = Command::new("kill")
        .args([&format!("-{signal}"), "--", &to.to_string()])
        .status();
    assert!(sent.expect("kill is there").success(), "{signal} to {to}");
}

/// The end of the program and of its output, which must not take long.
#[track_caller]
fn ends(running: Running) -> Outcome {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(running.finish()));
    receiver
        .recv_timeout(PATIENCE)
        .expect("it ends, and so does its output")
}

#[test]
fn a_script_and_its_child_die_with_a_run_that_is_killed() {
    let held = Held::new();
    held.running.signal("KILL");
    held.all_are_gone(&held.script);
}

#[test]
fn the_scripts_of_an_inner_ensemble_die_too_and_have_the_same_watchdog() {
    let workspace = Workspace::new();
    workspace.write("inner.yaml", ENSEMBLE);
    workspace.write(
        "a.yaml",
        "name: outer\nagents:\n  - {name: first, script: 'true'}\n  - {name: second, ensemble: inner.yaml, dependencies: [{agent_name: first}]}\n",
    );
    workspace.script("hold.sh", HOLD);
    let running = workspace.spawn(["run", "a.yaml"]);
    let script = pids(&workspace);
    let watchdogs = watchdogs_of(running.0.id());
    assert_eq!(watchdogs.len(), 1);
    running.signal("KILL");
    die(&script);
    die(&watchdogs);
}

#[test]
fn a_run_that_ends_leaves_no_watchdog_and_its_output_ends() {
    let held = Held::new();
    held.go();
    let Held { running, watchdog, .. } = held;
    let outcome = ends(running).expect_code(0);
    assert_eq!(outcome.json()["final_state"]["response"], "gone");
    let left = processes().into_iter().find(|(pid, ..)| *pid == watchdog);
    assert_eq!(left, None, "it was not waited for");
}

#[test]
fn the_watchdog_holds_nobodys_output_open() {
    let held = Held::new();
    send("STOP", held.watchdog);
    held.running.signal("KILL");
    let Held {
        running,
        watchdog,
        script,
        ..
    } = held;
    assert_eq!(ends(running).code, 137);
    send("CONT", watchdog);
    die(&script);
    die(&[watchdog]);
}

#[test]
fn an_interrupt_ends_run_script_and_watchdog() {
    for whole_group in [false, true] {
        let held = Held::new();
        let run = i64::from(held.running.0.id());
        send("INT", if whole_group { -run } else { run });
        let Held {
            running,
            watchdog,
            script,
            ..
        } = held;
        ends(running).expect_code(130);
        die(&script);
        die(&[watchdog]);
    }
}

#[test]
fn what_ends_others_does_not_end_the_watchdog() {
    let held = Held::new();
    for signal in ["INT", "TERM", "HUP", "QUIT"] {
        send(signal, held.watchdog);
    }
    // They have arrived once another that comes later has.
    send("STOP", held.watchdog);
    send("CONT", held.watchdog);
    assert_eq!(watchdogs_of(held.running.0.id()), [held.watchdog]);
    held.running.signal("KILL");
    held.all_are_gone(&held.script);
}

#[test]
fn a_watchdog_that_was_killed_is_not_missed_and_the_next_script_has_a_new_one() {
    let held = Held::of(
        "name: a\nagents:\n  - {name: holder, script: hold.sh}\n  - {name: again, script: sh again.sh, dependencies: [{agent_name: holder}]}\n",
    );
    let again = HOLD.replace("pids", "pids2").replace("-e go", "-e go2");
    held.workspace.script(
        "again.sh",
        &again.replace("mv pids2.new pids2", "rm pids; mv pids2.new pids"),
    );
    send("KILL", held.watchdog);
    held.go();
    let script = eventually("another script", || {
        let told = pids(&held.workspace);
        (told != held.script).then_some(told)
    });
    let watchdogs = eventually("another watchdog", || {
        let watchdogs = watchdogs_of(held.running.0.id());
        (!watchdogs.is_empty()).then_some(watchdogs)
    });
    assert!(!watchdogs.contains(&held.watchdog));
    held.running.signal("KILL");
    die(&script);
    die(&watchdogs);
}

#[cfg(target_os = "linux")]
#[test]
fn only_the_run_can_write_to_the_watchdog() {
    let held = Held::new();
    let opened = |pid: u32| -> Vec<_> {
        let files = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("it runs");
        files
            .filter_map(|file| std::fs::read_link(file.ok()?.path()).ok())
            .collect()
    };
    let orders = std::fs::read_link(format!("/proc/{}/fd/0", held.watchdog)).expect("it has a stdin");
    assert!(opened(held.running.0.id()).contains(&orders));
    for pid in &held.script {
        assert!(!opened(*pid).contains(&orders));
    }
    assert_eq!(opened(held.watchdog).iter().filter(|file| **file == orders).count(), 1);
    let folder = std::fs::read_link(format!("/proc/{}/cwd", held.watchdog)).expect("it has a folder");
    assert_eq!(folder, std::path::Path::new("/"));
    held.go();
    ends(held.running).expect_code(0);
}
