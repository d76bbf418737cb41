//! The slowdown of a profile's requests while the share of refusals says that they are too fast.
//!
//! A single refusal changes nothing. If half of the latest requests were refused, twice in a row, the requests follow each other at the
//! pace at which the provider has accepted them. While at most a quarter is refused, the pace grows, and after a minute the
//! slowdown ends. A slowdown that does not lower the share of refusals ends too: such refusals do not depend on the pace.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// Number of requests in one judged window.
const SLOWDOWN_WINDOW_REQUESTS: usize = 20;

/// Refusals in a window that start a slowdown if two consecutive windows have as many.
const MIN_REFUSALS_FOR_SLOWDOWN: usize = 10;

/// Maximum number of refusals in a window while the pace grows.
const MAX_CALM_REFUSALS: usize = 5;

/// Time without too many refusals after which a slowdown ends.
const CALM_TIME_BEFORE_END: Duration = Duration::from_secs(60);

/// The time in which the pace doubles while few requests are refused.
const PACE_DOUBLING_TIME: Duration = Duration::from_secs(50);

/// The smallest number of requests a minute to which a slowdown leads.
const MIN_REQUESTS_PER_MINUTE: f64 = 10.0;

/// The window in which accepted requests are counted.
const MINUTE: Duration = Duration::from_secs(60);

/// The shortest time from which a rate is computed.
const MIN_MEASURED_TIME: Duration = Duration::from_secs(1);

/// Minimum number of accepted requests that makes the share of refusals in a window reliable.
const MIN_ACCEPTED_REQUESTS: usize = 6;

/// The number of reliable windows without an improvement after which a slowdown is useless.
const MAX_USELESS_WINDOWS: u32 = 2;

/// Time after a useless slowdown in which no other one starts.
const SLOWDOWN_FREE_TIME: Duration = Duration::from_secs(300);

/// Start or end of a slowdown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PaceChange {
    /// A slowdown has begun.
    Slowed {
        /// The new pace, in requests a minute.
        requests_per_minute: u64,
        /// The number of refused requests among the judged ones.
        refused: usize,
        /// The number of judged requests.
        judged: usize,
    },
    /// A slowdown has ended after this time.
    Recovered(Duration),
    /// A slowdown has ended after this time, because the share of refusals did not fall.
    Useless(Duration),
}

/// Control of slowdowns of one profile, from the results of its requests.
#[derive(Debug, Default)]
pub(super) struct SlowdownControl {
    /// The results of the latest requests, at most [`JUDGED_REQUESTS`].
    results: VecDeque<PacedRequestResult>,
    /// The times at which requests of the last minute were accepted.
    accepted: VecDeque<Instant>,
    /// The first request of the measured time.
    measured_since: Option<Instant>,
    current: Option<CurrentSlowdown>,
    none_before: Option<Instant>,
    /// The window before the present one had too many refusals.
    had_many_refusals: bool,
}

/// Result of a request: accepted or refused.
#[derive(Debug, Clone, Copy)]
struct PacedRequestResult {
    ended_at: Instant,
    is_accepted: bool,
}

/// Active slowdown with its rate.
#[derive(Debug)]
struct CurrentSlowdown {
    began_at: Instant,
    /// Requests a minute at the time `calm_since`.
    rate: f64,
    calm_since: Instant,
    /// The refusals among the requests that were judged before the slowdown.
    refused_before: usize,
    /// The windows in which the share of refusals was as large as before.
    useless_windows: u32,
    /// The requests that started earlier are not judged.
    judged_since: Instant,
}

impl SlowdownControl {
    /// Returns the minimum interval between two requests, or zero without a slowdown. Ends the slowdown after a minute of calm.
    pub(super) fn refresh_min_request_interval(&mut self, now: Instant, changes: &mut Vec<PaceChange>) -> Duration {
        let Some(current) = &self.current else {
            return Duration::ZERO;
        };
        let calm = now.saturating_duration_since(current.calm_since);
        if calm >= CALM_TIME_BEFORE_END {
            changes.push(PaceChange::Recovered(now - current.began_at));
            self.end_slowdown(now);
            return Duration::ZERO;
        }
        let rate = current.rate * (1.0 + calm.as_secs_f64() / PACE_DOUBLING_TIME.as_secs_f64());
        Duration::from_secs_f64(60.0 / rate)
    }

