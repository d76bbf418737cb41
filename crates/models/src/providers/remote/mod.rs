//! Providers that are reached over HTTP.
//!
//! A dialect builds the request and reads the events of the reply. Everything else is common: keys, size limits and
//! error messages. The dialects are implemented here because the library that was examined has no size limits, accepts
//! truncated streams as complete (Ollama, Gemini), sends no schema to Ollama, makes optional keys of a schema
//! required, and reads settings from the name of a model.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::CONTENT_TYPE;
use reqwest::{RequestBuilder, Response};
use serde_json::Value;

use crate::policy::quirks::ModelQuirks;
use crate::providers::address::ProviderAddress;
use crate::providers::dialect::ProviderDialect;
use crate::providers::failure::{RequestTarget, innermost_cause};
use crate::reply::assembly::{ReplyAssembly, ReplyCutOffLimits};
use crate::request::tool_files;
pub use crate::transport::credentials::api_key_variable;
use crate::transport::credentials::{ProviderCredentials, SecretPieceFilter};
use crate::transport::frames::{EventFraming, EventSplitter, StreamEvent};
use crate::transport::pauses::parse_reported_limits;
use crate::transport::reply_error::ReplyError;
use crate::{
    BoxFuture, ModelError, ModelNetwork, ModelProvider, ModelReply, ModelRequest, ReplyPiece, ReplyPieceCallback,
    move_schema_to_messages, reasoning_source,
};
use ensemble_core::thread::Attachment;
use ensemble_core::trace::{self, SpanContext};
use ensemble_language::ensemble::{self, ModelProfile};
use ensemble_process::resource_room;

/// Maximum size of a response that is not a reply, in bytes.
const MAX_ERROR_BYTES: usize = 64 << 10;

/// The maximum size of the whole response, in bytes: 1 GiB.
const MAX_RESPONSE_BYTES: usize = 1 << 30;

/// Time without any data after which a response is given up. The time limit of a profile can be longer.
const MIN_SILENCE_LIMIT: Duration = Duration::from_secs(600);

/// The time limit for the end of a response after the reply is complete, so that the connection can be reused.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(20);

/// Names of events whose data belongs to a reply or an error, in all protocols.
const REPLY_EVENT_NAMES: [&str; 7] = [
    "",
    "message",
    "error",
    "data",
    "message_start",
    "message_delta",
    "message_stop",
];

/// Returns the implementation of a protocol.
pub(crate) fn dialect_for_api(dialect: ensemble::ProviderApi) -> &'static dyn ProviderDialect {
    match dialect {
        ensemble::ProviderApi::OpenAi => &crate::providers::openai::OpenAiDialect,
        ensemble::ProviderApi::Anthropic => &crate::providers::anthropic::AnthropicDialect,
        ensemble::ProviderApi::Gemini => &crate::providers::gemini::GeminiDialect,
        ensemble::ProviderApi::Ollama => &crate::providers::ollama::OllamaDialect,
    }
}

/// Provider that is reached over HTTP.
#[derive(Debug)]
pub struct RemoteProvider {
    provider: &'static ensemble::HttpProvider,
    network: ModelNetwork,
}

impl RemoteProvider {
    /// Creates a provider. Connects only at the first request.
    pub fn new(provider: &'static ensemble::HttpProvider, network: ModelNetwork) -> Self {
        Self { provider, network }
    }

