//! What went wrong with a server, in words for people and models. Names of the SDK's types are never shown.

use std::error::Error;

use rmcp::model::ErrorData;
use rmcp::service::{ClientInitializeError, ServiceError};
use rmcp::transport::streamable_http_client::StreamableHttpError;

use super::McpAddress;
use super::http::{RedirectError, redact_url};

/// The HTTP errors of the SDK with its client.
type HttpError = StreamableHttpError<reqwest::Error>;

/// The highest number of characters of a server's own words that are quoted.
const MAX_QUOTED_CHARS: usize = 300;

/// Example of a token header in an ensemble file.
const TOKEN_HEADER_EXAMPLE: &str = "`headers: {Authorization: {env: NAME, prefix: \"Bearer \"}}`";

/// Describes the failure of a handshake.
pub(crate) fn handshake_error(error: &ClientInitializeError, address: &McpAddress) -> String {
    match error {
        ClientInitializeError::JsonRpcError(error) => refused_error(error),
        ClientInitializeError::ConnectionClosed(_) => "the server closed the connection before it answered".to_owned(),
        ClientInitializeError::NoCompatibleProtocolVersion { .. } => {
            "the server and this program have no protocol version in common".to_owned()
        }
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => handshake_error(fallback, address),
        // The SDK's errors do not name this one as their source.
        ClientInitializeError::TransportError { error, .. } => match find_cause::<HttpError>(&*error.error) {
            Some(error) => http_error(error, address),
            None => innermost_cause_text(&*error.error),
        },
        _ => "its answer does not match the protocol".to_owned(),
    }
}

/// Describes the failure of a request. Returns `None` if the connection is lost.
pub(crate) fn request_error(error: &ServiceError, address: &McpAddress) -> Option<String> {
    match error {
        ServiceError::McpError(error) => Some(refused_error(error)),
        ServiceError::TransportSend(error) => {
            find_cause::<HttpError>(&*error.error).map(|error| http_error(error, address))
        }
        ServiceError::TransportClosed => None,
        ServiceError::Cancelled { .. } => Some("the server cancelled the request".to_owned()),
        ServiceError::Timeout { .. } => Some("the server did not answer in time".to_owned()),
        _ => Some("its answer does not match the protocol".to_owned()),
    }
}

/// Describes an error reply of the server.
fn refused_error(error: &ErrorData) -> String {
    format!("the server refused: {}", quote_line(&error.message))
}

/// Describes an HTTP error of the SDK.
fn http_error(error: &HttpError, address: &McpAddress) -> String {
    match error {
        HttpError::Client(error) => client_error(error, address),
        HttpError::AuthRequired(wanted) => unauthorized_error(&wanted.www_authenticate_header, address),
        HttpError::InsufficientScope(wanted) => forbidden_error(wanted.required_scope.as_deref()),
        HttpError::HttpStatus(status) => {
            let later = status.retry_after.as_deref();
            let later = later.map(|later| format!("; retry after: {}", quote_line(later)));
            format!(
                "the server answered with HTTP {}{}",
                status.status,
                later.unwrap_or_default()
            )
        }
        HttpError::UnexpectedServerResponse(text) => response_error(text, address),
        HttpError::UnexpectedContentType(kind) => format!(
            "the server answered with {}, not with a message of the protocol; is `url` the address of its MCP endpoint?",
            kind.as_deref().map_or("content without a type".to_owned(), quote_line)
        ),
        HttpError::ResponseBodyTooLarge { max_size } => format!("an answer has more than {max_size} bytes"),
        HttpError::ReservedHeaderConflict(name) => {
            format!("the header `{name}` belongs to the protocol: remove it from `headers`")
        }
        HttpError::SessionExpired | HttpError::SessionRecoveryTimeout | HttpError::ReinitializationFailed(_) => {
            "the server has ended the session".to_owned()
        }
        HttpError::Io(error) => innermost_cause_text(error),
        HttpError::Deserialize(_) | HttpError::MissingSessionIdInResponse => {
            "its answer does not match the protocol".to_owned()
        }
        _ => "the connection broke off".to_owned(),
    }
}

/// Describes an HTTP response from the text of the SDK, such as `HTTP 404 Not Found: body`.
fn response_error(text: &str, address: &McpAddress) -> String {
    let Some((status, body)) = text.strip_prefix("HTTP ").and_then(|text| text.split_once(": ")) else {
        return "its answer does not match the protocol".to_owned();
    };
    match status.split(' ').next() {
        Some("401") => unauthorized_error("", address),
        Some("403") => forbidden_error(None),
        Some(code @ ("404" | "405")) => {
            format!("the server has no MCP endpoint there (HTTP {code}); is the path in `url` right?")
        }
        _ if body.trim().is_empty() => format!("the server answered with HTTP {status}"),
        _ => format!("the server answered with HTTP {status}: {}", quote_line(body)),
    }
}

