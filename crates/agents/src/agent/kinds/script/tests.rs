//! Runs of what a script names.

#![expect(clippy::disallowed_methods, reason = "the tests prepare files")]

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use ensemble_language::data::ExecutionFailure;
use ensemble_language::source::SourceText;
use ensemble_process::DEFAULT_OUTPUT_CAP;
use ensemble_process::test_support::{an_execution, unwatched};

/// A project with the ensemble file in a folder of its own.
struct Project(TempDir);

impl Project {
    fn new() -> Self {
        let folder = TempDir::new().expect("a folder");
        for name in ["ensembles", "scripts"] {
            fs::create_dir(folder.path().join(name)).expect("created");
        }
        Self(folder)
    }

    fn places(&self) -> ScriptFolders {
        ScriptFolders {
            ensemble_dir: self.path("ensembles"),
            project_root: self.0.path().to_owned(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str, mode: u32) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("permitted");
        path
    }

    async fn perform(&self, script: &str) -> Result<Value, ExecutionFailure> {
        let runner = build_unchecked_runner(script, &self.places(), unwatched(DEFAULT_OUTPUT_CAP));
        match runner.execute_attempt(an_execution()).await {
            AttemptEnd::Finished(observation) => observation.result.map(Value::Object),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn command_lines_run_with_and_without_a_shell() {
    let project = Project::new();
    assert_eq!(project.perform("echo 'a  b'").await, Ok(json!({"response": "a  b"})));
    assert_eq!(project.perform("echo a | tr a b").await, Ok(json!({"response": "b"})));
    assert_eq!(project.perform("X=7 sh -c 'echo $X'").await, Ok(json!({"response": 7})));
    let failure = project.perform("exit 3").await.expect_err("a failure");
    assert_eq!(failure.kind, FailureKind::Exit);
    let failure = project
        .perform("no-such-command-anywhere")
        .await
        .expect_err("a failure");
    assert_eq!(failure.kind, FailureKind::Unavailable);
}

impl Project {
    /// Runs the script of an agent with these `args` and this `stdin`, with an input of several words.
    async fn perform_with(&self, script: &str, args: &[&str], stdin: Option<&str>) -> Result<Value, ExecutionFailure> {
        let source = SourceText::new("e.yaml", "name: e\nagents: [{name: a, script: ls}]\n");
        let ensemble = ensemble_language::loader::load_ensemble(&source)
            .ensemble
            .expect("an ensemble");
        let args: Vec<String> = args.iter().map(|text| (*text).to_owned()).collect();
        let templates = ScriptTemplates::compile_templates(&ensemble.agents[0], &args, stdin).expect("templates");
        let runner = build_checked_runner(script, templates, &self.places(), unwatched(DEFAULT_OUTPUT_CAP));
        let execution = ExecutionInput {
            input: "it's $HOME; a  b".into(),
            ..an_execution()
        };
        match runner.expect("a script").execute_attempt(execution).await {
            AttemptEnd::Finished(observation) => observation.result.map(Value::Object),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn arguments_are_one_each_and_no_shell_reads_them() {
    let project = Project::new();
    let text = |text: &str| Ok(json!({"response": text}));
    let performed = project
        .perform_with("printf '<%s>'", &["{{ input }}", "", "-x"], None)
        .await;
    assert_eq!(performed, text("<it's $HOME; a  b><><-x>"));
    let performed = project
        .perform_with("printf '<%s>' \"$@\" | cat", &["{{ input }}", "$1"], None)
        .await;
    assert_eq!(performed, text("<it's $HOME; a  b><$1>"));
    let performed = project.perform_with("cat", &["-A"], Some("{{ input }}\nend\n")).await;
    assert_eq!(performed, text("it's $HOME; a  b$\nend$"));
    let performed = project.perform_with("wc -c", &[], Some("")).await;
    assert_eq!(performed, Ok(json!({"response": 0})));
}

#[test]
fn a_script_must_be_there_before_the_run_and_a_rhai_script_must_compile() {
    let project = Project::new();
    project.write("broken.rhai", "let = ;", 0o644);
    project.write("fine.rhai", "1", 0o644);
    let start = |script: &str| {
        let bounds = unwatched(DEFAULT_OUTPUT_CAP);
        build_checked_runner(script, ScriptTemplates::default(), &project.places(), bounds).map(drop)
    };
    assert_eq!(start("fine.rhai"), Ok(()));
    assert!(matches!(start("broken.rhai"), Err(ScriptStartError::Compile(_))));
    assert!(matches!(start("gone.rhai"), Err(ScriptStartError::Lookup(_))));
    assert!(matches!(start("no-such-program"), Err(ScriptStartError::Lookup(_))));
    assert_eq!(start("exit 3"), Ok(()));
}

#[tokio::test]
async fn scripts_run_in_the_project_root() {
    let project = Project::new();
    project.write("ensembles/where.sh", "pwd", 0o644);
    let root = project.0.path().canonicalize().expect("a folder");
    assert_eq!(
        project.perform("where.sh").await,
        Ok(json!({"response": root.to_string_lossy()}))
    );
}

#[tokio::test]
async fn a_script_may_be_written_after_its_runner_was_made() {
    let project = Project::new();
    let runner = build_unchecked_runner("late.sh", &project.places(), unwatched(DEFAULT_OUTPUT_CAP));
    let output = async || match runner.execute_attempt(an_execution()).await {
        AttemptEnd::Finished(observation) => observation.result.map(Value::Object),
        other => panic!("{other:?}"),
    };
    assert_eq!(output().await.expect_err("a failure").kind, FailureKind::Unavailable);
    project.write("scripts/late.sh", "echo here", 0o644);
    assert_eq!(output().await, Ok(json!({"response": "here"})));
}

#[tokio::test]
async fn a_script_that_is_written_later_comes_before_the_program_on_path() {
    let project = Project::new();
    let runner = build_unchecked_runner("true --x", &project.places(), unwatched(DEFAULT_OUTPUT_CAP));
    let output = async || match runner.execute_attempt(an_execution()).await {
        AttemptEnd::Finished(observation) => observation.result.map(Value::Object),
        other => panic!("{other:?}"),
    };
    assert_eq!(output().await, Ok(json!({"response": ""})));
    assert_eq!(output().await, Ok(json!({"response": ""})));
    let own = project.write("scripts/true", "#!/bin/sh\necho mine $1", 0o755);
    assert_eq!(output().await, Ok(json!({"response": "mine --x"})));
    fs::remove_file(own).expect("removed");
    assert_eq!(output().await, Ok(json!({"response": ""})));
}

#[tokio::test]
async fn the_cap_reaches_the_process() {
    let project = Project::new();
    let runner = build_unchecked_runner("echo 12345", &project.places(), unwatched(5));
    let AttemptEnd::Finished(observation) = runner.execute_attempt(an_execution()).await else {
        panic!("it asks nobody");
    };
    assert_eq!(
        observation.result.expect_err("a failure").kind,
        FailureKind::OutputTooLarge
    );
}

#[tokio::test]
async fn a_rhai_script_runs_inside_the_process() {
    let project = Project::new();
    project.write("scripts/a.rhai", "()", 0o644);
    assert_eq!(project.perform("a.rhai").await, Ok(json!({"response": null})));
}

#[tokio::test]
async fn a_rhai_script_that_changes_or_comes_earlier_is_the_next_that_runs() {
    let project = Project::new();
    let runner = build_unchecked_runner("a.rhai", &project.places(), unwatched(DEFAULT_OUTPUT_CAP));
    let output = async || match runner.execute_attempt(an_execution()).await {
        AttemptEnd::Finished(observation) => observation.result.map(Value::Object),
        other => panic!("{other:?}"),
    };
    assert_eq!(output().await.expect_err("a failure").kind, FailureKind::Unavailable);
    let last = project.write("scripts/a.rhai", "#{n: 1}", 0o644);
    assert_eq!(output().await, Ok(json!({"n": 1})));
    project.write("scripts/a.rhai", "#{n: 2}", 0o644);
    assert_eq!(output().await, Ok(json!({"n": 2})));
    let first = project.write("a.rhai", "#{n: 3}", 0o644);
    assert_eq!(output().await, Ok(json!({"n": 3})));
    fs::remove_file(first).expect("removed");
    assert_eq!(output().await, Ok(json!({"n": 2})));
    fs::remove_file(last).expect("removed");
    let failure = output().await.expect_err("a failure");
    assert!(failure.error.contains("there is no file `a.rhai`"), "{failure:?}");
}
