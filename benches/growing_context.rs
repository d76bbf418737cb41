//! A context that gains 1 kB a turn: total time and memory grow with what was said, not with its square.
//!
//! `cargo bench --bench growing_context`. Each length runs in a process of its own, so that the most memory
//! it has had is its own.
#![expect(clippy::disallowed_methods, reason = "benches measure time and files")]
#![expect(dead_code, reason = "each bench uses a part of what they share")]

mod support;

use std::process::Command;

use ensemble_core::runner::ExecutionInput;
use ensemble_language::data::JsonMap;
use serde_json::Value;
use support::{Figures, Says, all, peak_mib, plan, run, say};

const TURNS: [u32; 4] = [100, 1_000, 10_000, 100_000];
const ROUNDS: usize = 3;
/// The argument by which the bench runs itself.
const CHILD: &str = "--turns";

fn text(turns: u32) -> String {
    format!(
        "name: growing
conversation_limits: {{max_total_turns: {turns}}}
agents:
  - name: speaker
    script: a.rhai
    dependencies: [{{agent_name: listener, feedback: true, condition: \"'missing' not in context\"}}]
    conversation: {{max_turns: 1000000}}
  - name: listener
    script: a.rhai
    dependencies: [{{agent_name: speaker, condition: \"len(context) < 1000000\"}}]
    conversation: {{max_turns: 1000000}}
"
    )
}

/// A key that nobody has used, and 1 kB under it.
fn more(execution: &ExecutionInput) -> JsonMap {
    let turn = execution.turn_count;
    JsonMap::from_iter([(format!("note{turn}"), Value::String("0123456789".repeat(100)))])
}

fn child(turns: u32) {
    let plan = plan(&text(turns));
    let before = peak_mib().unwrap_or_default();
    let ran = run(&plan, all(&plan, Says(more)));
    assert!(ran.state.context().len() >= turns as usize, "the context has grown");
    let peak = peak_mib().unwrap_or_default();
    say(&format!(
        "{} {before} {peak} {}",
        ran.took.as_secs_f64(),
        ran.journal_bytes
    ));
}

fn main() {
    let mut arguments = std::env::args().skip_while(|argument| argument != CHILD);
    if let Some(turns) = arguments.nth(1) {
        return child(turns.parse().expect("a number"));
    }
    let own = std::env::current_exe().expect("a program");
    let mut time = vec![Figures::default(); TURNS.len()];
    let mut peak = vec![Figures::default(); TURNS.len()];
    let mut journal = [0.0; TURNS.len()];
    for _ in 0..ROUNDS {
        for (at, turns) in TURNS.iter().enumerate() {
            let output = Command::new(&own).arg(CHILD).arg(turns.to_string()).output();
            let said = String::from_utf8(output.expect("it ran").stdout).expect("text");
            let said: Vec<f64> = said
                .split_whitespace()
                .map(|word| word.parse().expect("a number"))
                .collect();
            time[at].add(said[0]);
            peak[at].add(said[2]);
            journal[at] = said[3] / (1 << 20) as f64;
        }
    }
    say("a context that gains 1 kB a turn; journal on disk without sync");
    for (at, turns) in TURNS.iter().enumerate() {
        let (min, median) = (time[at].min(), time[at].median());
        let (each, memory) = (min * 1e6 / f64::from(*turns), peak[at].max());
        say(&format!(
            "{turns:>7} turns: {min:>8.3} s (median {median:.3}), {each:>6.1} µs a turn, peak {memory:>7.1} MiB, journal {:.1} MiB",
            journal[at]
        ));
    }
}
