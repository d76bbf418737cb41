//! What every store of runs must do, as one test suite.
//!
//! The suite panics where a store does not keep the contract, so a test is one line:
//! `contract::check(|| Arc::new(MyStore::new())).await`.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::{Durability, LogEnd, LogReadError, RunId, RunStore, StoreError, StoredRun};
use crate::conversation::{Event, MessageAdded, Record, RunStarted};
use crate::log::{JOURNAL_FORMAT, SyncPoint};

/// Checks that a store keeps the contract. `empty` creates a new store without runs.
///
/// # Panics
/// The store breaks the contract.
pub async fn check_store_contract(empty: impl Fn() -> Arc<dyn RunStore>) {
    check_empty_store(&*empty()).await;
    check_appended_records(&*empty()).await;
    check_append_position(&*empty()).await;
    check_lookup_by_id(&*empty()).await;
    check_paths_are_no_ids(&*empty()).await;
    check_order_by_time(&*empty()).await;
    check_exclusive_lease(&*empty()).await;
    check_follower(&*empty()).await;
    check_nested_runs(&*empty()).await;
    check_removal(&*empty()).await;
}

/// Returns a record with this number. The record 0 is the start of a run.
pub fn sample_record(seq: u64) -> Record {
    let event = match seq {
        0 => Event::RunStarted(Box::new(RunStarted {
            format: JOURNAL_FORMAT,
            run_id: "r".into(),
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
            caller: crate::request::RequestOrigin::default(),
            trace: None,
            program: String::new(),
        })),
        // Some records are large enough to be stored beside the log.
        _ => Event::MessageAdded(MessageAdded {
            text: "é".repeat(if seq.is_multiple_of(3) { 50_000 } else { 5 }).into(),
            ..MessageAdded::default()
        }),
    };
    Record {
        seq,
        at: DateTime::<Utc>::UNIX_EPOCH,
        event,
    }
}

/// Creates a run with this id.
async fn create_run_in(store: &dyn RunStore, id: &str) -> Arc<dyn StoredRun> {
    let created = store.create_run(&RunId::new(id), "name: e\n").await;
    created.unwrap_or_else(|error| panic!("{id} is created: {error}"))
}

/// Appends records with these numbers to the log of the run.
async fn append_sample_records(run: &dyn StoredRun, end: LogEnd, numbers: std::ops::Range<u64>) {
    let mut log = run.open_log(end, Durability::Commit).await.expect("the log opens");
    for seq in numbers {
        log.append(&sample_record(seq)).await.expect("a record is appended");
    }
    log.sync(SyncPoint::Turn).await.expect("the log syncs");
}

/// Reads all records, checks their content, and returns their numbers.
async fn read_record_numbers(run: &dyn StoredRun) -> Vec<u64> {
    let journal = run.read_journal().await.expect("the log can be read");
    for read in &journal.records {
        assert_eq!(*read, sample_record(read.seq), "what is read is what was appended");
    }
    journal.records.iter().map(|record| record.seq).collect()
}

/// Returns the ids of all runs.
async fn list_run_ids(store: &dyn RunStore) -> Vec<String> {
    let runs = store.list_runs().await.expect("runs are listed");
    runs.iter().map(|run| run.id().to_string()).collect()
}

/// Returns the error. Panics if the result is a success.
fn expect_error<T>(result: Result<T, StoreError>) -> StoreError {
    match result {
        Ok(_) => panic!("an error was expected"),
        Err(error) => error,
    }
}

/// Checks that an empty store lists and finds no runs.
async fn check_empty_store(store: &dyn RunStore) {
    assert!(list_run_ids(store).await.is_empty());
    assert!(matches!(
        expect_error(store.find_latest_run().await),
        StoreError::Empty { .. }
    ));
    assert!(matches!(expect_error(store.find_run_by_prefix("r").await), StoreError::Unknown { id, .. } if id == "r"));
    assert!(!store.describe_location().is_empty());
}

/// Checks that appended records are read again.
async fn check_appended_records(store: &dyn RunStore) {
    let run = create_run_in(store, "r1").await;
    append_sample_records(&*run, LogEnd::NEW, 0..7).await;
    assert_eq!(read_record_numbers(&*run).await, (0..7).collect::<Vec<u64>>());
    let journal = run.read_journal().await.expect("the log can be read");
    assert!(!journal.is_torn);
    let mut reader = run.open_reader().await.expect("the log can be read");
    assert_eq!(reader.next_record().await.expect("a record").expect("a record").seq, 0);
    assert_ne!(reader.position_after_read_records(), LogEnd::NEW);
    assert_ne!(reader.position_after_read_records(), journal.end);
    assert_eq!(run.load_ensemble_text().await.expect("the text is there"), "name: e\n");
}

