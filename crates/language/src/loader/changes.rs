//! The differences between two texts of one ensemble: the changed agents, each with what has changed.
//!
//! Positions, comments, quotes, descriptions of agents and the order of keys are ignored. An agent has also changed when a
//! profile or a tool that the agent uses has changed, or an agent behind a tool.

use std::fmt;
use std::sync::Arc;

use super::document::{YamlContent, YamlDocument, YamlEntry, YamlNode};
use crate::definition::{
    AgentDefinitionDigests, AgentDefinitionPart, AgentDefinitionPartKind, DefinitionDifference,
    ExternalDefinitionDigests,
};
use crate::vocabulary::is_extension_key;

/// The keys of a profile that do not change what a model replies.
const NON_RESULT_PROFILE_KEYS: [&str; 3] = ["cost", "rate_limit", "prompt_cache"];

/// The differences between two texts of an ensemble.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EnsembleChanges {
    /// Agents that are only in the new text.
    pub added: Vec<Arc<str>>,
    /// Agents that are only in the old text.
    pub removed: Vec<Arc<str>>,
    /// Agents in both texts, with everything that differs.
    pub changed: Vec<(Arc<str>, Vec<DefinitionDifference>)>,
    /// The keys of the ensemble that differ, except those that concern single agents.
    pub other_keys: Vec<Arc<str>>,
}

/// A text of an ensemble, and the definitions of its agents outside of the text.
#[derive(Debug, Clone, Copy)]
pub struct ComparedEnsemble<'a> {
    /// The text.
    pub document: &'a YamlDocument,
    /// The external definitions; `None` if they are not known.
    pub external: Option<&'a ExternalDefinitionDigests>,
}

impl<'a> ComparedEnsemble<'a> {
    /// Returns the text without external definitions.
    pub fn from_text(document: &'a YamlDocument) -> Self {
        Self {
            document,
            external: None,
        }
    }

    /// Builds the definition of an agent from the text and the external definitions.
    fn build_definition(&self, node: &YamlNode, name: &str) -> AgentDefinitionDigests {
        let mut definition = definition_from_text(self.document, node);
        if let Some(external) = self.external.and_then(|all| all.get(name)) {
            definition.add_or_replace_parts(external);
        }
        definition
    }
}

/// Compares two texts. Also compares the external definitions if those of the new text are known.
pub fn compare_ensembles(old: ComparedEnsemble<'_>, new: ComparedEnsemble<'_>) -> EnsembleChanges {
    let (before, after) = (list_named_agents(old.document), list_named_agents(new.document));
    let find = |all: &[(Arc<str>, Arc<YamlNode>)], name: &str| {
        let matching_agent = all.iter().find(|(known, _)| **known == *name);
        matching_agent.map(|(_, node)| node.clone())
    };
    let mut changes = EnsembleChanges::default();
    for (name, node) in &after {
        match find(&before, name) {
            None => changes.added.push(name.clone()),
            Some(old_node) => {
                let differences = list_agent_differences(old, &old_node, new, node, name);
                if !differences.is_empty() {
                    changes.changed.push((name.clone(), differences));
                }
            }
        }
    }
    let is_gone = |(name, _): &&(Arc<str>, Arc<YamlNode>)| find(&after, name).is_none();
    changes.removed = before.iter().filter(is_gone).map(|(name, _)| name.clone()).collect();
    let of_agents = ["agents", "model_profiles", "tools", "description", "defaults"];
    changes.other_keys = list_differing_keys(old.document.root(), new.document.root())
        .into_iter()
        .filter(|key| !of_agents.contains(&&**key))
        .collect();
    changes
}

/// Returns everything that differs between the old and the new definition of one agent. External parts without a recorded digest are unknown.
fn list_agent_differences(
    old: ComparedEnsemble<'_>,
    known: &YamlNode,
    new: ComparedEnsemble<'_>,
    node: &YamlNode,
    name: &str,
) -> Vec<DefinitionDifference> {
    let unknown = new.external.filter(|_| old.external.is_none());
    let new_text = ComparedEnsemble {
        external: new.external.filter(|_| unknown.is_none()),
        ..new
    };
    let before = old.build_definition(known, name);
    let parts = before.list_differing_parts(&new_text.build_definition(node, name));
    let unknown = unknown.and_then(|all| all.get(name)).into_iter();
    let unknown = unknown
        .flat_map(AgentDefinitionDigests::iter)
        .map(|(part, _)| part.clone());
    let changed = parts.into_iter().map(DefinitionDifference::Changed);
    changed.chain(unknown.map(DefinitionDifference::Unknown)).collect()
}

