//! `coordinator` in older ensembles of llm-orc: becomes an agent that depends on all other agents.

use serde_json::{Value, json};

use super::draft::{Map, Shape};
use super::values::{json as value_of, text_of};
use super::{Task, advice, entries, is_text, span_of, text};
use ensemble_language::loader::document::Node;
use ensemble_language::source::Span;

const KEYS: [&str; 2] = ["coordinator", "synthesis"];

impl<'a> Task<'a> {
    /// Returns whether it defines a model.
    pub(super) fn is_coordinator(&self, node: &Node) -> bool {
        let first = KEYS
            .iter()
            .find_map(|key| self.document.root().get(key).filter(|node| Self::speaks(node)));
        first.is_some_and(|first| std::ptr::eq(first, node))
    }

    fn speaks(node: &Node) -> bool {
        ["model_profile", "model"].iter().any(|key| is_text(node.get(key)))
    }

    /// The coordinator as an agent.
    pub(super) fn coordinator(&mut self, all: Vec<String>) -> Option<(Shape, Option<Span>)> {
        let root: &'a Node = self.document.root();
        let node = KEYS
            .iter()
            .find_map(|key| root.get(key).filter(|node| Self::speaks(node)))?;
        let keys = entries(node);
        let name = self.names.free("coordinator");
        let mut map = Map::default();
        map.put("name", name.as_str(), None);
        let own_prompt = is_text(node.get("system_prompt"));
        for entry in keys {
            let from = Some(entry.key_span);
            match &*entry.key {
                "model_profile" => {
                    let profile = text_of(&entry.value);
                    let (key, value) = self.use_profile(&profile, entry, &[], own_prompt, &name);
                    map.put(key, value, from);
                }
                "model" if !is_text(node.get("model_profile")) => {
                    let provider = node.get("provider").map(text_of);
                    let (key, value) = self.use_model(&text_of(&entry.value), provider.as_deref(), entry, &[], &name);
                    map.put(key, value, from);
                }
                "provider" if span_of(keys, "model").is_some() => {}
                "system_prompt" if own_prompt => {
                    map.put("system_prompt", text::literal(&text_of(&entry.value)), from);
                }
                "synthesis_prompt" | "prompt" if is_text(Some(&entry.value)) && map.position("prompt").is_none() => {
                    map.put("prompt", text::literal(&text_of(&entry.value)), from);
                }
                "timeout_seconds" if value_of(&entry.value) != Value::Null => {
                    map.put("timeout_seconds", value_of(&entry.value), from);
                }
                key => {
                    let (why, instead) = advice::agent(key);
                    let lost = self.lose(entry, why, instead);
                    map.lose(lost);
                }
            }
        }
        map.put("depends_on", json!(all), None);
        Some((Shape::Map(map), None))
    }
}
