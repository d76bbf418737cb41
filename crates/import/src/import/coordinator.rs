//! `coordinator` in older ensembles of llm-orc: becomes an agent that depends on all other agents.

use serde_json::{Value, json};

use super::draft::{DraftMap, DraftValue};
use super::values::{scalar_or_empty_text, to_json as value_of};
use super::{ImportTask, find_key_span, has_nonblank_text, key_advice, list_map_entries, template_text};
use ensemble_language::loader::document::YamlNode;
use ensemble_language::source::Span;

/// Keys of a coordinator in ensembles of llm-orc.
const COORDINATOR_KEYS: [&str; 2] = ["coordinator", "synthesis"];

impl<'a> ImportTask<'a> {
    /// Returns whether the node is the first coordinator with a model.
    pub(super) fn is_first_coordinator(&self, node: &YamlNode) -> bool {
        let first = COORDINATOR_KEYS
            .iter()
            .find_map(|key| self.document.root().get(key).filter(|node| Self::defines_model(node)));
        first.is_some_and(|first| std::ptr::eq(first, node))
    }

    /// Returns whether the node names a model or a model profile.
    fn defines_model(node: &YamlNode) -> bool {
        ["model_profile", "model"]
            .iter()
            .any(|key| has_nonblank_text(node.get(key)))
    }

    /// Converts the coordinator to an agent that depends on the agents `all`. Returns `None` without a coordinator.
    pub(super) fn convert_coordinator(&mut self, all: Vec<String>) -> Option<(DraftValue, Option<Span>)> {
        let root: &'a YamlNode = self.document.root();
        let node = COORDINATOR_KEYS
            .iter()
            .find_map(|key| root.get(key).filter(|node| Self::defines_model(node)))?;
        let keys = list_map_entries(node);
        let name = self.names.unused_name("coordinator");
        let mut map = DraftMap::default();
        map.put_plain_value("name", name.as_str(), None);
        let own_prompt = has_nonblank_text(node.get("system_prompt"));
        for entry in keys {
            let from = Some(entry.key_span);
            match &*entry.key {
                "model_profile" => {
                    let profile = scalar_or_empty_text(&entry.value);
                    let (key, value) = self.register_used_profile(&profile, entry, &[], own_prompt, &name);
                    map.put_plain_value(key, value, from);
                }
                "model" if !has_nonblank_text(node.get("model_profile")) => {
                    let provider = node.get("provider").map(scalar_or_empty_text);
                    let (key, value) = self.register_used_model(
                        &scalar_or_empty_text(&entry.value),
                        provider.as_deref(),
                        entry,
                        &[],
                        &name,
                    );
                    map.put_plain_value(key, value, from);
                }
                "provider" if find_key_span(keys, "model").is_some() => {}
                "system_prompt" if own_prompt => {
                    map.put_plain_value(
                        "system_prompt",
                        template_text::escape_as_template(&scalar_or_empty_text(&entry.value)),
                        from,
                    );
                }
                "synthesis_prompt" | "prompt"
                    if has_nonblank_text(Some(&entry.value)) && map.find_line_index("prompt").is_none() =>
                {
                    map.put_plain_value(
                        "prompt",
                        template_text::escape_as_template(&scalar_or_empty_text(&entry.value)),
                        from,
                    );
                }
                "timeout_seconds" if value_of(&entry.value) != Value::Null => {
                    map.put_plain_value("timeout_seconds", value_of(&entry.value), from);
                }
                key => {
                    let (why, instead) = key_advice::find_agent_key_advice(key);
                    let unconverted_key = self.report_unconverted_key(entry, why, instead);
                    map.put_comment(unconverted_key);
                }
            }
        }
        map.put_plain_value("depends_on", json!(all), None);
        Some((DraftValue::Map(map), None))
    }
}
