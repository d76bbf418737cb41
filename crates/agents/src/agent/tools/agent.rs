//! Agents as tools: a call runs another agent of the ensemble once. The call is not an execution of the conversation:
//! it has no turn, reads no outputs, and keeps no memory.

use std::sync::Arc;

use serde_json::Value;

use crate::agent::ExecutionInput;
use ensemble_core::thread::ThreadIteration;
use ensemble_language::data::{AgentRequest, JsonMap};
use ensemble_language::execution_history::ExecutionHistory;

/// Names of arguments that can contain the task; the first that is present is used.
pub(in crate::agent) const TASK_ARGUMENTS: [&str; 2] = ["input", "task"];

/// Creates the execution of an agent that is a tool: arguments override its `config`, and are the request of the caller.
///
/// An argument with a task becomes the input.
pub(crate) fn agent_tool_execution(
    caller: ExecutionInput,
    name: &Arc<str>,
    config: &JsonMap,
    call: &str,
    arguments: &JsonMap,
) -> ExecutionInput {
    let mut parameters = config.clone();
    parameters.extend(arguments.clone());
    let records = caller.records.for_tool_call(call);
    ExecutionInput {
        // Each recorded reply was a request, which a call that goes on does not send again.
        requests_made: records
            .earlier_exchange()
            .map_or(0, |before| before.iterations.len() as u64),
        summaries_made: records
            .earlier_exchange()
            .map_or(0, |before| count_result_summaries(&before.iterations)),
        records,
        input: find_task_argument(arguments).unwrap_or_else(|| caller.input.clone()),
        parameters: Arc::new(parameters),
        request: Some(Arc::new(AgentRequest {
            from: caller.agent_name.clone(),
            parameters: Value::Object(arguments.clone()),
            priority: 0,
        })),
        origin: caller.origin.append_agent(Arc::clone(name), 0, 1),
        agent_name: Arc::clone(name),
        dependencies: Vec::new(),
        latest_outputs: None,
        failures: Vec::new(),
        news: Vec::new(),
        other_outputs: Vec::new(),
        history: ExecutionHistory::default(),
        thread: Arc::default(),
        ended_requests: 0,
        last_failure: None,
        ..caller
    }
}

/// Counts the requests for recorded summaries of the results of these calls.
fn count_result_summaries(iterations: &[ThreadIteration]) -> u64 {
    let calls = iterations.iter().flat_map(|iteration| &iteration.tool_calls);
    let usages = calls.filter_map(|call| call.summary.as_ref()?.usage);
    usages.map(|usage| usage.requests).sum()
}

/// Finds the task in the arguments.
pub(crate) fn find_task_argument(arguments: &JsonMap) -> Option<Arc<str>> {
    TASK_ARGUMENTS
        .iter()
        .find_map(|key| Some(arguments.get(*key)?.as_str()?.into()))
}
