//! What the JSON Schema of ensembles, or that of test files, says about a place.

use std::sync::LazyLock;

use ensemble_language::loader::schema::{ENSEMBLE_SCHEMA, TEST_SCHEMA};
use ensemble_language::source::{Route, RouteStep};
use serde_json::{Map, Value};

static ENSEMBLE_SCHEMA_VALUE: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(ENSEMBLE_SCHEMA).unwrap_or_default());
static TEST_SCHEMA_VALUE: LazyLock<Value> = LazyLock::new(|| serde_json::from_str(TEST_SCHEMA).unwrap_or_default());

/// The JSON Schema of ensembles or of test files.
#[derive(Debug, Clone, Copy)]
pub(super) struct EditorSchema(&'static LazyLock<Value>);

/// A key that a map can have, with the schemas of its value.
#[derive(Debug, Clone)]
pub(super) struct SchemaKey {
    pub(super) name: &'static str,
    /// The forms of its value.
    forms: Vec<&'static Value>,
}

/// A value that can be written at a position, with its meaning.
#[derive(Debug, Clone)]
pub(super) struct SchemaValue {
    pub(super) text: String,
    pub(super) meaning: Option<&'static str>,
}

impl EditorSchema {
    /// The schema of ensembles.
    pub(super) const ENSEMBLES: Self = Self(&ENSEMBLE_SCHEMA_VALUE);
    /// The schema of test files.
    pub(super) const TESTS: Self = Self(&TEST_SCHEMA_VALUE);

    /// Returns the schemas of the value at a route. A value can have several forms.
    fn schemas_at(self, route: &Route) -> Vec<&'static Value> {
        let mut schemas = self.expand_referenced_schemas(self.0);
        for step in &route.0 {
            let next = |schema: &&'static Value| match step {
                RouteStep::Index(_) => schema.get("items"),
                RouteStep::Key(key) => {
                    let property = schema.get("properties").and_then(|keys| keys.get(&**key));
                    property.or_else(|| schema.get("additionalProperties").filter(|it| it.is_object()))
                }
            };
            schemas = schemas
                .iter()
                .filter_map(next)
                .flat_map(|schema| self.expand_referenced_schemas(schema))
                .collect();
        }
        schemas
    }

    /// Returns the schema, and all schemas that it refers to or combines for the same value.
    fn expand_referenced_schemas(self, schema: &'static Value) -> Vec<&'static Value> {
        let mut schemas = vec![schema];
        if let Some(name) = schema.get("$ref").and_then(Value::as_str) {
            let name = name.trim_start_matches("#/$defs/");
            schemas.extend(
                self.0
                    .get("$defs")
                    .and_then(|all| all.get(name))
                    .into_iter()
                    .flat_map(|schema| self.expand_referenced_schemas(schema)),
            );
        }
        for word in ["oneOf", "anyOf"] {
            let alternatives = schema.get(word).and_then(Value::as_array).into_iter().flatten();
            schemas.extend(alternatives.flat_map(|schema| self.expand_referenced_schemas(schema)));
        }
        schemas
    }

    /// Returns the `properties` of all schemas of the value at a route.
    fn object_properties(self, route: &Route) -> impl Iterator<Item = &'static Map<String, Value>> {
        self.schemas_at(route)
            .into_iter()
            .filter_map(|schema| schema.get("properties").and_then(Value::as_object))
    }

    /// Returns the keys of the map at a route.
    pub(super) fn list_keys(self, route: &Route) -> Vec<SchemaKey> {
        let mut keys: Vec<SchemaKey> = Vec::new();
        for (name, schema) in self.object_properties(route).flatten() {
            if keys.iter().all(|known| known.name != name) {
                keys.push(SchemaKey {
                    name,
                    forms: self.expand_referenced_schemas(schema),
                });
            }
        }
        keys
    }

    /// Returns the documentation of the value at a route, in Markdown.
    pub(super) fn describe_value(self, route: &Route) -> Option<String> {
        let schemas = self.schemas_at(route);
        let text = schemas.iter().find_map(|schema| schema.get("description")?.as_str())?;
        let example = schemas.iter().find_map(|schema| schema.get("examples")?.get(0));
        let values = self.list_words_and_booleans(route);
        let mut meaning = text.to_owned();
        for value in values.iter().filter(|value| value.meaning.is_some()) {
            meaning.push_str(&format!("\n- `{}`: {}", value.text, value.meaning.unwrap_or_default()));
        }
        if let Some(example) = example.filter(|example| !example.is_object() && !example.is_array()) {
            let example = example.as_str().map_or_else(|| example.to_string(), str::to_owned);
            meaning.push_str(&format!("\n\nExample: `{example}`"));
        }
        Some(meaning)
    }

    /// Returns the words and booleans that can be the value at a route.
    pub(super) fn list_words_and_booleans(self, route: &Route) -> Vec<SchemaValue> {
        let mut values: Vec<SchemaValue> = Vec::new();
        for schema in self.schemas_at(route) {
            let meanings = schema.get("enumDescriptions").and_then(Value::as_array);
            let words = schema.get("enum").and_then(Value::as_array).into_iter().flatten();
            let words = words.chain(schema.get("const"));
            for (at, word) in words.enumerate() {
                let Some(text) = word.as_str() else { continue };
                values.push(SchemaValue {
                    text: text.to_owned(),
                    meaning: meanings.and_then(|all| all.get(at)?.as_str()),
                });
            }
            if has_schema_type(schema, "boolean") {
                values.extend(["true", "false"].map(|text| SchemaValue {
                    text: text.to_owned(),
                    meaning: None,
                }));
            }
        }
        let mut seen_texts = Vec::new();
        values.retain(|value| {
            !seen_texts.contains(&value.text) && {
                seen_texts.push(value.text.clone());
                true
            }
        });
        values
    }
}

/// Returns whether the schema permits the type.
fn has_schema_type(schema: &Value, name: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(one)) => one == name,
        Some(Value::Array(several)) => several.iter().any(|one| one == name),
        _ => false,
    }
}

impl SchemaKey {
    /// Returns the documentation of the key.
    pub(super) fn description(&self) -> Option<&'static str> {
        let mut forms = self.forms.iter();
        forms.find_map(|schema| schema.get("description")?.as_str())
    }

    /// Returns whether the value of the key is always a map or a list, which is written below the key.
    pub(super) fn is_map_or_list_key(&self) -> bool {
        let forms = &self.forms;
        let is_plain = |schema: &&Value| {
            ["string", "number", "integer", "boolean"]
                .iter()
                .any(|it| has_schema_type(schema, it))
        };
        let is_more = |schema: &&Value| has_schema_type(schema, "object") || has_schema_type(schema, "array");
        forms.iter().any(is_more)
            && !forms.iter().any(is_plain)
            && !forms.iter().any(|schema| schema.get("enum").is_some())
    }
}
