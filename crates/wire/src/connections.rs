//! HTTP connections: accepted up to a maximum number, each served by a task.
//!
//! The server of hyper is compiled here once for all front ends: a function pointer answers the requests.
//!
//! Invariant: a client without the token displaces no client with the token. If there are too many connections without an admitted
//! request, the oldest is closed.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::guard::GuardRefusal;

/// Pause after a connection that could not be accepted, for example because too many files are open.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Body of a response.
pub type ResponseBody = UnsyncBoxBody<Bytes, Infallible>;

/// Function that answers requests.
pub type ConnectionRequestHandler =
    Arc<dyn Fn(Request<Incoming>) -> BoxFuture<'static, Response<ResponseBody>> + Send + Sync>;

/// Limits on connections to a server.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionLimits {
    /// Maximum number of connections with an admitted request.
    pub admitted: usize,
    /// Maximum number of other connections. The oldest is closed if there are more.
    pub waiting: usize,
    /// Time in which a client must send the head of a request.
    pub head_timeout: Duration,
}

/// Table of the open connections of a server. Clones share the table.
#[derive(Debug, Clone)]
pub struct ConnectionTable(Arc<ConnectionTableState>);

/// Shared state of a table of connections.
#[derive(Debug)]
struct ConnectionTableState {
    most_waiting: usize,
    /// Connections without an admitted request, the oldest first.
    waiting: Mutex<UnadmittedConnections>,
    admitted: Arc<Semaphore>,
}

/// Connections without an admitted request, with their close channels.
#[derive(Debug, Default)]
struct UnadmittedConnections {
    next: u64,
    closers: BTreeMap<u64, oneshot::Sender<()>>,
}

/// Entry of a connection in the table. Clones share the entry. Requests of the connection carry it in their extensions until
/// [`admit_connection_of_request`].
#[derive(Debug, Clone)]
pub struct ConnectionHandle(Arc<ConnectionHandleState>);

/// Shared state of an entry, which leaves the table on drop.
#[derive(Debug)]
struct ConnectionHandleState {
    number: u64,
    table: ConnectionTable,
    admission: Mutex<Option<OwnedSemaphorePermit>>,
}

impl ConnectionTable {
    /// Creates the table of a server without connections.
    pub fn new(limits: ConnectionLimits) -> Self {
        Self(Arc::new(ConnectionTableState {
            most_waiting: limits.waiting.max(1),
            waiting: Mutex::default(),
            admitted: Arc::new(Semaphore::new(limits.admitted)),
        }))
    }

    /// Adds a connection, and closes the oldest connection without an admitted request if there are too many. The receiver gets
    /// a message when the new connection must close.
    pub fn add_and_displace_oldest(&self) -> (ConnectionHandle, oneshot::Receiver<()>) {
        let (closer, closed) = oneshot::channel();
        let mut waiting = self.lock_waiting();
        let number = waiting.next;
        waiting.next += 1;
        waiting.closers.insert(number, closer);
        while waiting.closers.len() > self.0.most_waiting
            && let Some((_, oldest)) = waiting.closers.pop_first()
        {
            // The connection can have ended meanwhile.
            let _ = oldest.send(());
        }
        drop(waiting);
        let place = ConnectionHandleState {
            number,
            table: self.clone(),
            admission: Mutex::default(),
        };
        (ConnectionHandle(Arc::new(place)), closed)
    }

    /// Locks the connections without an admitted request.
    fn lock_waiting(&self) -> MutexGuard<'_, UnadmittedConnections> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionHandle {
    /// Admits the connection, so that new connections do not displace it.
    ///
    /// # Errors
    /// The maximum number of connections is admitted.
    pub fn admit(&self) -> Result<(), GuardRefusal> {
        let mut admission = self.0.admission.lock().unwrap_or_else(PoisonError::into_inner);
        if admission.is_none() {
            let table = &self.0.table;
            let permit = Arc::clone(&table.0.admitted).try_acquire_owned();
            *admission = Some(permit.map_err(|_| GuardRefusal::BUSY)?);
            table.lock_waiting().closers.remove(&self.0.number);
        }
        Ok(())
    }
}

impl Drop for ConnectionHandleState {
    fn drop(&mut self) {
        self.table.lock_waiting().closers.remove(&self.number);
    }
}