    /// Requests the names of the models from the provider.
    ///
    /// # Errors
    /// The list cannot be read.
    pub async fn fetch_model_names(&self, profile: &ModelProfile) -> Result<Vec<String>, ModelError> {
        let dialect = dialect_for_api(self.provider.dialect);
        let endpoint = self.resolve_endpoint(profile, dialect)?;
        let target = endpoint.request_target(self.provider, profile, false);
        let client = self
            .network
            .get_or_build_client()
            .await
            .map_err(ModelError::new_fatal)?;
        let request = client.get(endpoint.address.model_list_url(dialect.models_path()));
        let answer = self
            .send_and_check_status(endpoint.with_headers(request, dialect), &target)
            .await;
        let mut response = answer.map_err(|refusal| refusal.error)?;
        let mut bytes = Vec::new();
        while let Some(chunk) = response
            .chunk()
            .await
            .map_err(|error| target.connection_error(&error))?
        {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > crate::transport::frames::MAX_EVENT_BYTES {
                return Err(target.unusable_reply_error(ReplyError::TooLarge));
            }
        }
        let list: Value = serde_json::from_slice(&bytes).map_err(|error| {
            target.unusable_reply_error(ReplyError::Malformed(format!(
                "the list of models is not valid JSON ({error})"
            )))
        })?;
        Ok(dialect.parse_model_names(&list))
    }

    /// Resolves the address and the credentials. Refuses to send a key over an unencrypted public connection.
    fn resolve_endpoint(
        &self,
        profile: &ModelProfile,
        dialect: &dyn ProviderDialect,
    ) -> Result<ProviderEndpoint, ModelError> {
        let credentials = ProviderCredentials::from_environment(profile, self.provider, &self.network)
            .map_err(ModelError::new_fatal)?;
        let address = ProviderAddress::for_profile(profile, self.provider, dialect, &self.network);
        if credentials.contain_secrets() && !ensemble::is_safe_for_keys(&address.base) {
            return Err(ModelError::new_fatal(format!(
                "no request was sent to {}: a key that is sent over `http://` can be read on the network; write `https://…`",
                address.base
            )));
        }
        Ok(ProviderEndpoint { address, credentials })
    }

    /// Sends a request and returns the response if its status is a success.
    async fn send_and_check_status(
        &self,
        request: RequestBuilder,
        target: &RequestTarget<'_>,
    ) -> Result<Response, RefusedResponse> {
        let timed_result = tokio::time::timeout(silence_limit(target.profile), request.send()).await;
        let send_result = timed_result
            .map_err(|_| target.unusable_reply_error(ReplyError::SilentTooLong(silence_limit(target.profile))))?;
        let mut response = send_result.map_err(|error| target.connection_error(&error))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let headers = response.headers().clone();
        let body = read_error_body_start(&mut response).await;
        Err(RefusedResponse {
            error: target.status_error(status, &headers, &body, self.network.current_time()),
            server_message: matches!(status.as_u16(), 400 | 422).then_some(body),
        })
    }

    /// Sends the body, and repeats it without the parameters that the server refuses. Returns the response and warnings for the user.
    async fn send_without_refused_parameters(
        &self,
        body: &Value,
        model: &str,
        endpoint: &ProviderEndpoint,
        target: &RequestTarget<'_>,
    ) -> Result<(Response, Vec<String>), ModelError> {
        let dialect = dialect_for_api(self.provider.dialect);
        let client = self
            .network
            .get_or_build_client()
            .await
            .map_err(ModelError::new_fatal)?;
        let url = endpoint.address.request_url(&dialect.chat_path(model));
        let server = format!("{} {model}", endpoint.address.base);
        let mut warnings = Vec::new();
        loop {
            let mut sent_body = Cow::Borrowed(body);
            let quirks = self.network.lock_quirks().get(&server).cloned().unwrap_or_default();
            if quirks != ModelQuirks::default() {
                quirks.adapt_request_body(sent_body.to_mut());
            }
            let refusal = match self
                .send_and_check_status(
                    endpoint.with_headers(client.post(&url).json(&*sent_body), dialect),
                    target,
                )
                .await
            {
                Ok(response) => return Ok((response, warnings)),
                Err(refusal) => refusal,
            };
            let Some(server_message) = &refusal.server_message else {
                return Err(refusal.error);
            };
            let mut known_quirks = self.network.lock_quirks();
            let server_quirks = known_quirks.entry(server.clone()).or_default();
            // Another request may have learned in the meantime. What is learned is never forgotten, so this ends.
            if *server_quirks == quirks {
                match server_quirks.record_quirk_from_refusal(&sent_body, server_message) {
                    Some(warning) => warnings.extend(warning),
                    None => return Err(refusal.error),
                }
            }
        }
    }

