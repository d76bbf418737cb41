//! The server for clients on this machine, over streamable HTTP.
//!
//! A page in a browser must not reach the server, whatever name it uses for this machine. So the host and the origin of each request are
//! checked, a token is required, and no header grants access to other origins.
//!
//! Invariant: an accepted request has a name of the server as its host, no foreign origin, and the token.

use std::sync::Arc;
use std::time::Duration;

use ensemble_core::runner::BoxFuture;
use ensemble_wire::bodies::{BodyReadLimits, LimitedBodyReader};
use ensemble_wire::connections::{self, ConnectionLimits, ResponseBody};
use ensemble_wire::guard::{GuardRefusal, RequestGuard};
use ensemble_wire::token::AccessToken;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Request, Response, StatusCode};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::TcpListener;

use crate::session::{McpServices, McpSession};

/// The path of the server in its URL.
pub const MCP_PATH: &str = "/mcp";

/// The limits on the connections to the server.
const CONNECTION_LIMITS: ConnectionLimits = ConnectionLimits {
    admitted: 256,
    waiting: 128,
    head_timeout: Duration::from_secs(20),
};
/// The limits on request bodies: 64 MiB for one body, 256 MiB for all, and one minute to arrive.
const BODY_LIMITS: BodyReadLimits = BodyReadLimits {
    largest: 64 << 20,
    total: 256 << 20,
    timeout: Duration::from_secs(60),
};

/// The refusal of a request for another path than that of the server.
const WRONG_PATH_REFUSAL: GuardRefusal = GuardRefusal {
    status: StatusCode::NOT_FOUND,
    code: "not_found",
    message: "the server is at /mcp",
};

/// The HTTP service of the protocol, with one session for each client.
type McpHttpService = StreamableHttpService<McpSession, LocalSessionManager>;

/// Serves clients until the program exits.
///
/// # Errors
/// The listener has no address, or one that others can reach.
pub fn serve_http(
    listener: TcpListener,
    token: AccessToken,
    services: Arc<McpServices>,
) -> BoxFuture<'static, Result<(), std::io::Error>> {
    Box::pin(async move {
        let address = listener.local_addr()?;
        if !address.ip().is_loopback() {
            return Err(std::io::Error::other(format!(
                "{address} is not a loopback address, such as 127.0.0.1"
            )));
        }
        let guard = Arc::new(RequestGuard::new(token, address.port()));
        // Both are checked before, with the port.
        let config = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .disable_allowed_origins();
        let session = move || Ok(McpSession::for_client(services.clone()));
        let service: McpHttpService = StreamableHttpService::new(session, Arc::default(), config);
        let bodies = LimitedBodyReader::new(BODY_LIMITS);
        let respond = Arc::new(move |request| {
            let (guard, bodies, service) = (guard.clone(), bodies.clone(), service.clone());
            Box::pin(async move {
                let response = check_and_answer_request(&guard, &bodies, request, &service).await;
                response.unwrap_or_else(refusal_response)
            }) as _
        });
        connections::serve_connections_forever(listener, CONNECTION_LIMITS, respond).await;
        Ok(())
    })
}

/// Checks the request, reads its body, and returns the response of the service.
async fn check_and_answer_request(
    guard: &RequestGuard,
    bodies: &LimitedBodyReader,
    mut request: Request<Incoming>,
    service: &McpHttpService,
) -> Result<Response<ResponseBody>, GuardRefusal> {
    check_path_and_guard(guard, request.headers(), request.uri().path())?;
    connections::admit_connection_of_request(&mut request)?;
    let (parts, body) = request.into_parts();
    // The body counts in the total until the response begins.
    let body = bodies.read_body(body).await?;
    let request = Request::from_parts(parts, Full::new(body.to_bytes()));
    Ok(service.handle(request).await.map(BodyExt::boxed_unsync))
}

/// Checks the host, the origin, the token and the path of a request. Fails with the refusal of the first failed check.
fn check_path_and_guard(guard: &RequestGuard, headers: &HeaderMap, path: &str) -> Result<(), GuardRefusal> {
    guard.check_host(headers)?;
    guard.check_origin(headers)?;
    guard.check_bearer_token(headers)?;
    match path == MCP_PATH {
        true => Ok(()),
        false => Err(WRONG_PATH_REFUSAL),
    }
}

/// Converts a refusal to an HTTP response.
fn refusal_response(refusal: GuardRefusal) -> Response<ResponseBody> {
    let body = Full::new(Bytes::from_static(refusal.message.as_bytes()));
    let mut response = Response::new(body.boxed_unsync());
    *response.status_mut() = refusal.status;
    if refusal.status == StatusCode::UNAUTHORIZED {
        let scheme = HeaderValue::from_static("Bearer");
        response.headers_mut().insert(WWW_AUTHENTICATE, scheme);
    }
    response
}
