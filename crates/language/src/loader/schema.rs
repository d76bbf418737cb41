//! The language as a JSON Schema (2020-12), for editors: completion, descriptions, error marks.
//!
//! It is a data file, maintained by hand beside the loader: the loader checks more than a schema can (positions, names
//! that must exist, conditions), and the descriptions of the schema are separate texts. Tests compare both key by key;
//! `loader/tests/schema.rs` compares values and defaults.

/// The schema of an ensemble file.
pub const SCHEMA: &str = include_str!("../../../../docs/schema/ensemble.schema.json");

/// The schema of a test file.
pub const TEST_SCHEMA: &str = include_str!("../../../../docs/schema/test.schema.json");

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::{SCHEMA, TEST_SCHEMA};
    use crate::loader::words::Section;

    fn schema() -> Value {
        serde_json::from_str(SCHEMA).expect("JSON")
    }

    /// The part of the schema for one section. The configuration has a file of its own.
    fn part(section: Section, schema: &Value) -> Option<&Value> {
        let name = match section {
            Section::Ensemble => return Some(schema),
            Section::Config | Section::Validate => return None,
            Section::Limits => "limits",
            Section::Agent => "agent",
            Section::Defaults => "defaults",
            Section::Dependency => "dependency",
            Section::ForEach => "for_each",
            Section::Combine => "combine",
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
            Section::Acp => "acp",
            Section::Permissions => "permissions",
            Section::Setting => "setting",
            Section::Cost => "cost",
            Section::RateLimit => "rate_limit",
            Section::Header => "header",
            Section::Sandbox => "sandbox",
            Section::TestFile => return Some(schema),
            Section::Case => "case",
            Section::Stub => "stub_map",
            Section::Expect => "expect",
            Section::Judge => "judge",
        };
        Some(&schema["$defs"][name])
    }

    #[test]
    fn loader_and_schema_know_the_same_keys() {
        let schema = schema();
        let of_tests: Value = serde_json::from_str(TEST_SCHEMA).expect("JSON");
        let all = Section::ALL.into_iter().map(|section| (section, &schema));
        for (section, schema) in all.chain(Section::OF_TESTS.into_iter().map(|section| (section, &of_tests))) {
            let Some(part) = part(section, schema) else {
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
