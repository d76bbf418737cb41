//! What errors say, and what is known of their causes.

use super::*;
use crate::ModelNetwork;

/// Headers, by name.
type Rows<'a> = &'a [(&'static str, &'a str)];

fn headers(rows: Rows<'_>) -> HeaderMap {
    let one = |(name, value): &(&'static str, &str)| (name.parse().expect("a name"), value.parse().expect("a value"));
    rows.iter().map(one).collect()
}

fn refusal(profile: &ModelProfile, provider: &str, status: u16, rows: Rows<'_>, body: &str) -> ModelError {
    refusal_of(true, profile, provider, status, rows, body)
}

fn refusal_of(
    has_schema: bool,
    profile: &ModelProfile,
    provider: &str,
    status: u16,
    rows: Rows<'_>,
    body: &str,
) -> ModelError {
    let provider = HttpProvider::find_by_name(provider).expect("is known");
    let network = ModelNetwork::new(|_| Some("key-0123456789".into()), || DateTime::UNIX_EPOCH, || 0.5);
    let credentials = ProviderCredentials::from_environment(profile, provider, &network).expect("all there");
    let dialect = crate::providers::remote::dialect_for_api(provider.dialect);
    let target = RequestTarget {
        provider,
        profile,
        credentials: &credentials,
        address: &ProviderAddress::for_profile(profile, provider, dialect, &ModelNetwork::default()),
        has_schema,
    };
    let status = StatusCode::from_u16(status).expect("a status");
    target.status_error(status, &headers(rows), body, DateTime::UNIX_EPOCH)
}

fn profile(base_url: Option<&str>) -> ModelProfile {
    ModelProfile {
        model: "some-model".into(),
        base_url: base_url.map(Into::into),
        ..ModelProfile::default()
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
            "ollama answered 404 Not Found: model 'some-model' not found; run `ollama pull some-model` to fetch the model",
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
fn an_exhausted_quota_is_not_a_limit_that_ends_by_itself() {
    let plan = "You exceeded your current quota, please check your plan and billing details.";
    let gemini = format!(
        r#"{{"error": {{"message": "{plan}", "status": "RESOURCE_EXHAUSTED", "details": [{{"retryDelay": "9s"}}]}}}}"#
    );
    let openai = format!(r#"{{"error": {{"message": "{plan}", "type": "insufficient_quota"}}}}"#);
    let rows: [(u16, Rows<'_>, &str, bool); 7] = [
        (429, &[], &openai, true),
        (429, &[("retry-after", "1"), ("x-should-retry", "true")], &openai, true),
        (429, &[], plan, true),
        (429, &[], &gemini, false),
        (429, &[("retry-after", "1")], "Rate limit reached", false),
        (400, &[], "Your credit balance is too low to access the API", true),
        (402, &[], "Insufficient Balance", true),
    ];
    for (status, headers, body, is_exhausted) in rows {
        let error = refusal(&profile(None), "openai", status, headers, body);
        let is_limit = error.kind == ModelErrorKind::RateLimited && error.retryable;
        assert_eq!(is_limit, !is_exhausted, "{error:?}");
        assert_eq!(error.message.contains("add credit"), is_exhausted, "{error}");
    }
    let repeated = r#"{"input": "payment required"}"#;
    let error = refusal(&profile(None), "openai", 500, &[], repeated);
    assert!(error.retryable && !error.message.contains("add credit"), "{error}");
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
    use ModelErrorKind::{ContextTooLong, ModelRefused, OtherFailure, RateLimited};
    for (status, body, kind) in [
        (
            400,
            r#"{"error": {"code": "content_filter", "message": "The response was filtered"}}"#,
            ModelRefused,
        ),
        (
            400,
            r#"{"error": {"message": "Output blocked by content filtering policy"}}"#,
            ModelRefused,
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
        (404, "context window", OtherFailure),
        (400, "no", OtherFailure),
    ] {
        let error = refusal(&profile(None), "openai", status, &[], body);
        assert_eq!((error.kind, error.retryable), (kind, status == 429), "{status} {body}");
    }
}
