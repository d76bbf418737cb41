//! Process groups: a child process and all processes that it starts, which are killed together.
//!
//! Each script leads its own process group, so that its children are killed with it. The watchdog of the run knows the
//! group, so that the group is killed if this process is killed.

use std::any::Any;
use std::future::{pending, poll_fn};
use std::io;
use std::pin::pin;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, waitid};
use tokio::process::{Child, Command};

use super::confine::TemporaryFolder;
use super::group_termination::{self, TerminatingGroup};
use super::members::{KillOnceGroup, has_exited};
use super::process_failures;
use super::strays::{self, StrayProcessGuard};
use super::watchdog::ProcessWatchdog;
use crate::resource_room;
use ensemble_core::runner::AttemptLedger;

/// The number of retries, and the pause between them, if another process has the program file open for writing.
const BUSY_RETRIES: (u32, Duration) = (50, Duration::from_millis(5));

/// Interval of the checks whether the child is stopped.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// Configures the command as leader of a new process group, which is killed when the child is dropped.
pub(super) fn make_group_leader(command: &mut Command) {
    command.process_group(0).kill_on_drop(true);
}

/// Starts the watchdog if necessary, then the command. Retries if the program file is open for writing or resources are missing.
pub(super) async fn spawn_watched_with_retries(
    command: &mut Command,
    watchdog: Option<&ProcessWatchdog>,
) -> io::Result<StartedChild> {
    if let Some(watchdog) = watchdog {
        watchdog.ensure_started();
    }
    let (mut tries, pause) = BUSY_RETRIES;
    let mut full = 0;
    loop {
        match spawn_marked_process(command) {
            Err(error) if process_failures::is_open_for_writing(&error) && tries > 0 => tries -= 1,
            Err(error)
                if resource_room::is_out_of_resources(&error)
                    && resource_room::wait_to_retry_for_resources(&mut full).await =>
            {
                continue;
            }
            spawned => return spawned,
        }
        tokio::time::sleep(pause).await;
    }
}

/// Starts the command with a mark that its children inherit.
pub(super) fn spawn_marked_process(command: &mut Command) -> io::Result<StartedChild> {
    let mut mark = StrayProcessGuard::new();
    let (name, text) = mark.mark_variable();
    command.env(name, text);
    let _nobody_looks = strays::lock_for_start();
    let child = command.spawn()?;
    mark.set_pid(child.id());
    Ok(StartedChild { child, mark })
}

/// Child process that no process group owns yet.
pub(super) struct StartedChild {
    pub(super) child: Child,
    mark: StrayProcessGuard,
}

/// Child process and its process group. Dropping this ends the group: with SIGTERM, then SIGKILL if a watchdog exists, otherwise with
/// SIGKILL.
///
/// It owns the child, so that the group is killed before the child is reaped: until then the number of the group cannot
/// be reused.
pub(super) struct ProcessGroup {
    // Dropped in this order.
    members: KillOnceGroup,
    child: Option<Child>,
    /// The agent that runs it, for the next process of the agent to wait.
    agent: String,
    /// What must be there until the group has ended.
    held_resources: Vec<Box<dyn Any + Send + Sync>>,
}

impl ProcessGroup {
    /// Creates the group that the child leads. The watchdog watches it from now on. A problem of the watchdog becomes a warning.
    pub(super) fn from_child(
        started: StartedChild,
        watchdog: Option<Arc<ProcessWatchdog>>,
        ledger: &AttemptLedger,
        agent: String,
    ) -> Self {
        let StartedChild { child, mark } = started;
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        let leader = id.and_then(Pid::from_raw);
        if let (Some(leader), Some(watchdog)) = (leader, &watchdog)
            && let Some(warning) = watchdog.watch_group(leader)
        {
            ledger.add_warning(warning);
        }
        Self {
            members: KillOnceGroup {
                leader,
                watchdog,
                mark: Some(mark),
            },
            child: Some(child),
            agent,
            held_resources: Vec::new(),
        }
    }

    /// Keeps the temporary folder until the group has ended.
    pub(super) fn keep_folder_until_end(&mut self, temporary: Option<TemporaryFolder>) {
        if let Some(temporary) = temporary {
            self.keep_until_end(temporary);
        }
    }

    /// Keeps a value until the group has ended.
    pub(super) fn keep_until_end(&mut self, held: impl Any + Send + Sync) {
        self.held_resources.push(Box::new(held));
    }

    /// Waits for the exit of the child, then kills the other processes of the group.
    pub(super) async fn wait_and_kill_rest(&mut self) -> io::Result<ExitStatus> {
        let Self { members, child, .. } = self;
        let Some(child) = child else {
            return Err(io::Error::other("the process has already exited"));
        };
        let mut reaped = pin!(child.wait());
        let status = poll_fn(|context| {
            members.kill_if_leader_exited();
            reaped.as_mut().poll(context)
        });
        let status = status.await;
        members.kill_with_descendants();
        members.mark = None;
        status
    }

    /// Waits until the system stops the child because it reads from the terminal or changes it.
    ///
    /// The group of a script is in the background of the terminal, so the system stops it there until somebody puts it
    /// in the foreground, which nobody does.
    pub(super) fn wait_for_terminal_stop(&self) -> impl Future<Output = ()> + use<> {
        let leader = self.members.leader;
        async move {
            let Some(leader) = leader else { return pending().await };
            let look = WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
            let at_terminal = [Signal::TTIN, Signal::TTOU].map(Signal::as_raw);
            loop {
                tokio::time::sleep(STOP_CHECK_INTERVAL).await;
                let stopped = waitid(WaitId::Pid(leader), look).ok().flatten();
                let signal = stopped.and_then(|status| status.stopping_signal());
                if signal.is_some_and(|signal| at_terminal.contains(&signal)) {
                    return;
                }
            }
        }
    }

    /// Kills the group, unless it was killed before.
    pub(super) fn kill_once(&mut self) {
        self.members.kill_with_descendants();
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        let is_watched = self.members.watchdog.is_some();
        let is_alive = self.members.leader.is_some_and(|leader| !has_exited(leader));
        if is_watched
            && is_alive
            && let Some(child) = self.child.take()
        {
            group_termination::terminate_and_queue_kill(TerminatingGroup {
                members: std::mem::take(&mut self.members),
                child,
                held_resources: Box::new(std::mem::take(&mut self.held_resources)),
                agent: std::mem::take(&mut self.agent),
            });
        } else {
            self.members.kill_with_descendants();
        }
    }
}
