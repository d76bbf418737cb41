//! Recognizes the errors of requests that are longer than the model can process.

/// Phrases of errors about a request that is too long, in lower case.
const CONTEXT_TOO_LONG_PHRASES: [&str; 14] = [
    "context_length_exceeded",
    "context length",
    "context window",
    "context size",
    "exceed_context_size",
    "exceed context limit",
    "prompt is too long",
    "input is too long",
    "prompt too long",
    "maximum prompt length",
    "too many input tokens",
    "input token count",
    "model_max_prompt_tokens_exceeded",
    "reduce the length of the messages",
];

/// Returns whether the error, in lower case, says that the request exceeds the context of the model.
pub(crate) fn says_context_too_long(said: &str) -> bool {
    CONTEXT_TOO_LONG_PHRASES.iter().any(|words| said.contains(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_errors_of_providers_are_known_from_others() {
        let too_long = [
            "This model's maximum context length is 128000 tokens. However, your messages resulted in 130013 tokens.",
            "Your input exceeds the context window of this model. Please adjust your input and try again.",
            "prompt is too long: 213009 tokens > 200000 maximum",
            "input length and `max_tokens` exceed context limit: 199000 + 8192 > 200000",
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
            "the request exceeds the available context size, try increasing it",
            "the input length exceeds the context length",
            "Prompt contains 40021 tokens, too large for model with 32768 maximum context length",
            "This model's maximum prompt length is 131072 but the request contains 140000 tokens.",
            "Input is too long for requested model.",
        ];
        for said in too_long {
            assert!(says_context_too_long(&said.to_lowercase()), "{said}");
        }
        let others = [
            "Request too large for gpt-4o: Limit 30000 tokens per min",
            "max_tokens is too large: 9000",
            "Invalid schema for response_format",
        ];
        for said in others {
            assert!(!says_context_too_long(&said.to_lowercase()), "{said}");
        }
    }
}
