//! `test` through the binary: what models and people are asked, people who answer late, replies of models, refused runs.

use crate::support::{Outcome, Workspace};
use serde_json::Value;

const SHOP: &str = r#"name: shop
model_profiles: {real: {provider: openai, model: gpt-5-mini}, user: {provider: simulated, replies: [from a model]}}
tools:
  pay: {script: ./pay.sh, description: Pays, parameters: {type: object, required: [amount], properties: {amount: {type: integer}}}}
  note: {script: note.rhai, description: Notes, parameters: {type: object, properties: {word: {type: string}}}}
agents:
  - {name: ask, input: {prompt: "Buy {{ input }}?", choices: ['yes', 'no'], default: 'no', timeout_seconds: 60}}
  - {name: strict, input: {prompt: "Sure?", timeout_seconds: 60}, on_error: continue}
  - name: bot
    model_profile: real
    system_prompt: You are a shop.
    prompt: "Pay for {{ input }}: {{ ask }}"
    tools: [pay, note]
    dependencies: [{agent_name: ask, condition: "output.response == 'yes'"}]
  - {name: log, script: ./log.sh, depends_on: [ask]}
  - name: each
    script: ./each.sh
    for_each: {times: 5, as: n, max_parallel: 3}
    depends_on: [ask]
result: {paid: "outputs.get('bot', {}).get('response')"}
"#;

/// Runs one case of the shop, and returns its failures.
fn tried(case: &str) -> (Outcome, Vec<Value>) {
    let workspace = Workspace::new();
    workspace.write("shop.yaml", SHOP);
    workspace.write("note.rhai", "`noted ${parameters.word}`");
    for script in ["pay.sh", "log.sh", "each.sh"] {
        workspace.write(script, "touch ran\n");
    }
    workspace.write("shop.test.yaml", format!("cases:\n  - name: a\n    input: tea\n{case}"));
    let outcome = workspace.run(["test", "--output", "json"]);
    assert!(
        !workspace.path().join("ran").exists(),
        "a program ran: {}",
        outcome.stdout
    );
    let failures = outcome.json()["files"][0]["cases"][0]["failures"].clone();
    (outcome, failures.as_array().cloned().unwrap_or_default())
}

/// Stubs of all programs.
const PROGRAMS: &str = "log: l, each: x";

#[test]
fn what_a_case_expects_of_people_models_turns_and_parts_is_met() {
    let rows = [
        // The agent calls its tools itself: a program has a result, and a script in the process runs.
        "    answers: {ask: 'yes', strict: x}
    stubs:
      bot:
        replies:
          - {tool: pay, arguments: {amount: 3}, result: paid}
          - [{tool: note, arguments: {word: a}}, {tool: note, arguments: {word: b}}]
          - {text: done}
      log: l
      each: x
    expect:
      outcome: [timeout, completed]
      exit: 0
      asked: {ask: [Buy tea?], bot: ['Pay for tea: yes', You are a shop.]}
      result: {exactly: {paid: done}}
      same_turn: [[bot, log], [ask]]
      at_once: {each: 3}
      outputs: {bot: done}
",
        // A tool can have a stub.
        "    answers: {ask: 'yes', strict: x}
    stubs: {bot: {replies: [{tool: pay, arguments: {amount: 3}}, done]}, pay: paid, log: l, each: x}
    expect: {outputs: {bot: done}}
",
        // Too late: the default. In time: the answer. Nobody in time: the default. Only Enter: the default.
        "    answers: {ask: {text: 'yes', delay_seconds: 60}, strict: x}
    stubs: {log: l, each: x}
    expect: {outcome: completed, never: [bot], outputs: {ask: 'no'}}
",
        "    answers: {strict: x}
    stubs: {ask: {text: 'yes', delay_seconds: 59}, log: l, each: x, bot: ok}
    expect: {outcome: completed, outputs: {ask: 'yes', bot: ok}, asked: {bot: 'tea: yes'}}
",
        "    answers: {strict: x}
    stubs: {ask: {fail: nobody, kind: timeout}, log: l, each: x}
    expect: {outcome: completed, outputs: {ask: 'no'}}
",
        "    answers: {ask: '', strict: x}
    stubs: {log: l, each: x}
    expect: {outcome: completed, outputs: {ask: 'no'}}
",
        // Without a default, a late answer is a failure.
        "    answers: {strict: {text: x, delay_seconds: 61}}
    stubs: {log: l, each: x}
    expect:
      outcome: completed
      outputs: {ask: 'no'}
      conditions: ['history[1].agent_name == \"strict\" and not history[1].success']
",
        // A model answers for a person and for a script.
        "    respond: {strict: user, log: user}
    stubs: {each: x}
    expect: {outputs: {strict: from a model, log: from a model}, asked: {log: ['the agent `log`', tea]}}
",
        // Inputs that are refused.
        "    answers: {ask: maybe}
    expect: {refused: true, exit: 2}
",
    ];
    for case in rows {
        let (outcome, failures) = tried(case);
        assert_eq!((outcome.code, failures), (0, Vec::new()), "{case}");
    }
}

