//! `schema` through the binary, judged by a published validator of JSON Schema.

#![expect(clippy::disallowed_methods, reason = "tests read the project's own files")]

use crate::support::Workspace;
use crate::support::blocks::blocks;
use crate::support::files::{project, read};
use jsonschema::Validator;
use serde_json::{Value, json};

fn validator() -> Validator {
    validator_of(&["schema"])
}

/// That of test files.
fn validator_of_tests() -> Validator {
    validator_of(&["schema", "--tests"])
}

fn validator_of(command: &[&str]) -> Validator {
    let schema = Workspace::new().run(command).expect_code(0).json();
    assert!(jsonschema::meta::is_valid(&schema), "it is a schema itself");
    jsonschema::validator_for(&schema).expect("a schema")
}

fn yaml(text: &str) -> Value {
    serde_yaml::from_str(text).unwrap_or_else(|error| panic!("{error}:\n{text}"))
}

fn complaints(validator: &Validator, ensemble: &str) -> Vec<String> {
    let value = yaml(ensemble);
    let errors = validator.iter_errors(&value);
    errors
        .map(|error| format!("{} {error}", error.instance_path()))
        .collect()
}

/// The example of an explanation under `heading`.
fn example(explanation: &str, heading: &str) -> String {
    let (_, rest) = explanation
        .split_once(&format!("\n{heading}:\n\n```yaml\n"))
        .expect("an example");
    rest.split_once("```\n").expect("its end").0.to_owned()
}

#[test]
fn it_is_the_one_that_is_published() {
    let printed = Workspace::new().run(["schema"]).expect_code(0).stdout;
    assert_eq!(printed, read("docs/schema/ensemble.schema.json"));
    let printed = Workspace::new().run(["schema", "--tests"]).expect_code(0).stdout;
    assert_eq!(printed, read("docs/schema/test.schema.json"));
}

#[test]
fn every_configuration_of_the_reference_is_accepted() {
    let validator = validator_of(&["schema", "--config"]);
    let mut count = 0;
    for block in blocks("docs/reference") {
        let config = match block.ensemble() {
            None if block.is("settings") => block.text.clone(),
            None => continue,
            // A configuration has the same profiles as an ensemble.
            Some(ensemble) => match yaml(&ensemble).get("model_profiles") {
                Some(profiles) => json!({"model_profiles": profiles}).to_string(),
                None => continue,
            },
        };
        assert_eq!(complaints(&validator, &config), [""; 0], "{}", block.place);
        count += 1;
    }
    assert!(count > 3, "{count} configurations");
    assert_ne!(complaints(&validator, "validate: {levels: {W999: off}}"), [""; 0]);
}

#[test]
fn every_shipped_ensemble_is_accepted() {
    let (validator, of_tests) = (validator(), validator_of_tests());
    let mut count = 0;
    for entry in std::fs::read_dir(project().join("ensembles"))
        .expect("a folder")
        .filter_map(Result::ok)
    {
        if entry.path().extension().is_some_and(|end| end == "yaml") {
            let text = std::fs::read_to_string(entry.path()).expect("text");
            let is_tests = entry.path().display().to_string().ends_with(".test.yaml");
            let validator = if is_tests { &of_tests } else { &validator };
            assert_eq!(complaints(validator, &text), [""; 0], "{}", entry.path().display());
            count += 1;
        }
    }
    assert!(count > 3, "{count} ensembles");
}

#[test]
fn every_ensemble_of_the_documents_is_accepted() {
    let validator = validator();
    let mut count = 0;
    for document in [
        "README.md",
        "docs/getting-started.md",
        "docs/reference",
        "docs/architecture.md",
    ] {
        for block in blocks(document) {
            if let Some(text) = block.ensemble() {
                assert_eq!(complaints(&validator, &text), [""; 0], "{}", block.place);
                count += 1;
            }
        }
    }
    assert!(count > 15, "{count} ensembles");
}

#[test]
fn a_new_ensemble_is_accepted() {
    let workspace = Workspace::new();
    workspace.run(["init", "tea"]).expect_code(0);
    assert_eq!(complaints(&validator(), &workspace.read("ensembles/tea.yaml")), [""; 0]);
}

