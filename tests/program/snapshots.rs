//! The exact output of every command and every report format, over ten recorded runs.
//!
//! Each snapshot is a file in `tests/snapshots`. `UPDATE_EXPECT=1 cargo test --test program snapshots::` writes them all.

#![expect(clippy::disallowed_methods, reason = "tests make files and look at them")]

mod placeholders;
mod project;

use project::{Project, RUNS, recorded_project};

/// Pins how the run with this name is reported while it runs, afterwards, and when it goes on.
fn expect_reports(name: &str, next: &[&[&str]]) {
    expect_reports_of_the_run(name);
    expect_reports_of_the_record(name);
    Project::with_run(name).expect(name, "next", next);
}

fn expect_reports_of_the_run(name: &str) {
    let project = Project::without_runs();
    let run = |options: &[&'static str]| -> Vec<&str> { [&["run", name, "-i", "the sea"], options].concat() };
    project.expect(name, "run", &[&run(&[])]);
    project.expect(name, "run-verbose", &[&run(&["-v"])]);
    project.expect(name, "run-quiet", &[&run(&["-q"])]);
    project.expect(name, "run-json", &[&run(&["--output", "json"])]);
    project.expect(name, "run-events", &[&run(&["--output", "events"])]);
    project.expect(name, "run-dry", &[&["run", name, "--dry-run"]]);
}

fn expect_reports_of_the_record(name: &str) {
    let project = recorded_project();
    let id = format!("@{name}");
    project.expect(name, "show", &[&["runs", "show", &id]]);
    project.expect(name, "show-verbose", &[&["runs", "show", &id, "-v"]]);
    project.expect(name, "show-json", &[&["runs", "show", &id, "--output", "json"]]);
    project.expect(name, "show-events", &[&["runs", "show", &id, "--output", "events"]]);
    project.expect(name, "show-messages", &[&["runs", "show", &id, "--messages"]]);
    // The order of spans that begin at the same time is that of the clock.
    let otlp = if name == "nested" { None } else { Some("otlp") };
    for format in ["json", "markdown", "html"].into_iter().chain(otlp) {
        project.expect(
            name,
            &format!("export-{format}"),
            &[&["runs", "export", &id, "--output", format]],
        );
    }
    project.expect(
        name,
        "graph",
        &[&["graph", "--run", &id], &["graph", "--run", &id, "--output", "ascii"]],
    );
    project.expect(name, "graph-dot", &[&["graph", "--run", &id, "--output", "dot"]]);
    project.expect(name, "graph-svg", &[&["graph", "--run", &id, "--output", "svg"]]);
    project.expect(
        name,
        "replay",
        &[
            &["replay", &id],
            &["replay", &id, "-v"],
            &["replay", &id, "--output", "json"],
        ],
    );
    let estimate = ["estimate", name, "--from", &id];
    project.expect(
        name,
        "estimate",
        &[&estimate, &[&estimate[..], &["--output", "json"]].concat()],
    );
}

#[test]
fn a_completed_loop() {
    expect_reports(
        "loop",
        &[
            &["resume", "@loop"],
            &["continue", "@loop", "Once more"],
            &["fork", "@loop", "--at-turn", "2"],
            &["rerun", "@loop", "--from", "critic@2"],
            &["runs", "list"],
        ],
    );
}

#[test]
fn a_failed_script_with_a_handler() {
    expect_reports(
        "handler",
        &[
            &["rerun", "@handler", "--from", "fetch@1"],
            &["rerun", "@handler", "--from", "nobody@1"],
            &["fork", "@handler", "--at-turn", "9"],
        ],
    );
}

#[test]
fn a_failed_agent() {
    expect_reports(
        "failed",
        &[
            &["resume", "@failed"],
            &["rerun", "@failed", "--from", "build@2"],
            &["continue", "@failed", "Try again"],
        ],
    );
}

#[test]
fn a_run_that_was_cancelled_in_a_turn() {
    expect_reports(
        "cancelled",
        &[
            &["fork", "@cancelled", "--at-turn", "1"],
            &["continue", "@cancelled", "Go on"],
            &["runs", "list"],
            &["runs", "show", "@cancelled"],
        ],
    );
}

#[test]
fn a_run_that_timed_out() {
    expect_reports(
        "timeout",
        &[
            &["resume", "@timeout"],
            &["runs", "show", "@timeout"],
            &["resume", "@timeout"],
        ],
    );
}

#[test]
fn a_run_that_waits_for_answers() {
    expect_reports(
        "question",
        &[
            &["continue", "@question", "Well?"],
            &["resume", "@question"],
            &["resume", "@question", "--answer", "approve=perhaps"],
            &["resume", "@question", "--answer", "nobody=yes"],
            &["resume", "@question", "--answer", "approve=approve"],
            &["runs", "show", "@question"],
            &["resume", "@question", "--answer", "ok=yes"],
            &["runs", "show", "@question"],
            &["resume", "@question", "--answer", "ok=no"],
        ],
    );
    Project::with_run("question").expect(
        "question",
        "answered",
        &[
            &[
                "resume",
                "@question",
                "--answer",
                "approve=approve",
                "--answer",
                "ok=yes",
            ],
            &["runs", "show", "@question"],
            &["runs", "list"],
        ],
    );
}

#[test]
fn a_run_that_waits_for_a_permission() {
    expect_reports(
        "permission",
        &[
            &["resume", "@permission"],
            &["resume", "@permission", "--allow-tool", "pay"],
            &["runs", "show", "@permission"],
            &["runs", "show", "@permission", "--messages"],
            &["resume", "@permission", "--deny-tool", "pay"],
        ],
    );
}

#[test]
fn a_run_that_continued_after_its_end() {
    expect_reports(
        "continued",
        &[
            &["continue", "@continued", "And then?", "--then", "And at night?"],
            &["runs", "show", "@continued"],
            &["fork", "@continued", "--at-turn", "3"],
            &["runs", "list"],
        ],
    );
}

#[test]
fn a_nested_ensemble_for_each_item() {
    expect_reports(
        "nested",
        &[
            &["rerun", "@nested", "--from", "each[1]@2"],
            &["rerun", "@nested", "--from", "report@3"],
        ],
    );
}

#[test]
fn a_run_that_reached_its_budget() {
    expect_reports("budget", &[&["resume", "@budget"], &["continue", "@budget", "More"]]);
}

#[test]
fn lists_of_runs() {
    let project = recorded_project();
    project.expect(
        "commands",
        "runs-list",
        &[&["runs", "list"], &["runs", "list", "--output", "json"]],
    );
    project.expect(
        "commands",
        "runs-diff",
        &[
            &["runs", "diff", "@loop", "@loop"],
            &["runs", "diff", "@loop", "@handler"],
            &["runs", "diff", "@cancelled", "@timeout"],
            &["runs", "diff", "@loop", "@budget", "--output", "json"],
        ],
    );
    project.expect(
        "commands",
        "runs-prune",
        &[
            &["runs", "prune", "--keep", "2", "--dry-run"],
            &["runs", "prune", "--keep", "2", "--resumable", "--dry-run"],
            &["runs", "prune", "--outcome", "agent_failed,cancelled", "--dry-run"],
        ],
    );
    let changed = project.copy();
    changed.expect(
        "commands",
        "runs-rm",
        &[
            &["runs", "rm", "@loop"],
            &["runs", "rm", "@loop"],
            &["runs", "prune", "--keep", "2"],
            &["runs", "list"],
        ],
    );
}

#[test]
fn checks_of_files() {
    let project = Project::without_runs();
    for format in ["human", "json", "github", "sarif", "junit"] {
        project.expect(
            "commands",
            &format!("validate-{format}"),
            &[&["validate", "--output", format]],
        );
    }
    project.expect(
        "commands",
        "validate",
        &[
            &["validate", "loop"],
            &["validate", "warned", "--deny-warnings"],
            &["validate", "warned", "--allow", "W001,W013"],
            &["validate", "faulty", "-q"],
            &["validate", "absent"],
            &["validate", "faulty", "--diff", "--unsafe-fixes"],
            &["validate", "faulty", "--fix"],
            &["validate", "--ci", "question", "-v"],
        ],
    );
    for name in ["loop", "question", "nested", "warned", "faulty"] {
        let json = ["check", name, "--output", "json"];
        project.expect("commands", &format!("check-{name}"), &[&["check", name], &json]);
    }
    project.expect(
        "commands",
        "explain",
        &[
            &["explain", "E021"],
            &["explain", "W013"],
            &["explain", "E999"],
            &["explain", "loop"],
            &["explain", "question"],
            &["explain", "part"],
        ],
    );
    project.expect("commands", "explain-codes", &[&["explain"]]);
    for name in ["loop", "nested", "permission", "question"] {
        for format in ["mermaid", "dot", "ascii", "svg"] {
            let file = format!("graph-{name}-{format}");
            project.expect("commands", &file, &[&["graph", name, "--output", format]]);
        }
    }
}

#[test]
fn tests_of_ensembles() {
    let project = Project::without_runs();
    for format in ["human", "json", "github", "junit"] {
        project.expect("commands", &format!("test-{format}"), &[&["test", "--output", format]]);
    }
    project.expect(
        "commands",
        "test",
        &[
            &["test", "loop", "--coverage"],
            &["test", "loop", "--suggest"],
            &["test", "loop", "--mutate"],
            &["test", "loop", "--mutate", "--filter", "second"],
            &["test", "absent"],
            &["test", "loop", "--update"],
            &["test", "loop", "--coverage", "--output", "json"],
        ],
    );
}

#[test]
fn batches() {
    let project = Project::without_runs();
    project.expect(
        "commands",
        "batch",
        &[
            &["batch", "loop", "--data", "rows.jsonl", "--dry-run"],
            &["batch", "loop", "--data", "rows.jsonl"],
            &["batch", "loop", "--data", "rows.jsonl", "--output", "json"],
            &["batch", "failed", "--data", "rows.jsonl", "--jobs", "1"],
            &["batch", "failed", "--data", "rows.jsonl", "--output", "json"],
            &["batch", "merge", ".ensemble/batches/loop-rows/results.jsonl"],
            &["batch", "loop", "--data", "absent.jsonl"],
        ],
    );
}

#[test]
fn other_commands() {
    let project = Project::without_runs();
    project.expect("commands", "list", &[&["list"], &["list", "--output", "json"]]);
    project.expect(
        "commands",
        "models",
        &[
            &["models", "list"],
            &["models", "list", "loop"],
            &["models", "list", "loop", "--output", "json"],
            &["models", "check", "budget"],
            &["models", "check", "budget", "--output", "json"],
        ],
    );
    project.expect(
        "commands",
        "trust",
        &[
            &["trust", "--list"],
            &["trust", "ensembles/loop.yaml", "-y"],
            &["trust", "--list"],
        ],
    );
    project.expect(
        "commands",
        "import",
        &[&["import", "import-me.yaml"], &["import", "rows.jsonl"]],
    );
    project.expect(
        "commands",
        "init",
        &[
            &["init", "--list-templates"],
            &["init", "fresh"],
            &["run", "fresh", "-q"],
            &["init", "fresh"],
        ],
    );
    Project::without_runs().expect(
        "commands",
        "refusals",
        &[
            &["run", "absent"],
            &["run", "faulty"],
            &["run", "warned", "-q"],
            &["run", "loop", "--set", "wrong"],
            &["run", "loop", "--answer", "nobody=yes"],
            &["run", "loop", "--no-such-option"],
            &["runs", "show"],
            &["runs", "show", "absent"],
            &["replay", "absent"],
            &["estimate", "loop", "--last"],
            &["graph", "absent"],
            &["check", "absent"],
            &["nonsense"],
        ],
    );
}

/// Commands with their subcommands, as `--help` takes them.
const COMMANDS: [&[&str]; 39] = [
    &[],
    &["run"],
    &["batch"],
    &["batch", "answer"],
    &["batch", "merge"],
    &["chat"],
    &["validate"],
    &["test"],
    &["explain"],
    &["check"],
    &["graph"],
    &["list"],
    &["lsp"],
    &["ui"],
    &["mcp"],
    &["acp"],
    &["init"],
    &["import"],
    &["replay"],
    &["resume"],
    &["continue"],
    &["fork"],
    &["estimate"],
    &["rerun"],
    &["runs"],
    &["runs", "list"],
    &["runs", "fetch"],
    &["runs", "cancel"],
    &["runs", "show"],
    &["runs", "diff"],
    &["runs", "merge"],
    &["runs", "export"],
    &["runs", "prune"],
    &["runs", "rm"],
    &["models"],
    &["models", "check"],
    &["models", "list"],
    &["trust"],
    &["man"],
];

#[test]
fn help_texts() {
    let project = Project::without_runs();
    for command in COMMANDS.into_iter().chain([&["schema"][..], &["completions"]]) {
        let file = [&["help"], command].concat().join("-");
        project.expect("commands", &file, &[&[command, &["--help"]].concat()]);
    }
}

/// Every subcommand that the program lists has a snapshot of its help.
#[test]
fn every_command_has_a_help_text_here() {
    let project = Project::without_runs();
    let known = |command: &[&str]| COMMANDS.contains(&command) || matches!(command, ["schema" | "completions"]);
    for parent in [&[][..], &["runs"], &["models"], &["batch"]] {
        let names = project.subcommands(parent);
        assert!(!names.is_empty(), "{parent:?} has subcommands");
        for name in names {
            assert!(
                name == "help" || known(&[parent, &[name.as_str()]].concat()),
                "{parent:?} {name}"
            );
        }
    }
    assert_eq!(RUNS.len(), 10);
}
