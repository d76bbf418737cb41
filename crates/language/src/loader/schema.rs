//! The language as a JSON Schema (2020-12), for editors: completion, descriptions, error marks.
//!
//! The properties of each section are derived from the table of keys ([`FileSection`]); the rest of the files (requirements
//! between keys, titles, shared definitions) is written by hand. `loader/tests/schema.rs` compares values and defaults with
//! the loader.

use serde_json::{Map, Value, json};

#[cfg(doc)]
use super::code_explanations;
use super::codes;
use crate::vocabulary::FileSection;

/// The schema of an ensemble file.
pub const ENSEMBLE_SCHEMA: &str = include_str!("../../../../docs/schema/ensemble.schema.json");

/// The schema of a test file.
pub const TEST_SCHEMA: &str = include_str!("../../../../docs/schema/test.schema.json");

/// Returns the schema of a configuration (`.ensemble/config.yaml`): its model profiles are those of [`ENSEMBLE_SCHEMA`], and its
/// codes those that `explain_code` knows.
pub fn config_schema() -> String {
    let ensemble: Value = serde_json::from_str(ENSEMBLE_SCHEMA).unwrap_or_default();
    let profiles = &ensemble["properties"]["model_profiles"];
    let mut definitions = Map::new();
    collect_definitions(profiles, &ensemble["$defs"], &mut definitions);
    let mut properties = FileSection::Config.schema_properties(|_| false);
    properties.insert("validate".to_owned(), validate_settings_schema());
    for property in properties.values() {
        collect_definitions(property, &ensemble["$defs"], &mut definitions);
    }
    let config = json!({
        "$schema": ensemble["$schema"],
        "$id": "urn:ensemble:schema:config",
        "title": "Configuration",
        "description": "The settings that all ensembles of a project or of a user share.",
        "type": ["object", "null"],
        "additionalProperties": false,
        "properties": properties,
        "$defs": definitions,
    });
    serde_json::to_string_pretty(&config).unwrap_or_default() + "\n"
}

/// Builds the schema of `validate` in a configuration.
fn validate_settings_schema() -> Value {
    let codes: Vec<&str> = codes::ALL.iter().map(|(code, _)| code.0).collect();
    let in_lower_case = format!("^(?:{})$", codes.join("|").to_lowercase());
    let mut properties = FileSection::Validate.schema_properties(|_| false);
    properties["levels"]["propertyNames"] = json!({"anyOf": [{"enum": codes}, {"pattern": in_lower_case}]});
    json!({
        "description": "Settings of `ensemble validate`, for this project.",
        "type": ["object", "null"],
        "additionalProperties": false,
        "properties": properties,
    })
}

/// Adds the definitions to which the part refers, directly or through other definitions.
fn collect_definitions(part: &Value, all: &Value, taken: &mut Map<String, Value>) {
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
                collect_definitions(&all[name], all, taken);
            }
            map.values().for_each(|part| collect_definitions(part, all, taken));
        }
        Value::Array(list) => list.iter().for_each(|part| collect_definitions(part, all, taken)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::config_schema;

    /// One definition that is left out would be a reference to nothing.
    #[test]
    fn the_schema_of_a_configuration_is_whole() {
        let schema = serde_json::from_str(&config_schema()).expect("JSON");
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
