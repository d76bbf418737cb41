//! Connections over HTTP: accepted up to a number, each served by a task.
//!
//! The server of hyper is compiled here once for all front ends: what answers requests is behind a function pointer.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// The pause after a connection that could not be accepted. The reason can be too many open files, some of which will be
/// closed.
const PAUSE: Duration = Duration::from_millis(50);

/// The body of a response.
pub type Body = UnsyncBoxBody<Bytes, Infallible>;

/// The function that answers requests.
pub type Respond = Arc<dyn Fn(Request<Incoming>) -> BoxFuture<'static, Response<Body>> + Send + Sync>;

/// The limits of a server.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionLimits {
    /// The maximum number of open connections; other clients wait.
    pub connections: usize,
    /// The time in which a client must send the head of a request.
    pub head_timeout: Duration,
}

/// Accepts connections and answers their requests, without end.
pub async fn serve_connections(listener: TcpListener, limits: ConnectionLimits, respond: Respond) {
    let permits = Arc::new(Semaphore::new(limits.connections));
    loop {
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else {
            return;
        };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let _ = stream.set_nodelay(true);
        let respond = Arc::clone(&respond);
        tokio::spawn(async move {
            let service = service_fn(|request| {
                let response = respond(request);
                async move { Ok::<_, Infallible>(response.await) }
            });
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(limits.head_timeout);
            // A client that is gone needs no answer.
            let _ = http.serve_connection(TokioIo::new(stream), service).await;
            drop(permit);
        });
    }
}
