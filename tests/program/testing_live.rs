//! Live cases through the binary, with a real server on loopback: several conversations, a rate, and judges by votes.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::support::server::{Answer, Asked, Server, answer, says};
use crate::support::{Outcome, Workspace};

const TEAM: &str = r#"name: team
model_profiles:
  writer: {provider: openai, model: writes, base_url: "URL"}
  strict: {provider: openai, model: judges, base_url: "URL"}
agents:
  - {name: writer, model_profile: writer, prompt: "Write: {{ input }}"}
  - {name: shout, script: echo HELLO, depends_on: [writer]}
"#;

/// Whether the request is for the judge.
fn is_judge(asked: &Asked) -> bool {
    asked.body["model"] == "judges"
}

/// The writer says these texts in turn, and the judge gives these verdicts.
fn server(texts: &'static [&'static str], verdicts: &'static [bool]) -> Server {
    let (written, judged) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let turn = |counter: &AtomicUsize, all: usize| counter.fetch_add(1, Ordering::SeqCst) % all;
    Server::new(move |_, asked| match is_judge(asked) {
        true => {
            let verdict = verdicts[turn(&judged, verdicts.len())];
            says(&json!({"reason": format!("because it is {verdict}"), "verdict": verdict}).to_string())
        }
        false => says(texts[turn(&written, texts.len())]),
    })
}

fn tried(server: &Server, case: &str, arguments: &[&str]) -> (Workspace, Outcome) {
    let workspace = Workspace::new();
    workspace.write("team.yaml", TEAM.replace("URL", &server.url()));
    workspace.write(
        "team.test.yaml",
        format!("cases:\n  - name: live\n    input: a note\n{case}"),
    );
    let outcome = workspace.run(["test"].iter().chain(arguments));
    (workspace, outcome)
}

fn asked_of(server: &Server, judge: bool) -> Vec<Asked> {
    server
        .asked()
        .into_iter()
        .filter(|asked| is_judge(asked) == judge)
        .collect()
}

fn json_of(outcome: &Outcome) -> Value {
    outcome.json()["files"][0]["cases"][0].clone()
}

#[test]
fn a_live_case_asks_the_model_and_runs_the_program() {
    let server = server(&["hello"], &[true]);
    let case = "    live: true\n    expect: {outcome: completed, outputs: {writer: hello, shout: HELLO}}\n";
    let (_, outcome) = tried(&server, case, &[]);
    assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
    let asked = server.asked();
    assert_eq!(asked.len(), 1);
    assert!(
        asked[0].body["messages"].to_string().contains("Write: a note"),
        "{:?}",
        asked[0].body
    );
    // Without `live`, nobody is asked.
    let (_, outcome) = tried(&server, &case.replace("live: true", "live: false"), &[]);
    assert_eq!((outcome.code, server.asked().len()), (1, 1), "{}", outcome.stdout);
}

#[test]
fn a_case_that_is_repeated_passes_at_its_rate() {
    // Three of four are as expected.
    let texts: &[&str] = &["good", "bad", "good", "good"];
    let case = |rate: &str| format!("    live: true\n    repeat: 4\n{rate}    expect: {{outputs: {{writer: good}}}}\n");
    for (rate, code) in [
        ("    pass_rate: 0.75\n", 0),
        ("    pass_rate: 0.76\n", 1),
        ("", 1),
        ("    pass_rate: 0\n", 0),
    ] {
        let server = server(texts, &[true]);
        let (_, outcome) = tried(&server, &case(rate), &["--output", "json"]);
        assert_eq!(outcome.code, code, "{rate}{}", outcome.stdout);
        assert_eq!(server.asked().len(), 4, "each is held");
        assert_eq!(json_of(&outcome)["repeated"], json!({"passed": 3, "times": 4}));
    }
    let server = server(texts, &[true]);
    let (_, outcome) = tried(&server, &case("    pass_rate: 0.76\n"), &[]);
    for told in [
        "FAIL ./team.test.yaml: live (3 of 4)\n",
        "  ./team.test.yaml:6:16: conversations that meet all expectations\n    expected  at least 4 of 4\n    actual    3 of 4\n",
        "output of writer (1 of 4)\n    expected  \"good\"\n    actual    \"bad\"\n",
    ] {
        assert!(outcome.stdout.contains(told), "{told}\n{}", outcome.stdout);
    }
}

#[test]
fn what_is_reached_in_any_of_the_conversations_is_covered() {
    let server = server(&["good", "bad"], &[true]);
    let workspace = Workspace::new();
    let with_condition = TEAM.replace("URL", &server.url()).replace(
        "depends_on: [writer]",
        "dependencies: [{agent_name: writer, condition: \"output.response == 'good'\"}]",
    );
    workspace.write("team.yaml", with_condition);
    workspace.write(
        "team.test.yaml",
        "cases: [{name: both, live: true, repeat: 2, expect: {outcome: completed}}]\n",
    );
    let outcome = workspace.run(["test", "--coverage"]).expect_code(0);
    assert!(outcome.stdout.contains("conditions 2/2"), "{}", outcome.stdout);
}

