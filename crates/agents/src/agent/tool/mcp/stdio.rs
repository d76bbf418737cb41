//! Servers that are child processes; the transport is their standard streams.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rmcp::RoleClient;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::process::{ChildStdin, ChildStdout};

use super::Address;
use crate::agent::Execution;
use crate::agent::script::{Resolved, resolve, resolve_words};
use ensemble_core::secrets::Secrets;
use ensemble_language::ensemble::CommandLine;
use ensemble_process::service::{self, Service, ServiceSettings};
use ensemble_process::{Environment, Watchdog};

/// The maximum size of a message of a server, in bytes: 16 MiB.
const LONGEST_MESSAGE: usize = 16 << 20;

/// The transport to a child process.
pub(super) type Transport = AsyncRwTransport<RoleClient, Bounded<ChildStdout>, ChildStdin>;

/// Starts the child process.
pub(super) async fn start(
    address: &Address,
    watchdog: Option<Arc<Watchdog>>,
    execution: &Execution,
) -> Result<(Service, Transport), String> {
    let Address::Child {
        command,
        places,
        folder,
        env,
        sandbox,
    } = address
    else {
        return Err("this server is no child process".to_owned());
    };
    let resolved = match command {
        CommandLine::Text(text) => resolve(text, places),
        CommandLine::Words(words) => resolve_words(words, places),
    };
    let invocation = match resolved.map_err(|error| error.to_string())? {
        Resolved::Process(invocation) => invocation,
        Resolved::Rhai(_) => return Err("a Rhai script cannot be a server".to_owned()),
    };
    let environment = Environment::small(Secrets::default()).with(env.iter().cloned());
    let setting = ServiceSettings {
        folder,
        environment: &environment,
        sandbox: sandbox.as_deref(),
        run_id: &execution.run_id,
        watchdog,
        notes: &execution.notes,
    };
    let (child, stdin, stdout) = service::start(&invocation, setting).await?;
    let bounded = Bounded {
        stream: stdout,
        since_newline: 0,
    };
    // The SDK would pass over what is too long and let the call wait; here it ends the connection.
    let transport = AsyncRwTransport::new_client(bounded, stdin).with_max_line_length(usize::MAX);
    Ok((child, transport))
}

/// A stream of lines that ends with an error at the first line that is too long.
pub(super) struct Bounded<R> {
    stream: R,
    since_newline: usize,
}

impl<R: AsyncRead + Unpin> AsyncRead for Bounded<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let new = &buffer.filled()[before..];
        match new.iter().rposition(|byte| *byte == b'\n') {
            Some(newline) => self.since_newline = new.len() - newline - 1,
            None => self.since_newline += new.len(),
        }
        if self.since_newline > LONGEST_MESSAGE {
            return Poll::Ready(Err(io::Error::other("a message of the server is too long")));
        }
        read
    }
}
