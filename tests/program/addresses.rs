//! Names of questions in options, answers files and tests: addresses, every part, every call, and bare names.

use crate::support::{Outcome, Workspace};

const OUTER: &str = "\
name: outer
agents:
  - {name: each, ensemble: inner.yaml, for_each: {in: [alpha, beta], key: item}, prompt: '{{ item }}'}
";
const INNER: &str = "\
name: inner
agents:
  - {name: ok, input: {prompt: 'Is {{ input }} good?', choices: ['yes', 'no']}}
";
const BOT: &str = "\
name: bot
model_profiles: {m: {provider: simulated, script: model.rhai}}
tools:
  lookup: {ensemble: gate.yaml, description: Looks it up, parameters: {type: object}}
  ask: {agent: person, description: Asks, parameters: {type: object}}
agents:
  - {name: bot, model_profile: m, tools: [lookup, ask]}
  - {name: person, input: {prompt: 'Who?', choices: [me, you]}}
";
const GATE: &str = "name: gate\nagents: [{name: gate, input: {prompt: 'Open?', choices: [open, shut]}}]\n";
const MODEL: &str = "\
if messages.len() <= 1 {
    #{ text: \"\", tool_calls: [#{ name: \"lookup\", arguments: #{} }, #{ name: \"ask\", arguments: #{} }] }
} else {
    let said = \"\";
    for message in messages { said += message.content + \";\"; }
    said
}
";

fn workspace() -> Workspace {
    let workspace = Workspace::new();
    workspace.write("outer.yaml", OUTER);
    workspace.write("inner.yaml", INNER);
    workspace.write("bot.yaml", BOT);
    workspace.write("gate.yaml", GATE);
    workspace.write("model.rhai", MODEL);
    workspace
}

fn run(workspace: &Workspace, file: &str, options: &[&str]) -> Outcome {
    workspace.run(["run", file].iter().chain(options))
}

#[test]
fn a_name_without_a_key_means_every_part_and_the_most_precise_name_wins() {
    let workspace = workspace();
    workspace.write("every.yaml", "each.ok: 'yes'\n");
    workspace.write("mixed.yaml", "ok: 'no'\neach[alpha].ok: 'yes'\n");
    let rows: [(&[&str], &str, &str); 7] = [
        (&["--stub", "each.ok=yes"], "yes", "yes"),
        (&["--stub", "ok=no"], "no", "no"),
        (&["--stub", "each[alpha].ok=yes", "--stub", "each.ok=no"], "yes", "no"),
        (&["--always-answer", "each.ok=yes"], "yes", "yes"),
        (&["--answer", "each.ok=no", "--answer", "each.ok=no"], "no", "no"),
        (&["--answers", "every.yaml"], "yes", "yes"),
        (&["--answers", "mixed.yaml"], "yes", "no"),
    ];
    for (options, alpha, beta) in rows {
        let outcome = run(&workspace, "outer.yaml", options).expect_code(0);
        for (part, answer) in [("alpha", alpha), ("beta", beta)] {
            let line = format!("[{part}] response: {answer}");
            assert!(outcome.stdout.contains(&line), "{options:?}: {}", outcome.stdout);
        }
        assert!(!outcome.stderr.contains("warning"), "{options:?}: {}", outcome.stderr);
    }
    for options in [
        ["--stub", "each[alpha].go=yes"],
        ["--always-answer", "each[alpha].go=yes"],
    ] {
        run(&workspace, "outer.yaml", &options).expect_code(2);
    }
}

#[test]
fn a_resume_asks_which_part_is_meant_by_one_answer() {
    let workspace = workspace();
    run(&workspace, "outer.yaml", &[]).expect_code(3);
    let refused = workspace
        .run(["resume", "--last", "--answer", "each.ok=yes"])
        .expect_code(2);
    let told = "`each.ok` is not unique; what waits for an answer: `each[alpha].ok`, `each[beta].ok`";
    assert!(refused.stderr.contains(told), "{}", refused.stderr);
    let wrong = ["resume", "--last", "--always-answer", "each.ok=maybe"];
    workspace.run(wrong).expect_code(2);
    workspace
        .run(["resume", "--last", "--always-answer", "each.ok=yes"])
        .expect_code(0);
}

#[test]
fn a_test_answers_questions_in_parts_and_calls() {
    let workspace = workspace();
    workspace.write(
        "outer.test.yaml",
        "cases:
  - {name: every, answers: {each.ok: 'yes'}, expect: {outcome: completed}}
  - {name: bare, answers: {ok: 'yes'}, expect: {outcome: completed}}
  - name: one
    answers: {'each[alpha].ok': 'yes', 'each[beta].ok': {text: 'no', delay_seconds: 5}}
    expect: {outcome: completed, result: {each: {items: [{response: 'yes'}, {response: 'no'}]}}}
  - {name: stub, stubs: {'each[beta].ok': 'no'}, answers: {each.ok: 'yes'}, expect: {outcome: completed}}
  - {name: open, answers: {'each[alpha].ok': 'yes'}, expect: {outcome: waiting_for_input}}
",
    );
    workspace.write(
        "bot.test.yaml",
        "cases:
  - {name: address, answers: {'bot/lookup#1.gate': open, 'bot/ask#1.person': me}, expect: {outcome: completed}}
  - {name: every, answers: {lookup.gate: open, person: me}, expect: {outcome: completed}}
  - {name: bare, answers: {gate: open, person: you}, expect: {outcome: completed}}
",
    );
    workspace.run(["test"]).expect_code(0);
    for (name, message) in [
        ("each[alpha].go", "an answer is given for `each[alpha].go`"),
        ("eech[alpha].ok", "there is no agent `eech[alpha].ok`"),
        ("go", "an answer is given for `go`"),
    ] {
        let case = format!("cases:\n  - {{name: a, answers: {{'{name}': 'yes'}}, expect: {{outcome: completed}}}}\n");
        workspace.write("outer.test.yaml", case);
        let outcome = workspace.run(["test", "outer.test.yaml"]);
        let text = format!("{}{}", outcome.stdout, outcome.stderr);
        assert!(outcome.code != 0 && text.contains(message), "{name}: {text}");
    }
}

#[test]
fn a_person_who_is_a_tool_is_waited_for() {
    let workspace = workspace();
    let waiting = run(&workspace, "bot.yaml", &["--always-answer", "lookup.gate=open"]).expect_code(3);
    assert!(
        waiting.stderr.contains("bot/ask#1.person asks: Who?"),
        "{}",
        waiting.stderr
    );
    let resumed = workspace
        .run(["resume", "--last", "--answer", "bot/ask#1.person=you"])
        .expect_code(0);
    assert!(resumed.stdout.contains("← ask: you"), "{}", resumed.stdout);
    let given = ["--answer", "bot/lookup#1.gate=open", "--answer", "bot/ask#1.person=me"];
    let outcome = run(&workspace, "bot.yaml", &given).expect_code(0);
    assert!(outcome.stdout.contains("← ask: me"), "{}", outcome.stdout);
}

#[test]
fn parts_take_answers_for_every_part_in_the_order_of_the_list() {
    let rows: [(&[&str], [Option<&str>; 3]); 4] = [
        (&["ok=1", "ok=2", "ok=3"], [Some("1"), Some("2"), Some("3")]),
        (&["each.ok=1", "ok=2"], [Some("1"), Some("2"), None]),
        (&["ok=1", "each[alpha].ok=0", "ok=2"], [Some("0"), Some("1"), Some("2")]),
        (&["ok=1"], [Some("1"), None, None]),
    ];
    for (given, expected) in rows {
        assert_answers_of_parts(given, expected);
    }
}

/// Runs parts of which the earlier ones take longer before they ask, and checks who got which answer.
fn assert_answers_of_parts(given: &[&str], expected: [Option<&str>; 3]) {
    let workspace = Workspace::new();
    workspace.write("outer.yaml", OUTER.replace("[alpha, beta]", "[alpha, beta, gamma]"));
    workspace.write(
        "inner.yaml",
        "name: inner\nagents:\n  - {name: wait, script: wait.rhai}\n  - {name: ok, depends_on: [wait], input: {prompt: 'Is {{ input }} good?'}}\n",
    );
    workspace.write(
        "wait.rhai",
        "let rounds = if input == \"alpha\" { 60000 } else if input == \"beta\" { 20000 } else { 1 };\n\
         let sum = 0; for round in 0..rounds { sum += round; } #{ sum: sum }",
    );
    let options: Vec<&str> = given.iter().flat_map(|one| ["--answer", *one]).collect();
    let code = if expected.contains(&None) { 3 } else { 0 };
    let outcome = run(&workspace, "outer.yaml", &options).expect_code(code);
    let text = format!("{}{}", outcome.stdout, outcome.stderr);
    let parts = workspace
        .journal()
        .into_iter()
        .filter(|record| record["event"] == "part_ended");
    let answers: std::collections::HashMap<String, String> = parts
        .map(|part| {
            let answer = part["data"]["output"]["ok"]["response"].as_str().unwrap_or_default();
            (
                part["data"]["key"].as_str().unwrap_or_default().to_owned(),
                answer.to_owned(),
            )
        })
        .collect();
    for (key, answer) in ["alpha", "beta", "gamma"].iter().zip(expected) {
        assert_eq!(answers.get(*key).map(String::as_str), answer, "{given:?} {key}: {text}");
    }
}

/// A bot in each part asks a person with a tool. Earlier parts take longer before they ask.
const ASKING_PARTS: &str = "\
name: bots
model_profiles: {m: {provider: simulated, script: model.rhai}}
tools:
  ask: {agent: person, description: Asks, parameters: {type: object}, timeout_seconds: 600EXCLUSIVE}
agents:
  - {name: bot, model_profile: m, tools: [ask], prompt: '{{ item }}', for_each: {in: [alpha, beta, gamma], key: item}}
  - {name: person, input: {prompt: 'Who?'}}
";

const ASKING_MODEL: &str = "\
let rounds = if prompt == \"alpha\" { 60000 } else if prompt == \"beta\" { 20000 } else { 1 };
let sum = 0; for round in 0..rounds { sum += round; }
let last = messages[messages.len() - 1];
if last.role == \"user\" { #{ text: \"\", tool_calls: [#{ name: \"ask\" }] } } else { last.tool_calls[0].result }
";

#[test]
fn questions_in_calls_of_parts_take_answers_in_the_order_of_the_list() {
    // With an exclusive tool, the parts wait for each other anyway, and no question waits for an earlier part.
    for (exclusive, is_ordered) in [("", true), (", exclusive: true", false)] {
        let workspace = Workspace::new();
        workspace.write("bots.yaml", ASKING_PARTS.replace("EXCLUSIVE", exclusive));
        workspace.write("model.rhai", ASKING_MODEL);
        let given = ["--answer", "person=1", "--answer", "person=2", "--answer", "person=3"];
        let outcome = run(&workspace, "bots.yaml", &given).expect_code(0);
        let parts = workspace.journal().into_iter();
        let mut answers: Vec<(String, String)> = parts
            .filter(|record| record["event"] == "part_ended")
            .map(|record| {
                let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
                (
                    text(&record["data"]["key"]),
                    text(&record["data"]["output"]["response"]),
                )
            })
            .collect();
        answers.sort();
        let answers: Vec<&str> = answers.iter().map(|(_, answer)| answer.as_str()).collect();
        if is_ordered {
            assert_eq!(answers, ["1", "2", "3"], "{}{}", outcome.stdout, outcome.stderr);
        } else {
            assert_eq!(answers.len(), 3, "{answers:?}");
        }
    }
}