    /// Prepares the request, sends it, and reads the streamed reply. Passes redacted pieces to `on_piece`.
    async fn request_reply(
        &self,
        mut request: ModelRequest,
        on_piece: &ReplyPieceCallback<'_>,
    ) -> Result<ModelReply, ModelError> {
        let _place = resource_room::wait_for_process_permit().await;
        let dialect = dialect_for_api(self.provider.dialect);
        let profile = Arc::clone(&request.profile);
        if let Some(schema) = &request.output_schema
            && !dialect.supports_schema(&request, schema)
        {
            request = move_schema_to_messages(request);
        }
        crate::reply::call_ids::replace_unsupported_call_ids(
            &mut request.messages,
            self.provider.dialect,
            &profile.model,
        );
        let endpoint = self.resolve_endpoint(&profile, dialect)?;
        crate::request::attachments::check_attachment_types(self.provider.dialect, &request)?;
        let takes = |file: &Attachment| crate::request::attachments::supports_file_type(self.provider.dialect, file);
        let mut warnings = tool_files::replace_unsendable_tool_files(&mut request.messages, takes);
        let schema = request.output_schema.as_deref();
        let target = endpoint.request_target(self.provider, &profile, schema.is_some());
        let mut body = dialect.request_body(&request, schema);
        crate::request::options::merge_profile_options(
            &profile.options,
            &mut body,
            self.provider.dialect,
            !request.tools.is_empty(),
        );
        if self.provider.dialect == ensemble::ProviderApi::Anthropic && !profile.without_prompt_cache {
            crate::request::prompt_cache::add_cache_marks(&mut body);
        }
        let request_number = request.request_number;
        // The messages may be long, and the reply may be long in coming.
        drop(request);
        let (mut response, of_server) = self
            .send_without_refused_parameters(&body, &profile.model, &endpoint, &target)
            .await?;
        warnings.extend(of_server);
        drop(body);
        let Some(framing) = detect_framing(&response, dialect.reply_event_framing()) else {
            let content_type = content_type(&response).unwrap_or_default();
            let start = read_error_body_start(&mut response).await;
            return Err(target.unexpected_content_type_error(&content_type, &start));
        };
        let limits = parse_reported_limits(response.headers(), "", self.network.current_time());
        let filter = SecretPieceFilter::new(&endpoint.credentials, on_piece);
        let on_piece = |piece: ReplyPiece<'_>| filter.push_piece(piece);
        let mut reply = ReplyAssembly::new(&on_piece);
        let read = read_stream_into_reply(response, framing, dialect, silence_limit(&profile), &mut reply).await;
        filter.flush_held_text();
        let limits_of_reply = ReplyCutOffLimits {
            max_tokens: dialect.max_tokens(&profile),
            context_length: profile.context_window,
        };
        let reply = read.and_then(|()| reply.into_complete_reply(request_number, limits_of_reply));
        let mut reply = reply.map_err(|broken| target.unusable_reply_error(broken))?;
        reply.warnings.extend(warnings);
        reply.limits = limits;
        if let Some(reasoning) = &mut reply.reasoning {
            reasoning.from = reasoning_source(&profile);
        }
        Ok(redact_reply(reply, &endpoint.credentials))
    }
}

impl ModelProvider for RemoteProvider {
    fn complete_request<'a>(
        &'a self,
        request: ModelRequest,
        on_piece: &'a ReplyPieceCallback<'a>,
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        Box::pin(self.request_reply(request, on_piece))
    }
}

/// Error of a response that is not a reply, with the message of the server.
struct RefusedResponse {
    error: ModelError,
    /// The text of an answer that refuses the request itself.
    server_message: Option<String>,
}

impl From<ModelError> for RefusedResponse {
    fn from(error: ModelError) -> Self {
        Self {
            error,
            server_message: None,
        }
    }
}

