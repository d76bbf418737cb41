//! Stopwatches that are paused while a person is asked.
//!
//! The clocks of a run (`timeout_seconds`, `turn_timeout_seconds`, the time-outs of executions and tools) measure the
//! work of the program. While a person is asked, the stopwatches of the question are paused.
//!
//! Invariant: a question makes the clocks around it stand: those of its run, of its turn, and of the runs around it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// Measurement of time without pauses. Clones measure the same time.
#[derive(Debug, Clone)]
pub struct Stopwatch(Arc<StopwatchInner>);

/// Shared data of a stopwatch.
#[derive(Debug)]
struct StopwatchInner {
    /// The stopwatch that contains this one. It is paused whenever this one is paused.
    outer: Option<Stopwatch>,
    state: Mutex<StopwatchState>,
    /// Notifies about the start and the end of a pause.
    pause_changed: Notify,
}

/// Start, open questions and paused time of a stopwatch.
#[derive(Debug)]
struct StopwatchState {
    started_at: Instant,
    /// The number of open questions.
    open: usize,
    stands_since: Option<Instant>,
    paused: Duration,
}

/// Guard that keeps a stopwatch and the stopwatches around it paused until the guard is dropped.
#[derive(Debug)]
#[must_use]
pub struct PauseGuard {
    paused: Option<Stopwatch>,
    /// The first stopwatch around the paused one that is not paused.
    until: Option<Stopwatch>,
}

/// Error of a wait that reached its time limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeoutError;

impl Default for Stopwatch {
    fn default() -> Self {
        Self::new(None)
    }
}

impl Stopwatch {
    /// Creates a running stopwatch inside the outer stopwatch.
    fn new(outer: Option<Self>) -> Self {
        Self(Arc::new(StopwatchInner {
            outer,
            state: Mutex::new(StopwatchState {
                started_at: Instant::now(),
                open: 0,
                stands_since: None,
                paused: Duration::ZERO,
            }),
            pause_changed: Notify::new(),
        }))
    }

    /// Creates a stopwatch inside this one. A pause of the new stopwatch also pauses this one.
    #[must_use]
    pub fn nested_stopwatch(&self) -> Self {
        Self::new(Some(self.clone()))
    }

    /// Pauses this stopwatch and those that contain it until the result is dropped.
    pub fn pause_with_outer_stopwatches(&self) -> PauseGuard {
        self.begin_pause(None);
        PauseGuard {
            paused: Some(self.clone()),
            until: None,
        }
    }

    /// Pauses the stopwatches that contain this one until the result is dropped.
    pub fn pause_outer_stopwatches(&self) -> PauseGuard {
        self.pause_outer(None)
    }

    /// Pauses the stopwatches that contain this one and are inside of `outer` until the result is dropped. Pauses nothing if
    /// `outer` does not contain this one.
    pub fn pause_parents_inside(&self, outer: &Self) -> PauseGuard {
        match std::iter::successors(Some(self), |inner| inner.0.outer.as_ref()).any(|one| one.is_same(outer)) {
            true => self.pause_outer(Some(outer.clone())),
            false => PauseGuard {
                paused: None,
                until: None,
            },
        }
    }

    fn pause_outer(&self, until: Option<Self>) -> PauseGuard {
        let paused = self.0.outer.clone();
        if let Some(outer) = &paused {
            outer.begin_pause(until.as_ref());
        }
        PauseGuard { paused, until }
    }

    fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns the measured time since the start of the stopwatch.
    pub fn elapsed_time(&self) -> Duration {
        self.lock().elapsed_time(Instant::now())
    }

    /// Returns the time since the start of the stopwatch, including pauses.
    pub fn elapsed_with_pauses(&self) -> Duration {
        self.lock().started_at.elapsed()
    }

    /// Waits until the measured time has reached `limit`. Waits forever without a limit.
    pub async fn wait_for_elapsed_time(&self, limit: Option<Duration>) {
        let Some(limit) = limit else {
            return std::future::pending().await;
        };
        loop {
            let changed = self.0.pause_changed.notified();
            tokio::pin!(changed);
            // The registration comes before the state is read, so no change is missed.
            changed.as_mut().enable();
            let remaining_time = {
                let state = self.lock();
                let remaining_time = limit.saturating_sub(state.elapsed_time(Instant::now()));
                state.stands_since.is_none().then_some(remaining_time)
            };
            match remaining_time {
                Some(Duration::ZERO) => return,
                Some(remaining_time) => tokio::select! {
                    () = tokio::time::sleep(remaining_time) => {}
                    () = changed => {}
                },
                None => changed.await,
            }
        }
    }

