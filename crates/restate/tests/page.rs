//! The page on many machines names options and commands that are there.

#![expect(clippy::disallowed_methods, reason = "tests start programs")]

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// Words that begin with two dashes.
fn options(text: &str) -> Vec<&str> {
    let words = text.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '-'));
    words.filter(|word| word.len() > 2 && word.starts_with("--")).collect()
}

fn help(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ensemble-restate"));
    let output = command.args(arguments).output().expect("the worker starts");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn the_options_of_a_worker_are_those_of_the_page() {
    let page = include_str!("../../../docs/scale.md");
    let help = help(&["serve", "--help"]);
    for option in options(&help) {
        let is_common = matches!(option, "--help" | "--version");
        assert!(
            is_common || page.contains(option),
            "docs/scale.md does not name {option}"
        );
    }
    for option in ["--listen", "--ingress", "--identity-key", "--trust"] {
        assert!(options(&help).contains(&option), "there is no {option}");
    }
}

#[test]
fn a_worker_listens_to_this_machine_alone_unless_it_is_told_otherwise() {
    assert!(help(&["serve", "--help"]).contains("[default: 127.0.0.1:9080]"));
}

/// The status of a request that nobody has signed; nothing without curl.
fn status_of_an_unsigned_request(more: &[&str]) -> Option<String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ensemble-restate"));
    command.args(["serve", "--listen", "127.0.0.1:0"]).args(more);
    let mut worker = command.stderr(Stdio::piped()).spawn().expect("the worker starts");
    let mut line = String::new();
    let err = worker.stderr.as_mut().expect("it has an output");
    BufReader::new(err).read_line(&mut line).expect("it says where it is");
    let (_, url) = line.trim().split_once(" at ").unwrap_or_else(|| panic!("{line}"));
    let accept = "accept: application/vnd.restate.endpointmanifest.v4+json";
    let curl = Command::new("curl")
        .args([
            "--silent",
            "--http2-prior-knowledge",
            "--noproxy",
            "*",
            "--output",
            "/dev/null",
        ])
        .args(["--write-out", "%{http_code}", "--header", accept])
        .arg(format!("{url}/discover"))
        .output();
    worker.kill().expect("it can be killed");
    worker.wait().expect("it is ours");
    Some(String::from_utf8(curl.ok()?.stdout).expect("text"))
}

#[test]
fn a_worker_with_a_key_accepts_only_signed_requests() {
    let key = "publickeyv1_w7YHemBctH5Ck2nQRQ47iBBqhNHy4FV7t2Usbye2A6f";
    let Some(open) = status_of_an_unsigned_request(&[]) else {
        return;
    };
    assert_eq!(open, "200");
    assert_eq!(
        status_of_an_unsigned_request(&["--identity-key", key]).as_deref(),
        Some("401")
    );
}
