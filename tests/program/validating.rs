//! `validate` through the binary: what it takes, what it does where something cannot be read, and what it finds.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use crate::support::{Outcome, Workspace};
use serde_json::Value;

const SOUND: &str = "name: sound\nagents: [{name: a, script: \"true\"}]\n";
const FAULTY: &str = "name: faulty\nagents: [{name: a, script: \"true\", unknown: 1}]\n";

fn files(outcome: &Outcome) -> Vec<String> {
    let report = outcome.json();
    let diagnostics = report["diagnostics"].as_array().expect("a list");
    let files = diagnostics.iter().filter_map(|one| one["file"].as_str());
    files.map(str::to_owned).collect()
}

/// `W001 3:20` for each finding.
fn codes(outcome: &Outcome) -> Vec<String> {
    let report = outcome.json();
    let diagnostics = report["diagnostics"].as_array().expect("a list");
    let shown = diagnostics.iter().map(|one| {
        let code = one["code"].as_str().unwrap_or_default();
        format!("{code} {}:{}", one["line"], one["column"])
    });
    shown.collect()
}

#[test]
fn patterns_mean_files_and_folders() {
    let workspace = Workspace::new();
    for file in [
        "e/a.yaml",
        "e/b.yml",
        "e/deep/er/c.yaml",
        "e/.hidden/d.yaml",
        "other/e.yaml",
    ] {
        workspace.write(file, FAULTY);
    }
    let found = |pattern: &str| files(&workspace.run(["validate", "--format", "json", pattern]).expect_code(2));
    assert_eq!(found("e/*.yaml"), ["e/a.yaml"]);
    assert_eq!(found("e/?.y*ml"), ["e/a.yaml", "e/b.yml"]);
    assert_eq!(found("**/*.yaml"), ["e/a.yaml", "e/deep/er/c.yaml", "other/e.yaml"]);
    assert_eq!(
        found("[eo]*"),
        ["e/a.yaml", "e/b.yml", "e/deep/er/c.yaml", "other/e.yaml"]
    );
    let none = workspace.run(["validate", "x/*.yaml"]).expect_code(2);
    assert!(none.stderr.contains("no file matches x/*.yaml"), "{}", none.stderr);
    let no_pattern = workspace.run(["validate", "x/[.yaml"]).expect_code(2);
    assert!(
        no_pattern.stderr.contains("is not a valid pattern"),
        "{}",
        no_pattern.stderr
    );
    // A name is a name before it is a pattern.
    workspace.write("e/[x].yaml", FAULTY);
    assert_eq!(found("e/[x].yaml"), ["e/[x].yaml"]);
}

#[test]
fn what_cannot_be_read_is_named_and_the_rest_is_checked() {
    let workspace = Workspace::new();
    workspace.write("e/a.yaml", FAULTY);
    workspace.write("e/b.yaml", b"name: \xff\n");
    workspace.write("e/c.yaml", FAULTY);
    let outcome = workspace.run(["validate", "e", "--format", "json"]).expect_code(2);
    assert_eq!(files(&outcome), ["e/a.yaml", "e/b.yaml", "e/c.yaml"]);
    assert!(
        outcome.stdout.contains("cannot read e/b.yaml: it is not UTF-8"),
        "{}",
        outcome.stdout
    );
    workspace.write("e/a.yaml", SOUND);
    workspace.write("e/c.yaml", SOUND);
    let human = workspace.run(["validate", "e"]).expect_code(2);
    assert!(human.stderr.contains("3 files checked: 1 error,"), "{}", human.stderr);
}

#[test]
fn a_broken_configuration_is_said_once_and_accuses_no_file() {
    let workspace = Workspace::new();
    workspace.write(".ensemble/config.yaml", "model_profiles: [\n");
    for at in 0..20 {
        workspace.write(
            &format!("e/{at}.yaml"),
            "name: e\nagents: [{name: a, model_profile: theirs, prompt: x}]\n",
        );
    }
    let outcome = workspace.run(["validate", "e", "--format", "json"]).expect_code(2);
    assert_eq!(files(&outcome), [".ensemble/config.yaml"]);
    assert!(codes(&outcome)[0].starts_with("E001 "), "{}", outcome.stdout);
    assert_eq!(outcome.stderr, "");
}

