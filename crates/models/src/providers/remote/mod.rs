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

use crate::policy::quirks::Quirks;
use crate::providers::address::Address;
use crate::providers::dialect::Dialect;
use crate::providers::failure::{Target, causes};
use crate::reply::assembly::Assembly;
use crate::request::tool_files;
pub use crate::transport::credentials::key_variable;
use crate::transport::credentials::{Credentials, SecretFilter};
use crate::transport::frames::{Frames, Framing};
use crate::transport::reply_error::ReplyError;
use crate::{
    BoxFuture, ModelError, ModelReply, ModelRequest, Network, OnPiece, Provider, ReplyPiece, schema_in_words,
    source_of_reasoning,
};
use ensemble_core::thread::Attachment;
use ensemble_core::trace::{self, SpanContext};
use ensemble_language::ensemble::{self, Profile};
use ensemble_process::room;

/// The maximum size of an answer that is not a reply, in bytes.
const MAX_ERROR_BYTES: usize = 64 << 10;

/// The maximum size of the whole response, in bytes: 1 GiB.
const MAX_RESPONSE_BYTES: usize = 1 << 30;

/// A server that sends nothing for so long is not waited for; the time limit of a profile may be longer.
const SILENCE: Duration = Duration::from_secs(600);

/// The time limit for the end of a response after the reply is complete, so that the connection can be reused.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(20);

/// The implementation of a dialect.
pub(crate) fn dialect_of(dialect: ensemble::Dialect) -> &'static dyn Dialect {
    match dialect {
        ensemble::Dialect::OpenAi => &crate::providers::openai::OpenAi,
        ensemble::Dialect::Anthropic => &crate::providers::anthropic::Anthropic,
        ensemble::Dialect::Gemini => &crate::providers::gemini::Gemini,
        ensemble::Dialect::Ollama => &crate::providers::ollama::Ollama,
    }
}

/// A provider, for one profile.
#[derive(Debug)]
pub struct Remote {
    provider: &'static ensemble::Provider,
    network: Network,
}

impl Remote {
    /// A provider that is not connected yet.
    pub fn new(provider: &'static ensemble::Provider, network: Network) -> Self {
        Self { provider, network }
    }

