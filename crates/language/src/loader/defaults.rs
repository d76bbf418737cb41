//! `defaults`: the keys that every agent has unless it says otherwise, added to the agents of the tree.
//!
//! They are added before the agents are read, as the entries of a `<<` are. So a value keeps its place in `defaults`, and
//! all code that reads agents sees them whole.

use std::collections::HashSet;
use std::sync::Arc;

use super::codes;
use super::document::{MAX_NODES, YamlContent, YamlEntry, YamlNode};
use super::findings::LimitedFindingList;
use crate::diagnostic::Finding;
use crate::names::is_rhai_script;
use crate::source::RouteLocation;
use crate::vocabulary::{FileSection, TYPE_CHOOSING_KEYS, chooses_agent_type};

/// Returns the tree with the defaults merged into every agent. Returns `None` if the tree becomes too large, which is reported.
pub(super) fn apply_defaults(root: &Arc<YamlNode>, findings: &mut LimitedFindingList) -> Option<Arc<YamlNode>> {
    let (Some(defaults), Some(agents)) = (root.get("defaults"), root.get("agents")) else {
        return Some(root.clone());
    };
    let (YamlContent::Mapping(defaults), YamlContent::Sequence(items)) = (&defaults.content, &agents.content) else {
        return Some(root.clone());
    };
    let mut added = root.weight;
    let sandbox = defaults.iter().find(|entry| *entry.key == *"sandbox");
    let tools = root.get("tools").zip(sandbox);
    let tools = tools.and_then(|(tools, sandbox)| Some((tools, apply_tool_sandbox(tools, sandbox)?)));
    if let Some((own, tools)) = &tools {
        added += tools.weight.saturating_sub(own.weight);
    }
    let mut completed_agents = Vec::with_capacity(items.len());
    for item in items {
        let agent = apply_agent_defaults(item, defaults);
        added += agent.weight.saturating_sub(item.weight);
        if added > MAX_NODES {
            let message =
                format!("the file contains more than {MAX_NODES} values after `defaults` are added to all agents");
            findings.push(Finding::new_error(
                codes::TOO_BIG,
                RouteLocation::from_source_span(agents.span),
                message,
            ));
            return None;
        }
        completed_agents.push(agent);
    }
    let entries = map_entries(root).iter().map(|entry| match &*entry.key {
        "tools" => YamlEntry {
            value: tools.as_ref().map_or(&entry.value, |(_, tools)| tools).clone(),
            ..entry.clone()
        },
        "agents" => YamlEntry {
            value: with_content(agents, YamlContent::Sequence(std::mem::take(&mut completed_agents))),
            ..entry.clone()
        },
        _ => entry.clone(),
    });
    Some(with_content(root, YamlContent::Mapping(entries.collect())))
}

/// Returns the entries of a map; none for other values.
fn map_entries(node: &YamlNode) -> &[YamlEntry] {
    match &node.content {
        YamlContent::Mapping(entries) => entries,
        _ => &[],
    }
}

/// Returns a node with this content at the same span. Computes its size and height.
fn with_content(node: &YamlNode, content: YamlContent) -> Arc<YamlNode> {
    let parts: Box<dyn Iterator<Item = &Arc<YamlNode>>> = match &content {
        YamlContent::Sequence(items) => Box::new(items.iter()),
        YamlContent::Mapping(entries) => Box::new(entries.iter().map(|entry| &entry.value)),
        YamlContent::Scalar(_) => Box::new(std::iter::empty()),
    };
    let (weight, height) = parts.fold((1, 1), |(weight, height), part| {
        (weight + part.weight, height.max(part.height + 1))
    });
    Arc::new(YamlNode {
        span: node.span,
        content,
        weight,
        height,
    })
}

