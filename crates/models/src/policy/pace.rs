//! The pace of the requests that all agents of the process make with one profile.
//!
//! The limits of the profile are kept, and so are the limits that the provider states. A refusal stops the request that was
//! refused, or all requests if the limit of the account is used up. The [slowdown](slowdown) depends on the share of refusals.
//!
//! Invariant: while a request waits for the pace, the clocks of its execution, turn and run stand. The wait for another
//! request under way (`concurrent`) counts, because that request is work.

mod known_limits;
mod slowdown;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ensemble_core::stopwatch::Stopwatch;
use ensemble_language::ensemble::RateLimit;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use self::known_limits::LatestReportedLimits;
pub(crate) use self::slowdown::PaceChange;
use self::slowdown::SlowdownControl;
use crate::policy::retry_reasons::MAX_PAUSE_WITHOUT_FALLBACK;
use crate::{ModelError, ReportedLimit};

/// The window of the limits of a profile.
const LIMIT_WINDOW: Duration = Duration::from_secs(60);

/// The longest pause after a refusal if the provider does not state one.
const MAX_UNSTATED_PAUSE: Duration = Duration::from_secs(30);

/// A provider that has accepted nothing for so long is not waited for.
const MAX_TIME_WITHOUT_SUCCESS: Duration = Duration::from_secs(60);

/// The number of refusals without a success between them after which the limit of the account is used up.
const MAX_CONSECUTIVE_REFUSALS: u32 = 5;

/// Pace of the requests of one profile, from its limits and the refusals of the provider.
#[derive(Debug)]
pub(crate) struct ProviderPace {
    limits: RateLimit,
    permits: Option<Arc<Semaphore>>,
    /// Held by the request that starts next; the others wait in their order.
    gate: tokio::sync::Mutex<()>,
    state: Mutex<PaceState>,
}

/// Recent requests and refusals of a profile.
#[derive(Debug, Default)]
struct PaceState {
    /// The requests of the last minute.
    starts: VecDeque<RequestStart>,
    request_count: u64,
    in_flight: u32,
    successes: u64,
    blocked_until: Option<Instant>,
    known_limits: LatestReportedLimits,
    slowdown: SlowdownControl,
    last_start: Option<Instant>,
    /// The refusals since the last success.
    refusals_in_a_row: u32,
    /// The pauses of all requests since the last success.
    waves: u32,
    /// The first refusal since the last success.
    refused_since: Option<Instant>,
    gives_up_at: Option<Instant>,
    /// The changes that were not reported.
    changes: Vec<PaceChange>,
}

/// Start of a request, with its estimated tokens.
#[derive(Debug)]
struct RequestStart {
    number: u64,
    at: Instant,
    tokens: u64,
}

/// Guard of a request that can be sent now. The request counts as in flight until the guard is dropped.
#[derive(Debug)]
pub(crate) struct AdmittedRequestGuard<'p> {
    pace: &'p ProviderPace,
    number: u64,
    at: Instant,
    _permit: Option<OwnedSemaphorePermit>,
}

/// Error of a request that waited too long, because the provider accepted no request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PaceTimeout;

impl ProviderPace {
    /// Creates the pace for these limits.
    pub(crate) fn new(limits: RateLimit) -> Self {
        let permits = limits
            .concurrent
            .map(|count| usize::try_from(count).unwrap_or(usize::MAX));
        Self {
            permits: permits.map(|count| Arc::new(Semaphore::new(count.min(Semaphore::MAX_PERMITS)))),
            limits,
            gate: tokio::sync::Mutex::default(),
            state: Mutex::default(),
        }
    }

