//! Executions and bounds for the tests of this crate and of those above (feature `test-support`).

use std::sync::Arc;

use serde_json::{Value, json};

use crate::{Bounds, Environment, payload};
use ensemble_core::request::RequestOrigin;
use ensemble_core::runner::{AttemptLedger, Execution, ExecutionRecords};
use ensemble_core::stopwatch::Stopwatch;
use ensemble_language::data::{Context, JsonMap, Remaining};
use ensemble_language::past::Past;

/// Returns an execution with a number of its own in each field.
pub fn an_execution() -> Execution {
    Execution {
        records: ExecutionRecords::default(),
        origin: RequestOrigin::default(),
        run_id: Arc::from("run-1"),
        agent_name: Arc::from("asker"),
        execution: 3,
        attempt: 4,
        turn_count: 2,
        input: Arc::from("hi \"you\""),
        inputs: Arc::new(Context::from_iter([("topic".into(), Arc::new(json!("sea")))])),
        context: Arc::new(Context::default()),
        dependencies: Vec::new(),
        other_outputs: Vec::new(),
        history: Past::default(),
        parameters: Arc::new(JsonMap::new()),
        request: None,
        thread: Arc::default(),
        remaining: Remaining::default(),
        requests_made: 0,
        lost_attempts: 0,
        last_failure: None,
        ledger: AttemptLedger::default(),
        part: None,
        parts: None,
        stopwatch: Stopwatch::default(),
    }
}

/// Returns the object that a script finds on its stdin.
pub async fn stdin_of(execution: &Execution) -> Value {
    let mut bytes = Vec::new();
    payload::write(&mut bytes, execution).await;
    assert_eq!(bytes.last(), Some(&b'\n'));
    serde_json::from_slice(&bytes).expect("JSON")
}

/// Returns bounds without a watchdog.
pub fn unwatched(output_cap: usize) -> Bounds {
    Bounds {
        output_cap,
        watchdog: None,
        environment: Environment::default(),
        sandbox: None,
    }
}
