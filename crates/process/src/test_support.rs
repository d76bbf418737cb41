//! Executions and bounds for the tests of this crate and of those above (feature `test-support`).

use std::sync::Arc;

use serde_json::{Value, json};

use crate::{ChildEnvironment, ProcessSettings, payload};
use ensemble_core::request::RequestOrigin;
use ensemble_core::runner::{AttemptLedger, ExecutionInput, ExecutionRecorder};
use ensemble_core::stopwatch::Stopwatch;
use ensemble_language::data::{JsonMap, RemainingBudget, RunContext};
use ensemble_language::execution_history::ExecutionHistory;

/// Returns an execution with a number of its own in each field.
pub fn an_execution() -> ExecutionInput {
    ExecutionInput {
        records: ExecutionRecorder::default(),
        origin: RequestOrigin::default(),
        run_id: Arc::from("run-1"),
        agent_name: Arc::from("asker"),
        execution: 3,
        attempt: 4,
        turn_count: 2,
        input: Arc::from("hi \"you\""),
        inputs: Arc::new(RunContext::from_iter([("topic".into(), Arc::new(json!("sea")))])),
        context: Arc::new(RunContext::default()),
        dependencies: Vec::new(),
        latest_outputs: None,
        failures: Vec::new(),
        news: Vec::new(),
        other_outputs: Vec::new(),
        history: ExecutionHistory::default(),
        whole_history: ExecutionHistory::default(),
        recent_agents: Vec::new(),
        parameters: Arc::new(JsonMap::new()),
        request: None,
        thread: Arc::default(),
        remaining: RemainingBudget::default(),
        requests_made: 0,
        summaries_made: 0,
        ended_requests: 0,
        lost_attempts: 0,
        last_failure: None,
        ledger: AttemptLedger::default(),
        part: None,
        parts: None,
        stopwatch: Stopwatch::default(),
    }
}

/// Returns the object that a script finds on its stdin.
pub async fn stdin_of(execution: &ExecutionInput) -> Value {
    let mut bytes = Vec::new();
    payload::write_execution_json_and_close(&mut bytes, execution).await;
    assert_eq!(bytes.last(), Some(&b'\n'));
    serde_json::from_slice(&bytes).expect("JSON")
}

/// Returns bounds without a watchdog.
pub fn unwatched(output_cap: usize) -> ProcessSettings {
    ProcessSettings {
        output_cap,
        watchdog: None,
        environment: ChildEnvironment::default(),
        sandbox: None,
    }
}
