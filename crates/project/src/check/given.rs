//! Checks of the inputs that an agent passes to its ensemble, against the inputs that the ensemble declares.

use std::collections::BTreeSet;

use ensemble_language::data::JsonMap;
use ensemble_language::diagnostic::{Finding, find_similar_word};
use ensemble_language::ensemble::{Agent, AgentKind, Ensemble, InputDeclaration};
use ensemble_language::loader::codes;
use ensemble_language::source::{Route, RouteLocation};
use ensemble_language::template::contains_tag_start;
use serde_json::Value;

/// Returns warnings about inputs that are undeclared, missing, or do not match their schema. Each execution of the agent then
/// fails.
pub(super) fn check_passed_inputs(agent: &Agent, route: &Route, inner: &Ensemble) -> Vec<Finding> {
    let (AgentKind::Ensemble { ensemble, inputs, .. }, Some(declared)) = (&agent.kind, &inner.inputs) else {
        return Vec::new();
    };
    let mut findings: Vec<Finding> = inputs
        .iter()
        .filter_map(|(name, value)| {
            let at = route.with_key("inputs").with_key(name.as_str());
            match inner.find_input(name) {
                None => Some(undeclared_input_finding(
                    name,
                    at.into_key_location(),
                    ensemble,
                    declared,
                )),
                Some(input) => check_literal_input(input, value, at.into_value_location(), ensemble),
            }
        })
        .collect();
    let missing: BTreeSet<&str> = declared
        .iter()
        .filter(|input| input.default_value().is_none())
        .map(|input| &*input.name)
        .collect();
    findings.extend(missing.iter().filter(|name| !inputs.contains_key(**name)).map(|name| {
        let at = route.with_key("ensemble").into_value_location();
        let message = format!(
            "`{ensemble}` needs the input `{name}`, which `{}` does not pass",
            agent.name
        );
        let help = format!("add `{name}` to the `inputs` of the agent; without it, each of its executions fails");
        Finding::new_warning(codes::UNFIT_INPUTS, at, message).with_help(help)
    }));
    findings
}

/// Creates the finding about an input that the ensemble does not declare. The help text names similar or all inputs.
fn undeclared_input_finding(name: &str, at: RouteLocation, ensemble: &str, declared: &[InputDeclaration]) -> Finding {
    let message = format!("`{ensemble}` has no input `{name}`");
    let names = || declared.iter().map(|input| &*input.name);
    let help = match find_similar_word(name, names()) {
        Some(similar_name) => format!("did you mean `{similar_name}`?"),
        None if declared.is_empty() => "remove it; the ensemble has no inputs".to_owned(),
        None => format!(
            "use one of the declared inputs: {}",
            names().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
        ),
    };
    Finding::new_warning(codes::UNFIT_INPUTS, at, message).with_help(help)
}

/// Checks a value without templates against the schema of the input.
fn check_literal_input(input: &InputDeclaration, value: &Value, at: RouteLocation, ensemble: &str) -> Option<Finding> {
    if !is_literal_value(value) {
        return None;
    }
    let errors = input.check_value(value);
    if errors.is_empty() {
        return None;
    }
    let message = format!(
        "the input `{}` of `{ensemble}` does not match its schema: {}",
        input.name,
        errors.join("; ")
    );
    Some(Finding::new_warning(codes::UNFIT_INPUTS, at, message).with_help(format!("it takes {}", input.type_name())))
}

/// Returns whether the value contains no template.
fn is_literal_value(value: &Value) -> bool {
    match value {
        Value::String(text) => !contains_tag_start(text),
        Value::Array(items) => items.iter().all(is_literal_value),
        Value::Object(map) => JsonMap::values(map).all(is_literal_value),
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
    }
}