/// Admits the connection of a request whose client may use the server. Removes the entry from the request, so that work
/// which outlasts the connection keeps no entry.
///
/// # Errors
/// The maximum number of connections is admitted.
pub fn admit_connection_of_request<B>(request: &mut Request<B>) -> Result<(), GuardRefusal> {
    match request.extensions_mut().remove::<ConnectionHandle>() {
        Some(place) => place.admit(),
        None => Ok(()),
    }
}

/// Accepts connections and answers their requests, forever.
pub async fn serve_connections_forever(
    listener: TcpListener,
    limits: ConnectionLimits,
    respond: ConnectionRequestHandler,
) {
    let table = ConnectionTable::new(limits);
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let _ = stream.set_nodelay(true);
        let respond = Arc::clone(&respond);
        let (place, closed) = table.add_and_displace_oldest();
        tokio::spawn(async move {
            let service = service_fn(|mut request: Request<Incoming>| {
                request.extensions_mut().insert(place.clone());
                let response = respond(request);
                async move { Ok::<_, Infallible>(response.await) }
            });
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(limits.head_timeout);
            let connection = http.serve_connection(TokioIo::new(stream), service);
            tokio::select! {
                // A client that is gone needs no answer.
                _ = connection => {}
                Ok(()) = closed => {}
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt, Empty};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;

    const LIMITS: ConnectionLimits = ConnectionLimits {
        admitted: 2,
        waiting: 4,
        head_timeout: Duration::from_secs(60),
    };

    /// A server that admits requests to `/in`, and its address.
    async fn start_server() -> std::net::SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("it has an address");
        let respond: ConnectionRequestHandler = Arc::new(|mut request| {
            Box::pin(async move {
                let mut response = Response::new(Empty::new().boxed_unsync());
                if request.uri().path() == "/in"
                    && let Err(refusal) = admit_connection_of_request(&mut request)
                {
                    *response.status_mut() = refusal.status;
                }
                response
            })
        });
        tokio::spawn(serve_connections_forever(listener, LIMITS, respond));
        address
    }

    async fn connect(address: std::net::SocketAddr, text: &str) -> TcpStream {
        let mut stream = TcpStream::connect(address).await.expect("the server listens");
        stream.write_all(text.as_bytes()).await.expect("the server reads");
        stream
    }

    /// Sends a request, and returns the status of its response; `None`: the connection was closed.
    async fn status(stream: &mut TcpStream, path: &str) -> Option<String> {
        let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n");
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut text = String::new();
        while !text.ends_with("\r\n\r\n") {
            let mut buffer = [0; 1024];
            let length = stream.read(&mut buffer).await.ok().filter(|length| *length > 0)?;
            text.push_str(&String::from_utf8_lossy(&buffer[..length]));
        }
        text.split(' ').nth(1).map(str::to_owned)
    }

    #[tokio::test]
    async fn half_requests_take_no_place_from_whole_ones() {
        let address = start_server().await;
        let mut admitted = connect(address, "").await;
        assert_eq!(status(&mut admitted, "/in").await.as_deref(), Some("200"));
        let mut halves = Vec::new();
        for _ in 0..100 {
            halves.push(connect(address, "GET / HTTP/1.1\r\nhost: a\r\n").await);
            assert_eq!(
                status(&mut connect(address, "").await, "/").await.as_deref(),
                Some("200")
            );
        }
        let mut byte = [0];
        let read = halves[0].read(&mut byte).await;
        assert!(
            matches!(read, Ok(0) | Err(_)),
            "the oldest half request is closed: {read:?}"
        );
        assert_eq!(
            status(&mut admitted, "/in").await.as_deref(),
            Some("200"),
            "it stays open"
        );
    }

    #[tokio::test]
    async fn admitted_connections_are_counted_and_given_back() {
        let address = start_server().await;
        let (mut one, mut two, mut three) = (
            connect(address, "").await,
            connect(address, "").await,
            connect(address, "").await,
        );
        assert_eq!(status(&mut one, "/in").await.as_deref(), Some("200"));
        assert_eq!(status(&mut two, "/in").await.as_deref(), Some("200"));
        assert_eq!(
            status(&mut one, "/in").await.as_deref(),
            Some("200"),
            "it is counted once"
        );
        assert_eq!(status(&mut three, "/in").await.as_deref(), Some("503"));
        drop(two);
        // The server sees the end of the connection a moment later.
        let again = async {
            while status(&mut three, "/in").await.as_deref() != Some("200") {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), again)
            .await
            .expect("its place is free");
    }
}