    /// The names of the provider's models, as it lists them.
    ///
    /// # Errors
    /// The list cannot be read.
    pub async fn models(&self, profile: &Profile) -> Result<Vec<String>, ModelError> {
        let dialect = dialect_of(self.provider.dialect);
        let endpoint = self.endpoint(profile, dialect)?;
        let target = endpoint.target(self.provider, profile, false);
        let client = self.network.client().await.map_err(ModelError::fatal)?;
        let request = client.get(endpoint.address.models_url(dialect.models_path()));
        let answer = self.answer(endpoint.headed(request, dialect), &target).await;
        let mut response = answer.map_err(|refusal| refusal.error)?;
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| target.unreachable(&error))? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > crate::transport::frames::MAX_EVENT_BYTES {
                return Err(target.reply_error(ReplyError::TooLarge));
            }
        }
        let list: Value = serde_json::from_slice(&bytes).map_err(|error| {
            target.reply_error(ReplyError::Malformed(format!(
                "the list of models is no JSON ({error})"
            )))
        })?;
        Ok(dialect.models(&list))
    }

    fn endpoint(&self, profile: &Profile, dialect: &dyn Dialect) -> Result<Endpoint, ModelError> {
        let credentials = Credentials::gather(profile, self.provider, &self.network).map_err(ModelError::fatal)?;
        let address = Address::of(profile, self.provider, dialect, &self.network);
        if credentials.are_sent() && !ensemble::is_private(&address.base) {
            return Err(ModelError::fatal(format!(
                "no request was sent to {}: everybody on the way can read a key that is sent over `http://`; write `https://…`",
                address.base
            )));
        }
        Ok(Endpoint { address, credentials })
    }

    /// Sends a request and gives the answer if it is a success.
    async fn answer(&self, request: RequestBuilder, target: &Target<'_>) -> Result<Response, Refusal> {
        let sent = tokio::time::timeout(silence(target.profile), request.send()).await;
        let sent = sent.map_err(|_| target.reply_error(ReplyError::Silent(silence(target.profile))))?;
        let mut response = sent.map_err(|error| target.unreachable(&error))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let headers = response.headers().clone();
        let body = beginning(&mut response).await;
        Err(Refusal {
            error: target.refusal(status, &headers, &body, self.network.now()),
            said: matches!(status.as_u16(), 400 | 422).then_some(body),
        })
    }

    /// Sends a body, and sends it again without what the server refuses. Gives warnings for the user too.
    async fn accepted(
        &self,
        body: &Value,
        model: &str,
        endpoint: &Endpoint,
        target: &Target<'_>,
    ) -> Result<(Response, Vec<String>), ModelError> {
        let dialect = dialect_of(self.provider.dialect);
        let client = self.network.client().await.map_err(ModelError::fatal)?;
        let url = endpoint.address.url(&dialect.chat_path(model));
        let server = format!("{} {model}", endpoint.address.base);
        let mut warnings = Vec::new();
        loop {
            let mut sent = Cow::Borrowed(body);
            let quirks = self.network.quirks().get(&server).cloned().unwrap_or_default();
            if quirks != Quirks::default() {
                quirks.apply(sent.to_mut());
            }
            let refusal = match self
                .answer(endpoint.headed(client.post(&url).json(&*sent), dialect), target)
                .await
            {
                Ok(response) => return Ok((response, warnings)),
                Err(refusal) => refusal,
            };
            let Some(said) = &refusal.said else {
                return Err(refusal.error);
            };
            let mut known = self.network.quirks();
            let known = known.entry(server.clone()).or_default();
            // Another request may have learned in the meantime. What is learned is never forgotten, so this ends.
            if *known == quirks {
                match known.learn(&sent, said) {
                    Some(warning) => warnings.extend(warning),
                    None => return Err(refusal.error),
                }
            }
        }
    }

    async fn ask(&self, mut request: ModelRequest, on_piece: &OnPiece<'_>) -> Result<ModelReply, ModelError> {
        let _place = room::place().await;
        let dialect = dialect_of(self.provider.dialect);
        let profile = Arc::clone(&request.profile);
        if let Some(schema) = &request.output_schema
            && !dialect.takes_schema(&request, schema)
        {
            request = schema_in_words(request);
        }
        crate::reply::call_ids::fit(&mut request.messages, self.provider.dialect, &profile.model);
        let endpoint = self.endpoint(&profile, dialect)?;
        crate::request::attachments::check(self.provider.dialect, &request)?;
        let takes = |file: &Attachment| crate::request::attachments::takes(self.provider.dialect, file);
        let mut warnings = tool_files::fit(&mut request.messages, takes);
        let schema = request.output_schema.as_deref();
        let target = endpoint.target(self.provider, &profile, schema.is_some());
        let mut body = dialect.body(&request, schema);
        crate::request::options::add(
            &profile.options,
            &mut body,
            self.provider.dialect,
            !request.tools.is_empty(),
        );
        if self.provider.dialect == ensemble::Dialect::Anthropic && !profile.without_prompt_cache {
            crate::request::prompt_cache::mark(&mut body);
        }
        let request_number = request.request_number;
        // The messages may be long, and the reply may be long in coming.
        drop(request);
        let (mut response, of_server) = self.accepted(&body, &profile.model, &endpoint, &target).await?;
        warnings.extend(of_server);
        drop(body);
        let Some(framing) = framing(&response, dialect.framing()) else {
            let content_type = content_type(&response).unwrap_or_default();
            let start = beginning(&mut response).await;
            return Err(target.unexpected_content_type(&content_type, &start));
        };
        let filter = SecretFilter::new(&endpoint.credentials, on_piece);
        let on_piece = |piece: ReplyPiece<'_>| filter.push(piece);
        let mut reply = Assembly::new(&on_piece);
        let read = read(response, framing, dialect, silence(&profile), &mut reply).await;
        filter.end();
        let reply = read.and_then(|()| reply.finish(request_number));
        let mut reply = reply.map_err(|broken| target.reply_error(broken))?;
        reply.warnings.extend(warnings);
        if let Some(reasoning) = &mut reply.reasoning {
            reasoning.from = source_of_reasoning(&profile);
        }
        Ok(without_secrets(reply, &endpoint.credentials))
    }
}

impl Provider for Remote {
    fn complete<'a>(
        &'a self,
        request: ModelRequest,
        on_piece: &'a OnPiece<'a>,
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        Box::pin(self.ask(request, on_piece))
    }
}

/// An answer that is no reply.
struct Refusal {
    error: ModelError,
    /// The text of an answer that refuses the request itself.
    said: Option<String>,
}

impl From<ModelError> for Refusal {
    fn from(error: ModelError) -> Self {
        Self { error, said: None }
    }
}

/// The address of a request, with its credentials.
struct Endpoint {
    address: Address,
    credentials: Credentials,
}

impl Endpoint {
    fn target<'a>(
        &'a self,
        provider: &'static ensemble::Provider,
        profile: &'a Profile,
        has_schema: bool,
    ) -> Target<'a> {
        Target {
            provider,
            profile,
            credentials: &self.credentials,
            address: &self.address,
            has_schema,
        }
    }

    /// Adds the key and the headers; a header of the profile replaces that of the dialect.
    fn headed(&self, request: RequestBuilder, dialect: &dyn Dialect) -> RequestBuilder {
        let own = &self.credentials.headers;
        let is_replaced = |name: &str| own.iter().any(|(own, _)| own.eq_ignore_ascii_case(name));
        let key = self.credentials.key.as_deref();
        let of_dialect = match key.filter(|_| self.address.is_azure()) {
            Some(key) => vec![("api-key", key.to_owned())],
            None => dialect.headers(key),
        };
        let of_dialect = of_dialect.into_iter().filter(|(name, _)| !is_replaced(name));
        let request = of_dialect.fold(request, |request, (name, value)| request.header(name, secret(&value)));
        let request = match trace::current() {
            Some(span) => traced(request, &span, &is_replaced),
            None => request,
        };
        own.iter()
            .fold(request, |request, (name, value)| request.header(name, secret(value)))
    }
}

