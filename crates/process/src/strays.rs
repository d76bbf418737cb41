//! Processes that have left the group of the process that started them.
//!
//! On Linux a program can become the parent of all orphans below it. Every process that is started here has a mark in its
//! environment, which its children inherit. So an orphan whose mark belongs to no process that runs is a stray, and is
//! killed; one that has removed its mark is killed when nothing runs any more.

#[cfg(target_os = "linux")]
pub use linux::become_orphan_collector;
#[cfg(target_os = "linux")]
pub(super) use linux::{
    StrayProcessGuard, kill_processes_of_owner, kill_strays_and_wait, lock_for_start, own_mark_prefix,
    register_unmarked_child,
};
#[cfg(not(target_os = "linux"))]
pub use others::become_orphan_collector;
#[cfg(not(target_os = "linux"))]
pub(super) use others::{
    StrayProcessGuard, kill_processes_of_owner, kill_strays_and_wait, lock_for_start, own_mark_prefix,
    register_unmarked_child,
};

/// The variable with the mark of a process.
pub(super) const PROCESS_MARK_VARIABLE: &str = "ENSEMBLE_PROCESS";

/// Environment variable that names the process whose child processes a watchdog kills.
pub(super) const WATCHED_OWNER_VARIABLE: &str = "ENSEMBLE_WATCHED";

