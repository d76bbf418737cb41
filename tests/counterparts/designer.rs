//! The designer of `ensemble ui` in a real browser: typing, fixes, edits in the graph whose files are compared byte for byte, undo, conflicts, and axe's
//! judgement.
//!
//! `tests/install.sh browser` installs Chromium, Playwright and axe. Without them this test says so and proves nothing.

#![expect(clippy::disallowed_methods, reason = "tests start programs")]

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{Workspace, binary};

const TEXT: &str = "\
# A design.
name: design
agents:
  # the first
  - name: first
    script: one.rhai   # counts

  - name: second
    script: two.rhai
    depends_on: [first]  # short
conversation_limits: {max_agent_executions: {first: 3}}
# the end
";
const THIRD: &str = "
  - name: third
    script: one.rhai
    depends_on: [second";

#[test]
fn a_person_edits_an_ensemble() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let Some(modules) = super::browser::modules() else {
        return;
    };
    let workspace = Workspace::new();
    workspace.write("ensembles/design.yaml", TEXT);
    workspace.write("ensembles/one.rhai", "#{ n: execution, word: \"yes\" }");
    workspace.write(
        "ensembles/two.rhai",
        "#{ n: dependencies.first.n, w: dependencies[\"first\"].word }",
    );
    let cases = "cases:\n  - name: both\n    expect: {order: [first, second]}\n";
    workspace.write("ensembles/design.test.yaml", cases);
    let mut visit = Command::new("node");
    visit.arg(root.join("tests/browser/design.mjs"));
    visit.args([&modules, Path::new(binary()), &workspace.path()]);
    visit.args(std::env::var_os("ENSEMBLE_PICTURES"));
    let output = visit.env("ENSEMBLE_TRUST", "1").output().expect("node starts");
    let said = String::from_utf8_lossy(&output.stderr);
    let seen: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    let is = |key: &str, expected: Value| assert_eq!(seen[key], expected, "{key}: {seen:#}\n{said}");
    is("failed", Value::Null);
    is("errors", json!([]));
    is("axe", json!([]));
    is("opened", json!(2));
    is("marked", json!("6"));
    let finding = seen["finding"].as_str().unwrap_or_default();
    assert!(
        finding.starts_with("Error E010 line 6: ") && finding.contains("scrpt"),
        "{finding}"
    );
    is("went", json!("scrpt"));
    is("typed", json!("# the end\nx-more:\n    a: 1"[6..]));
    is("left", json!("found"));
    is("undone", json!(true));
    let text = |third: &str| TEXT.replace("# short\n", &format!("# short\n{third}"));
    is("added", json!(text(&format!("{THIRD}]\n"))));
    is("connected", json!(text(&format!("{THIRD}, first]\n"))));
    let with_condition = |first: &str| {
        format!(
            "{THIRD}]\n    dependencies:\n      - agent_name: {first}\n        condition: output.n > 1 and output.word != 'no'\n"
        )
    };
    is("conditioned", json!(text(&with_condition("first"))));
    let turns = "    conversation:\n      max_turns: 2\n";
    let with_keys = |keys: &str| json!(text(&format!("{}{keys}{turns}", with_condition("first"))));
    let vain = seen["vain"][0].as_str().unwrap_or_default();
    assert!(
        vain.contains("`third` runs only once") && vain.contains("`conversation.max_turns` above 1"),
        "{vain}"
    );
    assert_eq!(seen["vain"][1], false);
    is("turns_focused", json!("third conversation.max_turns"));
    is("turned", with_keys(""));
    is("feedback", json!(["1 first feedback", true]));
    is("fed", with_keys("        feedback: true\n"));
    is("any", with_keys("        feedback: true\n        on: any\n"));
    is(
        "limit",
        json!(["`max_executions` is a whole number of at least 1, not 0", ""]),
    );
    is("unkeyed", json!(true));
    let renamed = |third: &str| {
        text(third)
            .replace("name: first", "name: begin")
            .replace("[first]", "[begin]")
            .replace("{first: 3}", "{begin: 3}")
    };
    is(
        "renamed",
        json!(renamed(&format!("{}{turns}", with_condition("begin")))),
    );
    is(
        "script",
        json!("#{ n: dependencies.begin.n, w: dependencies[\"begin\"].word }"),
    );
    let rest = format!("{}{turns}", with_condition("begin")).replace("    depends_on: [second]\n", "");
    let first = "#{ n: dependencies.first.n, w: dependencies[\"first\"].word }";
    is("name_back", json!(first));
    is("disconnected", json!(renamed(&rest)));
    is("removed", json!(renamed("")));
    is("refused", json!("an agent `begin` already exists; choose another name"));
    is("back", json!(TEXT));
    is("again", json!(true));
    is(
        "script_back",
        json!("#{ n: dependencies.first.n, w: dependencies[\"first\"].word }"),
    );
    is("script_again", seen["script"].clone());
    is("followed", json!(true));
    is("late", json!(true));
    let told = seen["told"].as_str().unwrap_or_default();
    assert!(told.contains("changed on disk by another program"), "{told}");
    is("conflict", json!({"disk": true, "shown": true, "kept": true}));
    for key in ["copied", "put", "kept", "draft"] {
        is(key, json!(true));
    }
    is("old", json!("Graph of the last text without errors"));
    let tests = cases.replace("[first", "[begin");
    is("tested", json!(format!("{tests}# kept")));
    let finding = seen["tests"].as_str().unwrap_or_default();
    assert!(finding.contains("nme"), "{finding}");
    is(
        "taken",
        json!("`ensembles/design.yaml` exists already; choose another name"),
    );
    for key in ["alone", "created"] {
        is(key, json!(true));
    }
    assert_eq!(seen["wrong"][0], "{{ nobody.response }}");
    let wrong = seen["wrong"][1].as_str().unwrap_or_default();
    assert!(wrong.contains("nobody"), "{wrong}");
    let built = seen["loop"].as_str().unwrap_or_default();
    for part in [
        "# A chat with one language model, which remembers the conversation.",
        "    prompt: \"{{ input }} {{ critic.response }}\"\n",
        "    conversation:\n      max_turns: 3\n",
        "      - agent_name: critic\n        condition: not output.good\n        feedback: true\n",
        "    model: simulated/critic\n",
        "conversation_limits:\n  max_total_turns: 6\n",
        "result:\n  text: outputs.companion.response\n",
        "success: outputs.critic.good\n",
    ] {
        assert!(built.contains(part), "{part}\n{built}");
    }
    is("wide", json!(false));
}

