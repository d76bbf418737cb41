//! Recognizes the errors of requests that are longer than the model can process.

use reqwest::StatusCode;

/// What the errors of providers and servers contain, in lower case.
const WORDS: [&str; 14] = [
    // OpenAI, Groq, DeepSeek, OpenRouter, vLLM.
    "context_length_exceeded",
    "maximum context length",
    "exceeds the context window",
    // xAI.
    "maximum prompt length",
    // Anthropic.
    "prompt is too long",
    "exceed context limit",
    "exceeds model context window",
    // Gemini.
    "exceeds the maximum number of tokens allowed",
    // Ollama and llama.cpp.
    "exceeds the available context size",
    "exceed_context_size_error",
    "exceeds the context length",
    "exceeds maximum context length",
    // Mistral.
    "too large for model with",
    // Bedrock and others behind a gateway.
    "input is too long for requested model",
];

/// Does the error say that the request is longer than the context of the model? `status` is missing if the error is
/// part of a stream.
pub(super) fn is_too_long(status: Option<StatusCode>, text: &str) -> bool {
    // 429 is about the number of tokens in a minute.
    let can_be = status.is_none_or(|status| matches!(status.as_u16(), 400 | 413 | 422 | 500..=599));
    let text = text.to_lowercase();
    can_be && WORDS.iter().any(|words| text.contains(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_errors_of_providers_are_known_from_others() {
        let rows = [
            (
                400,
                r#"{"error": {"message": "This model's maximum context length is 128000 tokens. However, your messages resulted in 130013 tokens.", "code": "context_length_exceeded"}}"#,
                true,
            ),
            (
                400,
                r#"{"error": {"message": "Your input exceeds the context window of this model. Please adjust your input and try again."}}"#,
                true,
            ),
            (
                400,
                r#"{"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 213009 tokens > 200000 maximum"}}"#,
                true,
            ),
            (
                400,
                r#"{"error": {"message": "input length and `max_tokens` exceed context limit: 199000 + 8192 > 200000"}}"#,
                true,
            ),
            (
                400,
                r#"{"error": {"code": 400, "message": "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", "status": "INVALID_ARGUMENT"}}"#,
                true,
            ),
            (
                400,
                r#"{"error": {"code": 400, "message": "the request exceeds the available context size, try increasing it", "type": "exceed_context_size_error"}}"#,
                true,
            ),
            (500, r#"{"error": "the input length exceeds the context length"}"#, true),
            (
                400,
                r#"{"message": "Prompt contains 40021 tokens and 0 draft tokens, too large for model with 32768 maximum context length"}"#,
                true,
            ),
            (
                400,
                r#"{"error": "This model's maximum prompt length is 131072 but the request contains 140000 tokens."}"#,
                true,
            ),
            (
                429,
                r#"{"error": {"message": "Request too large for gpt-4o: Limit 30000 tokens per min"}}"#,
                false,
            ),
            (429, "maximum context length", false),
            (401, "maximum context length", false),
            (400, r#"{"error": {"message": "max_tokens is too large: 9000"}}"#, false),
            (400, r#"{"error": {"message": "Invalid schema"}}"#, false),
        ];
        for (status, body, expected) in rows {
            let status = StatusCode::from_u16(status).expect("a status");
            assert_eq!(is_too_long(Some(status), body), expected, "{status} {body}");
        }
        assert!(is_too_long(None, "Prompt is too long"));
    }
}
