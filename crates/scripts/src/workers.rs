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

/// Stack of one worker thread in bytes. The system allocates only the used memory.
const WORKER_STACK: usize = 512 << 20;
/// Stack of the monitor thread in bytes.
const MONITOR_STACK: usize = 128 << 10;
/// Number of threads that start without the monitor.
const MAX_IMMEDIATE_THREADS: usize = 4;
/// Largest number of threads.
const MOST: usize = 512;
/// Largest number of threads that are lost because of memory.
const MAX_LOST_THREADS: usize = 16;
/// Time after which a thread without work ends.
const MAX_IDLE_TIME: Duration = Duration::from_secs(10);
/// Interval between two checks of the monitor.
const MONITOR_INTERVAL: Duration = Duration::from_millis(5);

/// Function that a worker thread runs.
type WorkerJob = Box<dyn FnOnce() + Send>;

thread_local! {
    /// Flag for a runtime with virtual time on this thread, which advances as soon as only timers are left.
    static TIME_IS_VIRTUAL: Cell<bool> = const { Cell::new(false) };
}

/// Stops the virtual time of runtimes on this thread while a worker runs a job of the runtime.
pub(super) fn freeze_virtual_time_during_jobs() {
    TIME_IS_VIRTUAL.set(true);
}

/// Waits for the result of a job. Returns `None` if the job has no result.
async fn wait_for_job_result<T: Send + 'static>(receiver: oneshot::Receiver<T>) -> Option<T> {
    if !TIME_IS_VIRTUAL.get() {
        return receiver.await.ok();
    }
    // The runtime knows nothing of our threads. While one of its own waits for them, its time stands.
    let waiting = tokio::task::spawn_blocking(move || receiver.blocking_recv().ok());
    waiting.await.ok().flatten()
}

/// Worker threads of this process.
static WORKERS: WorkerPool = WorkerPool::new();

/// Runs the function on a worker thread with a large stack, and blocks until its end. Starts another thread if all are busy.
/// Returns `None` if the function panicked or no thread was available.
pub(super) fn run_and_wait<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    WORKERS.run_and_wait(run)
}

/// Runs the function on a worker thread with a large stack. Returns `None` if the function panicked or no thread was available.
///
/// Dropping the future does not stop a function that has started.
pub(super) async fn run_job_async<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    WORKERS.run_job(run).await
}

/// Reason why a job with a memory limit has no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LostJobReason {
    /// It wanted too much memory at once, or too many others have.
    Memory,
    /// It panicked, or there was no thread.
    Broken,
}

/// Runs the function on a worker thread with a memory limit. The result of `prepare` does not count for the limit.
///
/// Dropping the future does not stop a function that has started.
///
/// # Errors
/// The function needs too much memory, panicked, or has no thread.
pub(super) async fn run_with_memory_limit<P: 'static, T: Send + 'static>(
    most_memory: usize,
    prepare: impl FnOnce() -> P + Send + 'static,
    run: impl FnOnce(P) -> T + Send + 'static,
) -> Result<T, LostJobReason> {
    WORKERS.run_with_memory_limit(most_memory, prepare, run).await
}

/// Priority of a job in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum JobPriority {
    /// Before all others, because a thread is blocked until the job ends.
    Now,
    /// After earlier jobs.
    InTurn,
}

/// Pool of worker threads with a large stack, and the queue of jobs.
struct WorkerPool {
    state: Mutex<WorkerPoolState>,
    work: Condvar,
}

/// Queue and thread counts of the pool.
struct WorkerPoolState {
    queue: VecDeque<(u64, WorkerJob)>,
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

/// Thread that the pool must start after a submitted job.
#[derive(Debug, PartialEq, Eq)]
enum ThreadToStart {
    Nothing,
    Worker,
    Watch,
}

impl WorkerPool {
    /// Creates a pool without threads.
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

    /// Locks the state, also after a panic of another holder.
    fn lock_state(&self) -> MutexGuard<'_, WorkerPoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs the function before all queued jobs, and blocks until its end.
    fn run_and_wait<T: Send + 'static>(&'static self, run: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let (sender, receiver) = mpsc::sync_channel(1);
        let job = move || {
            let _nobody_waits = sender.send(run_catching_panic(run));
        };
        self.submit_job(Box::new(job), JobPriority::Now);
        receiver.recv().ok().flatten()
    }

