//! Export request of OTLP, with spans and their resource.
//!
//! Invariant: the same spans give the same bytes.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::resource::v1::Resource as ResourceMessage;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message;

use crate::span::SpanAttributes;

/// URL of the semantic conventions that the attributes follow.
const SEMANTIC_CONVENTIONS_URL: &str = "https://opentelemetry.io/schemas/1.41.0";
/// Version of the program.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Service name of the spans, if the user sets no name.
const DEFAULT_SERVICE_NAME: &str = "ensemble";

/// Resource attributes of spans: the service name, and attributes of the user.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TelemetryResource {
    /// `service.name`; `ensemble` if empty.
    pub service: String,
    /// Further attributes.
    pub attributes: Vec<(String, String)>,
}

impl TelemetryResource {
    /// Creates an OTLP export request with the spans.
    pub(crate) fn to_export_request(&self, spans: Vec<Span>) -> ExportTraceServiceRequest {
        ExportTraceServiceRequest {
            resource_spans: vec![ResourceSpans {
                resource: Some(ResourceMessage {
                    attributes: self.to_attributes().0,
                    ..ResourceMessage::default()
                }),
                scope_spans: vec![ScopeSpans {
                    scope: Some(InstrumentationScope {
                        name: DEFAULT_SERVICE_NAME.to_owned(),
                        version: VERSION.to_owned(),
                        ..InstrumentationScope::default()
                    }),
                    spans,
                    schema_url: SEMANTIC_CONVENTIONS_URL.to_owned(),
                }],
                schema_url: SEMANTIC_CONVENTIONS_URL.to_owned(),
            }],
        }
    }

    /// Converts the spans to OTLP JSON.
    pub fn spans_to_json(&self, spans: Vec<Span>) -> String {
        let value = serde_json::to_value(self.to_export_request(spans)).unwrap_or_default();
        format!("{value:#}\n")
    }

    /// Converts the spans to OTLP protobuf.
    pub fn spans_to_protobuf(&self, spans: Vec<Span>) -> Vec<u8> {
        self.to_export_request(spans).encode_to_vec()
    }

    /// Creates the attributes of the resource: service name, SDK and attributes of the user.
    fn to_attributes(&self) -> SpanAttributes {
        let service = match self.service.is_empty() {
            true => DEFAULT_SERVICE_NAME,
            false => &self.service,
        };
        let standard_attributes = SpanAttributes::default()
            .with_text("service.name", service)
            .with_text("telemetry.sdk.name", DEFAULT_SERVICE_NAME)
            .with_text("telemetry.sdk.language", "rust")
            .with_text("telemetry.sdk.version", VERSION);
        let user_attributes = self.attributes.iter();
        user_attributes.fold(standard_attributes, |all, (key, value)| {
            all.with_text(key, value.as_str())
        })
    }
}
