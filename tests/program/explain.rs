//! `explain` through the binary, and every example of every explanation through `validate` or `run`.

use crate::support::{Outcome, Workspace};

/// The one text between ```` ```yaml ```` and ```` ``` ```` after a heading.
fn example<'t>(text: &'t str, heading: &str) -> &'t str {
    let (_, rest) = text
        .split_once(&format!("\n{heading}:\n\n```yaml\n"))
        .expect("an example");
    rest.split_once("```\n").expect("its end").0
}

/// The text in an encoding that is not UTF-8.
fn latin_1(text: &str) -> Vec<u8> {
    text.chars().map(|c| u8::try_from(c).expect("Latin-1")).collect()
}

fn codes(workspace: &Workspace) -> Vec<String> {
    let list = workspace.run(["explain"]).expect_code(0).stdout;
    list.lines()
        .map(|line| line.split_whitespace().next().expect("a code").to_owned())
        .collect()
}

/// Where the examples of a code are configurations: their file.
fn configuration(code: &str) -> Option<&'static str> {
    match code {
        "E078" | "E079" => Some(".ensemble/config.yaml"),
        "W053" => Some("home/.config/ensemble/config.yaml"),
        _ => None,
    }
}

/// What `validate` finds in an ensemble, or `run` where the code belongs to a run.
fn findings(code: &str, ensemble: impl AsRef<[u8]>) -> Vec<String> {
    let workspace = Workspace::new();
    for script in [
        "writer",
        "reviewer",
        "editor",
        "a",
        "b",
        "second",
        "critic",
        "expert",
        "lookup",
        "list-files",
        "summarise",
        "review",
    ] {
        workspace.write(&format!("{script}.rhai"), "let said = 1; said");
    }
    workspace.write("broken.rhai", "let said = ; said");
    workspace.write("misspelt.rhai", "let said = inptu; said");
    workspace.write("broken.sh", "if then\n");
    let call = match code {
        "W049" => "if input == \"\" { shuot(input) } else { input }",
        _ => "shuot(input)",
    };
    workspace.write("shouting.rhai", call);
    workspace.write("asking.rhai", "#{agent_requests: [#{target_agent: \"editor\"}]}");
    workspace.write(
        "takes-tone.yaml",
        "name: inner\ninputs: {tone: {type: string}}\nagents: [{name: a, script: reads-tone.rhai}]\n",
    );
    workspace.write("reads-tone.rhai", "inputs.tone");
    workspace.write("invalid.yaml", "name: invalid\n");
    workspace.write("valid.yaml", "name: valid\nagents: [{name: a, script: a.rhai}]\n");
    if code == "W016" {
        let configured = "model_profiles: {configured: {provider: ollama, model: mistral, fallback: fast}}\n";
        workspace.write(".ensemble/config.yaml", configured);
    }
    let file = match code {
        "E080" | "E081" | "E082" | "E083" | "W060" => "team.test.yaml",
        _ => configuration(code).unwrap_or("team.yaml"),
    };
    workspace.write(file, ensemble);
    if configuration(code).is_some() {
        workspace.write("team.yaml", "name: team\nagents: [{name: a, script: a.rhai}]\n");
    }
    if matches!(code, "E060" | "E067" | "E070") {
        let Outcome { stdout, stderr, .. } = workspace.run(["run", "team.yaml"]);
        return [code]
            .into_iter()
            .filter(|code| format!("{stdout}{stderr}").contains(&format!("error[{code}]")))
            .map(str::to_owned)
            .collect();
    }
    let mut arguments = vec!["validate", file, "--format", "json"];
    arguments.extend((code == "W026").then_some("--ci"));
    arguments.extend((code == "E073").then_some("--check-scripts"));
    let report = workspace.run(arguments).json();
    let diagnostics = report["diagnostics"].as_array().expect("a list").iter();
    // The other file has findings of its own.
    let diagnostics = diagnostics.filter(|one| one["file"] != "invalid.yaml");
    let codes = diagnostics.filter_map(|one| one["code"].as_str());
    codes.map(str::to_owned).collect()
}

#[test]
fn wrong_examples_are_found_wrong_and_right_ones_right() {
    let workspace = Workspace::new();
    let codes = codes(&workspace);
    assert!(codes.len() > 40, "{codes:?}");
    let mut faults = Vec::new();
    for code in &codes {
        let text = workspace.run(["explain", code]).expect_code(0).stdout;
        let wrong = match code.as_str() {
            "E076" => findings(code, latin_1(example(&text, "Wrong"))),
            _ => findings(code, example(&text, "Wrong")),
        };
        if wrong.iter().any(|found| found != code) || wrong.is_empty() {
            faults.push(format!("{code}: the wrong example gives {wrong:?}"));
        }
        let right = findings(code, example(&text, "Right"));
        if !right.is_empty() {
            faults.push(format!("{code}: the right example gives {right:?}"));
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn an_explanation_begins_with_code_and_title() {
    let workspace = Workspace::new();
    let text = workspace.run(["explain", "e021"]).expect_code(0).stdout;
    assert!(
        text.starts_with("E021: There is no agent with this name.\n\n"),
        "{text}"
    );
}

#[test]
fn an_unknown_code_is_refused_with_a_guess() {
    let workspace = Workspace::new();
    let outcome = workspace.run(["explain", "X021"]).expect_code(2);
    assert!(outcome.stderr.contains("did you mean `E021`?"), "{}", outcome.stderr);
    let outcome = workspace.run(["explain", "nonsense"]).expect_code(2);
    assert!(
        outcome.stderr.contains("`ensemble explain` lists all"),
        "{}",
        outcome.stderr
    );
}
