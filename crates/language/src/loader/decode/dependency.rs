//! `depends_on` and `dependencies`, which form one list.

use std::collections::HashMap;
use std::sync::Arc;

use super::AgentNameIndex;
use crate::condition::expression::replacements;
use crate::condition::{Condition, ConditionText};
use crate::diagnostic::Finding;
use crate::ensemble::{Dependency, DependencyPosition, RequiredResult, WaitForOutputs};
use crate::loader::codes;
use crate::loader::document::{ScalarValue, YamlContent, YamlNode};
use crate::loader::findings::LimitedFindingList;
use crate::loader::section_fields::SectionFields;
use crate::loader::value_decoders::{
    NodeCursor, decode_bool, decode_count, decode_name, decode_word_value, report_wrong_type,
};
use crate::source::{RouteLocation, Span};
use crate::vocabulary::FileSection;
use crate::yaml::edit::{RouteEdit, RouteFix};

/// Decodes `depends_on` and `dependencies` of an agent as one list, and reports repetitions.
pub(super) fn decode_dependencies(
    fields: &SectionFields<'_>,
    names: &AgentNameIndex<'_>,
    findings: &mut LimitedFindingList,
) -> Option<Vec<Dependency>> {
    let mut edges = Vec::new();
    let mut shorthand = HashMap::new();
    if let Some(at) = fields.get("depends_on") {
        for (index, item) in at.require_items("a list of agent names", findings)?.iter().enumerate() {
            if let Some(name) = decode_plain_name(item, names, findings) {
                if let Some(first) = shorthand.insert(name.clone(), item.value_location()) {
                    let message = format!("`{name}` is in `depends_on` twice");
                    let fix = RouteFix::new_safe("remove one of the two", RouteEdit::Remove(item.route()));
                    report_repeated_dependency(item.value_location(), message, first, fix, findings);
                }
                edges.push(unconditional_dependency(name, DependencyPosition::DependsOn(index)));
            }
        }
    }
    if let Some(at) = fields.get("dependencies") {
        let mut seen_dependencies = HashMap::new();
        for (index, item) in at.require_items("a list of dependencies", findings)?.iter().enumerate() {
            let Some(edge) = decode_dependency(item, index, names, findings) else {
                continue;
            };
            let place = || item.route().with_key("agent_name").into_value_location();
            if let Some(first) = shorthand.get(&edge.agent_name) {
                let message = format!("`{}` is in both `depends_on` and `dependencies`", edge.agent_name);
                let route = first.route.clone();
                let fix = RouteFix::new_unsafe("remove it from `depends_on`", RouteEdit::Remove(route));
                report_repeated_dependency(place(), message, first.clone(), fix, findings);
            }
            // A condition that is in error is reported itself, and is not the same as another one.
            let is_broken = edge.condition.is_none() && item.node.get("condition").is_some_and(|node| !node.is_null());
            if !is_broken {
                report_if_repeated(&edge, item, &mut seen_dependencies, findings);
            }
            edges.push(edge);
        }
    }
    Some(edges)
}

/// The key that two dependencies have in common if one repeats the other: the agent, the condition and `on`.
type DependencyIdentity = (Arc<str>, Option<Arc<str>>, RequiredResult);

/// Reports a dependency with the same agent, condition and `on` as an earlier dependency.
fn report_if_repeated(
    edge: &Dependency,
    item: &NodeCursor<'_>,
    seen: &mut HashMap<DependencyIdentity, RouteLocation>,
    findings: &mut LimitedFindingList,
) {
    let condition = edge.condition.as_ref().map(ConditionText::text);
    let key = (edge.agent_name.clone(), condition.cloned(), edge.on);
    let place = || item.route().with_key("agent_name").into_value_location();
    if let Some(first) = seen.insert(key, place()) {
        let message = format!("two dependencies on `{}` have the same condition", edge.agent_name);
        let fix = RouteFix::new_unsafe("remove the second dependency", RouteEdit::Remove(item.route()));
        report_repeated_dependency(place(), message, first, fix, findings);
    }
}

/// Reports the repetition at `second`, with a fix.
fn report_repeated_dependency(
    second: RouteLocation,
    message: String,
    first: RouteLocation,
    fix: RouteFix,
    findings: &mut LimitedFindingList,
) {
    let finding = Finding::new_error(codes::DEPENDENCY_TWICE, second, message);
    findings.push(finding.with_related(first, "first here").with_fix(fix));
}

/// Creates a dependency with all defaults.
fn unconditional_dependency(agent_name: Arc<str>, declared: DependencyPosition) -> Dependency {
    Dependency {
        agent_name,
        condition: None,
        max_executions: None,
        requires_all: true,
        feedback: false,
        on: RequiredResult::default(),
        wait_for: WaitForOutputs::default(),
        declared_at: declared,
    }
}

/// Decodes an item of `depends_on`, and reports a map.
fn decode_plain_name(
    at: &NodeCursor<'_>,
    names: &AgentNameIndex<'_>,
    findings: &mut LimitedFindingList,
) -> Option<Arc<str>> {
    if let YamlContent::Mapping(_) = at.node.content {
        let finding = Finding::new_error(
            codes::WRONG_TYPE,
            at.value_location(),
            "expected the name of an agent, found a map",
        );
        findings.push(finding.with_help("write dependencies with a condition under `dependencies`"));
        return None;
    }
    decode_agent_name(at, names, findings)
}

/// Decodes the name of an existing agent.
fn decode_agent_name(
    at: &NodeCursor<'_>,
    names: &AgentNameIndex<'_>,
    findings: &mut LimitedFindingList,
) -> Option<Arc<str>> {
    let name = decode_name(at, findings)?;
    names
        .check_exists(&name, || at.value_location(), findings)
        .then_some(name)
}

