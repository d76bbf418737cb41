//! The last moment of a process group: SIGTERM comes before SIGKILL.
//!
//! A group is ended when the future of its execution is dropped, which must not wait. So a thread of its own waits for the
//! group. Only groups that a watchdog knows get this time: if this process ends meanwhile, the watchdog kills them.

#![expect(clippy::disallowed_methods, reason = "the time of a group is measured")]

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process_group};
use tokio::process::Child;

use super::members::{GroupMembers, has_ended};

/// The time between the two signals.
const GRACE: Duration = Duration::from_millis(500);

/// The pause between two looks whether a group has ended.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// A group that was told to end. Its fields are dropped in this order.
pub(super) struct Ending {
    pub(super) members: GroupMembers,
    pub(super) child: Child,
    /// What must be there until it has ended: its pipes, its folder.
    pub(super) held: Box<dyn Send + Sync>,
    /// The agent that runs it.
    pub(super) agent: String,
}

struct Queue {
    groups: Vec<(Ending, Instant)>,
    /// The agents of the groups that the thread looks at, and of those in `groups`.
    agents: Vec<String>,
    has_thread: bool,
}

static QUEUE: Mutex<Queue> = Mutex::new(Queue {
    groups: Vec::new(),
    agents: Vec::new(),
    has_thread: false,
});

static ADDED: Condvar = Condvar::new();

fn queue() -> MutexGuard<'static, Queue> {
    QUEUE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tells the group to end, and kills it after a moment. Without a thread that waits it is killed at once.
pub(super) fn end(ending: Ending) {
    let Some(leader) = ending.members.leader() else { return };
    // An error means that nobody is left.
    let _nobody_left = kill_process_group(leader, Signal::TERM);
    #[cfg(target_os = "linux")]
    for pid in super::tree::descendants(leader.as_raw_pid(), usize::MAX) {
        super::tree::send(pid, Signal::TERM);
    }
    let mut queue = queue();
    if !queue.has_thread {
        let thread = std::thread::Builder::new().name("ending".to_owned()).spawn(attend);
        queue.has_thread = thread.is_ok();
    }
    if queue.has_thread {
        queue.agents.push(ending.agent.clone());
        queue.groups.push((ending, Instant::now() + GRACE));
        ADDED.notify_one();
    }
}

/// Ends each group when its leader has ended or its time is over.
fn attend() {
    loop {
        let over: Vec<Ending> = {
            let mut queue = queue();
            while queue.groups.is_empty() {
                queue = ADDED.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
            let now = Instant::now();
            let is_over = |(ending, until): &mut (Ending, Instant)| {
                *until <= now || ending.members.leader().is_none_or(has_ended)
            };
            queue.groups.extract_if(.., is_over).map(|(ending, _)| ending).collect()
        };
        for ending in over {
            let agent = ending.agent.clone();
            finish(ending);
            let mut queue = queue();
            if let Some(at) = queue.agents.iter().position(|known| *known == agent) {
                queue.agents.swap_remove(at);
            }
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

fn finish(ending: Ending) {
    let Ending {
        mut members,
        mut child,
        held,
        ..
    } = ending;
    members.kill();
    // It was sent SIGKILL, or has ended.
    while let Ok(None) = child.try_wait() {
        std::thread::sleep(LOOK_EVERY);
    }
    drop(members);
    drop(held);
}

/// Waits until no group of the agent is ending; `None`: no group at all.
pub(super) async fn settled(agent: Option<&str>) {
    let is_ending = || {
        let queue = queue();
        match agent {
            Some(agent) => queue.agents.iter().any(|known| known == agent),
            None => !queue.agents.is_empty(),
        }
    };
    while is_ending() {
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
