//! `init` through the binary: what it writes runs at once.

use crate::support::Workspace;

#[test]
fn what_is_written_is_valid_and_runs_at_once() {
    let workspace = Workspace::new();
    let outcome = workspace.run(["init", "tea"]).expect_code(0);
    assert_eq!(
        outcome.stdout,
        "wrote ensembles/tea.yaml\nwrote ensembles/tea/reviewer.rhai\nwrote ensembles/tea.test.yaml\n\
         wrote ensembles/ensemble.schema.json\nwrote .gitignore\n"
    );
    assert_eq!(outcome.stderr, "\nnext: ensemble run tea\n");
    let validated = workspace
        .run(["validate", "--deny-warnings", "--format", "json"])
        .expect_code(0);
    assert_eq!(validated.json()["diagnostics"], serde_json::json!([]));
    let run = workspace.run(["run", "tea", "--output", "json"]).expect_code(0);
    assert_eq!(run.json()["completion_reason"], "completed");
    assert_eq!(run.sequence(), ["1 writer", "2 reviewer", "3 writer", "4 reviewer"]);
    assert_eq!(run.json()["final_state"]["approved"], true);
}

/// The first line leads an editor to the schema, without a network.
#[test]
fn the_schema_is_where_the_first_line_says() {
    let workspace = Workspace::new();
    workspace.run(["init", "tea"]).expect_code(0);
    let text = workspace.read("ensembles/tea.yaml");
    let first = text.lines().next().unwrap_or_default();
    let file = first
        .strip_prefix("# yaml-language-server: $schema=")
        .expect("the line");
    let schema = workspace.run(["schema"]).expect_code(0).stdout;
    assert_eq!(workspace.read(&format!("ensembles/{file}")), schema);

    // A second ensemble shares it, and one that somebody changed is kept.
    let second = workspace.run(["init", "milk"]).expect_code(0);
    assert_eq!(
        second.stdout,
        "wrote ensembles/milk.yaml\nwrote ensembles/milk/reviewer.rhai\nwrote ensembles/milk.test.yaml\n"
    );
    assert_eq!(second.stderr, "\nnext: ensemble run milk\n");
    workspace.write("ensembles/ensemble.schema.json", "{}");
    let third = workspace.run(["init", "water"]).expect_code(0);
    assert!(
        third
            .stderr
            .contains("did not overwrite ensembles/ensemble.schema.json"),
        "{}",
        third.stderr
    );
    assert_eq!(workspace.read("ensembles/ensemble.schema.json"), "{}");
}

#[test]
fn nothing_is_overwritten() {
    let workspace = Workspace::new();
    workspace.run(["init", "tea"]).expect_code(0);
    workspace.write("ensembles/tea.yaml", "mine");
    let again = workspace.run(["init", "tea"]).expect_code(2);
    assert!(
        again.stderr.contains("ensembles/tea.yaml already exists"),
        "{}",
        again.stderr
    );
    assert_eq!(workspace.read("ensembles/tea.yaml"), "mine");
    workspace.write("ensembles/milk/reviewer.rhai", "mine");
    workspace.run(["init", "milk"]).expect_code(2);
    assert!(
        !workspace.path().join("ensembles/milk.yaml").exists(),
        "nothing is half done"
    );
}

#[test]
fn the_folder_gives_the_name() {
    let workspace = Workspace::new();
    let folder = workspace.path().join("my tëam!");
    workspace.write("my tëam!/x", "");
    let output = workspace
        .command(["init"])
        .current_dir(&folder)
        .output()
        .expect("it starts");
    assert!(output.status.success());
    assert!(
        workspace
            .read("my tëam!/ensembles/my-t-am.yaml")
            .contains("name: my-t-am\n")
    );
    workspace.run(["init", "no/path"]).expect_code(2);
}

#[test]
fn a_name_is_also_taken_from_the_name_of_a_file() {
    for given in ["tea.yaml", "tea.yml"] {
        let workspace = Workspace::new();
        let outcome = workspace.run(["init", given]).expect_code(0);
        assert!(
            outcome.stdout.starts_with("wrote ensembles/tea.yaml\n"),
            "{}",
            outcome.stdout
        );
        assert_eq!(outcome.stderr, "\nnext: ensemble run tea\n");
        assert!(workspace.read("ensembles/tea.yaml").contains("name: tea\n"));
    }
    Workspace::new().run(["init", ".yaml"]).expect_code(2);
    Workspace::new().run(["init", "tea.test.yaml"]).expect_code(2);
}

/// The names of `--list-templates`.
fn templates() -> Vec<String> {
    let listed = Workspace::new().run(["init", "--list-templates"]).expect_code(0).stdout;
    let names = listed.lines().filter_map(|line| line.split_whitespace().next());
    names.map(str::to_owned).collect()
}

