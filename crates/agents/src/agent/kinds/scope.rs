//! Data of an execution as variables of templates and of Rhai scripts.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::agent::ExecutionInput;
use ensemble_core::runner::ExecutionPart;
use ensemble_language::condition::PartVariables;
use ensemble_language::ensemble::Agent;
use ensemble_language::template::{MissingKeyCollector, TemplateScope};
use ensemble_scripts::ScriptVariable;

/// Returns the names of all agents that the agent depends on.
pub(crate) fn list_dependency_names(agent: &Agent) -> Arc<[Arc<str>]> {
    agent
        .dependencies
        .iter()
        .map(|edge| Arc::clone(&edge.agent_name))
        .collect()
}

/// Builds the variables of the templates of an execution.
pub(crate) fn build_template_scope(execution: &ExecutionInput, listens_to: &Arc<[Arc<str>]>) -> TemplateScope {
    TemplateScope {
        input: Arc::clone(&execution.input),
        inputs: Arc::clone(&execution.inputs),
        context: Arc::clone(&execution.context),
        turn_count: execution.turn_count,
        execution: execution.execution,
        listens_to: Arc::clone(listens_to),
        dependencies: execution.dependencies.clone(),
        news: execution.news.clone(),
        unprompted_outputs: list_outputs_for_task(execution),
        parameters: Arc::clone(&execution.parameters),
        request: execution.request.clone(),
        history: execution.history.clone(),
        part: execution.part.as_deref().map(part_variables),
        missing_keys: MissingKeyCollector::default(),
    }
}

/// Returns the variables of a `for_each` part: the item under its configured name, and `part`.
fn part_variables(part: &ExecutionPart) -> [(Arc<str>, Arc<Value>); 2] {
    [
        (part.item_name.clone(), part.item.clone()),
        (PartVariables::PART.into(), part.variable.clone()),
    ]
}

/// Returns the declared inputs as the variable `inputs`.
fn inputs_variable(execution: &ExecutionInput) -> ScriptVariable {
    let entries = execution.inputs.iter();
    ScriptVariable::Outputs(entries.map(|(name, value)| (name.clone(), value.clone())).collect())
}

/// Lists the outputs for a task without variables: dependencies first, and the own output only if the execution includes it.
fn list_outputs_for_task(execution: &ExecutionInput) -> Vec<(Arc<str>, Arc<Value>)> {
    let of_others = execution
        .dependencies
        .iter()
        .filter(|(name, _)| *name != execution.agent_name);
    of_others.chain(&execution.other_outputs).cloned().collect()
}

/// Warns about the keys that templates with this scope did not find since the last call. Does not repeat warnings in a retry.
pub(crate) fn warn_about_missed_keys(scope: &TemplateScope, which: &str, execution: &ExecutionInput) {
    let missed = scope.missing_keys.take_missing_keys();
    let is_first = execution.attempt == execution.lost_attempts + 1;
    for key in missed.iter().filter(|_| is_first) {
        execution.ledger.add_warning(format!("{which}: {key}"));
    }
}

/// Returns the variables that the Rhai script reads, with the key names of the JSON object on the stdin of a script process.
pub(crate) fn rhai_variables(
    execution: &ExecutionInput,
    is_read: impl Fn(&str) -> bool,
) -> Vec<(Cow<'static, str>, ScriptVariable)> {
    let text = |text: &Arc<str>| ScriptVariable::Text(Arc::clone(text));
    let json = |value: Value| ScriptVariable::Json(Arc::new(value));
    let mut variables = Vec::with_capacity(8);
    let mut add = |name: &'static str, make: &dyn Fn() -> ScriptVariable| {
        if is_read(name) {
            variables.push((Cow::Borrowed(name), make()));
        }
    };
    add("input", &|| text(&execution.input));
    add("input_data", &|| text(&execution.input));
    add("inputs", &|| inputs_variable(execution));
    add("context", &|| ScriptVariable::Context(Arc::clone(&execution.context)));
    add("dependencies", &|| {
        ScriptVariable::Outputs(execution.latest_success_outputs().to_vec())
    });
    add("failures", &|| ScriptVariable::Outputs(execution.failures.clone()));
    add("news", &|| json(json!(execution.news)));
    add("parameters", &|| ScriptVariable::Map(Arc::clone(&execution.parameters)));
    add("turn_count", &|| ScriptVariable::Number(execution.turn_count));
    add("execution", &|| ScriptVariable::Number(execution.execution));
    add("attempt", &|| ScriptVariable::Number(execution.attempt));
    add("run_id", &|| text(&execution.run_id));
    add("agent_name", &|| text(&execution.agent_name));
    add("request", &|| json(json!(execution.request)));
    add("history", &|| ScriptVariable::Past(execution.history.clone()));
    if let Some(part) = &execution.part {
        variables.push((
            Cow::Owned(part.item_name.to_string()),
            ScriptVariable::Json(part.item.clone()),
        ));
        variables.push((
            Cow::Borrowed(PartVariables::PART),
            ScriptVariable::Json(part.variable.clone()),
        ));
    }
    variables
}
