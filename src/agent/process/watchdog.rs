//! Who kills a run's processes when the run itself is killed.
//!
//! Nobody runs code on SIGKILL, so somebody else must: one process beside the run, which knows the process
//! groups that are alive and waits for the end of its stdin. We alone hold the other end of that pipe, and
//! the kernel closes it however we end. Asking in each child for a signal at our death would be less to
//! build, and would make each start a `fork` of all our memory.
//!
//! Between the start of a child and the word about it lie some microseconds in which nobody watches; what
//! they let through, `resume` finds.

use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use rustix::process::{Pid, Signal, kill_process_group};

use super::Invocation;

/// How often the watchdog is started: once, and once more when it was lost.
const STARTS: u8 = 2;

/// A process group in four bytes: its number to watch it, the negative number to forget it.
const ORDER: usize = size_of::<i32>();

/// The watchdog of a run. It is started with the first group, and dropping this ends it.
#[derive(Debug)]
pub struct Watchdog(Mutex<Kennel>);

#[derive(Debug)]
struct Kennel {
    command: Invocation,
    starts_left: u8,
    dog: Option<Dog>,
    groups: Vec<Pid>,
    is_given_up: bool,
    warning: Option<String>,
}

impl Watchdog {
    /// One that `command` starts, which has to call [`keep_watch`] on its stdin.
    pub fn new(command: Invocation) -> Self {
        Self(Mutex::new(Kennel {
            command,
            starts_left: STARTS,
            dog: None,
            groups: Vec::new(),
            is_given_up: false,
            warning: None,
        }))
    }

    /// From now on the group dies with us. Once at most there is a warning that it will not.
    pub(super) fn watch(&self, group: Pid) -> Option<String> {
        self.with(|kennel| {
            kennel.groups.push(group);
            kennel.tell(group.as_raw_pid());
            kennel.warning.take()
        })
    }

    /// To be called before the leader is reaped: afterwards its number may be somebody else's.
    pub(super) fn forget(&self, group: Pid) {
        self.with(|kennel| {
            kennel.groups.retain(|known| *known != group);
            kennel.tell(-group.as_raw_pid());
        });
    }

    fn with<T>(&self, act: impl FnOnce(&mut Kennel) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Kennel {
    /// Passes the order on; one who does not hear it is replaced as soon as there is a group to watch.
    fn tell(&mut self, order: i32) {
        if self.dog.as_mut().is_some_and(|dog| dog.tell(order).is_ok()) {
            return;
        }
        self.dog = None;
        if self.groups.is_empty() || self.is_given_up {
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
        let mut dog = Dog::start(&self.command)?;
        for group in &self.groups {
            dog.tell(group.as_raw_pid())?;
        }
        self.dog = Some(dog);
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
struct Dog {
    process: Child,
    orders: ChildStdin,
}

impl Dog {
    /// It keeps nothing of ours: no terminal's signals, no folder, no stream, no mark of the run.
    fn start(command: &Invocation) -> io::Result<Self> {
        let mut process = Command::new(&command.program)
            .args(&command.arguments)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        let orders = process.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let dog = Self { process, orders };
        // One who was stopped must not stop us.
        rustix::io::ioctl_fionbio(&dog.orders, true)?;
        Ok(dog)
    }

    fn tell(&mut self, order: i32) -> io::Result<()> {
        // So few bytes go into a pipe together or not at all.
        self.orders.write_all(&order.to_ne_bytes())
    }
}

impl Drop for Dog {
    fn drop(&mut self) {
        let _gone = self.process.kill();
        let _status = self.process.wait();
    }
}

/// The watchdog's own life: takes orders until they end, and kills every group that is still watched.
pub fn keep_watch(mut orders: impl Read) {
    let mut groups = Vec::new();
    let mut order = [0; ORDER];
    while orders.read_exact(&mut order).is_ok() {
        let number = i32::from_ne_bytes(order);
        groups.retain(|known| *known != number.saturating_abs());
        if number > 0 {
            groups.push(number);
        }
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

    fn kennel(program: &str, arguments: &[&str]) -> Watchdog {
        Watchdog::new(Invocation {
            program: PathBuf::from(program),
            arguments: arguments.iter().map(Into::into).collect(),
        })
    }

    fn pid_of(watchdog: &Watchdog) -> Option<Pid> {
        watchdog.with(|kennel| kennel.dog.as_ref().map(|dog| Pid::from_child(&dog.process)))
    }

    #[test]
    fn what_is_watched_at_the_end_is_killed_and_what_was_forgotten_is_not() {
        let ((mut watched, first), (mut forgotten, second)) = (sleeper(), sleeper());
        let orders = [first.as_raw_pid(), second.as_raw_pid(), -second.as_raw_pid()];
        let bytes: Vec<u8> = orders.iter().flat_map(|order| order.to_ne_bytes()).collect();
        keep_watch(&*bytes);
        assert_eq!(watched.wait().expect("it ends").signal(), Some(9));
        assert!(forgotten.try_wait().expect("a child").is_none());
        forgotten.kill().expect("killed");
        forgotten.wait().expect("it ends");
    }

    #[test]
    fn orders_that_name_nobody_kill_nobody() {
        let orders = [1, 0, -1, i32::MIN].map(i32::to_ne_bytes);
        keep_watch(orders.as_flattened());
        keep_watch(&b"half"[..2]);
    }

    #[test]
    fn it_is_started_with_the_first_group_and_ended_with_the_last_holder() {
        let watchdog = kennel("cat", &[]);
        assert_eq!(pid_of(&watchdog), None);
        let (mut child, group) = sleeper();
        assert_eq!(watchdog.watch(group), None);
        let dog = pid_of(&watchdog).expect("it was started");
        watchdog.forget(group);
        drop(watchdog);
        assert!(rustix::process::test_kill_process(dog).is_err(), "it was not reaped");
        assert!(child.try_wait().expect("a child").is_none());
        child.kill().expect("killed");
        child.wait().expect("it ends");
    }

    #[test]
    fn one_that_is_lost_is_replaced_once() {
        let watchdog = kennel("cat", &[]);
        let (mut child, group) = sleeper();
        let lose = || watchdog.with(|kennel| kennel.dog.as_mut().map(|dog| (dog.process.kill(), dog.process.wait())));
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
        let watchdog = kennel("sleep", &["1000"]);
        let (mut child, group) = sleeper();
        let warnings = (0..100_000).filter_map(|_| {
            watchdog.with(|kennel| kennel.groups.clear());
            watchdog.watch(group)
        });
        assert_eq!(warnings.count(), 1);
        child.kill().expect("killed");
        child.wait().expect("it ends");
    }

    #[test]
    fn one_that_cannot_be_started_is_told_of_once() {
        let watchdog = kennel("/no/such/program", &[]);
        let (mut child, group) = sleeper();
        let warning = watchdog.watch(group).expect("a warning");
        assert!(warning.contains("/no/such/program"), "{warning}");
        assert_eq!(watchdog.watch(group), None);
        child.kill().expect("killed");
        child.wait().expect("it ends");
    }
}
