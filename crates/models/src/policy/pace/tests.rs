//! With a clock that stands still until everybody waits.

use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::future::join_all;

use super::*;

fn limits(requests: Option<u64>, tokens: Option<u64>, concurrent: Option<u64>) -> RateLimit {
    RateLimit {
        requests_per_minute: requests,
        tokens_per_minute: tokens,
        concurrent,
    }
}

/// Returns the seconds at which so many requests of so many tokens start, each of which takes so many seconds.
async fn starts(pace: &ProviderPace, count: usize, tokens: u64, takes: u64) -> Vec<u64> {
    let begun = Instant::now();
    let one = async |_: usize| {
        let admitted = pace.wait_for_admission(tokens).await.expect("nobody gives up");
        let at = begun.elapsed().as_secs();
        tokio::time::sleep(Duration::from_secs(takes)).await;
        admitted.record_success(None);
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
    let first = pace.wait_for_admission(90).await.expect("nobody gives up");
    first.record_success(Some(10));
    assert_eq!(starts(&pace, 1, 90, 0).await, [0]);
}

#[tokio::test(start_paused = true)]
async fn everybody_waits_after_a_refusal() {
    let pace = ProviderPace::new(RateLimit::default());
    pace.record_refusal(Some(Duration::from_secs(7)), Duration::from_secs(1));
    assert_eq!(pace.remaining_pause(), Duration::from_secs(7));
    let starts = starts(&pace, 2, 1, 0).await;
    assert_eq!(starts, [7, 8], "then one each second, since none was accepted");
}

/// Returns a server that accepts so many requests a second, and how many it has refused.
async fn served(pace: &ProviderPace, count: usize, per_second: u32) -> (usize, u32) {
    let (window, refused) = (Mutex::new((Instant::now(), 0)), AtomicU32::new(0));
    let one = async |_: usize| {
        loop {
            let Ok(admitted) = pace.wait_for_admission(1).await else {
                return false;
            };
            let is_accepted = {
                let mut window = window.lock().expect("unpoisoned");
                if window.0.elapsed() >= Duration::from_secs(1) {
                    *window = (Instant::now(), 0);
                }
                window.1 += 1;
                window.1 <= per_second
            };
            tokio::time::sleep(Duration::from_millis(5)).await;
            if is_accepted {
                admitted.record_success(None);
                return true;
            }
            refused.fetch_add(1, Ordering::Relaxed);
            pace.record_refusal(None, Duration::from_secs(1));
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
    let (served, refused) = served(&pace, 200, 20).await;
    assert_eq!(served, 200);
    let seconds = begun.elapsed().as_secs();
    assert!((9..20).contains(&seconds), "{seconds} s");
    assert!(refused < 220, "hardly any after the first burst: {refused}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_accepts_nothing_is_given_up() {
    let pace = ProviderPace::new(RateLimit::default());
    let begun = Instant::now();
    let (served, _) = served(&pace, 50, 0).await;
    assert_eq!(served, 0);
    let seconds = begun.elapsed().as_secs();
    assert!((60..130).contains(&seconds), "{seconds} s");
    assert!(!pace.is_alive(0));
}
