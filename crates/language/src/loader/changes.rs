//! The differences between two texts of one ensemble: the changed agents and their changed keys.
//!
//! Positions, comments, quotes and the order of keys are ignored. An agent that uses a profile of the file has changed
//! when the profile has changed.

use std::fmt;
use std::sync::Arc;

use super::document::{Content, Document, Entry, Node};
use super::words::is_extension;

/// The differences between two texts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Agents that are only in the new text.
    pub added: Vec<Arc<str>>,
    /// Agents that are only in the old text.
    pub removed: Vec<Arc<str>>,
    /// Agents in both texts, with the keys that differ.
    pub changed: Vec<(Arc<str>, Vec<Arc<str>>)>,
    /// The keys of the ensemble that differ, except `agents` and `model_profiles`.
    pub beside: Vec<Arc<str>>,
}

/// Compares two texts.
pub fn changes(old: &Document, new: &Document) -> Changes {
    let (before, after) = (agents(old), agents(new));
    let find = |all: &[(Arc<str>, Arc<Node>)], name: &str| {
        let found = all.iter().find(|(known, _)| **known == *name);
        found.map(|(_, node)| node.clone())
    };
    let mut changes = Changes::default();
    for (name, node) in &after {
        match find(&before, name) {
            None => changes.added.push(name.clone()),
            Some(known) => {
                let mut keys = differing(&known, node);
                if keys.is_empty() && profiles_of(old, &known) != profiles_of(new, node) {
                    keys.push("model_profile".into());
                }
                if !keys.is_empty() {
                    changes.changed.push((name.clone(), keys));
                }
            }
        }
    }
    let is_gone = |(name, _): &&(Arc<str>, Arc<Node>)| find(&after, name).is_none();
    changes.removed = before.iter().filter(is_gone).map(|(name, _)| name.clone()).collect();
    let elsewhere = |key: &Arc<str>| !matches!(&**key, "agents" | "model_profiles" | "description" | "defaults");
    changes.beside = differing(old.root(), new.root())
        .into_iter()
        .filter(elsewhere)
        .collect();
    changes
}

impl Changes {
    /// Whether there are no relevant differences.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether outputs of the agent with the old text are no longer valid with the new text.
    pub fn concern(&self, agent: &str) -> bool {
        let changed = self.changed.iter().map(|(name, _)| name);
        changed
            .chain(&self.added)
            .chain(&self.removed)
            .any(|name| **name == *agent)
    }
}

/// `changed: writer (prompt, retry); added: critic`.
impl fmt::Display for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let changed = self.changed.iter();
        let changed: Vec<String> = changed
            .map(|(name, keys)| format!("{name} ({})", keys.join(", ")))
            .collect();
        let parts = [
            ("changed", changed.join(", ")),
            ("added", self.added.join(", ")),
            ("removed", self.removed.join(", ")),
            ("also", self.beside.join(", ")),
        ];
        let parts: Vec<String> = parts
            .iter()
            .filter(|(_, names)| !names.is_empty())
            .map(|(word, names)| format!("{word}: {names}"))
            .collect();
        if parts.is_empty() {
            return f.write_str("no change that affects a run");
        }
        f.write_str(&parts.join("; "))
    }
}

/// The agents of a text by name, in file order.
fn agents(document: &Document) -> Vec<(Arc<str>, Arc<Node>)> {
    let Some(Content::Sequence(items)) = get(document.root(), "agents").map(|node| &node.content) else {
        return Vec::new();
    };
    let named = items.iter().filter_map(|item| {
        let name = get(item, "name")?.text()?.clone();
        Some((name, item.clone()))
    });
    named.collect()
}

/// The keys of two maps whose values differ; the keys of the new map come first.
fn differing(old: &Node, new: &Node) -> Vec<Arc<str>> {
    let (before, after) = (entries(old), entries(new));
    let differs = |entry: &&Entry| get(old, &entry.key).is_none_or(|value| !same(value, &entry.value));
    let is_gone = |entry: &&Entry| get(new, &entry.key).is_none();
    let keys = after.iter().filter(differs).chain(before.iter().filter(is_gone));
    keys.map(|entry| entry.key.clone())
        .filter(|key| &**key != "description" && !is_extension(key))
        .collect()
}