#[cfg(target_os = "linux")]
mod linux {
    #![expect(
        clippy::disallowed_methods,
        reason = "processes are found in /proc, and looks have a pause"
    )]

    use std::collections::{HashMap, HashSet};
    use std::fs;
    use std::hash::{BuildHasher, Hasher, RandomState};
    use std::io;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard};
    use std::time::{Duration, Instant};

    use rustix::process::{Pid, Signal, WaitOptions, getpid, set_child_subreaper, waitpid};

    use super::super::{leftovers, tree};
    use super::{PROCESS_MARK_VARIABLE, WATCHED_OWNER_VARIABLE};

    /// Minimum time between two searches while processes run.
    const MIN_SEARCH_PAUSE: Duration = Duration::from_millis(10);

    /// Maximum number of searches at the end of a run.
    const MAX_FINAL_SEARCHES: usize = 500;

    static STRAY_COLLECTOR: OnceLock<StrayCollector> = OnceLock::new();

    /// Prefix of every mark of this process.
    static OWNER_PREFIX: OnceLock<String> = OnceLock::new();

    static NEXT_MARK_NUMBER: AtomicU64 = AtomicU64::new(1);

    /// Collector of orphaned processes below this process.
    #[derive(Default)]
    struct StrayCollector {
        /// Held for reading while a process starts: until then nobody knows its number.
        start_lock: RwLock<()>,
        processes: Mutex<KnownProcesses>,
    }

    /// Known children of this process and the marks that are in use.
    #[derive(Default)]
    struct KnownProcesses {
        /// The children that were started here; true: they have ended, or are about to.
        own_children: HashMap<i32, bool>,
        /// The marks of what runs.
        live_marks: HashSet<String>,
        looked_at: Option<Instant>,
        /// Is a look already planned?
        is_planned: bool,
    }

    /// Guard of a started process. Dropping it, after the process has exited, kills the processes that the process left behind.
    #[derive(Debug)]
    pub(in super::super) struct StrayProcessGuard {
        text: String,
        pid: Option<i32>,
    }

    /// Makes this process the parent of all orphans below it, and kills strays from now on.
    ///
    /// Only for programs that start all their children here: another child would be treated as a stray.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn become_orphan_collector() -> io::Result<()> {
        set_child_subreaper(Some(getpid()))?;
        STRAY_COLLECTOR.get_or_init(StrayCollector::default);
        Ok(())
    }

    /// Returns the secret prefix of the marks of this process, which only its child processes can know.
    pub(in super::super) fn own_mark_prefix() -> &'static str {
        OWNER_PREFIX.get_or_init(|| {
            let number = RandomState::new().build_hasher().finish();
            format!("{}-{number:016x}", getpid().as_raw_pid())
        })
    }

    /// Locks out the search for strays while a process starts.
    pub(in super::super) fn lock_for_start() -> Option<RwLockReadGuard<'static, ()>> {
        let collector = STRAY_COLLECTOR.get()?;
        Some(collector.start_lock.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Registers a child without a mark, which exits by itself and is no stray.
    pub(in super::super) fn register_unmarked_child(pid: u32) {
        if let (Some(collector), Ok(pid)) = (STRAY_COLLECTOR.get(), i32::try_from(pid)) {
            collector.lock_known().own_children.insert(pid, false);
        }
    }

    impl StrayProcessGuard {
        /// Creates a mark for a process that is about to start.
        pub(in super::super) fn new() -> Self {
            let number = NEXT_MARK_NUMBER.fetch_add(1, Ordering::Relaxed);
            let text = format!("{}-{number}", own_mark_prefix());
            if let Some(collector) = STRAY_COLLECTOR.get() {
                collector.lock_known().live_marks.insert(text.clone());
            }
            Self { text, pid: None }
        }

        /// Returns the name and value of the environment variable with the mark.
        pub(in super::super) fn mark_variable(&self) -> (&'static str, &str) {
            (PROCESS_MARK_VARIABLE, &self.text)
        }

        /// Registers the id of the started process, so that it does not count as a stray.
        pub(in super::super) fn set_pid(&mut self, pid: Option<u32>) {
            self.pid = pid.and_then(|pid| i32::try_from(pid).ok());
            if let (Some(collector), Some(pid)) = (STRAY_COLLECTOR.get(), self.pid) {
                collector.lock_known().own_children.insert(pid, false);
            }
        }
    }

    impl Drop for StrayProcessGuard {
        fn drop(&mut self) {
            let Some(collector) = STRAY_COLLECTOR.get() else { return };
            let pause = {
                let mut processes = collector.lock_known();
                processes.live_marks.remove(&self.text);
                if let Some(has_ended) = self.pid.and_then(|pid| processes.own_children.get_mut(&pid)) {
                    *has_ended = true;
                }
                match processes.looked_at {
                    _ if processes.live_marks.is_empty() => None,
                    Some(last_look) if last_look.elapsed() < MIN_SEARCH_PAUSE && processes.is_planned => return,
                    Some(last_look) if last_look.elapsed() < MIN_SEARCH_PAUSE => {
                        Some(tokio::runtime::Handle::try_current())
                    }
                    _ => None,
                }
            };
            match pause {
                None => drop(collector.kill_and_count_strays()),
                Some(Ok(runtime)) => {
                    collector.lock_known().is_planned = true;
                    runtime.spawn(async {
                        tokio::time::sleep(MIN_SEARCH_PAUSE).await;
                        let _found = STRAY_COLLECTOR.get().map(StrayCollector::kill_and_count_strays);
                    });
                }
                // The next end looks, or the end of the run.
                Some(Err(_)) => {}
            }
        }
    }

    /// Kills all strays and waits until they have exited. Called at the end of a run.
    pub(in super::super) async fn kill_strays_and_wait() {
        let Some(collector) = STRAY_COLLECTOR.get() else { return };
        for _ in 0..MAX_FINAL_SEARCHES {
            if collector.kill_and_count_strays() == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Kills every process with a mark of the owner in the environment. Called by the watchdog of a killed owner.
    pub(in super::super) fn kill_processes_of_owner() {
        if let Ok(owner) = std::env::var(WATCHED_OWNER_VARIABLE) {
            let mark = format!("{PROCESS_MARK_VARIABLE}={owner}-");
            leftovers::kill_processes_with_entry(|entry| entry.starts_with(mark.as_bytes()));
        }
    }

    impl StrayCollector {
        /// Locks the known processes, also after a panic in another thread.
        fn lock_known(&self) -> MutexGuard<'_, KnownProcesses> {
            self.processes.lock().unwrap_or_else(PoisonError::into_inner)
        }

        /// Kills strays and returns their number, including strays that are about to exit.
        fn kill_and_count_strays(&self) -> usize {
            let _none_starts = self.start_lock.write().unwrap_or_else(PoisonError::into_inner);
            let mut processes = self.lock_known();
            processes.looked_at = Some(Instant::now());
            processes.is_planned = false;
            let children = tree::list_adopted_children(getpid().as_raw_pid());
            // What another thread has started is not among them.
            processes
                .own_children
                .retain(|pid, has_ended| !*has_ended || children.contains(pid));
            let strays = children.into_iter().filter(|pid| processes.is_stray(*pid));
            strays.filter(|pid| !kill_tree_and_reap(*pid)).count()
        }
    }

    impl KnownProcesses {
        /// Returns whether the process is an orphan that no running process of this run owns.
        fn is_stray(&self, pid: i32) -> bool {
            match self.own_children.get(&pid) {
                // Whoever started it waits for it.
                Some(false) => return false,
                Some(true) if tree::read_stat(pid).is_none_or(|stat| stat.is_zombie) => return false,
                Some(true) | None => {}
            }
            match read_mark(pid) {
                Some(mark) => !self.live_marks.contains(&mark),
                None => self.live_marks.is_empty() || tree::read_stat(pid).is_some_and(|stat| stat.is_zombie),
            }
        }
    }

    /// Kills the stray and all its descendants. Returns whether the stray has been reaped.
    fn kill_tree_and_reap(pid: i32) -> bool {
        tree::kill_descendants(pid);
        tree::send_signal(pid, Signal::KILL);
        let waited = Pid::from_raw(pid).map(|pid| waitpid(Some(pid), WaitOptions::NOHANG));
        !matches!(waited, Some(Ok(None)))
    }

    /// Reads the mark in the environment of the process.
    fn read_mark(pid: i32) -> Option<String> {
        let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
        let mut entries = environment.split(|byte| *byte == 0);
        let mark =
            entries.find_map(|entry| entry.strip_prefix(PROCESS_MARK_VARIABLE.as_bytes())?.strip_prefix(b"="))?;
        String::from_utf8(mark.to_vec()).ok()
    }
}

#[cfg(not(target_os = "linux"))]
mod others {
    /// Does nothing: other systems give orphans to the first process.
    ///
    /// # Errors
    /// None.
    pub fn become_orphan_collector() -> std::io::Result<()> {
        Ok(())
    }

    /// Guard of a started process, without an effect on this system.
    #[derive(Debug)]
    pub(in super::super) struct StrayProcessGuard;

    impl StrayProcessGuard {
        pub(in super::super) fn new() -> Self {
            Self
        }

        pub(in super::super) fn mark_variable(&self) -> (&'static str, &str) {
            (super::PROCESS_MARK_VARIABLE, "")
        }

        pub(in super::super) fn set_pid(&mut self, _: Option<u32>) {}
    }

    pub(in super::super) fn own_mark_prefix() -> &'static str {
        ""
    }

    pub(in super::super) fn lock_for_start() {}

    pub(in super::super) fn register_unmarked_child(_: u32) {}

    pub(in super::super) async fn kill_strays_and_wait() {}

    pub(in super::super) fn kill_processes_of_owner() {}
}
