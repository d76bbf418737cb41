//! The data of an execution as variables of templates and of in-process scripts.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::agent::Execution;
use ensemble_core::runner::Part;
use ensemble_language::condition::PartNames;
use ensemble_language::ensemble::Agent;
use ensemble_language::template::{Missed, Scope};
use ensemble_scripts::Variable;

/// The names of all agents that `agent` listens to.
pub(crate) fn listens_to(agent: &Agent) -> Arc<[Arc<str>]> {
    agent
        .dependencies
        .iter()
        .map(|edge| Arc::clone(&edge.agent_name))
        .collect()
}

/// The variables of a template.
pub(crate) fn scope(execution: &Execution, listens_to: &Arc<[Arc<str>]>) -> Scope {
    Scope {
        input: Arc::clone(&execution.input),
        inputs: Arc::clone(&execution.inputs),
        context: Arc::clone(&execution.context),
        turn_count: execution.turn_count,
        execution: execution.execution,
        listens_to: Arc::clone(listens_to),
        dependencies: execution.dependencies.clone(),
        said: said(execution),
        parameters: Arc::clone(&execution.parameters),
        request: execution.request.clone(),
        history: execution.history.clone(),
        part: execution.part.as_deref().map(of_part),
        missed: Missed::default(),
    }
}

/// The item under its name, and `part`.
fn of_part(part: &Part) -> [(Arc<str>, Arc<Value>); 2] {
    [
        (part.item_name.clone(), part.item.clone()),
        (PartNames::PART.into(), part.variable.clone()),
    ]
}

fn inputs(execution: &Execution) -> Variable {
    let entries = execution.inputs.iter();
    Variable::Outputs(entries.map(|(name, value)| (name.clone(), value.clone())).collect())
}

/// What has been said, for a prompt without variables: the outputs of the dependencies first. The agent's own output is
/// only there if the execution was given it for that, because its memory has it otherwise.
fn said(execution: &Execution) -> Vec<(Arc<str>, Arc<Value>)> {
    let of_others = execution
        .dependencies
        .iter()
        .filter(|(name, _)| *name != execution.agent_name);
    of_others.chain(&execution.other_outputs).cloned().collect()
}

/// Warns of the keys that the templates rendered with this scope since the last call have missed. Another attempt says
/// nothing new.
pub(crate) fn warn_of_missed(scope: &Scope, which: &str, execution: &Execution) {
    let missed = scope.missed.take();
    let is_first = execution.attempt == execution.lost_attempts + 1;
    for key in missed.iter().filter(|_| is_first) {
        execution.ledger.warn(format!("{which}: {key}"));
    }
}

/// The variables of a Rhai agent, with the names of the object that a child process gets on its stdin.
pub(crate) fn variables(execution: &Execution) -> Vec<(Cow<'static, str>, Variable)> {
    let text = |text: &Arc<str>| Variable::Text(Arc::clone(text));
    let variables = [
        ("input", text(&execution.input)),
        ("input_data", text(&execution.input)),
        ("inputs", inputs(execution)),
        ("context", Variable::Context(Arc::clone(&execution.context))),
        ("dependencies", Variable::Outputs(execution.dependencies.clone())),
        ("parameters", Variable::Map(Arc::clone(&execution.parameters))),
        ("turn_count", Variable::Number(execution.turn_count)),
        ("execution", Variable::Number(execution.execution)),
        ("attempt", Variable::Number(execution.attempt)),
        ("run_id", text(&execution.run_id)),
        ("agent_name", text(&execution.agent_name)),
        ("request", Variable::Json(Arc::new(json!(execution.request)))),
        ("history", Variable::Past(execution.history.clone())),
    ];
    let variables = variables.map(|(name, variable)| (Cow::Borrowed(name), variable));
    let mut variables = Vec::from(variables);
    if let Some(part) = &execution.part {
        variables.push((
            Cow::Owned(part.item_name.to_string()),
            Variable::Json(part.item.clone()),
        ));
        variables.push((Cow::Borrowed(PartNames::PART), Variable::Json(part.variable.clone())));
    }
    variables
}
