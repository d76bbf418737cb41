//! `validate --format github|sarif|junit` through the binary.

use crate::support::{Outcome, Workspace};
use serde_json::{Value, json};

/// An error with a second place and a help, one that ranges over two lines, a warning and a hint.
const FAULTY: &str = "\
name: faulty
agents:
  - name: a
    script: there.rhai
    depends_on: [b, b, ç]
  - name: b
    script: there.rhai
    description: {a: 1,
      b: 2}
";
const WARNED: &str = "\
name: warned
agents:
  - {name: a, script: there.rhai, conversation: {state_key: k}}
  - {name: b, ensemble: \"gone<&>%.yaml\", conversation: {state_key: k}}
";

fn workspace() -> Workspace {
    let workspace = Workspace::new();
    workspace.write("e/1,a:b %.yaml", FAULTY);
    workspace.write("e/2.yaml", WARNED);
    workspace.write("e/3.yaml", "name: fine\nagents: [{name: a, script: there.rhai}]\n");
    workspace.write("e/there.rhai", "1");
    workspace
}

fn validate(workspace: &Workspace, format: &str, more: &[&str]) -> Outcome {
    workspace.run([&["validate", "e", "--format", format], more].concat())
}

#[test]
fn github_gets_one_escaped_command_for_each_finding() {
    let workspace = workspace();
    let outcome = validate(&workspace, "github", &[]).expect_code(2);
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    let file = "file=e/1%2Ca%3Ab %25.yaml";
    assert_eq!(lines.len(), 5, "{lines:#?}");
    assert_eq!(
        lines[0],
        format!(
            "::error {file},line=5,col=21,endLine=5,endColumn=22,title=E026::`b` is in `depends_on` twice%0Afix: remove one of the two"
        )
    );
    assert!(
        lines[1].starts_with(&format!("::error {file},line=5,col=24,endLine=5,endColumn=25,title=E0")),
        "{lines:#?}"
    );
    assert!(
        lines[2].starts_with(&format!(
            "::error {file},line=8,endLine=9,title=E014::expected a string, found a map%0Ahelp: "
        )),
        "{lines:#?}"
    );
    assert!(
        lines[3].starts_with("::notice file=e/2.yaml,line=4,col=")
            || lines[3].starts_with("::warning file=e/2.yaml,line=4,col="),
        "{lines:#?}"
    );
    let warning = lines
        .iter()
        .find(|line| line.starts_with("::warning "))
        .expect("a warning");
    assert!(
        warning.contains("title=W003::") && warning.contains("%25.yaml"),
        "{warning}"
    );
    assert_eq!(outcome.stderr, "");
}

#[test]
fn full_paths_below_the_folder_are_named_from_there() {
    let workspace = workspace();
    let full = workspace.path().join("e/2.yaml");
    let outcome = workspace
        .run(["validate", full.to_str().expect("UTF-8"), "--format", "github"])
        .expect_code(0);
    assert!(outcome.stdout.contains(" file=e/2.yaml,"), "{}", outcome.stdout);
}

#[test]
fn sarif_is_what_its_schema_says() {
    // The schema's pattern for languages holds a lone `]`, which ECMAScript takes only outside of its strict mode.
    let schema = include_str!("../fixtures/sarif-schema-2.1.0.json").replace("{2}]?$", "{2}\\\\]?$");
    let schema: Value = serde_json::from_str(&schema).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let workspace = workspace();
    let log = validate(&workspace, "sarif", &[]).expect_code(2).json();
    let errors: Vec<String> = validator.iter_errors(&log).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    assert!(
        !validator.is_valid(&json!({"version": "2.1.0", "runs": [{}]})),
        "the schema can fail"
    );

    let run = &log["runs"][0];
    let rules = run["tool"]["driver"]["rules"].as_array().expect("rules");
    let results = run["results"].as_array().expect("results");
    assert_eq!(results.len(), 5);
    for result in results {
        let index = usize::try_from(result["ruleIndex"].as_u64().expect("an index")).expect("small");
        assert_eq!(rules[index]["id"], result["ruleId"]);
        assert!(rules[index]["shortDescription"]["text"].is_string() && rules[index]["help"]["text"].is_string());
    }
    let first = &results[0];
    assert_eq!((&first["ruleId"], &first["level"]), (&json!("E026"), &json!("error")));
    assert_eq!(
        first["locations"][0]["physicalLocation"],
        json!({
            "artifactLocation": {"uri": "e/1%2Ca%3Ab%20%25.yaml"},
            "region": {"startLine": 5, "startColumn": 21, "endLine": 5, "endColumn": 22},
        })
    );
    assert_eq!(first["relatedLocations"][0]["message"]["text"], "first here");
    let mut levels: Vec<&str> = results.iter().filter_map(|result| result["level"].as_str()).collect();
    levels.sort_unstable();
    assert_eq!(levels, ["error", "error", "error", "note", "warning"]);
}

#[test]
fn sarif_without_findings_has_an_empty_list_of_results() {
    let workspace = workspace();
    let log = workspace
        .run(["validate", "e/3.yaml", "--format", "sarif"])
        .expect_code(0)
        .json();
    assert_eq!(log["runs"][0]["results"], json!([]));
}

#[test]
fn junit_has_a_test_case_for_each_file() {
    let workspace = workspace();
    let xml = validate(&workspace, "junit", &[]).expect_code(2).stdout;
    assert!(xml.starts_with(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites tests=\"3\" failures=\"1\" errors=\"0\">"
    ));
    assert!(xml.contains("<testcase name=\"e/1,a:b %.yaml\" classname=\"ensemble\">\n      <failure type=\"E026\" message=\"3 findings, the first: `b` is in"), "{xml}");
    assert!(
        xml.contains("<testcase name=\"e/3.yaml\" classname=\"ensemble\"/>"),
        "{xml}"
    );
    assert!(xml.contains("<system-out>") && xml.contains("warning[W003]"), "{xml}");
    assert!(xml.contains("gone&lt;&amp;&gt;%.yaml") && !xml.contains("<&>"), "{xml}");

    let denied = validate(&workspace, "junit", &["--deny-warnings"])
        .expect_code(2)
        .stdout;
    assert!(
        denied.contains("failures=\"2\"") && denied.contains("<failure type=\"W003\""),
        "{denied}"
    );
}

#[test]
fn many_files_come_in_their_order() {
    let workspace = Workspace::new();
    let mut expected = Vec::new();
    for number in 100..150 {
        workspace.write(&format!("e/{number}.yaml"), "name: e\nagents: []\n");
        expected.push(format!("e/{number}.yaml"));
    }
    let report = workspace
        .run(["validate", "e", "--format", "json"])
        .expect_code(2)
        .json();
    let diagnostics = report["diagnostics"].as_array().expect("diagnostics");
    let files: Vec<&str> = diagnostics.iter().filter_map(|one| one["file"].as_str()).collect();
    assert_eq!(files, expected);
}
