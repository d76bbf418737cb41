//! Codes and ids of JSON-RPC, including ids of incomplete messages.

use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

/// Error code for a text that is not JSON.
pub const PARSE_ERROR: i64 = -32700;
/// Error code for JSON that is not a message.
pub const INVALID_REQUEST: i64 = -32600;

/// Returns whether the value is a valid id of a request: a text or a number.
pub fn is_message_id(value: &Value) -> bool {
    value.is_string() || value.is_number()
}

/// Returns the id of a message from the beginning of its text. Returns `None` if the beginning contains no valid id.
pub fn find_id_in_incomplete_message(beginning: &[u8]) -> Option<Value> {
    let mut finder = MessageIdFinder(None);
    // The beginning of a message is never a whole document, so this always ends with an error.
    let _ = serde_json::Deserializer::from_slice(beginning).deserialize_map(&mut finder);
    finder.0.filter(is_message_id)
}

/// Visitor that finds the id of the outermost object.
struct MessageIdFinder(Option<Value>);

impl<'de> Visitor<'de> for &mut MessageIdFinder {
    type Value = ();

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a message")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        // A number at the end of the beginning can be a part of a number.
        let mut unconfirmed: Option<Value> = None;
        while let Some(key) = map.next_key::<String>()? {
            self.0 = unconfirmed.take().or(self.0.take());
            match key.as_str() {
                "id" => unconfirmed = Some(map.next_value()?),
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        self.0 = unconfirmed.or(self.0.take());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_id_is_found_before_the_place_where_a_message_is_cut() {
        for (beginning, id) in [
            (
                r#"{"jsonrpc":"2.0","id":7,"method":"x","params":{"text":"aaa"#,
                Some(json!(7)),
            ),
            (
                r#"{"method": "x", "params": {"id": 3}, "id": "a", "more": ["#,
                Some(json!("a")),
            ),
            (r#"{"method":"x","params":{"id":3,"text":"aaa"#, None),
            (r#"{"id":null,"method":"x""#, None),
            (r#"{"id":{"a":1},"method":"x""#, None),
            (r#"{"id":1"#, None),
            (r#"[{"id":1},"#, None),
            ("", None),
            ("aaa", None),
        ] {
            assert_eq!(find_id_in_incomplete_message(beginning.as_bytes()), id, "{beginning}");
        }
    }
}
