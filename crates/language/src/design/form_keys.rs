//! The keys of a section for a form: each row of the table of keys, with the form of its value.

use serde_json::{Value, json};

use crate::vocabulary::{FileSection, SectionKey};

/// A key of a section with the form of its value, for a form in the user interface.
#[derive(Debug, Clone, PartialEq)]
pub struct FormKey {
    /// The key.
    pub name: &'static str,
    /// The kinds of the section that have the key; empty: all.
    pub kinds: &'static [&'static str],
    /// The JSON Schema of the value, with the description and the default.
    pub schema: Value,
    /// The keys of the value, if the value is a section.
    pub inner: Vec<FormKey>,
}

impl FormKey {
    /// Converts a key of a section, with the keys inside its value.
    fn from_key(key: &'static SectionKey) -> Self {
        let section = key.value_section();
        Self {
            name: key.name,
            kinds: key.section_kinds(),
            schema: key.to_schema(),
            inner: section.map(list_form_keys).unwrap_or_default(),
        }
    }

    /// Converts the key and its inner keys to JSON.
    pub fn to_json(&self) -> Value {
        let inner: Vec<Value> = self.inner.iter().map(Self::to_json).collect();
        json!({"name": self.name, "kinds": self.kinds, "schema": self.schema, "inner": inner})
    }
}

/// Returns the keys of the section, in the order of the reference.
pub fn list_form_keys(section: FileSection) -> Vec<FormKey> {
    section.iter_keys().map(FormKey::from_key).collect()
}
