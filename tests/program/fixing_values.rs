//! Fixes of comparisons, keys, filters, variables and `allow` comments: what a value can be says what was meant.

#![expect(clippy::disallowed_methods, reason = "tests look at files")]

use serde_json::Value;

use crate::support::Workspace;

const NONE: &[&str] = &[];

const TEXT: &str = r#"name: review
agents:
  - name: editor
    description: decides
    script: "cat verdict.json"
    output_schema:
      type: object
      properties:
        verdict: {enum: ["yes", "no"]}
        done: {type: boolean}
        score: {type: number}
      required: [verdict, done, score]
      additionalProperties: false
  - name: writer
    description: writes
    model_profile: m
    prompt: "Say {{ input }} to {{ editor.score }}, {{ editor.verdict == 'yes' }}"
    dependencies:
      - agent_name: editor
        condition: output.verdict == 'yes' and output.score > 3 and output.done == true
model_profiles:
  m: {provider: simulated, replies: [a]}
"#;

/// The text after this, and the codes of what is found in it.
fn validated(text: &str, options: &[&str]) -> (String, Vec<String>) {
    let workspace = Workspace::new();
    workspace.write("e.yaml", text);
    let arguments = ["validate", "e.yaml", "--output", "json"];
    let outcome = workspace.run(arguments.iter().chain(options));
    let told: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    let findings = told["diagnostics"].as_array().expect("a list").iter();
    let codes = findings.map(|finding| finding["code"].as_str().expect("a code").to_owned());
    let text = std::fs::read_to_string(workspace.path().join("e.yaml")).expect("a text");
    (text, codes.collect())
}

#[test]
fn what_was_meant_is_written_where_it_is_asked_for() {
    assert_eq!(validated(TEXT, &[]).1, NONE, "the text without mistakes");
    let condition = "output.verdict == 'yes' and output.score > 3 and output.done == true";
    // What is written in the text without mistakes, a mistake, its code, and what the fix makes of it, if that is not the
    // text without mistakes.
    let mistakes = [
        ("verdict == 'yes' and", "verdict == 'Yes' and", "W040", None),
        (
            "verdict == 'yes' and",
            "verdict == \"yess\" and",
            "W040",
            Some("verdict == \"yes\" and"),
        ),
        (
            "verdict == 'yes' and",
            "verdict in ['Yes', 3] and",
            "W040",
            Some("verdict in ['yes', 3] and"),
        ),
        ("output.score > 3", "output.score > '3'", "W041", None),
        ("output.done == true", "output.done == 'True'", "W040", None),
        ("output.done == true", "'no' != output.verdict", "", None),
        (
            "output.done == true",
            "'No' != output.verdict",
            "W040",
            Some("'no' != output.verdict"),
        ),
        ("output.score > 3", "output.skore > 3", "W013", None),
        (
            "output.score > 3",
            "output['skore'] > 3",
            "W013",
            Some("output['score'] > 3"),
        ),
        ("editor.score }}", "editor.skore }}", "W018", None),
        (
            "editor.score }}",
            "editor.score | rund }}",
            "E071",
            Some("editor.score | round }}"),
        ),
        ("verdict == 'yes' }}", "verdict == 'YES' }}", "W040", None),
        ("{{ input }}", "{{ inptu }}", "E044", None),
        ("{{ editor.score }}", "{{ editr.score }}", "E044", None),
        (
            condition,
            "output.done == true # ensemble: allow(W013) it is so",
            "W004",
            Some("output.done == true"),
        ),
    ];
    for (right, wrong, code, fixed) in mistakes {
        assert!(TEXT.contains(right), "{right}");
        let text = TEXT.replacen(right, wrong, 1);
        let (same, told) = validated(&text, &["--fix"]);
        assert_eq!(same, text, "{wrong}: none of these fixes is safe");
        let expected: Vec<&str> = [code].into_iter().filter(|code| !code.is_empty()).collect();
        assert_eq!(told, expected, "{wrong}");
        if !code.is_empty() {
            let (mended, left) = validated(&text, &["--fix", "--unsafe-fixes"]);
            assert_eq!(mended, TEXT.replacen(right, fixed.unwrap_or(right), 1), "{wrong}");
            assert_eq!(left, NONE, "{wrong}");
        }
    }
}

/// What stands in other quotes, in escapes or twice is left to the author.
#[test]
fn where_the_place_is_not_certain_nothing_is_written() {
    for (right, wrong) in [
        ("verdict == 'yes' and", "verdict == '\\u0059es' and"),
        ("{enum: [\"yes\", \"no\"]}", "{enum: [\"it's\", \"no\", \"yes\"]}"),
        ("verdict == 'yes' }}", "(verdict == 'YES') == 'YES' }}"),
    ] {
        let mut text = TEXT.replacen(right, wrong, 1);
        if wrong.contains("it's") {
            text = text.replacen("verdict == 'yes' and", "verdict == 'itss' and", 1);
        }
        let (same, told) = validated(&text, &["--fix", "--unsafe-fixes"]);
        assert_eq!(same, text, "{told:?}");
    }
}

#[test]
fn a_comment_that_allows_nothing_is_removed_with_its_line() {
    let line = "        # ensemble: allow(W018) it is so\n";
    let condition = "        condition:";
    let alone = TEXT.replacen(condition, &format!("{line}{condition}"), 1);
    assert_eq!(
        validated(&alone, &["--fix", "--unsafe-fixes"]),
        (TEXT.to_owned(), Vec::new())
    );
    // One of two codes, and a reason that is missing, are left to the author.
    let two = alone.replace("allow(W018)", "allow(W018, W013)");
    assert_eq!(validated(&two, &["--fix", "--unsafe-fixes"]).0, two);
    let misspelt = alone.replace("allow(W018)", "allow(W0118)");
    let (mended, _) = validated(&misspelt, &["--fix", "--unsafe-fixes"]);
    assert!(!mended.contains("W0118"), "{mended}");
    let error = alone.replace("allow(W018)", "allow(E021)");
    assert_eq!(validated(&error, &["--fix", "--unsafe-fixes"]).0, error);
}
