//! Parallel work on all cores, with results in the order of the work. Memory contains a few results at a time.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::mpsc;
use std::sync::{Condvar, Mutex, PoisonError};

/// Maximum number of results between the oldest missing result and the newest work.
const MAX_PENDING_RESULTS: usize = 256;

/// Progress of parallel work: the number of the next task, and the number of delivered results.
#[derive(Default)]
struct WorkProgress {
    next: usize,
    done: usize,
}

/// Runs `work` for 0 up to `count` on all cores. Calls `take` with the results in order, on this thread.
///
/// Each thread has a separate state, which `state` creates.
pub(crate) fn run_parallel_in_order<S, T: Send>(
    count: usize,
    state: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, usize) -> T + Sync,
    mut take: impl FnMut(T),
) {
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    if cores.min(count) <= 1 {
        let mut state = state();
        (0..count).for_each(|at| take(work(&mut state, at)));
        return;
    }
    let progress = Mutex::new(WorkProgress::default());
    let moved = Condvar::new();
    let claim = || {
        let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
        while progress.next < count && progress.next >= progress.done + MAX_PENDING_RESULTS {
            progress = moved.wait(progress).unwrap_or_else(PoisonError::into_inner);
        }
        let at = progress.next;
        progress.next += 1;
        (at < count).then_some(at)
    };
    std::thread::scope(|scope| {
        let (sender, results) = mpsc::channel();
        for _ in 0..cores.min(count) {
            let sender = sender.clone();
            scope.spawn(|| {
                let sender = sender;
                let _stop = StopOnPanicGuard {
                    progress: &progress,
                    moved: &moved,
                    count,
                };
                let mut state = state();
                while let Some(at) = claim() {
                    // If `take` has panicked, nobody receives the results.
                    let _ = sender.send((at, work(&mut state, at)));
                }
            });
        }
        drop(sender);
        let mut waiting = BTreeMap::new();
        let mut next_index = 0;
        for (at, result) in results {
            waiting.insert(at, result);
            while let Some(result) = waiting.remove(&next_index) {
                take(result);
                next_index += 1;
            }
            progress.lock().unwrap_or_else(PoisonError::into_inner).done = next_index;
            moved.notify_all();
        }
    });
}

/// Drop guard that stops the other workers after a panic, so that the workers do not wait for a missing result.
struct StopOnPanicGuard<'p> {
    progress: &'p Mutex<WorkProgress>,
    moved: &'p Condvar,
    count: usize,
}

impl Drop for StopOnPanicGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.progress.lock().unwrap_or_else(PoisonError::into_inner).next = self.count;
            self.moved.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::run_parallel_in_order;

    #[test]
    fn results_come_in_order_and_once() {
        for count in [0, 1, 2, 1000] {
            let mut seen = Vec::new();
            let work = |made: &mut usize, at: usize| {
                *made += 1;
                // Some results take longer than others.
                (0..(at % 7) * 1000).for_each(|step| assert!(std::hint::black_box(step) < 6000));
                at
            };
            run_parallel_in_order(count, || 0, work, |at| seen.push(at));
            assert_eq!(seen, (0..count).collect::<Vec<_>>());
        }
    }
}
