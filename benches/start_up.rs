//! How long the program takes to start: the whole process, from spawn to exit, beside `true`.
//!
//! `cargo bench --bench start_up`.
#![expect(clippy::disallowed_methods, reason = "benches measure time and files")]
#![expect(dead_code, reason = "each bench uses a part of what they share")]

mod support;

use std::path::Path;
use std::process::{Command, Stdio};

use support::{Figures, micros, say, show, time};

const ROUNDS: usize = 100;

/// A file as people write them: conditions, a loop, an LLM agent and a person.
const TEXT: &str = "name: analysis
model_profiles:
  quick: {provider: simulated, replies: ['{\"needs_clarification\": true}', done]}
agents:
  - name: extractor
    script: 'true'
    conversation: {max_turns: 3}
  - name: analyzer
    model_profile: quick
    prompt: 'Look at {{ extractor.response }}'
    dependencies: [{agent_name: extractor}, {agent_name: person, feedback: true}]
    conversation: {max_turns: 3}
  - name: person
    input: {prompt: 'What do you mean?'}
    dependencies: [{agent_name: analyzer, condition: \"context.get('needs_clarification', False)\"}]
    conversation: {max_turns: 2}
  - name: synthesis
    model_profile: quick
    prompt: Sum up.
    dependencies: [{agent_name: analyzer, condition: \"not context.get('needs_clarification', False) or turn_count > 3\"}]
";

fn whole_process(program: &str, arguments: &[&str], folder: &Path) -> f64 {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let (took, status) = time(|| command.status());
    assert!(status.expect("it ran").success(), "{program} {arguments:?}");
    micros(took) / 1e3
}

fn main() {
    let folder = tempfile::TempDir::new().expect("a folder");
    std::fs::write(folder.path().join("analysis.yaml"), TEXT).expect("written");
    let ensemble = env!("CARGO_BIN_EXE_ensemble");
    let programs: [(&str, &str, &[&str]); 4] = [
        ("true", "true", &[]),
        ("ensemble --version", ensemble, &["--version"]),
        (
            "ensemble validate analysis.yaml",
            ensemble,
            &["validate", "analysis.yaml"],
        ),
        (
            "ensemble run analysis.yaml --dry-run",
            ensemble,
            &["run", "analysis.yaml", "--dry-run"],
        ),
    ];
    let mut figures = vec![Figures::default(); programs.len()];
    for _ in 0..ROUNDS {
        for ((_, program, arguments), figures) in programs.iter().zip(&mut figures) {
            figures.add(whole_process(program, arguments, folder.path()));
        }
    }
    say("the whole process, from spawn to exit");
    let base = figures[0].median();
    for ((name, _, _), figures) in programs.iter().zip(&figures) {
        let remark = format!("{:+.2} ms to `true` (medians)", figures.median() - base);
        show(name, figures, "ms", &remark);
    }
}