#[test]
fn what_is_not_met_says_what_was_expected_and_what_happened() {
    let case = |expect: &str| {
        format!(
            "    answers: {{ask: 'yes', strict: x}}\n    stubs: {{{PROGRAMS}, bot: {{replies: [hello]}}}}\n    expect: {expect}\n"
        )
    };
    for (expect, what, expected, actual) in [
        (
            "{outcome: [timeout, cancelled]}",
            "outcome",
            "timeout or cancelled",
            "completed",
        ),
        ("{exit: 4}", "exit", "4", "0 (completed)"),
        (
            "{asked: {bot: [Pay, coffee]}}",
            "prompt of bot",
            "a prompt that contains \"coffee\"",
            "You are a shop.\n\nPay for tea: yes",
        ),
        (
            "{asked: {ask: coffee}}",
            "prompt of ask",
            "a prompt that contains \"coffee\"",
            "Buy tea?",
        ),
        (
            "{same_turn: [[ask, bot]]}",
            "same turn",
            "a turn with ask + bot",
            "ask + strict, bot + log + each",
        ),
        ("{at_once: {each: 2}}", "each at once", "at most 2", "3"),
        ("{result: {exactly: {}}}", "result", "{}", "{\"paid\":\"hello\"}"),
        (
            "{refused: true}",
            "refused",
            "the ensemble or its inputs are refused before a run",
            "a run that ended as completed",
        ),
    ] {
        let (outcome, failures) = tried(&case(expect));
        assert_eq!((outcome.code, failures.len()), (1, 1), "{expect}: {failures:?}");
        let failure = &failures[0];
        let told = (&failure["what"], &failure["expected"], &failure["actual"]);
        assert_eq!(told, (&what.into(), &expected.into(), &actual.into()), "{expect}");
    }
}

#[test]
fn what_is_missing_has_an_expectation_and_what_there_is() {
    for (stubs, what, expected, actual) in [
        (
            "log: l, each: x",
            "execution 1 of bot has no stub, but needs the model `openai/gpt-5-mini`",
            "a stub",
            "no stub; without a stub, bot needs the model `openai/gpt-5-mini`",
        ),
        (
            "log: l, each: x, bot: {replies: [{tool: pay, arguments: {amount: 1}}, done]}",
            "execution 1 of bot calls `pay`, which needs the program `./pay.sh`",
            "a result of the call",
            "no `result`; without a result, `pay` needs the program `./pay.sh`",
        ),
        (
            "log: l, each: x, bot: {replies: [{tool: note, arguments: {word: a}}]}",
            "execution 1 of bot has no reply for request 2",
            "a reply for request 2",
            "`replies` that end at request 1",
        ),
    ] {
        let case = format!(
            "    answers: {{ask: 'yes', strict: x}}\n    stubs: {{{stubs}}}\n    expect: {{outcome: completed}}\n"
        );
        let (outcome, failures) = tried(&case);
        assert_eq!((outcome.code, failures.len()), (1, 1), "{failures:?}");
        let failure = &failures[0];
        let told = (&failure["what"], &failure["expected"], &failure["actual"]);
        assert_eq!(told, (&what.into(), &expected.into(), &actual.into()));
    }
}

