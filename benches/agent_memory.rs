//! The time of a run whose agent remembers its conversation and sends the latest ten messages: linear in its executions.
//!
//! `cargo bench --bench agent_memory`. Each length is a process of the program; the lengths take turns.
#![expect(clippy::disallowed_methods, reason = "benches measure time and files")]
#![expect(dead_code, reason = "each bench uses a part of what they share")]

mod support;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use support::{Figures, say, show};

const EXECUTIONS: [u32; 3] = [500, 2_000, 4_000];
const ROUNDS: usize = 3;

fn text(executions: u32) -> String {
    format!(
        "name: memory
conversation_limits: {{max_total_turns: {executions}}}
agents:
  - name: guide
    model_profile: m
    prompt: 'Question {{{{ execution }}}}: what is next on the way along the river?'
    context_window: {{max_messages: 10}}
    conversation: {{max_turns: {executions}, trigger: every_turn}}
model_profiles:
  m: {{provider: simulated, script: reply.rhai}}
"
    )
}

/// Returns the seconds of one run.
fn run_program(folder: &Path, executions: u32) -> f64 {
    std::fs::write(folder.join("a.yaml"), text(executions)).expect("written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_ensemble"));
    command
        .args(["run", "a.yaml", "--durability", "none"])
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let begun = Instant::now();
    assert!(command.status().expect("it ran").code().is_some_and(|code| code < 2));
    begun.elapsed().as_secs_f64()
}

fn main() {
    let folder = tempfile::TempDir::new().expect("a folder");
    std::fs::write(
        folder.path().join("reply.rhai"),
        "\"Reply \" + execution + \" of the guide.\"",
    )
    .expect("written");
    let mut seconds = vec![Figures::default(); EXECUTIONS.len()];
    let mut ratio = Figures::default();
    for _ in 0..ROUNDS {
        let round = EXECUTIONS.map(|executions| run_program(folder.path(), executions));
        round
            .iter()
            .zip(&mut seconds)
            .for_each(|(time, figures)| figures.add(*time));
        ratio.add(round[2] / round[0]);
    }
    say("an agent with memory and a window of 10 messages, through the program");
    for (executions, figures) in EXECUTIONS.iter().zip(&seconds) {
        show(&format!("{executions} executions"), figures, "s", "");
    }
    show("4,000 executions, compared with 500", &ratio, "x", "must be at most 10");
}
