//! What a server refuses although its dialect has it, learned from its refusals.
//!
//! A request that is refused for one of these parameters is made again without it, and the process remembers it for
//! this address and model.

use std::collections::BTreeSet;

use serde_json::Value;

/// The two names of the limit of a reply.
const REPLY_LIMIT_KEYS: [&str; 2] = ["max_tokens", "max_completion_tokens"];

/// Parameters that a request can omit, in the order in which they are omitted.
const OMITTABLE_PARAMETERS: [&str; 4] = ["stream_options", "top_p", "temperature", "seed"];

/// The mark for a cache of prompts, and the keys of a request that have marks inside.
const CACHE_MARK_KEY: &str = "cache_control";
const KEYS_WITH_CACHE_MARKS: [&str; 3] = ["system", "tools", "messages"];

/// The keys of a message for reasoning.
const REASONING_KEYS: [&str; 4] = ["reasoning_content", "reasoning", "reasoning_details", "thinking"];

/// Phrases of a refusal of a parameter itself, rather than of its value.
const PARAMETER_REFUSAL_PHRASES: [&str; 15] = [
    "unsupported",
    "not support",
    "unknown",
    "unrecognized",
    "unexpected",
    "extra inputs",
    "extra_forbidden",
    "extra fields",
    "not permitted",
    "not allowed",
    "deprecated",
    "may only be",
    "only the default",
    "cannot both",
    "incompatible",
];

/// Parameters and features that one model at one address refuses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ModelQuirks {
    /// The name of the limit of a reply, if it is not the usual one.
    limit: Option<&'static str>,
    omitted_parameters: BTreeSet<&'static str>,
    returned_reasoning: ReasoningToSend,
    /// Marks for a cache of prompts are left out.
    without_cache_marks: bool,
    /// The output schema is told in words, because the provider refuses it.
    pub(crate) schema_in_words: bool,
    /// The files of tool results are described, because the model takes no files.
    pub(crate) files_in_words: bool,
}

/// Choice of the messages that are sent with the reasoning of the model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum ReasoningToSend {
    /// Those of which it is known, as the dialect says.
    #[default]
    FromSameModel,
    /// All replies of the model, if necessary an empty text.
    All,
    Nothing,
}

impl ModelQuirks {
    /// Changes the body of a request to the form that the server accepts.
    pub(crate) fn adapt_request_body(&self, body: &mut Value) {
        let Some(map) = body.as_object_mut() else {
            return;
        };
        if let Some(name) = self.limit
            && let Some(limit) = REPLY_LIMIT_KEYS.iter().find_map(|known| map.shift_remove(*known))
        {
            map.insert(name.to_owned(), limit);
        }
        if self.without_cache_marks {
            for key in KEYS_WITH_CACHE_MARKS {
                map.get_mut(key).map(strip_cache_marks);
            }
        }
        for key in &self.omitted_parameters {
            map.shift_remove(*key);
        }
        let messages = map.get_mut("messages").and_then(Value::as_array_mut);
        let replies = messages.into_iter().flatten().filter(|one| one["role"] == "assistant");
        for reply in replies.filter_map(Value::as_object_mut) {
            match self.returned_reasoning {
                ReasoningToSend::FromSameModel => break,
                ReasoningToSend::All if !REASONING_KEYS.iter().any(|key| reply.contains_key(*key)) => {
                    reply.insert(REASONING_KEYS[0].to_owned(), Value::from(""));
                }
                ReasoningToSend::All => {}
                ReasoningToSend::Nothing => REASONING_KEYS.iter().for_each(|key| drop(reply.shift_remove(*key))),
            }
        }
    }

    /// Records the quirk that the refusal of a body shows. Returns `None` if a retry would fail again.
    ///
    /// Returns `Some` with a warning if the next request loses something that the user set, otherwise `Some(None)`.
    pub(crate) fn record_quirk_from_refusal(&mut self, body: &Value, refusal: &str) -> Option<Option<String>> {
        let message = refusal.to_lowercase();
        let names = |word: &&str| contains_whole_word(&message, word);
        if names(&REASONING_KEYS[0])
            && ["passed back", "missing", "required"]
                .iter()
                .any(|word| message.contains(word))
            && self.returned_reasoning == ReasoningToSend::FromSameModel
        {
            self.returned_reasoning = ReasoningToSend::All;
            return Some(None);
        }
        if !PARAMETER_REFUSAL_PHRASES.iter().any(|word| message.contains(word)) {
            return None;
        }
        if names(&CACHE_MARK_KEY) && !self.without_cache_marks {
            self.without_cache_marks = true;
            return Some(None);
        }
        let sent_limit = REPLY_LIMIT_KEYS.iter().position(|key| body.get(*key).is_some());
        if let Some(limit_index) = sent_limit.filter(|_| self.limit.is_none() && REPLY_LIMIT_KEYS.iter().any(names)) {
            self.limit = Some(REPLY_LIMIT_KEYS[1 - limit_index]);
            return Some(None);
        }
        if let Some(key) = OMITTABLE_PARAMETERS
            .into_iter()
            .find(|key| names(key) && body.get(*key).is_some())
        {
            self.omitted_parameters.insert(key);
            let is_own = key == OMITTABLE_PARAMETERS[0];
            let warning = format!("the model does not accept `{key}`, which was left out of the request");
            return Some((!is_own).then_some(warning));
        }
        if REASONING_KEYS.iter().any(names)
            && self.returned_reasoning != ReasoningToSend::Nothing
            && contains_reasoning(body)
        {
            self.returned_reasoning = ReasoningToSend::Nothing;
            return Some(None);
        }
        None
    }
}

