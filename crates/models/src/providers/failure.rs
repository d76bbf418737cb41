//! The errors of requests: messages that say what to do, and whether a retry may help.

use std::error::Error as _;

use chrono::{DateTime, Utc};
use reqwest::StatusCode;
use reqwest::header::{HeaderMap, LOCATION, RETRY_AFTER};
use serde_json::Value;

use crate::providers::address::ProviderAddress;
use crate::transport::context_length::says_context_too_long;
use crate::transport::credentials::{ProviderCredentials, api_key_variable};
use crate::transport::pauses::{parse_reported_limits, requested_pause};
use crate::transport::reply_error::ReplyError;
use crate::{ModelError, ModelErrorKind};
use ensemble_language::ensemble::{HttpProvider, ModelProfile, ProviderApi};

/// The maximum number of characters of a provider message that an error quotes.
const MAX_QUOTED_CHARS: usize = 400;

/// Target of a request, for error messages.
pub(crate) struct RequestTarget<'a> {
    pub(crate) provider: &'static HttpProvider,
    pub(crate) profile: &'a ModelProfile,
    pub(crate) credentials: &'a ProviderCredentials,
    /// The address that is asked.
    pub(crate) address: &'a ProviderAddress,
    /// Was a schema sent that the reply has to match?
    pub(crate) has_schema: bool,
}

impl RequestTarget<'_> {
    /// Returns the name of the provider, with its address if the profile sets one.
    fn provider_with_address(&self) -> String {
        match self.address.is_usual {
            false => format!("{} at {}", self.provider.name, self.address.base),
            true => self.provider.name.to_owned(),
        }
    }

    /// Creates an error with redacted message and without a retry pause.
    fn redacted_model_error(&self, message: String, retryable: bool) -> ModelError {
        ModelError {
            message: self.credentials.redact_fragment(&message),
            retryable,
            retry_after: None,
            kind: ModelErrorKind::OtherFailure,
            limits: Vec::new(),
        }
    }

    /// Creates the error of a connection that failed, or was lost before the response.
    pub(crate) fn connection_error(&self, error: &reqwest::Error) -> ModelError {
        let base_url = &self.address.base;
        if is_connection_refused(error) {
            let advice = match self.provider.dialect {
                ProviderApi::Ollama => "is Ollama running? `ollama serve` starts it",
                _ => "is the server running, and is `base_url` right?",
            };
            // Nobody starts a server on this machine within a few seconds, so a fallback need not wait.
            let local_hosts = ["//localhost", "//127.", "//[::1]"];
            let retryable = !local_hosts.iter().any(|host| base_url.contains(host));
            return self.redacted_model_error(format!("nothing listens at {base_url}; {advice}"), retryable);
        }
        if error.is_builder() {
            return self.redacted_model_error(
                format!("the request cannot be built: {}", innermost_cause(error)),
                false,
            );
        }
        let message = match (error.is_timeout(), error.is_connect()) {
            (true, true) => format!("{base_url} cannot be reached: no connection in time"),
            (_, true) => format!("{base_url} cannot be reached: {}", innermost_cause(error)),
            _ => format!("the connection to {base_url} broke off: {}", innermost_cause(error)),
        };
        self.redacted_model_error(message, true)
    }

    /// Creates the error of a reply that started and cannot be used.
    pub(crate) fn unusable_reply_error(&self, broken: ReplyError) -> ModelError {
        let provider = self.provider_with_address();
        match broken {
            ReplyError::TooLarge => {
                let max_mebibytes = crate::transport::frames::MAX_EVENT_BYTES >> 20;
                self.redacted_model_error(
                    format!("the reply of {provider} has more than {max_mebibytes} MiB"),
                    false,
                )
            }
            ReplyError::Malformed(what) => self.redacted_model_error(
                format!("the reply of {provider} is malformed: {}", shorten_to_one_line(&what)),
                true,
            ),
            ReplyError::CutOff => {
                self.redacted_model_error(format!("the reply of {provider} broke off before its end"), true)
            }
            ReplyError::SilentTooLong(silence) => {
                let message = format!("{provider} sent nothing for {} s", silence.as_secs());
                self.redacted_model_error(message, true)
            }
            ReplyError::ConnectionLost(cause) => self.redacted_model_error(
                format!("the reply of {provider} broke off: {}", shorten_to_one_line(&cause)),
                true,
            ),
            ReplyError::ReportedByProvider { message, retryable } => {
                let kind = error_kind_from_message(&message.to_lowercase()).unwrap_or_default();
                let may_pass = retryable && kind == ModelErrorKind::OtherFailure;
                ModelError {
                    kind,
                    ..self.redacted_model_error(
                        format!("{provider} failed: {}", shorten_to_one_line(&message)),
                        may_pass,
                    )
                }
            }
        }
    }

    /// The answer has a content type that a reply cannot have.
    pub(crate) fn unexpected_content_type_error(&self, content_type: &str, start: &str) -> ModelError {
        let (who, start) = (self.provider_with_address(), shorten_to_one_line(start));
        let message = format!("{who} answered with {content_type} instead of a reply: {start}; is `base_url` right?");
        self.redacted_model_error(message, false)
    }

    /// Creates the error of a response with an error status.
    pub(crate) fn status_error(
        &self,
        status: StatusCode,
        headers: &HeaderMap,
        body: &str,
        now: DateTime<Utc>,
    ) -> ModelError {
        let server_message = find_error_message(body);
        let mut message = format!("{} answered {status}", self.provider_with_address());
        if let Some(server_message) = &server_message {
            message.push_str(": ");
            message.push_str(&shorten_to_one_line(server_message));
        }
        let advice = match is_quota_exhausted(status, headers, body) {
            true => Some("the account has no quota left: add credit, or use another key".to_owned()),
            false => self.status_advice(status, headers),
        };
        if let Some(advice) = advice {
            message.push_str("; ");
            message.push_str(&advice);
        }
        ModelError {
            retry_after: requested_pause(status, headers, body, now),
            limits: parse_reported_limits(headers, body, now),
            kind: classify_status(status, headers, body, self.has_schema),
            ..self.redacted_model_error(message, can_retry_help(status, headers, body))
        }
    }

    fn status_advice(&self, status: StatusCode, headers: &HeaderMap) -> Option<String> {
        let model = &self.profile.model;
        match status.as_u16() {
            401 | 403 => Some(match api_key_variable(self.profile, self.provider) {
                Some(name) => format!("is the key in {name} right?"),
                None => "no key was sent: name its environment variable with `api_key_env`".to_owned(),
            }),
            404 if self.provider.dialect == ProviderApi::Ollama => {
                Some(format!("run `ollama pull {model}` to fetch the model"))
            }
            404 if !self.address.is_usual => Some(format!(
                "is there a model `{model}`, and is `base_url` complete? It often ends with /v1"
            )),
            404 => Some(format!(
                "is there a model `{model}`? `ensemble models list` lists all models"
            )),
            300..=399 => {
                let to = headers.get(LOCATION).and_then(|to| to.to_str().ok());
                Some(match to {
                    Some(to) => format!(
                        "it redirects to {}; set `base_url` to the new address",
                        shorten_to_one_line(to)
                    ),
                    None => "it redirects to another address; set `base_url` to that address".to_owned(),
                })
            }
            _ => None,
        }
    }
}

