//! How long `ensemble test` takes for at least 200 cases of the shipped kind: the whole process, beside `ensemble validate` of the
//! same files.
//!
//! `cargo bench --bench testing`.
#![expect(clippy::disallowed_methods, reason = "benches measure time and files")]
#![expect(dead_code, reason = "each bench uses a part of what they share")]

mod support;

use std::path::Path;
use std::process::{Command, Stdio};

use support::{Figures, micros, say, show, time};

const ROUNDS: usize = 20;
/// The shipped ensembles have 36 cases.
const COPIES: usize = 6;

/// The arguments of a command, and how many of what it has looked at.
fn run(arguments: &[&str], folder: &Path) -> (f64, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ensemble"));
    command.args(arguments).current_dir(folder).stdin(Stdio::null());
    let (took, output) = time(|| command.output());
    let output = output.expect("it ran");
    assert!(output.status.success(), "{arguments:?}");
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    let last = said.trim().lines().last().unwrap_or_default();
    (
        micros(took) / 1e3,
        last.split(',').next().unwrap_or_default().to_owned(),
    )
}

fn main() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("ensembles");
    for copy in 0..COPIES {
        let to = folder.path().join(format!("copy-{copy}"));
        let copied = Command::new("cp").arg("-r").arg(&shipped).arg(to).status();
        assert!(copied.expect("cp is there").success());
    }
    let commands: [&[&str]; 2] = [&["test", "."], &["validate", "."]];
    let mut figures = vec![Figures::default(); commands.len()];
    let mut looked_at = vec![String::new(); commands.len()];
    for _ in 0..ROUNDS {
        for (at, arguments) in commands.iter().enumerate() {
            let (took, said) = run(arguments, folder.path());
            figures[at].add(took);
            looked_at[at] = said;
        }
    }
    say("the whole process, from spawn to exit");
    let base = figures[1].median();
    for ((arguments, figures), looked_at) in commands.iter().zip(&figures).zip(&looked_at) {
        let remark = format!("{looked_at}; {:.2} × `validate` (medians)", figures.median() / base);
        show(&format!("ensemble {}", arguments.join(" ")), figures, "ms", &remark);
    }
}
