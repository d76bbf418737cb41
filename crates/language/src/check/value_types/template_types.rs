//! Templates against what their variables can be.

use std::borrow::Cow;
use std::cell::LazyCell;

use super::part_types;
use super::{EnsembleTypes, failure_type};
use crate::check::check_graph::CheckGraph;
use crate::check::templates::{list_agent_templates, with_suggested_replacement};
use crate::condition::{MapFields, NumberRange, TypeProblem, TypeProblemKind, ValueType};
use crate::diagnostic::Finding;
use crate::ensemble::Agent;
use crate::execution_history::ExecutionHistory;
use crate::loader::codes;
use crate::source::Route;
use crate::template;

/// Warns of expressions in templates that do not fit the types of their variables.
pub(super) fn check_template_types(graph: &CheckGraph<'_>, types: &EnsembleTypes, findings: &mut Vec<Finding>) {
    let shared_variables = shared_template_variables(graph, types);
    let past = LazyCell::new(|| template_history_type(&types.shared.history));
    for at in 0..graph.agent_count() {
        let templates = list_agent_templates(graph.agent_at(at), &Agent::route_at(at));
        let mut templates = templates.into_iter().filter(|(text, _)| text.contains('{')).peekable();
        if templates.peek().is_none() {
            continue;
        }
        let agent_variables = agent_template_variables(graph, at, types);
        let find = |name: &str| {
            if name == "history" {
                return Some(&*past);
            }
            let is_name = |(known, _): &&(Cow<'_, str>, Cow<'_, ValueType>)| *known == name;
            // Where a name stands for two things, the fixed variables come first.
            let variable = shared_variables
                .iter()
                .find(is_name)
                .or_else(|| agent_variables.iter().find(is_name));
            variable.map(|(_, of)| &**of)
        };
        for (text, route) in templates {
            let misfits = template::find_type_problems(text, &find);
            findings.extend(
                misfits
                    .into_iter()
                    .filter_map(|misfit| template_type_finding(misfit, &route)),
            );
        }
        if findings.len() >= super::MOST {
            return;
        }
    }
}

/// Builds the warning about a type problem in a template. Returns `None` for unknown names, which another check reports.
fn template_type_finding(misfit: TypeProblem, route: &Route) -> Option<Finding> {
    let code = match misfit.kind {
        TypeProblemKind::NeverTrue | TypeProblemKind::AlwaysTrue => codes::NEVER_FITS,
        TypeProblemKind::Fails => codes::TEMPLATE_MISFIT,
        TypeProblemKind::NoKey => codes::MISSING_TEMPLATE_KEY,
        // It is reported without types.
        TypeProblemKind::UnknownName => return None,
    };
    let finding = Finding::new_warning(code, route.clone().into_text_location(misfit.span), misfit.message);
    Some(with_suggested_replacement(finding, misfit.help, route))
}

/// The name and the type of a template variable.
type TypedVariable<'a> = (Cow<'a, str>, Cow<'a, ValueType>);

/// Returns the template variables with the same type for all agents, without `history`.
fn shared_template_variables<'a>(graph: &CheckGraph<'_>, types: &'a EnsembleTypes) -> Vec<TypedVariable<'a>> {
    let shared = &types.shared;
    let new_variable = |name: &'static str, of: ValueType| (Cow::Borrowed(name), Cow::Owned(of));
    let turns = u64::from(graph.ensemble.limits.max_total_turns.get());
    vec![
        new_variable("input", ValueType::any_text()),
        ("inputs".into(), Cow::Borrowed(&shared.inputs)),
        ("context".into(), Cow::Borrowed(&shared.context)),
        new_variable("turn_count", ValueType::number_up_to(turns)),
        new_variable("transcript", ValueType::any_text()),
        new_variable("request", request_variable_type()),
    ]
}

/// Returns the template variables of one agent: its execution number, dependencies, parts and tool parameters.
fn agent_template_variables<'a>(graph: &'a CheckGraph<'_>, at: usize, types: &EnsembleTypes) -> Vec<TypedVariable<'a>> {
    let agent = graph.agent_at(at);
    let mut variables: Vec<TypedVariable<'a>> = Vec::new();
    let turns = u64::from(agent.conversation.max_turns.get());
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
    let execution = ValueType::number_in_range(NumberRange::from_bounds(1.0, turns as f64));
    variables.push(("execution".into(), Cow::Owned(execution)));
    // The arguments of a call are added to the `config` of an agent that is a tool.
    let is_tool = graph
        .ensemble
        .list_agent_tools()
        .any(|(_, performer)| *performer == agent.name);
    if !is_tool {
        let config = serde_json::Value::Object(agent.config.clone());
        variables.push(("parameters".into(), Cow::Owned(ValueType::exact_value_type(&config))));
    }
    let mut dependencies = Vec::new();
    for edge in graph.dependency_edges(at) {
        let name = &*edge.dependency.agent_name;
        if dependencies.iter().any(|(known, _)| known == name) {
            continue;
        }
        let of = types.outputs[edge.from].clone().union_with(failure_type());
        dependencies.push((name.to_owned(), of));
    }
    variables.extend(
        dependencies
            .iter()
            .map(|(name, of)| (name.clone().into(), Cow::Owned(of.clone()))),
    );
    let of_name = |(name, of): (String, ValueType)| (name, (of, false));
    variables.push((
        "dependencies".into(),
        Cow::Owned(ValueType::map_with_fields(MapFields {
            known_keys: dependencies.into_iter().map(of_name).collect(),
            other_values: None,
            is_strict: false,
        })),
    ));
    if let Some(spec) = &agent.for_each {
        variables.push((
            Cow::Borrowed(&*spec.item_name),
            Cow::Owned(part_types::infer_item_type(spec, &types.shared)),
        ));
        variables.push(("part".into(), Cow::Owned(part_types::part_variable_type())));
    }
    variables
}

/// Returns the type of `history` in templates, which contains fewer fields than in conditions.
fn template_history_type(of_conditions: &ValueType) -> ValueType {
    let entry = of_conditions.list_item_type().cloned().unwrap_or_default();
    let fields = ExecutionHistory::REPRODUCIBLE_FIELDS.map(|field| (field.to_owned(), entry.key_type(field)));
    ValueType::list_with_items(ValueType::map_with_fields(MapFields::with_exact_keys(fields)))
}

/// Returns the type of the variable `request`, which is null in executions without a request.
fn request_variable_type() -> ValueType {
    let entry = |key: &str, of: ValueType| (key.to_owned(), of);
    let fields = MapFields::with_exact_keys([
        entry("from", ValueType::any_text()),
        entry("parameters", ValueType::any_value()),
        entry("priority", ValueType::number_in_range(NumberRange::ALL)),
    ]);
    ValueType::map_with_fields(fields).union_with(ValueType::nothing_value())
}
