//! Keys of model profiles.

use super::shapes::{DELAY, FILLED, FLAG, MAP, SECONDS, SHARE, TEXT, VARIABLE, WHOLE};
use super::{SectionKey, keys};

/// The keys of a model profile.
pub(in crate::vocabulary) static PROFILE: &[SectionKey] = keys![
    "provider": r#"{"type": "string", "enum": ["simulated", "openai", "anthropic", "gemini", "ollama", "openrouter",
           "groq", "deepseek", "xai"], "enumDescriptions": ["Prepared replies, or a script; no network, no key.",
           "OpenAI, or any server with an OpenAI-compatible API.", "Anthropic.", "Google's Gemini.",
           "Ollama, on this machine or at the address in `OLLAMA_HOST`.", "OpenRouter.", "Groq.", "DeepSeek.",
           "xAI."]}"#,
        "The provider. `simulated` answers with `replies` or a `script`, and needs no network. For any server with an \
         OpenAI-compatible API, use `openai` with a `base_url`.", eg r#"["ollama"]"#;
    "model": FILLED, "The name that the provider uses for the model; required unless the provider is `simulated`.",
        eg r#"["llama3"]"#;
    "base_url": r#"{"type": "string", "pattern": "^https?://[^@/?#\\s]+(/[^?#\\s]*)?(\\?[^#\\s]*)?$"}"#,
        "Another address of the provider. The provider's own API key is not sent to this address. If the address has \
         no path, `/v1` is added. A query, such as `?api-version=…`, is part of every request. Default: the provider's \
         own address.",
        eg r#"["http://localhost:8000/v1"]"#;
    "api_key_env": VARIABLE,
        "The name of the environment variable that contains the key, not the key itself. Default: the provider's own \
         variable; with a `base_url`, none.", eg r#"["OPENAI_API_KEY"]"#;
    "headers": r##"{"type": "object", "propertyNames": {"pattern": "^[!#$%&'*+.^_`|~A-Za-z0-9-]+$"},
           "additionalProperties": {"description": "The value of the header.", "oneOf": [{"type": "string"},
           {"$ref": "#/$defs/header"}]}}"##,
        "Headers of every request: a map from header names to strings, or to `{env: NAME}` for the value of an \
         environment variable. Default: none.", eg r#"[{"X-Title": "my ensemble"}]"#;
    "system_prompt": TEXT, "Text before the agent's own system prompt; a template.",
        eg r#"["You write short sentences."]"#;
    "temperature": r#"{"type": "number", "minimum": 0, "maximum": 10}"#,
        "Sampling temperature. Default: the provider's.", eg r#"[0.2]"#;
    "top_p": SHARE, "Nucleus sampling. Default: the provider's.", eg r#"[0.9]"#;
    "max_tokens": WHOLE, "Maximum number of tokens of a reply. Default: the provider's.", eg r#"[500]"#;
    "context_window": WHOLE,
        "Maximum number of tokens of a request and its reply together. Agents whose `context_window` has no \
         `max_tokens` send requests of at most this size, less `max_tokens` of the reply. Default: no limit.",
        eg r#"[128000]"#;
    "seed": r#"{"type": "integer", "maximum": 9223372036854775807, "minimum": -9223372036854775808}"#,
        "Sampling seed. Default: none.", eg r#"[7]"#;
    "options": r#"{"type": "object", "propertyNames": {"not": {"enum": ["model", "messages", "contents", "system",
           "systemInstruction", "system_instruction", "stream", "stream_options", "n", "candidateCount", "tools",
           "functions", "functionDeclarations", "temperature", "top_p", "topP", "seed", "max_tokens",
           "max_completion_tokens", "maxOutputTokens", "num_predict", "response_format", "format",
           "responseMimeType", "responseSchema", "responseJsonSchema"]}}}"#,
        "Further parameters of the provider. They are added unchanged to the body of every request; for Ollama, to its \
         `options`. A key that the program itself sets is an error. Default: none.",
        eg r#"[{"reasoning_effort": "low"}]"#;
    "timeout_seconds": SECONDS, "Time limit of one request. Default: none.", eg r#"[30]"#;
    "retry": "#retry",
        "How often and when a failed request is retried. Default: 3 attempts for real providers, 1 for `simulated`.",
        eg r#"[{"max_attempts": 3}]"#;
    "fallback": FILLED, "The profile that is used if this profile cannot answer. Default: none.", eg r#"["steady"]"#;
    "rate_limit": "#rate_limit",
        "The limits of all requests that the program makes with this profile. Default: none.",
        eg r#"[{"requests_per_minute": 60}]"#;
    "prompt_cache": FLAG,
        "`true`: requests to Anthropic are marked, so that the provider reads a repeated beginning of a prompt from \
         its cache.", default "true", eg r#"[false]"#;
    "cost": "#cost", "The price of the model's tokens. Default: unknown.",
        eg r#"[{"input_per_million": 0.15, "output_per_million": 0.6}]"#;
    "replies": r##"{"type": "array", "minItems": 1, "items": {"oneOf": [{"type": "string"}, {"$ref": "#/$defs/reply"}]}}"##,
        "Simulated: the n-th request of an agent gets the n-th reply, the last reply repeats. `{error: text}` fails, \
         `{text, tool_calls}` calls tools.",
        eg r#"[["The first reply.", {"error": "overloaded"}, "Every later one."]]"#;
    "script": FILLED,
        "Simulated: a `.rhai` script whose last value is the reply. Its variables are `messages`, `prompt`, \
         `execution`. A map with `tool_calls` calls tools.", eg r#"["reply.rhai"]"#;
];

