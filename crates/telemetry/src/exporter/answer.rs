//! Request to the collector, and the meaning of its response.

use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::{ExportTracePartialSuccess, ExportTraceServiceResponse};
use prost::Message;
use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE, RETRY_AFTER};
use reqwest::{Client, Response, StatusCode};

use crate::settings::{BodyCompression, BodyEncoding, CollectorEndpoint};

/// Maximum number of bytes of a response that are read.
const MAX_ANSWER_BYTES: usize = 64 << 10;
/// Maximum number of characters of a collector message that are quoted.
const MAX_QUOTED_CHARS: usize = 200;

/// Result of a request to the collector.
pub(super) enum CollectorResponse {
    /// The collector has accepted the spans, except the rejected ones.
    Accepted { rejected: u64, problem: Option<String> },
    /// The collector will never accept the spans.
    Refused(String),
    /// No program listens at the address.
    Unreachable(String),
    /// The collector can accept the spans later, after this time if known.
    RetryLater(String, Option<Duration>),
}

/// Posts a body to the collector and interprets the response, within the time limit of the endpoint.
pub(super) async fn post_body(endpoint: &CollectorEndpoint, client: &Client, body: Vec<u8>) -> CollectorResponse {
    let kind = match endpoint.encoding {
        BodyEncoding::Protobuf => "application/x-protobuf",
        BodyEncoding::Json => "application/json",
    };
    let request = client.post(endpoint.url.clone()).header(CONTENT_TYPE, kind).body(body);
    let request = match endpoint.compression {
        BodyCompression::None => request,
        BodyCompression::Gzip => request.header(CONTENT_ENCODING, "gzip"),
    };
    let headers = endpoint.headers.iter().cloned();
    let request = headers.fold(request, |request, (name, value)| request.header(name, value));
    let response_future = async {
        let response = request.send().await?;
        let (status, pause) = (response.status(), parse_retry_after(&response));
        Ok::<_, reqwest::Error>((status, pause, read_beginning(response).await))
    };
    match tokio::time::timeout(endpoint.timeout, response_future).await {
        Err(_) => CollectorResponse::RetryLater("the collector did not answer in time".to_owned(), None),
        Ok(Err(error)) if error.is_connect() => {
            CollectorResponse::Unreachable("nothing listens at that address".to_owned())
        }
        Ok(Err(_)) => CollectorResponse::RetryLater("the connection was lost".to_owned(), None),
        Ok(Ok((status, pause, body))) => interpret_response(status, pause, &body, endpoint.encoding),
    }
}

/// Interprets the status and the body of a response.
fn interpret_response(
    status: StatusCode,
    pause: Option<Duration>,
    body: &[u8],
    encoding: BodyEncoding,
) -> CollectorResponse {
    let problem = format!("the collector answered with HTTP {}", status.as_u16());
    match status.as_u16() {
        200..=299 => parse_success_body(body, encoding),
        429 | 502 | 503 | 504 => CollectorResponse::RetryLater(problem, pause),
        _ => CollectorResponse::Refused(problem),
    }
}

/// Parses the body of a success, in which the collector can reject some spans.
fn parse_success_body(body: &[u8], encoding: BodyEncoding) -> CollectorResponse {
    let read = match encoding {
        BodyEncoding::Protobuf => ExportTraceServiceResponse::decode(body)
            .ok()
            .and_then(|read| read.partial_success),
        BodyEncoding::Json => serde_json::from_slice(body).ok().map(|read: serde_json::Value| {
            let partial = &read["partialSuccess"];
            let count = &partial["rejectedSpans"];
            let count = count.as_i64().or_else(|| count.as_str()?.parse().ok());
            ExportTracePartialSuccess {
                rejected_spans: count.unwrap_or_default(),
                error_message: partial["errorMessage"].as_str().unwrap_or_default().to_owned(),
            }
        }),
    };
    let partial = read.unwrap_or_default();
    let error_message: String = partial.error_message.chars().take(MAX_QUOTED_CHARS).collect();
    let rejected = u64::try_from(partial.rejected_spans).unwrap_or_default();
    let problem = match (rejected, error_message.is_empty()) {
        (0, true) => None,
        (_, true) => Some("the collector rejected the spans".to_owned()),
        (_, false) => Some(format!("the collector reported: {error_message}")),
    };
    CollectorResponse::Accepted { rejected, problem }
}

/// Parses the pause in seconds that the collector requests.
fn parse_retry_after(response: &Response) -> Option<Duration> {
    let value = response.headers().get(RETRY_AFTER)?.to_str().ok()?;
    let seconds = value.trim().parse::<f64>().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// Reads the body of the response up to a maximum size. A lost connection ends the body.
async fn read_beginning(mut response: Response) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < MAX_ANSWER_BYTES
        && let Ok(Some(chunk)) = response.chunk().await
    {
        bytes.extend_from_slice(&chunk);
    }
    bytes.truncate(MAX_ANSWER_BYTES);
    bytes
}
