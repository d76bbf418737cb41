//! Counts of tokens by a tokenizer of the caller.

use super::{Message, Thread};

/// A tokenizer: counts the tokens of a text for one model. Every function `Fn(&str) -> u64` is one.
///
/// ```
/// use ensemble_core::thread::{Thread, TextTokenizer};
///
/// let words = |text: &str| text.split_whitespace().count() as u64;
/// let thread = Thread::new("What is the weather?", None, chrono::DateTime::UNIX_EPOCH);
/// assert_eq!(thread.count_tokens(&words), 4);
/// assert_eq!(words.count_text_tokens("two words"), 2);
/// ```
pub trait TextTokenizer: Send + Sync {
    /// Returns the number of tokens of the text.
    fn count_text_tokens(&self, text: &str) -> u64;
}

impl<F: Fn(&str) -> u64 + Send + Sync> TextTokenizer for F {
    fn count_text_tokens(&self, text: &str) -> u64 {
        self(text)
    }
}

impl Thread {
    /// Counts the tokens of all messages, tool calls and results. Omits files, and tokens that a provider adds to each message.
    pub fn count_tokens(&self, tokenizer: &dyn TextTokenizer) -> u64 {
        self.to_messages()
            .iter()
            .map(|message| message.count_tokens(tokenizer))
            .sum()
    }
}

impl Message {
    /// Counts the tokens of the text, the tool calls and their results.
    pub fn count_tokens(&self, tokenizer: &dyn TextTokenizer) -> u64 {
        let calls = self.tool_calls.iter().map(|call| {
            let result = call.end.as_ref().map(|_| call.text_for_model());
            let texts = [call.name.clone(), call.arguments.to_string()]
                .into_iter()
                .chain(result);
            texts.map(|text| tokenizer.count_text_tokens(&text)).sum::<u64>()
        });
        tokenizer.count_text_tokens(&self.content) + calls.sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use serde_json::json;

    use super::*;
    use crate::thread::{ToolCall, ToolCallEnd};

    #[test]
    fn calls_count_with_their_arguments_and_results() {
        let characters = |text: &str| text.chars().count() as u64;
        let call = ToolCall::new("1", "look", json!([1]));
        let asked = Thread::new("four", None, DateTime::UNIX_EPOCH);
        let calling = |call| asked.clone().add_assistant_message("ok", vec![call]).expect("fits");
        assert_eq!(asked.count_tokens(&characters), 4);
        assert_eq!(calling(call.clone()).count_tokens(&characters), 4 + 2 + 4 + 3);
        let ended = call.with_end(ToolCallEnd::Result(json!("seventy")), 0.0);
        assert_eq!(calling(ended).count_tokens(&characters), 4 + 2 + 4 + 3 + 7);
    }
}
