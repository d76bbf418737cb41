//! Offers the services to the engine over HTTP/2.

use std::future::Future;

use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use restate_sdk::endpoint::Endpoint;
use restate_sdk::hyper::HyperEndpoint;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::execution::Execution;
use crate::index::Index;
use crate::run::Run;
use crate::worker::Worker;

/// How much may be under way on a connection and on a stream before it is read. With the usual window of 64 KiB a
/// connection with thousands of calls side by side is lost.
const WINDOW: u32 = 64 << 20;
/// The most calls side by side on a connection.
const STREAMS: u32 = 100_000;

/// Serves until `stop` ends. Connections that are open then are closed.
///
/// # Errors
/// A key cannot be read.
pub async fn serve(
    listener: TcpListener,
    worker: Worker,
    identity_keys: &[String],
    stop: impl Future<Output = ()>,
) -> Result<(), String> {
    let mut endpoint = Endpoint::builder()
        .bind(Run(worker.clone()))
        .bind(Execution(worker))
        .bind(Index);
    for key in identity_keys {
        endpoint = endpoint
            .identity_key(key)
            .map_err(|error| format!("`{key}` is no key: {error}"))?;
    }
    let endpoint = HyperEndpoint::new(endpoint.build());
    let mut connections = JoinSet::new();
    let mut stop = std::pin::pin!(stop);
    loop {
        tokio::select! {
            () = &mut stop => return Ok(()),
            // What a connection ended with, the engine knows: it tries again.
            Some(_ended) = connections.join_next() => {}
            accepted = listener.accept() => {
                // A connection that is lost before it is accepted is tried again.
                let Ok((stream, _)) = accepted else { continue };
                let _ = stream.set_nodelay(true);
                let connection = http2::Builder::new(TokioExecutor::new())
                    .timer(TokioTimer::new())
                    .initial_connection_window_size(WINDOW)
                    .initial_stream_window_size(WINDOW / 16)
                    .max_concurrent_streams(STREAMS)
                    .serve_connection(TokioIo::new(stream), endpoint.clone());
                connections.spawn(connection);
            }
        }
    }
}