/// The profiles that the agent uses, including fallbacks, in their form in the file.
fn profiles_of(document: &Document, agent: &Node) -> Vec<String> {
    let mut wanted: Vec<Arc<str>> = Vec::new();
    let responses = get(agent, "input").and_then(|input| get(input, "responses"));
    for place in [Some(agent), responses].into_iter().flatten() {
        wanted.extend(get(place, "model_profile").and_then(Node::text).cloned());
    }
    let mut seen = Vec::new();
    let profiles = get(document.root(), "model_profiles");
    while let Some(name) = wanted.pop() {
        let Some(profile) = profiles.and_then(|profiles| get(profiles, &name)) else {
            continue;
        };
        let text = spelled(profile);
        if !seen.contains(&text) {
            seen.push(text);
            wanted.extend(get(profile, "fallback").and_then(Node::text).cloned());
        }
    }
    seen
}

fn entries(node: &Node) -> &[Entry] {
    match &node.content {
        Content::Mapping(entries) => entries,
        _ => &[],
    }
}

fn get<'n>(node: &'n Node, key: &str) -> Option<&'n Node> {
    let entry = entries(node).iter().find(|entry| &*entry.key == key)?;
    Some(&entry.value)
}

/// Whether both have the same meaning.
fn same(one: &Node, other: &Node) -> bool {
    match (&one.content, &other.content) {
        (Content::Scalar(one), Content::Scalar(other)) => one.value == other.value && one.text == other.text,
        (Content::Sequence(one), Content::Sequence(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Content::Mapping(ones), Content::Mapping(others)) => {
            let in_other = |entry: &Entry| get(other, &entry.key).is_some_and(|value| same(&entry.value, value));
            ones.len() == others.len() && ones.iter().all(in_other)
        }
        _ => false,
    }
}

/// A form that is equal for all spellings of a value.
fn spelled(node: &Node) -> String {
    match &node.content {
        Content::Scalar(scalar) => format!("{:?} {}", scalar.value, scalar.text),
        Content::Sequence(items) => {
            let items: Vec<String> = items.iter().map(|item| spelled(item)).collect();
            format!("[{}]", items.join(", "))
        }
        Content::Mapping(entries) => {
            let entry = |entry: &Entry| format!("{}: {}", entry.key, spelled(&entry.value));
            let mut entries: Vec<String> = entries.iter().map(entry).collect();
            entries.sort();
            format!("{{{}}}", entries.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loader::load;
    use crate::source::Source;

    const OLD: &str = "name: e\nagents:\n- {name: a, script: x}\n- {name: b, model_profile: m, prompt: Hello}\n- {name: c, script: y, conversation: {max_turns: 2}}\nmodel_profiles:\n  m: {provider: simulated, replies: [hi], fallback: n}\n  n: {provider: simulated, replies: [ho]}\n";

    fn against_old(new: &str) -> String {
        let load = |text: &str| load(&Source::new("e.yaml", text)).document.expect("YAML");
        changes(&load(OLD), &load(new)).to_string()
    }

    #[test]
    fn agents_are_compared_by_name_and_by_what_their_keys_mean() {
        let table = [
            (OLD.to_owned(), "no change that affects a run"),
            (OLD.replace("script: x", "script: 'x'"), "no change that affects a run"),
            (
                OLD.replace("{name: a, script: x}", "{script: x, name: a, description: new}"),
                "no change that affects a run",
            ),
            (OLD.replace("script: x", "script: z"), "changed: a (script)"),
            (OLD.replace("max_turns: 2", "max_turns: 3"), "changed: c (conversation)"),
            (
                OLD.replace("prompt: Hello", "system_prompt: Be brief"),
                "changed: b (system_prompt, prompt)",
            ),
            (OLD.replace("name: a,", "name: d,"), "added: d; removed: a"),
            (OLD.replace("[ho]", "[hu]"), "changed: b (model_profile)"),
            (
                format!("{OLD}conversation_limits: {{max_total_turns: 3}}\n"),
                "also: conversation_limits",
            ),
        ];
        for (new, expected) in table {
            assert_eq!(against_old(&new), expected, "{new}");
        }
    }

    #[test]
    fn another_order_is_no_change() {
        let a = "- {name: a, script: x}\n";
        let moved = OLD
            .replace(a, "")
            .replace("model_profiles:\n", &format!("{a}model_profiles:\n"));
        assert_eq!(against_old(&moved), "no change that affects a run");
    }
}
