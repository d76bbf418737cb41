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
    for option in [
        "--listen",
        "--ingress",
        "--identity-key",
        "--trust",
        "--unsafe-any-ensemble",
    ] {
        assert!(options(&help).contains(&option), "there is no {option}");
    }
}

#[test]
fn the_setup_of_the_page_is_reached_from_this_machine_alone() {
    let page = include_str!("../../../docs/scale.md");
    let setup = page.split("## Setting it up").nth(1).expect("the setup");
    let commands = setup.split("```").nth(1).expect("commands");
    let mut engines = commands.lines().filter(|line| line.starts_with("restate-server"));
    assert_eq!(
        engines.next(),
        Some("restate-server --bind-ip 127.0.0.1 --listen-mode tcp")
    );
    assert_eq!(engines.next(), None);
    assert!(
        !commands.contains("--listen ") && !commands.contains("unsafe"),
        "{commands}"
    );
    for port in ["8080", "9070", "5122", "9080"] {
        let closed = page
            .split("## What an operator must close")
            .nth(1)
            .expect("what must be closed");
        assert!(closed.contains(&format!("port {port}")), "{port}");
    }
}

#[test]
fn a_worker_listens_to_this_machine_alone_unless_it_is_told_otherwise() {
    let help = help(&["serve", "--help"]);
    let words: Vec<&str> = help.split_whitespace().collect();
    assert!(words.join(" ").contains("[default: 127.0.0.1:9080]"), "{help}");
}

#[test]
fn a_worker_that_others_reach_demands_a_key() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:9080"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ensemble-restate"));
        let output = command
            .args(["serve", "--listen", address])
            .output()
            .expect("the worker starts");
        assert_eq!(output.status.code(), Some(2), "{address}");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(
            text.contains("there is no --identity-key") && text.contains("help: "),
            "{text}"
        );
    }
}

#[test]
fn a_worker_answers_no_browser() {
    let header = |name: &str| status_of_request(&[], &["--header", name]);
    let Some(plain) = header("x-other: 1") else { return };
    assert_eq!(plain, "200");
    for browser in [
        "origin: http://evil.example",
        "sec-fetch-site: same-origin",
        "host: evil.example:9080",
    ] {
        assert_eq!(header(browser).as_deref(), Some("403"), "{browser}");
    }
}

/// The status of a request that nobody has signed; nothing without curl.
fn status_of_an_unsigned_request(more: &[&str]) -> Option<String> {
    status_of_request(more, &[])
}

/// The status of a request to a worker with these options, with these options of curl.
fn status_of_request(options: &[&str], curl_options: &[&str]) -> Option<String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ensemble-restate"));
    command.args(["serve", "--listen", "127.0.0.1:0"]).args(options);
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
        .args(curl_options)
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
