//! With a clock that stands still until everybody waits.

use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::future::join_all;

use super::*;
use crate::{ModelErrorKind, ReportedLimitUnit};

const SECOND: Duration = Duration::from_secs(1);

fn limits(requests: Option<u64>, tokens: Option<u64>, concurrent: Option<u64>) -> RateLimit {
    RateLimit {
        requests_per_minute: requests,
        tokens_per_minute: tokens,
        concurrent,
    }
}

fn refusal(seconds: Option<u64>) -> ModelError {
    ModelError {
        kind: ModelErrorKind::RateLimited,
        retry_after: seconds.map(Duration::from_secs),
        ..ModelError::new_retryable("429 Too Many Requests")
    }
}

fn used_up(remaining: u64, seconds: u64) -> ReportedLimit {
    ReportedLimit {
        name: "x-ratelimit-remaining-requests",
        unit: ReportedLimitUnit::Requests,
        limit: None,
        remaining,
        resets_in: Duration::from_secs(seconds),
    }
}

async fn admit(pace: &ProviderPace) -> AdmittedRequestGuard<'_> {
    let admitted = pace.wait_for_admission(1, &Stopwatch::default()).await;
    admitted.expect("nobody gives up")
}

/// Returns the seconds at which so many requests of so many tokens start, each of which takes so many seconds.
async fn starts(pace: &ProviderPace, count: usize, tokens: u64, takes: u64) -> Vec<u64> {
    let begun = Instant::now();
    let one = async |_: usize| {
        let clock = Stopwatch::default();
        let admitted = pace.wait_for_admission(tokens, &clock).await.expect("nobody gives up");
        let at = begun.elapsed().as_secs();
        tokio::time::sleep(Duration::from_secs(takes)).await;
        admitted.record_success(None, &[]);
        at
    };
    join_all((0..count).map(one)).await
}

#[tokio::test(start_paused = true)]
async fn the_limits_of_a_profile_are_kept() {
    let unlimited = ProviderPace::new(RateLimit::default());
    assert_eq!(starts(&unlimited, 3, 1000, 1).await, [0, 0, 0]);
    let requests = ProviderPace::new(limits(Some(2), None, None));
    assert_eq!(starts(&requests, 5, 1, 1).await, [0, 0, 60, 60, 120]);
    let tokens = ProviderPace::new(limits(None, Some(100), None));
    assert_eq!(starts(&tokens, 4, 50, 1).await, [0, 0, 60, 60]);
    let large = ProviderPace::new(limits(None, Some(100), None));
    assert_eq!(
        starts(&large, 2, 500, 1).await,
        [0, 60],
        "more than the limit, one at a time"
    );
    let concurrent = ProviderPace::new(limits(None, None, Some(2)));
    assert_eq!(starts(&concurrent, 5, 1, 7).await, [0, 0, 7, 7, 14]);
}

#[tokio::test(start_paused = true)]
async fn tokens_are_counted_as_they_were_used() {
    let pace = ProviderPace::new(limits(None, Some(100), None));
    let clock = Stopwatch::default();
    let first = pace.wait_for_admission(90, &clock).await.expect("nobody gives up");
    first.record_success(Some(10), &[]);
    assert_eq!(starts(&pace, 1, 90, 0).await, [0]);
}

#[tokio::test(start_paused = true)]
async fn clocks_stand_while_the_pace_is_waited_for() {
    let pace = ProviderPace::new(limits(Some(1), None, Some(1)));
    let run = Stopwatch::default();
    let execution = run.nested_stopwatch();
    let first = admit(&pace).await;
    tokio::join!(
        async {
            tokio::time::sleep(5 * SECOND).await;
            first.record_success(None, &[]);
            drop(first);
        },
        async { pace.wait_for_admission(1, &execution).await.map(drop).expect("a turn") },
    );
    // The request under way took 5 s, and the limit of the profile 55 s more.
    assert_eq!(run.elapsed_with_pauses(), 60 * SECOND);
    assert_eq!((run.elapsed_time(), execution.elapsed_time()), (5 * SECOND, 5 * SECOND));
}