/// The request as a part of the span, unless the profile has headers of these names.
fn traced(request: RequestBuilder, span: &SpanContext, is_replaced: &dyn Fn(&str) -> bool) -> RequestBuilder {
    let state = (!span.state.is_empty()).then(|| ("tracestate", span.state.to_string()));
    let headers = std::iter::once(("traceparent", span.to_string())).chain(state);
    headers
        .filter(|(name, _)| !is_replaced(name))
        .fold(request, |request, (name, value)| request.header(name, value))
}

/// A header value that logs do not show. An invalid value becomes empty, and the provider rejects it.
fn secret(value: &str) -> reqwest::header::HeaderValue {
    let mut header =
        reqwest::header::HeaderValue::from_str(value).unwrap_or_else(|_| reqwest::header::HeaderValue::from_static(""));
    header.set_sensitive(true);
    header
}

/// Returns how long a server may send nothing.
fn silence(profile: &Profile) -> Duration {
    SILENCE.max(profile.timeout.unwrap_or_default())
}

/// Reads a reply to its end.
async fn read(
    mut response: Response,
    framing: Framing,
    dialect: &dyn Dialect,
    silence: Duration,
    reply: &mut Assembly<'_>,
) -> Result<(), ReplyError> {
    let mut frames = Frames::new(framing);
    let mut size = 0;
    loop {
        let chunk = tokio::time::timeout(silence, response.chunk()).await;
        let chunk = match chunk.map_err(|_| ReplyError::Silent(silence))? {
            Ok(chunk) => chunk,
            // The reply is complete, so the connection may end without a proper close.
            Err(_) if reply.stop.is_some() => return Ok(()),
            Err(error) => return Err(ReplyError::Lost(causes(&error))),
        };
        let mut take = |event: &str| take(event, dialect, reply);
        let Some(chunk) = chunk else {
            return frames.end(&mut take);
        };
        size += chunk.len();
        if size > MAX_RESPONSE_BYTES {
            return Err(ReplyError::TooLarge);
        }
        frames.feed(&chunk, &mut take)?;
        if reply.ended {
            let _ = tokio::time::timeout(CLOSE_TIMEOUT, response.chunk()).await;
            return Ok(());
        }
    }
}

fn take(event: &str, dialect: &dyn Dialect, reply: &mut Assembly<'_>) -> Result<(), ReplyError> {
    if reply.ended {
        return Ok(());
    }
    if dialect.is_end(event) {
        reply.ended = true;
        return Ok(());
    }
    let value: Value = serde_json::from_str(event).map_err(|error| {
        let start: String = event.chars().take(80).collect();
        ReplyError::Malformed(format!("`{start}` is no JSON ({error})"))
    })?;
    dialect.take(&value, reply)
}

fn content_type(response: &Response) -> Option<String> {
    let value = response.headers().get(CONTENT_TYPE)?.to_str().ok()?;
    let kind = value.split(';').next().unwrap_or_default();
    Some(kind.trim().to_ascii_lowercase())
}

/// Returns how the events of the response are separated. Returns `None` if the response cannot be a reply.
fn framing(response: &Response, usual: Framing) -> Option<Framing> {
    match content_type(response).as_deref() {
        Some("text/event-stream") => Some(Framing::Events),
        Some("application/x-ndjson" | "application/jsonl" | "application/json-lines") => Some(Framing::Lines),
        // Some servers call their lines so, and some do not stream.
        Some("application/json") if usual == Framing::Lines => Some(Framing::Lines),
        Some("application/json") => Some(Framing::Whole),
        None | Some("" | "text/plain" | "application/octet-stream") => Some(usual),
        Some(_) => None,
    }
}

/// The beginning of a body, for error messages.
async fn beginning(response: &mut Response) -> String {
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

/// A server may repeat its input in the reply. The reply goes into the journal, so keys are removed.
fn without_secrets(mut reply: ModelReply, credentials: &Credentials) -> ModelReply {
    if credentials.occur_in(&reply.text) {
        reply.text = credentials.scrub(reply.text);
    }
    if let Some(reasoning) = &mut reply.reasoning {
        reasoning.text = credentials.scrub(std::mem::take(&mut reasoning.text));
        reasoning.blocks.iter_mut().for_each(|block| scrub(block, credentials));
    }
    for call in &mut reply.tool_calls {
        scrub(&mut call.arguments, credentials);
        call.id = credentials.scrub(std::mem::take(&mut call.id));
        call.name = credentials.scrub(std::mem::take(&mut call.name));
    }
    reply
}

fn scrub(value: &mut Value, credentials: &Credentials) {
    let text = value.to_string();
    if credentials.occur_in(&text) {
        let text = credentials.scrub(text);
        *value = serde_json::from_str(&text).unwrap_or(Value::String(text));
    }
}