/// Checks that a log continues at the given end, and that later records are dropped.
async fn check_append_position(store: &dyn RunStore) {
    let run = create_run_in(store, "r1").await;
    append_sample_records(&*run, LogEnd::NEW, 0..3).await;
    let journal = run.read_journal().await.expect("the log can be read");
    append_sample_records(&*run, journal.end, 3..5).await;
    assert_eq!(read_record_numbers(&*run).await, [0, 1, 2, 3, 4]);
    // Records after the given end are dropped.
    append_sample_records(&*run, journal.end, 3..4).await;
    assert_eq!(read_record_numbers(&*run).await, [0, 1, 2, 3]);
    assert!(
        run.open_log(LogEnd::NEW, Durability::Commit).await.is_err(),
        "a log begins once"
    );
}

/// Checks that runs are found by their ids and by unique beginnings of ids.
async fn check_lookup_by_id(store: &dyn RunStore) {
    for id in ["b1", "a2", "a1"] {
        append_sample_records(&*create_run_in(store, id).await, LogEnd::NEW, 0..1).await;
    }
    let empty = create_run_in(store, "c1").await;
    assert!(matches!(
        empty.read_journal().await,
        Err(LogReadError::Empty { .. } | LogReadError::Unavailable { .. })
    ));
    assert_eq!(
        list_run_ids(store).await,
        ["a1", "a2", "b1"],
        "in order, without what holds no record"
    );
    assert_eq!(store.find_latest_run().await.expect("a run").id().as_str(), "b1");
    for (given, found) in [("a1", "a1"), ("b", "b1"), ("a2", "a2")] {
        assert_eq!(
            store.find_run_by_prefix(given).await.expect("a run").id().as_str(),
            found
        );
    }
    let ambiguous = expect_error(store.find_run_by_prefix("a").await);
    assert!(matches!(ambiguous, StoreError::Ambiguous { candidates, .. } if candidates.len() == 2));
    assert!(matches!(
        expect_error(store.find_run_by_prefix("x").await),
        StoreError::Unknown { .. }
    ));
    let again = expect_error(store.create_run(&RunId::new("a1"), "").await);
    assert!(matches!(again, StoreError::Exists(id) if id.as_str() == "a1"));
}

/// Checks that no path is accepted as an id or as a nested name.
async fn check_paths_are_no_ids(store: &dyn RunStore) {
    let run = create_run_in(store, "r1").await;
    append_sample_records(&*run, LogEnd::NEW, 0..1).await;
    for path in ["../r2", "/tmp/r2", "r1/../r2", "r1/sub", "..", ""] {
        let created = expect_error(store.create_run(&RunId::new(path), "").await);
        assert!(matches!(created, StoreError::InvalidId(_)), "{path}: {created}");
        let found = expect_error(store.find_run_by_id(&RunId::new(path)).await);
        assert!(matches!(found, StoreError::InvalidId(_)), "{path}: {found}");
    }
    for name in ["../r2", "/tmp/r2", "a/../b", "..", "", "a/sub/b"] {
        let created = expect_error(run.create_nested_run(name, "").await);
        assert!(matches!(created, StoreError::InvalidId(_)), "{name}: {created}");
        assert!(run.find_nested_run(name).await.expect("none").is_none(), "{name}");
    }
    let inside = run
        .create_nested_run("a-1-1", "name: e\n")
        .await
        .expect("it is created");
    append_sample_records(&*inside, LogEnd::NEW, 0..1).await;
    for id in ["r1", "r1/sub/a-1-1"] {
        assert_eq!(
            store
                .find_run_by_id(&RunId::new(id))
                .await
                .expect("a run")
                .id()
                .as_str(),
            id
        );
    }
    let missing = expect_error(store.find_run_by_id(&RunId::new("r1/sub/b-1-1")).await);
    assert!(matches!(missing, StoreError::Unknown { .. }), "{missing}");
}