/// Returns whether the same request can succeed later.
fn can_retry_help(status: StatusCode, headers: &HeaderMap, body: &str) -> bool {
    // No money comes from waiting.
    if is_quota_exhausted(status, headers, body) {
        return false;
    }
    match headers.get("x-should-retry").map(|told| told.as_bytes()) {
        Some(b"true") => return true,
        Some(b"false") => return false,
        _ => {}
    }
    match status.as_u16() {
        408 | 409 | 425 | 429 => true,
        501 | 505 => false,
        code => code >= 500,
    }
}

/// Words of errors that only a payment ends, in lower case.
const QUOTA_PHRASES: [&str; 10] = [
    "insufficient_quota",
    "billing_hard_limit_reached",
    "billing_not_active",
    "billing limit",
    "credit balance is too low",
    "insufficient balance",
    "insufficient credit",
    "insufficient funds",
    "out of credits",
    "payment required",
];

/// Words that also occur in errors that end by themselves: Gemini writes them for the limits of a minute, with a pause.
const QUOTA_PHRASES_WITHOUT_PAUSE: [&str; 2] = ["exceeded your current quota", "billing details"];

/// Returns whether the account has used up its quota or money. Reads only some statuses, because other bodies can repeat the request.
fn is_quota_exhausted(status: StatusCode, headers: &HeaderMap, body: &str) -> bool {
    if !matches!(status.as_u16(), 400 | 402 | 403 | 429) {
        return false;
    }
    let body = body.to_lowercase();
    let has_pause = headers.contains_key(RETRY_AFTER) || body.contains("retrydelay");
    let may_be_unpaid = status == StatusCode::TOO_MANY_REQUESTS && !has_pause;
    names_exhausted_quota(&body)
        || may_be_unpaid && QUOTA_PHRASES_WITHOUT_PAUSE.iter().any(|words| body.contains(words))
}

/// Returns whether the text, in lower case, contains a phrase about a used-up quota.
fn names_exhausted_quota(text: &str) -> bool {
    QUOTA_PHRASES.iter().any(|words| text.contains(words))
}

/// Words of providers whose content filter stops a request.
const CONTENT_FILTER_PHRASES: [&str; 8] = [
    "content_filter",
    "content filter",
    "content_policy",
    "content management policy",
    "responsibleaipolicyviolation",
    "data_inspection_failed",
    "content moderation",
    "safety system",
];

