//! `defaults`: the keys that every agent has unless it says otherwise, added to the agents of the tree.
//!
//! They are added before the agents are read, as the entries of a `<<` are. So a value keeps its place in `defaults`, and
//! all code that reads agents sees them whole.

use std::collections::HashSet;
use std::sync::Arc;

use super::codes;
use super::document::{Content, Entry, MAX_NODES, Node};
use super::findings::Findings;
use crate::diagnostic::Finding;
use crate::source::At;
use crate::vocabulary::{CHOOSERS, Section, chooses_type};

/// The tree, with the defaults in every agent; `None` if that makes it too large.
pub(super) fn spread(root: &Arc<Node>, findings: &mut Findings) -> Option<Arc<Node>> {
    let (Some(defaults), Some(agents)) = (root.get("defaults"), root.get("agents")) else {
        return Some(root.clone());
    };
    let (Content::Mapping(defaults), Content::Sequence(items)) = (&defaults.content, &agents.content) else {
        return Some(root.clone());
    };
    let mut added = root.weight;
    let sandbox = defaults.iter().find(|entry| *entry.key == *"sandbox");
    let tools = root.get("tools").zip(sandbox);
    let tools = tools.and_then(|(tools, sandbox)| Some((tools, with_sandbox_of_tools(tools, sandbox)?)));
    if let Some((own, tools)) = &tools {
        added += tools.weight.saturating_sub(own.weight);
    }
    let mut whole = Vec::with_capacity(items.len());
    for item in items {
        let agent = with_defaults(item, defaults);
        added += agent.weight.saturating_sub(item.weight);
        if added > MAX_NODES {
            let message =
                format!("the file contains more than {MAX_NODES} values after `defaults` are added to all agents");
            findings.push(Finding::error(codes::TOO_BIG, At::source(agents.span), message));
            return None;
        }
        whole.push(agent);
    }
    let entries = entries(root).iter().map(|entry| match &*entry.key {
        "tools" => Entry {
            value: tools.as_ref().map_or(&entry.value, |(_, tools)| tools).clone(),
            ..entry.clone()
        },
        "agents" => Entry {
            value: rebuilt(agents, Content::Sequence(std::mem::take(&mut whole))),
            ..entry.clone()
        },
        _ => entry.clone(),
    });
    Some(rebuilt(root, Content::Mapping(entries.collect())))
}

fn entries(node: &Node) -> &[Entry] {
    match &node.content {
        Content::Mapping(entries) => entries,
        _ => &[],
    }
}

/// The node with other parts, at the same place.
fn rebuilt(node: &Node, content: Content) -> Arc<Node> {
    let parts: Box<dyn Iterator<Item = &Arc<Node>>> = match &content {
        Content::Sequence(items) => Box::new(items.iter()),
        Content::Mapping(entries) => Box::new(entries.iter().map(|entry| &entry.value)),
        Content::Scalar(_) => Box::new(std::iter::empty()),
    };
    let (weight, height) = parts.fold((1, 1), |(weight, height), part| {
        (weight + part.weight, height.max(part.height + 1))
    });
    Arc::new(Node {
        span: node.span,
        content,
        weight,
        height,
    })
}

fn with_defaults(agent: &Arc<Node>, defaults: &[Entry]) -> Arc<Node> {
    let Content::Mapping(own) = &agent.content else {
        return agent.clone();
    };
    let agent_type = agent_type(agent, defaults);
    let mut entries = own.clone();
    for default in defaults.iter().filter(|default| is_for(default, agent, agent_type)) {
        let value = match &*default.key {
            "conversation" => conversation_for(&default.value, agent_type),
            _ => default.value.clone(),
        };
        match entries.iter_mut().find(|entry| same_key(&entry.key, &default.key)) {
            Some(entry) => entry.value = merged(&entry.value, &value),
            None => entries.push(Entry {
                value,
                ..default.clone()
            }),
        }
    }
    rebuilt(agent, Content::Mapping(entries))
}

