//! Ensembles as tools: a call runs one inner conversation, and what the conversation gives is the result.

use std::sync::Arc;

use super::agent::task;
use crate::agent::Execution;
use ensemble_language::data::{JsonMap, digest};
use ensemble_language::past::Past;

/// The execution of the inner conversation: the arguments are its inputs, and its input if they hold a task.
///
/// The journal of the inner conversation is stored beside those of sub-ensembles. Its name contains the caller, the
/// tool, the attempt in which the execution began, and a digest of the call's id, separated by `@`, which no agent name
/// contains. After a crash the execution goes on in the next attempt, and finds the conversation of the same call.
pub(crate) fn execution(caller: Execution, tool: &str, call: &str, arguments: &JsonMap) -> Execution {
    let began = caller.attempt - caller.lost_attempts.min(caller.attempt - 1);
    let records = caller.records.inside(call);
    let call = &digest(call)[..8];
    Execution {
        records,
        agent_name: format!("{}@{tool}.{began}.{call}", caller.agent_name).into(),
        input: task(arguments).unwrap_or_else(|| caller.input.clone()),
        parameters: Arc::new(arguments.clone()),
        dependencies: Vec::new(),
        other_outputs: Vec::new(),
        history: Past::default(),
        request: None,
        ..caller
    }
}