/// Address of a request with its credentials.
struct ProviderEndpoint {
    address: ProviderAddress,
    credentials: ProviderCredentials,
}

impl ProviderEndpoint {
    /// Creates the target for error messages.
    fn request_target<'a>(
        &'a self,
        provider: &'static ensemble::HttpProvider,
        profile: &'a ModelProfile,
        has_schema: bool,
    ) -> RequestTarget<'a> {
        RequestTarget {
            provider,
            profile,
            credentials: &self.credentials,
            address: &self.address,
            has_schema,
        }
    }

    /// Adds the key and the headers. A header of the profile replaces a header of the protocol.
    fn with_headers(&self, request: RequestBuilder, dialect: &dyn ProviderDialect) -> RequestBuilder {
        let own_headers = &self.credentials.headers;
        let is_replaced = |name: &str| own_headers.iter().any(|(own, _)| own.eq_ignore_ascii_case(name));
        let key = self.credentials.key.as_deref();
        let of_dialect = match key.filter(|_| self.address.uses_azure_key_header()) {
            Some(key) => vec![("api-key", key.to_owned())],
            None => dialect.request_headers(key),
        };
        let of_dialect = of_dialect.into_iter().filter(|(name, _)| !is_replaced(name));
        let request = of_dialect.fold(request, |request, (name, value)| {
            request.header(name, sensitive_header_value(&value))
        });
        let request = match trace::current_task_span() {
            Some(span) => with_trace_headers(request, &span, &is_replaced),
            None => request,
        };
        own_headers.iter().fold(request, |request, (name, value)| {
            request.header(name, sensitive_header_value(value))
        })
    }
}

/// Adds the trace context of the span as headers, except headers that the profile sets.
fn with_trace_headers(
    request: RequestBuilder,
    span: &SpanContext,
    is_replaced: &dyn Fn(&str) -> bool,
) -> RequestBuilder {
    let state = (!span.state.is_empty()).then(|| ("tracestate", span.state.to_string()));
    let headers = std::iter::once(("traceparent", span.to_string())).chain(state);
    headers
        .filter(|(name, _)| !is_replaced(name))
        .fold(request, |request, (name, value)| request.header(name, value))
}

/// Creates a header value that logs do not show. Replaces an invalid value by an empty one, which the provider rejects.
fn sensitive_header_value(value: &str) -> reqwest::header::HeaderValue {
    let mut header =
        reqwest::header::HeaderValue::from_str(value).unwrap_or_else(|_| reqwest::header::HeaderValue::from_static(""));
    header.set_sensitive(true);
    header
}

/// Returns the time for which a server can send nothing.
fn silence_limit(profile: &ModelProfile) -> Duration {
    MIN_SILENCE_LIMIT.max(profile.timeout.unwrap_or_default())
}

/// Reads the response to its end and adds its events to the reply.
async fn read_stream_into_reply(
    mut response: Response,
    framing: EventFraming,
    dialect: &dyn ProviderDialect,
    silence: Duration,
    reply: &mut ReplyAssembly<'_>,
) -> Result<(), ReplyError> {
    let mut frames = EventSplitter::new(framing);
    let mut size = 0;
    loop {
        let chunk = tokio::time::timeout(silence, response.chunk()).await;
        let chunk = match chunk.map_err(|_| ReplyError::SilentTooLong(silence))? {
            Ok(chunk) => chunk,
            // The reply is complete, so the connection may end without a proper close.
            Err(_) if reply.stop.is_some() => return Ok(()),
            Err(error) => return Err(ReplyError::ConnectionLost(innermost_cause(&error))),
        };
        let Some(chunk) = chunk else {
            return apply_last_stream_event(frames, dialect, reply);
        };
        let mut take = |event: StreamEvent<'_>| apply_known_stream_event(event, dialect, reply);
        size += chunk.len();
        if size > MAX_RESPONSE_BYTES {
            return Err(ReplyError::TooLarge);
        }
        frames.feed_bytes(&chunk, &mut take)?;
        if reply.is_complete {
            let _ = tokio::time::timeout(CLOSE_TIMEOUT, response.chunk()).await;
            return Ok(());
        }
    }
}

