//! A model that refuses some requests, or replies with something else than JSON, through the binary.

#![expect(clippy::disallowed_methods, reason = "a test looks at the clock")]

use std::time::Instant;

use serde_json::Value;

use super::providers::{ensemble, error, response, run};
use crate::support::Workspace;
use crate::support::server::{Answer, Server, answer, says};

fn refused(headers: &'static [(&'static str, &'static str)]) -> Answer {
    answer("429 Too Many Requests", headers, "too fast")
}

/// So many agents that start in the same turn.
fn crowd(count: u32, url: &str, more: &str) -> String {
    let agent = |number: u32| format!("  - {{name: a{number}, model_profile: main}}\n");
    let agents: String = (0..count).map(agent).collect();
    ensemble(url, more).replace(
        "agents: [{name: writer, model_profile: main}]\n",
        &format!("agents:\n{agents}"),
    )
}

#[test]
fn waiting_for_the_pace_does_not_use_the_time_of_the_turn_or_the_run() {
    // The second request waits for 2.5 s, and the turn and the run have 2 s.
    for headers in [
        &[("retry-after-ms", "2500")][..],
        &[
            ("retry-after-ms", "2500"),
            ("x-ratelimit-remaining-requests", "0"),
            ("x-ratelimit-reset-requests", "2500ms"),
        ],
    ] {
        let server = Server::with(vec![refused(headers), says("Hello.")]);
        let text = ensemble(&server.url(), "") + "conversation_limits: {turn_timeout_seconds: 2, timeout_seconds: 2}\n";
        let result = run(&text);
        assert_eq!(response(&result), "Hello.", "{headers:?}: {result:#}");
        assert_eq!(server.asked().len(), 2);
    }
}

#[test]
fn a_slowdown_is_told_by_warnings_and_live_events() {
    // Of the first 40 requests, 4 are accepted; afterwards all are.
    let server = Server::new(|nth, _| match nth < 40 && nth % 10 != 0 {
        true => refused(&[("retry-after-ms", "100")]),
        false => says("ok"),
    });
    let workspace = Workspace::new();
    workspace.write("crowd.yaml", crowd(30, &server.url(), ""));
    let mut command = workspace.command(["run", "crowd.yaml", "--output", "events", "--live"]);
    command.env("OPENAI_API_KEY", super::providers::KEY);
    let outcome = crate::support::Running(command.spawn().expect("the program starts")).finish();
    let lines: Vec<Value> = outcome
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let told: Vec<&str> = lines
        .iter()
        .filter(|line| line["live"] == "pace_changed")
        .filter_map(|line| line["text"].as_str())
        .collect();
    assert!(
        told.first().is_some_and(
            |text| text.starts_with("model profile `main`: slowed to ") && text.contains(" of the last 20")
        ),
        "{told:?}"
    );
    let warned = lines.iter().any(|line| {
        line["event"] == "execution_finished" && line["data"]["warnings"].to_string().contains("slowed to ")
    });
    assert!(warned, "{}", outcome.stdout);
}

#[test]
fn single_refusals_do_not_slow_other_agents_down() {
    let server = Server::new(|nth, _| match nth % 10 {
        3 => refused(&[("retry-after-ms", "300")]),
        _ => says("ok"),
    });
    let begun = Instant::now();
    let result = run(&crowd(60, &server.url(), ""));
    assert_eq!(result["completion_reason"], "completed", "{result:#}");
    assert!(!result["warnings"].to_string().contains("slowed"), "{result:#}");
    assert!(begun.elapsed().as_secs() < 10, "{:?}", begun.elapsed());
}

#[test]
fn an_exhausted_quota_is_asked_once_and_the_fallback_answers() {
    let quota = r#"{"error": {"message": "You exceeded your current quota, please check your plan and billing details.", "type": "insufficient_quota"}}"#;
    let server = Server::with(vec![answer("429 Too Many Requests", &[("retry-after", "1")], quota)]);
    let told = error(&run(&ensemble(&server.url(), "")));
    assert!(told.contains("no quota left"), "{told}");
    assert_eq!(server.asked().len(), 1);

    let steady = Server::with(vec![says("Certainly.")]);
    let text = ensemble(&server.url(), ", fallback: steady")
        + &*format!(
            "  steady: {{provider: openai, model: m, base_url: '{}'}}\n",
            steady.url()
        );
    assert_eq!(response(&run(&text)), "Certainly.");
}

#[test]
fn a_reply_that_is_no_json_is_described_to_the_model_and_to_the_user() {
    for (reply, expected) in [
        ("{\"score\": 4", "the reply is not valid JSON"),
        ("[4]", "a JSON list"),
        (
            "Well: {\"score\": 4}",
            "there is text before the JSON object in line 1, column 7",
        ),
        (
            "```json\n{\"score\": 4}",
            "the code fence that opens in line 1 is not closed",
        ),
        ("Four.", "line 1, column 1 has `Four.`"),
    ] {
        let server = Server::with(vec![says(reply)]);
        let schema = "model_profile: main, output_schema: {type: object, required: [score]}, retry: {max_attempts: 2}}";
        let result = run(&ensemble(&server.url(), "").replace("model_profile: main}", schema));
        let told = error(&result);
        assert!(told.contains(expected), "{reply:?}: {told}");
        let correction = server.asked()[1].body["messages"].to_string();
        assert!(
            correction.contains(&expected.replace('"', "\\\"")),
            "{reply:?}: {correction}"
        );
    }
}

#[test]
fn a_fenced_object_inside_prose_is_a_warning_without_a_schema() {
    let server = Server::with(vec![says("So:\n```json\n{\"score\": 4}\n```\nFine?")]);
    let result = run(&ensemble(&server.url(), ""));
    let warnings = result["warnings"].to_string();
    assert!(
        warnings.contains("the JSON object in line 3 of the reply were not read"),
        "{warnings}"
    );
    let server = Server::with(vec![says("```json\n{\"score\": 4}\n```")]);
    assert_eq!(run(&ensemble(&server.url(), ""))["warnings"], serde_json::json!([]));
}
