//! Marks for Anthropic's cache of prompts: the next request reads everything up to a mark from the cache.
//!
//! The system prompt and the tools are marked, which all executions of an agent send, and the last message, which the
//! next request of a tool loop or a conversation repeats. Writing to the cache costs more than a plain request, so a
//! request that nothing follows is not marked: one without tools and earlier replies.

use serde_json::{Map, Value, json};

/// The key of a mark.
const CACHE_MARK_KEY: &str = "cache_control";

/// Adds cache marks to the body of a request whose beginning will be sent again.
pub(crate) fn add_cache_marks(body: &mut Value) {
    let has_tools = body.get("tools").is_some();
    let messages = body["messages"].as_array().into_iter().flatten();
    let goes_on = messages.clone().any(|message| message["role"] == "assistant");
    if !has_tools && !goes_on {
        return;
    }
    if let Some(system) = body.get_mut("system") {
        mark_text_for_cache(system);
    }
    if let Some(tool) = body
        .get_mut("tools")
        .and_then(Value::as_array_mut)
        .and_then(|tools| tools.last_mut())
    {
        mark_block_for_cache(tool.as_object_mut());
    }
    let last = body.get_mut("messages").and_then(Value::as_array_mut);
    let last = last.and_then(|messages| messages.last_mut());
    let Some(content) = last.and_then(|message| message.get_mut("content")) else {
        return;
    };
    match content {
        Value::Array(blocks) => mark_block_for_cache(blocks.last_mut().and_then(Value::as_object_mut)),
        text => mark_text_for_cache(text),
    }
}

/// Replaces a non-empty text by a list with one marked block.
fn mark_text_for_cache(text: &mut Value) {
    if text.as_str().is_some_and(|text| !text.is_empty()) {
        *text = json!([{"type": "text", "text": text.take(), CACHE_MARK_KEY: {"type": "ephemeral"}}]);
    }
}

/// Adds a cache mark to the block, unless its text is empty.
fn mark_block_for_cache(block: Option<&mut Map<String, Value>>) {
    let is_empty = |block: &Map<String, Value>| block.get("text").is_some_and(|text| text == "");
    if let Some(block) = block.filter(|block| !is_empty(block)) {
        block.insert(CACHE_MARK_KEY.to_owned(), json!({"type": "ephemeral"}));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(mut body: Value) -> Value {
        add_cache_marks(&mut body);
        body
    }

    #[test]
    fn what_is_sent_again_is_marked() {
        let ephemeral = json!({"type": "ephemeral"});
        let body = json!({
            "system": "Be brief.",
            "tools": [{"name": "a"}, {"name": "b"}],
            "messages": [{"role": "user", "content": "Hi"}],
        });
        let expected = json!({
            "system": [{"type": "text", "text": "Be brief.", CACHE_MARK_KEY: ephemeral}],
            "tools": [{"name": "a"}, {"name": "b", CACHE_MARK_KEY: ephemeral}],
            "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi", CACHE_MARK_KEY: ephemeral}]}],
        });
        assert_eq!(marked(body), expected);
        let result = json!({"type": "tool_result", "tool_use_id": "c", "content": "1"});
        let thread = json!({"messages": [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": [{"type": "text", "text": "Hello"}]},
            {"role": "user", "content": [result]},
        ]});
        let thread = marked(thread);
        assert_eq!(thread["messages"][2]["content"][0][CACHE_MARK_KEY], ephemeral);
        assert_eq!(thread["messages"][0]["content"], "Hi", "only the end is marked");
    }

    #[test]
    fn a_single_request_and_an_empty_text_are_not_marked() {
        let single = json!({"system": "Be brief.", "messages": [{"role": "user", "content": "Hi"}]});
        assert_eq!(marked(single.clone()), single);
        let empty = json!({"tools": [], "messages": [{"role": "user", "content": [{"type": "text", "text": ""}]}]});
        assert_eq!(marked(empty.clone()), empty);
    }
}