/// Removes the marks for a prompt cache, also inside of lists and maps.
fn strip_cache_marks(value: &mut Value) {
    match value {
        Value::Array(all) => all.iter_mut().for_each(strip_cache_marks),
        Value::Object(map) => {
            map.shift_remove(CACHE_MARK_KEY);
            if let Some(content) = map.get_mut("content") {
                strip_cache_marks(content);
            }
        }
        _ => {}
    }
}

/// Returns whether a message in the body contains reasoning.
fn contains_reasoning(body: &Value) -> bool {
    let messages = body["messages"].as_array().into_iter().flatten();
    let mut keys = messages.filter_map(Value::as_object).flat_map(|message| message.keys());
    keys.any(|key| REASONING_KEYS.contains(&key.as_str()))
}

/// Returns whether the text contains the word, not only as a part of a longer name.
fn contains_whole_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + word.len()..]);
        !before.ends_with(is_part) && !after.starts_with(is_part)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns the body after everything that these refusals teach.
    fn taught(body: &Value, refusals: &[&str]) -> (Value, Vec<bool>) {
        let mut quirks = ModelQuirks::default();
        let mut learned = Vec::new();
        let mut sent = body.clone();
        for refusal in refusals {
            learned.push(quirks.record_quirk_from_refusal(&sent, refusal).is_some());
            sent = body.clone();
            quirks.adapt_request_body(&mut sent);
        }
        (sent, learned)
    }

    #[test]
    fn a_parameter_that_is_refused_is_changed_or_left_out() {
        let body = json!({"max_tokens": 9, "temperature": 0.5, "top_p": 0.9, "stream_options": {}, "seed": 1});
        let openai = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.";
        let (sent, _) = taught(&body, &[openai]);
        assert_eq!(
            (sent.get("max_tokens"), &sent["max_completion_tokens"]),
            (None, &json!(9))
        );
        let mistral = r#"{"detail":[{"type":"extra_forbidden","loc":["body","max_completion_tokens"],"msg":"Extra inputs are not permitted"}]}"#;
        assert_eq!(
            taught(&json!({"max_completion_tokens": 9}), &[mistral]).0,
            json!({"max_tokens": 9})
        );
        let (sent, _) = taught(
            &body,
            &["Unsupported value: 'temperature' does not support 0.5 with this model."],
        );
        assert_eq!((sent.get("temperature"), sent.get("top_p").is_some()), (None, true));
        let (sent, _) = taught(
            &body,
            &["`temperature` and `top_p` cannot both be specified for this model"],
        );
        assert_eq!((sent.get("top_p"), sent.get("temperature").is_some()), (None, true));
        let (sent, _) = taught(&body, &["unknown field `stream_options`"]);
        assert_eq!(sent.get("stream_options"), None);
    }

    #[test]
    fn marks_for_a_cache_are_left_out_where_they_are_refused() {
        let mark = json!({"type": "ephemeral"});
        let body = json!({"system": [{"text": "a", CACHE_MARK_KEY: mark}], "messages": [{"content": [{"text": "b", CACHE_MARK_KEY: mark}]}]});
        let (sent, learned) = taught(
            &body,
            &["messages.0.content.0.cache_control: Extra inputs are not permitted"],
        );
        let expected = json!({"system": [{"text": "a"}], "messages": [{"content": [{"text": "b"}]}]});
        assert_eq!((sent, learned), (expected, vec![true]));
    }

    #[test]
    fn nothing_is_learned_from_other_refusals() {
        let body = json!({"max_tokens": 9, "temperature": 3, "reasoning_effort": "x"});
        for refusal in [
            "max_tokens is too large: 100000",
            "temperature: Input should be less than or equal to 2",
            "Unsupported value: 'reasoning_effort' does not support 'x'",
            "unknown model",
        ] {
            assert_eq!(taught(&body, &[refusal]).1, [false], "{refusal}");
        }
        let twice = "max_tokens and max_completion_tokens are not supported";
        assert_eq!(taught(&body, &[twice, twice]).1, [true, false], "no end of trying");
    }

    #[test]
    fn reasoning_is_given_back_as_the_server_wants_it() {
        let messages = |reply: Value| json!({"messages": [{"role": "user", "content": "Hi"}, reply]});
        let body = messages(json!({"role": "assistant", "content": "Hello"}));
        let wanted = "The `reasoning_content` in the thinking mode must be passed back to the API.";
        let (sent, learned) = taught(&body, &[wanted]);
        assert_eq!(
            (&sent["messages"][1]["reasoning_content"], learned),
            (&json!(""), vec![true])
        );
        assert_eq!(taught(&body, &[wanted, wanted]).1, [true, false]);
        let body = messages(json!({"role": "assistant", "content": "Hello", "reasoning": "Hm"}));
        let (sent, _) = taught(&body, &["property 'messages.1.reasoning' is unsupported"]);
        assert_eq!(sent["messages"][1].get("reasoning"), None);
    }
}