#[test]
fn an_ensemble_with_errors_is_refused_as_its_cases_expect() {
    let workspace = Workspace::new();
    workspace.write(
        "bad.yaml",
        "name: bad\nagents: [{name: a, script: x, depends_on: [b]}]\n",
    );
    workspace.write("bad.test.yaml", "cases: [{name: a, expect: {refused: true}}]\n");
    workspace.run(["test"]).expect_code(0);
    workspace.write(
        "bad.test.yaml",
        "cases: [{name: a, expect: {refused: true, exit: 3}}]\n",
    );
    let failed = workspace.run(["test"]).expect_code(1);
    let told = "2, because the ensemble or its inputs are refused";
    assert!(failed.stdout.contains(told), "{}", failed.stdout);
    // Another case cannot run.
    let both = "cases: [{name: a, expect: {refused: true}}, {name: b, expect: {outcome: completed}}]\n";
    workspace.write("bad.test.yaml", both);
    workspace.run(["test"]).expect_code(2);
    workspace.write(
        "bad.test.yaml",
        "ensemble: gone.yaml\ncases: [{name: a, expect: {refused: true}}]\n",
    );
    workspace.run(["test"]).expect_code(2);
}

#[test]
fn a_missing_script_without_a_stub_refuses_a_run_as_its_case_expects() {
    let workspace = Workspace::new();
    workspace.write("inner.yaml", "name: inner\nagents: [{name: x, script: ./gone.sh}]\n");
    workspace.write(
        "a.yaml",
        "name: a\nagents: [{name: y, input: \"go?\"}, {name: x, ensemble: inner.yaml, depends_on: [y]}]\n",
    );
    let case = |more: &str| {
        let case = format!("cases: [{{name: a, answers: {{y: q}}, {more}}}]\n");
        workspace.write("a.test.yaml", case);
        workspace.run(["test", "a.test.yaml"]).code
    };
    assert_eq!(case("expect: {refused: true}"), 0);
    assert_eq!(case("expect: {exit: 2}"), 0);
    assert_eq!(case("stubs: {x.x: z}, expect: {outcome: completed}"), 0);
    assert_eq!(case("stubs: {x.x: z}, expect: {refused: true}"), 1);
}

#[test]
fn what_cannot_have_an_effect_in_a_case_is_an_error() {
    for (case, told) in [
        (
            "stubs: {log: {replies: [x]}}",
            "log calls no model, so its stub cannot have `replies`",
        ),
        ("stubs: {bot: {replies: []}}", "`replies` must have at least one reply"),
        (
            "stubs: {bot: {replies: [{text: a, result: b}]}}",
            "`result` has no effect, because this reply calls no tool",
        ),
        (
            "stubs: {bot: {replies: [{tool: pay, error: b}]}}",
            "`error` has no effect, because this reply calls a tool",
        ),
        (
            "stubs: {each: {parts: {'0': {replies: [x]}}}}",
            "a part cannot have `replies`",
        ),
        (
            "respond: {bot: user}",
            "bot is neither an input agent nor a script agent",
        ),
        (
            "expect: {asked: {log: [x]}}",
            "log asks neither a model nor a person, so it has no prompt",
        ),
        ("expect: {same_turn: [[bot, lgo]]}", "there is no agent `lgo`"),
        ("expect: {at_once: {bot: 0}}", "at_once"),
        ("expect: {exit: 300}", "exit code from 0 to 255"),
    ] {
        let workspace = Workspace::new();
        workspace.write("shop.yaml", SHOP);
        let file = format!("cases: [{{name: a, from: run, {case}}}]\n").replace("from: run, ", "");
        workspace.write("shop.test.yaml", file);
        let outcome = workspace.run(["test"]).expect_code(2);
        assert!(outcome.stderr.contains(told), "{told}: {}", outcome.stderr);
    }
}
