//! Servers that are reached over HTTP.

use std::collections::HashMap;
use std::error::Error;
use std::sync::OnceLock;
use std::time::Duration;

use reqwest::header::{HeaderName, HeaderValue};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;

/// The time limit for connecting.
const CONNECT: Duration = Duration::from_secs(10);

/// The transport to a server.
pub(super) fn transport(
    url: &str,
    headers: &[(String, String)],
) -> Result<StreamableHttpClientTransport<reqwest::Client>, String> {
    let mut all = HashMap::new();
    for (name, value) in headers {
        let name: HeaderName = name.parse().map_err(|_| format!("`{name}` is no name of a header"))?;
        let mut value: HeaderValue = value
            .parse()
            .map_err(|_| format!("the value of the header `{name}` cannot be sent"))?;
        value.set_sensitive(true);
        all.insert(name, value);
    }
    let config = StreamableHttpClientTransportConfig::with_uri(url).custom_headers(all);
    Ok(StreamableHttpClientTransport::with_client(client()?, config))
}

/// A client that follows no redirects, because the headers are only for this server.
fn client() -> Result<reqwest::Client, String> {
    static READY: OnceLock<()> = OnceLock::new();
    READY.get_or_init(|| {
        // An error means that somebody else has done it.
        let _done = rustls::crypto::ring::default_provider().install_default();
    });
    reqwest::Client::builder()
        .connect_timeout(CONNECT)
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .map_err(|error| format!("cannot make a client for HTTP: {error}"))
}

/// The address without the parts that may contain secrets.
pub(super) fn shown(url: &str) -> String {
    let Ok(mut url) = reqwest::Url::parse(url) else {
        return "the server".to_owned();
    };
    let _no_password = url.set_password(None);
    let _no_user = url.set_username("");
    url.set_query(None);
    url.to_string()
}

/// The error with its causes.
pub(super) fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        next = cause.source();
    }
    text
}
