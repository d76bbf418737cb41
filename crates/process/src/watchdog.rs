//! The watchdog: a process that kills the child processes of a run if the run is killed.
//!
//! A process runs no code on SIGKILL. So a second process knows the process groups that are alive and waits for the end
//! of its stdin. Only the run holds the other end of that pipe, and the kernel closes the pipe however the run ends. A
//! parent-death signal in each child would need less code, but would make each start a `fork` of the whole memory.
//!
//! Between the start of a child and the message about it, the child is not watched for some microseconds. If the run is
//! killed at that time, `resume` finds the child.
//!
//! - The watchdog is in a separate process group and has neither the environment nor the streams nor the working folder of the run.
//!   SIGINT, SIGTERM, SIGHUP and SIGQUIT do not end it. One watchdog serves a run and all nested runs.
//! - It reads the numbers of the groups once a second, and at once when the pipe closes. The run does not wait for a watchdog that does not read.
//! - A watchdog that has ended is replaced once. After that, or if it cannot be started, the run continues with a warning.
//! - A group is removed before its leader is reaped: afterwards its number can belong to another process.
//! - On Linux it also kills the descendants of the leaders, and every process with a mark of the program in its environment
//!   (`ENSEMBLE_PROCESS`).

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};

use super::pipe::drain_pipe;
use super::{ProgramInvocation, strays, tree};

/// The maximum number of starts of the watchdog: the first start and one restart.
const MAX_WATCHDOG_STARTS: u8 = 2;

/// Interval at which the watchdog reads messages. The pipe has room for all messages of this time.
const POLL_INTERVAL: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// Size of a message: the id of a process group to watch, or the negative id to forget it.
const MESSAGE_SIZE: usize = size_of::<i32>();

/// Watchdog process of a run, which kills child processes if this process is killed. Started with the first group; ends when dropped.
#[derive(Debug)]
pub struct ProcessWatchdog(Mutex<WatchdogState>);

/// Watchdog process, its watched groups and its remaining starts.
#[derive(Debug)]
struct WatchdogState {
    command: ProgramInvocation,
    starts_left: u8,
    process: Option<WatchdogProcess>,
    groups: Vec<Pid>,
    is_given_up: bool,
    warning: Option<String>,
}

impl ProcessWatchdog {
    /// Creates a watchdog without starting it. `command` must call [`run_watchdog`] with its stdin.
    pub fn new(command: ProgramInvocation) -> Self {
        Self(Mutex::new(WatchdogState {
            command,
            starts_left: MAX_WATCHDOG_STARTS,
            process: None,
            groups: Vec::new(),
            is_given_up: false,
            warning: None,
        }))
    }

    /// Starts the watchdog process if it is not running. Must be called before a child is started.
    pub(super) fn ensure_started(&self) {
        self.with_state(|state| {
            if state.process.is_none() {
                state.start_if_allowed();
            }
        });
    }

    /// Watches the group from now on. Returns a warning at the first call without a working watchdog.
    pub(super) fn watch_group(&self, group: Pid) -> Option<String> {
        self.with_state(|state| {
            state.groups.push(group);
            state.send_or_restart(group.as_raw_pid());
            state.warning.take()
        })
    }

    /// Stops watching the group. Must be called before the leader is reaped, because its id can be reused later.
    pub(super) fn forget_group(&self, group: Pid) {
        self.with_state(|state| {
            state.groups.retain(|known| *known != group);
            state.send_or_restart(-group.as_raw_pid());
        });
    }

