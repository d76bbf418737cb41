//! Threads with a large stack, kept for reuse.
//!
//! The engine recurses with calls, expressions and nested values, so it needs a large stack. A few threads are started
//! as soon as there is work. More threads are started only if a job waits for two checks of the monitor thread: many
//! short scripts need few threads, and a long script delays the others only briefly. A thread without work for
//! [`KEEP`] ends and frees its stack.
//!
//! A job can have a limit of memory. A thread whose job wants more at once is lost with what it holds
//! (`ensemble_memory`), and at most [`LOST`] threads are: afterwards no job with a limit is begun.

#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::mpsc;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;

/// Stack of one thread, in bytes; memory is taken only as far as it is used.
const STACK: usize = 512 << 20;
/// The stack of the monitor thread.
const SMALL_STACK: usize = 128 << 10;
/// The number of threads that are started without the monitor.
const AT_ONCE: usize = 4;
/// The maximum number of threads.
const MOST: usize = 512;
/// The maximum number of threads that are lost because of memory.
const LOST: usize = 16;
/// How long a thread is kept without work.
const KEEP: Duration = Duration::from_secs(10);
/// The interval of the checks of the monitor.
const LOOK: Duration = Duration::from_millis(5);

type Job = Box<dyn FnOnce() + Send>;

thread_local! {
    /// Whether the runtime of this thread has a virtual time, which goes on whenever only timers are left to wait for.
    static TIME_IS_VIRTUAL: Cell<bool> = const { Cell::new(false) };
}

/// From now on, the virtual time of a runtime on this thread stands while a job of that runtime is performed.
pub(super) fn hold_virtual_time() {
    TIME_IS_VIRTUAL.set(true);
}

/// Waits for the result of a job; `None` if there is none.
async fn wait_for_result<T: Send + 'static>(receiver: oneshot::Receiver<T>) -> Option<T> {
    if !TIME_IS_VIRTUAL.get() {
        return receiver.await.ok();
    }
    // The runtime knows nothing of our threads. While one of its own waits for them, its time stands.
    let waiting = tokio::task::spawn_blocking(move || receiver.blocking_recv().ok());
    waiting.await.ok().flatten()
}

static WORKERS: ScriptWorkers = ScriptWorkers::new();

/// Runs it on a thread with a large stack and waits; `None` if it panicked or there was no thread to be had.
///
/// It does not wait for scripts that compute: if every thread is busy, another one is started.
pub(super) fn run_and_wait<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    WORKERS.run_and_wait(run)
}

/// Runs it on a thread with a large stack; `None` if it panicked or there was no thread to be had.
///
/// Dropping the future does not stop what has begun: `run` has to look for itself.
pub(super) async fn run_job<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    WORKERS.run_job(run).await
}

/// The reason why a job with a limit of memory has no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LostJobReason {
    /// It wanted too much memory at once, or too many others have.
    Memory,
    /// It panicked, or there was no thread.
    Broken,
}

/// Runs it on a thread with a large stack. What `prepare` returns does not count as memory of `run`.
///
/// Dropping the future does not stop what has begun: `run` has to look for itself.
pub(super) async fn run_with_memory_limit<P: 'static, T: Send + 'static>(
    most_memory: usize,
    prepare: impl FnOnce() -> P + Send + 'static,
    run: impl FnOnce(P) -> T + Send + 'static,
) -> Result<T, LostJobReason> {
    WORKERS.run_with_memory_limit(most_memory, prepare, run).await
}

/// The priority of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum JobUrgency {
    /// Before all others, because a thread is blocked until the job ends.
    Now,
    /// After earlier jobs.
    InTurn,
}

/// The threads and their queue.
struct ScriptWorkers {
    state: Mutex<WorkerPoolState>,
    work: Condvar,
}

struct WorkerPoolState {
    queue: VecDeque<(u64, Job)>,
    /// The number of the last job.
    last: u64,
    /// Threads that exist or are being started.
    threads: usize,
    /// The number of threads that wait for work.
    idle: usize,
    watched: bool,
    /// Threads that are lost because of memory.
    lost: usize,
}

/// The thread that a submission must start.
#[derive(Debug, PartialEq, Eq)]
enum ThreadStart {
    Nothing,
    Worker,
    Watch,
}

impl ScriptWorkers {
    const fn new() -> Self {
        Self {
            state: Mutex::new(WorkerPoolState {
                queue: VecDeque::new(),
                last: 0,
                threads: 0,
                idle: 0,
                watched: false,
                lost: 0,
            }),
            work: Condvar::new(),
        }
    }

    fn lock_state(&self) -> MutexGuard<'_, WorkerPoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run_and_wait<T: Send + 'static>(&'static self, run: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let (sender, receiver) = mpsc::sync_channel(1);
        let job = move || {
            let _nobody_waits = sender.send(catch_panic(run));
        };
        self.submit_job(Box::new(job), JobUrgency::Now);
        receiver.recv().ok().flatten()
    }

