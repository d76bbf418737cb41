//! What the expressions of a `for_each` read, and agents with parts where there is no conversation.

use super::inputs::undeclared;
use super::subject::Subject;
use crate::condition::{Expression, Keyed, PartNames, Reading};
use crate::diagnostic::Finding;
use crate::ensemble::{Agent, Ensemble, ForEach, Items, ToolKind};
use crate::loader::codes;
use crate::source::Route;

/// Reports inputs that are not declared, lists of agents that may not have spoken, and tools that have parts.
pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let ensemble = subject.ensemble;
    let mut findings = Vec::new();
    for (index, agent) in ensemble.agents.iter().enumerate() {
        let Some(spec) = &agent.for_each else { continue };
        for (reading, route) in readings(spec, &Agent::route(index).key("for_each")) {
            for read in reading.keys_read(Keyed::Inputs) {
                let place = || route.clone().text(read.span);
                findings.extend(undeclared(ensemble, &read.key, place));
            }
            for (read, span) in reading.agents_read() {
                let is_known = ensemble.agents.iter().any(|other| *other.name == *read);
                let listens = agent.dependencies.iter().any(|one| *one.agent_name == *read);
                if is_known && !listens && *agent.name != *read {
                    let message = format!(
                        "the list reads the output of `{read}`, and `{}` does not depend on it, so it may run before",
                        agent.name
                    );
                    let finding = Finding::warning(codes::LIST_TOO_EARLY, route.clone().text(span), message);
                    findings.push(finding.help(format!("add `depends_on: [{read}]`")));
                }
            }
        }
    }
    findings.extend(tools(ensemble));
    findings
}

/// The expressions of the list, with their places.
pub(super) fn readings(spec: &ForEach, route: &Route) -> Vec<(Reading, Route)> {
    let item = &*spec.item_name;
    let list = match &spec.items {
        Items::Expression(text) => Some((text.as_str(), PartNames::NO_OUTPUT, route.key("in"))),
        Items::List(_) | Items::Times(_) => None,
    };
    let key = spec.key.as_deref();
    let key = key.map(|text| (text, PartNames::of_key(item), route.key("key")));
    let combine = spec.combine.expression();
    let combine = combine.map(|(name, text)| (text, PartNames::of_output(item), route.key("combine").key(name)));
    let all = list.into_iter().chain(key).chain(combine);
    all.filter_map(|(text, names, route)| Some((Expression::read_with(text, names).ok()?, route)))
        .collect()
}

/// A tool has no turn, so the agent behind it has no parts.
fn tools(ensemble: &Ensemble) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, tool) in &ensemble.tools {
        let ToolKind::Agent { agent, .. } = &tool.kind else {
            continue;
        };
        let performer = ensemble.agents.iter().find(|one| one.name == *agent);
        if performer.is_some_and(|performer| performer.for_each.is_some()) {
            let route = Route::root().key("tools").key(name.clone()).key("agent");
            let message = format!("the agent `{agent}` has `for_each`, so it cannot be a tool");
            let finding = Finding::error(codes::NOT_FOR_KIND, route.value(), message);
            findings.push(
                finding.help("make a tool of an agent without `for_each`; the model can call it once for each item"),
            );
        }
    }
    findings
}