#[test]
fn a_judge_decides_by_votes_and_is_asked_no_more_than_needed() {
    // The verdicts, the votes, the exit code, and how often the judge is asked.
    let rows: [(&'static [bool], u32, i32, usize); 8] = [
        (&[true], 1, 0, 1),
        (&[false], 1, 1, 1),
        (&[true, true, false], 3, 0, 2),
        (&[false, true, true], 3, 0, 3),
        (&[false, true, false], 3, 1, 3),
        (&[false, false, true], 3, 1, 2),
        (&[true, false], 2, 1, 2),
        (&[true, true, true, false, false], 5, 0, 3),
    ];
    for (verdicts, votes, code, times) in rows {
        let server = server(&["hello"], verdicts);
        let case = format!(
            "    live: true\n    expect:\n      judge:\n        - {{criterion: It greets., agent: writer, model_profile: strict, votes: {votes}}}\n"
        );
        let (_, outcome) = tried(&server, &case, &[]);
        assert_eq!(outcome.code, code, "{verdicts:?}: {}{}", outcome.stdout, outcome.stderr);
        assert_eq!(asked_of(&server, true).len(), times, "{verdicts:?} of {votes}");
    }
}

#[test]
fn the_judge_reads_the_criterion_and_the_output_and_its_reasons_are_shown() {
    let server = server(&["hello"], &[false]);
    let case = "    live: true\n    expect:\n      judge:\n        - {criterion: It greets., agent: shout, model_profile: strict, votes: 3}\n        - {criterion: All is there., model_profile: strict}\n";
    let (_, outcome) = tried(&server, case, &[]);
    let told = "  ./team.test.yaml:7:11: judge: It greets.\n    expected  at least 2 of 3 votes\n    actual    0 of 3 votes; no: because it is false; because it is false\n";
    assert!(outcome.stdout.contains(told), "{}", outcome.stdout);
    assert_eq!(outcome.code, 1);
    let asked: Vec<String> = asked_of(&server, true)
        .iter()
        .map(|asked| asked.body["messages"].to_string())
        .collect();
    assert!(
        asked[0].contains("It greets.") && asked[0].contains("HELLO") && !asked[0].contains("hello"),
        "{}",
        asked[0]
    );
    assert!(
        asked[2].contains("All is there.") && asked[2].contains("hello"),
        "{}",
        asked[2]
    );
}

#[test]
fn a_judge_that_cannot_be_asked_is_no_yes() {
    let failing = |asked: &Asked| -> Answer {
        match is_judge(asked) {
            true => answer("400 Bad Request", &[], "no such model"),
            false => says("hello"),
        }
    };
    let case =
        "    live: true\n    expect:\n      judge: [{criterion: It greets., agent: writer, model_profile: strict}]\n";
    let (_, outcome) = tried(&Server::new(move |_, asked| failing(asked)), case, &[]);
    assert!(outcome.stdout.contains("the judge failed: "), "{}", outcome.stdout);
    let server = server(&["hello"], &[true]);
    let (_, unknown) = tried(&server, &case.replace("strict", "nobody"), &[]);
    assert!(unknown.stdout.contains("the judge cannot run: "), "{}", unknown.stdout);
    let (_, no_output) = tried(
        &server,
        &case.replace("live: true", "live: true\n    stubs: {writer: {fail: broken}}"),
        &[],
    );
    assert!(
        no_output.stdout.contains("no output: the agent failed with `broken`"),
        "{}",
        no_output.stdout
    );
    assert_eq!((outcome.code, unknown.code, no_output.code), (1, 1, 1));
    assert_eq!(asked_of(&server, true).len(), 0);
}

#[test]
fn judges_rates_and_repeats_are_for_live_cases_only() {
    let server = server(&["hello"], &[true]);
    let rows = [
        ("    repeat: 2\n    expect: {outcome: completed}\n", "E013", "4:5"),
        ("    pass_rate: 0.5\n    expect: {outcome: completed}\n", "E013", "4:5"),
        (
            "    expect: {judge: [{criterion: x, model_profile: strict}]}\n",
            "E013",
            "4:14",
        ),
        (
            "    live: true\n    repeat: 0\n    expect: {outcome: completed}\n",
            "E015",
            "5:13",
        ),
        (
            "    live: true\n    pass_rate: 1.5\n    expect: {outcome: completed}\n",
            "E015",
            "5:16",
        ),
        (
            "    live: true\n    expect: {judge: [{model_profile: strict}]}\n",
            "E013",
            "5:22",
        ),
        (
            "    live: true\n    expect: {judge: [{criterion: x}]}\n",
            "E013",
            "5:22",
        ),
        (
            "    live: true\n    expect: {judge: [{criterion: x, model_profile: strict, agent: writr}]}\n",
            "E021",
            "5:67",
        ),
    ];
    for (case, code, place) in rows {
        let (workspace, outcome) = tried(&server, case, &["--output", "json"]);
        let found = &outcome.json()["diagnostics"][0];
        let seen = (&found["code"], format!("{}:{}", found["line"], found["column"]));
        assert_eq!(seen, (&json!(code), place.to_owned()), "{case}{}", outcome.stdout);
        workspace.run(["validate", "team.test.yaml"]).expect_code(2);
    }
    assert_eq!(server.asked().len(), 0);
}

#[test]
fn a_live_case_needs_trust_as_a_run_does() {
    let server = server(&["hello"], &[true]);
    let workspace = Workspace::new();
    let keyed = TEAM
        .replace("URL", &server.url())
        .replace("model: writes,", "model: writes, api_key_env: SECRET_KEY,");
    workspace.write("team.yaml", keyed);
    workspace.write(
        "team.test.yaml",
        "cases: [{name: live, live: true, expect: {outcome: completed}}]\n",
    );
    let wary = workspace.wary(["test"], &[("SECRET_KEY", "abc")]).expect_code(1);
    assert!(wary.stdout.contains("trust"), "{}{}", wary.stdout, wary.stderr);
    assert_eq!(server.asked().len(), 0, "the key goes nowhere");
    let trusted = workspace
        .wary(["test", "--trust"], &[("SECRET_KEY", "abc")])
        .expect_code(0);
    assert_eq!(server.asked().len(), 1, "{}", trusted.stdout);
}