/// Returns a text that is equal for all spellings of the same ensemble. Descriptions of the ensemble and its agents are ignored.
pub fn canonical_ensemble_text(document: &YamlDocument) -> String {
    let root = map_entries_or_none(document.root()).iter();
    let parts = root.filter(|entry| affects_runs(&entry.key)).map(|entry| {
        let items = (&*entry.key == "agents").then(|| entry.value.items()).flatten();
        match items {
            Some(items) => {
                let agents: Vec<String> = items.iter().map(|agent| canonical_agent(agent)).collect();
                format!("agents: [{}]", agents.join(", "))
            }
            None => format!("{}: {}", entry.key, canonical_value(&entry.value)),
        }
    });
    let mut parts: Vec<String> = parts.collect();
    parts.sort();
    parts.join("\n")
}

impl EnsembleChanges {
    /// Returns whether there are no relevant differences.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns whether outputs of the agent with the old text are no longer valid with the new text.
    pub fn invalidates_agent(&self, agent: &str) -> bool {
        let changed = self.changed.iter().map(|(name, _)| name);
        changed
            .chain(&self.added)
            .chain(&self.removed)
            .any(|name| **name == *agent)
    }

    /// Returns a sentence for each change of an agent outside of its own keys: `` `pay`: tool `charge` has changed ``.
    pub fn change_sentences(&self) -> impl Iterator<Item = String> {
        self.changed.iter().flat_map(|(agent, differences)| {
            let behind = differences
                .iter()
                .filter(|one| one.part().kind != AgentDefinitionPartKind::Key);
            behind.map(move |difference| format!("`{agent}`: {difference}"))
        })
    }
}

/// `changed: writer (prompt, retry); added: critic`.
impl fmt::Display for EnsembleChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let changed = self.changed.iter();
        let changed: Vec<String> = changed
            .map(|(name, differences)| {
                let changed_keys = differences.iter().map(DefinitionDifference::part);
                let changed_keys: Vec<&str> = changed_keys
                    .filter(|part| part.kind == AgentDefinitionPartKind::Key)
                    .map(|part| &*part.name)
                    .collect();
                match changed_keys.is_empty() {
                    true => name.to_string(),
                    false => format!("{name} ({})", changed_keys.join(", ")),
                }
            })
            .collect();
        let changes_agents = !(self.changed.is_empty() && self.added.is_empty() && self.removed.is_empty());
        let other_word = if changes_agents { "also" } else { "changed" };
        let parts = [
            ("changed", changed.join(", ")),
            ("added", self.added.join(", ")),
            ("removed", self.removed.join(", ")),
            (other_word, self.other_keys.join(", ")),
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

/// Returns the agents of a text with their names, in file order.
fn list_named_agents(document: &YamlDocument) -> Vec<(Arc<str>, Arc<YamlNode>)> {
    let Some(YamlContent::Sequence(items)) = find_value(document.root(), "agents").map(|node| &node.content) else {
        return Vec::new();
    };
    let named_agents = items.iter().filter_map(|item| {
        let name = find_value(item, "name")?.string_text()?.clone();
        Some((name, item.clone()))
    });
    named_agents.collect()
}

/// Returns whether a key of an agent or of an ensemble affects runs: no description and no extension key.
pub(super) fn affects_runs(key: &str) -> bool {
    key != "description" && !is_extension_key(key)
}

/// Returns the keys of two maps whose values differ. The keys of the new map are first.
fn list_differing_keys(old: &YamlNode, new: &YamlNode) -> Vec<Arc<str>> {
    let (before, after) = (map_entries_or_none(old), map_entries_or_none(new));
    let differs = |entry: &&YamlEntry| {
        find_value(old, &entry.key).is_none_or(|value| canonical_value(value) != canonical_value(&entry.value))
    };
    let is_gone = |entry: &&YamlEntry| find_value(new, &entry.key).is_none();
    let keys = after.iter().filter(differs).chain(before.iter().filter(is_gone));
    keys.map(|entry| entry.key.clone())
        .filter(|key| affects_runs(key))
        .collect()
}

/// Builds the definition of the agent, as far as the text contains the definition.
fn definition_from_text(document: &YamlDocument, agent: &YamlNode) -> AgentDefinitionDigests {
    let mut reader = TextDefinitionCollector {
        root: document.root(),
        definition: AgentDefinitionDigests::default(),
    };
    for entry in map_entries_or_none(agent)
        .iter()
        .filter(|entry| affects_runs(&entry.key))
    {
        let part = AgentDefinitionPart::new(AgentDefinitionPartKind::Key, entry.key.clone());
        reader.definition.add_part(part, &canonical_value(&entry.value));
    }
    reader.add_profiles_and_tools(agent);
    reader.definition
}

/// A collector of the parts of an agent's definition in a text.
struct TextDefinitionCollector<'d> {
    root: &'d YamlNode,
    definition: AgentDefinitionDigests,
}