const BLANK: &str = "\
name: blank
inputs: # of a run
conversation_limits:
agents:
  - name: one
    model: simulated/one
    prompt: # later
    conversation:
";
const BROKEN: &str = "\
name: broken
agents:
  - name: lonely
    model: simulated/one
    prompt: Go.
    conversation: {max_turns: 0}
";

#[test]
fn a_person_builds_a_loop_from_nothing_and_runs_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let Some(modules) = super::browser::modules() else {
        return;
    };
    let workspace = Workspace::new();
    workspace.write("ensembles/blank.yaml", BLANK);
    workspace.write("ensembles/broken.yaml", BROKEN);
    let mut visit = Command::new("node");
    visit.arg(root.join("tests/browser/loop.mjs"));
    visit.args([&modules, Path::new(binary()), &workspace.path()]);
    visit.args(std::env::var_os("ENSEMBLE_PICTURES"));
    let output = visit.env("ENSEMBLE_TRUST", "1").output().expect("node starts");
    let said = String::from_utf8_lossy(&output.stderr);
    let seen: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    let is = |key: &str, expected: Value| assert_eq!(seen[key], expected, "{key}: {seen:#}\n{said}");
    is("failed", Value::Null);
    is("errors", json!([]));
    is("axe", json!([]));
    is("tall", json!(false));
    for key in ["required", "optional", "about"] {
        is(key, json!(true));
    }
    let contains = |key: &str, part: &str| {
        let told = seen[key].as_str().unwrap_or_default();
        assert!(told.contains(part), "{key}: {told}");
    };
    contains("bad_name", "`1st` cannot be a name here");
    contains("taken_name", "an input `words` already exists; choose another name");
    is("renamed", json!(2));
    is("half_filled", json!("half"));
    contains("prompt_after_rename", "Write about {{ inputs.subject }} in");
    contains(
        "wrong_minimum",
        "the default of the input `words` does not match its schema",
    );
    for part in [
        "# A chat with one language model, which remembers the conversation.",
        "# A simulated model: a script computes the replies.",
        "inputs:\n  topic:\n    type: string\n    description: What the tale is about.\n  words:\n    type: integer\n    default: 50\n",
        "    model_profile: writer\n",
        "    prompt: \"Write about {{ inputs.topic }} in {{ inputs.words }} words. {{ critic.notes }}\"\n",
        "      - agent_name: critic\n        condition: not output.good\n        feedback: true\n",
        "conversation_limits:\n  max_total_turns: 8\n",
        "result:\n  text: outputs.writer.response\n",
        "success: outputs.critic.good\n",
    ] {
        contains("text", part);
    }
    is("state", json!("tale completed"));
    is("result", json!("Result text A tale."));
    is("executions", json!(["writer", "critic", "writer #2", "critic #2"]));
    is("sent", json!("Write about the sea in 50 words. Too long."));
    is("blank", json!(""));
    is(
        "filled",
        json!(
            BLANK
                .replace("# of a run\n", "# of a run\n  topic:\n    type: string\n")
                .replace("limits:\n", "limits:\n  max_total_turns: 4\n")
                .replace("prompt: # later", "prompt: Say hello. # later")
                .replace("conversation:\n", "conversation:\n      max_turns: 2\n")
        ),
    );
    let again = workspace.run(["run", "tale", "--set", "topic=the sea"]).expect_code(0);
    assert!(again.stdout.contains("A tale."), "{}", again.stdout);
}
