//! The language as a JSON Schema (2020-12), for editors: completion, words to hover over, squiggles.
//!
//! It is one file of data, written beside the loader and not derived from it: the loader says more than a
//! schema can (places, names that must exist, conditions), and a schema's descriptions are a text of their
//! own. The tests hold the two together key by key; `loader/tests/schema.rs` does so for values and defaults.

/// The schema of an ensemble file.
pub const SCHEMA: &str = include_str!("../../../../docs/schema/ensemble.schema.json");

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::SCHEMA;
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
            Section::ContextWindow => "context_window",
            Section::Strategy => "strategy",
            Section::Profile => "profile",
            Section::Reply => "reply",
            Section::CalledTool => "tool_call",
            Section::Tool => "tool",
            Section::Mcp => "mcp",
            Section::Setting => "setting",
            Section::Cost => "cost",
            Section::Header => "header",
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
}
