//! The differences between two texts of one ensemble: the changed agents, each with what has changed.
//!
//! Positions, comments, quotes, descriptions of agents and the order of keys are ignored. An agent has also changed when a
//! profile or a tool that the agent uses has changed, or an agent behind a tool.

use std::fmt;
use std::sync::Arc;

use super::document::{Content, Document, Entry, Node};
use crate::definition::{Definition, Difference, ExternalDefinitions, Part, PartKind};
use crate::vocabulary::is_extension;

/// The keys of a profile that do not change what a model replies.
const KEYS_OF_COST: [&str; 3] = ["cost", "rate_limit", "prompt_cache"];

/// The differences between two texts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Agents that are only in the new text.
    pub added: Vec<Arc<str>>,
    /// Agents that are only in the old text.
    pub removed: Vec<Arc<str>>,
    /// Agents in both texts, with everything that differs.
    pub changed: Vec<(Arc<str>, Vec<Difference>)>,
    /// The keys of the ensemble that differ, except those that concern single agents.
    pub beside: Vec<Arc<str>>,
}

/// A text of an ensemble, and what is known of everything that determines its results outside the text.
#[derive(Debug, Clone, Copy)]
pub struct Side<'a> {
    /// The text.
    pub document: &'a Document,
    /// The external definitions; `None` if they are not known.
    pub external: Option<&'a ExternalDefinitions>,
}

impl<'a> Side<'a> {
    /// Returns the text alone.
    pub fn of_text(document: &'a Document) -> Self {
        Self {
            document,
            external: None,
        }
    }

    fn definition(&self, node: &Node, name: &str) -> Definition {
        let mut definition = definition_in_text(self.document, node);
        if let Some(external) = self.external.and_then(|all| all.get(name)) {
            definition.extend(external);
        }
        definition
    }
}

/// Compares two texts, and the external definitions if those of the new text are known.
pub fn changes(old: Side<'_>, new: Side<'_>) -> Changes {
    let (before, after) = (agents(old.document), agents(new.document));
    let find = |all: &[(Arc<str>, Arc<Node>)], name: &str| {
        let found = all.iter().find(|(known, _)| **known == *name);
        found.map(|(_, node)| node.clone())
    };
    let mut changes = Changes::default();
    for (name, node) in &after {
        match find(&before, name) {
            None => changes.added.push(name.clone()),
            Some(known) => {
                let differences = differences(old, &known, new, node, name);
                if !differences.is_empty() {
                    changes.changed.push((name.clone(), differences));
                }
            }
        }
    }
    let is_gone = |(name, _): &&(Arc<str>, Arc<Node>)| find(&after, name).is_none();
    changes.removed = before.iter().filter(is_gone).map(|(name, _)| name.clone()).collect();
    let of_agents = ["agents", "model_profiles", "tools", "description", "defaults"];
    changes.beside = differing(old.document.root(), new.document.root())
        .into_iter()
        .filter(|key| !of_agents.contains(&&**key))
        .collect();
    changes
}

/// Returns everything that differs between the definitions of an agent.
fn differences(old: Side<'_>, known: &Node, new: Side<'_>, node: &Node, name: &str) -> Vec<Difference> {
    let unknown = new.external.filter(|_| old.external.is_none());
    let new_text = Side {
        external: new.external.filter(|_| unknown.is_none()),
        ..new
    };
    let before = old.definition(known, name);
    let parts = before.differing_parts(&new_text.definition(node, name));
    let unknown = unknown.and_then(|all| all.get(name)).into_iter();
    let unknown = unknown.flat_map(Definition::iter).map(|(part, _)| part.clone());
    let changed = parts.into_iter().map(Difference::Changed);
    changed.chain(unknown.map(Difference::Unknown)).collect()
}

