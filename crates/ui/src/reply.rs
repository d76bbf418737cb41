//! Responses, each with the headers that keep the page to itself.
//!
//! Invariant: each has the policy of the page, or a stricter one.

use std::convert::Infallible;

use ensemble_core::store::{LogReadError, StoreError};
use ensemble_project::ProjectError;
use ensemble_runs::RunError;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame};
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use hyper::{Response, StatusCode};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use ensemble_wire::connections::ResponseBody;
use ensemble_wire::guard::GuardRefusal;

/// A response.
pub(crate) type UiReply = Response<ResponseBody>;

/// Content security policy of the page: only content of this server, nothing inline.
const PAGE_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
                      trusted-types 'none'";
/// Content security policy of a picture: only its inline style.
const PICTURE_SECURITY_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; sandbox";

/// Failed request: a status, a code for programs, and a message for users.
#[derive(Debug)]
pub(crate) struct ApiFailure {
    pub(crate) status: StatusCode,
    pub(crate) code: &'static str,
    pub(crate) message: String,
    /// The inputs that are wrong, each with a sentence.
    pub(crate) fields: Vec<(String, String)>,
}

impl ApiFailure {
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            code,
            message: message.into(),
            fields: Vec::new(),
        }
    }

    /// Creates the failure of a request for something that does not exist.
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    /// Creates the failure of an invalid request.
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", message)
    }

    /// Creates the failure of a request that the state of the run does not allow.
    pub(crate) fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "conflict", message)
    }

    /// Creates the failure of a request that the program cannot perform now.
    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message)
    }

    /// Converts the failure to a response.
    pub(crate) fn into_response(self) -> UiReply {
        json_reply_with_status(self.status, &self.to_openai_json())
    }

    /// Converts the failure to JSON in the format of OpenAI.
    pub(crate) fn to_openai_json(&self) -> Value {
        let kind = if self.status.is_client_error() {
            "invalid_request_error"
        } else {
            "server_error"
        };
        let mut document = json!({"message": self.message, "type": kind, "param": null, "code": self.code});
        if !self.fields.is_empty() {
            let fields = self
                .fields
                .iter()
                .map(|(name, message)| (name.clone(), message.clone().into()));
            document["fields"] = fields.collect::<serde_json::Map<_, _>>().into();
        }
        json!({"error": document})
    }
}

/// Why the run layer refused.
impl From<RunError> for ApiFailure {
    fn from(error: RunError) -> Self {
        let advice = error.advice();
        let message = advice.map_or_else(|| error.to_string(), |advice| format!("{error}; {advice}"));
        match error {
            RunError::Store(StoreError::Unknown { .. } | StoreError::InvalidId(_))
            | RunError::Project(ProjectError::NotFound { .. }) => Self::not_found(message),
            RunError::Inputs(errors) => {
                let fields = errors
                    .iter()
                    .map(|error| (error.input_name().to_owned(), error.to_string()));
                let fields = fields.collect();
                Self {
                    fields,
                    ..Self::bad_request(message)
                }
            }
            RunError::Project(ProjectError::Invalid(_) | ProjectError::NotEnsemble(_) | ProjectError::Outside(_))
            | RunError::Model { .. } => Self::bad_request(message),
            RunError::Project(ProjectError::Untrusted { .. } | ProjectError::Stranger(_)) => {
                let message = format!("{message}\nrun `ensemble trust` in a terminal to allow it");
                Self::new(StatusCode::FORBIDDEN, "not_trusted", message)
            }
            _ => Self::conflict(message),
        }
    }
}

impl From<ProjectError> for ApiFailure {
    fn from(error: ProjectError) -> Self {
        RunError::from(error).into()
    }
}

impl From<LogReadError> for ApiFailure {
    fn from(error: LogReadError) -> Self {
        Self::not_found(error.to_string())
    }
}

impl From<GuardRefusal> for ApiFailure {
    fn from(refusal: GuardRefusal) -> Self {
        Self::new(refusal.status, refusal.code, refusal.message)
    }
}

/// Creates a response with a JSON document.
pub(crate) fn json_reply(document: &Value) -> UiReply {
    json_reply_with_status(StatusCode::OK, document)
}

/// Creates a response with this status and a JSON document.
pub(crate) fn json_reply_with_status(status: StatusCode, document: &Value) -> UiReply {
    let mut reply = text_reply("application/json", document.to_string());
    *reply.status_mut() = status;
    reply
}

/// Creates a response with a file of the page.
pub(crate) fn page_file_reply(content_type: &'static str, text: &'static str) -> UiReply {
    reply_with_security_headers(
        content_type,
        Full::new(Bytes::from_static(text.as_bytes())).boxed_unsync(),
    )
}

/// Creates a response with an SVG picture.
pub(crate) fn picture_reply(svg: String) -> UiReply {
    let mut reply = text_reply("image/svg+xml", svg);
    let policy = HeaderValue::from_static(PICTURE_SECURITY_POLICY);
    reply.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
    reply
}

/// Creates a response with server-sent events until the sender is dropped.
pub(crate) fn events_reply(receiver: mpsc::Receiver<Bytes>) -> UiReply {
    let frames = futures_util::stream::unfold(receiver, |mut receiver| async {
        let bytes = receiver.recv().await?;
        Some((Ok::<_, Infallible>(Frame::data(bytes)), receiver))
    });
    reply_with_security_headers("text/event-stream", StreamBody::new(frames).boxed_unsync())
}

/// Creates a response with this content type and text.
fn text_reply(content_type: &'static str, text: String) -> UiReply {
    reply_with_security_headers(content_type, Full::new(Bytes::from(text)).boxed_unsync())
}

/// Creates a response with the security headers.
fn reply_with_security_headers(content_type: &'static str, body: ResponseBody) -> UiReply {
    let mut reply = Response::new(body);
    let headers = reply.headers_mut();
    for (name, value) in [
        (CONTENT_TYPE, content_type),
        (CONTENT_SECURITY_POLICY, PAGE_SECURITY_POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    reply
}
