//! What becomes of which key, and that whatever comes out has no error.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{ImportContext, ImportResult, import_ensemble};
use ensemble_language::check;
use ensemble_language::diagnostic::FindingSeverity;
use ensemble_language::loader;
use ensemble_language::loader::document::YamlDocument;
use ensemble_language::plan::Plan;
use ensemble_language::source::SourceText;

/// Imports a text; the project has `known.py`, the ensemble `inner`, and these profiles.
pub(super) fn imported(text: &str) -> ImportResult {
    try_import(text).unwrap_or_else(|complaint| panic!("{complaint}\n{text}"))
}

pub(super) fn try_import(text: &str) -> Result<ImportResult, String> {
    let profiles = "model_profiles:
  small: {provider: ollama, model: llama3, cost_per_token: 0.0, system_prompt: Be brief., fallback_model_profile: big}
  big: {provider: anthropic-api, model: claude, timeout_seconds: 60, options: {temperature: 0.2, num_ctx: 8, format: json}}
";
    let configurations: Vec<YamlDocument> = ["name: alone\nmodel: m\nprovider: ollama\n", profiles]
        .iter()
        .map(|text| loader::parse_yaml(&SourceText::new("config.yaml", *text)).expect("YAML"))
        .collect();
    let beside = ImportContext {
        stem: "stem",
        configurations: &configurations,
        script: &|script| (script == "known.py").then(|| "scripts/known.py".to_owned()),
        script_text: &|_| None,
        ensemble: &|name| name == "inner",
        schema: None,
    };
    import_ensemble(&SourceText::new("old.yaml", text), &beside, None).map_err(|complaints| {
        let complaint = complaints.iter().map(|one| one.message.as_str());
        complaint.collect::<Vec<_>>().join("; ")
    })
}

/// What was lost, each as `line:column message`.
fn lost(imported: &ImportResult) -> Vec<String> {
    let show = |one: &ensemble_language::diagnostic::Diagnostic| {
        let place = one.source.line_column(one.span.start);
        assert!(one.help.is_some(), "{}: what to write instead", one.message);
        format!("{}:{} {}", place.line, place.column, one.message)
    };
    imported.unconverted.iter().map(show).collect()
}

pub(super) fn errors(text: &str) -> Vec<String> {
    let mut loaded = loader::load_ensemble(&SourceText::new("new.yaml", text));
    let mut findings = loaded.findings.clone();
    if let Some(ensemble) = loaded.ensemble.take() {
        findings.extend(check::check_ensemble(&ensemble));
        findings.extend(Plan::build(Arc::new(ensemble)).err().into_iter().flatten());
    }
    findings.retain(|finding| finding.severity == FindingSeverity::Error);
    findings.into_iter().map(|finding| finding.message).collect()
}

/// Returns the new file as a value.
fn value(imported: &ImportResult) -> Value {
    serde_yaml::from_str(&imported.text).unwrap_or_else(|error| panic!("{error}\n{}", imported.text))
}

/// Returns an agent's keys and what becomes of them.
fn agent(keys: &str) -> (Value, Vec<String>) {
    let text = format!("name: e\nagents:\n  - name: first\n    script: known.py\n  - name: a\n{keys}");
    let imported = imported(&text);
    let lost = lost(&imported);
    (value(&imported)["agents"][1].clone(), lost)
}

#[test]
fn a_plain_ensemble_is_carried_over_whole() {
    let old = "\
# What it does.
name: plain
description: Two agents.
default_task: the sea
agents:
  # Counts words.
  - name: count
    script: known.py
    parameters: {unit: word, loud: yes}
  - name: tell
    model_profile: alone
    system_prompt: |
      You tell.
      Briefly.
    depends_on: [count]  # it waits
    timeout_seconds: 30
";
    let new = imported(old);
    assert_eq!(lost(&new), [""; 0]);
    let expected = "\
# What it does.
name: plain
description: Two agents.
default_task: the sea

agents:
  # Counts words.
  - name: count
    script: scripts/known.py
    config:
      unit: word
      loud: true

  - name: tell
    model_profile: alone
    system_prompt: |
      You tell.
      Briefly.
    # it waits
    depends_on: [count]
    timeout_seconds: 30

model_profiles:
  alone:
    model: m
    provider: ollama
";
    assert_eq!(new.text, expected);
}

