//! The number of tokens of a message: counted by the tokenizer of the model if it is known, otherwise estimated.

use std::collections::HashMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use tiktoken_rs::tokenizer::{Tokenizer, get_tokenizer};

use ensemble_core::thread::{Message, TextTokenizer, ToolCall};
use ensemble_models::{estimate_attachment_tokens, estimate_result_file_tokens, estimate_tokens};

/// Tokens that the format of a chat adds to each message of a model whose tokenizer is known.
const TOKENS_PER_MESSAGE: u64 = 4;

/// The maximum number of bytes for one call of the tokenizer, whose regular expressions may backtrack.
const MAX_PIECE_BYTES: usize = 16 << 10;

/// Counter of tokens for one model, with a cache of the counted texts.
#[derive(Default)]
pub struct TokenCounter {
    /// The model has the vocabulary `o200k`, the only one in the program.
    has_o200k: bool,
    /// A tokenizer of the caller, which is used instead.
    tokenizer: Option<Arc<dyn TextTokenizer>>,
    /// The counts by the hash of the text.
    counts: Mutex<HashMap<u64, u64>>,
}

impl TokenCounter {
    /// Creates a counter for a model name in the spelling of its provider. Loads the tokenizer (0.1 s) with the first message.
    pub fn for_model(model: &str) -> Self {
        let name = model.rsplit('/').next().unwrap_or(model).replace(':', "-");
        Self {
            has_o200k: matches!(
                get_tokenizer(&name),
                Some(Tokenizer::O200kBase | Tokenizer::O200kHarmony)
            ),
            ..Self::default()
        }
    }

    /// Creates a counter with a tokenizer of the caller.
    pub fn with_tokenizer(tokenizer: Arc<dyn TextTokenizer>) -> Self {
        Self {
            tokenizer: Some(tokenizer),
            ..Self::default()
        }
    }

    /// Returns whether the counts are estimates, because the tokenizer of the model is not known.
    pub fn is_estimate(&self) -> bool {
        !self.has_o200k && self.tokenizer.is_none()
    }

    /// Returns the minimum number of tokens of a message.
    pub(super) fn min_message_tokens(&self) -> u64 {
        match self.has_o200k {
            true => TOKENS_PER_MESSAGE,
            false => 0,
        }
    }

    /// Counts the tokens of each message. The first call is slow because it loads the tokenizer.
    pub fn count_each_message(&self, messages: &[Message]) -> Vec<u64> {
        messages.iter().map(|message| self.count_message(message)).collect()
    }

    /// Counts the tokens of a text, and caches the count.
    pub fn count_text(&self, text: &str) -> u64 {
        self.count_cached(text)
    }

    /// Counts the tokens of a message without the results of its tool calls.
    pub fn count_without_results(&self, message: &Message) -> u64 {
        let attached: u64 = message.attachments.iter().map(estimate_attachment_tokens).sum();
        if message.tool_calls.is_empty() {
            return self.count_cached(&message.content) + attached;
        }
        let mut text = message.content.clone();
        for call in &message.tool_calls {
            text.push_str(&format!("\n{}\n{}", call.name, call.arguments));
        }
        self.count_cached(&text)
    }

    /// Counts the tokens of a text without the cache.
    pub(super) fn count_uncached(&self, text: &str) -> u64 {
        match (&self.tokenizer, self.has_o200k) {
            (Some(tokenizer), _) => tokenizer.count_text_tokens(text),
            (None, true) => count_o200k_tokens(text) + TOKENS_PER_MESSAGE,
            (None, false) => estimate_tokens(text),
        }
    }

    /// Counts the tokens of a message, including the results and files of its tool calls.
    fn count_message(&self, message: &Message) -> u64 {
        let result = |call: &ToolCall| self.count_cached(&call.text_for_model()) + estimate_result_file_tokens(call);
        self.count_without_results(message) + message.tool_calls.iter().map(result).sum::<u64>()
    }

    /// Counts the tokens of the text, or returns the cached count.
    fn count_cached(&self, text: &str) -> u64 {
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        let key = hasher.finish();
        if let Some(count) = self.lock_cache().get(&key) {
            return *count;
        }
        let count = self.count_uncached(text);
        self.lock_cache().insert(key, count);
        count
    }

    /// Locks the cache, also after a panic in another thread.
    fn lock_cache(&self) -> std::sync::MutexGuard<'_, HashMap<u64, u64>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for TokenCounter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenCounter")
            .field("has_o200k", &self.has_o200k)
            .field("has_tokenizer", &self.tokenizer.is_some())
            .finish_non_exhaustive()
    }
}

/// Counts the tokens of the text with the vocabulary `o200k`.
fn count_o200k_tokens(text: &str) -> u64 {
    let encoder = tiktoken_rs::o200k_base_singleton();
    let count = |piece: &str| encoder.encode_ordinary(piece).len() as u64;
    split_pieces(text).map(count).sum()
}

/// Splits the text into pieces of limited size.
fn split_pieces(mut text: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let (piece, rest) = text.split_at(text.floor_char_boundary(MAX_PIECE_BYTES));
        text = rest;
        (!piece.is_empty()).then_some(piece)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use ensemble_core::thread::{MessageRole, ToolCallEnd};

    #[test]
    fn models_whose_tokenizer_is_known_are_counted() {
        let known = [
            "gpt-4o-mini",
            "gpt-4.1",
            "o3",
            "openai/gpt-4o",
            "gpt-5.1",
            "gpt-oss:20b",
        ];
        for model in known {
            assert!(!TokenCounter::for_model(model).is_estimate(), "{model}");
        }
        let estimated = [
            "llama3.2:1b",
            "claude-sonnet-4",
            "",
            "gemini-2.5-flash",
            "mistral/nemo",
            "gpt-4",
            "gpt-3.5-turbo",
        ];
        for model in estimated {
            assert!(TokenCounter::for_model(model).is_estimate(), "{model}");
        }
        // "tiktoken is great!" is OpenAI's own example: six tokens.
        let counter = TokenCounter::for_model("gpt-4o");
        assert_eq!(counter.count_text("tiktoken is great!"), 6 + TOKENS_PER_MESSAGE);
        assert_eq!(counter.count_text(""), TOKENS_PER_MESSAGE);
        let long = "word ".repeat(10_000);
        let count = counter.count_text(&long);
        assert!((10_000..10_050).contains(&count), "{count}");
    }

    #[test]
    fn others_are_estimated() {
        let counter = TokenCounter::for_model("llama3");
        for text in ["", "one", "one two three", "多語言的句子沒有空格"] {
            assert_eq!(counter.count_text(text), estimate_tokens(text), "{text}");
        }
    }

    #[test]
    fn a_tool_call_counts_with_its_arguments_and_its_result() {
        let counter = TokenCounter::for_model("llama3");
        let call = ToolCall::new("1", "weather", json!({"city": "Paris"}));
        let message = |calls| Message {
            tool_calls: calls,
            ..Message::new(MessageRole::Assistant, "Let me see.")
        };
        let plain = message(vec![]);
        let open = message(vec![call.clone()]);
        let ended = message(vec![
            call.with_end(ToolCallEnd::Result(json!("It is sunny and warm there.")), 0.1),
        ]);
        let counts = counter.count_each_message(&[plain, open, ended]);
        assert_eq!(counts[0], 3);
        assert!(counts[0] < counts[2] && counts[2] > counts[0] + 7, "{counts:?}");
    }
}
