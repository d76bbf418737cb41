//! Settings from the standard OpenTelemetry variables.
//!
//! Invariant: the settings read variables only through the function of the caller.

use std::time::Duration;

use ensemble_language::ensemble::is_safe_for_keys;
use reqwest::Url;
use reqwest::header::{HeaderName, HeaderValue};

use crate::otlp_request::TelemetryResource;

/// Address of a collector on the same machine.
const DEFAULT_ENDPOINT: &str = "http://localhost:4318";
/// Default time limit of a request.
const DEFAULT_REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Settings of the export of spans.
#[derive(Debug, Clone)]
pub struct TelemetrySettings {
    /// Collector that receives the spans.
    pub endpoint: CollectorEndpoint,
    /// Resource of the spans.
    pub resource: TelemetryResource,
    /// Choice of the exported traces.
    pub sampler: TraceSampler,
}

/// Address of a collector that receives spans.
#[derive(Debug, Clone)]
pub struct CollectorEndpoint {
    /// URL for traces.
    pub url: Url,
    /// Headers of every request.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Time limit of a request.
    pub timeout: Duration,
    /// Encoding of the body.
    pub encoding: BodyEncoding,
    /// Compression of the body.
    pub compression: BodyCompression,
}

/// Compression of a request body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyCompression {
    /// No compression.
    None,
    /// Compression with gzip.
    Gzip,
}

/// Encoding of a request body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyEncoding {
    /// Protobuf.
    Protobuf,
    /// JSON.
    Json,
}

/// Choice of the traces that are exported.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TraceSampler {
    /// Exports this share of all traces, chosen by their ids.
    Share(f64),
    /// Exports a trace if the parent span of the program is sampled. Without a parent, exports this share.
    Parent(f64),
}

/// Reason why no spans are exported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TelemetrySettingsError {
    /// A variable disables the export.
    Disabled,
    /// A variable has a value that is not valid or not supported.
    Invalid(String),
}

impl TelemetrySettings {
    /// Reads the settings from environment variables.
    ///
    /// # Errors
    /// The export is disabled, or a variable has a value that is not valid.
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<Self, TelemetrySettingsError> {
        let set = |name: &str| {
            variable(name)
                .map(|value| value.trim().to_owned())
                .filter(|value| !value.is_empty())
        };
        let is_on = |name: &str| set(name).is_some_and(|value| value.eq_ignore_ascii_case("true"));
        if is_on("OTEL_SDK_DISABLED") || set("OTEL_TRACES_EXPORTER").as_deref() == Some("none") {
            return Err(TelemetrySettingsError::Disabled);
        }
        Ok(Self {
            endpoint: CollectorEndpoint::from_variables(&set)?,
            resource: TelemetryResource::from_otel_variables(set),
            sampler: TraceSampler::from_variables(&set)?,
        })
    }
}

