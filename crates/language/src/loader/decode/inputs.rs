//! `inputs`: names and their JSON Schemas.

use crate::data::JsonMap;
use crate::diagnostic::Finding;
use crate::ensemble::InputDeclaration;
use crate::loader::codes;
use crate::loader::document::{ScalarValue, YamlContent};
use crate::loader::findings::LimitedFindingList;
use crate::loader::json;
use crate::loader::key_messages::quote_excerpt;
use crate::loader::value_decoders::{NodeCursor, decode_map, report_wrong_type};
use crate::names::is_ascii_identifier;

/// Decodes `inputs` of the ensemble, and checks the names and defaults.
pub(super) fn decode_inputs(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<Vec<InputDeclaration>> {
    let inputs = decode_map(
        at,
        "a map from names to JSON Schemas",
        findings,
        |name, entry, findings| {
            let is_valid = check_input_name(name, entry, findings);
            let input = InputDeclaration::new(name.clone(), decode_input_schema(entry, findings)?);
            (check_default_value(&input, entry, findings) && is_valid).then_some(input)
        },
    )?;
    Some(inputs.into_iter().map(|(_, input)| input).collect())
}

/// Decodes `inputs` of an agent with a nested ensemble: names and values.
pub(super) fn decode_input_values(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<JsonMap> {
    decode_map(at, "a map from names to values", findings, |name, entry, findings| {
        check_input_name(name, entry, findings).then_some(())
    })?;
    json::decode_json_map(at, findings)
}

/// Returns whether the name of the input is valid, and reports an invalid name.
fn check_input_name(name: &str, at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> bool {
    let valid = is_ascii_identifier(name);
    if !valid {
        let message = format!("{} is not a valid name of an input", quote_excerpt(name));
        let finding = Finding::new_error(codes::BAD_NAME, at.key_location(), message);
        findings.push(finding.with_help("use ASCII letters, digits and `_`, and do not start with a digit"));
    }
    valid
}

/// Decodes a schema: a map, or a boolean (`true` accepts any value).
fn decode_input_schema(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<serde_json::Value> {
    let is_schema = match &at.node.content {
        YamlContent::Mapping(_) => true,
        YamlContent::Scalar(scalar) => matches!(scalar.value, ScalarValue::Bool(_)),
        YamlContent::Sequence(_) => false,
    };
    if !is_schema {
        report_wrong_type(at, "a JSON Schema (a map)", findings);
        return None;
    }
    json::decode_json_schema(at, findings)
}

/// Returns whether the default matches the schema, and reports a default that does not.
fn check_default_value(input: &InputDeclaration, at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> bool {
    let errors = input
        .default_value()
        .map(|default| input.check_value(default))
        .unwrap_or_default();
    let Some(error) = errors.first() else {
        return true;
    };
    let message = format!(
        "the default of the input `{}` does not match its schema: {error}",
        input.name
    );
    let finding = Finding::new_error(
        codes::INPUT_DEFAULT,
        at.route().with_key("default").into_value_location(),
        message,
    );
    findings.push(finding.with_help("correct the default, or the schema"));
    false
}