impl TextDefinitionCollector<'_> {
    /// Adds the profiles and the tools that the agent names.
    fn add_profiles_and_tools(&mut self, agent: &YamlNode) {
        let responses = find_value(agent, "input").and_then(|input| find_value(input, "responses"));
        let strategy = find_value(agent, "context_window").and_then(|window| find_value(window, "strategy"));
        let profiles = [
            find_value(agent, "model_profile"),
            responses.and_then(|responses| find_value(responses, "model_profile")),
            strategy.and_then(|strategy| find_value(strategy, "summarize")),
        ];
        for name in profiles.into_iter().flatten().filter_map(YamlNode::string_text) {
            self.add_profile(name);
        }
        let tool_nodes = find_value(agent, "tools").and_then(YamlNode::items).unwrap_or_default();
        let only = find_value(agent, "tool").into_iter();
        for used in tool_nodes
            .iter()
            .map(|node| &**node)
            .chain(only)
            .filter_map(YamlNode::string_text)
        {
            let name = used.split_once('.').map_or(&**used, |(server, _)| server);
            self.add_tool(name);
        }
    }

    /// Adds a profile with its fallbacks, as one part.
    fn add_profile(&mut self, name: &str) {
        let mut next: Option<Arc<str>> = Some(name.into());
        let mut chain: Vec<(Arc<str>, String)> = Vec::new();
        while let Some(name) = next.take().filter(|name| chain.iter().all(|(known, _)| known != name)) {
            let Some(profile) = find_value(self.root, "model_profiles").and_then(|all| find_value(all, &name)) else {
                break;
            };
            let is_meant =
                |entry: &&YamlEntry| affects_runs(&entry.key) && !NON_RESULT_PROFILE_KEYS.contains(&&*entry.key);
            chain.push((
                name,
                canonical_entries(map_entries_or_none(profile).iter().filter(is_meant)),
            ));
            next = find_value(profile, "fallback").and_then(YamlNode::string_text).cloned();
        }
        if !chain.is_empty() {
            self.definition.add_part(
                AgentDefinitionPart::new(AgentDefinitionPartKind::Profile, name),
                &format!("{chain:?}"),
            );
        }
    }

    /// Adds a tool, and the profile or agent that the tool names.
    fn add_tool(&mut self, name: &str) {
        let Some(tool) = find_value(self.root, "tools").and_then(|tools| find_value(tools, name)) else {
            return;
        };
        let is_meant = |entry: &&YamlEntry| !is_extension_key(&entry.key);
        let text = canonical_entries(map_entries_or_none(tool).iter().filter(is_meant));
        self.definition
            .add_part(AgentDefinitionPart::new(AgentDefinitionPartKind::Tool, name), &text);
        if let Some(profile) = find_value(tool, "summarize_with").and_then(YamlNode::string_text) {
            self.add_profile(profile);
        }
        if let Some(agent) = find_value(tool, "agent").and_then(YamlNode::string_text) {
            self.add_agent(agent);
        }
    }

    /// Adds an agent that performs a tool, with the profiles and tools of that agent, once.
    fn add_agent(&mut self, name: &str) {
        let part = AgentDefinitionPart::new(AgentDefinitionPartKind::Agent, name);
        if self.definition.iter().any(|(known, _)| *known == part) {
            return;
        }
        let agents = find_value(self.root, "agents")
            .and_then(YamlNode::items)
            .unwrap_or_default();
        let is_meant = |agent: &&Arc<YamlNode>| {
            find_value(agent, "name")
                .and_then(YamlNode::string_text)
                .is_some_and(|own| **own == *name)
        };
        if let Some(agent) = agents.iter().find(is_meant) {
            self.definition.add_part(part, &canonical_agent(agent));
            self.add_profiles_and_tools(agent);
        }
    }
}

/// Returns the entries of a map; none for other values.
pub(super) fn map_entries_or_none(node: &YamlNode) -> &[YamlEntry] {
    match &node.content {
        YamlContent::Mapping(entries) => entries,
        _ => &[],
    }
}

