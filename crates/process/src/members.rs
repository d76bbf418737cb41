//! The members of a process group, until they are killed.

use std::sync::Arc;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::strays::StrayProcessGuard;
use super::tree;
use super::watchdog::ProcessWatchdog;

/// Process group that is killed at most once.
#[derive(Default)]
pub(super) struct KillOnceGroup {
    pub(super) leader: Option<Pid>,
    pub(super) watchdog: Option<Arc<ProcessWatchdog>>,
    pub(super) mark: Option<StrayProcessGuard>,
}

impl KillOnceGroup {
    /// Kills the group if its leader has exited but is not reaped yet, so that the id of the group is still valid.
    ///
    /// `RunningNestedRun::wait` reaps the child only after the reactor has reported its end. If the reactor runs on this thread,
    /// the child has ended before this check, so the number cannot belong to another process. Otherwise the leader may
    /// end between this check and the reaping. Then the number is free for a moment, which does no harm because the
    /// kernel assigns numbers in sequence.
    pub(super) fn kill_if_leader_exited(&mut self) {
        if let Some(leader) = self.leader
            && has_exited(leader)
        {
            self.kill_without_leader();
        }
    }

    /// Returns the leader, or `None` after the group was killed.
    pub(super) fn unkilled_leader(&self) -> Option<Pid> {
        self.leader
    }

    /// Kills the group of a leader that has exited and has no descendants.
    fn kill_without_leader(&mut self) {
        if let Some(leader) = self.leader.take() {
            let _nobody_left = kill_process_group(leader, Signal::KILL);
            if let Some(watchdog) = self.watchdog.take() {
                watchdog.forget_group(leader);
            }
        }
    }

    /// Kills the group and all descendants of its leader.
    pub(super) fn kill_with_descendants(&mut self) {
        if let Some(leader) = self.leader.take() {
            // A shell whose command is killed would go on with the next one before its own turn comes.
            let _nobody_left = kill_process_group(leader, Signal::STOP);
            // First those that have left the group, while they can still be found below the leader.
            tree::kill_descendants(leader.as_raw_pid());
            // An error means that nobody is left.
            let _nobody_left = kill_process_group(leader, Signal::KILL);
            if let Some(watchdog) = self.watchdog.take() {
                watchdog.forget_group(leader);
            }
        }
    }
}

/// Returns whether the process has exited, without reaping it.
pub(super) fn has_exited(leader: Pid) -> bool {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    !matches!(waitid(WaitId::Pid(leader), look), Ok(None))
}

impl Drop for KillOnceGroup {
    fn drop(&mut self) {
        self.kill_with_descendants();
    }
}
