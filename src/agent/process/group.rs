//! A child process and all that it starts, as one thing that can be killed.
//!
//! A script leads a process group of its own, so that its children die with it, and on Linux it dies with
//! the thread that started it, so that nothing works on when we are killed ourselves.

use std::io;
use std::os::fd::AsFd;
use std::process::ExitStatus;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};

/// Makes the command lead a group of its own.
pub(super) fn lead(command: &mut Command) {
    command.process_group(0);
    #[cfg(target_os = "linux")]
    die_with_parent(command);
    command.kill_on_drop(true);
}

/// The signal is bound to the *thread* that spawns: spawn where the runtime lives, never on a worker that ends.
#[cfg(target_os = "linux")]
#[expect(
    unsafe_code,
    reason = "only the child itself can ask for the parent-death signal, between fork and exec"
)]
fn die_with_parent(command: &mut Command) {
    use rustix::process::{getpid, getppid, set_parent_process_death_signal};

    let parent = getpid();
    let ask = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have died before the signal was asked for; then it will never come.
        match getppid() {
            Some(actual) if actual == parent => Ok(()),
            _ => Err(io::Error::from_raw_os_error(rustix::io::Errno::SRCH.raw_os_error())),
        }
    };
    // SAFETY: the closure makes two system calls and neither allocates nor takes a lock, so it is
    // async-signal-safe, as must be what runs between fork and exec.
    unsafe {
        command.pre_exec(ask);
    }
}

/// A child and its group; dropping this kills what is alive of it.
///
/// It owns the child, so that a drop kills the group before the child can be reaped: until then nobody else
/// can have its number.
pub(super) struct Group {
    child: Child,
    leader: Option<Pid>,
}

impl Group {
    /// The group that `child` leads.
    pub(super) fn of(child: Child) -> Self {
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        Self {
            child,
            leader: id.and_then(Pid::from_raw),
        }
    }

    /// Waits for the child, not for those that it leaves behind: they are killed in the same breath.
    pub(super) async fn end(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait().await;
        self.kill();
        status
    }

    /// Kills all of it, once.
    pub(super) fn kill(&mut self) {
        if let Some(leader) = self.leader.take() {
            // An error means that nobody is left.
            let _nobody_left = kill_process_group(leader, Signal::KILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

/// What is in the pipe at this instant, handed on piece by piece, without ever waiting for more.
///
/// A child that has ended has put all it wrote into the pipe, so this is everything it said, whoever else
/// may still hold the other end open and go on writing.
pub(super) fn drain(pipe: &impl AsFd, mut take: impl FnMut(&[u8])) {
    let mut left = rustix::io::ioctl_fionread(pipe).unwrap_or(0);
    let mut buffer = [0_u8; 8192];
    while left > 0 {
        let wanted = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        match rustix::io::read(pipe, &mut buffer[..wanted]) {
            Ok(0) => return,
            Ok(count) => {
                take(&buffer[..count]);
                left -= count as u64;
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

/// The names of the signals that end a process.
pub(super) fn signal_name(number: i32) -> String {
    let names = [
        (Signal::HUP, "SIGHUP"),
        (Signal::INT, "SIGINT"),
        (Signal::QUIT, "SIGQUIT"),
        (Signal::ILL, "SIGILL"),
        (Signal::TRAP, "SIGTRAP"),
        (Signal::ABORT, "SIGABRT"),
        (Signal::BUS, "SIGBUS"),
        (Signal::FPE, "SIGFPE"),
        (Signal::KILL, "SIGKILL"),
        (Signal::USR1, "SIGUSR1"),
        (Signal::SEGV, "SIGSEGV"),
        (Signal::USR2, "SIGUSR2"),
        (Signal::PIPE, "SIGPIPE"),
        (Signal::ALARM, "SIGALRM"),
        (Signal::TERM, "SIGTERM"),
        (Signal::XCPU, "SIGXCPU"),
        (Signal::XFSZ, "SIGXFSZ"),
        (Signal::SYS, "SIGSYS"),
    ];
    let known = names.iter().find(|(signal, _)| signal.as_raw() == number);
    known.map_or_else(|| format!("signal {number}"), |(_, name)| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn what_comes_while_the_pipe_is_drained_is_left_in_it() {
        let (reader, mut writer) = io::pipe().expect("a pipe");
        writer.write_all(b"first").expect("written");
        let mut read = Vec::new();
        drain(&reader, |bytes| {
            read.extend_from_slice(bytes);
            assert!(read.len() < 100, "it goes on for ever");
            writer.write_all(b"more").expect("written");
        });
        assert_eq!(read, b"first");
    }

    #[test]
    fn an_empty_pipe_is_not_waited_for() {
        let (reader, _writer) = io::pipe().expect("a pipe");
        drain(&reader, |bytes| panic!("{bytes:?}"));
    }

    #[test]
    fn signals_have_the_names_that_people_know() {
        assert_eq!(signal_name(9), "SIGKILL");
        assert_eq!(signal_name(15), "SIGTERM");
        assert_eq!(signal_name(63), "signal 63");
    }
}
