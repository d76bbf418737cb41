//! An engine that others can write to: whatever it answers, the client writes only the run that was asked for, below its store.

#![expect(clippy::disallowed_methods, reason = "tests look at folders")]

mod support;

use std::path::Path;
use std::sync::{Arc, Mutex};

use chrono::{DateTime, Utc};
use ensemble_core::conversation::{Event, RunStarted};
use ensemble_core::log::JOURNAL_FORMAT;
use ensemble_core::store::{RunId, RunStore};
use ensemble_remote::EngineClient;
use ensemble_remote::protocol::{NestedRunLines, RecordsReply, RunStartRequest, encode_record_lines};
use ensemble_runs::store::files::FileRunStore;
use serde_json::{Value, json};

/// An engine that answers each request with this, and the paths that it was asked for.
fn engine(reply: &Value) -> (EngineClient, Arc<Mutex<Vec<String>>>) {
    let (body, paths) = (reply.to_string(), Arc::new(Mutex::new(Vec::new())));
    let asked = Arc::clone(&paths);
    let client = support::start_engine(move |path| {
        asked.lock().expect("the paths").push(path.to_owned());
        Some((200, body.clone()))
    });
    (client, paths)
}

fn start_event(run_id: &str) -> RunStarted {
    RunStarted {
        format: JOURNAL_FORMAT,
        run_id: run_id.into(),
        ensemble: "e".into(),
        ensemble_file: String::new(),
        ensemble_digest: String::new(),
        project_root: String::new(),
        input: "".into(),
        context: Default::default(),
        inputs: Default::default(),
        models: Vec::new(),
        simulated: Vec::new(),
        stubs: Default::default(),
        responders: Default::default(),
        definitions: None,
        forked_from: None,
        caller: Default::default(),
        trace: None,
        program: String::new(),
    }
}

fn lines(run_id: &str) -> String {
    let record = ensemble_core::conversation::Record {
        seq: 0,
        at: DateTime::<Utc>::UNIX_EPOCH,
        event: Event::RunStarted(Box::new(start_event(run_id))),
    };
    encode_record_lines([&record])
}

fn inner(name: &str, inside: Vec<NestedRunLines>) -> NestedRunLines {
    NestedRunLines {
        name: name.to_owned(),
        ensemble: "name: e\n".to_owned(),
        lines: lines("inner"),
        run: None,
        asks: false,
        inside,
    }
}

/// The records of a run that calls itself so, with these runs inside it.
fn reply(run_id: &str, inside: Vec<NestedRunLines>) -> Value {
    let start: RunStartRequest = serde_json::from_value(json!({
        "at": DateTime::<Utc>::UNIX_EPOCH,
        "protocol": ensemble_remote::protocol::PROTOCOL,
        "started": start_event(run_id),
        "ensemble": "name: e\n",
        "file": "e.yaml",
    }))
    .expect("a start");
    let reply = RecordsReply {
        start: Some(start),
        lines: lines(run_id),
        inside,
        is_over: true,
        ..RecordsReply::default()
    };
    serde_json::to_value(reply).expect("JSON")
}

/// All files below a folder.
fn list_files(folder: &Path) -> Vec<String> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.path().is_dir() {
            true => files.extend(list_files(&entry.path())),
            false => files.push(entry.path().display().to_string()),
        }
    }
    files
}

/// The error of copying the run `r`, after which nothing of it is there.
async fn copy_error(reply: &Value) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let project = folder.path().join("a/b/c");
    let store = FileRunStore::for_project(&project);
    let error = match engine(reply).0.copy_run(&RunId::new("r"), &store).await {
        Ok(_) => panic!("it was copied: {:?}", list_files(folder.path())),
        Err(error) => error.to_string(),
    };
    let mut files = list_files(folder.path());
    files.retain(|file| !file.ends_with(".gitignore"));
    assert_eq!(files, Vec::<String>::new(), "{error}");
    assert!(store.list_runs().await.expect("a list").is_empty(), "{error}");
    error
}

#[tokio::test]
async fn a_run_is_copied_with_the_runs_inside_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = FileRunStore::for_project(folder.path());
    let (client, _) = engine(&reply("r", vec![inner("a-1-1", vec![inner("b-1.0-1", Vec::new())])]));
    client.copy_run(&RunId::new("r"), &store).await.expect("a copy");
    let id = RunId::parse("r/sub/a-1-1/sub/b-1.0-1").expect("an id");
    store.find_run_by_id(&id).await.expect("it is copied, too");
}

