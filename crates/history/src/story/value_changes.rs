//! The differences between two JSON values, by path.

use serde_json::Value;

/// A path at which two values differ, with both values.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct ValueChange {
    /// The path: `report.lines[2]`; empty for the whole value.
    pub path: String,
    /// The first value at this place, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub a: Option<Value>,
    /// The second value at this place, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub b: Option<Value>,
}

/// Lists all differences between the values: in the order of the first value, then paths that only the second value has.
pub fn compare_values(a: &Value, b: &Value) -> Vec<ValueChange> {
    let mut changes = Vec::new();
    collect_changes(String::new(), Some(a), Some(b), &mut changes);
    changes
}

/// Adds the differences between two optional values at this path to `found`, recursively.
fn collect_changes(path: String, a: Option<&Value>, b: Option<&Value>, found: &mut Vec<ValueChange>) {
    match (a, b) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            let only_b = b.keys().filter(|key| !a.contains_key(*key));
            for key in a.keys().chain(only_b) {
                collect_changes(append_key_to_path(&path, key), a.get(key), b.get(key), found);
            }
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) => {
            for at in 0..a.len().max(b.len()) {
                collect_changes(format!("{path}[{at}]"), a.get(at), b.get(at), found);
            }
        }
        (a, b) if a == b => {}
        (a, b) => found.push(ValueChange {
            path,
            a: a.cloned(),
            b: b.cloned(),
        }),
    }
}

/// Appends a key to a path, in brackets and quotes if the key is not a plain word.
fn append_key_to_path(path: &str, key: &str) -> String {
    let is_word = !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-');
    match (is_word, path.is_empty()) {
        (true, true) => key.to_owned(),
        (true, false) => format!("{path}.{key}"),
        (false, _) => format!("{path}[{}]", Value::from(key)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn paths(a: Value, b: Value) -> Vec<String> {
        compare_values(&a, &b).into_iter().map(|change| change.path).collect()
    }

    #[test]
    fn every_place_that_differs_has_its_path() {
        let table = [
            (json!({"a": 1}), json!({"a": 1}), vec![]),
            (json!({"a": 1, "b": 2}), json!({"b": 2, "a": 1}), vec![]),
            (json!({"a": 1}), json!({"a": 2}), vec!["a"]),
            (
                json!({"a": {"b": [1, 2]}}),
                json!({"a": {"b": [1, 3, 4]}}),
                vec!["a.b[1]", "a.b[2]"],
            ),
            (json!({"a b": 1}), json!({}), vec!["[\"a b\"]"]),
            (json!({}), json!({"x": {"y": 1}}), vec!["x"]),
            (json!([]), json!({}), vec![""]),
            (json!({"a": null}), json!({}), vec!["a"]),
        ];
        for (a, b, expected) in table {
            assert_eq!(paths(a.clone(), b.clone()), expected, "{a} {b}");
        }
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (0..3_i64).prop_map(Value::from),
            "[a-c ]{0,2}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 16, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[a-c .]{0,2}", inner, 0..3)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn there_are_changes_exactly_where_values_differ(a in value(), b in value()) {
            prop_assert_eq!(compare_values(&a, &b).is_empty(), a == b);
            prop_assert!(compare_values(&a, &a).is_empty());
            let (there, back) = (compare_values(&a, &b), compare_values(&b, &a));
            prop_assert_eq!(there.len(), back.len());
        }
    }
}