    /// Calls the function with the locked state.
    fn with_state<T>(&self, act: impl FnOnce(&mut WatchdogState) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl WatchdogState {
    /// Sends the message. If that fails, the watchdog is restarted as soon as there is a group to watch.
    fn send_or_restart(&mut self, message: i32) {
        if self
            .process
            .as_mut()
            .is_some_and(|process| process.send_message(message).is_ok())
        {
            return;
        }
        self.process = None;
        if !self.groups.is_empty() {
            self.start_if_allowed();
        }
    }

    /// Starts the watchdog process unless the maximum number of starts is reached.
    fn start_if_allowed(&mut self) {
        if self.is_given_up {
            return;
        }
        let started = match self.starts_left.checked_sub(1) {
            Some(starts_left) => {
                self.starts_left = starts_left;
                self.start_process()
            }
            None => Err(io::Error::other("it exited repeatedly")),
        };
        started.unwrap_or_else(|error| self.record_start_failure(&error));
    }

    /// Starts the process and sends all watched groups.
    fn start_process(&mut self) -> io::Result<()> {
        let mut process = WatchdogProcess::spawn_process(&self.command)?;
        for group in &self.groups {
            process.send_message(group.as_raw_pid())?;
        }
        self.process = Some(process);
        Ok(())
    }

    fn record_start_failure(&mut self, error: &io::Error) {
        self.is_given_up = true;
        self.warning = Some(format!(
            "the watchdog `{}` cannot be started: {error}; if this run is killed, its scripts continue to run",
            self.command.program.display()
        ));
    }
}

/// Running watchdog process. Dropping it kills the process, so that it does not kill any group.
#[derive(Debug)]
struct WatchdogProcess {
    child: Child,
    messages: ChildStdin,
}

impl WatchdogProcess {
    /// Starts the process in a separate process group, with an empty environment, in the folder `/`, without output streams.
    fn spawn_process(command: &ProgramInvocation) -> io::Result<Self> {
        let _nobody_looks = strays::lock_for_start();
        let mut child = Command::new(&command.program)
            .args(&command.arguments)
            .env_clear()
            .env(strays::WATCHED_OWNER_VARIABLE, strays::own_mark_prefix())
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        strays::register_unmarked_child(child.id());
        let messages = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let process = Self { child, messages };
        // A stopped watchdog must not block this process.
        rustix::io::ioctl_fionbio(&process.messages, true)?;
        Ok(process)
    }

    /// Writes the message to the pipe.
    fn send_message(&mut self, message: i32) -> io::Result<()> {
        // A pipe takes so few bytes completely or not at all.
        self.messages.write_all(&message.to_ne_bytes())
    }
}

impl Drop for WatchdogProcess {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _status = self.child.wait();
    }
}

/// Runs the watchdog process: reads messages until the pipe closes, then kills every watched group.
///
/// It does not wake for each message, which would cost two context switches for every start of a child. Messages stay
/// in the pipe until the next read; the end of the pipe wakes it at once.
pub fn run_watchdog(messages: impl AsFd) {
    let mut groups = Vec::new();
    let mut is_over = false;
    while !is_over {
        is_over = wait_for_close(&messages);
        let mut bytes = Vec::new();
        drain_pipe(&messages, |piece| bytes.extend_from_slice(piece));
        bytes
            .as_chunks()
            .0
            .iter()
            .for_each(|message| apply_message(&mut groups, *message));
    }
    for group in groups {
        // For `kill`, the group of process 1 means all processes.
        if let Some(group) = Pid::from_raw(group)
            && !group.is_init()
        {
            tree::kill_descendants(group.as_raw_pid());
            let _nobody_left = kill_process_group(group, Signal::KILL);
        }
    }
    strays::kill_processes_of_owner();
}

/// Adds or removes a process group, according to the sign of the number.
fn apply_message(groups: &mut Vec<i32>, message: [u8; MESSAGE_SIZE]) {
    let number = i32::from_ne_bytes(message);
    groups.retain(|known| *known != number.saturating_abs());
    if number > 0 {
        groups.push(number);
    }
}

/// Waits at most [`POLL_INTERVAL`] for the other end to close and returns whether it is closed. Data does not end the
/// wait.
fn wait_for_close(messages: &impl AsFd) -> bool {
    let mut polled = [PollFd::new(messages, PollFlags::empty())];
    match poll(&mut polled, Some(&POLL_INTERVAL)) {
        Ok(count) => count > 0,
        Err(error) => error != Errno::INTR,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::path::PathBuf;

    use super::*;

    fn sleeper() -> (Child, Pid) {
        let child = Command::new("sleep").arg("1000").process_group(0).spawn();
        let child = child.expect("it starts");
        let group = Pid::from_child(&child);
        (child, group)
    }

    fn watch_messages(messages: &[u8]) {
        let (reader, mut writer) = io::pipe().expect("a pipe");
        writer.write_all(messages).expect("written");
        drop(writer);
        run_watchdog(reader);
    }

    fn watchdog_of(program: &str, arguments: &[&str]) -> ProcessWatchdog {
        ProcessWatchdog::new(ProgramInvocation {
            program: PathBuf::from(program),
            arguments: arguments.iter().map(Into::into).collect(),
        })
    }

    fn pid_of(watchdog: &ProcessWatchdog) -> Option<Pid> {
        watchdog.with_state(|state| state.process.as_ref().map(|process| Pid::from_child(&process.child)))
    }

    #[test]
    fn what_is_watched_at_the_end_is_killed_and_what_was_forgotten_is_not() {
        let ((mut watched, first), (mut forgotten, second)) = (sleeper(), sleeper());
        let messages = [first.as_raw_pid(), second.as_raw_pid(), -second.as_raw_pid()];
        watch_messages(messages.map(i32::to_ne_bytes).as_flattened());
        assert_eq!(watched.wait().expect("it ends").signal(), Some(9));
        assert!(forgotten.try_wait().expect("a child").is_none());
        forgotten.kill().expect("killed");
        forgotten.wait().expect("it ends");
    }

    #[test]
    fn orders_that_name_nobody_kill_nobody() {
        watch_messages([1, 0, -1, i32::MIN].map(i32::to_ne_bytes).as_flattened());
        watch_messages(b"ha");
    }

    #[test]
    fn it_is_started_with_the_first_group_and_ended_with_the_last_holder() {
        let watchdog = watchdog_of("cat", &[]);
        assert_eq!(pid_of(&watchdog), None);
        let (mut child, group) = sleeper();
        assert_eq!(watchdog.watch_group(group), None);
        let process = pid_of(&watchdog).expect("it was started");
        watchdog.forget_group(group);
        drop(watchdog);
        assert!(
            rustix::process::test_kill_process(process).is_err(),
            "it was not reaped"
        );
        assert!(child.try_wait().expect("a child").is_none());
        child.kill().expect("killed");
        child.wait().expect("it ends");
    }

    #[test]
    fn it_is_there_before_the_first_group_is() {
        let watchdog = watchdog_of("cat", &[]);
        watchdog.ensure_started();
        let process = pid_of(&watchdog).expect("it was started");
        watchdog.ensure_started();
        let (mut child, group) = sleeper();
        assert_eq!(watchdog.watch_group(group), None);
        assert_eq!(pid_of(&watchdog), Some(process), "one is enough");
        child.kill().expect("killed");
        child.wait().expect("it ends");
    }

    #[test]
    fn one_that_is_lost_is_replaced_once() {
        let watchdog = watchdog_of("cat", &[]);
        let (mut child, group) = sleeper();
        let lose = || {
            watchdog.with_state(|state| {
                let process = state.process.as_mut().expect("it was started");
                process.child.kill().expect("killed");
                process.child.wait().expect("it ends");
                // A child that another test is just starting holds the other end of the pipe until it runs its program.
                while !wait_for_close(&process.messages) {}
            });
        };
        assert_eq!(watchdog.watch_group(group), None);
        let first = pid_of(&watchdog).expect("it was started");
        lose();
        watchdog.forget_group(group);
        assert_eq!(pid_of(&watchdog), None, "there is nothing to watch");
        assert_eq!(watchdog.watch_group(group), None);
        let second = pid_of(&watchdog).expect("it was started again");
        assert_ne!(first, second);
        lose();
        watchdog.forget_group(group);
        assert!(watchdog.watch_group(group).is_some(), "it was lost twice");
        assert_eq!(pid_of(&watchdog), None);
        child.kill().expect("killed");
        child.wait().expect("it ends");
    }

    #[test]
    fn one_that_does_not_listen_is_not_waited_for() {
        let watchdog = watchdog_of("sleep", &["1000"]);
        let (mut child, group) = sleeper();
        let warnings = (0..100_000).filter_map(|_| {
            watchdog.with_state(|state| state.groups.clear());
            watchdog.watch_group(group)
        });
        assert_eq!(warnings.count(), 1);
        child.kill().expect("killed");
        child.wait().expect("it ends");
    }

    #[test]
    fn one_that_cannot_be_started_is_told_of_once() {
        let watchdog = watchdog_of("/no/such/program", &[]);
        let (mut child, group) = sleeper();
        let warning = watchdog.watch_group(group).expect("a warning");
        assert!(warning.contains("/no/such/program"), "{warning}");
        assert_eq!(watchdog.watch_group(group), None);
        child.kill().expect("killed");
        child.wait().expect("it ends");
    }
}