/// Returns the meaning of a whole text as a text that is equal for all spellings. The descriptions of the ensemble and of
/// its agents are ignored.
pub fn meaning(document: &Document) -> String {
    let root = entries(document.root()).iter();
    let parts = root.filter(|entry| is_relevant(&entry.key)).map(|entry| {
        let items = (&*entry.key == "agents").then(|| entry.value.items()).flatten();
        match items {
            Some(items) => {
                let agents: Vec<String> = items.iter().map(|agent| spelled_without_description(agent)).collect();
                format!("agents: [{}]", agents.join(", "))
            }
            None => format!("{}: {}", entry.key, spelled(&entry.value)),
        }
    });
    let mut parts: Vec<String> = parts.collect();
    parts.sort();
    parts.join("\n")
}

impl Changes {
    /// Returns whether there are no relevant differences.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns whether outputs of the agent with the old text are no longer valid with the new text.
    pub fn concern(&self, agent: &str) -> bool {
        let changed = self.changed.iter().map(|(name, _)| name);
        changed
            .chain(&self.added)
            .chain(&self.removed)
            .any(|name| **name == *agent)
    }

    /// Returns a sentence for each change of an agent that is not in the keys of the agent:
    /// `` `pay`: tool `charge` has changed ``.
    pub fn sentences(&self) -> impl Iterator<Item = String> {
        self.changed.iter().flat_map(|(agent, differences)| {
            let behind = differences.iter().filter(|one| one.part().kind != PartKind::Key);
            behind.map(move |difference| format!("`{agent}`: {difference}"))
        })
    }
}

/// `changed: writer (prompt, retry); added: critic`.
impl fmt::Display for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let changed = self.changed.iter();
        let changed: Vec<String> = changed
            .map(|(name, differences)| {
                let own = differences.iter().map(Difference::part);
                let own: Vec<&str> = own
                    .filter(|part| part.kind == PartKind::Key)
                    .map(|part| &*part.name)
                    .collect();
                match own.is_empty() {
                    true => name.to_string(),
                    false => format!("{name} ({})", own.join(", ")),
                }
            })
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

/// Returns whether a key of an agent or of an ensemble has a meaning for a run.
fn is_relevant(key: &str) -> bool {
    key != "description" && !is_extension(key)
}

/// The keys of two maps whose values differ; the keys of the new map come first.
fn differing(old: &Node, new: &Node) -> Vec<Arc<str>> {
    let (before, after) = (entries(old), entries(new));
    let differs = |entry: &&Entry| get(old, &entry.key).is_none_or(|value| spelled(value) != spelled(&entry.value));
    let is_gone = |entry: &&Entry| get(new, &entry.key).is_none();
    let keys = after.iter().filter(differs).chain(before.iter().filter(is_gone));
    keys.map(|entry| entry.key.clone())
        .filter(|key| is_relevant(key))
        .collect()
}

/// Returns the definition of the agent as far as the text contains it.
fn definition_in_text(document: &Document, agent: &Node) -> Definition {
    let mut reader = TextReader {
        root: document.root(),
        definition: Definition::default(),
    };
    for entry in entries(agent).iter().filter(|entry| is_relevant(&entry.key)) {
        let part = Part::new(PartKind::Key, entry.key.clone());
        reader.definition.add(part, &spelled(&entry.value));
    }
    reader.add_used(agent);
    reader.definition
}

/// Collects the parts of a definition in a text.
struct TextReader<'d> {
    root: &'d Node,
    definition: Definition,
}

