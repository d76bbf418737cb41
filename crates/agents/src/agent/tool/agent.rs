//! Agents as tools: another agent of the ensemble does the work once. It is no execution of the conversation: it has
//! no turn of its own, reads no outputs, and remembers nothing.

use std::sync::Arc;

use serde_json::Value;

use crate::agent::Execution;
use ensemble_language::data::{JsonMap, Request};

/// Arguments that stand for the task, in this order.
const TASKS: [&str; 2] = ["input", "task"];

/// What the agent is handed: the arguments over its `config`, as its input if they hold a task, and as the request
/// of the agent that calls it.
pub(super) fn execution(caller: Execution, name: &Arc<str>, config: &JsonMap, arguments: &JsonMap) -> Execution {
    let mut parameters = config.clone();
    parameters.extend(arguments.clone());
    Execution {
        input: task(arguments).unwrap_or_else(|| caller.input.clone()),
        parameters: Arc::new(parameters),
        request: Some(Arc::new(Request {
            from: caller.agent_name.clone(),
            parameters: Value::Object(arguments.clone()),
            priority: 0,
        })),
        agent_name: Arc::clone(name),
        dependencies: Vec::new(),
        thread: Arc::default(),
        requests_made: 0,
        last_failure: None,
        ..caller
    }
}

/// The task in the arguments, if there is one.
pub(super) fn task(arguments: &JsonMap) -> Option<Arc<str>> {
    TASKS.iter().find_map(|key| Some(arguments.get(*key)?.as_str()?.into()))
}
