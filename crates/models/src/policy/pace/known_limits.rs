//! The limits that the answers of a provider state in their headers.

use std::time::Duration;

use tokio::time::Instant;

use super::RequestStart;
use crate::{ReportedLimit, ReportedLimitUnit};

/// Maximum time until a reset for which requests wait. A daily limit does not block requests.
const MAX_AWAITED_RESET: Duration = Duration::from_secs(300);

/// Latest reported state of each limit of an account.
#[derive(Debug, Default)]
pub(super) struct LatestReportedLimits(Vec<ReportedLimitState>);

/// State of a limit, with the request whose response reported it.
#[derive(Debug)]
struct ReportedLimitState {
    reported: ReportedLimit,
    /// The number of the request whose answer stated the limit. Later requests are not counted in it.
    number: u64,
    at: Instant,
}

impl LatestReportedLimits {
    /// Updates the limits from the response to a request. Ignores responses to earlier requests.
    pub(super) fn update_from_response(&mut self, reported: &[ReportedLimit], number: u64, now: Instant) {
        for reported in reported {
            let is_same = |known: &ReportedLimitState| known.reported.name == reported.name;
            if self.0.iter().any(|known| is_same(known) && known.number > number) {
                continue;
            }
            self.0.retain(|known| !is_same(known));
            if reported.resets_in <= MAX_AWAITED_RESET {
                self.0.push(ReportedLimitState {
                    reported: reported.clone(),
                    number,
                    at: now,
                });
            }
        }
    }

    /// Returns the time at which the limits allow a request of about this number of tokens. Returns `None` if they allow it now.
    pub(super) fn find_free_time<'s>(
        &mut self,
        starts: impl Iterator<Item = &'s RequestStart> + Clone,
        tokens: u64,
        now: Instant,
    ) -> Option<Instant> {
        self.0.retain(|known| known.at + known.reported.resets_in > now);
        let times = self
            .0
            .iter()
            .filter_map(|known| known.find_free_time(starts.clone(), tokens));
        times.max().filter(|at| *at > now)
    }
}

impl ReportedLimitState {
    /// Returns the time at which this limit allows the request. Returns `None` if it allows the request now.
    fn find_free_time<'s>(&self, starts: impl Iterator<Item = &'s RequestStart>, tokens: u64) -> Option<Instant> {
        let later = starts.filter(|start| start.number > self.number);
        let (used, needed) = match self.reported.unit {
            ReportedLimitUnit::Requests => (later.count() as u64, 1),
            ReportedLimitUnit::Tokens => (later.map(|start| start.tokens).sum(), tokens.max(1)),
            ReportedLimitUnit::OutputTokens => (0, 1),
        };
        // A request that is larger than the limit waits until nothing is used.
        let needed = self.reported.limit.map_or(needed, |limit| needed.min(limit));
        let missing = (used + needed).saturating_sub(self.reported.remaining);
        if missing == 0 {
            return None;
        }
        let until_full = self.reported.resets_in;
        let refilled = self
            .reported
            .limit
            .map(|limit| limit.saturating_sub(self.reported.remaining));
        let wait = match refilled {
            // The limit fills up evenly until its reset, and is full then.
            Some(refilled) if refilled > missing => until_full.mul_f64(missing as f64 / refilled as f64),
            _ => until_full,
        };
        Some(self.at + wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests(remaining: u64, limit: Option<u64>, seconds: u64) -> ReportedLimit {
        ReportedLimit {
            name: "requests",
            unit: ReportedLimitUnit::Requests,
            limit,
            remaining,
            resets_in: Duration::from_secs(seconds),
        }
    }

    fn starts(numbers: &[u64], at: Instant) -> Vec<RequestStart> {
        let start = |number: &u64| RequestStart {
            number: *number,
            at,
            tokens: 40,
        };
        numbers.iter().map(start).collect()
    }

    #[test]
    fn a_limit_that_is_used_up_is_waited_for() {
        let now = Instant::now();
        let later = starts(&[8, 9], now);
        // The stated limit, and the seconds until the next request.
        let table = [
            (requests(0, None, 30), Some(30.0)),
            (requests(2, None, 30), Some(30.0)),
            (requests(3, None, 30), None),
            (requests(0, Some(60), 60), Some(3.0)),
            (requests(1, Some(2), 30), Some(30.0)),
            (requests(0, None, 301), None),
            (
                ReportedLimit {
                    unit: ReportedLimitUnit::Tokens,
                    ..requests(100, None, 9)
                },
                Some(9.0),
            ),
            (
                ReportedLimit {
                    unit: ReportedLimitUnit::Tokens,
                    ..requests(101, None, 9)
                },
                None,
            ),
            (
                ReportedLimit {
                    unit: ReportedLimitUnit::OutputTokens,
                    ..requests(0, None, 9)
                },
                Some(9.0),
            ),
        ];
        for (reported, expected) in table {
            let mut known = LatestReportedLimits::default();
            known.update_from_response(std::slice::from_ref(&reported), 7, now);
            let found = known.find_free_time(later.iter(), 21, now);
            let seconds = found.map(|at| (at - now).as_secs_f64());
            assert_eq!(seconds, expected, "{reported:?}");
        }
    }

    #[test]
    fn the_answer_to_an_earlier_request_changes_nothing() {
        let now = Instant::now();
        let mut known = LatestReportedLimits::default();
        known.update_from_response(&[requests(0, None, 30)], 7, now);
        known.update_from_response(&[requests(5, None, 30)], 6, now);
        assert!(known.find_free_time([].iter(), 1, now).is_some());
        known.update_from_response(&[requests(5, None, 30)], 8, now);
        assert!(known.find_free_time([].iter(), 1, now).is_none());
    }
}
