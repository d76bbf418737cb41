//! Runs that are merged through the library.

use std::sync::Arc;

use ensemble_core::store::{Durability, MemoryStore, RunId};
use ensemble_core::thread::MergeOrder;
use ensemble_language::data::RunContext;
use ensemble_runs::{EnsembleRef, Project, RunError, RunHost, RunMergeError, RunOptions, Runs};

const ECHO: &str = "name: echo\nmodel_profiles: {m: {provider: simulated, replies: [one, two, three]}}\nagents: [{name: a, model_profile: m}]\n";

fn open_runs() -> (tempfile::TempDir, Runs) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().canonicalize().expect("it is there");
    let runs = Runs::for_project(Project::from_folder(path), RunHost::from_system().without_operator());
    (folder, runs.with_store(Arc::new(MemoryStore::new())))
}

async fn say(runs: &Runs, run: &RunId, text: &str) {
    let continued = runs
        .continue_with_message(run, text, RunOptions::default())
        .await
        .expect("it continues");
    continued.wait_and_close().await.expect("it ends");
}

/// Two runs with one message in common.
async fn part(runs: &Runs) -> (RunId, RunId) {
    let options = RunOptions::default().with_input("hello");
    let one = runs
        .start_run(EnsembleRef::from_text(ECHO), options)
        .await
        .expect("it starts");
    let one = one.wait_and_close().await.expect("it ends").run;
    let fork = runs.prepare_fork(&one, 1, RunContext::default(), None, RunOptions::default());
    let other = fork
        .await
        .expect("a fork")
        .ready
        .start_and_spawn()
        .await
        .expect("it starts");
    let other = other.wait_and_close().await.expect("it ends").run;
    say(runs, &one, "left").await;
    say(runs, &other, "right").await;
    (one, other)
}

#[tokio::test]
async fn a_merged_run_continues_with_the_messages_of_both() {
    let (_folder, runs) = open_runs();
    let (one, other) = part(&runs).await;
    let merged = runs
        .merge_runs(&one, &other, MergeOrder::Sequence, Durability::None)
        .await;
    let merged = merged.expect("both continue the same run");
    assert_eq!(merged.origins, [one, other]);
    assert_eq!((merged.shared_messages, merged.added_messages), (1, [1, 1]));
    let continued = runs
        .continue_with_message(&merged.run, "both", RunOptions::default())
        .await
        .expect("it continues");
    let state = continued.wait_and_close().await.expect("it ends").state;
    let agent = state.plan().find_agent_id("a").expect("is there");
    let thread = state.agent_state(agent).thread();
    let texts: Vec<&str> = thread
        .iterations()
        .iter()
        .map(|one| &*one.messages[0].content)
        .collect();
    assert_eq!(texts, ["hello", "left", "right", "both"]);
}

#[tokio::test]
async fn a_run_that_is_still_running_is_not_merged() {
    let (_folder, runs) = open_runs();
    let (one, other) = part(&runs).await;
    let held = runs.lease_and_load_run(&other).await.expect("nobody drives it");
    for (a, b) in [(&one, &other), (&other, &one)] {
        let error = runs.merge_runs(a, b, MergeOrder::Sequence, Durability::None).await;
        let Err(RunError::Merge(RunMergeError::Running { run, .. })) = error else {
            panic!("{error:?}");
        };
        assert_eq!(run, other);
    }
    drop(held);
    let merged = runs
        .merge_runs(&one, &other, MergeOrder::Sequence, Durability::None)
        .await;
    merged.expect("nobody drives them");
}
