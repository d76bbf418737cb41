//! Responses, each with the headers that keep the page to itself.
//!
//! Invariant: each has the policy of the page, or a stricter one.

use std::convert::Infallible;

use ensemble_core::store::{ReadError, StoreError};
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

use ensemble_wire::connections::Body;
use ensemble_wire::guard::Refusal;

/// A response.
pub(crate) type Reply = Response<Body>;

/// What the page may do: only what comes from this server, nothing inline, no text that becomes markup.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
                      trusted-types 'none'";
/// Likewise for a picture: nothing but its own style.
const PICTURE_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; sandbox";

/// A failed request: a status, a word for programs, and a sentence for people.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: StatusCode,
    pub(crate) code: &'static str,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            code,
            message: message.into(),
        }
    }

    /// Creates the failure of a request for something that does not exist.
    pub(crate) fn missing(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    /// The request is wrong.
    pub(crate) fn wrong(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", message)
    }

    /// The run is not in a state for this.
    pub(crate) fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "conflict", message)
    }

    /// The program cannot do it now.
    pub(crate) fn gone(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message)
    }

    pub(crate) fn into_reply(self) -> Reply {
        json_with(self.status, &self.document())
    }

    /// The error in the form that OpenAI's clients know.
    pub(crate) fn document(&self) -> Value {
        let kind = if self.status.is_client_error() {
            "invalid_request_error"
        } else {
            "server_error"
        };
        json!({"error": {"message": self.message, "type": kind, "param": null, "code": self.code}})
    }
}

/// Why the run layer refused.
impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        let advice = error.advice();
        let message = advice.map_or_else(|| error.to_string(), |advice| format!("{error}; {advice}"));
        match error {
            RunError::Store(StoreError::Unknown { .. }) | RunError::Project(ProjectError::NotFound { .. }) => {
                Self::missing(message)
            }
            RunError::Project(ProjectError::Invalid(_)) | RunError::Inputs(_) | RunError::Model { .. } => {
                Self::wrong(message)
            }
            RunError::Project(ProjectError::Untrusted { .. } | ProjectError::Stranger(_)) => {
                let message = format!("{message}\n`ensemble trust` in a terminal allows it");
                Self::new(StatusCode::FORBIDDEN, "not_trusted", message)
            }
            _ => Self::conflict(message),
        }
    }
}

impl From<ProjectError> for Failure {
    fn from(error: ProjectError) -> Self {
        RunError::from(error).into()
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        Self::missing(error.to_string())
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::new(refusal.status, refusal.code, refusal.message)
    }
}

/// A JSON document.
pub(crate) fn json(document: &Value) -> Reply {
    json_with(StatusCode::OK, document)
}

pub(crate) fn json_with(status: StatusCode, document: &Value) -> Reply {
    let mut reply = whole("application/json", document.to_string());
    *reply.status_mut() = status;
    reply
}

/// A file of the page.
pub(crate) fn file(content_type: &'static str, text: &'static str) -> Reply {
    finished(
        content_type,
        Full::new(Bytes::from_static(text.as_bytes())).boxed_unsync(),
    )
}

/// A picture.
pub(crate) fn picture(svg: String) -> Reply {
    let mut reply = whole("image/svg+xml", svg);
    let policy = HeaderValue::from_static(PICTURE_POLICY);
    reply.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
    reply
}

/// Server-sent events, until the sender is dropped.
pub(crate) fn events(receiver: mpsc::Receiver<Bytes>) -> Reply {
    let frames = futures_util::stream::unfold(receiver, |mut receiver| async {
        let bytes = receiver.recv().await?;
        Some((Ok::<_, Infallible>(Frame::data(bytes)), receiver))
    });
    finished("text/event-stream", StreamBody::new(frames).boxed_unsync())
}

fn whole(content_type: &'static str, text: String) -> Reply {
    finished(content_type, Full::new(Bytes::from(text)).boxed_unsync())
}

fn finished(content_type: &'static str, body: Body) -> Reply {
    let mut reply = Response::new(body);
    let headers = reply.headers_mut();
    for (name, value) in [
        (CONTENT_TYPE, content_type),
        (CONTENT_SECURITY_POLICY, POLICY),
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
