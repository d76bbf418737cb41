//! The examples of the page on operating an engine: the requests are sent to the engine itself, which `tests/install.sh restate`
//! installs; without it that test says that it was skipped.

#![cfg(target_os = "linux")]
#![expect(clippy::disallowed_methods, reason = "tests start programs and make files")]

#[expect(dead_code, reason = "this program uses a part of the harness")]
mod support;

use std::process::Command;

use support::{Engine, in_a_network, skipped};

const PAGE: &str = include_str!("../../../docs/engine.md");

/// Returns the code blocks of the page with this language.
fn blocks(language: &str) -> Vec<&'static str> {
    let fence = format!("```{language}\n");
    let after = PAGE.split(fence.as_str()).skip(1);
    after.filter_map(|rest| rest.split("```").next()).collect()
}

/// Returns the words after each option of a command line.
fn option_value(line: &str, option: &str) -> Option<u64> {
    let mut words = line.split_whitespace().skip_while(|word| *word != option);
    words.nth(1)?.parse().ok()
}

#[test]
fn the_requests_of_the_page_work() {
    let has_tools = ["curl", "jq"].iter().all(|tool| {
        let started = Command::new(tool).arg("--version").output();
        started.is_ok_and(|output| output.status.success())
    });
    match has_tools {
        true => in_a_network("requests"),
        false => skipped("there is no curl or no jq"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "`the_requests_of_the_page_work` starts it in a network of its own"]
async fn requests() {
    let yaml = blocks("yaml");
    let engine = Engine::start(&[("review.yaml", yaml[0]), ("draft.rhai", "#{ text: \"Hello\" }")]).await;
    let script = format!("set -e -o pipefail\n{}", blocks("sh").concat());
    let output = Command::new("timeout")
        .args(["60", "bash", "-c", &script])
        .current_dir(engine.path())
        .output()
        .expect("bash starts");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    for expected in ["\"event\":\"run_started\"", "\"state\": \"waiting\"", "409"] {
        assert!(text.contains(expected), "{expected} in {text}");
    }
}

#[test]
fn the_service_units_of_the_page_start_what_there_is() {
    let units = blocks("ini");
    let worker = units[0];
    let start = worker.lines().find_map(|line| line.strip_prefix("ExecStart="));
    let start = start.expect("a command");
    let help = Command::new(env!("CARGO_BIN_EXE_ensemble-restate"))
        .args(["serve", "--help"])
        .output()
        .expect("the worker starts");
    let help = String::from_utf8(help.stdout).expect("text");
    for option in start.split_whitespace().filter(|word| word.starts_with("--")) {
        assert!(help.contains(option), "there is no {option}");
    }
    let stop = worker.lines().find_map(|line| line.strip_prefix("TimeoutStopSec="));
    let stop: u64 = stop.and_then(|stop| stop.parse().ok()).expect("a time");
    let drain = option_value(start, "--drain-seconds").expect("a time");
    assert!(stop > drain, "the worker is killed before it has drained");
    for unit in units {
        let lines = unit.lines().filter(|line| !line.is_empty());
        for line in lines {
            let is_section = matches!(line, "[Unit]" | "[Service]" | "[Install]");
            assert!(
                is_section
                    || line
                        .split_once('=')
                        .is_some_and(|(key, _)| key.chars().all(char::is_alphabetic))
            );
        }
    }
}

#[test]
fn the_balancer_of_the_page_checks_workers_and_speaks_http2() {
    let configuration = blocks("haproxy")[0];
    assert!(configuration.contains("GET /ensemble/worker"));
    let servers = configuration
        .lines()
        .filter(|line| line.trim_start().starts_with("server "));
    let servers: Vec<&str> = servers.collect();
    assert!(
        servers.len() > 1
            && servers
                .iter()
                .all(|server| server.contains("proto h2") && server.contains("check"))
    );
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("haproxy.cfg");
    std::fs::write(&file, configuration).expect("a file");
    match Command::new("haproxy").arg("-c").arg("-f").arg(&file).output() {
        Ok(checked) => assert!(checked.status.success(), "{checked:?}"),
        Err(_) => skipped("haproxy is not installed; only the lines were checked"),
    }
}
