//! A child process and all that it starts, as one thing that can be killed.
//!
//! A script leads a process group of its own, so that its children die with it, and the run's watchdog knows
//! the group, so that nothing works on when we are killed ourselves.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::process::{Child, Command};

use super::fault;
use super::watchdog::Watchdog;
use crate::agent::Notes;

/// How often, and how long apart, a program is tried that somebody still has open for writing.
const BUSY: (u32, Duration) = (50, Duration::from_millis(5));

/// Makes the command lead a group of its own.
pub(super) fn lead(command: &mut Command) {
    command.process_group(0).kill_on_drop(true);
}

/// Starts it when the watchdog is there to be told of it. A program that somebody still has open for writing is tried
/// again.
pub(super) async fn spawn(command: &mut Command, watchdog: Option<&Watchdog>) -> io::Result<Child> {
    if let Some(watchdog) = watchdog {
        watchdog.ensure_started();
    }
    let (mut tries, pause) = BUSY;
    loop {
        match command.spawn() {
            Err(error) if fault::is_busy(&error) && tries > 0 => tries -= 1,
            spawned => return spawned,
        }
        tokio::time::sleep(pause).await;
    }
}

/// A child and its group; dropping this kills what is alive of it.
///
/// It owns the child, so that a drop kills the group before the child can be reaped: until then nobody else
/// can have its number.
pub(super) struct Group {
    // Dropped in this order.
    members: GroupMembers,
    child: Child,
}

/// The group as long as it has not been killed.
struct GroupMembers {
    leader: Option<Pid>,
    watchdog: Option<Arc<Watchdog>>,
}

impl Group {
    /// The group that `child` leads, watched from now on.
    pub(super) fn of(child: Child, watchdog: Option<Arc<Watchdog>>, notes: &Notes) -> Self {
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        let leader = id.and_then(Pid::from_raw);
        if let (Some(leader), Some(watchdog)) = (leader, &watchdog)
            && let Some(warning) = watchdog.watch(leader)
        {
            notes.warn(warning);
        }
        Self {
            members: GroupMembers { leader, watchdog },
            child,
        }
    }

    /// Waits for the child, not for those that it leaves behind: they are killed in the same breath.
    pub(super) async fn end(&mut self) -> io::Result<ExitStatus> {
        let Self { members, child } = self;
        let mut reaped = pin!(child.wait());
        let status = poll_fn(|context| {
            members.kill_if_leaderless();
            reaped.as_mut().poll(context)
        });
        let status = status.await;
        members.kill();
        status
    }

    /// Kills all of it, once.
    pub(super) fn kill(&mut self) {
        self.members.kill();
    }
}

impl GroupMembers {
    /// Kills those whose leader has ended but is not reaped yet, so that the group's number is still its own.
    ///
    /// `Child::wait` reaps only once the reactor has told it of the end. Where the reactor shares our thread,
    /// the end has come before we looked here, and no other process can be meant. Elsewhere the leader may
    /// end between this look and the reaping; then for an instant the number is free, which is of no account
    /// as numbers are given out in turn.
    fn kill_if_leaderless(&mut self) {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        if let Some(leader) = self.leader
            && let Ok(Some(_)) = waitid(WaitId::Pid(leader), look)
        {
            self.kill();
        }
    }

    fn kill(&mut self) {
        if let Some(leader) = self.leader.take() {
            // An error means that nobody is left.
            let _nobody_left = kill_process_group(leader, Signal::KILL);
            if let Some(watchdog) = self.watchdog.take() {
                watchdog.forget(leader);
            }
        }
    }
}

impl Drop for GroupMembers {
    fn drop(&mut self) {
        self.kill();
    }
}
