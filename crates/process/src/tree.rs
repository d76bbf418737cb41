//! The processes below a process, as `/proc` shows them.

#![expect(clippy::disallowed_methods, reason = "processes are found in /proc")]

use std::collections::HashSet;
use std::fs;

use rustix::process::{Pid, Signal, kill_process};

/// Maximum number of searches while a process tree is killed. Each finds processes that started during the search before.
const MAX_KILL_PASSES: usize = 64;

/// The maximum number of processes of one look.
const MAX_LISTED_PROCESSES: usize = 10_000;

/// Parent, state and resource usage of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ProcessStat {
    pub(super) parent: i32,
    /// Has it ended, and was not waited for?
    pub(super) is_zombie: bool,
    /// Its processor time, and that of its children that were waited for, in ticks.
    pub(super) ticks: u64,
    /// The processor time of its children that were waited for, in ticks.
    pub(super) ticks_of_children: u64,
    pub(super) threads: u64,
    /// The time of its start, in ticks since the start of the system: another process with the same id has another one.
    pub(super) started: u64,
}

/// Reads the state of the process. Returns `None` if the process does not exist.
pub(super) fn read_stat(pid: i32) -> Option<ProcessStat> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Parses the text of `/proc/PID/stat`.
fn parse_stat(text: &str) -> Option<ProcessStat> {
    // `pid (name) state ppid …`, and the name may hold anything.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    let of_children = number(13)? + number(14)?;
    Some(ProcessStat {
        parent: fields.get(1)?.parse().ok()?,
        is_zombie: matches!(*fields.first()?, "Z" | "X"),
        ticks: number(11)? + number(12)? + of_children,
        ticks_of_children: of_children,
        threads: number(17)?,
        started: number(19)?,
    })
}

/// Lists the children of the process, including exited ones.
pub(super) fn list_children(pid: i32) -> Vec<i32> {
    let mut children = Vec::new();
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return children;
    };
    for thread in threads.flatten() {
        match fs::read_to_string(thread.path().join("children")) {
            Ok(text) => children.extend(text.split_ascii_whitespace().filter_map(|pid| pid.parse::<i32>().ok())),
            // Not every kernel has these files.
            Err(_) if read_stat(pid).is_some() => return find_children_by_scan(pid),
            Err(_) => {}
        }
    }
    children
}

/// Lists the children of the first thread of the process, to which the system gives orphans.
pub(super) fn list_adopted_children(pid: i32) -> Vec<i32> {
    match fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")) {
        Ok(text) => text
            .split_ascii_whitespace()
            .filter_map(|pid| pid.parse().ok())
            .collect(),
        Err(_) => find_children_by_scan(pid),
    }
}

/// Finds the children of the process by reading all processes.
fn find_children_by_scan(of: i32) -> Vec<i32> {
    let is_child = |pid: &i32| read_stat(*pid).is_some_and(|stat| stat.parent == of);
    list_process_ids().filter(is_child).collect()
}

/// Lists the ids of all processes.
pub(super) fn list_process_ids() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Lists the descendants of the process, parents first, up to `most`.
pub(super) fn list_descendants(pid: i32, most: usize) -> Vec<i32> {
    let mut descendants = list_children(pid);
    let mut seen_pids: HashSet<i32> = descendants.iter().copied().collect();
    let mut next = 0;
    while descendants.len() < most
        && let Some(parent) = descendants.get(next).copied()
    {
        next += 1;
        let more = list_children(parent).into_iter();
        descendants.extend(more.filter(|child| seen_pids.insert(*child)));
    }
    descendants
}

/// Kills all descendants of the process, and repeats the search until none is left.
pub(super) fn kill_descendants(of: i32) {
    let mut killed_pids = HashSet::new();
    for _ in 0..MAX_KILL_PASSES {
        let new: Vec<i32> = list_descendants(of, MAX_LISTED_PROCESSES)
            .into_iter()
            .filter(|pid| killed_pids.insert(*pid))
            .collect();
        if new.is_empty() {
            return;
        }
        for pid in new {
            send_signal(pid, Signal::KILL);
        }
    }
}

/// Sends the signal. Ignores processes that do not exist any more.
pub(super) fn send_signal(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid)
        && !pid.is_init()
    {
        let _gone = kill_process(pid, signal);
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_name_cannot_hide_a_parent() {
        let text = "7 (a) Z 1 (b) S 42 7 7 0 -1 4194560 0 0 0 0 10 20 3 4 20 0 5 0 100 1000 99 0";
        let stat = parse_stat(text).expect("it is read");
        assert_eq!(
            stat,
            ProcessStat {
                parent: 42,
                is_zombie: false,
                ticks: 37,
                ticks_of_children: 7,
                threads: 5,
                started: 100,
            }
        );
        assert_eq!(parse_stat("7 (a"), None);
    }

    #[test]
    fn a_process_in_a_session_of_its_own_is_found_below_its_parent_and_killed() {
        let mut top = Command::new("sh")
            .args(["-c", "setsid sleep 1000 & wait"])
            .stdout(Stdio::null())
            .spawn()
            .expect("it starts");
        let pid = i32::try_from(top.id()).expect("a number");
        while list_descendants(pid, MAX_LISTED_PROCESSES).is_empty() {
            std::thread::yield_now();
        }
        let below = list_descendants(pid, MAX_LISTED_PROCESSES);
        kill_descendants(pid);
        top.wait().expect("it ends, since what it waits for has ended");
        assert!(
            below
                .iter()
                .all(|pid| read_stat(*pid).is_none_or(|stat| stat.is_zombie)),
            "{below:?}"
        );
    }
}