    /// Runs the future until the measured time has reached `limit`.
    ///
    /// # Errors
    /// The time limit was reached first.
    pub async fn run_with_timeout<T>(
        &self,
        limit: Option<Duration>,
        future: impl Future<Output = T>,
    ) -> Result<T, TimeoutError> {
        tokio::pin!(future);
        // Many futures are ready at once, and then no timer is needed.
        if let Poll::Ready(result) = futures_util::poll!(future.as_mut()) {
            return Ok(result);
        }
        tokio::select! {
            biased;
            result = future => Ok(result),
            () = self.wait_for_elapsed_time(limit) => Err(TimeoutError),
        }
    }

    /// Pauses this stopwatch and those that contain it, up to but without `until`.
    fn begin_pause(&self, until: Option<&Self>) {
        if until.is_some_and(|until| self.is_same(until)) {
            return;
        }
        let mut state = self.lock();
        state.open += 1;
        if state.open == 1 {
            state.stands_since = Some(Instant::now());
        }
        drop(state);
        self.0.pause_changed.notify_waiters();
        if let Some(outer) = &self.0.outer {
            outer.begin_pause(until);
        }
    }

    fn end_pause(&self, until: Option<&Self>) {
        if until.is_some_and(|until| self.is_same(until)) {
            return;
        }
        let mut state = self.lock();
        state.open -= 1;
        if state.open == 0
            && let Some(since) = state.stands_since.take()
        {
            state.paused += since.elapsed();
        }
        drop(state);
        self.0.pause_changed.notify_waiters();
        if let Some(outer) = &self.0.outer {
            outer.end_pause(until);
        }
    }

    /// Locks the state, also after a panic of another holder.
    fn lock(&self) -> MutexGuard<'_, StopwatchState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StopwatchState {
    /// Returns the time until `now` without pauses.
    fn elapsed_time(&self, now: Instant) -> Duration {
        let until = self.stands_since.unwrap_or(now);
        until.duration_since(self.started_at).saturating_sub(self.paused)
    }
}

impl Drop for PauseGuard {
    fn drop(&mut self) {
        if let Some(stopwatch) = &self.paused {
            stopwatch.end_pause(self.until.as_ref());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn time_counts_unless_a_question_is_open() {
        let watch = Stopwatch::default();
        tokio::time::sleep(SECOND).await;
        let standing = watch.pause_with_outer_stopwatches();
        let second_question = watch.pause_with_outer_stopwatches();
        tokio::time::sleep(10 * SECOND).await;
        drop(standing);
        tokio::time::sleep(10 * SECOND).await;
        assert_eq!(watch.elapsed_time(), SECOND);
        drop(second_question);
        tokio::time::sleep(SECOND).await;
        assert_eq!(watch.elapsed_time(), 2 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_inside_stops_what_is_around_it() {
        let run = Stopwatch::default();
        let (asking, beside) = (run.nested_stopwatch(), run.nested_stopwatch());
        let standing = asking.pause_with_outer_stopwatches();
        tokio::time::sleep(5 * SECOND).await;
        drop(standing);
        assert_eq!(
            [run.elapsed_time(), asking.elapsed_time(), beside.elapsed_time()],
            [Duration::ZERO, Duration::ZERO, 5 * SECOND]
        );
        let standing = asking.pause_outer_stopwatches();
        tokio::time::sleep(5 * SECOND).await;
        drop(standing);
        assert_eq!(
            [run.elapsed_time(), asking.elapsed_time(), beside.elapsed_time()],
            [Duration::ZERO, 5 * SECOND, 10 * SECOND]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_inside_of_a_stopwatch_does_not_stop_it() {
        let run = Stopwatch::default();
        let part = run.nested_stopwatch();
        let call = part.nested_stopwatch();
        let standing = call.pause_parents_inside(&run);
        tokio::time::sleep(5 * SECOND).await;
        drop(standing);
        let foreign = call.pause_parents_inside(&Stopwatch::default());
        tokio::time::sleep(SECOND).await;
        drop(foreign);
        assert_eq!(
            [run.elapsed_time(), part.elapsed_time(), call.elapsed_time()],
            [6 * SECOND, SECOND, 6 * SECOND]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_limit_is_reached_by_time_that_counts() {
        let watch = Stopwatch::default();
        let begun = Instant::now();
        let limit = watch.clone();
        let reached = tokio::spawn(async move { limit.wait_for_elapsed_time(Some(3 * SECOND)).await });
        tokio::time::sleep(2 * SECOND).await;
        let standing = watch.pause_with_outer_stopwatches();
        tokio::time::sleep(100 * SECOND).await;
        assert!(!reached.is_finished());
        drop(standing);
        reached.await.expect("the task ends");
        assert_eq!(begun.elapsed(), 103 * SECOND);
        assert_eq!(
            watch.run_with_timeout(Some(SECOND), std::future::pending::<()>()).await,
            Err(TimeoutError)
        );
        assert_eq!(watch.run_with_timeout(None, std::future::ready(1)).await, Ok(1));
    }
}