/// Codes whose wrong example a schema takes, and why it must.
const BEYOND: &[(&str, &str)] = &[
    (
        "E001 E002 E003 E004 E005 E006 E007 E008",
        "a schema sees values, not the text they were read from",
    ),
    ("E020", "names are compared across the items of a list"),
    ("E021 E027", "a name is compared with the names of other agents"),
    ("E029", "a schema inside a value is a value"),
    ("E031 E040 E045", "a circle is followed from name to name"),
    ("E034", "a name is compared with the names of the tools"),
    ("E090 E092 E093", "an agent is compared with the tool that it names"),
    ("E037", "names of headers are the same in letters of either case"),
    ("E032", "one value is compared with the items of another"),
    ("E038", "a default is compared with the schema beside it"),
    ("E046", "a name is compared with the names of the inputs"),
    ("E041 E042 E043 E044 E065 E071", "a condition or a template is a text"),
    (
        "E047 E048 E073 E103 E106",
        "a script or another ensemble is a file of its own",
    ),
    ("E107", "a text is no template"),
    ("E108", "the name of a script says that it starts no process"),
    ("E061", "two keys together make an address unfit"),
    ("E057", "an attachment is a file of its own"),
    ("E049", "a name is compared with the names of variables and agents"),
    ("E060 E067 E070", "it is known when the ensemble runs"),
    ("E109", "an agent can name a profile of a configuration"),
    ("E076", "a file that cannot be read has no value"),
    ("E080 E083", "an ensemble or a record is a file of its own"),
    ("E081", "names are compared across the items of a list"),
    ("W H", "what is warned of is not wrong"),
];

/// Codes whose examples are configurations.
const OF_CONFIGURATIONS: [&str; 3] = ["E078", "E079", "W053"];

#[test]
fn right_examples_are_accepted_and_wrong_ones_that_a_schema_can_know_are_not() {
    let is_beyond = |code: &str| {
        let mut beginnings = BEYOND.iter().flat_map(|(codes, _)| codes.split(' '));
        beginnings.any(|beginning| code.starts_with(beginning))
    };
    let (of_ensembles, of_tests) = (validator(), validator_of_tests());
    let workspace = Workspace::new();
    let list = workspace.run(["explain"]).expect_code(0).stdout;
    let codes: Vec<&str> = list.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(codes.len() > 40, "{codes:?}");
    for code in codes.into_iter().filter(|code| !OF_CONFIGURATIONS.contains(code)) {
        let text = workspace.run(["explain", code]).expect_code(0).stdout;
        let is_of_tests = matches!(code, "E080" | "E081" | "E082" | "E083" | "W060");
        let validator = if is_of_tests { &of_tests } else { &of_ensembles };
        assert_eq!(complaints(validator, &example(&text, "Right")), [""; 0], "{code}");
        let wrong = example(&text, "Wrong");
        // A wrong example that is no single YAML document has no value that could be judged.
        let Ok(value) = serde_yaml::from_str::<Value>(&wrong) else {
            assert!(is_beyond(code), "{code} is not YAML");
            continue;
        };
        assert_eq!(validator.is_valid(&value), is_beyond(code), "{code}:\n{wrong}");
    }
}

