//! What the engine costs: `cargo bench -p ensemble-restate`. `tests/install.sh restate` installs the engine.
//!
//! A run of 300 executions that do nothing, one after the other, beside 300 calls of a handler that does nothing; and 32
//! such runs of 30 executions side by side.

#![cfg(target_os = "linux")]
#![expect(clippy::disallowed_methods, reason = "a benchmark measures time")]

#[path = "../tests/support/mod.rs"]
#[expect(dead_code, reason = "a benchmark uses a part of the harness")]
mod support;

use std::time::{Duration, Instant};

use support::{Engine, all_records, is_inside, outside, remote, start};

const STEPS: u32 = 300;
const RUNS: usize = 32;
const STEPS_OF_EACH: u32 = 30;

fn looped(steps: u32) -> String {
    format!(
        "name: steps\nconversation_limits: {{max_total_turns: {steps}}}\nagents:\n  \
         - {{name: tick, script: tick.rhai, conversation: {{trigger: every_turn, max_turns: {steps}}}}}\n"
    )
}

fn main() {
    if !is_inside() {
        return outside(&["--bench"]);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.expect("a runtime").block_on(measure());
}

async fn measure() {
    let (long, short) = (looped(STEPS), looped(STEPS_OF_EACH));
    let engine = Engine::start(&[
        ("long.yaml", &long),
        ("short.yaml", &short),
        ("tick.rhai", "#{ n: execution }"),
    ])
    .await;
    start(&engine, "short.yaml", "warm-20261123-080000000").await;
    all_records("warm-20261123-080000000").await;

    let started_at = Instant::now();
    for _ in 0..STEPS {
        let none = remote().fetch_has_run_ended("none-20261123-080000000").await;
        assert!(matches!(none, Ok(false)));
    }
    let empty = started_at.elapsed() / STEPS;

    let started_at = Instant::now();
    start(&engine, "long.yaml", "long-20261123-080000000").await;
    remote()
        .wait_for_end_or_question("long-20261123-080000000")
        .await
        .expect("it ends");
    let single_run_time = started_at.elapsed() / STEPS;

    let id = |at: usize| format!("s{at:03}-20261123-080000000");
    let started_at = Instant::now();
    for at in 0..RUNS {
        start(&engine, "short.yaml", &id(at)).await;
    }
    for at in 0..RUNS {
        remote().wait_for_end_or_question(&id(at)).await.expect("it ends");
    }
    let executions = STEPS_OF_EACH * u32::try_from(RUNS).expect("a few");
    let many = started_at.elapsed() / executions;

    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    say(&format!(
        "a call of an empty handler, from outside:      {:.2} ms",
        ms(empty)
    ));
    say(&format!(
        "an execution, one after the other in one run:  {:.2} ms ({:.1} times the empty handler)",
        ms(single_run_time),
        single_run_time.as_secs_f64() / empty.as_secs_f64()
    ));
    say(&format!(
        "an execution, in {RUNS} runs side by side:         {:.2} ms",
        ms(many)
    ));
}

#[expect(clippy::print_stdout, reason = "a benchmark prints what it measured")]
fn say(line: &str) {
    println!("{line}");
}