/// Finds the error kind that a message in lower case describes.
fn error_kind_from_message(said: &str) -> Option<ModelErrorKind> {
    let has = |words: &[&str]| words.iter().any(|word| said.contains(word));
    if has(&CONTENT_FILTER_PHRASES) {
        return Some(ModelErrorKind::ModelRefused);
    }
    says_context_too_long(said).then_some(ModelErrorKind::ContextTooLong)
}

/// Classifies an error response by its status, headers and body.
fn classify_status(status: StatusCode, headers: &HeaderMap, body: &str, has_schema: bool) -> ModelErrorKind {
    match status.as_u16() {
        400 | 403 | 413 | 422 => {}
        429 if is_quota_exhausted(status, headers, body) => return ModelErrorKind::OtherFailure,
        429 => return ModelErrorKind::RateLimited,
        503 if headers.contains_key(RETRY_AFTER) => return ModelErrorKind::RateLimited,
        // llama.cpp and others that report a request that is too long as an error of their own.
        500 => {
            let too_long =
                error_kind_from_message(&body.to_lowercase()).filter(|kind| *kind == ModelErrorKind::ContextTooLong);
            let files = body_rejects_files(body).then_some(ModelErrorKind::RefusedFiles);
            return too_long.or(files).unwrap_or_default();
        }
        404 if body_rejects_files(body) => return ModelErrorKind::RefusedFiles,
        _ => return ModelErrorKind::OtherFailure,
    }
    match error_kind_from_message(&body.to_lowercase()) {
        Some(kind) => kind,
        None if has_schema && rejects_schema(status, body) => ModelErrorKind::RefusedSchema,
        None if body_rejects_files(body) => ModelErrorKind::RefusedFiles,
        None => ModelErrorKind::OtherFailure,
    }
}

/// Returns whether the provider rejects an image or a document, by words in the body.
fn body_rejects_files(body: &str) -> bool {
    const WORDS: [&str; 8] = [
        "unknown variant",
        "image",
        "multimodal",
        "modalit",
        "vision",
        "mmproj",
        "inlinedata",
        "inline_data",
    ];
    let body = body.to_lowercase();
    WORDS.iter().any(|word| body.contains(word))
}

/// Returns whether the provider rejects the schema, by words in the body.
fn rejects_schema(status: StatusCode, body: &str) -> bool {
    const WORDS: [&str; 5] = [
        "schema",
        "response_format",
        "output_config",
        "responsemimetype",
        "\"format\"",
    ];
    let body = body.to_lowercase();
    matches!(status.as_u16(), 400 | 422) && WORDS.iter().any(|word| body.contains(word))
}

/// Finds the error message in the body of a response.
fn find_error_message(body: &str) -> Option<String> {
    let value: Option<Value> = serde_json::from_str(body).ok();
    let error_message = value.as_ref().and_then(|value| {
        let value = value.get(0).unwrap_or(value);
        let error = value.get("error").unwrap_or(value);
        let message = error.get("message").unwrap_or(error).as_str();
        let detail = || value.get("detail")?.as_str();
        message.or_else(detail).map(str::to_owned)
    });
    error_message
        .or_else(|| Some(body.to_owned()))
        .filter(|text| !text.trim().is_empty())
}

/// Returns the error that a stream reports, and whether a retry may help.
pub(crate) fn reported_stream_error(error: &Value) -> ReplyError {
    let message = error.get("message").unwrap_or(error);
    let message = message.as_str().map_or_else(|| message.to_string(), str::to_owned);
    let code = ["code", "status"].iter().find_map(|key| error.get(key)?.as_u64());
    let kind = error.get("type").and_then(Value::as_str).unwrap_or_default();
    let client_fault = code.is_some_and(|code| (400..500).contains(&code) && !matches!(code, 408 | 409 | 429));
    ReplyError::ReportedByProvider {
        message,
        retryable: !client_fault
            && !names_exhausted_quota(&error.to_string().to_lowercase())
            && !kind.contains("invalid")
            && !kind.contains("authentication"),
    }
}

/// Returns the text on one line, truncated to [`MAX_QUOTED_CHARS`] characters.
fn shorten_to_one_line(text: &str) -> String {
    let mut line = String::new();
    for word in text
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
    {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        if line.chars().count() > MAX_QUOTED_CHARS {
            line = line.chars().take(MAX_QUOTED_CHARS).collect();
            line.push('…');
            break;
        }
    }
    line
}

/// Returns whether a cause of the error is a refused connection.
fn is_connection_refused(error: &reqwest::Error) -> bool {
    let mut cause = error.source();
    while let Some(error) = cause {
        let io = error.downcast_ref::<std::io::Error>();
        if io.is_some_and(|io| io.kind() == std::io::ErrorKind::ConnectionRefused) {
            return true;
        }
        cause = error.source();
    }
    false
}

/// Returns the shortened innermost cause, because the other causes repeat the address. Returns a fixed text if the error has no cause.
pub(crate) fn innermost_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    if error.source().is_none() {
        return "no reason is known".to_owned();
    }
    shorten_to_one_line(&cause.to_string())
}

#[cfg(test)]
mod tests;
