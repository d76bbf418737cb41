//! `result`: the name of an agent, or a map from keys to expressions; and `success`: an expression.

use super::AgentNameIndex;
use super::dependency::build_word_fix;
use crate::condition::{ConditionText, ValueExpression};
use crate::diagnostic::Finding;
use crate::ensemble::ResultSpec;
use crate::loader::codes;
use crate::loader::document::{ScalarValue, YamlContent};
use crate::loader::findings::LimitedFindingList;
use crate::loader::value_decoders::{NodeCursor, decode_map, decode_name, report_empty, report_wrong_type};
use crate::yaml::edit::{RouteEdit, RouteFix};

/// Decodes `result` of the ensemble.
pub(super) fn decode_result(
    at: &NodeCursor<'_>,
    names: &AgentNameIndex<'_>,
    findings: &mut LimitedFindingList,
) -> Option<ResultSpec> {
    let YamlContent::Mapping(entries) = &at.node.content else {
        if at.node.string_text().is_none() {
            report_wrong_type(
                at,
                "the name of an agent (a string), or a map from keys to expressions",
                findings,
            );
            return None;
        }
        let agent = decode_name(at, findings)?;
        return names
            .check_exists(&agent, || at.value_location(), findings)
            .then_some(ResultSpec::Agent(agent));
    };
    if entries.is_empty() {
        report_empty(at, "a result must have at least one key", findings);
    }
    let map = decode_map(at, "a map from keys to expressions", findings, |_, entry, findings| {
        decode_expression(entry, findings)
    });
    map.map(ResultSpec::Map)
}

/// Decodes the text of a valid expression. YAML numbers and booleans are also allowed.
fn decode_expression(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<String> {
    let YamlContent::Scalar(scalar) = &at.node.content else {
        report_wrong_type(at, "an expression (a string)", findings);
        return None;
    };
    if scalar.value == ScalarValue::Null {
        report_wrong_type(at, "an expression (a string)", findings);
        return None;
    }
    check_expression(at, &scalar.text, findings).then(|| scalar.text.to_string())
}

/// Decodes `success` of the ensemble: an expression, or a YAML boolean.
pub(super) fn decode_success(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<ConditionText> {
    const EXPECTED: &str = "an expression (a string)";
    let YamlContent::Scalar(scalar) = &at.node.content else {
        report_wrong_type(at, EXPECTED, findings);
        return None;
    };
    match scalar.value {
        ScalarValue::Bool(_) => ConditionText::parse_without_output(&scalar.text).ok(),
        ScalarValue::Text if scalar.text.trim().is_empty() => {
            let finding = Finding::new_error(codes::BLANK_CONDITION, at.value_location(), "`success` is blank");
            let fix = RouteFix::new_unsafe("remove `success`", RouteEdit::Remove(at.route()));
            findings.push(
                finding
                    .with_help("write an expression, or remove `success`")
                    .with_fix(fix),
            );
            None
        }
        ScalarValue::Text if check_expression(at, &scalar.text, findings) => {
            ConditionText::parse_without_output(&scalar.text).ok()
        }
        ScalarValue::Text => None,
        _ => {
            report_wrong_type(at, EXPECTED, findings);
            None
        }
    }
}

/// Returns whether the text is an expression, and reports the error if it is not.
fn check_expression(at: &NodeCursor<'_>, text: &str, findings: &mut LimitedFindingList) -> bool {
    let Err(error) = ValueExpression::check_syntax(text) else {
        return true;
    };
    let mut finding = Finding::new_error(
        codes::CONDITION,
        at.route().into_text_location(error.span),
        error.message,
    );
    finding.help = error.help;
    finding.fix = build_word_fix(at, text, error.span, |text| {
        ValueExpression::check_syntax(text).map_err(|error| error.span)
    });
    findings.push(finding);
    false
}
