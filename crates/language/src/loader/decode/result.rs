//! `result`: the name of an agent, or a map from keys to expressions.

use super::Names;
use super::dependency::correction;
use crate::condition::Expression;
use crate::diagnostic::Finding;
use crate::ensemble::ResultSpec;
use crate::loader::codes;
use crate::loader::document::{Content, ScalarValue};
use crate::loader::findings::Findings;
use crate::loader::reader::{Cursor, empty, map_of, name, wrong_type};

/// Reads `result` of the ensemble.
pub(super) fn read(at: &Cursor<'_>, names: &Names<'_>, findings: &mut Findings) -> Option<ResultSpec> {
    let Content::Mapping(entries) = &at.node.content else {
        if at.node.text().is_none() {
            wrong_type(
                at,
                "the name of an agent (a string), or a map from keys to expressions",
                findings,
            );
            return None;
        }
        let agent = name(at, findings)?;
        return names
            .expect(&agent, || at.value(), findings)
            .then_some(ResultSpec::Agent(agent));
    };
    if entries.is_empty() {
        empty(at, "a result must have at least one key", findings);
    }
    let map = map_of(at, "a map from keys to expressions", findings, |_, entry, findings| {
        expression(entry, findings)
    });
    map.map(ResultSpec::Map)
}

/// The text of a valid expression; YAML numbers and booleans are also allowed.
fn expression(at: &Cursor<'_>, findings: &mut Findings) -> Option<String> {
    let Content::Scalar(scalar) = &at.node.content else {
        wrong_type(at, "an expression (a string)", findings);
        return None;
    };
    if scalar.value == ScalarValue::Null {
        wrong_type(at, "an expression (a string)", findings);
        return None;
    }
    let Err(error) = Expression::check(&scalar.text) else {
        return Some(scalar.text.to_string());
    };
    let mut finding = Finding::error(codes::CONDITION, at.route().text(error.span), error.message);
    finding.help = error.help;
    finding.fix = correction(at, &scalar.text, error.span, |text| {
        Expression::check(text).map_err(|error| error.span)
    });
    findings.push(finding);
    None
}
