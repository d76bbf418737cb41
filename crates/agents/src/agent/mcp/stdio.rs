//! Servers that are child processes; the transport is their standard streams.

use std::sync::Arc;

use ensemble_wire::lines::LineLimitedStream;
use rmcp::RoleClient;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::process::{ChildStdin, ChildStdout};

use super::McpAddress;
use crate::agent::ExecutionInput;
use ensemble_core::secrets::Secrets;
use ensemble_language::ensemble::CommandLine;
use ensemble_process::program::{ResolvedScript, resolve_command_words, resolve_script};
use ensemble_process::service::{self, ServiceOptions, ServiceProcess};
use ensemble_process::{ChildEnvironment, ProcessWatchdog};

/// The maximum size of a message of a server, in bytes: 16 MiB.
const MAX_SERVER_MESSAGE_BYTES: usize = 16 << 20;

/// The transport to a child process.
pub(crate) type ChildTransport = AsyncRwTransport<RoleClient, LineLimitedStream<ChildStdout>, ChildStdin>;

/// Starts the child process of a server and returns its transport. The watchdog kills the process if this process is killed.
pub(crate) async fn start_server_process(
    address: &McpAddress,
    watchdog: Option<Arc<ProcessWatchdog>>,
    execution: &ExecutionInput,
) -> Result<(ServiceProcess, ChildTransport), String> {
    let McpAddress::Child {
        command,
        places,
        folder,
        env,
        sandbox,
    } = address
    else {
        return Err("this server is not a child process".to_owned());
    };
    let resolved = match command {
        CommandLine::Text(text) => resolve_script(text, places),
        CommandLine::Words(words) => resolve_command_words(words, places),
    };
    let invocation = match resolved.map_err(|error| error.to_string())? {
        ResolvedScript::Process(invocation) => invocation,
        ResolvedScript::Rhai(_) => return Err("a Rhai script cannot be a server".to_owned()),
    };
    let environment = ChildEnvironment::for_foreign_program(Secrets::default()).with_variables(env.iter().cloned());
    let setting = ServiceOptions {
        folder,
        environment: &environment,
        sandbox: sandbox.as_deref(),
        run_id: &execution.run_id,
        watchdog,
        ledger: &execution.ledger,
    };
    let (child, stdin, stdout) = service::start_service(&invocation, setting).await?;
    let limited = LineLimitedStream::new(stdout, MAX_SERVER_MESSAGE_BYTES);
    // The SDK would pass over what is too long and let the call wait; here it ends the connection.
    let transport = AsyncRwTransport::new_client(limited, stdin).with_max_line_length(usize::MAX);
    Ok((child, transport))
}
