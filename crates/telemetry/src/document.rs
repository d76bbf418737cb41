//! Spans as one message of the protocol, with what they are spans of.
//!
//! Invariant: the same spans give the same bytes.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::resource::v1::Resource as ResourceMessage;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message;

use crate::span::Attributes;

/// The conventions that the attributes follow.
const SCHEMA: &str = "https://opentelemetry.io/schemas/1.41.0";
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// What the spans come from, unless somebody names it.
const NAME: &str = "ensemble";

/// The resource of the spans: `service.name` and further attributes of the user.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Resource {
    /// `service.name`; empty: `ensemble`.
    pub service: String,
    /// Further attributes.
    pub attributes: Vec<(String, String)>,
}

impl Resource {
    /// The spans as one message.
    pub(crate) fn message(&self, spans: Vec<Span>) -> ExportTraceServiceRequest {
        ExportTraceServiceRequest {
            resource_spans: vec![ResourceSpans {
                resource: Some(ResourceMessage {
                    attributes: self.attributes().0,
                    ..ResourceMessage::default()
                }),
                scope_spans: vec![ScopeSpans {
                    scope: Some(InstrumentationScope {
                        name: NAME.to_owned(),
                        version: VERSION.to_owned(),
                        ..InstrumentationScope::default()
                    }),
                    spans,
                    schema_url: SCHEMA.to_owned(),
                }],
                schema_url: SCHEMA.to_owned(),
            }],
        }
    }

    /// The spans as JSON of OTLP.
    pub fn json(&self, spans: Vec<Span>) -> String {
        let value = serde_json::to_value(self.message(spans)).unwrap_or_default();
        format!("{value:#}\n")
    }

    /// The spans as protobuf of OTLP.
    pub fn protobuf(&self, spans: Vec<Span>) -> Vec<u8> {
        self.message(spans).encode_to_vec()
    }

    fn attributes(&self) -> Attributes {
        let service = match self.service.is_empty() {
            true => NAME,
            false => &self.service,
        };
        let own = Attributes::default()
            .text("service.name", service)
            .text("telemetry.sdk.name", NAME)
            .text("telemetry.sdk.language", "rust")
            .text("telemetry.sdk.version", VERSION);
        let given = self.attributes.iter();
        given.fold(own, |all, (key, value)| all.text(key, value.as_str()))
    }
}
