//! The parts of an ensemble's text that can change the result of a run, for rows of batches.
//!
//! Comments, spelling, descriptions, prices, and limits of time and money are left out: they decide whether a run ends,
//! not with which result it completes. Model profiles are left out, too: the profiles that agents use are external
//! definitions.

use std::collections::BTreeMap;

use super::changes::{affects_runs, canonical_entries, canonical_value, map_entries_or_none};
use super::document::{YamlDocument, YamlEntry, YamlNode};

/// Keys of the ensemble that are left out. `defaults` are part of the agents.
const IGNORED_SECTIONS: [&str; 2] = ["model_profiles", "defaults"];

/// Limits of time and money, of the conversation, of agents and of tools, and what they do after a failure.
const LIMIT_KEYS: [&str; 7] = [
    "budget",
    "timeout_seconds",
    "turn_timeout_seconds",
    "parallel_agent_limit",
    "max_cost",
    "max_total_tokens",
    "retry",
];

/// Returns the canonical text of each part that can change results: ``agent `writer` ``, ``tool `search` ``, or a key of the ensemble.
pub fn list_result_parts(document: &YamlDocument) -> BTreeMap<String, String> {
    let mut parts = BTreeMap::new();
    for entry in map_entries_or_none(document.root()) {
        let key = &*entry.key;
        if !affects_runs(key) || IGNORED_SECTIONS.contains(&key) {
            continue;
        }
        match key {
            "agents" => parts.extend(list_agent_parts(&entry.value)),
            "tools" => {
                let tools = map_entries_or_none(&entry.value).iter();
                parts.extend(tools.map(|tool| (format!("tool `{}`", tool.key), canonical_tool(&tool.value))));
            }
            "conversation_limits" => {
                let text = canonical_without_limits(&entry.value, |_| true);
                // A section of which nothing is left is the same as none.
                if text != "{}" {
                    parts.insert(format!("`{key}`"), text);
                }
            }
            _ => {
                parts.insert(format!("`{key}`"), canonical_value(&entry.value));
            }
        }
    }
    parts
}

/// Returns all parts that can change results as one text.
pub fn canonical_result_parts(document: &YamlDocument) -> String {
    format!("{:?}", list_result_parts(document))
}

/// Returns the part of each agent, and the order of the agents, in which their outputs are merged.
fn list_agent_parts(agents: &YamlNode) -> Vec<(String, String)> {
    let mut parts = Vec::new();
    let mut names = Vec::new();
    for agent in agents.items().unwrap_or_default() {
        let entries = map_entries_or_none(agent).iter();
        let name = entries.clone().find(|entry| &*entry.key == "name");
        let name = name
            .and_then(|entry| entry.value.string_text())
            .map_or("", |name| &**name);
        names.push(name.to_owned());
        parts.push((format!("agent `{name}`"), canonical_without_limits(agent, affects_runs)));
    }
    parts.push(("the order of the agents".to_owned(), names.join(" ")));
    parts
}

/// Returns the canonical text of a tool with its description, which models read.
fn canonical_tool(tool: &YamlNode) -> String {
    canonical_without_limits(tool, |_| true)
}

/// Returns the canonical text of a node without limits. `is_meant`: whether a key counts.
fn canonical_without_limits(node: &YamlNode, is_meant: impl Fn(&str) -> bool) -> String {
    let is_part = |entry: &&YamlEntry| is_meant(&entry.key) && !LIMIT_KEYS.contains(&&*entry.key);
    let entries: Vec<&YamlEntry> = map_entries_or_none(node).iter().filter(is_part).collect();
    let others = canonical_entries(entries.iter().copied().filter(|entry| !has_own_limits(entry)));
    let with_limits = entries.iter().filter(|entry| has_own_limits(entry)).map(|entry| {
        let value = map_entries_or_none(&entry.value)
            .iter()
            .filter(|key| !LIMIT_KEYS.contains(&&*key.key));
        format!("{}: {}", entry.key, canonical_entries(value))
    });
    std::iter::once(others)
        .chain(with_limits)
        .collect::<Vec<_>>()
        .join(", ")
}

/// Returns whether the entry of an agent has limits of its own, as a question has.
fn has_own_limits(entry: &YamlEntry) -> bool {
    &*entry.key == "input" && !map_entries_or_none(&entry.value).is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loader::load_ensemble;
    use crate::source::SourceText;

    const TEXT: &str = "name: e\ndescription: d\nagents:\n- {name: a, model_profile: m, prompt: Hi, timeout_seconds: 3}\n- {name: b, script: x, depends_on: [a]}\nmodel_profiles:\n  m: {provider: simulated, replies: [hi], cost: {input_per_million: 1, output_per_million: 1}}\n";

    fn parts(text: &str) -> BTreeMap<String, String> {
        let document = load_ensemble(&SourceText::new("e.yaml", text)).document;
        list_result_parts(&document.expect("YAML"))
    }

    #[test]
    fn the_time_limit_of_a_question_is_no_part() {
        let ask = |question: &str| parts(&format!("name: e\nagents:\n- {{name: gate, input: {{{question}}}}}\n"));
        let before = ask("prompt: Go on?, default: no, timeout_seconds: 60");
        assert_eq!(before, ask("prompt: Go on?, default: no, timeout_seconds: 90"));
        assert_eq!(before, ask("default: no, prompt: Go on?"));
        assert_ne!(before, ask("prompt: Stop?, default: no"));
        assert_ne!(before, ask("prompt: Go on?, default: yes"));
    }

    #[test]
    fn only_what_can_change_a_result_is_a_part() {
        let same = [
            format!("# a comment\n{TEXT}"),
            TEXT.replace("script: x", "script: \"x\""),
            TEXT.replace("description: d", "description: another"),
            TEXT.replace("timeout_seconds: 3", "timeout_seconds: 30"),
            TEXT.replace(", timeout_seconds: 3", ", retry: {max_attempts: 4}"),
            TEXT.replace("input_per_million: 1,", "input_per_million: 2,"),
            format!("{TEXT}conversation_limits: {{timeout_seconds: 9, max_cost: 3}}\n"),
        ];
        for text in same {
            assert_eq!(parts(&text), parts(TEXT), "{text}");
        }
        let different = [
            (TEXT.replace("prompt: Hi", "prompt: Ho"), "agent `a`"),
            (TEXT.replace("script: x", "script: y"), "agent `b`"),
            (format!("{TEXT}default_task: t\n"), "`default_task`"),
            (
                format!("{TEXT}conversation_limits: {{max_total_turns: 3}}\n"),
                "`conversation_limits`",
            ),
            (TEXT.replace("name: b", "name: c"), "the order of the agents"),
        ];
        for (text, part) in different {
            assert_ne!(parts(&text).get(part), parts(TEXT).get(part), "{text}");
        }
    }
}
