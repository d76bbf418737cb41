use crate::agent::{Execution, Notes};
use crate::data::{Context, JsonMap};
use std::sync::Arc;
/// An execution with a number of its own in each field.
pub(in crate::agent) fn an_execution() -> Execution {
    Execution {
        run_id: Arc::from("run-1"),
        agent_name: Arc::from("asker"),
        execution: 3,
        attempt: 4,
        turn_count: 2,
        input: Arc::from("hi \"you\""),
        context: Arc::new(Context::default()),
        dependencies: Vec::new(),
        parameters: Arc::new(JsonMap::new()),
        request: None,
        thread: Arc::default(),
        requests_made: 0,
        last_failure: None,
        notes: Notes::default(),
    }
}