/// Returns the value under a key of a map.
fn find_value<'n>(node: &'n YamlNode, key: &str) -> Option<&'n YamlNode> {
    let entry = map_entries_or_none(node).iter().find(|entry| &*entry.key == key)?;
    Some(&entry.value)
}

/// Returns a text that is equal for all spellings of a value, and for no other value.
pub(super) fn canonical_value(node: &YamlNode) -> String {
    match &node.content {
        YamlContent::Scalar(scalar) => format!("{:?} {:?}", scalar.value, scalar.text),
        YamlContent::Sequence(items) => {
            let items: Vec<String> = items.iter().map(|item| canonical_value(item)).collect();
            format!("[{}]", items.join(", "))
        }
        YamlContent::Mapping(entries) => canonical_entries(entries.iter()),
    }
}

/// Returns the canonical text of the entries, sorted by key.
pub(super) fn canonical_entries<'n>(entries: impl Iterator<Item = &'n YamlEntry>) -> String {
    let mut entries: Vec<String> = entries
        .map(|entry| format!("{:?}: {}", entry.key, canonical_value(&entry.value)))
        .collect();
    entries.sort();
    format!("{{{}}}", entries.join(", "))
}

/// Returns the canonical text of an agent without keys that do not affect runs.
fn canonical_agent(agent: &YamlNode) -> String {
    canonical_entries(
        map_entries_or_none(agent)
            .iter()
            .filter(|entry| affects_runs(&entry.key)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loader::load_ensemble;
    use crate::source::SourceText;

    const OLD: &str = "name: e\nagents:\n- {name: a, script: x}\n- {name: b, model_profile: m, prompt: Hello}\n- {name: c, script: y, conversation: {max_turns: 2}}\nmodel_profiles:\n  m: {provider: simulated, replies: [hi], fallback: n}\n  n: {provider: simulated, replies: [ho]}\n";

    /// An agent with a tool that is an agent with a tool.
    const TOOLS: &str = "name: e\nagents:\n- {name: pay, model_profile: m, prompt: Hello, tools: [charge]}\n- {name: clerk, model_profile: m, prompt: Count, tools: [count], conversation: {trigger: news}}\n- {name: other, script: z}\nmodel_profiles:\n  m: {provider: simulated, replies: [hi]}\ntools:\n  charge: {agent: clerk, description: Takes money}\n  count: {script: count.py, description: Counts, parameters: {type: object}}\n";

    fn compared(old: &str, new: &str) -> EnsembleChanges {
        let load = |text: &str| load_ensemble(&SourceText::new("e.yaml", text)).document.expect("YAML");
        let (old, new) = (load(old), load(new));
        compare_ensembles(ComparedEnsemble::from_text(&old), ComparedEnsemble::from_text(&new))
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
                "changed: conversation_limits",
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
            changed.change_sentences().collect::<Vec<_>>(),
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
            assert_eq!(changes.change_sentences().collect::<Vec<_>>(), expected, "{new}");
            assert_ne!(changes.to_string(), "no change that affects a run", "{new}");
        }
        let unused = format!("{TOOLS}  unused: {{script: u.py, description: U, parameters: {{type: object}}}}\n");
        assert_eq!(compared(TOOLS, &unused).to_string(), "no change that affects a run");
    }

    #[test]
    fn external_definitions_are_compared_where_they_are_known() {
        let loaded = load_ensemble(&SourceText::new("e.yaml", OLD)).document.expect("YAML");
        let external = |text: &str| {
            let mut definition = AgentDefinitionDigests::default();
            definition.add_part(AgentDefinitionPart::new(AgentDefinitionPartKind::Script, "x"), text);
            ExternalDefinitionDigests::from([("a".into(), definition)])
        };
        let (one, other) = (external("one"), external("other"));
        let side = |external| ComparedEnsemble {
            document: &loaded,
            external,
        };
        let sentences = |old, new| {
            compare_ensembles(side(old), side(new))
                .change_sentences()
                .collect::<Vec<_>>()
        };
        assert!(sentences(Some(&one), Some(&one)).is_empty());
        assert_eq!(sentences(Some(&one), Some(&other)), ["`a`: script `x` has changed"]);
        let unknown = "`a`: script `x` might have changed: the run did not record its digest";
        assert_eq!(sentences(None, Some(&one)), [unknown]);
        assert!(sentences(None, None).is_empty());
    }

    #[test]
    fn the_meaning_of_a_text_has_no_spelling_and_no_descriptions() {
        let of = |text: &str| {
            canonical_ensemble_text(&load_ensemble(&SourceText::new("e.yaml", text)).document.expect("YAML"))
        };
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
