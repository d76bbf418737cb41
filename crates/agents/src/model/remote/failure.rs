//! The errors of requests: messages that say what to do, and whether a retry may help.

use std::error::Error as _;

use chrono::{DateTime, Utc};
use reqwest::StatusCode;
use reqwest::header::{HeaderMap, LOCATION, RETRY_AFTER};
use serde_json::Value;

use super::address::Address;
use super::context_length::is_too_long;
use super::credentials::{Credentials, key_variable};
use super::pauses::pause;
use super::reply_error::ReplyError;
use crate::model::{ModelError, ModelErrorKind};
use ensemble_language::ensemble::{Dialect, Profile, Provider};

/// The maximum number of characters of a provider message that an error quotes.
const MAX_QUOTED: usize = 400;

/// The target of a request, for error messages.
pub(super) struct Target<'a> {
    pub(super) provider: &'static Provider,
    pub(super) profile: &'a Profile,
    pub(super) credentials: &'a Credentials,
    /// The address that is asked.
    pub(super) address: &'a Address,
    /// Was a schema sent that the reply has to match?
    pub(super) has_schema: bool,
}

impl Target<'_> {
    /// The name of the provider, with its address if the profile sets one.
    fn provider_name(&self) -> String {
        match self.address.is_usual {
            false => format!("{} at {}", self.provider.name, self.address.base),
            true => self.provider.name.to_owned(),
        }
    }

    fn error(&self, message: String, retryable: bool) -> ModelError {
        ModelError {
            message: self.credentials.scrub(message),
            retryable,
            retry_after: None,
            kind: ModelErrorKind::Failed,
        }
    }

    /// The connection failed, or broke off before the answer.
    pub(super) fn unreachable(&self, error: &reqwest::Error) -> ModelError {
        let base_url = &self.address.base;
        if refused(error) {
            let advice = match self.provider.dialect {
                Dialect::Ollama => "is Ollama running? `ollama serve` starts it",
                _ => "is the server running, and is `base_url` right?",
            };
            // Nobody starts a server on this machine within a few seconds, so a fallback need not wait.
            let here = ["//localhost", "//127.", "//[::1]"];
            let retryable = !here.iter().any(|host| base_url.contains(host));
            return self.error(format!("nothing listens at {base_url}; {advice}"), retryable);
        }
        if error.is_builder() {
            return self.error(format!("the request cannot be made: {}", causes(error)), false);
        }
        let what = match (error.is_timeout(), error.is_connect()) {
            (true, true) => format!("{base_url} cannot be reached: no connection in time"),
            (_, true) => format!("{base_url} cannot be reached: {}", causes(error)),
            _ => format!("the connection to {base_url} broke off: {}", causes(error)),
        };
        self.error(what, true)
    }

    /// The reply began and cannot be used.
    pub(super) fn reply_error(&self, broken: ReplyError) -> ModelError {
        let who = self.provider_name();
        match broken {
            ReplyError::TooLarge => {
                let most = super::frames::MAX_EVENT_BYTES >> 20;
                self.error(format!("the reply of {who} has more than {most} MiB"), false)
            }
            ReplyError::Malformed(what) => {
                self.error(format!("the reply of {who} is malformed: {}", shortened(&what)), true)
            }
            ReplyError::Cut => self.error(format!("the reply of {who} broke off before its end"), true),
            ReplyError::Silent(silence) => {
                let message = format!("{who} sent nothing for {} s", silence.as_secs());
                self.error(message, true)
            }
            ReplyError::Lost(cause) => self.error(format!("the reply of {who} broke off: {}", shortened(&cause)), true),
            ReplyError::Reported { message, retryable } => {
                let kind = said_kind(&message.to_lowercase()).unwrap_or_default();
                let may_pass = retryable && kind == ModelErrorKind::Failed;
                ModelError {
                    kind,
                    ..self.error(format!("{who} failed: {}", shortened(&message)), may_pass)
                }
            }
        }
    }

    /// The answer has a content type that a reply cannot have.
    pub(super) fn unexpected_content_type(&self, content_type: &str, start: &str) -> ModelError {
        let (who, start) = (self.provider_name(), shortened(start));
        let message = format!("{who} answered with {content_type} instead of a reply: {start}; is `base_url` right?");
        self.error(message, false)
    }

    /// The answer has an error status.
    pub(super) fn refusal(
        &self,
        status: StatusCode,
        headers: &HeaderMap,
        body: &str,
        now: DateTime<Utc>,
    ) -> ModelError {
        let said = said(body);
        let mut message = format!("{} answered {status}", self.provider_name());
        if let Some(said) = &said {
            message.push_str(": ");
            message.push_str(&shortened(said));
        }
        if let Some(advice) = self.advice(status, headers) {
            message.push_str("; ");
            message.push_str(&advice);
        }
        ModelError {
            retry_after: pause(status, headers, body, now),
            kind: kind_of(status, headers, body, self.has_schema),
            ..self.error(message, may_help(status, headers, body))
        }
    }

    fn advice(&self, status: StatusCode, headers: &HeaderMap) -> Option<String> {
        let model = &self.profile.model;
        match status.as_u16() {
            401 | 403 => Some(match key_variable(self.profile, self.provider) {
                Some(name) => format!("is the key in {name} right?"),
                None => "no key was sent: name its environment variable with `api_key_env`".to_owned(),
            }),
            404 if self.provider.dialect == Dialect::Ollama => Some(format!("`ollama pull {model}` fetches a model")),
            404 if !self.address.is_usual => Some(format!(
                "is there a model `{model}`, and is `base_url` complete? It often ends with /v1"
            )),
            404 => Some(format!("is there a model `{model}`? `ensemble models list` tells")),
            300..=399 => {
                let to = headers.get(LOCATION).and_then(|to| to.to_str().ok());
                Some(match to {
                    Some(to) => format!("it redirects to {}; set `base_url` to the new address", shortened(to)),
                    None => "it redirects to another address, which `base_url` must name".to_owned(),
                })
            }
            _ => None,
        }
    }
}