impl TelemetryResource {
    /// Reads the resource attributes from environment variables.
    pub fn from_otel_variables(set: impl Fn(&str) -> Option<String>) -> Self {
        let mut all = parse_encoded_pairs(&set("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default());
        let service_name = all
            .iter()
            .position(|(key, _)| key == "service.name")
            .map(|at| all.remove(at).1);
        Self {
            service: set("OTEL_SERVICE_NAME").or(service_name).unwrap_or_default(),
            attributes: all,
        }
    }
}

impl CollectorEndpoint {
    /// Reads the endpoint from environment variables. Variables for traces have precedence over general ones.
    fn from_variables(set: &dyn Fn(&str) -> Option<String>) -> Result<Self, TelemetrySettingsError> {
        // A variable for traces wins over the one for everything.
        let either = |name: &str| {
            let for_traces = format!("OTEL_EXPORTER_OTLP_TRACES_{name}");
            let trace_variable = set(&for_traces).map(|value| (for_traces, value));
            trace_variable.or_else(|| {
                let for_all = format!("OTEL_EXPORTER_OTLP_{name}");
                set(&for_all).map(|value| (for_all, value))
            })
        };
        let encoding = match either("PROTOCOL") {
            None => BodyEncoding::Protobuf,
            Some((_, value)) if value == "http/protobuf" => BodyEncoding::Protobuf,
            Some((_, value)) if value == "http/json" => BodyEncoding::Json,
            Some((name, value)) => {
                return Err(TelemetrySettingsError::Invalid(format!(
                    "{name} is `{value}`, which is not supported; use `http/protobuf` or `http/json`"
                )));
            }
        };
        let compression = match either("COMPRESSION") {
            None => BodyCompression::None,
            Some((_, value)) if value == "none" => BodyCompression::None,
            Some((_, value)) if value == "gzip" => BodyCompression::Gzip,
            Some((name, value)) => {
                return Err(TelemetrySettingsError::Invalid(format!(
                    "{name} is `{value}`, which is not supported; use `gzip` or `none`"
                )));
            }
        };
        let url = match either("ENDPOINT") {
            Some((name, value)) if name.contains("TRACES") => parse_address(&name, &value)?,
            Some((name, value)) => append_traces_path(parse_address(&name, &value)?),
            None => append_traces_path(parse_address("the default", DEFAULT_ENDPOINT)?),
        };
        let timeout = either("TIMEOUT").and_then(|(_, value)| value.parse().ok());
        let headers = either("HEADERS").map(|(name, value)| parse_headers(&name, &value));
        let headers = headers.transpose()?.unwrap_or_default();
        let has_password = !url.username().is_empty() || url.password().is_some();
        if (has_password || !headers.is_empty()) && !is_safe_for_keys(url.as_str()) {
            return Err(TelemetrySettingsError::Invalid(
                "headers and passwords for a collector on another machine are sent only over `https://`".to_owned(),
            ));
        }
        Ok(Self {
            url,
            headers,
            timeout: timeout
                .filter(|limit| *limit > 0)
                .map_or(DEFAULT_REQUEST_TIMEOUT, Duration::from_millis),
            encoding,
            compression,
        })
    }

    /// Returns the address without parts that can be secret.
    pub fn url_without_secrets(&self) -> String {
        let mut url = self.url.clone();
        let _no_password = url.set_password(None);
        let _no_user = url.set_username("");
        url.set_query(None);
        url.to_string()
    }

    /// Returns the values of the headers, which are secrets.
    pub fn header_values(&self) -> Vec<String> {
        let values = self.headers.iter().filter_map(|(_, value)| value.to_str().ok());
        values.map(str::to_owned).collect()
    }
}

impl TraceSampler {
    /// Reads the sampler from environment variables.
    ///
    /// # Errors
    /// The sampler is not supported.
    fn from_variables(set: &dyn Fn(&str) -> Option<String>) -> Result<Self, TelemetrySettingsError> {
        let share = || {
            let share = set("OTEL_TRACES_SAMPLER_ARG").and_then(|value| value.parse::<f64>().ok());
            share.filter(|share| (0.0..=1.0).contains(share)).unwrap_or(1.0)
        };
        Ok(match set("OTEL_TRACES_SAMPLER").as_deref() {
            None | Some("parentbased_always_on") => Self::Parent(1.0),
            Some("parentbased_always_off") => Self::Parent(0.0),
            Some("parentbased_traceidratio") => Self::Parent(share()),
            Some("always_on") => Self::Share(1.0),
            Some("always_off") => Self::Share(0.0),
            Some("traceidratio") => Self::Share(share()),
            Some(other) => {
                return Err(TelemetrySettingsError::Invalid(format!(
                    "OTEL_TRACES_SAMPLER is `{other}`, which is not supported; use `always_on`, `always_off` or `traceidratio`"
                )));
            }
        })
    }

    /// Returns whether the trace is exported. `parent` is the decision of the outer span.
    pub(crate) fn should_export(self, trace: &[u8; 16], parent: Option<bool>) -> bool {
        let share = match (self, parent) {
            (Self::Parent(_), Some(is_sampled)) => return is_sampled,
            (Self::Parent(share) | Self::Share(share), _) => share,
        };
        let number = trace[8..]
            .iter()
            .fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
        #[expect(clippy::cast_precision_loss, reason = "a share is not exact")]
        let at = (number >> 1) as f64 / (u64::MAX >> 1) as f64;
        share >= 1.0 || at < share
    }
}

/// Appends the path of traces to the address.
fn append_traces_path(mut url: Url) -> Url {
    let path = format!("{}/v1/traces", url.path().trim_end_matches('/'));
    url.set_path(&path);
    url
}

/// Parses the address in the variable `name`.
///
/// # Errors
/// The text is not an HTTP URL with a host.
fn parse_address(name: &str, text: &str) -> Result<Url, TelemetrySettingsError> {
    let url = Url::parse(text)
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    url.ok_or_else(|| {
        TelemetrySettingsError::Invalid(format!("{name} is not a URL that begins with `http://` or `https://`"))
    })
}

/// Parses the list of headers in the variable `name`, and marks the values as sensitive.
fn parse_headers(name: &str, text: &str) -> Result<Vec<(HeaderName, HeaderValue)>, TelemetrySettingsError> {
    let parsed = parse_encoded_pairs(text).into_iter().map(|(key, value)| {
        let key: HeaderName = key.parse().ok()?;
        let mut value: HeaderValue = value.parse().ok()?;
        value.set_sensitive(true);
        Some((key, value))
    });
    let parsed: Option<Vec<_>> = parsed.collect();
    parsed.ok_or_else(|| {
        TelemetrySettingsError::Invalid(format!("{name} is not a list of headers; write `key=value,key=value`"))
    })
}

/// Parses `key=value,key=value`, with percent-encoded values.
fn parse_encoded_pairs(text: &str) -> Vec<(String, String)> {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    let pairs = pairs.map(|(key, value)| (decode_percent(key.trim()), decode_percent(value.trim())));
    pairs.filter(|(key, _)| !key.is_empty()).collect()
}

/// Decodes percent-encoded bytes.
fn decode_percent(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, more @ ..] = rest {
        let code = more.get(..2).and_then(|code| std::str::from_utf8(code).ok());
        let code = code.and_then(|code| u8::from_str_radix(code, 16).ok());
        match code.filter(|_| *first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &more[2..];
            }
            None => {
                bytes.push(*first);
                rest = more;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests;
