//! Ids of tool calls as a provider accepts them. Within a request only their equality matters.

use ensemble_language::data::sha256_of_text;
use ensemble_language::ensemble;

use ensemble_core::thread::{Message, ToolCall};

/// Prefixes of the names of Mistral models, which need ids of nine letters and digits on any server.
const MISTRAL_MODEL_PREFIXES: [&str; 7] = [
    "mistral",
    "ministral",
    "mixtral",
    "magistral",
    "codestral",
    "devstral",
    "pixtral",
];

/// Replaces call ids that the provider would refuse, such as ids of another provider.
pub(crate) fn replace_unsupported_call_ids(messages: &mut [Message], dialect: ensemble::ProviderApi, model: &str) {
    let model = model.rsplit('/').next().unwrap_or(model).to_lowercase();
    let fitted: fn(&str) -> Option<String> = match dialect {
        ensemble::ProviderApi::Anthropic => to_word_id,
        ensemble::ProviderApi::OpenAi if MISTRAL_MODEL_PREFIXES.iter().any(|name| model.starts_with(name)) => {
            to_nine_character_id
        }
        _ => return,
    };
    let replace = |call: &mut ToolCall| {
        if let Some(id) = fitted(&call.id) {
            call.id = id;
        }
    };
    messages
        .iter_mut()
        .flat_map(|message| &mut message.tool_calls)
        .for_each(replace);
}

/// Creates an id of letters, digits, `_` and `-`. Returns `None` if the id already has this form.
fn to_word_id(id: &str) -> Option<String> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    (id.is_empty() || !id.chars().all(is_word)).then(|| format!("call_{}", &sha256_of_text(id)[..16]))
}

/// Creates an id of nine letters and digits. Returns `None` if the id already has this form.
fn to_nine_character_id(id: &str) -> Option<String> {
    let is_fit = id.len() == 9 && id.chars().all(|c| c.is_ascii_alphanumeric());
    (!is_fit).then(|| sha256_of_text(id)[..9].to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use ensemble_core::thread::MessageRole;

    #[test]
    fn ids_are_replaced_only_where_they_would_be_refused() {
        let fitted = |dialect, model: &str, id: &str| {
            let mut messages = [Message::new(MessageRole::Assistant, "")];
            messages[0].tool_calls = vec![ToolCall::new(id, "add", json!({}))];
            replace_unsupported_call_ids(&mut messages, dialect, model);
            messages[0].tool_calls[0].id.clone()
        };
        let (anthropic, openai) = (ensemble::ProviderApi::Anthropic, ensemble::ProviderApi::OpenAi);
        assert_eq!(fitted(anthropic, "claude", "toolu_01-x"), "toolu_01-x");
        assert_eq!(fitted(anthropic, "claude", "functions.add:0").len(), 21);
        assert_eq!(fitted(openai, "gpt-5", "functions.add:0"), "functions.add:0");
        assert_eq!(fitted(openai, "mistralai/Mistral-Small", "D681PevKs"), "D681PevKs");
        let nine = fitted(openai, "codestral-latest", "call_3_1");
        assert_eq!(
            (nine.len(), nine != fitted(openai, "codestral-latest", "call_3_2")),
            (9, true)
        );
    }
}
