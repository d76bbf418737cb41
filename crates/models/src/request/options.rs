//! `options` of a profile in the body of a request.

use serde_json::{Map, Value};

use ensemble_language::data::JsonMap;
use ensemble_language::ensemble;

/// The keys of a request to Ollama; all others belong to its `options`.
const OLLAMA_TOP_LEVEL_KEYS: [&str; 7] = [
    "options",
    "think",
    "keep_alive",
    "logprobs",
    "top_logprobs",
    "truncate",
    "shift",
];

/// Keys that only a request with tools may have.
const TOOL_ONLY_KEYS: [&str; 3] = ["tool_choice", "parallel_tool_calls", "toolConfig"];

/// Merges the options of the profile into the body of a request. Leaves out keys for tools if there are no tools.
pub(crate) fn merge_profile_options(
    options: &JsonMap,
    body: &mut Value,
    dialect: ensemble::ProviderApi,
    has_tools: bool,
) {
    let Some(body) = body.as_object_mut() else {
        return;
    };
    for (key, value) in options {
        if TOOL_ONLY_KEYS.contains(&key.as_str()) && !has_tools {
            continue;
        }
        match dialect {
            ensemble::ProviderApi::Ollama if !OLLAMA_TOP_LEVEL_KEYS.contains(&key.as_str()) => {
                let inner = JsonMap::from_iter([(key.clone(), value.clone())]);
                merge_option_value(body, "options", &Value::Object(inner));
            }
            _ => merge_option_value(body, key, value),
        }
    }
}

/// Sets the value of the key. Merges two maps recursively.
fn merge_option_value(into: &mut Map<String, Value>, key: &str, value: &Value) {
    match (into.get_mut(key), value) {
        (Some(Value::Object(there)), Value::Object(more)) => {
            more.iter()
                .for_each(|(key, value)| merge_option_value(there, key, value));
        }
        _ => drop(into.insert(key.to_owned(), value.clone())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn added(dialect: ensemble::ProviderApi, options: Value, has_tools: bool) -> Value {
        let mut body = json!({"model": "m", "options": {"seed": 1}, "generationConfig": {"seed": 1}});
        merge_profile_options(options.as_object().expect("a map"), &mut body, dialect, has_tools);
        body
    }

    #[test]
    fn options_go_where_they_belong() {
        let ollama = added(
            ensemble::ProviderApi::Ollama,
            json!({"num_ctx": 8, "think": true, "options": {"stop": ["a"]}}),
            true,
        );
        assert_eq!(ollama["options"], json!({"seed": 1, "num_ctx": 8, "stop": ["a"]}));
        assert_eq!((&ollama["think"], ollama.get("num_ctx")), (&json!(true), None));
        let nested = json!({"generationConfig": {"thinkingConfig": {"thinkingBudget": 0}}});
        let gemini = added(ensemble::ProviderApi::Gemini, nested, true);
        assert_eq!(
            gemini["generationConfig"],
            json!({"seed": 1, "thinkingConfig": {"thinkingBudget": 0}})
        );
        for (has_tools, expected) in [(true, Some(&json!("required"))), (false, None)] {
            let body = added(
                ensemble::ProviderApi::OpenAi,
                json!({"tool_choice": "required", "stop": "x"}),
                has_tools,
            );
            assert_eq!((body.get("tool_choice"), &body["stop"]), (expected, &json!("x")));
        }
    }
}