#[tokio::test(start_paused = true)]
async fn a_single_refusal_stops_others_only_if_the_account_is_used_up() {
    let pace = ProviderPace::new(RateLimit::default());
    admit(&pace).await.record_refusal(&refusal(Some(7)), SECOND);
    assert_eq!(pace.remaining_pause(), Duration::ZERO);
    assert_eq!(starts(&pace, 3, 1, 0).await, [0, 0, 0]);

    let of_account = ModelError {
        limits: vec![used_up(0, 9)],
        ..refusal(Some(7))
    };
    admit(&pace).await.record_refusal(&of_account, SECOND);
    assert_eq!(pace.remaining_pause(), 7 * SECOND);
    assert_eq!(starts(&pace, 3, 1, 0).await, [7, 7, 7], "and nothing else changes");
    assert_eq!(pace.take_unreported_changes(), []);
}

#[tokio::test(start_paused = true)]
async fn refusals_in_a_row_are_those_of_the_account() {
    let pace = ProviderPace::new(RateLimit::default());
    for nth in 1..=MAX_CONSECUTIVE_REFUSALS {
        assert_eq!(pace.remaining_pause(), Duration::ZERO, "{nth}");
        admit(&pace).await.record_refusal(&refusal(None), 3 * SECOND);
    }
    assert_eq!(pace.remaining_pause(), 3 * SECOND);
    admit(&pace).await.record_refusal(&refusal(None), 3 * SECOND);
    assert_eq!(pace.remaining_pause(), 6 * SECOND, "each further pause is longer");
}

#[tokio::test(start_paused = true)]
async fn the_limits_that_a_provider_states_are_kept() {
    let pace = ProviderPace::new(RateLimit::default());
    admit(&pace).await.record_success(None, &[used_up(0, 20)]);
    assert_eq!(
        (pace.remaining_pause(), pace.remaining_account_pause()),
        (20 * SECOND, Duration::ZERO)
    );
    let pace = ProviderPace::new(RateLimit::default());
    admit(&pace).await.record_success(None, &[used_up(2, 20)]);
    assert_eq!(pace.remaining_pause(), Duration::ZERO);
    assert_eq!(starts(&pace, 4, 1, 1).await, [0, 0, 20, 20]);
}

/// Returns the number of served requests and of refusals of a server that accepts so many requests a second.
async fn serve(pace: &ProviderPace, count: usize, per_second: u32) -> (usize, u32) {
    let (window, refused) = (Mutex::new((Instant::now(), 0)), AtomicU32::new(0));
    let one = async |_: usize| {
        let clock = Stopwatch::default();
        loop {
            let Ok(admitted) = pace.wait_for_admission(1, &clock).await else {
                return false;
            };
            let is_accepted = {
                let mut window = window.lock().expect("unpoisoned");
                if window.0.elapsed() >= SECOND {
                    *window = (Instant::now(), 0);
                }
                window.1 += 1;
                window.1 <= per_second
            };
            tokio::time::sleep(Duration::from_millis(5)).await;
            if is_accepted {
                admitted.record_success(None, &[]);
                return true;
            }
            refused.fetch_add(1, Ordering::Relaxed);
            admitted.record_refusal(&refusal(None), SECOND);
            drop(admitted);
            tokio::time::sleep(SECOND).await;
        }
    };
    let served = join_all((0..count).map(one)).await;
    (
        served.into_iter().filter(|served| *served).count(),
        refused.into_inner(),
    )
}

#[tokio::test(start_paused = true)]
async fn many_agents_find_the_pace_of_a_server() {
    let pace = ProviderPace::new(RateLimit::default());
    let begun = Instant::now();
    let (served, refused) = serve(&pace, 200, 20).await;
    assert_eq!(served, 200);
    let seconds = begun.elapsed().as_secs();
    assert!((9..20).contains(&seconds), "{seconds} s");
    assert!(refused < 220, "hardly any after the first burst: {refused}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_accepts_nothing_is_given_up() {
    let pace = ProviderPace::new(RateLimit::default());
    let begun = Instant::now();
    let (served, _) = serve(&pace, 50, 0).await;
    assert_eq!(served, 0);
    let seconds = begun.elapsed().as_secs();
    assert!((60..130).contains(&seconds), "{seconds} s");
    assert!(!pace.may_accept_since_success(0));
}
