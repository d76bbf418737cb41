//! The server for the client that started the program: one message per line, over two streams.
//!
//! Invariant: standard output contains messages only, and each line of the client that is not a message is answered with an error.

mod transport;

use std::sync::Arc;

use ensemble_core::runner::BoxFuture;
use rmcp::ServiceExt;
use tokio::io::{AsyncRead, AsyncWrite};

use self::transport::StdioTransport;
use crate::session::{McpServices, McpSession};

/// Serves the client until its stream ends. Runs are interrupted when the program exits, and can be resumed.
///
/// # Errors
///
/// The client violates the protocol, or the server fails.
pub fn serve_stdio(
    input: Box<dyn AsyncRead + Send + Unpin>,
    output: Box<dyn AsyncWrite + Send + Unpin>,
    services: Arc<McpServices>,
) -> BoxFuture<'static, Result<(), String>> {
    use rmcp::service::ServerInitializeError as Error;
    let transport = StdioTransport::new(input, output);
    Box::pin(async move {
        match McpSession::for_client(services).serve(transport).await {
            Ok(running) => running.waiting().await.map(|_| ()).map_err(|error| error.to_string()),
            // The client has gone before it said anything.
            Err(Error::ConnectionClosed(_)) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    })
}
