//! Ensembles as tools: a call runs one inner conversation, and what the conversation gives is the result.

use std::sync::Arc;

use super::agent::task;
use crate::agent::Execution;
use ensemble_language::data::JsonMap;
use ensemble_language::past::Past;

/// The execution of the inner conversation: the arguments are its inputs, and its input if they hold a task.
///
/// The journal of the inner conversation is stored beside those of sub-ensembles. Its name contains the caller, the
/// tool and the number of the call, separated by `@`, which no agent name contains. A call is not continued after a
/// crash, because the model may then make a different call. So the name contains the attempt of the caller, and the
/// attempt of the inner conversation is always 1.
pub(super) fn execution(caller: Execution, tool: &str, number: u32, arguments: &JsonMap) -> Execution {
    Execution {
        agent_name: format!("{}@{tool}.{number}.{}", caller.agent_name, caller.attempt).into(),
        attempt: 1,
        input: task(arguments).unwrap_or_else(|| caller.input.clone()),
        parameters: Arc::new(arguments.clone()),
        dependencies: Vec::new(),
        other_outputs: Vec::new(),
        history: Past::default(),
        request: None,
        ..caller
    }
}