#[test]
fn what_the_loader_takes_and_refuses_the_schema_takes_and_refuses() {
    let agent = |rest: &str| format!("name: e\nagents:\n  - name: a\n{rest}\n");
    let profile = |rest: &str| agent(&format!("    model_profile: p\nmodel_profiles:\n  p: {rest}"));
    let tool = |rest: &str| {
        agent(&format!(
            "    model: xai/n\n    tools: [t]\n  - {{name: b, script: x}}\ntools:\n  t: {rest}"
        ))
    };
    let rows = [
        (agent("    script: x\n    tools: [t]"), false),
        (agent("    model: xai/n\n    max_iterations: 0"), false),
        (agent("    model: xai/n\n    max_iterations: 3"), true),
        (agent("    script: x\n    on_error: never"), false),
        (agent("    script: x\n    timeout_seconds: 0"), false),
        (agent("    script: x\n    timeout_seconds: 0.5"), true),
        (agent("    script: x\n    retry: {delay_seconds: 0}"), true),
        (agent("    script: x\n    retry: {delay_seconds: -1}"), false),
        (agent("    script: x\n    config: [1]"), false),
        (agent("    input: Well?"), true),
        (agent("    input: ' '"), false),
        (agent("    input: {choices: [x]}"), false),
        (agent("    input: {prompt: q, responses: [a, b]}"), true),
        (
            agent("    input: {prompt: q, responses: {script: a, model_profile: b}}"),
            false,
        ),
        (agent("    input: {prompt: q, responses: {}}"), false),
        (agent("    model: /x"), false),
        (agent("    model: ollama/b/c"), true),
        (
            agent("    script: x\n    dependencies: [{agent_name: a, feedback: true, condition: true}]"),
            true,
        ),
        (
            agent("    script: x\n    dependencies: [{agent_name: a, feedback: true, condition: 1}]"),
            false,
        ),
        (agent("    script: x\n    dependencies: [a]"), false),
        (agent("    model: xai/x\n    context_window: {max_tokens: 100}"), true),
        (agent("    model: xai/x\n    context_window: {}"), false),
        (
            agent("    model: xai/x\n    context_window: {min_recent_turns: 2}"),
            false,
        ),
        (agent("    model: xai/x\n    context_window: {max_messages: 0}"), false),
        (agent("    script: x\n    context_window: {max_tokens: 100}"), false),
        (
            agent("    model: xai/x\n    context_window: {max_tokens: 9, strategy: summarize}"),
            true,
        ),
        (
            agent("    model: xai/x\n    context_window: {max_tokens: 9, strategy: custom}"),
            false,
        ),
        (
            agent("    model: xai/x\n    context_window: {strategy: {summarize: p}}"),
            false,
        ),
        (
            agent("    model: xai/x\n    context_window: {strategy: {recent_turns_only: 2}}"),
            true,
        ),
        (
            agent("    model: xai/x\n    context_window: {strategy: {custom: k.rhai}}"),
            true,
        ),
        (
            agent("    model: xai/x\n    context_window: {max_tokens: 9, strategy: {custom: k, summarize: p}}"),
            false,
        ),
        (agent("    script: x\nmodel_profiles:"), true),
        (
            agent("    script: x\nconversation_limits: {max_agent_executions: {a: 0}}"),
            false,
        ),
        (
            agent("    script: x\nconversation_limits: {max_agent_executions: {a: 2}}"),
            true,
        ),
        (profile("{provider: simulated, replies: [a, {error: b}]}"), true),
        (profile("{provider: simulated, replies: [a], script: b}"), false),
        (profile("{provider: simulated, replies: []}"), false),
        (profile("{provider: simulated, replies: [{text: a}]}"), false),
        (profile("{provider: simulated, replies: [{tool_calls: []}]}"), false),
        (
            profile("{provider: simulated, replies: [{tool_calls: [{name: t}]}]}"),
            true,
        ),
        (
            profile("{provider: simulated, replies: [{text: a, tool_calls: [{name: t, arguments: {n: 1}}]}]}"),
            true,
        ),
        (
            profile("{provider: simulated, replies: [{error: a, tool_calls: [{name: t}]}]}"),
            false,
        ),
        (profile("{provider: ollama, model: m, replies: [a]}"), false),
        (tool("{script: x}"), false),
        (tool("{script: x, parameters: {type: object}}"), true),
        (tool("{script: x, parameters: {type: string}}"), false),
        (tool("{script: x, agent: a, parameters: {type: object}}"), false),
        (tool("{agent: b}"), true),
        (tool("{agent: b, permission: never}"), false),
        (tool("{agent: b, max_result_bytes: 0}"), false),
        (tool("{ensemble: x, timeout_seconds: 0.5, permission: deny}"), true),
        (tool("{description: x}"), false),
        (tool("{mcp: {}}"), false),
        (tool("{mcp: {command: [sh], parameters: {}}}"), false),
        (tool("{mcp: {command: [sh]}, parameters: {type: object}}"), false),
        (tool("{mcp: {command: [sh]}, output_schema: {}}"), false),
        (tool("{agent: b, output_schema: {type: string}, exclusive: true}"), true),
        (tool("{agent: b, exclusive: 1}"), false),
        (tool("{mcp: {command: sh, env: {A: b, C: {env: D}}, cwd: x}}"), true),
        (tool("{mcp: {command: sh, env: {A: {env: a-b}}}}"), false),
        (tool("{mcp: {command: sh, headers: {A: b}}}"), false),
        (tool("{mcp: {command: []}}"), false),
        (
            tool("{mcp: {url: 'https://x/mcp', headers: {A: {env: B, prefix: 'Bearer '}}}}"),
            true,
        ),
        (tool("{mcp: {url: 'http://x', cwd: y}}"), false),
        (tool("{mcp: {url: x}}"), false),
        (profile("{provider: ollama, model: m, api_key_env: sk-1}"), false),
        (profile("{provider: ollama, model: m, top_p: 1.5}"), false),
        (profile("{provider: olama, model: m}"), false),
        (profile("{provider: openai, model: m, base_url: 'host:1'}"), false),
        (
            profile("{provider: openai, model: m, base_url: 'http://a@host'}"),
            false,
        ),
        (
            profile("{provider: openai, model: m, base_url: 'http://host:1/v1/'}"),
            true,
        ),
        (
            profile("{provider: openai, model: m, headers: {X-A: b, X-C: {env: D}}}"),
            true,
        ),
        (profile("{provider: openai, model: m, headers: {X-A: {env: 1}}}"), false),
        (
            profile("{provider: openai, model: m, cost: {input_per_million: 1}}"),
            false,
        ),
        (profile("{provider: ollama, model: m, seed: -5, temperature: 0}"), true),
    ];
    let validator = validator();
    let workspace = Workspace::new();
    workspace.write("k.rhai", "1");
    for (text, accepted) in rows {
        let found = complaints(&validator, &text);
        assert_eq!(found.is_empty(), accepted, "{text}\n{found:?}");
        workspace.write("e.yaml", &text);
        let code = workspace.run(["validate", "e.yaml"]).code;
        assert_eq!(code == 0, accepted, "the loader: {text}");
    }
}
