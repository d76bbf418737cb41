//! Servers that are reached over HTTP.

use std::collections::HashMap;
use std::error::Error;
use std::fmt;

use reqwest::header::{HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;

/// Builds the HTTP transport to a server. `headers` are sent with every request.
pub(crate) fn build_http_transport(
    url: &str,
    headers: &[(String, String)],
) -> Result<StreamableHttpClientTransport<reqwest::Client>, String> {
    let mut all = HashMap::new();
    for (name, value) in headers {
        let name: HeaderName = name
            .parse()
            .map_err(|_| format!("`{name}` is not a valid name of a header"))?;
        let mut value: HeaderValue = value
            .parse()
            .map_err(|_| format!("the value of the header `{name}` cannot be sent"))?;
        value.set_sensitive(true);
        all.insert(name, value);
    }
    let config = StreamableHttpClientTransportConfig::with_uri(url).custom_headers(all);
    Ok(StreamableHttpClientTransport::with_client(
        build_no_redirect_client()?,
        config,
    ))
}

/// Builds an HTTP client that follows no redirects, because the headers are only for this server.
fn build_no_redirect_client() -> Result<reqwest::Client, String> {
    ensemble_models::client_builder_with_environment_proxies()?
        .redirect(redirect_error_policy())
        .build()
        .map_err(|error| format!("cannot create the HTTP client: {error}"))
}

/// Removes the parts of the address that can contain secrets.
pub(crate) fn redact_url(url: &str) -> String {
    let Ok(mut url) = reqwest::Url::parse(url) else {
        return "the server".to_owned();
    };
    let _no_password = url.set_password(None);
    let _no_user = url.set_username("");
    url.set_query(None);
    url.to_string()
}

/// Error of a redirect, which is reported instead of followed, because the headers are only for the server in `url`.
#[derive(Debug)]
pub(crate) struct RedirectError {
    to: String,
    is_same_host: bool,
}

impl fmt::Display for RedirectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { to, is_same_host } = self;
        match is_same_host {
            true => write!(f, "the server redirects to {to}; write this address as `url`"),
            false => write!(
                f,
                "the server redirects to {to} on another host; if the server has moved, write this address as `url`; if \
                 the address is a login page, write a token in `headers`"
            ),
        }
    }
}

impl Error for RedirectError {}

/// Creates a redirect policy that turns every redirect into an error.
fn redirect_error_policy() -> Policy {
    Policy::custom(|attempt| {
        let host = |url: &reqwest::Url| url.host_str().map(str::to_owned);
        let redirected = RedirectError {
            to: redact_url(attempt.url().as_str()),
            is_same_host: attempt.previous().last().and_then(host) == host(attempt.url()),
        };
        attempt.error(redirected)
    })
}