#[test]
fn what_is_not_carried_over_stands_as_a_comment_in_its_place() {
    let old = "name: e\nagents:\n  - name: a\n    script: known.py\n    fan_out: true # each\n    cache:\n      ttl: 5\n    timeout_seconds: 3\n";
    let new = imported(old);
    let said = lost(&new);
    assert_eq!(said.len(), 2);
    assert!(said[0].starts_with("5:5 `fan_out` is not converted"), "{said:?}");
    assert!(said[1].starts_with("6:5 `cache` is not converted"), "{said:?}");
    let lines: Vec<&str> = new.text.lines().map(str::trim).collect();
    let at = |line: &str| {
        lines
            .iter()
            .position(|known| *known == line)
            .unwrap_or_else(|| panic!("{line}\n{}", new.text))
    };
    assert!(at("script: scripts/known.py") < at("#   | fan_out: true"));
    assert!(at("#   | cache:") + 1 == at("#   |   ttl: 5"));
    assert!(at("#   |   ttl: 5") < at("timeout_seconds: 3"));
    assert!(new.text.contains("# each"), "{}", new.text);
}

#[test]
fn kinds_of_agents() {
    for (keys, expected, lines) in [
        ("    script: known.py\n", json!({"script": "scripts/known.py"}), 0),
        ("    script: echo hello | wc\n", json!({"script": "echo hello | wc"}), 0),
        ("    script: gone.py\n", json!({"script": "gone.py"}), 1),
        ("    ensemble: inner\n", json!({"ensemble": "inner"}), 0),
        ("    ensemble: other\n", json!({"ensemble": "other"}), 1),
        (
            "    model: llama3\n    provider: ollama\n",
            json!({"model": "ollama/llama3"}),
            0,
        ),
        (
            "    model: m\n    provider: google-gemini\n",
            json!({"model": "gemini/m"}),
            0,
        ),
        ("    model: llama3\n", json!({"model": "ollama/llama3"}), 1),
        ("    model: claude-3\n", json!({"model": "anthropic/claude-3"}), 1),
        ("    model_profile: gone\n", json!({"model_profile": "gone"}), 1),
        (
            "    script: p/get_user_input.py\n    parameters: {prompt: 'Why {{?'}\n",
            json!({"input": {"prompt": "{% raw %}Why {{?{% endraw %}"}}),
            0,
        ),
        (
            "    dispatch: ${first.target}\n    depends_on: [first]\n",
            json!({"model_profile": "not-carried-over", "depends_on": ["first"]}),
            1,
        ),
        (
            "    description: nothing\n",
            json!({"model_profile": "not-carried-over", "description": "nothing"}),
            1,
        ),
        (
            "    script: known.py\n    model_profile: alone\n",
            json!({"script": "scripts/known.py"}),
            1,
        ),
        (
            "    type: script\n    script: known.py\n",
            json!({"script": "scripts/known.py"}),
            0,
        ),
        (
            "    script: known.py\n    system_prompt: x\n",
            json!({"script": "scripts/known.py"}),
            1,
        ),
    ] {
        let (mut agent, said) = agent(keys);
        agent.as_object_mut().expect("a map").remove("name");
        assert_eq!((&agent, said.len()), (&expected, lines), "{keys}{said:?}");
    }
}

#[test]
fn profiles_are_taken_along() {
    let text = "name: e\nagents:\n  - {name: a, model_profile: small}\n  - {name: b, model_profile: small, system_prompt: Mine., temperature: 0.7}\n  - {name: c, model: m, provider: mock, options: {seed: 3}}\n";
    let new = imported(text);
    let value = value(&new);
    assert_eq!(value["agents"][0]["model_profile"], "small");
    assert_eq!(value["agents"][1]["model_profile"], "small-for-b");
    let profiles = &value["model_profiles"];
    assert_eq!(
        profiles["small"],
        json!({"provider": "ollama", "model": "llama3", "system_prompt": "Be brief.", "fallback": "big"})
    );
    let derived = json!({"provider": "ollama", "model": "llama3", "fallback": "big", "temperature": 0.7});
    assert_eq!(
        profiles["small-for-b"], derived,
        "its own system prompt takes the place of the profile's"
    );
    let big = json!({"provider": "anthropic", "model": "claude", "timeout_seconds": 60, "temperature": 0.2,
        "options": {"num_ctx": 8}});
    assert_eq!(profiles["big"], big);
    assert_eq!(profiles["model-of-c"]["seed"], 3);
    let said = lost(&new);
    assert!(said.iter().any(|line| line.contains("the option `format`")), "{said:?}");
    assert!(new.text.contains("(config.yaml:3)"), "{}", new.text);
}