#[test]
fn many_folders_each_have_their_own_surroundings() {
    let workspace = Workspace::new();
    for at in 0..30 {
        let profile = format!("model_profiles: {{p{at}: {{provider: simulated, replies: [x]}}}}\n");
        workspace.write(&format!("e/{at:02}/.ensemble/config.yaml"), &profile);
        for file in ["a", "b"] {
            let text = format!(
                "name: e\nagents: [{{name: a, model_profile: p{at}, prompt: x}}, {{name: b, script: s.rhai}}]\n"
            );
            workspace.write(&format!("e/{at:02}/{file}.yaml"), &text);
        }
        if at % 2 == 0 {
            workspace.write(&format!("e/{at:02}/s.rhai"), "1");
        }
    }
    let outcome = workspace.run(["validate", "e", "--format", "json"]).expect_code(2);
    let odd = (0..30).filter(|at| at % 2 == 1);
    let expected: Vec<String> = odd
        .flat_map(|at| ["a", "b"].map(|file| format!("e/{at:02}/{file}.yaml")))
        .collect();
    assert_eq!(files(&outcome), expected);
}

#[test]
fn scripts_that_cannot_be_started() {
    let workspace = Workspace::new();
    let script = |name: &str, text: &str, mode: u32| {
        workspace.write(name, text);
        let path = workspace.path().join(name);
        std::fs::set_permissions(path, Permissions::from_mode(mode)).expect("a mode");
    };
    script("good", "#!/bin/sh\necho hello\n", 0o755);
    script("by-env", "#!/usr/bin/env sh\necho hello\n", 0o755);
    script("no-bit", "#!/bin/sh\necho hello\n", 0o644);
    script("no-line", "echo hello\n", 0o755);
    script("no-one", "#!/nowhere/interpreter -x\n", 0o755);
    let names = ["good", "by-env", "no-bit", "no-line", "no-one"];
    let agents = names.map(|name| format!("  - {{name: {name}, script: ./{name}}}\n"));
    workspace.write("team.yaml", format!("name: team\nagents:\n{}", agents.concat()));
    let outcome = workspace
        .run(["validate", "team.yaml", "--format", "json"])
        .expect_code(0);
    let report = outcome.json();
    let messages: Vec<&str> = report["diagnostics"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|one| one["message"].as_str())
        .collect();
    assert_eq!(messages.len(), 3, "{messages:?}");
    for (message, part) in messages
        .iter()
        .zip(["is not executable", "names no interpreter", "does not exist"])
    {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn rhai_scripts_that_do_not_compile() {
    let text = "\
name: team
agents:
  - {name: a, script: broken.rhai}
  - {name: b, input: {prompt: q, responses: {script: broken.rhai}}}
  - {name: c, model_profile: p, prompt: x, tools: [t], context_window: {max_tokens: 9, strategy: {custom: broken.rhai}}}
  - {name: d, script: missing.rhai}
  - {name: e, input: {prompt: q, responses: {script: missing.rhai}}}
tools:
  t: {script: broken.rhai, parameters: {type: object}}
model_profiles:
  p: {provider: simulated, script: broken.rhai}
";
    let workspace = Workspace::new();
    workspace.write("e/team.yaml", text);
    workspace.write("scripts/broken.rhai", "let one = 1;\nlet two = ;\n");
    let validated = |code: u8| {
        workspace
            .run(["validate", "e/team.yaml", "--format", "json"])
            .expect_code(code.into())
    };
    let outcome = validated(2);
    let expected = ["E047 2:11", "E106 6:23", "E106 7:54"];
    assert_eq!(codes(&outcome), expected);
    let first = outcome.json()["diagnostics"][0].clone();
    assert_eq!(first["file"], "scripts/broken.rhai");
    let message = first["message"].as_str().unwrap_or_default();
    assert!(message.starts_with("the script does not compile: "), "{message}");
    let named = first["related"].as_array().expect("a list");
    let lines: Vec<String> = named
        .iter()
        .map(|place| format!("{}:{}", place["file"], place["line"]))
        .collect();
    let team = |line: u32| format!("\"e/team.yaml\":{line}");
    assert_eq!(lines, [3, 4, 5, 9].map(team));
    let shown = workspace.run(["validate", "e/team.yaml"]).expect_code(2).stdout;
    for part in [
        " --> scripts/broken.rhai:2:11\n",
        "2 | let two = ;\n",
        "::: e/team.yaml:3:23\n",
    ] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
    for (format, part) in [
        ("github", "file=scripts/broken.rhai,line=2,"),
        ("github", "it is named here: e/team.yaml:3:23"),
        ("sarif", "\"uri\": \"scripts/broken.rhai\""),
        ("sarif", "relatedLocations"),
        ("junit", "scripts/broken.rhai:2:11 error[E047]"),
    ] {
        let shown = workspace
            .run(["validate", "e/team.yaml", "--format", format])
            .expect_code(2)
            .stdout;
        assert!(shown.contains(part), "{format}: {part}\n{shown}");
    }
    workspace.write("scripts/broken.rhai", "let one = 1;\nlet two = 2;\n");
    assert_eq!(codes(&validated(2)), ["E106 6:23", "E106 7:54"]);
}

#[test]
fn keys_are_known_from_scripts_models_and_choices() {
    let workspace = Workspace::new();
    workspace.write(
        "judge.rhai",
        "if execution > 1 { #{score: 1} } else { #{score: 2, note: \"x\"} }",
    );
    workspace.write("free.rhai", "let m = #{score: 1}; m.other = 2; m");
    let text = "\
name: keys
agents:
  - {name: judge, script: judge.rhai}
  - {name: free, script: free.rhai}
  - {name: model, model_profile: p, prompt: x}
  - {name: person, input: {prompt: q, choices: ['yes', 'no']}}
  - name: reader
    script: judge.rhai
    dependencies:
      - {agent_name: judge, condition: output.score and output.note and output.scor}
      - {agent_name: free, condition: output.scor}
      - {agent_name: model, condition: output.verdict and output.response and output.verdit}
      - {agent_name: person, condition: output.response == 'yes' and output.answer}
model_profiles:
  p: {provider: simulated, replies: ['{\"verdict\": true}']}
";
    workspace.write("keys.yaml", text);
    let outcome = workspace
        .run(["validate", "keys.yaml", "--format", "json"])
        .expect_code(0);
    assert_eq!(codes(&outcome), ["W013 10:80", "W013 12:86", "W013 13:77"]);
    // With another script, the keys are others.
    workspace.write("judge.rhai", "#{scor: 1, score: 1, note: 1}");
    let outcome = workspace
        .run(["validate", "keys.yaml", "--format", "json"])
        .expect_code(0);
    assert_eq!(codes(&outcome), ["W013 12:86", "W013 13:77"]);
}

#[test]
fn secrets_show_in_no_format_and_not_in_a_run() {
    let workspace = Workspace::new();
    let secret = format!("{}{}", "sk-proj-aB3dE5fG7hJ9", "kL1mN2pQ4rS6tU8v");
    let text = format!("name: e\nagents:\n  - {{name: a, script: \"true\", config: {{key: {secret}}}, scirpt: 1}}\n");
    workspace.write("e.yaml", &text);
    for format in ["human", "json", "github", "sarif", "junit"] {
        let outcome = workspace.run(["validate", "e.yaml", "--format", format]).expect_code(2);
        assert!(outcome.stdout.contains("W014"), "{}", outcome.stdout);
        assert!(!outcome.stdout.contains("sk-proj"), "{format}: {}", outcome.stdout);
    }
    workspace.write("e.yaml", text.replace(", scirpt: 1", ""));
    let outcome = workspace.run(["run", "e.yaml"]).expect_code(0);
    assert!(
        outcome.stderr.contains("W014") && !outcome.stderr.contains("sk-proj"),
        "{}",
        outcome.stderr
    );
    let outcome = workspace
        .run(["validate", "e.yaml", "--deny-warnings", "--format", "json"])
        .expect_code(2);
    let report = outcome.json();
    let column = report["diagnostics"][0]["column"].as_u64().expect("a column");
    assert_eq!(
        column,
        text.lines().nth(2).and_then(|line| line.find("sk-")).expect("there") as u64 + 1
    );
    assert_eq!(
        report["diagnostics"][0]["help"]
            .as_str()
            .map(|help| help.contains("api_key_env")),
        Some(true)
    );
}

#[test]
fn every_format_is_whole_over_many_files() {
    let workspace = Workspace::new();
    for at in 0..700 {
        workspace.write(&format!("e/{at:03}.yaml"), if at % 7 == 0 { FAULTY } else { SOUND });
    }
    let run = |format: &str| workspace.run(["validate", "e", "--format", format]).expect_code(2);
    let expected: Vec<String> = (0..700).step_by(7).map(|at| format!("e/{at:03}.yaml")).collect();
    assert_eq!(files(&run("json")), expected);
    let log = run("sarif").json();
    let uri = |result: &Value| {
        let location = &result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"];
        location.as_str().unwrap_or_default().to_owned()
    };
    let results = log["runs"][0]["results"].as_array().expect("results");
    assert_eq!(results.iter().map(uri).collect::<Vec<_>>(), expected);
    let xml = run("junit").stdout;
    assert!(xml.contains("<testsuites tests=\"700\" failures=\"100\""), "{xml}");
    assert_eq!(xml.matches("<testcase ").count(), 700);
    let human = run("human");
    assert_eq!(human.stdout.matches("error[E010]").count(), 100);
    assert!(
        human.stderr.contains("700 files checked: 100 errors"),
        "{}",
        human.stderr
    );
}

#[test]
fn other_yaml_files_in_a_folder_are_passed_over_and_counted() {
    let workspace = Workspace::new();
    workspace.write("e/sound.yaml", SOUND);
    workspace.write("e/faulty.yaml", FAULTY);
    workspace.write("e/compose.yaml", "services:\n  web: {image: nginx}\n");
    workspace.write("e/list.yml", "- agents\n- b\n");
    workspace.write("e/empty.yaml", "");
    workspace.write("e/many.yaml", "kind: A\n---\nkind: B\n");
    workspace.write("e/chart.yaml", "{{ if .Values.x }}\nkind: [\n{{ end }}\n");
    let outcome = workspace.run(["validate", "."]).expect_code(2);
    assert!(
        outcome.stdout.contains("E010") && !outcome.stdout.contains("compose"),
        "{}",
        outcome.stdout
    );
    assert_eq!(
        outcome.stderr,
        "2 files checked: 1 error, 0 warnings, 0 hints; 5 YAML files without `agents` skipped\n"
    );
    let named = workspace.run(["validate", ".", "--verbose"]).expect_code(2).stderr;
    for file in ["compose.yaml", "list.yml", "empty.yaml", "many.yaml", "chart.yaml"] {
        assert!(
            named.contains(&format!("left out: ./e/{file} (no `agents`)\n")),
            "{named}"
        );
    }
    let pattern = workspace.run(["validate", "e/*.yaml"]).expect_code(2);
    assert!(pattern.stderr.contains("; 4 YAML files without"), "{}", pattern.stderr);
    workspace.write("e/faulty.yaml", SOUND);
    workspace.run(["validate", "."]).expect_code(0);
    // A file that is named itself is meant.
    for file in ["compose.yaml", "list.yml", "empty.yaml", "many.yaml", "chart.yaml"] {
        let named = workspace.run(["validate", &format!("e/{file}")]).expect_code(2);
        assert!(named.stderr.starts_with("1 file checked: "), "{}", named.stderr);
    }
}

#[test]
fn what_may_be_an_ensemble_is_not_passed_over() {
    let workspace = Workspace::new();
    for (text, code) in [
        ("name: e\nagnets: [{name: a, script: x}]\n", "E010"),
        ("name: e\nagents:\n  - name: a\n   script: [\n", "E001"),
        ("name: e\nagents:\n", "E013"),
    ] {
        workspace.write("e/a.yaml", text);
        let outcome = workspace.run(["validate", "e", "--format", "json"]).expect_code(2);
        let found = codes(&outcome);
        assert!(found.iter().any(|one| one.starts_with(code)), "{text}: {found:?}");
    }
}

#[test]
fn a_folder_without_an_ensemble_is_a_mistake() {
    let workspace = Workspace::new();
    workspace.write("e/compose.yaml", "services: {}\n");
    let outcome = workspace.run(["validate", "e"]).expect_code(2);
    assert!(
        outcome.stderr.contains("no ensemble in 1 YAML file"),
        "{}",
        outcome.stderr
    );
}

/// The configuration, and the copies in records of runs.
#[test]
fn the_folder_of_the_program_is_not_searched() {
    let workspace = Workspace::new();
    workspace.write("ensembles/sound.yaml", SOUND);
    workspace.write(".ensemble/config.yaml", "model_profiles: {}\n");
    workspace.run(["run", "sound"]).expect_code(0);
    let outcome = workspace.run(["validate", "."]).expect_code(0);
    assert_eq!(outcome.stderr, "1 file checked: 0 errors, 0 warnings, 0 hints\n");
    let named = workspace.run(["validate", ".ensemble/config.yaml"]).expect_code(0);
    assert_eq!(named.stderr, "1 file checked: 0 errors, 0 warnings, 0 hints\n");
}

#[test]
fn each_file_is_checked_once_and_by_its_own_name() {
    let workspace = Workspace::new();
    workspace.write("e/a/one.yaml", FAULTY);
    workspace.write("b/two.yaml", FAULTY);
    let link = |target: &str, name: &str| {
        std::os::unix::fs::symlink(workspace.path().join(target), workspace.path().join(name)).expect("a link");
    };
    link("e", "e/a/up");
    link("b", "e/b");
    link("e/a", "b/back");
    link("b/two.yaml", "e/three.yaml");
    link("nowhere", "e/nowhere");
    let outcome = workspace.run(["validate", "e", "--format", "json"]).expect_code(2);
    assert_eq!(
        files(&outcome),
        ["e/a/one.yaml", "e/b/two.yaml"],
        "e/b/back is e/a, and e/three.yaml is b/two.yaml"
    );
    // What was given comes in the order in which it was given, and once.
    let both = workspace
        .run(["validate", "e/three.yaml", "b", "e", "b/two.yaml", "--format", "json"])
        .expect_code(2);
    assert_eq!(files(&both), ["e/three.yaml", "e/a/one.yaml"]);
}

/// What scripts, prepared replies and schemas say is held against the conditions; a run agrees with what is said.
#[test]
fn what_outputs_can_be_is_known_from_scripts_and_replies() {
    let workspace = Workspace::new();
    workspace.write(
        "judge.rhai",
        "if execution > 3 { #{score: 9, done: true} } else { #{score: 4, done: false} }",
    );
    workspace.write(
        "e.yaml",
        "name: e
agents:
  - {name: judge, script: judge.rhai}
  - {name: mind, model_profile: fake, prompt: Say something.}
  - name: a
    script: judge.rhai
    dependencies:
      - {agent_name: judge, condition: \"output.score > 9\"}
  - name: b
    script: judge.rhai
    dependencies:
      - {agent_name: judge, condition: \"output.done == 'true'\"}
  - name: c
    script: judge.rhai
    dependencies:
      - {agent_name: mind, condition: \"output.verdict == 'Yes'\"}
  - name: d
    script: judge.rhai
    dependencies:
      - {agent_name: judge, condition: \"output.score > 'many'\"}
model_profiles:
  fake: {provider: simulated, replies: ['{\"verdict\": \"yes\"}', '{\"verdict\": \"no\"}']}
",
    );
    let found = workspace.run(["validate", "--format", "json", "e.yaml"]).expect_code(0);
    assert_eq!(codes(&found), ["W040 8:41", "W040 12:41", "W040 16:40", "W041 20:41"]);
    let run = workspace
        .run(["run", "e.yaml", "--input", "x", "--output", "json"])
        .expect_code(1);
    assert_eq!(run.json()["completion_reason"], "condition_failed");
}

/// What types say of templates and lists, a run confirms.
#[test]
fn what_always_fails_in_templates_fails_in_a_run() {
    let rows = [
        ("{% for x in judge.score %}{{ x }}{% endfor %}", "W042 8:28"),
        ("{{ judge.label.upper() }}", "W042 8:31"),
        ("{{ judge.label + 1 }}", "W042 8:19"),
        ("{{ judge.label }}{{ input - 1 }}", "W042 8:36"),
        ("{{ judge.score | join }}", "W042 8:19"),
    ];
    for (prompt, expected) in rows {
        let workspace = Workspace::new();
        workspace.write("judge.rhai", "#{score: 9, label: \"good\"}");
        workspace.write(
            "e.yaml",
            format!(
                "name: e
agents:
  - {{name: judge, script: judge.rhai}}
  - name: mind
    model_profile: fake
    depends_on: [judge]
    retry: {{max_attempts: 1}}
    prompt: \"  {prompt}\"
model_profiles:
  fake: {{provider: simulated, replies: [Yes.]}}
"
            ),
        );
        let found = workspace.run(["validate", "--format", "json", "e.yaml"]).expect_code(0);
        assert_eq!(codes(&found), [expected], "{prompt}");
        let run = workspace
            .run(["run", "e.yaml", "--input", "x", "--output", "json"])
            .expect_code(1);
        assert_eq!(run.json()["completion_reason"], "agent_failed", "{prompt}");
    }
}

#[test]
fn a_filter_that_does_not_exist_is_an_error_before_the_run() {
    let workspace = Workspace::new();
    workspace.write(
        "e.yaml",
        "name: e
agents:
  - {name: mind, model_profile: simulated, prompt: 'Say {{ input | uper }}'}
",
    );
    let found = workspace.run(["validate", "--format", "json", "e.yaml"]).expect_code(2);
    assert_eq!(codes(&found), ["E071 3:68"]);
    let run = workspace.run(["run", "e.yaml", "--input", "x"]).expect_code(2);
    assert!(run.stderr.contains("did you mean `upper`?"), "{}", run.stderr);
}

/// The result that an inner ensemble declares is known where conditions and templates of the outer one read it.
#[test]
fn what_an_inner_ensemble_gives_is_known_outside() {
    let workspace = Workspace::new();
    workspace.write("judge.rhai", "#{score: 9, label: \"good\"}");
    workspace.write(
        "inner.yaml",
        "name: inner
result: {grade: outputs.judge.score, words: outputs.judge.label}
agents:
  - {name: judge, script: judge.rhai}
",
    );
    workspace.write(
        "middle.yaml",
        "name: middle\nresult: {all: outputs.inner.grade}\nagents:\n  - {name: inner, ensemble: inner.yaml}\n",
    );
    workspace.write(
        "outer.yaml",
        "name: outer
agents:
  - {name: inner, ensemble: inner.yaml}
  - {name: middle, ensemble: middle.yaml}
  - name: a
    script: judge.rhai
    dependencies: [{agent_name: inner, condition: \"output.grade == 'nine'\"}]
  - name: b
    script: judge.rhai
    dependencies: [{agent_name: inner, condition: output.grad > 3}]
  - name: c
    script: judge.rhai
    dependencies: [{agent_name: middle, condition: output.all > 10}]
  - {name: d, script: judge.rhai, dependencies: [{agent_name: middle, condition: output.all > 8}]}
  - {name: f, model_profile: fake, depends_on: [inner], prompt: 'Say {{ inner.word }}'}
model_profiles:
  fake: {provider: simulated, replies: [Yes.]}
",
    );
    let found = workspace
        .run(["validate", "--format", "json", "outer.yaml"])
        .expect_code(0);
    assert_eq!(codes(&found), ["W040 7:52", "W013 10:58", "W040 13:52", "W018 15:79"]);
    // An agent as the result: its output, or `{response: null}`.
    workspace.write(
        "inner.yaml",
        "name: inner\nresult: judge\nagents:\n  - {name: judge, script: judge.rhai}\n",
    );
    workspace.write(
        "outer.yaml",
        "name: outer
agents:
  - {name: inner, ensemble: inner.yaml}
  - name: a
    script: judge.rhai
    dependencies: [{agent_name: inner, condition: \"output.score == 'nine'\"}]
  - name: b
    script: judge.rhai
    dependencies: [{agent_name: inner, condition: output.scor > 3}]
  - {name: c, script: judge.rhai, dependencies: [{agent_name: inner, condition: output.response is None}]}
  - {name: d, script: judge.rhai, dependencies: [{agent_name: inner, condition: output.score > 8}]}
",
    );
    let found = workspace
        .run(["validate", "--format", "json", "outer.yaml"])
        .expect_code(0);
    assert_eq!(codes(&found), ["W040 6:52", "W013 9:58"]);
    // An ensemble that contains itself ends the search.
    workspace.write(
        "inner.yaml",
        "name: inner\nresult: {x: outputs.middle.all}\nagents:\n  - {name: middle, ensemble: middle.yaml}\n",
    );
    workspace.run(["validate", "outer.yaml"]).expect_code(2);
}
