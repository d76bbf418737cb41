//! `import` through the binary: files, folders, exit codes, and an ensemble that runs at once.

use crate::support::Workspace;

/// A project of llm-orc with a script and a profile.
fn project() -> Workspace {
    let workspace = Workspace::new();
    workspace.write(
        ".llm-orc/ensembles/count.yaml",
        "# Counts words.\nname: count\ndefault_task: one two three\nagents:\n  - name: count\n    script: scripts/count.sh\n  - name: tell\n    script: tell.sh\n    depends_on: [count]\n    parameters:\n      unit: words\n",
    );
    workspace.write(".llm-orc/scripts/count.sh", "printf '{\"words\": 3}'\n");
    workspace.write(".llm-orc/scripts/tell.sh", "said=$(cat)\ncase $said in *'\"words\":3'*) ;; *) exit 1 ;; esac\ncase $said in *'\"unit\":\"words\"'*) echo told ;; *) exit 1 ;; esac\n");
    workspace.write(
        ".llm-orc/config.yaml",
        "model_profiles:\n  local: {provider: mock, model: m, mood: calm}\n",
    );
    workspace
}

#[test]
fn an_ensemble_of_scripts_runs_at_once() {
    let workspace = project();
    let imported = workspace
        .run([
            "import",
            ".llm-orc/ensembles/count.yaml",
            "--output",
            "ensembles/count.yaml",
        ])
        .expect_code(0);
    assert_eq!(
        (imported.stdout.as_str(), imported.stderr.as_str()),
        ("wrote ensembles/count.yaml\n", "")
    );
    let text = workspace.read("ensembles/count.yaml");
    assert!(text.starts_with("# Counts words.\nname: count\n"), "{text}");
    workspace.run(["validate", "--deny-warnings"]).expect_code(0);
    let run = workspace.run(["run", "count", "--output", "json"]).expect_code(0);
    assert_eq!(run.sequence(), ["1 count", "2 tell"]);
    assert_eq!(run.json()["final_state"]["words"], 3);
}

#[test]
fn what_is_lost_is_told_with_its_place_and_the_exit_code_says_so() {
    let workspace = project();
    workspace.write(
        ".llm-orc/ensembles/fan.yaml",
        "name: fan\nagents:\n  - name: split\n    script: count.sh\n  - name: each\n    model_profile: local\n    depends_on: [split]\n    fan_out: true\n",
    );
    let imported = workspace.run(["import", ".llm-orc/ensembles/fan.yaml"]).expect_code(1);
    assert!(imported.stdout.starts_with("name: fan\n"), "{}", imported.stdout);
    assert!(
        imported.stdout.contains("    #   | fan_out: true\n"),
        "{}",
        imported.stdout
    );
    for words in [
        "warning: `fan_out` is not converted",
        ".llm-orc/ensembles/fan.yaml:8:5",
        "= help: let the agent work through the list",
        ".llm-orc/config.yaml:2:37",
        "3 things to check",
    ] {
        assert!(imported.stderr.contains(words), "{words}\n{}", imported.stderr);
    }
    workspace.write("fan.yaml", &imported.stdout);
    workspace.run(["validate", "fan.yaml"]).expect_code(0);
}

#[test]
fn nothing_is_overwritten_unasked() {
    let workspace = project();
    workspace.write("ensembles/count.yaml", "mine");
    let old = ".llm-orc/ensembles/count.yaml";
    // A folder takes the file under its own name.
    let refused = workspace.run(["import", old, "-o", "ensembles"]).expect_code(2);
    assert!(
        refused.stderr.contains("ensembles/count.yaml already exists"),
        "{}",
        refused.stderr
    );
    assert_eq!(workspace.read("ensembles/count.yaml"), "mine");
    workspace
        .run(["import", old, "-o", "ensembles", "--force"])
        .expect_code(0);
    assert!(workspace.read("ensembles/count.yaml").contains("name: count"));
    workspace.run(["import", old, "--force"]).expect_code(2);
}

#[test]
fn the_new_file_names_the_schema_where_it_stands() {
    let workspace = project();
    workspace.run(["init", "tea"]).expect_code(0);
    workspace
        .run(["import", ".llm-orc/ensembles/count.yaml", "-o", "ensembles"])
        .expect_code(0);
    let text = workspace.read("ensembles/count.yaml");
    assert!(
        text.starts_with("# yaml-language-server: $schema=ensemble.schema.json\n"),
        "{text}"
    );
}

#[test]
fn what_is_no_ensemble_is_refused_with_its_place() {
    let workspace = project();
    let text = "agents:\n  - name: a\n  - name: [\n";
    let refused = workspace.run_with_stdin(["import", "-"], text).expect_code(2);
    assert!(
        refused.stderr.contains("error[E001]") && refused.stderr.contains("<stdin>:"),
        "{}",
        refused.stderr
    );
    assert_eq!(refused.stdout, "");
    let refused = workspace
        .run_with_stdin(["import", "-"], "name: e\nagents: none\n")
        .expect_code(2);
    assert!(
        refused.stderr.contains("error: this is not an ensemble of llm-orc"),
        "{}",
        refused.stderr
    );
    assert!(refused.stderr.contains("<stdin>:2:9"), "{}", refused.stderr);
    workspace.run(["import", "nowhere.yaml"]).expect_code(2);
    let piped = workspace
        .run_with_stdin(["import", "-"], "agents: [{name: a, script: echo hi}]\n")
        .expect_code(1);
    assert!(piped.stdout.contains("name: imported\n"), "{}", piped.stdout);
}

#[test]
fn lines_of_scripts_that_parse_a_response_are_told() {
    let workspace = project();
    workspace.write(
        ".llm-orc/scripts/merge.py",
        "import json, sys\ndeps = json.load(sys.stdin)[\"dependencies\"]\nfound = json.loads(deps[\"count\"][\"response\"])\n",
    );
    workspace.write(
        ".llm-orc/ensembles/merge.yaml",
        "name: merge\nagents:\n  - name: count\n    script: count.sh\n  - name: merge\n    script: merge.py\n    depends_on: [count]\n  - name: again\n    script: merge.py\n    depends_on: [count]\n",
    );
    let imported = workspace
        .run(["import", ".llm-orc/ensembles/merge.yaml"])
        .expect_code(1);
    for words in [
        "warning: the script reads the `response` of a dependency as JSON text",
        "--> .llm-orc/scripts/merge.py:3:9",
        "read the keys of the dependency without parsing",
        "1 thing to check",
    ] {
        assert!(imported.stderr.contains(words), "{words}\n{}", imported.stderr);
    }
    assert!(
        imported.stdout.contains("(.llm-orc/scripts/merge.py:3)"),
        "{}",
        imported.stdout
    );
}

#[test]
fn an_unknown_provider_leaves_its_fallback_to_answer() {
    let workspace = Workspace::new();
    workspace.write(
        "old.yaml",
        "name: old\nmodel_profiles:\n  first: {provider: elsewhere, model: m, fallback_model_profile: second}\n  second: {provider: mock, model: m}\nagents:\n  - {name: a, model_profile: first}\n",
    );
    workspace.run(["import", "old.yaml", "-o", "new.yaml"]).expect_code(1);
    let run = workspace.run(["run", "new.yaml", "--output", "json"]).expect_code(0);
    assert_eq!(run.json()["final_state"]["response"], "This is a simulated reply.");
}
