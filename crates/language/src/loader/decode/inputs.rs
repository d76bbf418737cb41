//! `inputs`: names and their JSON Schemas.

use crate::data::JsonMap;
use crate::diagnostic::Finding;
use crate::ensemble::Input;
use crate::loader::document::{Content, ScalarValue};
use crate::loader::findings::Findings;
use crate::loader::reader::{Cursor, wrong_type};
use crate::loader::words::quoted;
use crate::loader::{codes, json};

/// Reads `inputs` of the ensemble.
pub(super) fn all(at: &Cursor<'_>, findings: &mut Findings) -> Option<Vec<Input>> {
    let mut inputs = Vec::new();
    let mut sound = true;
    for (name, entry) in at.entries("a map from names to JSON Schemas", findings)? {
        sound &= valid_name(name, &entry, findings);
        match schema(&entry, findings) {
            Some(schema) => inputs.push(Input::new(name.clone(), schema)),
            None => sound = false,
        }
        if let Some(input) = inputs.last().filter(|input| input.name == *name) {
            sound &= valid_default(input, &entry, findings);
        }
    }
    sound.then_some(inputs)
}

/// Reads `inputs` of an agent that is an ensemble: names and values.
pub(super) fn given(at: &Cursor<'_>, findings: &mut Findings) -> Option<JsonMap> {
    let mut sound = true;
    for (name, entry) in at.entries("a map from names to values", findings)? {
        sound &= valid_name(name, &entry, findings);
    }
    json::map(at, findings).filter(|_| sound)
}

fn valid_name(name: &str, at: &Cursor<'_>, findings: &mut Findings) -> bool {
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let valid = starts && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !valid {
        let message = format!("{} is not a valid name of an input", quoted(name));
        let finding = Finding::error(codes::BAD_NAME, at.key(), message);
        findings.push(
            finding.help("an input's name can have ASCII letters, digits and `_`, and does not start with a digit"),
        );
    }
    valid
}

/// A map, or a Boolean: `true` stands for any value.
fn schema(at: &Cursor<'_>, findings: &mut Findings) -> Option<serde_json::Value> {
    let is_schema = match &at.node.content {
        Content::Mapping(_) => true,
        Content::Scalar(scalar) => matches!(scalar.value, ScalarValue::Bool(_)),
        Content::Sequence(_) => false,
    };
    if !is_schema {
        wrong_type(at, "a JSON Schema (a map)", findings);
        return None;
    }
    json::schema(at, findings)
}

fn valid_default(input: &Input, at: &Cursor<'_>, findings: &mut Findings) -> bool {
    let errors = input.default().map(|default| input.errors(default)).unwrap_or_default();
    let Some(error) = errors.first() else {
        return true;
    };
    let message = format!(
        "the default of the input `{}` does not match its schema: {error}",
        input.name
    );
    let finding = Finding::error(codes::INPUT_DEFAULT, at.route().key("default").value(), message);
    findings.push(finding.help("correct the default, or the schema"));
    false
}
