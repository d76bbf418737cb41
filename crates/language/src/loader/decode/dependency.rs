//! `depends_on` and `dependencies`, which form one list.

use std::collections::HashMap;
use std::sync::Arc;

use super::Names;
use crate::condition::expression::replacements;
use crate::condition::{Condition, ConditionText};
use crate::diagnostic::Finding;
use crate::ensemble::{Declared, Dependency, Ending, WaitFor};
use crate::loader::codes;
use crate::loader::document::{Content, ScalarValue};
use crate::loader::fields::Fields;
use crate::loader::findings::Findings;
use crate::loader::reader::{Cursor, count, flag, name, word, wrong_type};
use crate::source::{At, Span};
use crate::vocabulary::Section;
use crate::yaml::edit::{RouteEdit, RouteFix};

/// Reads both lists of an agent.
pub(super) fn all(fields: &Fields<'_>, names: &Names<'_>, findings: &mut Findings) -> Option<Vec<Dependency>> {
    let mut edges = Vec::new();
    let mut shorthand = HashMap::new();
    if let Some(at) = fields.get("depends_on") {
        for (index, item) in at.items("a list of agent names", findings)?.iter().enumerate() {
            if let Some(name) = plain_name(item, names, findings) {
                if let Some(first) = shorthand.insert(name.clone(), item.value()) {
                    let message = format!("`{name}` is twice in `depends_on`");
                    let fix = RouteFix::safe("remove the repetition", RouteEdit::Remove(item.route()));
                    repeats(item.value(), message, first, fix, findings);
                }
                edges.push(unconditional(name, Declared::DependsOn(index)));
            }
        }
    }
    if let Some(at) = fields.get("dependencies") {
        let mut seen = HashMap::new();
        for (index, item) in at.items("a list of dependencies", findings)?.iter().enumerate() {
            let Some(edge) = edge(item, index, names, findings) else {
                continue;
            };
            let place = || item.route().key("agent_name").value();
            if let Some(first) = shorthand.get(&edge.agent_name) {
                let message = format!("`{}` is in both `depends_on` and `dependencies`", edge.agent_name);
                let route = first.route.clone();
                let fix = RouteFix::not_safe("remove it from `depends_on`", RouteEdit::Remove(route));
                repeats(place(), message, first.clone(), fix, findings);
            }
            // A condition that is in error is reported itself, and is not the same as another one.
            let is_broken = edge.condition.is_none() && item.node.get("condition").is_some();
            if !is_broken {
                repeated(&edge, item, &mut seen, findings);
            }
            edges.push(edge);
        }
    }
    Some(edges)
}

/// What two dependencies have in common if one repeats the other: the agent, the condition and `on`.
type Same = (Arc<str>, Option<Arc<str>>, Ending);

/// Reports a dependency that repeats an earlier one.
fn repeated(edge: &Dependency, item: &Cursor<'_>, seen: &mut HashMap<Same, At>, findings: &mut Findings) {
    let condition = edge.condition.as_ref().map(ConditionText::text);
    let key = (edge.agent_name.clone(), condition.cloned(), edge.on);
    let place = || item.route().key("agent_name").value();
    if let Some(first) = seen.insert(key, place()) {
        let message = format!("two dependencies on `{}` have the same condition", edge.agent_name);
        let fix = RouteFix::not_safe("remove the second dependency", RouteEdit::Remove(item.route()));
        repeats(place(), message, first, fix, findings);
    }
}

fn repeats(second: At, message: String, first: At, fix: RouteFix, findings: &mut Findings) {
    let finding = Finding::error(codes::DEPENDENCY_TWICE, second, message);
    findings.push(finding.also(first, "first here").with_fix(fix));
}

fn unconditional(agent_name: Arc<str>, declared: Declared) -> Dependency {
    Dependency {
        agent_name,
        condition: None,
        max_executions: None,
        requires_all: true,
        feedback: false,
        on: Ending::default(),
        wait_for: WaitFor::default(),
        declared,
    }
}

fn plain_name(at: &Cursor<'_>, names: &Names<'_>, findings: &mut Findings) -> Option<Arc<str>> {
    if let Content::Mapping(_) = at.node.content {
        let finding = Finding::error(
            codes::WRONG_TYPE,
            at.value(),
            "expected the name of an agent, found a map",
        );
        findings.push(finding.help("write dependencies with a condition under `dependencies`"));
        return None;
    }
    agent_name(at, names, findings)
}

fn agent_name(at: &Cursor<'_>, names: &Names<'_>, findings: &mut Findings) -> Option<Arc<str>> {
    let name = name(at, findings)?;
    names.expect(&name, || at.value(), findings).then_some(name)
}

