//! Fixes for values of the wrong type that can only be meant as another type.

use super::document::{ScalarValue, YamlContent, YamlNode};
use crate::source::{Route, RouteStep};
use crate::yaml::edit::{RouteEdit, RouteFix};
use crate::yaml::plain_scalar;

/// Returns the fix that converts the value to the expected type, if the meaning is clear. `expected`: the description of the type.
pub(super) fn find_type_fix(node: &YamlNode, route: &Route, expected: &str) -> Option<RouteFix> {
    let place = route.clone().into_value_location();
    let scalar = match &node.content {
        YamlContent::Scalar(scalar) => scalar,
        _ => return None,
    };
    let (text, is_text) = (&*scalar.text, scalar.value == ScalarValue::Text);
    if scalar.value == ScalarValue::Null {
        let is_key = matches!(route.0.last(), Some(RouteStep::Key(_)));
        return is_key.then(|| RouteFix::new_unsafe("remove the key", RouteEdit::Remove(route.clone())));
    }
    if !is_text && expected.contains("a string") {
        return Some(RouteFix::new_safe(
            "quote the value",
            RouteEdit::WriteYaml(place, format!("'{text}'")),
        ));
    }
    if !is_text {
        return None;
    }
    let bare = text.trim();
    if expected == "true or false" {
        let word = parse_boolean_word(bare)?;
        return Some(RouteFix::new_safe(
            format!("write `{word}`"),
            RouteEdit::WriteYaml(place, word.to_owned()),
        ));
    }
    let is_number = matches!(
        plain_scalar::parse_plain_scalar(bare),
        ScalarValue::Int(_) | ScalarValue::Unsigned(_) | ScalarValue::Float(_)
    );
    if is_number && (expected.contains("integer") || expected.contains("number")) {
        return Some(RouteFix::new_safe(
            "remove the quotes",
            RouteEdit::WriteYaml(place, bare.to_owned()),
        ));
    }
    let is_name = crate::names::is_name(bare);
    let is_list = ["a list of agent names", "a list of tool names", "a list of names"]
        .iter()
        .any(|list| expected.starts_with(list));
    (is_list && is_name && plain_scalar::parse_plain_scalar(bare) == ScalarValue::Text).then(|| {
        RouteFix::new_safe(
            "write a list with one item",
            RouteEdit::WriteYaml(place, format!("[{bare}]")),
        )
    })
}

/// Returns the boolean for a word such as `yes` or `off` of other languages and older YAML.
fn parse_boolean_word(word: &str) -> Option<&'static str> {
    match word.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" => Some("true"),
        "false" | "no" | "off" => Some("false"),
        _ => None,
    }
}
