//! A batch whose provider refuses requests needs little more time than one with a client that knows when it refuses.

#[path = "../../../benches/support/flaky_provider.rs"]
mod flaky_provider;

use flaky_provider::{RefusalRule, measure_batch};

const TICKETS: usize = 300;

#[test]
fn random_refusals_do_not_slow_a_batch_down() {
    for share in [0.0, 0.01, 0.05, 0.2] {
        for seed in 0..10 {
            let times = measure_batch(RefusalRule::Random(share), TICKETS, seed);
            assert_eq!(times.failed, 0, "{share} {seed}");
            assert!(times.ratio() <= 1.2, "{share} {seed}: {times:?}");
        }
    }
}

#[test]
fn a_real_limit_is_used_to_the_full() {
    for headers in [false, true] {
        let times = measure_batch(RefusalRule::Bucket { headers }, TICKETS, 0);
        assert_eq!(times.failed, 0, "{times:?}");
        assert!(times.ratio() <= 1.2, "{headers}: {times:?}");
        // With headers no request is sent in vain; without them, few are.
        assert!(times.refused <= if headers { 10 } else { 150 }, "{headers}: {times:?}");
    }
}
