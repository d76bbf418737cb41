//! Fixes for values of the wrong type that can only be meant as another type.

use super::document::{Content, Node, ScalarValue};
use crate::source::{Route, Step};
use crate::yaml::edit::{RouteEdit, RouteFix};
use crate::yaml::scalar;

/// The value as what was expected; `None` if it is not clear.
pub(super) fn find_fix(node: &Node, route: &Route, expected: &str) -> Option<RouteFix> {
    let place = route.clone().value();
    let scalar = match &node.content {
        Content::Scalar(scalar) => scalar,
        _ => return None,
    };
    let (text, is_text) = (&*scalar.text, scalar.value == ScalarValue::Text);
    if scalar.value == ScalarValue::Null {
        let is_key = matches!(route.0.last(), Some(Step::Key(_)));
        return is_key.then(|| RouteFix::not_safe("remove the key", RouteEdit::Remove(route.clone())));
    }
    if !is_text && expected.contains("a string") {
        return Some(RouteFix::safe(
            "quote the value",
            RouteEdit::WriteYaml(place, format!("'{text}'")),
        ));
    }
    if !is_text {
        return None;
    }
    let bare = text.trim();
    if expected == "true or false" {
        let word = flag(bare)?;
        return Some(RouteFix::safe(
            format!("write `{word}`"),
            RouteEdit::WriteYaml(place, word.to_owned()),
        ));
    }
    let is_number = matches!(
        scalar::plain(bare),
        ScalarValue::Int(_) | ScalarValue::Unsigned(_) | ScalarValue::Float(_)
    );
    if is_number && (expected.contains("integer") || expected.contains("number")) {
        return Some(RouteFix::safe(
            "remove the quotes",
            RouteEdit::WriteYaml(place, bare.to_owned()),
        ));
    }
    let is_name = crate::names::is_name(bare);
    let is_list = ["a list of agent names", "a list of tool names", "a list of names"]
        .iter()
        .any(|list| expected.starts_with(list));
    (is_list && is_name && scalar::plain(bare) == ScalarValue::Text).then(|| {
        RouteFix::safe(
            "write a list with one item",
            RouteEdit::WriteYaml(place, format!("[{bare}]")),
        )
    })
}

/// The Boolean that the word stands for in other languages, and in older YAML.
fn flag(word: &str) -> Option<&'static str> {
    match word.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" => Some("true"),
        "false" | "no" | "off" => Some("false"),
        _ => None,
    }
}