/// Applies the last event. Ignores errors after an end reason, because the reply is complete then.
fn apply_last_stream_event(
    frames: EventSplitter,
    dialect: &dyn ProviderDialect,
    reply: &mut ReplyAssembly<'_>,
) -> Result<(), ReplyError> {
    let last = frames.finish_stream(&mut |event| apply_known_stream_event(event, dialect, reply));
    last.or_else(|error| reply.stop.map(drop).ok_or(error))
}

/// Adds an event to the reply, unless both its name and its form are unknown.
fn apply_known_stream_event(
    event: StreamEvent<'_>,
    dialect: &dyn ProviderDialect,
    reply: &mut ReplyAssembly<'_>,
) -> Result<(), ReplyError> {
    if reply.is_complete {
        return Ok(());
    }
    if event.data.trim().eq_ignore_ascii_case("[done]") {
        reply.is_complete = dialect.ends_with_done() || reply.stop.is_some();
        return Ok(());
    }
    let is_known_name = REPLY_EVENT_NAMES.contains(&event.name) || event.name.starts_with("content_block");
    let value: Value = match serde_json::from_str(event.data) {
        Ok(value) if is_known_name || dialect.recognizes_event(&value) => value,
        Ok(_) => return Ok(()),
        Err(_) if !is_known_name => return Ok(()),
        Err(error) => {
            let start: String = event.data.chars().take(80).collect();
            return Err(ReplyError::Malformed(format!("`{start}` is not valid JSON ({error})")));
        }
    };
    dialect.add_event_to_reply(&value, reply)
}

/// Returns the content type without parameters, in lower case.
fn content_type(response: &Response) -> Option<String> {
    let value = response.headers().get(CONTENT_TYPE)?.to_str().ok()?;
    let kind = value.split(';').next().unwrap_or_default();
    Some(kind.trim().to_ascii_lowercase())
}

/// Detects the separation of the events. Returns `None` if the response cannot be a reply.
fn detect_framing(response: &Response, usual: EventFraming) -> Option<EventFraming> {
    match content_type(response).as_deref() {
        Some("text/event-stream") => Some(EventFraming::Events),
        Some("application/x-ndjson" | "application/jsonl" | "application/json-lines") => Some(EventFraming::Lines),
        // Some servers call their lines so, and some do not stream.
        Some("application/json") if usual == EventFraming::Lines => Some(EventFraming::Lines),
        Some("application/json") => Some(EventFraming::Whole),
        None | Some("" | "text/plain" | "application/octet-stream") => Some(usual),
        Some(_) => None,
    }
}

/// Reads the beginning of a body, for error messages.
async fn read_error_body_start(response: &mut Response) -> String {
    let mut bytes = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > MAX_ERROR_BYTES {
            break;
        }
    }
    bytes.truncate(MAX_ERROR_BYTES);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Redacts secrets in the reply, because a server can repeat its input and the journal stores the reply.
fn redact_reply(mut reply: ModelReply, credentials: &ProviderCredentials) -> ModelReply {
    reply.text = credentials.redact(reply.text);
    if let Some(reasoning) = &mut reply.reasoning {
        reasoning.text = credentials.redact(std::mem::take(&mut reasoning.text));
        reasoning
            .blocks
            .iter_mut()
            .for_each(|block| credentials.redact_value(block));
    }
    for call in &mut reply.tool_calls {
        credentials.redact_value(&mut call.arguments);
        call.id = credentials.redact(std::mem::take(&mut call.id));
        call.name = credentials.redact(std::mem::take(&mut call.name));
    }
    // Both can contain the words of the server about the end of the reply.
    reply.refusal = reply.refusal.map(|refusal| credentials.redact(refusal));
    for warning in &mut reply.warnings {
        *warning = credentials.redact(std::mem::take(warning));
    }
    reply
}
