//! Spans and attributes in the types of the protocol.
//!
//! Invariant: an attribute is a name, a number or a kind, unless the module `content` renders the attribute.

use ensemble_core::trace::SpanContext;
use ensemble_language::data::ModelUsage;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link, SpanKind};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{Span, Status};

/// Flag of the protocol that marks `PARENT_IS_REMOTE` as known.
const REMOTE_FLAG_KNOWN: u32 = 0x100;
/// Flag of the protocol for a remote parent.
const PARENT_IS_REMOTE: u32 = 0x200;

/// Parent of a span.
pub(crate) enum SpanParent<'a> {
    /// No parent.
    None,
    /// Span of this run, or of an outer run.
    Own(&'a SpanContext),
    /// Span of another program.
    Remote(&'a SpanContext),
}

/// Creates a span without attributes, with its start and end time in nanoseconds.
pub(crate) fn new_internal_span(
    context: &SpanContext,
    parent: &SpanParent<'_>,
    name: String,
    (start, end): (u64, u64),
) -> Span {
    let (parent, remote) = match parent {
        SpanParent::None => (Vec::new(), 0),
        SpanParent::Own(parent) => (parent.span.to_vec(), 0),
        SpanParent::Remote(parent) => (parent.span.to_vec(), PARENT_IS_REMOTE),
    };
    Span {
        trace_id: context.trace.to_vec(),
        span_id: context.span.to_vec(),
        trace_state: context.state.to_string(),
        parent_span_id: parent,
        flags: 1 | REMOTE_FLAG_KNOWN | remote,
        name,
        kind: SpanKind::Internal as i32,
        start_time_unix_nano: start,
        end_time_unix_nano: end.max(start),
        ..Span::default()
    }
}

/// Attributes of a span.
#[derive(Debug, Default)]
pub(crate) struct SpanAttributes(pub(crate) Vec<KeyValue>);

impl SpanAttributes {
    /// Adds a text.
    #[must_use]
    pub(crate) fn with_text(self, key: &str, value: impl Into<String>) -> Self {
        self.with_value(key, Value::StringValue(value.into()))
    }

    /// Adds a number.
    #[must_use]
    pub(crate) fn with_number(self, key: &str, value: u64) -> Self {
        self.with_value(key, Value::IntValue(i64::try_from(value).unwrap_or(i64::MAX)))
    }

    /// Adds a fractional number.
    #[must_use]
    pub(crate) fn with_float(self, key: &str, value: f64) -> Self {
        self.with_value(key, Value::DoubleValue(value))
    }

    /// Adds `true`. Adds nothing for `false`.
    #[must_use]
    pub(crate) fn with_flag(self, key: &str, value: bool) -> Self {
        match value {
            true => self.with_value(key, Value::BoolValue(true)),
            false => self,
        }
    }

    /// Adds a list of texts, unless the list is empty.
    #[must_use]
    pub(crate) fn with_texts(self, key: &str, values: impl IntoIterator<Item = String>) -> Self {
        let texts = values.into_iter().map(|text| AnyValue {
            value: Some(Value::StringValue(text)),
        });
        let values: Vec<AnyValue> = texts.collect();
        match values.is_empty() {
            true => self,
            false => self.with_value(key, Value::ArrayValue(ArrayValue { values })),
        }
    }

    /// Adds a text, if there is one.
    #[must_use]
    pub(crate) fn with_optional_text(self, key: &str, value: Option<impl Into<String>>) -> Self {
        match value {
            Some(value) => self.with_text(key, value),
            None => self,
        }
    }

    /// Adds the model usage, if there is any.
    #[must_use]
    pub(crate) fn with_usage(self, usage: Option<ModelUsage>) -> Self {
        let Some(usage) = usage.filter(|usage| *usage != ModelUsage::default()) else {
            return self;
        };
        let with = self
            .with_number("gen_ai.usage.input_tokens", usage.input_tokens)
            .with_number("gen_ai.usage.output_tokens", usage.output_tokens);
        let with = match usage.cached_tokens {
            0 => with,
            cached => with.with_number("gen_ai.usage.cache_read.input_tokens", cached),
        };
        let with = match usage.requests {
            0 => with,
            requests => with.with_number("ensemble.usage.requests", requests),
        };
        let with = with.with_flag("ensemble.usage.estimated", usage.estimated);
        match usage.cost {
            Some(cost) => with.with_float("ensemble.usage.cost", cost.amount()),
            None => with,
        }
    }

    /// Adds a value.
    fn with_value(mut self, key: &str, value: Value) -> Self {
        self.0.push(KeyValue {
            key: key.to_owned(),
            value: Some(AnyValue { value: Some(value) }),
            ..KeyValue::default()
        });
        self
    }
}

/// Creates an event of a span at this time in nanoseconds.
pub(crate) fn new_timed_event(name: &str, at: u64, attributes: SpanAttributes) -> Event {
    Event {
        time_unix_nano: at,
        name: name.to_owned(),
        attributes: attributes.0,
        ..Event::default()
    }
}

/// Creates a link to a span of another trace.
pub(crate) fn new_span_link(to: &SpanContext, attributes: SpanAttributes) -> Link {
    Link {
        trace_id: to.trace.to_vec(),
        span_id: to.span.to_vec(),
        trace_state: to.state.to_string(),
        attributes: attributes.0,
        flags: 1,
        ..Link::default()
    }
}

/// Creates the status of a failed span. The message counts as content.
pub(crate) fn error_status(message: Option<&str>) -> Option<Status> {
    Some(Status {
        code: StatusCode::Error as i32,
        message: message.unwrap_or_default().to_owned(),
    })
}