    /// Queues the function, and waits for its end.
    async fn run_job<T: Send + 'static>(&'static self, run: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let (sender, receiver) = oneshot::channel();
        let job = move || {
            let _nobody_waits = sender.send(run_catching_panic(run));
        };
        self.submit_job(Box::new(job), JobPriority::InTurn);
        wait_for_job_result(receiver).await.flatten()
    }

    /// Queues the function with a memory limit, and waits for its end.
    async fn run_with_memory_limit<P: 'static, T: Send + 'static>(
        &'static self,
        most_memory: usize,
        prepare: impl FnOnce() -> P + Send + 'static,
        run: impl FnOnce(P) -> T + Send + 'static,
    ) -> Result<T, LostJobReason> {
        if self.lock_state().lost >= MAX_LOST_THREADS {
            return Err(LostJobReason::Memory);
        }
        let (sender, receiver) = oneshot::channel();
        let job = move || {
            let sender = Rc::new(Cell::new(Some(sender)));
            let of_lost = Rc::clone(&sender);
            let handle_lost_job = move || {
                self.count_lost_thread();
                let _nobody_waits = of_lost.take().map(|sender| sender.send(Err(LostJobReason::Memory)));
            };
            let result = run_catching_panic(|| {
                let prepared = prepare();
                ensemble_memory::thread_limit::run_with_limit(most_memory, handle_lost_job, || run(prepared))
            });
            let result = result.ok_or(LostJobReason::Broken);
            let _nobody_waits = sender.take().map(|sender| sender.send(result));
        };
        self.submit_job(Box::new(job), JobPriority::InTurn);
        wait_for_job_result(receiver)
            .await
            .unwrap_or(Err(LostJobReason::Broken))
    }

    /// Counts this thread as lost, and starts another thread if jobs wait.
    fn count_lost_thread(&'static self) {
        let start = {
            let mut state = self.lock_state();
            state.lost += 1;
            state.threads -= 1;
            state.plan_replacement()
        };
        if start {
            self.spawn_counted_worker();
        }
    }

    /// Queues the job, and starts a worker or the monitor if necessary.
    fn submit_job(&'static self, job: WorkerJob, urgency: JobPriority) {
        let start = {
            let mut state = self.lock_state();
            state.queue_job(job, urgency);
            self.work.notify_one();
            state.plan_thread_start(urgency)
        };
        match start {
            ThreadToStart::Nothing => {}
            ThreadToStart::Worker => self.spawn_counted_worker(),
            ThreadToStart::Watch => self.spawn_monitor(),
        }
    }

    /// Spawns a worker that the state counts already. Drops all jobs if no thread exists.
    fn spawn_counted_worker(&'static self) {
        let thread = thread::Builder::new().name("script".into()).stack_size(WORKER_STACK);
        if thread.spawn(|| self.work_until_idle()).is_err() {
            let lost_jobs = self.lock_state().handle_spawn_failure();
            drop(lost_jobs);
        }
    }

    /// Runs jobs until no job has arrived for some time.
    fn work_until_idle(&self) {
        while let Some(job) = self.wait_for_job() {
            job();
        }
    }

    /// Waits for the next job. Returns `None`, and removes the thread from the count, after the maximum idle time.
    fn wait_for_job(&self) -> Option<WorkerJob> {
        let mut state = self.lock_state();
        loop {
            if let Some((_, job)) = state.queue.pop_front() {
                return Some(job);
            }
            state.idle += 1;
            let waited = self.work.wait_timeout(state, MAX_IDLE_TIME);
            let (awake, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            state = awake;
            state.idle -= 1;
            if timeout.timed_out() && state.queue.is_empty() {
                state.threads -= 1;
                return None;
            }
        }
    }

    /// Spawns the monitor that the state counts already. Without a monitor, the existing threads run all jobs.
    fn spawn_monitor(&'static self) {
        let thread = thread::Builder::new().name("scripts".into()).stack_size(MONITOR_STACK);
        if thread.spawn(|| self.monitor_queue()).is_err() {
            self.lock_state().watched = false;
        }
    }

    /// Starts more workers when jobs wait from one check to the next. Ends with an empty queue.
    fn monitor_queue(&'static self) {
        let mut last_seen = 0;
        loop {
            thread::sleep(MONITOR_INTERVAL);
            let more = {
                let mut state = self.lock_state();
                if state.queue.is_empty() {
                    state.watched = false;
                    return;
                }
                let more = state.add_missing_threads(last_seen);
                last_seen = state.last;
                more
            };
            (0..more).for_each(|_| self.spawn_counted_worker());
        }
    }
}

/// Runs the function. Returns `None` if it panics, so that the thread continues.
fn run_catching_panic<T>(run: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(run)).ok()
}

impl WorkerPoolState {
    /// Adds a job to the start or the end of the queue.
    fn queue_job(&mut self, job: WorkerJob, urgency: JobPriority) {
        self.last += 1;
        match urgency {
            JobPriority::Now => self.queue.push_front((self.last, job)),
            JobPriority::InTurn => self.queue.push_back((self.last, job)),
        }
    }

    /// Returns the thread to start for the new job, and counts the thread.
    fn plan_thread_start(&mut self, urgency: JobPriority) -> ThreadToStart {
        if self.queue.len() <= self.idle {
            return ThreadToStart::Nothing;
        }
        let max_threads = if urgency == JobPriority::Now {
            MOST
        } else {
            MAX_IMMEDIATE_THREADS
        };
        if self.threads < max_threads {
            self.threads += 1;
            return ThreadToStart::Worker;
        }
        if self.watched {
            return ThreadToStart::Nothing;
        }
        self.watched = true;
        ThreadToStart::Watch
    }

    /// Returns the number of threads to start for jobs up to number `seen` that still wait, and counts the threads.
    fn add_missing_threads(&mut self, seen: u64) -> usize {
        let late = self.queue.iter().filter(|(number, _)| *number <= seen).count();
        let more = late.min(self.threads.max(1)).min(MOST.saturating_sub(self.threads));
        self.threads += more;
        more
    }

    /// Returns whether another thread must be started for waiting jobs, and counts the thread.
    fn plan_replacement(&mut self) -> bool {
        let is_needed = !self.queue.is_empty() && self.threads < MAX_IMMEDIATE_THREADS;
        self.threads += usize::from(is_needed);
        is_needed
    }

    /// Removes an unstarted thread from the count. Returns all jobs, which are lost, if no thread is left.
    fn handle_spawn_failure(&mut self) -> VecDeque<(u64, WorkerJob)> {
        self.threads -= 1;
        match self.threads {
            0 => std::mem::take(&mut self.queue),
            _ => VecDeque::new(),
        }
    }
}
