//! The tree of a text that need not be right, and what stands at an offset.

use std::sync::Arc;

use ensemble_language::loader::document::{YamlContent, YamlNode};
use ensemble_language::loader::{self, YamlDocument};
use ensemble_language::source::{Route, RouteStep, SourceText, Span};
use ensemble_language::vocabulary::TYPE_CHOOSING_KEYS;

use super::test_file_patterns;

/// The lines that are left out, one after the other, until the others are YAML.
const MAX_IGNORED_LINES: usize = 4;

/// Parses a text. Treats lines that are not YAML as blank, except the line at the offset `kept`, so that positions stay valid.
pub(super) fn parse_tolerantly(text: &str, kept: Option<usize>) -> Option<YamlDocument> {
    let mut text: Arc<str> = text.into();
    for _ in 0..=MAX_IGNORED_LINES {
        let source = SourceText::new("", text.clone());
        let findings = match loader::parse_yaml_partially(&source) {
            Ok(document) => return Some(document),
            Err(findings) => findings,
        };
        let line = find_line_span(&text, findings.first()?.span.start);
        let is_kept = kept.is_some_and(|kept| line.start <= kept && kept <= line.end);
        if is_kept || text[line.start..line.end].trim().is_empty() {
            return None;
        }
        let blank = " ".repeat(line.end - line.start);
        text = [&text[..line.start], &blank, &text[line.end..]].concat().into();
    }
    None
}

/// Returns the span of the line at an offset, without its line break.
pub(super) fn find_line_span(text: &str, offset: usize) -> Span {
    let offset = text.floor_char_boundary(offset);
    let start = text[..offset].rfind(['\n', '\r']).map_or(0, |at| at + 1);
    let end = text[offset..].find(['\n', '\r']).map_or(text.len(), |at| offset + at);
    Span::new(start, end)
}

/// The key or scalar at an offset, with its route.
#[derive(Debug, Clone)]
pub(super) struct KeyOrScalar<'d> {
    /// The node.
    pub(super) route: Route,
    /// The bytes of the key or the value.
    pub(super) span: Span,
    /// Whether it is the key of the node.
    pub(super) is_key: bool,
    pub(super) node: &'d YamlNode,
}

/// Returns the innermost key or scalar at an offset.
pub(super) fn find_key_or_scalar(document: &YamlDocument, offset: usize) -> Option<KeyOrScalar<'_>> {
    let holds = |span: Span| span.start <= offset && offset <= span.end;
    let mut node = document.root();
    let mut route = Route::root();
    loop {
        match &node.content {
            YamlContent::Scalar(_) if holds(node.span) => {
                return Some(KeyOrScalar {
                    route,
                    span: node.span,
                    is_key: false,
                    node,
                });
            }
            YamlContent::Scalar(_) => return None,
            YamlContent::Sequence(items) => {
                let at = items.iter().rposition(|item| item.span.start <= offset)?;
                (node, route) = (&items[at], route.with_index(at));
            }
            YamlContent::Mapping(entries) => {
                if let Some(entry) = entries.iter().find(|entry| holds(entry.key_span)) {
                    return Some(KeyOrScalar {
                        route: route.with_key(entry.key.clone()),
                        span: entry.key_span,
                        is_key: true,
                        node: &entry.value,
                    });
                }
                // Merged and shared values stand elsewhere.
                let before = entries
                    .iter()
                    .filter(|entry| entry.value.span.start <= offset && entry.key_span.end <= offset);
                let entry = before.max_by_key(|entry| entry.key_span.start)?;
                (node, route) = (&entry.value, route.with_key(entry.key.clone()));
            }
        }
    }
}

/// Converts an offset of the source to an offset in the text of the scalar.
pub(super) fn scalar_text_offset(document: &YamlDocument, spot: &KeyOrScalar<'_>, offset: usize) -> Option<usize> {
    let text = spot.node.string_text()?;
    let starts: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
    let place = |at: usize| {
        document
            .resolve_span(&spot.route.clone().into_text_location(Span::new(at, at)))
            .start
    };
    let after = starts.partition_point(|at| place(*at) <= offset);
    after.checked_sub(1).map(|at| starts[at])
}

/// An agent in a tree that may be invalid.
#[derive(Debug, Clone)]
pub(super) struct AgentNode<'d> {
    pub(super) name: &'d str,
    pub(super) name_span: Span,
    pub(super) node: &'d Arc<YamlNode>,
}