#[test]
fn every_template_is_valid_and_runs_at_once() {
    assert_eq!(
        templates(),
        [
            "loop",
            "approval",
            "debugging",
            "research",
            "game",
            "debate",
            "map-files",
            "chat",
            "assistant"
        ]
    );
    for template in templates() {
        let workspace = Workspace::new();
        let written = workspace
            .run(["init", "my-tea", "--template", &template])
            .expect_code(0);
        let validated = workspace
            .run(["validate", "--deny-warnings", "--format", "json"])
            .expect_code(0);
        assert_eq!(validated.json()["diagnostics"], serde_json::json!([]), "{template}");
        // Without a terminal, a key, or a network; and without any other program, save where files are read.
        let path = if template == "map-files" { "/usr/bin:/bin" } else { "" };
        let mut command = workspace.command(["run", "my-tea", "--output", "json"]);
        let run = crate::support::Running(command.env("PATH", path).spawn().expect("it starts"));
        // An approval waits for a person.
        let (code, outcome) = match template.as_str() {
            "approval" => (3, "waiting_for_input"),
            _ => (0, "completed"),
        };
        let result = run.finish().expect_code(code).json();
        assert_eq!(result["completion_reason"], outcome, "{template}");
        assert_eq!(result["warnings"], serde_json::json!([]), "{template}");
        // What is said to be next works, and what the first lines show can be typed.
        let next = written
            .stderr
            .trim()
            .strip_prefix("next: ensemble ")
            .expect("a command");
        let words = next.split(' ').map(str::to_owned);
        workspace.run_with_stdin(words, "hello\n").expect_code(code);
        // Its cases pass and start no process.
        let tested = workspace.command(["test"]).env("PATH", "").spawn();
        let tested = crate::support::Running(tested.expect("it starts"))
            .finish()
            .expect_code(0);
        assert!(
            tested.stdout.contains("PASS ensembles/my-tea.test.yaml"),
            "{}",
            tested.stdout
        );
        // No name of the ensemble from which the template was made is left.
        let text = workspace.read("ensembles/my-tea.yaml") + &workspace.read("ensembles/my-tea.test.yaml");
        assert!(text.contains("\nname: my-tea\n"), "{text}");
        for name in ["NAME", "assistant", "reviews", "debugging", "researcher", "story"] {
            for left in [
                format!("{name}.yaml"),
                format!("ensembles/{name}"),
                format!("script: {name}/"),
                format!("run {name} "),
            ] {
                assert!(!text.contains(&left), "{template}: {left}: {text}");
            }
        }
    }
}

#[test]
fn an_unknown_template_is_refused_with_the_known_ones() {
    let workspace = Workspace::new();
    let outcome = workspace.run(["init", "tea", "--template", "chta"]).expect_code(2);
    assert!(
        outcome
            .stderr
            .contains("loop, approval, debugging, research, game, debate, map-files, chat, assistant"),
        "{}",
        outcome.stderr
    );
    assert!(!workspace.path().join("ensembles").exists());
}

#[test]
fn the_approval_takes_no_for_an_answer() {
    let workspace = Workspace::new();
    workspace.run(["init", "notice", "-t", "approval"]).expect_code(0);
    workspace.write("answers.yaml", "editor: [\"no\", publish]\n");
    let run = workspace.run(["run", "notice", "--answers", "answers.yaml", "--output", "json"]);
    let run = run.expect_code(0);
    assert_eq!(
        run.sequence(),
        ["1 author", "2 editor", "3 author", "4 editor", "5 publisher"]
    );
}

#[test]
fn runs_are_ignored_by_git_unless_somebody_has_decided() {
    let workspace = Workspace::new();
    workspace.run(["init", "tea"]).expect_code(0);
    assert!(
        workspace
            .read(".gitignore")
            .lines()
            .any(|line| line == ".ensemble/runs/")
    );

    let decided = Workspace::new();
    decided.write(".gitignore", "mine\n");
    let outcome = decided.run(["init", "tea"]).expect_code(0);
    assert!(!outcome.stdout.contains(".gitignore"), "{}", outcome.stdout);
    assert_eq!(decided.read(".gitignore"), "mine\n");

    // The runs of a folder inside a project are recorded in the project.
    let inner = Workspace::new();
    inner.write(".ensemble/config.yaml", "model_profiles: {}\n");
    inner.write("part/x", "");
    let mut command = inner.command(["init", "tea"]);
    let status = command
        .current_dir(inner.path().join("part"))
        .status()
        .expect("it starts");
    assert!(status.success());
    assert!(!inner.path().join("part/.gitignore").exists());
}
