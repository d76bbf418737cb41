//! The language as a JSON Schema (2020-12), for editors: completion, words to hover over, squiggles.
//!
//! It is one file of data, written beside the loader and not derived from it: the loader says more than a
//! schema can (places, names that must exist, conditions), and a schema's descriptions are a text of their
//! own. The tests hold the two together key by key.

/// The schema of an ensemble file.
pub const SCHEMA: &str = include_str!("../../docs/schema/ensemble.schema.json");

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::SCHEMA;
    use crate::ensemble::{Agent, Conversation, Limits, Llm, Retry, Tool};
    use crate::loader::words::Section;

    fn schema() -> Value {
        serde_json::from_str(SCHEMA).expect("JSON")
    }

    /// The part of the schema that describes a section; the configuration is another file.
    fn part(section: Section, schema: &Value) -> Option<&Value> {
        let name = match section {
            Section::Ensemble => return Some(schema),
            Section::Config => return None,
            Section::Limits => "limits",
            Section::Agent => "agent",
            Section::Dependency => "dependency",
            Section::Conversation => "conversation",
            Section::Retry => "retry",
            Section::Input => "question",
            Section::Responses => "responses",
            Section::Profile => "profile",
            Section::Reply => "reply",
            Section::CalledTool => "tool_call",
            Section::Tool => "tool",
            Section::Mcp => "mcp",
            Section::Setting => "setting",
        };
        Some(&schema["$defs"][name])
    }

    #[test]
    fn loader_and_schema_know_the_same_keys() {
        let schema = schema();
        for section in Section::ALL {
            let Some(part) = part(section, &schema) else {
                continue;
            };
            let properties = part["properties"].as_object().expect("properties");
            let mut known: Vec<&str> = properties.keys().map(String::as_str).collect();
            let mut keys = section.keys().to_vec();
            known.sort_unstable();
            keys.sort_unstable();
            assert_eq!(known, keys, "{section:?}");
            assert_eq!(part["additionalProperties"], false, "{section:?}");
        }
    }

    #[test]
    fn every_key_is_described() {
        let schema = schema();
        let resolve = |value: &Value| match value["$ref"].as_str() {
            Some(name) => schema["$defs"][name.trim_start_matches("#/$defs/")].clone(),
            None => value.clone(),
        };
        for section in Section::ALL {
            for (key, value) in part(section, &schema)
                .iter()
                .flat_map(|part| part["properties"].as_object())
                .flatten()
            {
                let described = value["description"].is_string() || resolve(value)["description"].is_string();
                assert!(described, "{section:?} {key}");
            }
        }
    }

    #[test]
    fn defaults_are_those_of_the_program() {
        let schema = schema();
        let default = |part: &str, key: &str| schema["$defs"][part]["properties"][key]["default"].clone();
        let limits = Limits::default();
        assert_eq!(default("limits", "max_total_turns"), limits.max_total_turns.get());
        assert_eq!(default("limits", "timeout_seconds"), limits.timeout.as_secs());
        let conversation = Conversation::default();
        assert_eq!(default("conversation", "max_turns"), conversation.max_turns.get());
        assert_eq!(
            default("conversation", "triggers_conversation"),
            conversation.triggers_conversation
        );
        assert_eq!(default("agent", "max_iterations"), Llm::MAX_ITERATIONS.get());
        assert_eq!(default("tool", "timeout_seconds"), Tool::TIMEOUT.as_secs());
        assert_eq!(default("tool", "max_result_bytes"), Tool::MAX_RESULT_BYTES.get());
        let retry = Retry::default();
        assert_eq!(default("retry", "max_attempts"), retry.max_attempts.get());
        assert_eq!(default("retry", "delay_seconds"), retry.delay.as_secs());
        let written = format!("{:?} {:?}", retry.backoff, conversation.trigger).to_lowercase();
        let words = [default("retry", "backoff"), default("conversation", "trigger")];
        assert_eq!(
            written,
            words.map(|word| word.as_str().unwrap_or_default().to_owned()).join(" ")
        );
        let text = "name: e\nagents: [{name: a, script: x, depends_on: [b]}, {name: b, script: x, dependencies: [{agent_name: a, feedback: true}]}]";
        let loaded = crate::loader::load(&crate::source::Source::new("t", text));
        let agents: Vec<Agent> = loaded.ensemble.expect("sound").agents;
        let (plain, written) = (&agents[0].dependencies[0], &agents[1].dependencies[0]);
        assert_eq!(default("dependency", "requires_all"), written.requires_all);
        assert_eq!(default("dependency", "feedback"), plain.feedback);
        assert_eq!(default("dependency", "on"), format!("{:?}", written.on).to_lowercase());
        assert_eq!(
            default("agent", "on_error"),
            format!("{:?}", agents[0].on_error).to_lowercase()
        );
    }
}