impl TextReader<'_> {
    /// Adds the profiles and the tools that the agent names.
    fn add_used(&mut self, agent: &Node) {
        let responses = get(agent, "input").and_then(|input| get(input, "responses"));
        let strategy = get(agent, "context_window").and_then(|window| get(window, "strategy"));
        let profiles = [
            get(agent, "model_profile"),
            responses.and_then(|responses| get(responses, "model_profile")),
            strategy.and_then(|strategy| get(strategy, "summarize")),
        ];
        for name in profiles.into_iter().flatten().filter_map(Node::text) {
            self.add_profile(name);
        }
        let listed = get(agent, "tools").and_then(Node::items).unwrap_or_default();
        let only = get(agent, "tool").into_iter();
        for used in listed.iter().map(|node| &**node).chain(only).filter_map(Node::text) {
            let name = used.split_once('.').map_or(&**used, |(server, _)| server);
            self.add_tool(name);
        }
    }

    fn add_profile(&mut self, name: &str) {
        let mut next: Option<Arc<str>> = Some(name.into());
        let mut chain: Vec<(Arc<str>, String)> = Vec::new();
        while let Some(name) = next.take().filter(|name| chain.iter().all(|(known, _)| known != name)) {
            let Some(profile) = get(self.root, "model_profiles").and_then(|all| get(all, &name)) else {
                break;
            };
            let is_meant = |entry: &&Entry| is_relevant(&entry.key) && !KEYS_OF_COST.contains(&&*entry.key);
            chain.push((name, spelled_entries(entries(profile).iter().filter(is_meant))));
            next = get(profile, "fallback").and_then(Node::text).cloned();
        }
        if !chain.is_empty() {
            self.definition
                .add(Part::new(PartKind::Profile, name), &format!("{chain:?}"));
        }
    }

    fn add_tool(&mut self, name: &str) {
        let Some(tool) = get(self.root, "tools").and_then(|tools| get(tools, name)) else {
            return;
        };
        let is_meant = |entry: &&Entry| !is_extension(&entry.key);
        let text = spelled_entries(entries(tool).iter().filter(is_meant));
        self.definition.add(Part::new(PartKind::Tool, name), &text);
        if let Some(agent) = get(tool, "agent").and_then(Node::text) {
            self.add_agent(agent);
        }
    }

    /// Adds an agent that performs a tool, once.
    fn add_agent(&mut self, name: &str) {
        let part = Part::new(PartKind::Agent, name);
        if self.definition.iter().any(|(known, _)| *known == part) {
            return;
        }
        let agents = get(self.root, "agents").and_then(Node::items).unwrap_or_default();
        let is_meant = |agent: &&Arc<Node>| {
            get(agent, "name")
                .and_then(Node::text)
                .is_some_and(|own| **own == *name)
        };
        if let Some(agent) = agents.iter().find(is_meant) {
            self.definition.add(part, &spelled_without_description(agent));
            self.add_used(agent);
        }
    }
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

/// Returns a text that is equal for all spellings of a value, and for no other value.
fn spelled(node: &Node) -> String {
    match &node.content {
        Content::Scalar(scalar) => format!("{:?} {:?}", scalar.value, scalar.text),
        Content::Sequence(items) => {
            let items: Vec<String> = items.iter().map(|item| spelled(item)).collect();
            format!("[{}]", items.join(", "))
        }
        Content::Mapping(entries) => spelled_entries(entries.iter()),
    }
}

fn spelled_entries<'n>(entries: impl Iterator<Item = &'n Entry>) -> String {
    let mut entries: Vec<String> = entries
        .map(|entry| format!("{:?}: {}", entry.key, spelled(&entry.value)))
        .collect();
    entries.sort();
    format!("{{{}}}", entries.join(", "))
}