/// Returns the agent with the defaults that apply to its type. Keys of the agent have priority.
fn apply_agent_defaults(agent: &Arc<YamlNode>, defaults: &[YamlEntry]) -> Arc<YamlNode> {
    let YamlContent::Mapping(own) = &agent.content else {
        return agent.clone();
    };
    let agent_type = find_agent_type(agent, defaults);
    let mut entries = own.clone();
    let given = defaults.iter().filter(|default| !default.value.is_null());
    for default in given.filter(|default| applies_to_agent(default, agent, agent_type)) {
        let value = match &*default.key {
            "conversation" => filter_conversation(&default.value, agent_type),
            _ => default.value.clone(),
        };
        match entries.iter_mut().find(|entry| is_same_key(&entry.key, &default.key)) {
            Some(entry) if keeps_null_values(&entry.key) => entry.value = merge_keeping_null(&entry.value, &value),
            Some(entry) => entry.value = merge_ignoring_null(&entry.value, &value),
            None => entries.push(YamlEntry {
                value,
                ..default.clone()
            }),
        }
    }
    with_content(agent, YamlContent::Mapping(entries))
}

/// Returns the tools with the default sandbox added to those that start a process. Returns `None` if nothing changes.
fn apply_tool_sandbox(tools: &YamlNode, sandbox: &YamlEntry) -> Option<Arc<YamlNode>> {
    let with_sandbox = |node: &Arc<YamlNode>| {
        let mut entries = map_entries(node).to_vec();
        match entries.iter_mut().find(|entry| *entry.key == *sandbox.key) {
            Some(entry) => entry.value = merge_ignoring_null(&entry.value, &sandbox.value),
            None => entries.push(sandbox.clone()),
        }
        with_content(node, YamlContent::Mapping(entries))
    };
    let of_tool = |tool: &Arc<YamlNode>| match tool.get("mcp") {
        Some(server) if server.get("command").is_some() => {
            let entries = map_entries(tool).iter().map(|entry| match &*entry.key {
                "mcp" => YamlEntry {
                    value: with_sandbox(&entry.value),
                    ..entry.clone()
                },
                _ => entry.clone(),
            });
            with_content(tool, YamlContent::Mapping(entries.collect()))
        }
        None if tool.get("script").is_some() => with_sandbox(tool),
        _ => tool.clone(),
    };
    let YamlContent::Mapping(all) = &tools.content else {
        return None;
    };
    let all = all.iter().map(|entry| YamlEntry {
        value: of_tool(&entry.value),
        ..entry.clone()
    });
    Some(with_content(tools, YamlContent::Mapping(all.collect())))
}

/// Returns whether the keys are equal. `parameters` is another spelling of `config`.
fn is_same_key(one: &str, other: &str) -> bool {
    let plain = |key| if key == "parameters" { "config" } else { key };
    plain(one) == plain(other)
}

/// Returns the type of the agent by its own keys, or by the defaults if its own keys choose none.
fn find_agent_type<'k>(agent: &'k YamlNode, defaults: &[YamlEntry]) -> Option<&'k str> {
    let chooser = TYPE_CHOOSING_KEYS.iter().find(|(key, _)| has_nonnull_value(agent, key));
    let declared = || agent.get("type").and_then(YamlNode::string_text).map(|word| &**word);
    let default = || {
        let mut default_choosers = TYPE_CHOOSING_KEYS
            .iter()
            .filter(|(key, _)| defaults.iter().any(|default| default_chooses_agent_type(default, key)));
        default_choosers.next().map(|(_, chosen)| chosen.word())
    };
    chooser
        .map(|(_, chosen)| chosen.word())
        .or_else(declared)
        .or_else(default)
}

/// Returns whether the default chooses the type of agents by this key. An `input` without a question only completes the `input` of agents.
fn default_chooses_agent_type(default: &YamlEntry, key: &str) -> bool {
    let is_part = key == "input"
        && matches!(default.value.content, YamlContent::Mapping(_))
        && !has_nonnull_value(&default.value, "prompt");
    *default.key == *key && !is_part && !default.value.is_null()
}

