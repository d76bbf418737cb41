//! Processes that a run left behind when it was killed.
//!
//! Every child process has the id of its run in its environment, and so have its own children. When a run is resumed,
//! the processes of the killed run must not continue beside the new ones.

/// Kills every process whose environment names the run or a nested run, except this process and its ancestors.
///
/// Only Linux shows the environment of other processes; on other systems this does nothing.
pub fn kill_processes_of_run(run_id: &str) {
    #[cfg(target_os = "linux")]
    linux::kill_leftovers(run_id);
    #[cfg(not(target_os = "linux"))]
    let _ = run_id;
}

#[cfg(target_os = "linux")]
pub(super) use linux::kill_processes_with_entry;

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::HashSet;
    use std::fs;
    use std::path::Path;

    use rustix::process::{Pid, Signal, getpid, kill_process};

    use crate::RUN_ID_VARIABLE;

    /// Maximum number of searches. Each finds processes that were forked during the search before.
    const MAX_SEARCH_PASSES: usize = 16;

    /// Kills every process whose environment names the run or a nested run.
    pub(super) fn kill_leftovers(run_id: &str) {
        let mark = format!("{RUN_ID_VARIABLE}={run_id}");
        kill_processes_with_entry(|entry| names_run_or_nested_run(entry, mark.as_bytes()));
    }

    /// Kills every process with a matching environment entry, except this process and its ancestors.
    pub(in super::super) fn kill_processes_with_entry(is_meant: impl Fn(&[u8]) -> bool) {
        let mut seen_pids = list_self_and_ancestors();
        for _ in 0..MAX_SEARCH_PASSES {
            let matching_pids: Vec<Pid> = list_processes()
                .filter(|pid| !seen_pids.contains(pid) && has_matching_entry(*pid, &is_meant))
                .collect();
            if matching_pids.is_empty() {
                return;
            }
            for pid in matching_pids {
                seen_pids.insert(pid);
                // It may have ended by itself meanwhile.
                let _gone = kill_process(pid, Signal::KILL);
            }
        }
    }

    /// Lists all processes.
    fn list_processes() -> impl Iterator<Item = Pid> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        entries.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?))
    }

    /// Returns whether an environment entry of the process matches.
    fn has_matching_entry(pid: Pid, is_meant: impl Fn(&[u8]) -> bool) -> bool {
        fs::read(process_folder(pid).join("environ"))
            .is_ok_and(|environment| environment.split(|byte| *byte == 0).any(is_meant))
    }

    /// Returns whether the entry names the run or a nested run.
    fn names_run_or_nested_run(entry: &[u8], mark: &[u8]) -> bool {
        entry
            .strip_prefix(mark)
            .is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
    }

    /// Returns this process and its ancestors.
    fn list_self_and_ancestors() -> HashSet<Pid> {
        let mut ancestors = HashSet::new();
        let mut next = Some(getpid());
        while let Some(pid) = next
            && ancestors.insert(pid)
        {
            next = find_parent(pid);
        }
        ancestors
    }

    /// Reads the parent of the process.
    fn find_parent(pid: Pid) -> Option<Pid> {
        let stat = fs::read_to_string(process_folder(pid).join("stat")).ok()?;
        // `pid (name) state ppid …`, and the name may hold anything.
        let after_name = stat.rsplit_once(')')?.1;
        Pid::from_raw(after_name.split_whitespace().nth(1)?.parse().ok()?)
    }

    /// Returns the folder of the process in `/proc`.
    fn process_folder(pid: Pid) -> std::path::PathBuf {
        Path::new("/proc").join(pid.as_raw_nonzero().to_string())
    }
}
