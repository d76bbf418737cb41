//! Clients on this machine, over streamable HTTP.
//!
//! A page in a browser must not reach the server, whatever name it has for this machine: the host and the origin of each
//! request are checked, a token is needed, and no header allows other origins anything.
//!
//! Invariant: a request has a name of the server as its host, no foreign origin, and the token.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ensemble_core::runner::BoxFuture;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{AUTHORIZATION, HOST, HeaderMap, HeaderName, ORIGIN, WWW_AUTHENTICATE};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::session::{Services, Session};

/// The path of the server.
pub const PATH: &str = "/mcp";
/// Most connections at a time.
const CONNECTIONS: usize = 256;
/// How long the head of a request may take.
const PATIENCE: Duration = Duration::from_secs(20);

type Answer = Response<BoxBody<Bytes, Infallible>>;
type Service = StreamableHttpService<Session, LocalSessionManager>;

/// Who may send requests.
struct Guard {
    /// The names of the server, with its port.
    hosts: Vec<String>,
    token: String,
}

/// Serves clients until the program ends.
///
/// # Errors
/// The listener has no address, or one that others can reach.
pub fn serve(
    listener: TcpListener,
    token: String,
    services: Arc<Services>,
) -> BoxFuture<'static, Result<(), std::io::Error>> {
    Box::pin(async move {
        let address = listener.local_addr()?;
        if !address.ip().is_loopback() {
            return Err(std::io::Error::other(format!(
                "{address} can be reached from other machines"
            )));
        }
        let guard = Arc::new(Guard::new(address, token));
        // Both are checked before, with the port.
        let config = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .disable_allowed_origins();
        let session = move || Ok(Session::new(services.clone()));
        let service: Service = StreamableHttpService::new(session, Arc::default(), config);
        let free = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            let Ok(place) = free.clone().acquire_owned().await else {
                return Ok(());
            };
            // What cannot be accepted is no reason to end, and a pause keeps the processor free where files are short.
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let (guard, service) = (guard.clone(), service.clone());
            tokio::spawn(async move {
                let answer = service_fn(move |request: Request<Incoming>| {
                    let (guard, service) = (guard.clone(), service.clone());
                    async move { Ok::<Answer, Infallible>(guard.answer(request, &service).await) }
                });
                let connection = hyper::server::conn::http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(PATIENCE)
                    .serve_connection(TokioIo::new(stream), answer)
                    .await;
                // Who is gone needs no answer.
                drop((connection, place));
            });
        }
    })
}

impl Guard {
    fn new(address: SocketAddr, token: String) -> Self {
        let port = address.port();
        Self {
            hosts: vec![address.to_string(), format!("localhost:{port}")],
            token,
        }
    }

    async fn answer(&self, request: Request<Incoming>, service: &Service) -> Answer {
        match self.refusal(request.headers(), request.uri().path()) {
            Some(refusal) => refusal,
            None => service.handle(request).await,
        }
    }

    fn refusal(&self, headers: &HeaderMap, path: &str) -> Option<Answer> {
        let is_own = |host: &str| self.hosts.iter().any(|own| own.eq_ignore_ascii_case(host));
        let is_host = all(headers, &HOST).is_some_and(|hosts| hosts.len() == 1 && is_own(hosts[0]));
        if !is_host {
            return Some(refused(StatusCode::FORBIDDEN, "this is no name of the server"));
        }
        let is_page = |origin: &&str| !origin.strip_prefix("http://").is_some_and(is_own);
        if all(headers, &ORIGIN).is_none_or(|origins| origins.iter().any(is_page)) {
            return Some(refused(StatusCode::FORBIDDEN, "pages of other origins are not served"));
        }
        let tokens = all(headers, &AUTHORIZATION).unwrap_or_default();
        let token = tokens.first().and_then(|value| value.split_once(' '));
        let has_token = token.is_some_and(|(scheme, token)| {
            scheme.eq_ignore_ascii_case("bearer") && is_same(token.trim().as_bytes(), self.token.as_bytes())
        });
        if !has_token || tokens.len() != 1 {
            let mut refused = refused(
                StatusCode::UNAUTHORIZED,
                "the token that the server has printed is needed",
            );
            refused
                .headers_mut()
                .insert(WWW_AUTHENTICATE, hyper::header::HeaderValue::from_static("Bearer"));
            return Some(refused);
        }
        (path != PATH).then(|| refused(StatusCode::NOT_FOUND, "the server is at /mcp"))
    }
}

/// All values of a header; `None`: one of them is no text.
fn all<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<Vec<&'h str>> {
    headers.get_all(name).iter().map(|value| value.to_str().ok()).collect()
}

/// Compares in a time that tells nothing of the place of a difference.
fn is_same(given: &[u8], own: &[u8]) -> bool {
    let differences = given.iter().zip(own).fold(0, |sum, (given, own)| sum | (given ^ own));
    given.len() == own.len() && differences == 0
}

fn refused(status: StatusCode, why: &'static str) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from_static(why.as_bytes())).boxed());
    *answer.status_mut() = status;
    answer
}