/// The tools, with the default sandbox where a child process performs them.
fn with_sandbox_of_tools(tools: &Node, sandbox: &Entry) -> Option<Arc<Node>> {
    let with_sandbox = |node: &Arc<Node>| {
        let mut own = entries(node).to_vec();
        match own.iter_mut().find(|entry| *entry.key == *sandbox.key) {
            Some(entry) => entry.value = merged(&entry.value, &sandbox.value),
            None => own.push(sandbox.clone()),
        }
        rebuilt(node, Content::Mapping(own))
    };
    let of_tool = |tool: &Arc<Node>| match tool.get("mcp") {
        Some(server) if server.get("command").is_some() => {
            let own = entries(tool).iter().map(|entry| match &*entry.key {
                "mcp" => Entry {
                    value: with_sandbox(&entry.value),
                    ..entry.clone()
                },
                _ => entry.clone(),
            });
            rebuilt(tool, Content::Mapping(own.collect()))
        }
        None if tool.get("script").is_some() => with_sandbox(tool),
        _ => tool.clone(),
    };
    let Content::Mapping(all) = &tools.content else {
        return None;
    };
    let all = all.iter().map(|entry| Entry {
        value: of_tool(&entry.value),
        ..entry.clone()
    });
    Some(rebuilt(tools, Content::Mapping(all.collect())))
}

/// `parameters` is another spelling of `config`.
fn same_key(one: &str, other: &str) -> bool {
    let plain = |key| if key == "parameters" { "config" } else { key };
    plain(one) == plain(other)
}

/// Returns the word of what the agent runs, by its own keys, or by the defaults if it has no such keys.
fn agent_type<'k>(agent: &'k Node, defaults: &[Entry]) -> Option<&'k str> {
    let own = CHOOSERS.iter().find(|(key, _)| agent.get(key).is_some());
    let declared = || agent.get("type").and_then(Node::text).map(|word| &**word);
    let default = || {
        let mut chosen = CHOOSERS
            .iter()
            .filter(|(key, _)| defaults.iter().any(|default| chooses(default, key)));
        chosen.next().map(|(_, chosen)| chosen.word())
    };
    own.map(|(_, chosen)| chosen.word()).or_else(declared).or_else(default)
}

/// Returns whether the default says what an agent runs. Without a question, `input` only completes the `input` of agents.
fn chooses(default: &Entry, key: &str) -> bool {
    let is_part =
        key == "input" && matches!(default.value.content, Content::Mapping(_)) && default.value.get("prompt").is_none();
    *default.key == *key && !is_part
}

/// Returns whether an agent of this type takes the default.
fn is_for(default: &Entry, agent: &Node, agent_type: Option<&str>) -> bool {
    // Other keys are reported where `defaults` is read by itself; those that begin with `x-` are ignored.
    let Some(key) = Section::Defaults.find_key(&default.key) else {
        return false;
    };
    if key.name == "type" {
        return default.value.text().is_some_and(|word| agent_type == Some(&**word));
    }
    if !key.is_given_to(agent_type) {
        return false;
    }
    if !chooses_type(key.name) {
        return true;
    }
    // An agent runs one thing: its own, or that of the defaults.
    let has_own = CHOOSERS.iter().any(|(chooser, _)| agent.get(chooser).is_some());
    if has_own {
        agent.get(key.name).is_some()
    } else {
        chooses(default, key.name)
    }
}

/// The agent's own value, completed by the keys of the default where both are maps.
fn merged(own: &Arc<Node>, default: &Arc<Node>) -> Arc<Node> {
    let (Content::Mapping(entries), Content::Mapping(more)) = (&own.content, &default.content) else {
        return own.clone();
    };
    let mut known: HashSet<&Arc<str>> = entries.iter().map(|entry| &entry.key).collect();
    let added = more.iter().filter(|entry| known.insert(&entry.key));
    rebuilt(own, Content::Mapping(entries.iter().chain(added).cloned().collect()))
}

/// Without the keys of `conversation` that only agents of another kind have.
fn conversation_for(conversation: &Arc<Node>, agent_type: Option<&str>) -> Arc<Node> {
    let mut conversation = conversation.clone();
    for key in Section::Conversation.keys().filter(|key| !key.is_given_to(agent_type)) {
        conversation = without(&conversation, key.name);
    }
    conversation
}

fn without(map: &Arc<Node>, key: &str) -> Arc<Node> {
    if map.get(key).is_none() {
        return map.clone();
    }
    let entries = entries(map).iter().filter(|entry| *entry.key != *key).cloned();
    rebuilt(map, Content::Mapping(entries.collect()))
}
