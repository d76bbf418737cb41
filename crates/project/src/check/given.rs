//! What an agent gives its ensemble, and the inputs that this ensemble declares.

use std::collections::BTreeSet;

use ensemble_language::data::JsonMap;
use ensemble_language::diagnostic::{Finding, did_you_mean};
use ensemble_language::ensemble::{Agent, AgentKind, Ensemble, Input};
use ensemble_language::loader::codes;
use ensemble_language::source::{At, Route};
use ensemble_language::template::has_marks;
use serde_json::Value;

/// The inputs that are not declared, missing, or do not match their schema; each execution of the agent then fails.
pub(super) fn unfit(agent: &Agent, route: &Route, inner: &Ensemble) -> Vec<Finding> {
    let (AgentKind::Ensemble { ensemble, inputs, .. }, Some(declared)) = (&agent.kind, &inner.inputs) else {
        return Vec::new();
    };
    let mut findings: Vec<Finding> = inputs
        .iter()
        .filter_map(|(name, value)| {
            let at = route.key("inputs").key(name.as_str());
            match inner.input(name) {
                None => Some(undeclared(name, at.as_key(), ensemble, declared)),
                Some(input) => off_schema(input, value, at.value(), ensemble),
            }
        })
        .collect();
    let missing: BTreeSet<&str> = declared
        .iter()
        .filter(|input| input.default().is_none())
        .map(|input| &*input.name)
        .collect();
    findings.extend(missing.iter().filter(|name| !inputs.contains_key(**name)).map(|name| {
        let at = route.key("ensemble").value();
        let message = format!(
            "`{ensemble}` needs the input `{name}`, which `{}` does not give",
            agent.name
        );
        let help = format!("add `{name}` to the `inputs` of the agent; without it, each of its executions fails");
        Finding::warning(codes::UNFIT_INPUTS, at, message).help(help)
    }));
    findings
}

fn undeclared(name: &str, at: At, ensemble: &str, declared: &[Input]) -> Finding {
    let message = format!("`{ensemble}` has no input `{name}`");
    let names = || declared.iter().map(|input| &*input.name);
    let help = match did_you_mean(name, names()) {
        Some(near) => format!("did you mean `{near}`?"),
        None if declared.is_empty() => "it takes no inputs".to_owned(),
        None => format!(
            "its inputs are {}",
            names().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
        ),
    };
    Finding::warning(codes::UNFIT_INPUTS, at, message).help(help)
}

/// The finding about a value without templates.
fn off_schema(input: &Input, value: &Value, at: At, ensemble: &str) -> Option<Finding> {
    if !is_literal(value) {
        return None;
    }
    let errors = input.errors(value);
    if errors.is_empty() {
        return None;
    }
    let message = format!(
        "the input `{}` of `{ensemble}` does not match its schema: {}",
        input.name,
        errors.join("; ")
    );
    Some(Finding::warning(codes::UNFIT_INPUTS, at, message).help(format!("it takes {}", input.type_name())))
}

fn is_literal(value: &Value) -> bool {
    match value {
        Value::String(text) => !has_marks(text),
        Value::Array(items) => items.iter().all(is_literal),
        Value::Object(map) => JsonMap::values(map).all(is_literal),
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
    }
}
