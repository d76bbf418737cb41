//! Who kills a run's processes when the run itself is killed.
//!
//! Nobody runs code on SIGKILL, so somebody else must: one process beside the run, which knows the process
//! groups that are alive and waits for the end of its stdin. We alone hold the other end of that pipe, and
//! the kernel closes it however we end. Asking in each child for a signal at our death would be less to
//! build, and would make each start a `fork` of all our memory.
//!
//! Between the start of a child and the word about it lie some microseconds in which nobody watches; what
//! they let through, `resume` finds.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};

use super::Invocation;
use super::pipe::drain;

/// How often the watchdog is started: once, and once more when it was lost.
const STARTS: u8 = 2;

/// How long messages may lie in the pipe, which has room for more than can come in this time.
const POLL_INTERVAL: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// A process group in four bytes: its number to watch it, the negative number to forget it.
const MESSAGE_SIZE: usize = size_of::<i32>();

/// The watchdog of a run. It is started with the first group, and dropping this ends it.
#[derive(Debug)]
pub struct Watchdog(Mutex<WatchdogState>);

#[derive(Debug)]
struct WatchdogState {
    command: Invocation,
    starts_left: u8,
    process: Option<WatchdogProcess>,
    groups: Vec<Pid>,
    is_given_up: bool,
    warning: Option<String>,
}

impl Watchdog {
    /// One that `command` starts, which has to call [`run_watchdog`] on its stdin.
    pub fn new(command: Invocation) -> Self {
        Self(Mutex::new(WatchdogState {
            command,
            starts_left: STARTS,
            process: None,
            groups: Vec::new(),
            is_given_up: false,
            warning: None,
        }))
    }

    /// Sees to it that the watchdog is there before the child is that it is to watch.
    pub(super) fn ensure_started(&self) {
        self.with(|state| {
            if state.process.is_none() {
                state.start_if_allowed();
            }
        });
    }

    /// From now on the group dies with us. Once at most there is a warning that it will not.
    pub(super) fn watch(&self, group: Pid) -> Option<String> {
        self.with(|state| {
            state.groups.push(group);
            state.send(group.as_raw_pid());
            state.warning.take()
        })
    }

    /// To be called before the leader is reaped: afterwards its number may be somebody else's.
    pub(super) fn forget(&self, group: Pid) {
        self.with(|state| {
            state.groups.retain(|known| *known != group);
            state.send(-group.as_raw_pid());
        });
    }

