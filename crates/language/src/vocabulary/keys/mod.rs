//! The table of keys: one row for each key of each section of a file.
//!
//! A new key is a row here and a decoder in the loader. The properties in `docs/schema` are derived from the rows
//! (`UPDATE_SCHEMA=1 cargo test -p ensemble-language vocabulary` writes them).

pub(super) mod agents;
pub(super) mod cases;
pub(super) mod config;
pub(super) mod ensembles;
pub(super) mod models;
mod shapes;
pub(super) mod tools;

use serde_json::{Map, Value};

/// A key that a section can have: its name, schema, documentation and default.
#[derive(Debug)]
pub struct SectionKey {
    /// The name.
    pub name: &'static str,
    /// The JSON Schema of the value: a JSON text, or `#` and the name of a definition.
    pub(super) shape: &'static str,
    /// The description, in Markdown; empty if the definition of the shape has it.
    documentation: &'static str,
    /// The value without the key, as JSON.
    default: Option<&'static str>,
    /// A list of examples, as JSON.
    examples: Option<&'static str>,
    /// The kinds of the section that have the key; empty: all. The kinds are agent types, or the keys that choose how a
    /// tool or a server is reached.
    kinds: &'static [&'static str],
    /// The agent types to which `defaults` gives the key; empty: all.
    given_by_defaults: Option<&'static [&'static str]>,
}

/// Rows of the table: `"name": SHAPE, "documentation", default "…", for KINDS, given TYPES, eg "[…]";`. `given` says that
/// `defaults` gives the key to fewer types than have it, or `nowhere`.
macro_rules! keys {
    ($($name:literal: $shape:expr, $documentation:expr
        $(, default $default:literal)?
        $(, for $($kind:ident)+)?
        $(, given $($given:ident)+)?
        $(, eg $examples:expr)?;)*) => {
        &[$($crate::vocabulary::keys::SectionKey {
            name: $name,
            shape: $shape,
            documentation: $documentation,
            default: keys!(@optional $($default)?),
            examples: keys!(@optional $($examples)?),
            kinds: &[$($(stringify!($kind)),+)?],
            given_by_defaults: keys!(@given [$($($given)+)?] [$($($kind)+)?]),
        }),*]
    };
    (@optional) => { None };
    (@optional $value:expr) => { Some($value) };
    (@given [nowhere] [$($kind:ident)*]) => { None };
    (@given [] [$($kind:ident)*]) => { Some(&[$(stringify!($kind)),*]) };
    (@given [$($given:ident)+] [$($kind:ident)*]) => { Some(&[$(stringify!($given)),+]) };
}
use keys;

impl SectionKey {
    /// Returns whether sections of this kind have the key.
    pub fn is_key_of_kind(&self, kind: &str) -> bool {
        self.kinds.is_empty() || self.kinds.contains(&kind)
    }

    /// Returns the kinds of the section that have the key. An empty list means all kinds.
    pub fn section_kinds(&self) -> &'static [&'static str] {
        self.kinds
    }

    /// Returns whether `defaults` may have the key.
    pub(super) fn is_in_defaults(&self) -> bool {
        self.given_by_defaults.is_some()
    }

    /// Returns whether `defaults` gives the key to agents of this type. `None` is an unknown type.
    pub(crate) fn is_default_for(&self, agent_type: Option<&str>) -> bool {
        let is_given = |types: &[&str]| types.is_empty() || agent_type.is_some_and(|one| types.contains(&one));
        self.given_by_defaults.is_some_and(is_given)
    }

    /// Returns the JSON Schema of the key's value, with its documentation.
    pub fn to_schema(&self) -> Value {
        self.build_schema(|form| form)
    }

    /// Returns the JSON Schema of the key's value, or `null`, which means that the key is left out.
    pub(crate) fn to_optional_schema(&self) -> Value {
        self.build_schema(allow_null)
    }

    /// Builds the JSON Schema of the key's value after a change of its form.
    fn build_schema(&self, change_form: impl FnOnce(Map<String, Value>) -> Map<String, Value>) -> Value {
        let json = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
        let mut schema = Map::new();
        let default = self.default.map(json);
        if !self.documentation.is_empty() {
            let default = default.as_ref().map(|value| match value {
                Value::String(text) => format!(" Default: `{text}`."),
                other => format!(" Default: `{other}`."),
            });
            let description = self.documentation.to_owned() + default.as_deref().unwrap_or_default();
            schema.insert("description".to_owned(), description.into());
        }
        let form = match self.shape.strip_prefix('#') {
            Some(name) => Map::from_iter([("$ref".to_owned(), format!("#/$defs/{name}").into())]),
            None => json(self.shape).as_object().cloned().unwrap_or_default(),
        };
        schema.extend(change_form(form));
        schema.extend(default.map(|value| ("default".to_owned(), value)));
        schema.extend(self.examples.map(|list| ("examples".to_owned(), json(list))));
        schema.into()
    }
}

/// Changes a schema so that it also allows `null`. A schema without restrictions does not change. The form does not name the
/// type `null`, because editors would then offer the word as a value: the definition `no_value` excludes all other types.
fn allow_null(mut form: Map<String, Value>) -> Map<String, Value> {
    let allows_null = match form.get("type") {
        Some(Value::Array(types)) => types.contains(&Value::from("null")),
        _ => form.is_empty(),
    };
    if allows_null {
        return form;
    }
    let null_form = serde_json::json!({"$ref": "#/$defs/no_value"});
    if let Some(Value::Array(forms)) = form.get_mut("oneOf") {
        forms.push(null_form);
        return form;
    }
    Map::from_iter([("anyOf".to_owned(), Value::from(vec![form.into(), null_form]))])
}