fn spelled_without_description(agent: &Node) -> String {
    spelled_entries(entries(agent).iter().filter(|entry| is_relevant(&entry.key)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loader::load;
    use crate::source::Source;

    const OLD: &str = "name: e\nagents:\n- {name: a, script: x}\n- {name: b, model_profile: m, prompt: Hello}\n- {name: c, script: y, conversation: {max_turns: 2}}\nmodel_profiles:\n  m: {provider: simulated, replies: [hi], fallback: n}\n  n: {provider: simulated, replies: [ho]}\n";

    /// An agent with a tool that is an agent with a tool.
    const TOOLS: &str = "name: e\nagents:\n- {name: pay, model_profile: m, prompt: Hello, tools: [charge]}\n- {name: clerk, model_profile: m, prompt: Count, tools: [count], conversation: {trigger: news}}\n- {name: other, script: z}\nmodel_profiles:\n  m: {provider: simulated, replies: [hi]}\ntools:\n  charge: {agent: clerk, description: Takes money}\n  count: {script: count.py, description: Counts, parameters: {type: object}}\n";

    fn compared(old: &str, new: &str) -> Changes {
        let load = |text: &str| load(&Source::new("e.yaml", text)).document.expect("YAML");
        let (old, new) = (load(old), load(new));
        changes(Side::of_text(&old), Side::of_text(&new))
    }

    fn against_old(new: &str) -> String {
        compared(OLD, new).to_string()
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
                "changed: b (prompt, system_prompt)",
            ),
            (OLD.replace("name: a,", "name: d,"), "added: d; removed: a"),
            (OLD.replace("[ho]", "[hu]"), "changed: b"),
            (
                OLD.replace(
                    "replies: [ho]",
                    "replies: [ho], cost: {input_per_million: 1, output_per_million: 1}",
                ),
                "no change that affects a run",
            ),
            (
                format!("{OLD}conversation_limits: {{max_total_turns: 3}}\n"),
                "also: conversation_limits",
            ),
            (
                OLD.replace("agents:", "defaults: {timeout_seconds: 5}\nagents:"),
                "changed: a (timeout_seconds), b (timeout_seconds), c (timeout_seconds)",
            ),
        ];
        for (new, expected) in table {
            assert_eq!(against_old(&new), expected, "{new}");
        }
        let changed = compared(OLD, &OLD.replace("[ho]", "[hu]"));
        assert_eq!(
            changed.sentences().collect::<Vec<_>>(),
            ["`b`: model profile `m` has changed"]
        );
    }

    #[test]
    fn whatever_stands_behind_a_tool_is_part_of_the_agent() {
        let table: [(&str, &str, &[&str]); 5] = [
            ("Takes money", "Takes all", &["`pay`: tool `charge` has changed"]),
            (
                "count.py",
                "count.sh",
                &["`pay`: tool `count` has changed", "`clerk`: tool `count` has changed"],
            ),
            ("prompt: Count", "prompt: Sum", &["`pay`: agent `clerk` has changed"]),
            ("script: z", "script: y", &[]),
            (
                "[hi]",
                "[ho]",
                &[
                    "`pay`: model profile `m` has changed",
                    "`clerk`: model profile `m` has changed",
                ],
            ),
        ];
        for (old, new, expected) in table {
            let changes = compared(TOOLS, &TOOLS.replace(old, new));
            assert_eq!(changes.sentences().collect::<Vec<_>>(), expected, "{new}");
            assert_ne!(changes.to_string(), "no change that affects a run", "{new}");
        }
        let unused = format!("{TOOLS}  unused: {{script: u.py, description: U, parameters: {{type: object}}}}\n");
        assert_eq!(compared(TOOLS, &unused).to_string(), "no change that affects a run");
    }

    #[test]
    fn external_definitions_are_compared_where_they_are_known() {
        let loaded = load(&Source::new("e.yaml", OLD)).document.expect("YAML");
        let external = |text: &str| {
            let mut definition = Definition::default();
            definition.add(Part::new(PartKind::Script, "x"), text);
            ExternalDefinitions::from([("a".into(), definition)])
        };
        let (one, other) = (external("one"), external("other"));
        let side = |external| Side {
            document: &loaded,
            external,
        };
        let sentences = |old, new| changes(side(old), side(new)).sentences().collect::<Vec<_>>();
        assert!(sentences(Some(&one), Some(&one)).is_empty());
        assert_eq!(sentences(Some(&one), Some(&other)), ["`a`: script `x` has changed"]);
        let unknown = "`a`: script `x` may have changed: the run has not recorded a digest";
        assert_eq!(sentences(None, Some(&one)), [unknown]);
        assert!(sentences(None, None).is_empty());
    }

    #[test]
    fn the_meaning_of_a_text_has_no_spelling_and_no_descriptions() {
        let of = |text: &str| meaning(&load(&Source::new("e.yaml", text)).document.expect("YAML"));
        let described = OLD.replace("name: e", "description: new\nname: 'e' # a comment");
        let described = described.replace("script: x", "script: x, description: new");
        assert_eq!(of(OLD), of(&described));
        assert_ne!(of(OLD), of(&OLD.replace("[ho]", "[hu]")));
        assert_ne!(of(OLD), of(&OLD.replace("script: x", "script: z")));
        assert_ne!(of(TOOLS), of(&TOOLS.replace("Takes money", "Takes all")));
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