    /// Adds the result of a request that started at this time. Starts, corrects or ends a slowdown.
    pub(super) fn add_request_result(
        &mut self,
        started_at: Instant,
        is_accepted: bool,
        now: Instant,
        changes: &mut Vec<PaceChange>,
    ) {
        if is_accepted {
            self.accepted.push_back(now);
        }
        while self.accepted.front().is_some_and(|at| *at + MINUTE <= now) {
            self.accepted.pop_front();
        }
        self.measured_since.get_or_insert(started_at);
        if self
            .current
            .as_ref()
            .is_some_and(|current| started_at < current.judged_since)
        {
            return;
        }
        if self.results.len() == SLOWDOWN_WINDOW_REQUESTS {
            self.results.pop_front();
        }
        self.results.push_back(PacedRequestResult {
            ended_at: now,
            is_accepted,
        });
        if self.results.len() < SLOWDOWN_WINDOW_REQUESTS {
            return;
        }
        match self.current {
            Some(_) => self.correct_or_end_slowdown(now, changes),
            None => self.begin_slowdown_if_needed(now, changes),
        }
    }

    /// Counts the refused requests in the window.
    fn count_refusals_in_window(&self) -> usize {
        self.results.iter().filter(|result| !result.is_accepted).count()
    }

    /// Starts a slowdown if two consecutive windows have too many refusals.
    fn begin_slowdown_if_needed(&mut self, now: Instant, changes: &mut Vec<PaceChange>) {
        let refused = self.count_refusals_in_window();
        // Random refusals seldom fill two windows.
        if refused < MIN_REFUSALS_FOR_SLOWDOWN {
            self.had_many_refusals = false;
            return;
        }
        if !self.had_many_refusals {
            self.had_many_refusals = true;
            self.results.clear();
            return;
        }
        if self.none_before.is_some_and(|until| now < until) {
            return;
        }
        let since = self
            .measured_since
            .unwrap_or(now)
            .max(now.checked_sub(MINUTE).unwrap_or(now));
        let rate = accepted_per_minute(self.accepted.len(), now.saturating_duration_since(since));
        self.current = Some(CurrentSlowdown {
            began_at: now,
            rate,
            calm_since: now,
            refused_before: refused,
            useless_windows: 0,
            judged_since: now,
        });
        self.results.clear();
        changes.push(PaceChange::Slowed {
            requests_per_minute: round_rate(rate),
            refused,
            judged: SLOWDOWN_WINDOW_REQUESTS,
        });
    }

    /// Corrects the pace if too many requests are still refused, or ends the slowdown if it is useless.
    fn correct_or_end_slowdown(&mut self, now: Instant, changes: &mut Vec<PaceChange>) {
        let refused = self.count_refusals_in_window();
        let Some(current) = self.current.as_mut().filter(|_| refused > MAX_CALM_REFUSALS) else {
            return;
        };
        let accepted = SLOWDOWN_WINDOW_REQUESTS - refused;
        let is_improved = refused * 4 < current.refused_before * 3;
        if !is_improved && accepted >= MIN_ACCEPTED_REQUESTS && current.rate > MIN_REQUESTS_PER_MINUTE {
            current.useless_windows += 1;
        }
        if current.useless_windows >= MAX_USELESS_WINDOWS {
            changes.push(PaceChange::Useless(now - current.began_at));
            self.none_before = Some(now + SLOWDOWN_FREE_TIME);
            self.end_slowdown(now);
            return;
        }
        let first = self.results.front().map_or(now, |result| result.ended_at);
        let measured = accepted_per_minute(accepted, now.saturating_duration_since(first));
        current.rate = measured.min(current.rate);
        current.calm_since = now;
        current.judged_since = now;
        self.results.clear();
    }

    /// Ends the slowdown and discards the measurements.
    fn end_slowdown(&mut self, now: Instant) {
        self.current = None;
        self.had_many_refusals = false;
        self.results.clear();
        self.accepted.clear();
        self.measured_since = Some(now);
    }
}

/// Returns the requests per minute at which this number of requests was accepted in this time.
fn accepted_per_minute(accepted: usize, time: Duration) -> f64 {
    let accepted = u32::try_from(accepted).unwrap_or(u32::MAX);
    let time = time.max(MIN_MEASURED_TIME).min(MINUTE);
    (f64::from(accepted) * 60.0 / time.as_secs_f64()).max(MIN_REQUESTS_PER_MINUTE)
}

/// Rounds the rate to a whole number.
fn round_rate(rate: f64) -> u64 {
    rate.round() as u64
}

impl std::fmt::Display for PaceChange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Slowed {
                requests_per_minute,
                refused,
                judged,
            } => write!(
                f,
                "slowed to {requests_per_minute} requests a minute: the provider refused {refused} of the last {judged}"
            ),
            Self::Recovered(time) => write!(f, "back to full pace after {} s", time.as_secs()),
            Self::Useless(time) => write!(
                f,
                "back to full pace after {} s: slower requests were refused as often",
                time.as_secs()
            ),
        }
    }
}