/// Returns the items of `agents`.
pub(super) fn agent_nodes(document: &YamlDocument) -> &[Arc<YamlNode>] {
    let agents = document.root().get("agents");
    agents.and_then(YamlNode::items).unwrap_or_default()
}

/// Returns the agents with a name, in the order of the text.
pub(super) fn list_named_agents<'d>(document: &'d YamlDocument) -> Vec<AgentNode<'d>> {
    let agent = |node: &'d Arc<YamlNode>| {
        let name = node.get("name")?;
        Some(AgentNode {
            name: name.string_text()?,
            name_span: name.span,
            node,
        })
    };
    agent_nodes(document).iter().filter_map(agent).collect()
}

/// Returns the keys of the map under a key of the file, such as `tools`, in the order of the text.
pub(super) fn list_keys_of_root_map<'d>(document: &'d YamlDocument, key: &str) -> Vec<&'d str> {
    match document.root().get(key).map(|node: &YamlNode| &node.content) {
        Some(YamlContent::Mapping(entries)) => entries.iter().map(|entry| &*entry.key).collect(),
        _ => Vec::new(),
    }
}

/// Returns the keys of the context under which agents store their outputs.
pub(super) fn list_state_keys(document: &YamlDocument) -> Vec<&str> {
    let agents = list_named_agents(document).into_iter();
    agents
        .map(|agent| {
            let conversation = agent.node.get("conversation");
            let written_key = conversation.and_then(|it| it.get("state_key")?.string_text());
            written_key.map_or(agent.name, |key| &**key)
        })
        .collect()
}

/// Returns the key that chooses what an agent runs.
pub(super) fn find_agent_kind_key(agent: &YamlNode) -> Option<&'static str> {
    let mut keys = TYPE_CHOOSING_KEYS.into_iter().map(|(key, _)| key);
    keys.find(|key| agent.get(key).is_some())
}

/// Returns the names of the agents on which an agent depends.
pub(super) fn list_dependency_names(agent: &YamlNode) -> Vec<&str> {
    let list = |key: &str| agent.get(key).and_then(YamlNode::items).unwrap_or_default();
    let short = list("depends_on").iter().filter_map(|item| item.string_text());
    let long = list("dependencies").iter();
    let long = long.filter_map(|item| item.string_text().or_else(|| item.get("agent_name")?.string_text()));
    short.chain(long).map(|name| &**name).collect()
}

/// Returns the index of the agent that contains the route.
pub(super) fn containing_agent_index(route: &Route) -> Option<usize> {
    match route.0.as_slice() {
        [RouteStep::Key(key), RouteStep::Index(at), ..] if &**key == "agents" => Some(*at),
        _ => None,
    }
}

/// Returns the route with `*` for indexes: `agents.*.dependencies.*.condition`.
pub(super) fn route_pattern(route: &Route) -> String {
    let words = route.0.iter().map(|step| match step {
        RouteStep::Key(key) => key.to_string(),
        RouteStep::Index(_) => "*".to_owned(),
    });
    words.collect::<Vec<_>>().join(".")
}

/// Returns whether the keys of the map at the route are names of agents.
pub(super) fn has_agent_name_keys(route: &Route) -> bool {
    let pattern = route_pattern(route);
    pattern == "conversation_limits.max_agent_executions" || test_file_patterns::has_agent_keys(&pattern)
}

/// The languages of the texts in an ensemble.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CodeLanguage {
    /// A condition or an expression.
    Condition,
    /// A template.
    Template,
}

/// Returns the language of the text at the route, if it is a condition or a template.
pub(super) fn find_code_language(route: &Route) -> Option<CodeLanguage> {
    let pattern = route_pattern(route);
    let suffix = pattern
        .strip_prefix("agents.*.")
        .or_else(|| pattern.strip_prefix("defaults."));
    if pattern == "success" || pattern.starts_with("result.") || test_file_patterns::is_condition_pattern(&pattern) {
        return Some(CodeLanguage::Condition);
    }
    match suffix? {
        "dependencies.*.condition" | "for_each.in" | "for_each.key" => Some(CodeLanguage::Condition),
        rest if rest.starts_with("for_each.combine.") => Some(CodeLanguage::Condition),
        "prompt" | "system_prompt" | "input" | "input.prompt" | "attachments.*" | "args.*" | "stdin" => {
            Some(CodeLanguage::Template)
        }
        rest if rest.starts_with("inputs.") || rest.starts_with("arguments.") => Some(CodeLanguage::Template),
        _ => None,
    }
}
