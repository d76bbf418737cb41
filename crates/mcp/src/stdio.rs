//! The client that has started the program: one message in a line, over two streams.
//!
//! Invariant: standard output carries messages only.

use std::sync::Arc;

use ensemble_core::runner::BoxFuture;
use ensemble_wire::lines::LimitedLines;
use rmcp::ServiceExt;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::session::{McpServices, McpSession};

/// The maximum size of a message of the client, in bytes: 64 MiB.
const LONGEST_MESSAGE: usize = 64 << 20;

/// Serves the client until its stream ends. Runs that go on are then interrupted when the program ends.
///
/// # Errors
/// The client does not speak the protocol, or the server has failed.
pub fn serve_stdio(
    input: Box<dyn AsyncRead + Send + Unpin>,
    output: Box<dyn AsyncWrite + Send + Unpin>,
    services: Arc<McpServices>,
) -> BoxFuture<'static, Result<(), String>> {
    use rmcp::service::ServerInitializeError as Error;
    let input = LimitedLines::new(input, LONGEST_MESSAGE);
    // The SDK would pass over a message that is too long, and the client would wait for ever; here it ends the connection.
    let transport = AsyncRwTransport::new_server(input, output).with_max_line_length(usize::MAX);
    Box::pin(async move {
        match McpSession::for_client(services).serve(transport).await {
            Ok(running) => running.waiting().await.map(|_| ()).map_err(|error| error.to_string()),
            // The client has gone before it said anything.
            Err(Error::ConnectionClosed(_)) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    })
}