    async fn run_job<T: Send + 'static>(&'static self, run: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let (sender, receiver) = oneshot::channel();
        let job = move || {
            let _nobody_waits = sender.send(catch_panic(run));
        };
        self.submit_job(Box::new(job), JobUrgency::InTurn);
        wait_for_result(receiver).await.flatten()
    }

    async fn run_with_memory_limit<P: 'static, T: Send + 'static>(
        &'static self,
        most_memory: usize,
        prepare: impl FnOnce() -> P + Send + 'static,
        run: impl FnOnce(P) -> T + Send + 'static,
    ) -> Result<T, LostJobReason> {
        if self.lock_state().lost >= LOST {
            return Err(LostJobReason::Memory);
        }
        let (sender, receiver) = oneshot::channel();
        let job = move || {
            let sender = Rc::new(Cell::new(Some(sender)));
            let of_lost = Rc::clone(&sender);
            let handle_lost_job = move || {
                self.remove_thread();
                let _nobody_waits = of_lost.take().map(|sender| sender.send(Err(LostJobReason::Memory)));
            };
            let result = catch_panic(|| {
                let prepared = prepare();
                ensemble_memory::thread_limit::run_with_limit(most_memory, handle_lost_job, || run(prepared))
            });
            let result = result.ok_or(LostJobReason::Broken);
            let _nobody_waits = sender.take().map(|sender| sender.send(result));
        };
        self.submit_job(Box::new(job), JobUrgency::InTurn);
        wait_for_result(receiver).await.unwrap_or(Err(LostJobReason::Broken))
    }

    /// Removes this thread from the workers.
    fn remove_thread(&'static self) {
        let start = {
            let mut state = self.lock_state();
            state.lost += 1;
            state.threads -= 1;
            state.replace_lost()
        };
        if start {
            self.start_worker();
        }
    }

    fn submit_job(&'static self, job: Job, urgency: JobUrgency) {
        let start = {
            let mut state = self.lock_state();
            state.push_job(job, urgency);
            self.work.notify_one();
            state.plan_start(urgency)
        };
        match start {
            ThreadStart::Nothing => {}
            ThreadStart::Worker => self.start_worker(),
            ThreadStart::Watch => self.start_watch(),
        }
    }

    /// Starts a thread that is already counted.
    fn start_worker(&'static self) {
        let thread = thread::Builder::new().name("script".into()).stack_size(STACK);
        if thread.spawn(|| self.work_until_idle()).is_err() {
            let lost_jobs = self.lock_state().handle_missing_thread();
            drop(lost_jobs);
        }
    }

    /// Takes work until there has been none for a while.
    fn work_until_idle(&self) {
        while let Some(job) = self.next_job() {
            job();
        }
    }

    fn next_job(&self) -> Option<Job> {
        let mut state = self.lock_state();
        loop {
            if let Some((_, job)) = state.queue.pop_front() {
                return Some(job);
            }
            state.idle += 1;
            let waited = self.work.wait_timeout(state, KEEP);
            let (awake, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            state = awake;
            state.idle -= 1;
            if timeout.timed_out() && state.queue.is_empty() {
                state.threads -= 1;
                return None;
            }
        }
    }

    /// Starts the monitor, which is already counted. Without it the existing threads do all the work.
    fn start_watch(&'static self) {
        let thread = thread::Builder::new().name("scripts".into()).stack_size(SMALL_STACK);
        if thread.spawn(|| self.watch_queue()).is_err() {
            self.lock_state().watched = false;
        }
    }

    /// Starts more threads whenever work has waited from one check to the next.
    fn watch_queue(&'static self) {
        let mut last_seen = 0;
        loop {
            thread::sleep(LOOK);
            let more = {
                let mut state = self.lock_state();
                if state.queue.is_empty() {
                    state.watched = false;
                    return;
                }
                let more = state.count_missing_threads(last_seen);
                last_seen = state.last;
                more
            };
            (0..more).for_each(|_| self.start_worker());
        }
    }
}

/// A thread is not lost to a panic.
fn catch_panic<T>(run: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(run)).ok()
}

impl WorkerPoolState {
    fn push_job(&mut self, job: Job, urgency: JobUrgency) {
        self.last += 1;
        match urgency {
            JobUrgency::Now => self.queue.push_front((self.last, job)),
            JobUrgency::InTurn => self.queue.push_back((self.last, job)),
        }
    }

    /// Returns what the job that has just arrived needs, and counts it.
    fn plan_start(&mut self, urgency: JobUrgency) -> ThreadStart {
        if self.queue.len() <= self.idle {
            return ThreadStart::Nothing;
        }
        let max_threads = if urgency == JobUrgency::Now { MOST } else { AT_ONCE };
        if self.threads < max_threads {
            self.threads += 1;
            return ThreadStart::Worker;
        }
        if self.watched {
            return ThreadStart::Nothing;
        }
        self.watched = true;
        ThreadStart::Watch
    }

    /// Returns how many threads to start if a job up to number `seen` still waits, and counts them.
    fn count_missing_threads(&mut self, seen: u64) -> usize {
        let late = self.queue.iter().filter(|(number, _)| *number <= seen).count();
        let more = late.min(self.threads.max(1)).min(MOST.saturating_sub(self.threads));
        self.threads += more;
        more
    }

    /// Returns whether a thread must be started for the jobs that wait, counted as if it were there.
    fn replace_lost(&mut self) -> bool {
        let is_needed = !self.queue.is_empty() && self.threads < AT_ONCE;
        self.threads += usize::from(is_needed);
        is_needed
    }

    /// Handles a thread that could not be started; the jobs are lost if no thread is left.
    fn handle_missing_thread(&mut self) -> VecDeque<(u64, Job)> {
        self.threads -= 1;
        match self.threads {
            0 => std::mem::take(&mut self.queue),
            _ => VecDeque::new(),
        }
    }
}
