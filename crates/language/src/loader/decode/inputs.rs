//! `inputs`: names and their JSON Schemas.

use crate::data::JsonMap;
use crate::diagnostic::Finding;
use crate::ensemble::Input;
use crate::loader::codes;
use crate::loader::document::{Content, ScalarValue};
use crate::loader::findings::Findings;
use crate::loader::json;
use crate::loader::reader::{Cursor, map_of, wrong_type};
use crate::loader::words::quoted;
use crate::names::is_ascii_identifier;

/// Reads `inputs` of the ensemble.
pub(super) fn all(at: &Cursor<'_>, findings: &mut Findings) -> Option<Vec<Input>> {
    let inputs = map_of(
        at,
        "a map from names to JSON Schemas",
        findings,
        |name, entry, findings| {
            let is_valid = valid_name(name, entry, findings);
            let input = Input::new(name.clone(), schema(entry, findings)?);
            (valid_default(&input, entry, findings) && is_valid).then_some(input)
        },
    )?;
    Some(inputs.into_iter().map(|(_, input)| input).collect())
}

/// Reads `inputs` of an agent that is an ensemble: names and values.
pub(super) fn given(at: &Cursor<'_>, findings: &mut Findings) -> Option<JsonMap> {
    map_of(at, "a map from names to values", findings, |name, entry, findings| {
        valid_name(name, entry, findings).then_some(())
    })?;
    json::map(at, findings)
}

fn valid_name(name: &str, at: &Cursor<'_>, findings: &mut Findings) -> bool {
    let valid = is_ascii_identifier(name);
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