/// Describes an error of the HTTP client: a redirect, a timeout, or the innermost cause.
fn client_error(error: &reqwest::Error, address: &McpAddress) -> String {
    if let Some(redirected) = find_cause::<RedirectError>(error) {
        return redirected.to_string();
    }
    let McpAddress::Http { url, .. } = address else {
        return innermost_cause_text(error);
    };
    match error.is_timeout() {
        true => format!("{} did not answer in time", redact_url(url)),
        false => innermost_cause_text(error),
    }
}

/// Describes status 401, with a hint how to set the token.
fn unauthorized_error(challenge: &str, address: &McpAddress) -> String {
    let has_token = matches!(address, McpAddress::Http { headers, .. }
        if headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization")));
    if has_token {
        return "the server rejected the `Authorization` header (HTTP 401): check that the token in `headers` is complete and \
                has not expired"
            .to_owned();
    }
    let offers_login = challenge.contains("resource_metadata");
    let login = "; a login with OAuth is not supported: get a token from the website or the tools of the server";
    format!(
        "the server requires a token (HTTP 401){}; write the token as {TOKEN_HEADER_EXAMPLE}",
        if offers_login { login } else { "" }
    )
}

/// Describes status 403, with the missing scope.
fn forbidden_error(scope: Option<&str>) -> String {
    let scope = scope.map(|scope| format!("; the token needs the scope {}", quote_line(scope)));
    format!(
        "the server refused access (HTTP 403): the token is missing or not sufficient{}",
        scope.unwrap_or_default()
    )
}

/// Renders text of another program as one escaped and shortened line.
fn quote_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_QUOTED_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// Returns the message of the innermost cause.
fn innermost_cause_text(error: &(dyn Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    quote_line(&innermost.to_string())
}

/// Finds an error of type `E` among the error and its causes.
fn find_cause<'e, E: Error + 'static>(error: &'e (dyn Error + 'static)) -> Option<&'e E> {
    let mut next = Some(error);
    while let Some(current) = next {
        if let Some(cause) = current.downcast_ref::<E>() {
            return Some(cause);
        }
        next = current.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(headers: &[(&str, &str)]) -> McpAddress {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        McpAddress::Http {
            url: "http://x/mcp".to_owned(),
            headers: headers.iter().map(owned).collect(),
        }
    }

    #[test]
    fn answers_of_http_are_told_in_words() {
        let response = |text: &'static str| HttpError::UnexpectedServerResponse(text.into());
        let table = [
            (
                response("HTTP 401 Unauthorized: "),
                "requires a token (HTTP 401); write the token as `headers:",
            ),
            (response("HTTP 403 Forbidden: no"), "(HTTP 403)"),
            (
                response("HTTP 404 Not Found: <html>"),
                "no MCP endpoint there (HTTP 404)",
            ),
            (response("HTTP 400 Bad Request: a\n  b"), "HTTP 400 Bad Request: a b"),
            (response("HTTP 302 Found: "), "answered with HTTP 302 Found"),
            (response("empty sse stream"), "does not match the protocol"),
            (
                HttpError::UnexpectedContentType(Some("text/html".into())),
                "answered with text/html, not",
            ),
            (HttpError::UnexpectedContentType(None), "content without a type"),
            (
                HttpError::ReservedHeaderConflict("accept".into()),
                "`accept` belongs to the protocol",
            ),
            (HttpError::UnexpectedEndOfStream, "the connection broke off"),
        ];
        for (error, expected) in table {
            let told = http_error(&error, &address(&[]));
            assert!(told.contains(expected), "{told}");
        }
        let refused = http_error(
            &response("HTTP 401 Unauthorized: "),
            &address(&[("authorization", "Bearer x")]),
        );
        assert!(refused.contains("rejected the `Authorization` header"), "{refused}");
        let login = unauthorized_error("Bearer resource_metadata=\"https://x\"", &address(&[]));
        assert!(login.contains("login with OAuth is not supported"), "{login}");
    }

    #[test]
    fn what_others_say_is_one_short_line() {
        assert_eq!(quote_line(" a\n\tb "), "a b");
        assert_eq!(quote_line(&"é".repeat(400)).chars().count(), MAX_QUOTED_CHARS + 1);
    }
}
