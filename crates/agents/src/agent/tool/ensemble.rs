//! Ensembles as tools: one call is one whole inner conversation, and its final state is the result.

use std::sync::Arc;

use super::agent::task;
use crate::agent::Execution;
use ensemble_language::data::JsonMap;

/// What the inner conversation begins with: the arguments as its context, and as its input if they hold a task.
///
/// Its journal stands beside those of sub-ensembles. It is known by the caller, the tool and which call it is; `@` is
/// in no agent's name. A call is not taken up again after a crash, since the model may then say something else: so the
/// caller's attempt is part of the name, and the inner attempt is always the first.
pub(super) fn execution(caller: Execution, tool: &str, number: u32, arguments: &JsonMap) -> Execution {
    Execution {
        agent_name: format!("{}@{tool}.{number}.{}", caller.agent_name, caller.attempt).into(),
        attempt: 1,
        input: task(arguments).unwrap_or_else(|| caller.input.clone()),
        parameters: Arc::new(arguments.clone()),
        dependencies: Vec::new(),
        request: None,
        ..caller
    }
}
