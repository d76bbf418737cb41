//! Traces against types that are not ours: PyPI's `opentelemetry-proto`, which OpenTelemetry itself publishes for Python.
//!
//! `tests/install.sh otlp` installs it. Without it these tests say so and prove nothing.

#![expect(clippy::disallowed_methods, reason = "tests start programs")]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::{Running, Workspace};

/// The folder of the installed packages; nothing if they are not installed.
fn site() -> Option<PathBuf> {
    let site = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/otlp/site");
    if site.with_file_name("requirements.txt").is_file() {
        return Some(site);
    }
    let told = b"skipped: tests/install.sh otlp installs what this test needs\n";
    let _ = std::io::Write::write_all(&mut std::io::stderr(), told);
    None
}

fn receiver(site: &Path) -> Command {
    let mut command = Command::new("python3");
    command
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/otlp/receive.py"))
        .arg(site)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdout(Stdio::piped());
    command
}

fn spans(lines: &str) -> BTreeSet<String> {
    lines
        .lines()
        .map(|line| {
            let span: Value = serde_json::from_str(line).expect("JSON");
            span.to_string()
        })
        .collect()
}

#[test]
fn what_is_received_is_what_is_exported() {
    let Some(site) = site() else { return };
    let workspace = Workspace::new();
    workspace.write(
        "outer.yaml",
        "name: outer\nagents:\n  - {name: one, script: one.rhai}\n  - {name: team, ensemble: inner.yaml, depends_on: [one]}\n\
         \x20 - {name: two, model_profile: m, prompt: 'Say {{ input }}', depends_on: [team]}\n\
         model_profiles:\n  m: {provider: simulated, replies: [it rains]}\n",
    );
    workspace.write("inner.yaml", "name: inner\nagents: [{name: in, script: one.rhai}]\n");
    workspace.write("one.rhai", "#{ n: 1 }");
    let mut process = receiver(&site).spawn().expect("python3 starts");
    let mut out = BufReader::new(process.stdout.take().expect("it has an output"));
    let mut url = String::new();
    out.read_line(&mut url).expect("it says where it is");
    let mut command = workspace.command(["run", "outer.yaml", "--otlp", "--otlp-content"]);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", url.trim());
    let outcome = Running(command.spawn().expect("the program starts"))
        .finish()
        .expect_code(0);
    assert!(!outcome.stderr.contains("telemetry"), "{}", outcome.stderr);
    process.kill().expect("it ends");
    let _code = process.wait();
    let mut received = String::new();
    out.read_to_string(&mut received).expect("text");
    let export = ["runs", "export", "--output", "otlp", "--otlp-content", "--to", "run.pb"];
    workspace.run(export).expect_code(0);
    let parsed = receiver(&site)
        .arg("--parse")
        .arg(workspace.path().join("run.pb"))
        .output();
    let parsed = String::from_utf8(parsed.expect("python3 starts").stdout).expect("text");
    let received = spans(&received);
    assert_eq!(received.len(), 7, "{received:#?}");
    assert_eq!(received, spans(&parsed));
}
