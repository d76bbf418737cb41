//! The last moment of a process group: SIGTERM comes before SIGKILL.
//!
//! A group is ended when the future of its execution is dropped, which must not wait. So a thread of its own waits for the
//! group. Only groups that a watchdog knows get this time: if this process ends meanwhile, the watchdog kills them.

#![expect(clippy::disallowed_methods, reason = "the time of a group is measured")]

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process_group};
use tokio::process::Child;

use super::members::{KillOnceGroup, has_exited};

/// Time between SIGTERM and SIGKILL.
const TERMINATION_GRACE: Duration = Duration::from_millis(500);

/// The pause between two looks whether a group has ended.
const EXIT_CHECK_INTERVAL: Duration = Duration::from_millis(2);

/// Process group that was sent SIGTERM. Its fields are dropped in this order.
pub(super) struct TerminatingGroup {
    pub(super) members: KillOnceGroup,
    pub(super) child: Child,
    /// What must be there until it has ended: its pipes, its folder.
    pub(super) held_resources: Box<dyn Send + Sync>,
    /// The agent that runs it.
    pub(super) agent: String,
}

/// Groups that a background thread kills after the grace time.
struct TerminationQueue {
    groups: Vec<(TerminatingGroup, Instant)>,
    /// The agents of the groups that the thread looks at, and of those in `groups`.
    agents: Vec<String>,
    has_thread: bool,
}

static TERMINATION_QUEUE: Mutex<TerminationQueue> = Mutex::new(TerminationQueue {
    groups: Vec::new(),
    agents: Vec::new(),
    has_thread: false,
});

static GROUP_ADDED: Condvar = Condvar::new();

/// Locks the queue, also after a panic in another thread.
fn lock_queue() -> MutexGuard<'static, TerminationQueue> {
    TERMINATION_QUEUE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends SIGTERM to the group, and queues it for SIGKILL after the grace time. Without a background thread, kills it at once.
pub(super) fn terminate_and_queue_kill(ending: TerminatingGroup) {
    let Some(leader) = ending.members.unkilled_leader() else {
        return;
    };
    // An error means that nobody is left.
    let _nobody_left = kill_process_group(leader, Signal::TERM);
    #[cfg(target_os = "linux")]
    for pid in super::tree::list_descendants(leader.as_raw_pid(), usize::MAX) {
        super::tree::send_signal(pid, Signal::TERM);
    }
    let mut queue = lock_queue();
    if !queue.has_thread {
        let thread = std::thread::Builder::new()
            .name("ending".to_owned())
            .spawn(run_termination_thread);
        queue.has_thread = thread.is_ok();
    }
    if queue.has_thread {
        queue.agents.push(ending.agent.clone());
        queue.groups.push((ending, Instant::now() + TERMINATION_GRACE));
        GROUP_ADDED.notify_one();
    }
}

/// Kills each group when its leader has exited or its grace time is over. Runs as thread until the queue is empty.
fn run_termination_thread() {
    loop {
        let over: Vec<TerminatingGroup> = {
            let mut queue = lock_queue();
            while queue.groups.is_empty() {
                queue = GROUP_ADDED.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
            let now = Instant::now();
            let is_over = |(ending, until): &mut (TerminatingGroup, Instant)| {
                *until <= now || ending.members.unkilled_leader().is_none_or(has_exited)
            };
            queue.groups.extract_if(.., is_over).map(|(ending, _)| ending).collect()
        };
        for ending in over {
            let agent = ending.agent.clone();
            kill_group_and_wait(ending);
            let mut queue = lock_queue();
            if let Some(at) = queue.agents.iter().position(|known| *known == agent) {
                queue.agents.swap_remove(at);
            }
        }
        std::thread::sleep(EXIT_CHECK_INTERVAL);
    }
}

/// Kills the group and waits until its leader has exited.
fn kill_group_and_wait(ending: TerminatingGroup) {
    let TerminatingGroup {
        mut members,
        mut child,
        held_resources: held,
        ..
    } = ending;
    members.kill_with_descendants();
    // It was sent SIGKILL, or has ended.
    while let Ok(None) = child.try_wait() {
        std::thread::sleep(EXIT_CHECK_INTERVAL);
    }
    drop(members);
    drop(held);
}

/// Waits until no group of the agent is terminating. `None` waits for all agents.
pub(super) async fn wait_for_terminations(agent: Option<&str>) {
    let is_ending = || {
        let queue = lock_queue();
        match agent {
            Some(agent) => queue.agents.iter().any(|known| known == agent),
            None => !queue.agents.is_empty(),
        }
    };
    while is_ending() {
        tokio::time::sleep(EXIT_CHECK_INTERVAL).await;
    }
}
