//! Templates against what their variables can be.

use std::borrow::Cow;
use std::cell::LazyCell;

use super::parts;
use super::{Types, failure};
use crate::check::graph::Graph;
use crate::check::templates::{advised, templates};
use crate::condition::{Fields, Misfit, Mistake, Range, Type};
use crate::diagnostic::Finding;
use crate::ensemble::Agent;
use crate::loader::codes;
use crate::past::Past;
use crate::source::Route;
use crate::template;

/// Warns of the parts of templates that do not fit.
pub(super) fn check(graph: &Graph<'_>, types: &Types, findings: &mut Vec<Finding>) {
    let known = of_all(graph, types);
    let past = LazyCell::new(|| history(&types.shared.history));
    for at in 0..graph.len() {
        let templates = templates(graph.agent(at), &Agent::route(at));
        let mut templates = templates.into_iter().filter(|(text, _)| text.contains('{')).peekable();
        if templates.peek().is_none() {
            continue;
        }
        let own = of_agent(graph, at, types);
        let find = |name: &str| {
            if name == "history" {
                return Some(&*past);
            }
            let is_name = |(known, _): &&(Cow<'_, str>, Cow<'_, Type>)| *known == name;
            // Where a name stands for two things, the fixed variables come first.
            let found = known.iter().find(is_name).or_else(|| own.iter().find(is_name));
            found.map(|(_, of)| &**of)
        };
        for (text, route) in templates {
            let misfits = template::misfits(text, &find);
            findings.extend(misfits.into_iter().filter_map(|misfit| finding(misfit, &route)));
        }
        if findings.len() >= super::MOST {
            return;
        }
    }
}

fn finding(misfit: Misfit, route: &Route) -> Option<Finding> {
    let code = match misfit.mistake {
        Mistake::Never | Mistake::Always => codes::NEVER_FITS,
        Mistake::Fails => codes::TEMPLATE_MISFIT,
        Mistake::NoKey => codes::MISSING_TEMPLATE_KEY,
        // It is reported without types.
        Mistake::Unknown => return None,
    };
    let finding = Finding::warning(code, route.clone().text(misfit.span), misfit.message);
    Some(advised(finding, misfit.help, route))
}

type Named<'a> = (Cow<'a, str>, Cow<'a, Type>);

/// The variables that are the same for all agents, without `history`.
fn of_all<'a>(graph: &Graph<'_>, types: &'a Types) -> Vec<Named<'a>> {
    let shared = &types.shared;
    let named = |name: &'static str, of: Type| (Cow::Borrowed(name), Cow::Owned(of));
    let turns = u64::from(graph.ensemble.limits.max_total_turns.get());
    vec![
        named("input", Type::text()),
        ("inputs".into(), Cow::Borrowed(&shared.inputs)),
        ("context".into(), Cow::Borrowed(&shared.context)),
        named("turn_count", Type::count(turns)),
        named("transcript", Type::text()),
        named("request", request()),
    ]
}

/// The variables of one agent.
fn of_agent<'a>(graph: &'a Graph<'_>, at: usize, types: &Types) -> Vec<Named<'a>> {
    let agent = graph.agent(at);
    let mut own: Vec<Named<'a>> = Vec::new();
    let turns = u64::from(agent.conversation.max_turns.get());
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
    let execution = Type::number(Range::between(1.0, turns as f64));
    own.push(("execution".into(), Cow::Owned(execution)));
    // The arguments of a call are added to the `config` of an agent that is a tool.
    let is_tool = graph
        .ensemble
        .agent_tools()
        .any(|(_, performer)| *performer == agent.name);
    if !is_tool {
        let config = serde_json::Value::Object(agent.config.clone());
        own.push(("parameters".into(), Cow::Owned(Type::of_value(&config))));
    }
    let mut dependencies = Vec::new();
    for edge in graph.edges(at) {
        let name = &*edge.dependency.agent_name;
        if dependencies.iter().any(|(known, _)| known == name) {
            continue;
        }
        let of = types.outputs[edge.from].clone().or(failure());
        dependencies.push((name.to_owned(), of));
    }
    own.extend(
        dependencies
            .iter()
            .map(|(name, of)| (name.clone().into(), Cow::Owned(of.clone()))),
    );
    let of_name = |(name, of): (String, Type)| (name, (of, false));
    own.push((
        "dependencies".into(),
        Cow::Owned(Type::map(Fields {
            known: dependencies.into_iter().map(of_name).collect(),
            others: None,
            strict: false,
        })),
    ));
    if let Some(spec) = &agent.for_each {
        own.push((
            Cow::Borrowed(&*spec.item_name),
            Cow::Owned(parts::item(spec, &types.shared)),
        ));
        own.push(("part".into(), Cow::Owned(parts::part())));
    }
    own
}

/// Templates see some of the fields of an execution.
fn history(of_conditions: &Type) -> Type {
    let entry = of_conditions.item().cloned().unwrap_or_default();
    let fields = Past::FIELDS.map(|field| (field.to_owned(), entry.key(field)));
    Type::list(Type::map(Fields::exactly(fields)))
}

/// `request`, which is nothing in executions that were not requested.
fn request() -> Type {
    let entry = |key: &str, of: Type| (key.to_owned(), of);
    let fields = Fields::exactly([
        entry("from", Type::text()),
        entry("parameters", Type::any()),
        entry("priority", Type::number(Range::ALL)),
    ]);
    Type::map(fields).or(Type::nothing())
}