#[test]
fn guards_become_conditions() {
    let (agent, said) = agent("    script: known.py\n    when: ${first.ok} == false\n    depends_on: [first]\n");
    assert_eq!(
        agent["dependencies"],
        json!([{"agent_name": "first", "condition": "output.ok == False"}])
    );
    assert_eq!(said, [""; 0]);
    // One that only the guard names is a dependency too.
    let (agent, _) = self::agent("    script: known.py\n    when: ${first.a.b}\n");
    assert_eq!(
        agent["dependencies"],
        json!([{"agent_name": "first", "condition": "output.a?.b"}])
    );
    let (agent, said) = self::agent("    script: known.py\n    when: first is ready\n    depends_on: [first]\n");
    assert_eq!(agent["depends_on"], json!(["first"]));
    assert!(said[0].contains("`when` is not converted"), "{said:?}");
}

#[test]
fn who_would_wait_for_one_that_was_skipped_is_told() {
    let text = "name: e\nagents:\n  - {name: g, script: known.py}\n  - {name: h, script: known.py, when: '${g.ok}', depends_on: [g]}\n  - {name: both, script: known.py, depends_on: [g, h]}\n  - {name: one, script: known.py, depends_on: [h]}\n";
    let said = lost(&imported(text));
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].starts_with("5:36 `h` can be skipped"), "{said:?}");
}

#[test]
fn a_loop_listens_to_itself() {
    let text = "name: e\nagents:\n  - name: round\n    loop: {body: inner, until: '${verdict.ok}', max_iterations: 3}\n  - {name: after, script: known.py, depends_on: [round]}\n";
    let new = imported(text);
    assert_eq!(lost(&new), [""; 0]);
    let agents = &value(&new)["agents"];
    let itself = json!([{"agent_name": "round", "feedback": true, "condition": "not (output.verdict?.ok)"}]);
    assert_eq!(
        (&agents[0]["ensemble"], &agents[0]["dependencies"]),
        (&json!("inner"), &itself)
    );
    assert_eq!(agents[0]["conversation"], json!({"max_turns": 3}));
    let last = "output.verdict?.ok or executions['round'] >= 3";
    assert_eq!(
        agents[1]["dependencies"],
        json!([{"agent_name": "round", "condition": last}])
    );
    // Beside what it depends on already.
    let text = text
        .replace("    loop:", "    depends_on: [after]\n    loop:")
        .replace(", depends_on: [round]", "");
    let agents = &value(&imported(&text))["agents"];
    assert_eq!(agents[0]["dependencies"][0], json!({"agent_name": "after"}));
    assert_eq!(agents[0]["dependencies"][1], itself[0]);
}

#[test]
fn a_coordinator_is_an_agent_that_listens_to_all() {
    let text = "name: e\nagents:\n  - {name: a, script: known.py}\n  - {name: coordinator, script: known.py}\ncoordinator:\n  model_profile: alone\n  synthesis_prompt: Put together.\n  output_format: json\n";
    let new = imported(text);
    let expected = json!({"name": "coordinator-2", "model_profile": "alone", "prompt": "Put together.", "depends_on": ["a", "coordinator"]});
    assert_eq!(value(&new)["agents"][2], expected);
    assert_eq!(lost(&new).len(), 1);
}

#[test]
fn names_are_made_sound_everywhere() {
    let text = "name: my ensemble\nagents:\n  - {name: first one, script: known.py}\n  - {name: first one, script: known.py, depends_on: [first one, nobody]}\n";
    let new = imported(text);
    let value = value(&new);
    assert_eq!(value["name"], "my-ensemble");
    assert_eq!(value["agents"][0]["name"], "first-one");
    assert_eq!(value["agents"][1]["name"], "first-one-2");
    assert_eq!(value["agents"][1]["depends_on"], json!(["first-one"]));
    assert_eq!(lost(&new).len(), 4);
    let nameless = imported("agents: [{script: known.py}]");
    assert_eq!(self::value(&nameless)["name"], "stem");
}

#[test]
fn a_circle_is_opened_where_it_closes() {
    let text = "name: e\nagents:\n  - {name: a, script: known.py, depends_on: [b]}\n  - {name: b, script: known.py, depends_on: [a]}\n";
    let new = imported(text);
    assert_eq!(value(&new)["agents"][0]["depends_on"], json!(["b"]));
    assert_eq!(
        value(&new)["agents"][1]["dependencies"],
        json!([{"agent_name": "a", "feedback": true}])
    );
    assert!(lost(&new)[0].contains("wait for each other"));
}