/// Checks that runs are listed in the order of the times in their ids.
async fn check_order_by_time(store: &dyn RunStore) {
    let oldest_first = [
        "zb2c-20260101-000000000",
        "aa2c-20260101-000001000",
        "ab9z-20260101-000002000",
        "ac9z-20260101-000002000",
        "aa2b-20260101-000002001",
    ];
    for id in oldest_first.iter().rev() {
        append_sample_records(&*create_run_in(store, id).await, LogEnd::NEW, 0..1).await;
    }
    assert_eq!(list_run_ids(store).await, oldest_first);
    assert_eq!(
        store.find_latest_run().await.expect("a run").id().as_str(),
        oldest_first[4]
    );
    for (given, found) in [("zb", 0), ("aa2c", 1), ("ab", 2), ("ac", 3), ("aa2b-2026", 4)] {
        assert_eq!(
            store.find_run_by_prefix(given).await.expect("a run").id().as_str(),
            oldest_first[found]
        );
    }
    let ambiguous = expect_error(store.find_run_by_prefix("a").await);
    assert!(matches!(ambiguous, StoreError::Ambiguous { candidates, .. } if candidates.len() == 4));
}

/// Checks that only one lease of a run exists at a time.
async fn check_exclusive_lease(store: &dyn RunStore) {
    let run = create_run_in(store, "r1").await;
    append_sample_records(&*run, LogEnd::NEW, 0..1).await;
    let lease = run.acquire_lease().await.expect("nobody drives it");
    let other_run = store.find_run_by_prefix("r1").await.expect("a run");
    assert!(
        matches!(expect_error(other_run.acquire_lease().await), StoreError::Leased { id, .. } if id.as_str() == "r1")
    );
    drop(lease);
    drop(other_run.acquire_lease().await.expect("nobody drives it any more"));
}

/// Checks that a follower returns each record once.
async fn check_follower(store: &dyn RunStore) {
    let run = create_run_in(store, "r1").await;
    append_sample_records(&*run, LogEnd::NEW, 0..2).await;
    let mut follower = run.open_follower();
    let (mut seen, mut appended) = (Vec::new(), 2);
    for until in [2, 2, 6] {
        let end = run.read_journal().await.expect("the log can be read").end;
        append_sample_records(&*run, end, appended..until).await;
        appended = until;
        let more = follower.poll_records().await.expect("the log can be followed");
        seen.extend(more.iter().map(|record| record.seq));
        assert_eq!(seen, (0..until).collect::<Vec<u64>>());
    }
}

/// Checks that nested runs belong to their outer run.
async fn check_nested_runs(store: &dyn RunStore) {
    let outer = create_run_in(store, "r1").await;
    append_sample_records(&*outer, LogEnd::NEW, 0..1).await;
    assert!(
        outer
            .find_nested_run("a-1-1")
            .await
            .expect("can be looked for")
            .is_none()
    );
    let inner = outer
        .create_nested_run("a-1-1", "name: inner\n")
        .await
        .expect("is created");
    assert_eq!(inner.id().as_str(), "r1/sub/a-1-1");
    assert_eq!(inner.id().nested_names().collect::<Vec<_>>(), ["a-1-1"]);
    append_sample_records(&*inner, LogEnd::NEW, 0..3).await;
    let nested_run = outer
        .find_nested_run("a-1-1")
        .await
        .expect("can be looked for")
        .expect("is there");
    assert_eq!(read_record_numbers(&*nested_run).await, [0, 1, 2]);
    assert_eq!(
        nested_run.load_ensemble_text().await.expect("the text is there"),
        "name: inner\n"
    );
    assert_eq!(outer.list_nested_run_names().await.expect("can be listed"), ["a-1-1"]);
    assert!(
        nested_run
            .list_nested_run_names()
            .await
            .expect("can be listed")
            .is_empty()
    );
    let innermost = nested_run.create_nested_run("b-1-1", "").await.expect("is created");
    assert_eq!(innermost.id().as_str(), "r1/sub/a-1-1/sub/b-1-1");
    assert_eq!(list_run_ids(store).await, ["r1"], "only outermost runs are listed");
}

/// Checks that a removed run and its nested runs do not exist any more.
async fn check_removal(store: &dyn RunStore) {
    for id in ["r1", "r2"] {
        append_sample_records(&*create_run_in(store, id).await, LogEnd::NEW, 0..1).await;
    }
    let run = store.find_run_by_prefix("r1").await.expect("a run");
    let inner = run.create_nested_run("a-1-1", "").await.expect("is created");
    append_sample_records(&*inner, LogEnd::NEW, 0..1).await;
    let lease = run.acquire_lease().await.expect("nobody drives it");
    run.remove_run().await.expect("is removed");
    drop(lease);
    assert_eq!(list_run_ids(store).await, ["r2"]);
    append_sample_records(&*create_run_in(store, "r1").await, LogEnd::NEW, 0..1).await;
    let again = store.find_run_by_prefix("r1").await.expect("a run");
    assert!(
        again
            .find_nested_run("a-1-1")
            .await
            .expect("can be looked for")
            .is_none()
    );
}
