//! Ids of runs that come from outside: none of them is a path, for whatever part of the library.

#![expect(clippy::disallowed_methods, reason = "tests make folders")]

use std::path::Path;

use ensemble_core::conversation::PermissionDecision;
use ensemble_core::request::{AnswerSource, RequestAddress, RequestAnswer, RequestDigest};
use ensemble_core::store::{RunId, StoreError};
use ensemble_runs::service::run_service::RunService;
use ensemble_runs::{EnsembleRef, Project, RunError, RunHost, RunOptions, Runs};

const TEXT: &str = "name: e\nagents: [{name: gate, input: {prompt: 'Go?'}}]\n";

/// A service of the project in this folder.
fn service(folder: &Path) -> RunService {
    std::fs::create_dir_all(folder.join(".ensemble")).expect("a folder");
    let host = RunHost::from_system().without_operator();
    RunService::new(Runs::for_project(Project::from_folder(folder), host))
}

/// Runs the ensemble until it waits, under this id.
async fn start(service: &RunService, id: &str) -> Result<RunId, RunError> {
    let options = RunOptions {
        id: Some(RunId::new(id)),
        ..RunOptions::default()
    };
    let id = service.start_run(EnsembleRef::from_text(TEXT), options).await?;
    service.wait_until_closed(&id).await;
    Ok(id)
}

fn is_refused<T>(result: Result<T, RunError>) -> bool {
    matches!(
        result,
        Err(RunError::Store(StoreError::InvalidId(_) | StoreError::Unknown { .. }))
    )
}

#[tokio::test]
async fn no_run_begins_outside_of_the_folder_of_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let service = service(&folder.path().join("a/b"));
    for id in [
        "../../escaped",
        "../../../../escaped",
        "/tmp/escaped-by-a-test",
        "..",
        "",
        "a/b",
        "a\0b",
    ] {
        let result = start(&service, id).await;
        assert!(
            matches!(result, Err(RunError::Store(StoreError::InvalidId(_)))),
            "{id:?}"
        );
    }
    let entries = std::fs::read_dir(folder.path()).expect("a folder").count();
    assert_eq!(entries, 1, "nothing is next to the project");
    assert!(!Path::new("/tmp/escaped-by-a-test").exists());
    start(&service, "own-id").await.expect("it begins");
    assert!(folder.path().join("a/b/.ensemble/runs/own-id").is_dir());
}

#[tokio::test]
async fn no_id_reads_or_changes_a_run_of_another_project() {
    let folder = tempfile::tempdir().expect("a folder");
    let [own, other] = ["own", "other"].map(|name| service(&folder.path().join(name)));
    start(&other, "victim").await.expect("it begins");
    let victim = folder.path().join("other/.ensemble/runs/victim");
    // A run in the folder of the project is not one of its runs either.
    let beside = folder.path().join("own/beside");
    std::fs::create_dir(&beside).expect("a folder");
    for name in ["journal.jsonl", "ensemble.yaml"] {
        std::fs::copy(victim.join(name), beside.join(name)).expect("copied");
    }
    let absolute = victim.display().to_string();
    for text in [
        &*absolute,
        "../other/.ensemble/runs/victim",
        "beside",
        "./beside",
        "beside/journal.jsonl",
    ] {
        let id = RunId::new(text);
        assert!(is_refused(own.load_summary(&id).await), "{text}");
        assert!(is_refused(own.read_records_with_nested(&id).await), "{text}");
        assert!(is_refused(own.load_recorded_run(&id).await), "{text}");
        assert!(own.follow_run(&id, 0).await.is_err(), "{text}");
        assert!(is_refused(own.resume_run(&id, RunOptions::default()).await), "{text}");
        assert!(is_refused(own.cancel_run(&id, "client").await), "{text}");
        assert!(is_refused(own.load_pending_requests(&id).await), "{text}");
        assert!(is_refused(own.runs().lease_and_load_run(&id).await.map(drop)), "{text}");
        assert!(own.runs().resolve_record(&id).await.is_err(), "{text}");
    }
    let own_id = start(&own, "mine").await.expect("it begins");
    own.load_summary(&own_id).await.expect("it is found");
}

#[tokio::test]
async fn an_answer_to_nothing_is_an_error_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let service = service(folder.path());
    let id = start(&service, "waits").await.expect("it begins");
    let open = service.load_pending_requests(&id).await.expect("it waits");
    let request = open.first().expect("a question");
    let nobody: RequestAddress = "nobody".parse().expect("an address");
    let digest = RequestDigest::default();
    for (run, address, digest) in [
        (RunId::new("missing"), &request.address, &request.digest),
        (id.clone(), &nobody, &request.digest),
        (id.clone(), &request.address, &digest),
    ] {
        for answer in [
            RequestAnswer::Text("yes".into()),
            RequestAnswer::Permission(PermissionDecision::Once),
        ] {
            let answered = service.answer_or_resume(
                &run,
                (address, digest),
                answer,
                AnswerSource::Page,
                RunOptions::default(),
            );
            let answered = tokio::time::timeout(std::time::Duration::from_secs(10), answered).await;
            answered.expect("nobody waits").expect_err("nobody asks this");
        }
    }
}