/// Decodes an item of `dependencies`: a name or a map.
fn decode_dependency(
    at: &NodeCursor<'_>,
    index: usize,
    names: &AgentNameIndex<'_>,
    findings: &mut LimitedFindingList,
) -> Option<Dependency> {
    const ENDINGS: &[(&str, RequiredResult)] = &[
        ("success", RequiredResult::Success),
        ("failure", RequiredResult::Failure),
        ("any", RequiredResult::Any),
    ];
    const WAITS: &[(&str, WaitForOutputs)] = &[
        ("update", WaitForOutputs::Update),
        ("settled", WaitForOutputs::Settled),
        ("nothing", WaitForOutputs::Nothing),
    ];
    if let Some(name) = at.node.string_text() {
        let finding = Finding::new_error(codes::WRONG_TYPE, at.value_location(), "expected a map, found a string");
        let fix = RouteFix::new_safe(
            format!("write `agent_name: {name}`"),
            RouteEdit::WriteYaml(at.value_location(), format!("{{agent_name: {name}}}")),
        );
        let is_known = names.find_index(name).is_some();
        let mut finding = finding.with_help(format!(
            "write `- agent_name: {name}`, or use `depends_on` for plain names"
        ));
        finding.fix = is_known.then_some(fix);
        findings.push(finding);
        return None;
    }
    let fields = SectionFields::from_map(at, FileSection::Dependency, findings)?;
    let agent_name = fields.decode_required(
        "agent_name",
        "write the name of the agent that this agent depends on",
        findings,
        |at, findings| decode_agent_name(at, names, findings),
    );
    let condition = fields.decode_optional("condition", findings, decode_condition);
    if at.node.get("condition").is_some_and(YamlNode::is_null) {
        let route = at.route().with_key("condition");
        let message = "`condition` has no value, so this dependency has no condition";
        findings.push(
            Finding::new_hint(codes::NULL_CONDITION, route.clone().into_key_location(), message)
                .with_fix(RouteFix::new_unsafe("remove `condition`", RouteEdit::Remove(route)))
                .with_help("write an expression behind it, or remove the key"),
        );
    }
    let max_executions = fields.decode_optional("max_executions", findings, decode_count);
    let requires_all = fields.decode_optional("requires_all", findings, decode_bool);
    let feedback = fields.decode_optional("feedback", findings, decode_bool);
    let on = fields.decode_optional("on", findings, |at, findings| decode_word_value(at, ENDINGS, findings));
    let wait_for = fields.decode_optional("wait_for", findings, |at, findings| {
        decode_word_value(at, WAITS, findings)
    });
    if wait_for.is_some() && requires_all == Some(false) {
        let place = at.route().with_key("wait_for").into_key_location();
        let message = "`wait_for` has no effect together with `requires_all: false`";
        findings.push(
            Finding::new_error(codes::WAIT_FOR_ANY_OF, place, message)
                .with_fix(RouteFix::new_safe(
                    "remove `wait_for`",
                    RouteEdit::Remove(at.route().with_key("wait_for")),
                ))
                .with_help("remove `wait_for`: an agent waits only for dependencies that it requires"),
        );
    }
    Some(Dependency {
        condition,
        max_executions,
        requires_all: requires_all.unwrap_or(true),
        feedback: feedback.unwrap_or(false),
        on: on.unwrap_or_default(),
        wait_for: wait_for.unwrap_or_default(),
        ..unconditional_dependency(agent_name?, DependencyPosition::Dependencies(index))
    })
}

/// Decodes a condition: a text or a YAML boolean.
fn decode_condition(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<ConditionText> {
    const EXPECTED: &str = "a condition (a string)";
    let YamlContent::Scalar(scalar) = &at.node.content else {
        report_wrong_type(at, EXPECTED, findings);
        return None;
    };
    match scalar.value {
        ScalarValue::Bool(_) => Some((*scalar.text).into()),
        ScalarValue::Text if !scalar.text.trim().is_empty() => parse_condition(at, &scalar.text, findings),
        ScalarValue::Text | ScalarValue::Null => {
            let finding = Finding::new_error(codes::BLANK_CONDITION, at.value_location(), "the condition is blank");
            let fix = RouteFix::new_unsafe("remove `condition`", RouteEdit::Remove(at.route()));
            findings.push(
                finding
                    .with_help("write an expression, or remove `condition`")
                    .with_fix(fix),
            );
            None
        }
        _ => {
            report_wrong_type(at, EXPECTED, findings);
            None
        }
    }
}

/// Builds the fix of an expression with a foreign spelling or a misspelled word at the span. `check` must accept the fixed text.
pub(super) fn build_word_fix(
    at: &NodeCursor<'_>,
    text: &str,
    span: Span,
    check: impl Fn(&str) -> Result<(), Span>,
) -> Option<RouteFix> {
    let (word, applicability) = replacements::find_replacement(text, span, check)?;
    let change = RouteEdit::WriteText(at.route().into_text_location(span), word.to_owned());
    Some(RouteFix::new(applicability, format!("write `{word}`"), change))
}

/// Parses a condition, and reports its error with a fix.
fn parse_condition(at: &NodeCursor<'_>, text: &str, findings: &mut LimitedFindingList) -> Option<ConditionText> {
    let error = match ConditionText::parse(text) {
        Ok(condition) => return Some(condition),
        Err(error) => error,
    };
    let mut finding = Finding::new_error(
        codes::CONDITION,
        at.route().into_text_location(error.span),
        error.message,
    );
    finding.help = error.help;
    finding.fix = build_word_fix(at, text, error.span, |text| {
        Condition::check_syntax(text).map_err(|error| error.span)
    });
    findings.push(finding);
    None
}
