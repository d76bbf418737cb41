//! What an execution may know, as templates and in-process scripts see it.

use std::sync::Arc;

use serde_json::{Value, json};

use super::Execution;
use crate::sandbox::Variable;
use ensemble_language::ensemble::Agent;
use ensemble_language::template::Scope;

/// The names of all agents that `agent` listens to.
pub(super) fn listens_to(agent: &Agent) -> Arc<[Arc<str>]> {
    agent
        .dependencies
        .iter()
        .map(|edge| Arc::clone(&edge.agent_name))
        .collect()
}

/// The variables of a template.
pub(super) fn scope(execution: &Execution, listens_to: &Arc<[Arc<str>]>) -> Scope {
    Scope {
        input: Arc::clone(&execution.input),
        context: Arc::clone(&execution.context),
        turn_count: execution.turn_count,
        execution: execution.execution,
        listens_to: Arc::clone(listens_to),
        dependencies: execution.dependencies.clone(),
        parameters: Arc::clone(&execution.parameters),
        request: execution.request.clone(),
    }
}

/// The variables of a Rhai agent, with the names of the object that a child process gets on its stdin.
pub(super) fn variables(execution: &Execution) -> Vec<(&'static str, Variable)> {
    let json = |value: Value| Variable::Json(Arc::new(value));
    let outputs = execution.dependencies.iter();
    let outputs = outputs.map(|(name, output)| (name.to_string(), Value::clone(output)));
    vec![
        ("input", json(json!(execution.input))),
        ("input_data", json(json!(execution.input))),
        ("context", Variable::Context(Arc::clone(&execution.context))),
        ("dependencies", json(Value::Object(outputs.collect()))),
        ("parameters", json(json!(execution.parameters))),
        ("turn_count", json(json!(execution.turn_count))),
        ("execution", json(json!(execution.execution))),
        ("attempt", json(json!(execution.attempt))),
        ("run_id", json(json!(execution.run_id))),
        ("agent_name", json(json!(execution.agent_name))),
        ("request", json(json!(execution.request))),
    ]
}