    fn with<T>(&self, act: impl FnOnce(&mut WatchdogState) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl WatchdogState {
    /// Passes the message on; one who does not hear it is replaced as soon as there is a group to watch.
    fn send(&mut self, message: i32) {
        if self
            .process
            .as_mut()
            .is_some_and(|process| process.send(message).is_ok())
        {
            return;
        }
        self.process = None;
        if !self.groups.is_empty() {
            self.start_if_allowed();
        }
    }

    /// Starts one, if that is still worth trying.
    fn start_if_allowed(&mut self) {
        if self.is_given_up {
            return;
        }
        let started = match self.starts_left.checked_sub(1) {
            Some(left) => {
                self.starts_left = left;
                self.start()
            }
            None => Err(io::Error::other("it was lost again and again")),
        };
        started.unwrap_or_else(|error| self.give_up(&error));
    }

    fn start(&mut self) -> io::Result<()> {
        let mut process = WatchdogProcess::start(&self.command)?;
        for group in &self.groups {
            process.send(group.as_raw_pid())?;
        }
        self.process = Some(process);
        Ok(())
    }

    fn give_up(&mut self, error: &io::Error) {
        self.is_given_up = true;
        self.warning = Some(format!(
            "there is no watchdog, since `{}` cannot be started: {error}; should this run be killed, its scripts work on",
            self.command.program.display()
        ));
    }
}

/// The process; dropping this kills it, so that it never acts on what it was told.
#[derive(Debug)]
struct WatchdogProcess {
    child: Child,
    messages: ChildStdin,
}

impl WatchdogProcess {
    /// It keeps nothing of ours: no terminal's signals, no folder, no stream, no mark of the run.
    fn start(command: &Invocation) -> io::Result<Self> {
        let mut child = Command::new(&command.program)
            .args(&command.arguments)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        let messages = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let process = Self { child, messages };
        // One who was stopped must not stop us.
        rustix::io::ioctl_fionbio(&process.messages, true)?;
        Ok(process)
    }

    fn send(&mut self, message: i32) -> io::Result<()> {
        // So few bytes go into a pipe together or not at all.
        self.messages.write_all(&message.to_ne_bytes())
    }
}

impl Drop for WatchdogProcess {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _status = self.child.wait();
    }
}

/// The watchdog's own life: takes messages until they end, and kills every group that is still watched.
///
/// It sleeps through the messages, which lie in the pipe meanwhile, and wakes for their end: waking for each
/// would cost every start of a child two changes of process.
pub fn run_watchdog(messages: impl AsFd) {
    let mut groups = Vec::new();
    let mut is_over = false;
    while !is_over {
        is_over = await_end(&messages);
        let mut bytes = Vec::new();
        drain(&messages, |piece| bytes.extend_from_slice(piece));
        bytes
            .as_chunks()
            .0
            .iter()
            .for_each(|message| apply(&mut groups, *message));
    }
    for group in groups {
        // To the first process's group belongs, for `kill`, everybody.
        if let Some(group) = Pid::from_raw(group)
            && !group.is_init()
        {
            let _nobody_left = kill_process_group(group, Signal::KILL);
        }
    }
}

fn apply(groups: &mut Vec<i32>, message: [u8; MESSAGE_SIZE]) {
    let number = i32::from_ne_bytes(message);
    groups.retain(|known| *known != number.saturating_abs());
    if number > 0 {
        groups.push(number);
    }
}

/// Has the other end been closed, at once or within a [`POLL_INTERVAL`]? What comes through the pipe wakes nobody.
fn await_end(messages: &impl AsFd) -> bool {
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

    fn watchdog_of(program: &str, arguments: &[&str]) -> Watchdog {
        Watchdog::new(Invocation {
            program: PathBuf::from(program),
            arguments: arguments.iter().map(Into::into).collect(),
        })
    }

    fn pid_of(watchdog: &Watchdog) -> Option<Pid> {
        watchdog.with(|state| state.process.as_ref().map(|process| Pid::from_child(&process.child)))
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
        assert_eq!(watchdog.watch(group), None);
        let process = pid_of(&watchdog).expect("it was started");
        watchdog.forget(group);
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
        assert_eq!(watchdog.watch(group), None);
        assert_eq!(pid_of(&watchdog), Some(process), "one is enough");
        child.kill().expect("killed");
        child.wait().expect("it ends");
    }

    #[test]
    fn one_that_is_lost_is_replaced_once() {
        let watchdog = watchdog_of("cat", &[]);
        let (mut child, group) = sleeper();
        let lose = || {
            watchdog.with(|state| {
                state
                    .process
                    .as_mut()
                    .map(|process| (process.child.kill(), process.child.wait()))
            })
        };
        assert_eq!(watchdog.watch(group), None);
        let first = pid_of(&watchdog).expect("it was started");
        lose();
        watchdog.forget(group);
        assert_eq!(pid_of(&watchdog), None, "there is nothing to watch");
        assert_eq!(watchdog.watch(group), None);
        let second = pid_of(&watchdog).expect("it was started again");
        assert_ne!(first, second);
        lose();
        watchdog.forget(group);
        assert!(watchdog.watch(group).is_some(), "it was lost twice");
        assert_eq!(pid_of(&watchdog), None);
        child.kill().expect("killed");
        child.wait().expect("it ends");
    }

    #[test]
    fn one_that_does_not_listen_is_not_waited_for() {
        let watchdog = watchdog_of("sleep", &["1000"]);
        let (mut child, group) = sleeper();
        let warnings = (0..100_000).filter_map(|_| {
            watchdog.with(|state| state.groups.clear());
            watchdog.watch(group)
        });
        assert_eq!(warnings.count(), 1);
        child.kill().expect("killed");
        child.wait().expect("it ends");
    }

    #[test]
    fn one_that_cannot_be_started_is_told_of_once() {
        let watchdog = watchdog_of("/no/such/program", &[]);
        let (mut child, group) = sleeper();
        let warning = watchdog.watch(group).expect("a warning");
        assert!(warning.contains("/no/such/program"), "{warning}");
        assert_eq!(watchdog.watch(group), None);
        child.kill().expect("killed");
        child.wait().expect("it ends");
    }
}