    /// Waits until a request of about this number of tokens can start. Pauses the clock meanwhile.
    pub(crate) async fn wait_for_admission(
        &self,
        tokens: u64,
        clock: &Stopwatch,
    ) -> Result<AdmittedRequestGuard<'_>, PaceTimeout> {
        let asked_at = Instant::now();
        let permit = match &self.permits {
            Some(permits) => Arc::clone(permits).acquire_owned().await.ok(),
            None => None,
        };
        let _pause = clock.pause_with_outer_stopwatches();
        let _turn = self.gate.lock().await;
        loop {
            let wait = {
                let mut state = self.lock_state();
                let now = Instant::now();
                if state.gives_up_at.is_some_and(|at| at <= now && asked_at < at) {
                    return Err(PaceTimeout);
                }
                match state.find_delayed_start(&self.limits, tokens, now) {
                    Some(at) if at > now => at,
                    _ => {
                        let number = state.record_request_start(tokens, now);
                        return Ok(AdmittedRequestGuard {
                            pace: self,
                            number,
                            at: now,
                            _permit: permit,
                        });
                    }
                }
            };
            tokio::time::sleep_until(wait).await;
        }
    }

    /// Returns the number of successes so far, for [`ProviderPace::is_accepting_requests`].
    pub(crate) fn success_count(&self) -> u64 {
        self.lock_state().successes
    }

    /// Returns whether the provider has accepted a request since there were so many successes, or may be accepting one now.
    pub(crate) fn may_accept_since_success(&self, since: u64) -> bool {
        let state = self.lock_state();
        let has_given_up = state.gives_up_at.is_some_and(|at| at <= Instant::now());
        !has_given_up && (state.successes > since || state.in_flight > 0)
    }

    /// Returns the remaining pause because the limit of the account is used up.
    pub(crate) fn remaining_account_pause(&self) -> Duration {
        let until = self.lock_state().blocked_until;
        until.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()))
    }

    /// Returns the remaining pause because of the account or the limits that the provider reports.
    pub(crate) fn remaining_pause(&self) -> Duration {
        let now = Instant::now();
        let mut state = self.lock_state();
        let PaceState {
            known_limits, starts, ..
        } = &mut *state;
        let by_provider = known_limits.find_free_time(starts.iter(), 1, now);
        let until = state.blocked_until.max(by_provider);
        until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now))
    }

    /// Removes and returns the changes of the pace that were not reported yet.
    pub(crate) fn take_unreported_changes(&self) -> Vec<PaceChange> {
        std::mem::take(&mut self.lock_state().changes)
    }

    fn lock_state(&self) -> MutexGuard<'_, PaceState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PaceState {
    /// Returns the time at which a request can start. Returns `None` if it can start now.
    fn find_delayed_start(&mut self, limits: &RateLimit, tokens: u64, now: Instant) -> Option<Instant> {
        while self.starts.front().is_some_and(|start| start.at + LIMIT_WINDOW <= now) {
            self.starts.pop_front();
        }
        if self.blocked_until.is_some_and(|until| until > now) {
            return self.blocked_until;
        }
        let distance = self.slowdown.refresh_min_request_interval(now, &mut self.changes);
        let by_slowdown = self
            .last_start
            .filter(|_| !distance.is_zero())
            .map(|last| last + distance);
        let by_provider = self.known_limits.find_free_time(self.starts.iter(), tokens, now);
        let by_requests = limits.requests_per_minute.and_then(|limit| {
            let excess = (self.starts.len() as u64 + 1).saturating_sub(limit);
            self.find_window_free_time(|seen, _| seen >= excess)
        });
        let by_tokens = limits.tokens_per_minute.and_then(|limit| {
            let used: u64 = self.starts.iter().map(|start| start.tokens).sum();
            let excess = (used + tokens).saturating_sub(limit);
            self.find_window_free_time(|_, freed| freed >= excess)
        });
        [by_slowdown, by_provider, by_requests, by_tokens]
            .into_iter()
            .flatten()
            .max()
    }

    /// Returns the time at which enough of the oldest requests are a minute old. Returns `None` if no wait is needed.
    fn find_window_free_time(&self, is_enough: impl Fn(u64, u64) -> bool) -> Option<Instant> {
        let (mut seen, mut freed) = (0, 0);
        let mut last = None;
        for start in &self.starts {
            if is_enough(seen, freed) {
                break;
            }
            (seen, freed) = (seen + 1, freed + start.tokens);
            last = Some(start.at + LIMIT_WINDOW);
        }
        last
    }

    fn record_request_start(&mut self, tokens: u64, now: Instant) -> u64 {
        self.request_count += 1;
        self.in_flight += 1;
        self.last_start = Some(now);
        self.starts.push_back(RequestStart {
            number: self.request_count,
            at: now,
            tokens,
        });
        self.request_count
    }

    /// Stops all requests for this time. Without a stated pause, each further pause is twice as long.
    fn block_requests_with_backoff(&mut self, stated: Option<Duration>, usual: Duration, now: Instant) {
        let is_new = self.blocked_until.is_none_or(|until| until <= now);
        let pause = match stated {
            Some(pause) => pause,
            None if is_new => (usual * 2_u32.saturating_pow(self.waves)).min(MAX_UNSTATED_PAUSE),
            None => return,
        };
        self.waves = (self.waves + u32::from(is_new)).min(16);
        self.blocked_until = self.blocked_until.max(Some(now + pause));
    }
}

impl AdmittedRequestGuard<'_> {
    /// The provider has answered; `tokens`: those of request and reply.
    pub(crate) fn record_success(&self, tokens: Option<u64>, reported: &[ReportedLimit]) {
        let mut state = self.pace.lock_state();
        let now = Instant::now();
        let PaceState { slowdown, changes, .. } = &mut *state;
        slowdown.add_request_result(self.at, true, now, changes);
        state.known_limits.update_from_response(reported, self.number, now);
        state.successes += 1;
        state.refusals_in_a_row = 0;
        state.waves = 0;
        state.refused_since = None;
        state.gives_up_at = None;
        let number = self.number;
        let start = state.starts.iter_mut().rev().find(|start| start.number == number);
        if let (Some(start), Some(tokens)) = (start, tokens) {
            start.tokens = tokens;
        }
    }

    /// Records a refusal because of too many requests. `usual` is the pause if the provider states none.
    pub(crate) fn record_refusal(&self, error: &ModelError, usual: Duration) {
        let stated = error.retry_after;
        if stated.is_some_and(|pause| pause > MAX_PAUSE_WITHOUT_FALLBACK) {
            // No request waits so long, so it does not stop others.
            return;
        }
        let mut state = self.pace.lock_state();
        let now = Instant::now();
        let PaceState { slowdown, changes, .. } = &mut *state;
        slowdown.add_request_result(self.at, false, now, changes);
        state.refusals_in_a_row += 1;
        let is_used_up = error.limits.iter().any(|limit| limit.remaining == 0);
        if is_used_up || state.refusals_in_a_row >= MAX_CONSECUTIVE_REFUSALS {
            state.block_requests_with_backoff(stated, usual, now);
        }
        let patience = MAX_TIME_WITHOUT_SUCCESS.max(stated.unwrap_or_default() * 2);
        let since = *state.refused_since.get_or_insert(now);
        state.gives_up_at = state.gives_up_at.max(Some(since + patience));
    }
}

impl Drop for AdmittedRequestGuard<'_> {
    fn drop(&mut self) {
        self.pace.lock_state().in_flight -= 1;
    }
}

#[cfg(test)]
mod tests;
