//! Shortens tool results where nothing more can be left out.

use super::tokens::TokenCounter;
use ensemble_core::thread::{Message, ToolCallEnd};
use serde_json::Value;

/// The number of characters of a result that are always sent.
const MIN_KEPT_CHARS: usize = 400;

/// Result of shortening: the names of the tools, and the number of saved tokens.
#[derive(Debug, Default, PartialEq)]
pub(super) struct ShortenedResults {
    /// The name of the tool for each shortened result.
    pub(super) tools: Vec<String>,
    /// The number of tokens that are saved.
    pub(super) tokens: u64,
}

/// Shortens the largest tool results to their beginning and end, so that at least `excess` tokens are saved if possible.
///
/// Keeps the same number of characters of every shortened result.
pub(super) fn shorten_results(counter: &TokenCounter, messages: &mut [Message], excess: u64) -> ShortenedResults {
    let mut results: Vec<ShrinkableResult> = Vec::new();
    for (message, at) in messages.iter().zip(0..) {
        for (call, of_message) in message.tool_calls.iter().zip(0..) {
            let text = call.text_for_model();
            results.push(ShrinkableResult {
                place: (at, of_message),
                tokens: counter.count_text(&text),
                chars: text.chars().count(),
                text,
            });
        }
    }
    let saved = |chars: usize| {
        results
            .iter()
            .map(|result| result.count_saved_tokens(counter, chars))
            .sum::<u64>()
    };
    let longest = results.iter().map(|result| result.chars).max().unwrap_or_default();
    let (mut fits, mut too_long) = (MIN_KEPT_CHARS, longest);
    // More precision is of no use to the model.
    while too_long > fits + fits / 50 {
        let middle = fits.midpoint(too_long);
        match saved(middle) >= excess {
            true => fits = middle,
            false => too_long = middle,
        }
    }
    let mut shortened = ShortenedResults::default();
    for result in &results {
        let saved = result.count_saved_tokens(counter, fits);
        if saved > 0 {
            let (message, call) = result.place;
            let call = &mut messages[message].tool_calls[call];
            call.end = Some(ToolCallEnd::Result(Value::String(result.shorten_to(fits))));
            shortened.tools.push(call.name.clone());
            shortened.tokens += saved;
        }
    }
    shortened
}

/// Tool result that can be shortened.
struct ShrinkableResult {
    /// The indexes of the message and of the call.
    place: (usize, usize),
    text: String,
    chars: usize,
    tokens: u64,
}

impl ShrinkableResult {
    /// Counts the tokens that are saved if only this number of characters is kept.
    fn count_saved_tokens(&self, counter: &TokenCounter, chars: usize) -> u64 {
        match self.chars > chars {
            true => self
                .tokens
                .saturating_sub(counter.count_uncached(&self.shorten_to(chars))),
            false => 0,
        }
    }

    /// Returns the first and last characters with a note between them.
    fn shorten_to(&self, chars: usize) -> String {
        let tail = chars / 3;
        let head: String = self.text.chars().take(chars - tail).collect();
        let end: String = self.text.chars().skip(self.chars - tail).collect();
        let left_out = self.chars - chars;
        format!("{head}\n[… {left_out} characters are left out here, because the context window is too small …]\n{end}")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use ensemble_core::thread::{MessageRole, ToolCall};

    fn reply(results: &[(&str, usize)]) -> Message {
        let call = |(name, chars): &(&str, usize)| {
            let text: String = (0..*chars).map(|at| if at * 2 < *chars { 'a' } else { 'z' }).collect();
            ToolCall::new(*name, *name, json!({})).with_end(ToolCallEnd::Result(json!(text)), 0.1)
        };
        Message {
            tool_calls: results.iter().map(call).collect(),
            ..Message::new(MessageRole::Assistant, "")
        }
    }

    #[test]
    fn the_largest_result_loses_its_middle() {
        let counter = TokenCounter::for_model("llama3");
        let mut messages = [reply(&[("small", 1_000), ("large", 40_000)])];
        let before: u64 = counter.count_each_message(&messages).iter().sum();
        let shortened = shorten_results(&counter, &mut messages, 5_000);
        assert_eq!(shortened.tools, ["large"]);
        assert!((5_000..5_500).contains(&shortened.tokens), "{}", shortened.tokens);
        assert_eq!(
            before - counter.count_each_message(&messages).iter().sum::<u64>(),
            shortened.tokens
        );
        let told = messages[0].tool_calls[1].text_for_model();
        assert!(told.starts_with("aaa") && told.ends_with("zzz"), "{told}");
        assert!(told.contains(" characters are left out here, because the context window is too small …]"));
    }

    #[test]
    fn a_small_result_stays_as_it_is() {
        let counter = TokenCounter::for_model("llama3");
        let mut messages = [reply(&[("small", 300), ("also small", 450)])];
        let same = messages.clone();
        assert_eq!(
            shorten_results(&counter, &mut messages, 5_000),
            ShortenedResults::default()
        );
        assert_eq!(messages, same);
    }
}