fn edge(at: &Cursor<'_>, index: usize, names: &Names<'_>, findings: &mut Findings) -> Option<Dependency> {
    const ENDINGS: &[(&str, Ending)] = &[
        ("success", Ending::Success),
        ("failure", Ending::Failure),
        ("any", Ending::Any),
    ];
    const WAITS: &[(&str, WaitFor)] = &[
        ("update", WaitFor::Update),
        ("settled", WaitFor::Settled),
        ("nothing", WaitFor::Nothing),
    ];
    if let Some(name) = at.node.text() {
        let finding = Finding::error(codes::WRONG_TYPE, at.value(), "expected a map, found a string");
        let fix = RouteFix::safe(
            format!("write `agent_name: {name}`"),
            RouteEdit::WriteYaml(at.value(), format!("{{agent_name: {name}}}")),
        );
        let is_known = names.get(name).is_some();
        let mut finding = finding.help(format!(
            "write `- agent_name: {name}`, or use `depends_on` for plain names"
        ));
        finding.fix = is_known.then_some(fix);
        findings.push(finding);
        return None;
    }
    let fields = Fields::open(at, Section::Dependency, findings)?;
    let agent_name = fields.required(
        "agent_name",
        "write the name of the agent that this agent depends on",
        findings,
        |at, findings| agent_name(at, names, findings),
    );
    let condition = fields.read("condition", findings, condition);
    let max_executions = fields.read("max_executions", findings, count);
    let requires_all = fields.read("requires_all", findings, flag);
    let feedback = fields.read("feedback", findings, flag);
    let on = fields.read("on", findings, |at, findings| word(at, ENDINGS, findings));
    let wait_for = fields.read("wait_for", findings, |at, findings| word(at, WAITS, findings));
    if wait_for.is_some() && requires_all == Some(false) {
        let place = at.route().key("wait_for").as_key();
        let message = "`wait_for` has no meaning beside `requires_all: false`";
        findings.push(
            Finding::error(codes::WAIT_FOR_ANY_OF, place, message)
                .with_fix(RouteFix::safe(
                    "remove `wait_for`",
                    RouteEdit::Remove(at.route().key("wait_for")),
                ))
                .help("remove `wait_for`: an agent waits only for dependencies that it requires"),
        );
    }
    Some(Dependency {
        condition,
        max_executions,
        requires_all: requires_all.unwrap_or(true),
        feedback: feedback.unwrap_or(false),
        on: on.unwrap_or_default(),
        wait_for: wait_for.unwrap_or_default(),
        ..unconditional(agent_name?, Declared::Dependencies(index))
    })
}

/// The text of a condition; a YAML boolean is also allowed.
fn condition(at: &Cursor<'_>, findings: &mut Findings) -> Option<ConditionText> {
    const EXPECTED: &str = "a condition (a string)";
    let Content::Scalar(scalar) = &at.node.content else {
        wrong_type(at, EXPECTED, findings);
        return None;
    };
    match scalar.value {
        ScalarValue::Bool(_) => Some((*scalar.text).into()),
        ScalarValue::Text if !scalar.text.trim().is_empty() => compiling(at, &scalar.text, findings),
        ScalarValue::Text | ScalarValue::Null => {
            let finding = Finding::error(codes::BLANK_CONDITION, at.value(), "the condition is blank");
            let fix = RouteFix::not_safe("remove `condition`", RouteEdit::Remove(at.route()));
            findings.push(finding.help("write an expression, or remove `condition`").with_fix(fix));
            None
        }
        _ => {
            wrong_type(at, EXPECTED, findings);
            None
        }
    }
}

/// The fix of an expression: a spelling of other languages, or a word that is misspelt, where it is not allowed.
pub(super) fn correction(
    at: &Cursor<'_>,
    text: &str,
    span: Span,
    check: impl Fn(&str) -> Result<(), Span>,
) -> Option<RouteFix> {
    let (word, applicability) = replacements::instead(text, span, check)?;
    let change = RouteEdit::WriteText(at.route().text(span), word.to_owned());
    Some(RouteFix::new(applicability, format!("write `{word}`"), change))
}

/// A valid condition. The plan compiles it; this function only reports all problems at once.
fn compiling(at: &Cursor<'_>, text: &str, findings: &mut Findings) -> Option<ConditionText> {
    let error = match ConditionText::parse(text) {
        Ok(written) => return Some(written),
        Err(error) => error,
    };
    let mut finding = Finding::error(codes::CONDITION, at.route().text(error.span), error.message);
    finding.help = error.help;
    finding.fix = correction(at, text, error.span, |text| {
        Condition::check(text).map_err(|error| error.span)
    });
    findings.push(finding);
    None
}
