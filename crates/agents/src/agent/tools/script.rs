//! Scripts as tools. They receive the same input as script agents, with the arguments as `parameters`.

use std::sync::Arc;

use crate::agent::ExecutionInput;
use ensemble_language::data::JsonMap;
use ensemble_language::execution_history::ExecutionHistory;

/// Creates the execution of a script that is a tool: the data of the calling agent, and the arguments.
pub(crate) fn script_tool_execution(caller: ExecutionInput, arguments: &JsonMap) -> ExecutionInput {
    ExecutionInput {
        parameters: Arc::new(arguments.clone()),
        history: ExecutionHistory::default(),
        ..caller
    }
}