/// What this language has of its own passes, and what the loader refuses of it becomes a comment.
#[test]
fn the_loader_has_the_last_word() {
    let (agent, said) = agent(
        "    script: known.py\n    retry: {max_attempts: 0}\n    conversation: {max_turns: 2, trigger: always}\n    timeout_seconds: -1\n    dependencies:\n      - {agent_name: first, condition: 'output.', max_executions: 2}\n",
    );
    assert_eq!(agent["conversation"], json!({"max_turns": 2}));
    assert_eq!(
        agent["dependencies"],
        json!([{"agent_name": "first", "max_executions": 2}])
    );
    assert!(
        agent["retry"].is_null() && agent["timeout_seconds"].is_null(),
        "{agent}"
    );
    assert_eq!(said.len(), 4, "{said:?}");
}

#[test]
fn what_is_no_ensemble_is_refused() {
    for text in [
        "[]",
        "name: e",
        "name: e\nagents: []",
        "agents: 5",
        "a: [",
        "",
        "model_profiles: {}",
    ] {
        assert!(try_import(text).is_err(), "{text}");
    }
}

#[test]
fn a_fallback_stays_when_the_provider_is_unknown() {
    let text = "name: e
model_profiles:
  first: {provider: elsewhere, model: m, fallback_model_profile: second}
  second: {provider: ollama, model: llama3}
agents:
  - {name: a, model_profile: first}
";
    let imported = imported(text);
    let profiles = &value(&imported)["model_profiles"];
    assert_eq!(profiles["first"]["fallback"], "second", "{}", imported.text);
    assert_eq!(profiles["second"]["model"], "llama3", "{}", imported.text);
    assert!(
        profiles["first"]["replies"][0]["error"].is_string(),
        "{}",
        imported.text
    );
    assert_eq!(lost(&imported).len(), 1, "{:?}", lost(&imported));
}

#[test]
fn a_price_of_a_token_becomes_that_of_a_million() {
    for (old, new) in [
        ("0.000003", json!(3)),
        ("0.00000025", json!(0.25)),
        ("3.0e-8", json!(0.03)),
        ("2", json!(2_000_000)),
    ] {
        let text = format!(
            "name: e\nmodel_profiles:\n  p: {{provider: ollama, model: m, cost_per_token: {old}}}\nagents:\n  - {{name: a, model_profile: p}}\n"
        );
        let imported = imported(&text);
        let cost = json!({"input_per_million": new, "output_per_million": new});
        assert_eq!(
            value(&imported)["model_profiles"]["p"]["cost"],
            cost,
            "{}",
            imported.text
        );
        assert_eq!(lost(&imported), Vec::<String>::new());
    }
}

#[test]
fn time_limits_of_agents_raise_that_of_the_run() {
    let rows = [
        ("  - {name: a, script: known.py, timeout_seconds: 300}\n", json!(null)),
        (
            "  - {name: a, script: known.py, timeout_seconds: 301}\n",
            json!({"timeout_seconds": 301}),
        ),
        (
            "  - {name: a, script: known.py, timeout_seconds: 200.5}\n  - {name: b, script: known.py, depends_on: [a], timeout_seconds: 150}\n",
            json!({"timeout_seconds": 351}),
        ),
        (
            "  - {name: a, script: known.py, timeout_seconds: 200}\n  - {name: b, script: known.py, timeout_seconds: 150}\n",
            json!(null),
        ),
        (
            "  - {name: a, loop: {body: inner, until: '${done}', max_iterations: 30}}\n",
            json!({"timeout_seconds": 1800, "max_total_turns": 30}),
        ),
        (
            "  - {name: a, script: known.py, timeout_seconds: 900000000}\nconversation_limits: {timeout_seconds: 7}\n",
            json!({"timeout_seconds": 7}),
        ),
    ];
    for (agents, limits) in rows {
        let imported = imported(&format!("name: e\nagents:\n{agents}"));
        assert_eq!(value(&imported)["conversation_limits"], limits, "{}", imported.text);
        let told = imported
            .text
            .contains("# this is the sum of the time limits of the agents");
        assert_eq!(told, limits["timeout_seconds"].as_u64() > Some(7), "{}", imported.text);
        assert_eq!(lost(&imported), Vec::<String>::new());
    }
}
