//! Many agents and one provider with a rate limit, through the binary.

#![expect(
    clippy::disallowed_methods,
    reason = "a server that counts the requests of each second"
)]

use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::providers::{ensemble, error, response, run};
use crate::support::server::{Server, answer, says};

/// A server that answers so many requests in each second, and refuses the others.
fn limited(per_second: u32, headers: &'static [(&'static str, &'static str)]) -> Server {
    let window = Mutex::new((Instant::now(), 0));
    Server::new(move |_, _| {
        let mut window = window.lock().expect("no test has panicked here");
        if window.0.elapsed() >= Duration::from_secs(1) {
            *window = (Instant::now(), 0);
        }
        window.1 += 1;
        match window.1 <= per_second {
            true => says("ok"),
            false => answer("429 Too Many Requests", headers, ""),
        }
    })
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

fn failed(result: &Value) -> usize {
    let history = result["conversation_history"].as_array().expect("a history");
    history.iter().filter(|execution| execution["success"] != true).count()
}

#[test]
fn many_agents_of_one_turn_share_the_pace_that_a_provider_allows() {
    for (headers, more) in [
        (&[][..], ""),
        (&[("retry-after", "1")], ""),
        (&[("retry-after", "1")], ", retry: {max_attempts: 1}"),
    ] {
        let server = limited(40, headers);
        let result = run(&crowd(120, &server.url(), more));
        assert_eq!(
            (failed(&result), &result["completion_reason"]),
            (0, &"completed".into())
        );
        let asked = server.asked().len();
        assert!(asked < 300, "{asked} requests for 120 agents");
    }
}

#[test]
fn the_concurrent_requests_of_a_profile_are_limited() {
    let under_way = std::sync::Arc::new(Mutex::new((0_u32, 0_u32)));
    let counted = std::sync::Arc::clone(&under_way);
    let server = Server::new(move |_, _| {
        {
            let mut counts = counted.lock().expect("unpoisoned");
            counts.0 += 1;
            counts.1 = counts.1.max(counts.0);
        }
        std::thread::sleep(Duration::from_millis(50));
        counted.lock().expect("unpoisoned").0 -= 1;
        says("ok")
    });
    let result = run(&crowd(12, &server.url(), ", rate_limit: {concurrent: 3}"));
    assert_eq!(failed(&result), 0);
    assert_eq!(under_way.lock().expect("unpoisoned").1, 3);
}

#[test]
fn waiting_for_the_turn_is_not_the_time_of_a_request() {
    let server = Server::new(|_, _| {
        std::thread::sleep(Duration::from_millis(300));
        says("ok")
    });
    let result = run(&crowd(
        5,
        &server.url(),
        ", timeout_seconds: 1, rate_limit: {concurrent: 1}",
    ));
    assert_eq!(failed(&result), 0, "{result:#}");
}

#[test]
fn a_provider_that_refuses_everything_is_not_waited_for() {
    let server = Server::with(vec![answer(
        "429 Too Many Requests",
        &[("retry-after-ms", "5")],
        "full",
    )]);
    let told = error(&run(&ensemble(&server.url(), "")));
    assert!(told.contains("429 Too Many Requests: full"), "{told}");
    assert_eq!(server.asked().len(), 3);
}

#[test]
fn a_fallback_that_has_answered_stays_for_the_rest_of_the_execution() {
    let broken = Server::with(vec![answer("400 Bad Request", &[], "out of order")]);
    let call = serde_json::json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "double", "arguments": "{\"n\": 2}"}}]});
    let call = super::model_replies::streams(&[call], "tool_calls");
    let steady = Server::with(vec![call, says("Done."), says("Again.")]);
    let (workspace, text) = super::model_replies::with_tool(&broken.url(), ", fallback: steady");
    let profile = format!(
        "model_profiles:\n  steady: {{provider: openai, model: m, base_url: '{}'}}",
        steady.url()
    );
    let text = text.replacen("model_profiles:", &profile, 1);
    let result = super::providers::run_in(&workspace, &text, &[]).json();
    assert_eq!(response(&result), "Done.", "{result:#}");
    assert_eq!((broken.asked().len(), steady.asked().len()), (1, 2));

    let again = text.replace("tools: [double]", "conversation: {max_turns: 2, trigger: every_turn}");
    let steady_again = Server::with(vec![says("Done.")]);
    let again = again.replace(&steady.url(), &steady_again.url());
    super::providers::run_in(&workspace, &again, &[]).json();
    assert_eq!(broken.asked().len(), 3, "the next execution asks the first again");
}
