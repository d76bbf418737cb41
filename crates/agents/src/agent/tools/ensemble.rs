//! Ensembles as tools: a call runs one inner conversation, and what the conversation gives is the result.

use std::sync::Arc;

use super::agent::find_task_argument;
use crate::agent::ExecutionInput;
use ensemble_language::data::{JsonMap, sha256_of_text};
use ensemble_language::execution_history::ExecutionHistory;

/// Creates the execution of an ensemble that is a tool: the arguments are its inputs, and its task if they contain one.
///
/// The journal of the inner conversation is stored beside those of sub-ensembles. Its name contains the caller, the
/// tool, the attempt in which the execution began, and a digest of the call's id, separated by `@`, which no agent name
/// contains. After a crash the execution goes on in the next attempt, and finds the conversation of the same call.
pub(crate) fn ensemble_tool_execution(
    caller: ExecutionInput,
    tool: &str,
    call: &str,
    arguments: &JsonMap,
) -> ExecutionInput {
    let began = caller.attempt - caller.lost_attempts.min(caller.attempt - 1);
    let records = caller.records.for_tool_call(call);
    let call = &sha256_of_text(call)[..8];
    ExecutionInput {
        records,
        agent_name: format!("{}@{tool}.{began}.{call}", caller.agent_name).into(),
        input: find_task_argument(arguments).unwrap_or_else(|| caller.input.clone()),
        parameters: Arc::new(arguments.clone()),
        dependencies: Vec::new(),
        latest_outputs: None,
        failures: Vec::new(),
        news: Vec::new(),
        other_outputs: Vec::new(),
        history: ExecutionHistory::default(),
        request: None,
        ..caller
    }
}