/// Returns whether the map has the key with a value.
fn has_nonnull_value(map: &YamlNode, key: &str) -> bool {
    map.get(key).is_some_and(|value| !value.is_null())
}

/// Returns whether the default applies to an agent of this type.
fn applies_to_agent(default: &YamlEntry, agent: &YamlNode, agent_type: Option<&str>) -> bool {
    // Other keys are reported where `defaults` is read by itself; those that begin with `x-` are ignored.
    let Some(key) = FileSection::Defaults.find_key(&default.key) else {
        return false;
    };
    if key.name == "type" {
        return default
            .value
            .string_text()
            .is_some_and(|word| agent_type == Some(&**word));
    }
    if !key.is_default_for(agent_type) {
        return false;
    }
    if matches!(key.name, "args" | "stdin") && is_rhai_agent(agent) {
        return false;
    }
    if !chooses_agent_type(key.name) {
        return true;
    }
    // An agent runs one thing: its own, or that of the defaults.
    let has_own = TYPE_CHOOSING_KEYS
        .iter()
        .any(|(chooser, _)| has_nonnull_value(agent, chooser));
    if has_own {
        has_nonnull_value(agent, key.name)
    } else {
        default_chooses_agent_type(default, key.name)
    }
}

/// Returns whether the agent runs a Rhai script, which starts no process.
fn is_rhai_agent(agent: &YamlNode) -> bool {
    agent
        .get("script")
        .and_then(|script| script.string_text())
        .is_some_and(|script| is_rhai_script(script))
}

/// Returns whether the value under the key is data of the author, in which `null` is a value.
fn keeps_null_values(key: &str) -> bool {
    matches!(key, "config" | "parameters" | "output_schema" | "inputs")
}

/// Returns the agent's own value, completed by the keys of the default if both are maps. A key with `null` does not remove a default.
fn merge_ignoring_null(own: &Arc<YamlNode>, default: &Arc<YamlNode>) -> Arc<YamlNode> {
    if own.is_null() {
        return default.clone();
    }
    let YamlContent::Mapping(entries) = &own.content else {
        return own.clone();
    };
    let given = entries.iter().filter(|entry| !entry.value.is_null()).cloned();
    merge_keeping_null(&with_content(own, YamlContent::Mapping(given.collect())), default)
}

/// Returns the agent's own value, completed by the keys of the default if both are maps. A key with `null` replaces a default.
fn merge_keeping_null(own: &Arc<YamlNode>, default: &Arc<YamlNode>) -> Arc<YamlNode> {
    if own.is_null() {
        return default.clone();
    }
    let (YamlContent::Mapping(entries), YamlContent::Mapping(more)) = (&own.content, &default.content) else {
        return own.clone();
    };
    let mut seen_keys: HashSet<&Arc<str>> = entries.iter().map(|entry| &entry.key).collect();
    let added = more.iter().filter(|entry| seen_keys.insert(&entry.key));
    with_content(
        own,
        YamlContent::Mapping(entries.iter().chain(added).cloned().collect()),
    )
}

/// Returns the defaults of `conversation` without the keys that only agents of other types have.
fn filter_conversation(conversation: &Arc<YamlNode>, agent_type: Option<&str>) -> Arc<YamlNode> {
    let mut conversation = conversation.clone();
    for key in FileSection::Conversation
        .iter_keys()
        .filter(|key| !key.is_default_for(agent_type))
    {
        conversation = without_key(&conversation, key.name);
    }
    conversation
}

/// Returns the map without a key.
fn without_key(map: &Arc<YamlNode>, key: &str) -> Arc<YamlNode> {
    if map.get(key).is_none() {
        return map.clone();
    }
    let entries = map_entries(map).iter().filter(|entry| *entry.key != *key).cloned();
    with_content(map, YamlContent::Mapping(entries.collect()))
}
