//! The pace of the requests that all agents of the process make with one profile.
//!
//! The limits of the profile are kept. After a refusal for too many requests everybody waits, and then requests follow
//! each other at the pace at which the provider has accepted them; while it accepts them all, the pace grows again.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use ensemble_language::ensemble::RateLimit;

/// The window of the limits of a profile.
const MINUTE: Duration = Duration::from_secs(60);

/// The time before a refusal in which accepted requests are counted.
const MEASURED: Duration = Duration::from_secs(1);

/// The longest pause after a refusal, and the longest distance of two requests.
const LONGEST: Duration = Duration::from_secs(30);

/// A provider that has accepted nothing for so long is not waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// Without a refusal for so long, the pace grows.
const CALM: Duration = Duration::from_secs(5);

/// A distance of two requests that is none.
const NO_DISTANCE: Duration = Duration::from_millis(2);

/// The pace of one profile.
#[derive(Debug)]
pub(crate) struct ProviderPace {
    limits: RateLimit,
    permits: Option<Arc<Semaphore>>,
    /// Held by the request that starts next; the others wait in their order.
    gate: tokio::sync::Mutex<()>,
    state: Mutex<PaceState>,
}

#[derive(Debug, Default)]
struct PaceState {
    /// The requests of the last minute.
    starts: VecDeque<RequestStart>,
    request_count: u64,
    in_flight: u32,
    successes: u64,
    blocked_until: Option<Instant>,
    last_refusal: Option<Instant>,
    /// Since when the accepted requests are counted, and the refusals since.
    measuring_since: Option<(Instant, u32)>,
    /// The distance of two requests; zero until there is a refusal.
    distance: Duration,
    next: Option<Instant>,
    /// The refusals without a success between them.
    waves: u32,
    gives_up_at: Option<Instant>,
}

#[derive(Debug)]
struct RequestStart {
    number: u64,
    at: Instant,
    tokens: u64,
}

/// A request that may be made now; it counts as under way until this is dropped.
#[derive(Debug)]
pub(crate) struct AdmittedRequest<'p> {
    pace: &'p ProviderPace,
    number: u64,
    _permit: Option<OwnedSemaphorePermit>,
}

/// The provider has accepted nothing for too long.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PaceTimeout;

impl ProviderPace {
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

