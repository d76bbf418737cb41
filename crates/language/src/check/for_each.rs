//! What the expressions of a `for_each` read, and agents with parts where there is no conversation.

use super::check_subject::CheckSubject;
use super::undeclared_inputs::undeclared_input_finding;
use crate::condition::{KeyedVariable, ParsedCondition, PartVariables, ValueExpression};
use crate::diagnostic::Finding;
use crate::ensemble::{Agent, Ensemble, ForEachItems, ForEachSpec, ToolKind};
use crate::loader::codes;
use crate::source::Route;

/// Reports undeclared inputs, unknown agents and possibly missing outputs in `for_each`, and tools whose agents have parts.
pub(super) fn check_for_each(subject: &CheckSubject<'_>) -> Vec<Finding> {
    let ensemble = subject.ensemble;
    let mut findings = Vec::new();
    for (index, agent) in ensemble.agents.iter().enumerate() {
        let Some(spec) = &agent.for_each else { continue };
        for (reading, route) in parse_for_each_expressions(spec, &Agent::route_at(index).with_key("for_each")) {
            for read in reading.list_literal_key_reads(KeyedVariable::Inputs) {
                let place = || route.clone().into_text_location(read.span);
                findings.extend(undeclared_input_finding(ensemble, &read.key, place));
            }
            for (read, span) in reading.list_named_agents() {
                let is_known = ensemble.agents.iter().any(|other| *other.name == *read);
                let listens = agent.dependencies.iter().any(|one| *one.agent_name == *read);
                if is_known && !listens && *agent.name != *read {
                    let message = format!(
                        "the list reads the output of `{read}`, but `{}` does not depend on that agent and might run before it",
                        agent.name
                    );
                    let finding =
                        Finding::new_warning(codes::LIST_TOO_EARLY, route.clone().into_text_location(span), message);
                    findings.push(finding.with_help(format!("add `depends_on: [{read}]`")));
                }
            }
        }
    }
    findings.extend(check_tools_with_parts(ensemble));
    findings
}

/// Parses the expressions for the list, the key and the combination. Returns each with its route.
pub(super) fn parse_for_each_expressions(spec: &ForEachSpec, route: &Route) -> Vec<(ParsedCondition, Route)> {
    let item = &*spec.item_name;
    let list = match &spec.items {
        ForEachItems::Expression(text) => Some((text.as_str(), PartVariables::NO_OUTPUT, route.with_key("in"))),
        ForEachItems::List(_) | ForEachItems::Times(_) => None,
    };
    let key = spec.key.as_deref();
    let key = key.map(|text| (text, PartVariables::for_key(item), route.with_key("key")));
    let combine = spec.combine.keyed_expression();
    let combine = combine.map(|(name, text)| {
        (
            text,
            PartVariables::for_output(item),
            route.with_key("combine").with_key(name),
        )
    });
    let all = list.into_iter().chain(key).chain(combine);
    all.filter_map(|(text, names, route)| Some((ValueExpression::parse_with(text, names).ok()?, route)))
        .collect()
}

/// Reports tools that call an agent with `for_each`, because a tool call has no parts.
fn check_tools_with_parts(ensemble: &Ensemble) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, tool) in &ensemble.tools {
        let ToolKind::Agent { agent, .. } = &tool.kind else {
            continue;
        };
        let performer = ensemble.agents.iter().find(|one| one.name == *agent);
        if performer.is_some_and(|performer| performer.for_each.is_some()) {
            let route = Route::root().with_key("tools").with_key(name.clone()).with_key("agent");
            let message = format!("the agent `{agent}` has `for_each`, so it cannot be a tool");
            let finding = Finding::new_error(codes::NOT_FOR_KIND, route.into_value_location(), message);
            findings.push(finding.with_help(
                "use an agent without `for_each` as the tool; the model can call the tool once for each item",
            ));
        }
    }
    findings
}
