//! The language as a JSON Schema (2020-12), for editors: completion, descriptions, error marks.
//!
//! It is a data file, maintained by hand beside the loader: the loader checks more than a schema can (positions, names
//! that must exist, conditions), and the descriptions of the schema are separate texts. Tests compare both key by key;
//! `loader/tests/schema.rs` compares values and defaults.

use serde_json::{Map, Value, json};

use super::codes;
#[cfg(doc)]
use super::explain;

/// The schema of an ensemble file.
pub const SCHEMA: &str = include_str!("../../../../docs/schema/ensemble.schema.json");

/// The schema of a test file.
pub const TEST_SCHEMA: &str = include_str!("../../../../docs/schema/test.schema.json");

/// The schema of a configuration (`.ensemble/config.yaml`): its model profiles are those of [`SCHEMA`], and its codes
/// those that [`explain`] knows.
pub fn of_config() -> String {
    let ensemble: Value = serde_json::from_str(SCHEMA).unwrap_or_default();
    let profiles = &ensemble["properties"]["model_profiles"];
    let mut definitions = Map::new();
    take_definitions(profiles, &ensemble["$defs"], &mut definitions);
    let config = json!({
        "$schema": ensemble["$schema"],
        "$id": "urn:ensemble:schema:config",
        "title": "Configuration",
        "description": "What all ensembles of a project, or of a user, share.",
        "type": ["object", "null"],
        "additionalProperties": false,
        "properties": {
            "model_profiles": {
                "description": "Model profiles by name, for all ensembles; a profile of an ensemble file comes before the one with its name here.",
                "type": profiles["type"],
                "additionalProperties": profiles["additionalProperties"],
                "examples": profiles["examples"],
            },
            "validate": validate(),
        },
        "$defs": definitions,
    });
    serde_json::to_string_pretty(&config).unwrap_or_default() + "\n"
}

fn validate() -> Value {
    let codes: Vec<&str> = codes::ALL.iter().map(|(code, _)| code.0).collect();
    let in_lower_case = format!("^(?:{})$", codes.join("|").to_lowercase());
    json!({
        "description": "Settings of `ensemble validate`, for this project.",
        "type": ["object", "null"],
        "additionalProperties": false,
        "properties": {
            "levels": {
                "description": "How findings are reported, by code. An error cannot be lowered. `ensemble explain CODE` explains a code.",
                "type": ["object", "null"],
                "propertyNames": {"anyOf": [{"enum": codes}, {"pattern": in_lower_case}]},
                "patternProperties": {"^[Ee]": {"const": "error"}},
                "additionalProperties": {"enum": ["off", "hint", "warning", "error"]},
                "examples": [{"W012": "error", "W026": "off"}],
            },
            "exclude": {
                "description": "What a search of folders leaves out, in the form of `.gitignore`, from the folder of `.ensemble`.",
                "type": ["array", "null"],
                "items": {"type": "string", "minLength": 1},
                "examples": [["vendor/**", "*.draft.yaml"]],
            },
            "deny_warnings": {
                "description": "Whether a warning causes exit code 2, as `--deny-warnings` does.",
                "type": "boolean",
                "default": false,
            },
            "ci": {
                "description": "Whether runs in which nobody answers are checked, as with `--ci`.",
                "type": "boolean",
                "default": false,
            },
            "output": {
                "description": "The format of the report, as of `--format`.",
                "enum": ["human", "json", "github", "sarif", "junit"],
                "default": "human",
            },
        },
    })
}

/// Adds the definitions to which the part refers, and those to which they refer.
fn take_definitions(part: &Value, all: &Value, taken: &mut Map<String, Value>) {
    match part {
        Value::Object(map) => {
            let name = map
                .get("$ref")
                .and_then(Value::as_str)
                .and_then(|path| path.strip_prefix("#/$defs/"));
            if let Some(name) = name
                && !taken.contains_key(name)
            {
                taken.insert(name.to_owned(), all[name].clone());
                take_definitions(&all[name], all, taken);
            }
            map.values().for_each(|part| take_definitions(part, all, taken));
        }
        Value::Array(list) => list.iter().for_each(|part| take_definitions(part, all, taken)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::{SCHEMA, TEST_SCHEMA, of_config};
    use crate::loader::words::Section;

    fn schema() -> Value {
        serde_json::from_str(SCHEMA).expect("JSON")
    }

    /// The part of the schema for one section. The configuration has a schema of its own.
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

    #[test]
    fn loader_and_schema_know_the_same_keys_of_a_configuration() {
        let schema: Value = serde_json::from_str(&of_config()).expect("JSON");
        for (section, part) in [
            (Section::Config, &schema),
            (Section::Validate, &schema["properties"]["validate"]),
        ] {
            let properties = part["properties"].as_object().expect("properties");
            assert!(properties.keys().eq(section.keys()), "{section:?}");
        }
    }

    /// One definition that is left out would be a reference to nothing.
    #[test]
    fn the_schema_of_a_configuration_is_whole() {
        let schema = serde_json::from_str(&of_config()).expect("JSON");
        let validator = jsonschema::validator_for(&schema).expect("a schema");
        let rows = [
            (
                r#"{"model_profiles": {"a": {"provider": "simulated", "replies": [{"error": "overloaded"}], "cost": {"input_per_million": 1, "output_per_million": 2}}}}"#,
                true,
            ),
            (r#"{"model_profiles": null, "validate": null}"#, true),
            (
                r#"{"validate": {"levels": {"W012": "error", "E001": "error"}, "exclude": ["a/**"], "output": "sarif", "ci": true}}"#,
                true,
            ),
            (r#"{"validate": {"levels": {"w012": "off", "e001": "error"}}}"#, true),
            (r#"{"validate": {"levels": {"E001": "hint"}}}"#, false),
            (r#"{"validate": {"levels": {"e001": "hint"}}}"#, false),
            (r#"{"validate": {"levels": {"w999": "hint"}}}"#, false),
            (r#"{"validate": {"levels": {"xw012": "hint"}}}"#, false),
            (r#"{"validate": {"levels": {"W999": "hint"}}}"#, false),
            (r#"{"validate": {"levels": {"W012": "fatal"}}}"#, false),
            (r#"{"validate": {"exclude": [""]}}"#, false),
            (r#"{"validate": {"output": "xml"}}"#, false),
            (
                r#"{"model_profiles": {"a": {"provider": "simulated", "retry": {"attempts": 2}}}}"#,
                false,
            ),
            (r#"{"agents": []}"#, false),
        ];
        for (config, is_accepted) in rows {
            let value = serde_json::from_str(config).expect("JSON");
            assert_eq!(validator.is_valid(&value), is_accepted, "{config}");
        }
    }
}