    /// Waits until a request of about this number of tokens may be made.
    pub(crate) async fn wait_for_admission(&self, tokens: u64) -> Result<AdmittedRequest<'_>, PaceTimeout> {
        let asked_at = Instant::now();
        let permit = match &self.permits {
            Some(permits) => Arc::clone(permits).acquire_owned().await.ok(),
            None => None,
        };
        let _turn = self.gate.lock().await;
        loop {
            let wait = {
                let mut state = self.lock_state();
                let now = Instant::now();
                if state.gives_up_at.is_some_and(|at| at <= now && asked_at < at) {
                    return Err(PaceTimeout);
                }
                match state.earliest_start(&self.limits, tokens, now) {
                    Some(at) if at > now => at,
                    _ => {
                        let number = state.start_request(tokens, now);
                        return Ok(AdmittedRequest {
                            pace: self,
                            number,
                            _permit: permit,
                        });
                    }
                }
            };
            tokio::time::sleep_until(wait).await;
        }
    }

    /// Returns the number of successes so far, for [`ProviderPace::is_alive`].
    pub(crate) fn success_count(&self) -> u64 {
        self.lock_state().successes
    }

    /// Has the provider accepted a request since there were so many successes, or may it be doing so now?
    pub(crate) fn is_alive(&self, since: u64) -> bool {
        let state = self.lock_state();
        let has_given_up = state.gives_up_at.is_some_and(|at| at <= Instant::now());
        !has_given_up && (state.successes > since || state.in_flight > 0)
    }

    /// For how long no request starts.
    pub(crate) fn remaining_pause(&self) -> Duration {
        let until = self.lock_state().blocked_until;
        until.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()))
    }

    /// The provider has refused a request for too many requests; `told`: the pause that it asks for.
    pub(crate) fn record_refusal(&self, told: Option<Duration>, usual: Duration) {
        let mut state = self.lock_state();
        let now = Instant::now();
        let is_new = state.blocked_until.is_none_or(|until| until <= now);
        if is_new {
            if state.distance.is_zero() {
                state.measuring_since = Some((now.checked_sub(MEASURED).unwrap_or(now), 0));
            } else {
                state.distance = (state.distance * 3 / 2).min(LONGEST);
            }
            let pause = told.unwrap_or_else(|| (usual * 2_u32.saturating_pow(state.waves)).min(LONGEST));
            state.blocked_until = Some(now + pause);
            state.waves = (state.waves + 1).min(16);
        } else if let Some(retry_after) = told {
            state.blocked_until = state.blocked_until.max(Some(now + retry_after));
        }
        if let Some((_, refusals)) = &mut state.measuring_since {
            *refusals += 1;
        }
        state.last_refusal = Some(now);
        let patience = PATIENCE.max(told.unwrap_or_default() * 2);
        state.gives_up_at = match state.gives_up_at {
            Some(at) if told.is_none() => Some(at),
            at => at.max(Some(now + patience)),
        };
    }

    fn lock_state(&self) -> MutexGuard<'_, PaceState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PaceState {
    /// Returns when a request may start. Returns `None` if it can start now.
    fn earliest_start(&mut self, limits: &RateLimit, tokens: u64, now: Instant) -> Option<Instant> {
        while self.starts.front().is_some_and(|start| start.at + MINUTE <= now) {
            self.starts.pop_front();
        }
        if self.blocked_until.is_some_and(|until| until > now) {
            return self.blocked_until;
        }
        self.measure_distance(now);
        let by_requests = limits.requests_per_minute.and_then(|limit| {
            let excess = (self.starts.len() as u64 + 1).saturating_sub(limit);
            self.find_free_time(|seen, _| seen >= excess)
        });
        let by_tokens = limits.tokens_per_minute.and_then(|limit| {
            let used: u64 = self.starts.iter().map(|start| start.tokens).sum();
            let excess = (used + tokens).saturating_sub(limit);
            self.find_free_time(|_, freed| freed >= excess)
        });
        [self.next, by_requests, by_tokens].into_iter().flatten().max()
    }

    /// Returns when enough of the oldest requests are a minute old. Returns `None` if no waiting is needed.
    fn find_free_time(&self, is_enough: impl Fn(u64, u64) -> bool) -> Option<Instant> {
        let (mut seen, mut freed) = (0, 0);
        let mut last = None;
        for start in &self.starts {
            if is_enough(seen, freed) {
                break;
            }
            (seen, freed) = (seen + 1, freed + start.tokens);
            last = Some(start.at + MINUTE);
        }
        last
    }

    /// The pace at which the provider has accepted requests before it refused one.
    fn measure_distance(&mut self, now: Instant) {
        let Some((from, refusals)) = self.measuring_since.take() else {
            return;
        };
        let start_count = self.starts.iter().filter(|start| start.at >= from).count();
        let start_count = u32::try_from(start_count).unwrap_or(u32::MAX);
        self.distance = MEASURED.mul_f64(1.1) / start_count.saturating_sub(refusals).max(1);
        self.next = Some(now);
    }

    fn start_request(&mut self, tokens: u64, now: Instant) -> u64 {
        self.request_count += 1;
        self.in_flight += 1;
        self.next = (!self.distance.is_zero()).then(|| now + self.distance);
        self.starts.push_back(RequestStart {
            number: self.request_count,
            at: now,
            tokens,
        });
        self.request_count
    }
}

impl AdmittedRequest<'_> {
    /// The provider has answered; `tokens`: those of request and reply.
    pub(crate) fn record_success(&self, tokens: Option<u64>) {
        let mut state = self.pace.lock_state();
        let now = Instant::now();
        state.successes += 1;
        state.waves = 0;
        state.gives_up_at = None;
        if state.last_refusal.is_none_or(|at| at + CALM <= now) {
            state.distance = state.distance * 49 / 50;
            if state.distance < NO_DISTANCE {
                state.distance = Duration::ZERO;
            }
        }
        let number = self.number;
        let start = state.starts.iter_mut().rev().find(|start| start.number == number);
        if let (Some(start), Some(tokens)) = (start, tokens) {
            start.tokens = tokens;
        }
    }
}

impl Drop for AdmittedRequest<'_> {
    fn drop(&mut self) {
        self.pace.lock_state().in_flight -= 1;
    }
}

#[cfg(test)]
mod tests;