#[tokio::test]
async fn a_run_with_a_refused_run_inside_it_is_copied_without_it() {
    let refused = NestedRunLines {
        run: Some("refused-1".into()),
        lines: String::new(),
        ..inner("a-1-1", Vec::new())
    };
    let outer = reply("r", vec![refused]).to_string();
    let nested = json!({"lines": "", "is_over": true, "refusal": "no worker runs it"}).to_string();
    let client = support::start_engine(move |path| {
        let body = match path.contains("refused-1") {
            true => &nested,
            false => &outer,
        };
        Some((200, body.clone()))
    });
    let folder = tempfile::tempdir().expect("a folder");
    let store = FileRunStore::for_project(folder.path());
    client.copy_run(&RunId::new("r"), &store).await.expect("a copy");
    let id = RunId::parse("r/sub/a-1-1").expect("an id");
    assert!(store.find_run_by_id(&id).await.is_err(), "it never began");
}

#[tokio::test]
async fn names_of_inner_runs_are_no_paths() {
    for name in [
        "../../../../escaped",
        "/tmp/escaped",
        "..",
        "",
        "a/../../../x",
        "a\u{0}",
        "\u{1b}[2J",
        ".hidden",
    ] {
        for inside in [
            vec![inner(name, Vec::new())],
            vec![inner("a-1-1", vec![inner(name, Vec::new())])],
        ] {
            let error = copy_error(&reply("r", inside)).await;
            assert!(error.contains("cannot be the name of a run"), "{name:?}: {error}");
            assert!(!error.contains('\u{1b}'), "{error:?}");
        }
    }
    let twice = vec![inner("a-1-1", Vec::new()), inner("a-1-1", Vec::new())];
    assert!(copy_error(&reply("r", twice)).await.contains("cannot be the name"));
    let mut elsewhere = inner("a-1-1", Vec::new());
    elsewhere.run = Some("../../admin".into());
    let error = copy_error(&reply("r", vec![elsewhere])).await;
    assert!(error.contains("`../../admin` cannot be the id of a run"), "{error}");
}

#[tokio::test]
async fn runs_are_inside_each_other_to_a_limit() {
    let nested = (0..20).fold(inner("a-1-1", Vec::new()), |inside, _| inner("a-1-1", vec![inside]));
    let error = copy_error(&reply("r", vec![nested])).await;
    assert!(error.contains("nested more than 16 levels deep"), "{error}");
    // A run that says that it is inside itself.
    let mut circle = inner("a-1-1", Vec::new());
    circle.run = Some("r".into());
    let error = copy_error(&reply("r", vec![circle])).await;
    assert!(error.contains("nested more than 16 levels deep"), "{error}");
}

#[tokio::test]
async fn the_records_of_another_run_are_not_copied() {
    let error = copy_error(&reply("../../other", Vec::new())).await;
    assert!(error.contains("are those of `../../other`"), "{error}");
}

#[tokio::test]
async fn ids_that_an_engine_lists_are_ids() {
    let listed = json!(["aaaa-20261123-080000000", "../../x", "/etc", "\u{1b}]0;x", "a b/../c"]);
    let ids = engine(&listed).0.list_latest_run_ids(100).await.expect("a list");
    let are_good = |id: &RunId| id.as_str() == "aaaa-20261123-080000000";
    assert!(!ids.is_empty() && ids.iter().all(are_good), "{ids:?}");
}

#[tokio::test]
async fn no_id_leads_to_another_address_of_the_engine() {
    let (client, paths) = engine(&json!(null));
    for id in ["../../admin", "a?b#c", "r/sub/a-1-1", "%2e%2e/x", ".."] {
        let _ = client.fetch_has_run_ended(id).await;
    }
    let paths = paths.lock().expect("the paths").clone();
    assert_eq!(
        paths,
        [
            "/EnsembleRun/-.._.._admin/brief",
            "/EnsembleRun/a%3Fb%23c/brief",
            "/EnsembleRun/r%2Fsub%2Fa-1-1/brief",
            "/EnsembleRun/-%252e%252e_x/brief",
            "/EnsembleRun/-../brief",
        ]
    );
}