/// Can the same request succeed later?
fn may_help(status: StatusCode, headers: &HeaderMap, body: &str) -> bool {
    match headers.get("x-should-retry").map(|told| told.as_bytes()) {
        Some(b"true") => return true,
        Some(b"false") => return false,
        _ => {}
    }
    match status.as_u16() {
        // No money comes from waiting.
        429 => !body.contains("insufficient_quota"),
        408 | 409 | 425 => true,
        501 | 505 => false,
        code => code >= 500,
    }
}

/// Words of providers whose content filter stops a request.
const FILTERED: [&str; 8] = [
    "content_filter",
    "content filter",
    "content_policy",
    "content management policy",
    "responsibleaipolicyviolation",
    "data_inspection_failed",
    "content moderation",
    "safety system",
];

/// The cause that a message names, in lower case.
fn said_kind(said: &str) -> Option<ModelErrorKind> {
    let has = |words: &[&str]| words.iter().any(|word| said.contains(word));
    if has(&FILTERED) {
        return Some(ModelErrorKind::Refused);
    }
    is_too_long(said).then_some(ModelErrorKind::ContextTooLong)
}

fn kind_of(status: StatusCode, headers: &HeaderMap, body: &str, has_schema: bool) -> ModelErrorKind {
    match status.as_u16() {
        400 | 403 | 413 | 422 => {}
        429 => return ModelErrorKind::RateLimited,
        503 if headers.contains_key(RETRY_AFTER) => return ModelErrorKind::RateLimited,
        // llama.cpp and others that report a request that is too long as an error of their own.
        500 => {
            let too_long = said_kind(&body.to_lowercase()).filter(|kind| *kind == ModelErrorKind::ContextTooLong);
            return too_long.unwrap_or_default();
        }
        _ => return ModelErrorKind::Failed,
    }
    match said_kind(&body.to_lowercase()) {
        Some(kind) => kind,
        None if has_schema && complains_of_schema(status, body) => ModelErrorKind::RefusedSchema,
        None => ModelErrorKind::Failed,
    }
}

