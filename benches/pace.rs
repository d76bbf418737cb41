//! The time of a batch whose provider refuses requests, compared with a client that knows when it refuses. The clock is
//! virtual, so the figures do not depend on the machine.

#![expect(clippy::disallowed_methods, reason = "benches measure time and files")]
#![expect(dead_code, reason = "each bench uses a part of what they share")]

#[path = "support/flaky_provider.rs"]
mod flaky_provider;
mod support;

use flaky_provider::{RefusalRule, measure_batch};
use support::say;

/// The tickets of a batch, as in the nightly job of a support team.
const TICKETS: usize = 300;

/// The number of batches with different random numbers.
const SEEDS: u64 = 20;

fn main() {
    say("pace: 300 tickets, 8 at the same time, 0.5 s each; a refusal asks for 1 s");
    let rules = [
        ("no refusals", RefusalRule::Random(0.0)),
        ("1 % refused at random", RefusalRule::Random(0.01)),
        ("5 % refused at random", RefusalRule::Random(0.05)),
        ("20 % refused at random", RefusalRule::Random(0.2)),
        ("40 % refused at random (no target)", RefusalRule::Random(0.4)),
        ("60 a minute, without headers", RefusalRule::Bucket { headers: false }),
        ("60 a minute, with headers", RefusalRule::Bucket { headers: true }),
    ];
    for (name, rule) in rules {
        let batches: Vec<_> = (0..SEEDS).map(|seed| measure_batch(rule, TICKETS, seed)).collect();
        let mut ratios: Vec<f64> = batches.iter().map(|batch| batch.ratio()).collect();
        ratios.sort_by(f64::total_cmp);
        let failed: usize = batches.iter().map(|batch| batch.failed).sum();
        let refused: u32 = batches.iter().map(|batch| batch.refused).max().unwrap_or_default();
        let seconds = batches[0].measured.as_secs_f64();
        say(&format!(
            "  {name:36} {seconds:6.1} s; ratio min {:.2}, median {:.2}, max {:.2} (target 1.20); at most {refused} refused, {failed} failed",
            ratios[0],
            ratios[ratios.len() / 2],
            ratios[ratios.len() - 1],
        ));
    }
}