/// The keys of a reply of a simulated model.
pub(in crate::vocabulary) static REPLY: &[SectionKey] = keys![
    "error": TEXT, "The message of the failure.", eg r#"["overloaded"]"#;
    "text": TEXT, "The text of the reply, in addition to its tool calls. Default: nothing.", eg r#"["Let me look."]"#;
    "tool_calls": r##"{"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/tool_call"}}"##,
        "The tools that the model calls, in parallel.", eg r#"[[{"name": "search", "arguments": {"word": "tide"}}]]"#;
];

/// The keys of an item of `tool_calls`.
pub(in crate::vocabulary) static CALLED_TOOL: &[SectionKey] = keys![
    "name": FILLED, "The name of the tool as the model sees it: `search`, or `server__tool` for an MCP server.",
        eg r#"["search"]"#;
    "arguments": MAP, "The arguments of the call. Default: nothing.", eg r#"[{"word": "tide"}]"#;
];

/// The keys of `cost`.
pub(in crate::vocabulary) static COST: &[SectionKey] = keys![
    "input_per_million": DELAY, "The price of a million input tokens.", eg r#"[0.15]"#;
    "cached_per_million": DELAY,
        "The price of a million input tokens that the provider reads from its own cache of prompts. Default: \
         `input_per_million`.", eg r#"[0.075]"#;
    "output_per_million": DELAY, "The price of a million output tokens.", eg r#"[0.6]"#;
];

/// The keys of `rate_limit`.
pub(in crate::vocabulary) static RATE_LIMIT: &[SectionKey] = keys![
    "requests_per_minute": WHOLE, "Maximum number of requests in a minute. Default: no limit.", eg r#"[60]"#;
    "tokens_per_minute": WHOLE, "Maximum number of tokens of requests and replies in a minute. Default: no limit.",
        eg r#"[100000]"#;
    "concurrent": WHOLE, "Maximum number of requests at the same time. Default: no limit.", eg r#"[4]"#;
];

/// The keys of a header.
pub(in crate::vocabulary) static HEADER: &[SectionKey] = keys![
    "env": VARIABLE, "The name of the environment variable.", eg r#"["COMPANY_KEY"]"#;
];