/// Does the provider reject the schema? Its message contains one of these words then.
fn complains_of_schema(status: StatusCode, body: &str) -> bool {
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

/// The error message in the body of an answer.
fn said(body: &str) -> Option<String> {
    let value: Option<Value> = serde_json::from_str(body).ok();
    let found = value.as_ref().and_then(|value| {
        let value = value.get(0).unwrap_or(value);
        let error = value.get("error").unwrap_or(value);
        let message = error.get("message").unwrap_or(error).as_str();
        let detail = || value.get("detail")?.as_str();
        message.or_else(detail).map(str::to_owned)
    });
    found
        .or_else(|| Some(body.to_owned()))
        .filter(|text| !text.trim().is_empty())
}

/// The error that a stream reports, and whether a retry may help.
pub(super) fn reported(error: &Value) -> ReplyError {
    let message = error.get("message").unwrap_or(error);
    let message = message.as_str().map_or_else(|| message.to_string(), str::to_owned);
    let code = ["code", "status"].iter().find_map(|key| error.get(key)?.as_u64());
    let kind = error.get("type").and_then(Value::as_str).unwrap_or_default();
    let client_fault = code.is_some_and(|code| (400..500).contains(&code) && !matches!(code, 408 | 409 | 429));
    ReplyError::Reported {
        message,
        retryable: !client_fault && !kind.contains("invalid") && !kind.contains("authentication"),
    }
}

/// The text on one line, truncated to [`MAX_QUOTED`] characters.
fn shortened(text: &str) -> String {
    let mut line = String::new();
    for word in text
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
    {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        if line.chars().count() > MAX_QUOTED {
            line = line.chars().take(MAX_QUOTED).collect();
            line.push('…');
            break;
        }
    }
    line
}

fn refused(error: &reqwest::Error) -> bool {
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

/// The innermost cause; the message has the address in another place.
pub(super) fn causes(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    if error.source().is_none() {
        return "no reason is known".to_owned();
    }
    shortened(&cause.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Network;

    /// Headers, by name.
    type Rows<'a> = &'a [(&'static str, &'a str)];

    fn headers(rows: Rows<'_>) -> HeaderMap {
        let one =
            |(name, value): &(&'static str, &str)| (name.parse().expect("a name"), value.parse().expect("a value"));
        rows.iter().map(one).collect()
    }

    fn refusal(profile: &Profile, provider: &str, status: u16, rows: Rows<'_>, body: &str) -> ModelError {
        refusal_of(true, profile, provider, status, rows, body)
    }

    fn refusal_of(
        has_schema: bool,
        profile: &Profile,
        provider: &str,
        status: u16,
        rows: Rows<'_>,
        body: &str,
    ) -> ModelError {
        let provider = Provider::named(provider).expect("is known");
        let network = Network::new(|_| Some("key-0123456789".into()), || DateTime::UNIX_EPOCH, || 0.5);
        let credentials = Credentials::gather(profile, provider, &network).expect("all there");
        let dialect = crate::model::remote::dialect_of(provider.dialect);
        let target = Target {
            provider,
            profile,
            credentials: &credentials,
            address: &Address::of(profile, provider, dialect, &Network::default()),
            has_schema,
        };
        let status = StatusCode::from_u16(status).expect("a status");
        target.refusal(status, &headers(rows), body, DateTime::UNIX_EPOCH)
    }

    fn profile(base_url: Option<&str>) -> Profile {
        Profile {
            model: "some-model".into(),
            base_url: base_url.map(Into::into),
            ..Profile::default()
        }
    }

    #[test]
    fn what_to_do_is_told() {
        let own = profile(None);
        let other = profile(Some("http://localhost:1"));
        let rows = [
            (
                &own,
                "openai",
                401,
                r#"{"error": {"message": "bad key-0123456789"}}"#,
                "openai answered 401 Unauthorized: bad [secret]; is the key in OPENAI_API_KEY right?",
            ),
            (
                &other,
                "openai",
                401,
                "",
                "openai at http://localhost:1/v1 answered 401 Unauthorized; no key was sent: name \
              its environment variable with `api_key_env`",
            ),
            (
                &own,
                "ollama",
                404,
                r#"{"error": "model 'some-model' not found"}"#,
                "ollama answered 404 Not Found: model 'some-model' not found; `ollama pull some-model` fetches a model",
            ),
            (
                &other,
                "openai",
                404,
                "<html>\n no  such\tpage",
                "openai at http://localhost:1/v1 answered 404 Not Found: \
              <html> no such page; is there a model `some-model`, and is `base_url` complete? It often ends with /v1",
            ),
            (
                &own,
                "gemini",
                400,
                r#"[{"error": {"code": 400, "message": "no"}}]"#,
                "gemini answered 400 Bad Request: no",
            ),
            (
                &own,
                "anthropic",
                529,
                r#"{"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}"#,
                "anthropic answered 529 <unknown status code>: busy",
            ),
        ];
        for (profile, provider, status, body, expected) in rows {
            assert_eq!(refusal(profile, provider, status, &[], body).message, expected);
        }
        let moved = refusal(&own, "xai", 307, &[("location", "https://elsewhere.example/")], "");
        assert!(
            moved.message.contains("redirects to https://elsewhere.example/"),
            "{moved}"
        );
        let long = refusal(&own, "openai", 500, &[], &"x ".repeat(1 << 20));
        assert!(long.message.chars().count() < 500, "{long}");
    }

    #[test]
    fn some_refusals_may_be_tried_again() {
        let quota = r#"{"error": {"code": "insufficient_quota"}}"#;
        let rows: [(u16, Rows<'_>, &str, bool); 12] = [
            (429, &[], "", true),
            (429, &[], quota, false),
            (408, &[], "", true),
            (409, &[], "", true),
            (500, &[], "", true),
            (501, &[], "", false),
            (503, &[], "", true),
            (529, &[], "", true),
            (400, &[], "", false),
            (401, &[], "", false),
            (400, &[("x-should-retry", "true")], "", true),
            (500, &[("x-should-retry", "false")], "", false),
        ];
        for (status, headers, body, expected) in rows {
            let error = refusal(&profile(None), "openai", status, headers, body);
            assert_eq!(error.retryable, expected, "{status} {headers:?} {body}");
        }
    }

    #[test]
    fn how_long_to_wait_is_understood() {
        let rows: [(Rows<'_>, Option<f64>); 8] = [
            (&[], None),
            (&[("retry-after", "7")], Some(7.0)),
            (&[("retry-after", "0.5")], Some(0.5)),
            (&[("retry-after-ms", "250"), ("retry-after", "7")], Some(0.25)),
            (&[("retry-after", "Thu, 01 Jan 1970 00:01:00 GMT")], Some(60.0)),
            (
                &[
                    ("date", "Thu, 01 Jan 1970 00:00:50 GMT"),
                    ("retry-after", "Thu, 01 Jan 1970 00:01:00 GMT"),
                ],
                Some(10.0),
            ),
            (
                &[
                    ("date", "Thu, 01 Jan 1970 00:02:00 GMT"),
                    ("retry-after", "Thu, 01 Jan 1970 00:01:00 GMT"),
                ],
                Some(0.0),
            ),
            (&[("retry-after", "soon")], None),
        ];
        for (given, expected) in rows {
            let found = refusal(&profile(None), "openai", 503, given, "").retry_after;
            assert_eq!(found.map(|pause| pause.as_secs_f64()), expected, "{given:?}");
        }
    }

    #[test]
    fn a_schema_that_is_not_liked_is_known_from_other_faults() {
        let schema = r#"{"error": {"message": "Invalid schema for response_format"}}"#;
        assert!(refusal(&profile(None), "openai", 400, &[], schema).kind == ModelErrorKind::RefusedSchema);
        assert!(refusal(&profile(None), "openai", 422, &[], schema).kind == ModelErrorKind::RefusedSchema);
        assert!(refusal(&profile(None), "openai", 500, &[], schema).kind != ModelErrorKind::RefusedSchema);
        assert!(refusal(&profile(None), "openai", 400, &[], "no").kind != ModelErrorKind::RefusedSchema);
        assert!(
            refusal_of(false, &profile(None), "openai", 400, &[], schema).kind != ModelErrorKind::RefusedSchema,
            "none was sent"
        );
    }

    #[test]
    fn filters_and_requests_that_are_too_long_are_known() {
        use ModelErrorKind::{ContextTooLong, Failed, RateLimited, Refused};
        for (status, body, kind) in [
            (
                400,
                r#"{"error": {"code": "content_filter", "message": "The response was filtered"}}"#,
                Refused,
            ),
            (
                400,
                r#"{"error": {"message": "Output blocked by content filtering policy"}}"#,
                Refused,
            ),
            (400, r#"{"error": {"code": "context_length_exceeded"}}"#, ContextTooLong),
            (
                400,
                r#"{"error": {"message": "prompt is too long: 210000 tokens > 200000 maximum"}}"#,
                ContextTooLong,
            ),
            (
                400,
                r#"{"error": {"type": "exceed_context_size_error"}}"#,
                ContextTooLong,
            ),
            (
                400,
                "The input token count (2000000) exceeds the maximum",
                ContextTooLong,
            ),
            (429, "prompt is too long for your rate", RateLimited),
            (404, "context window", Failed),
            (400, "no", Failed),
        ] {
            let error = refusal(&profile(None), "openai", status, &[], body);
            assert_eq!((error.kind, error.retryable), (kind, status == 429), "{status} {body}");
        }
    }
}
