//! One connection to a server, from the handshake to its end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::ClientHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ClientCapabilities, ClientConfig, Implementation, PaginatedRequestParams,
};
use rmcp::service::{NotificationContext, RoleClient, RunningService, ServiceError};
use serde_json::Value;
use tokio::time::Instant;

use super::{Address, ServerTool, content, http, stdio};
use crate::agent::process::Watchdog;
use crate::agent::process::service::{Service, Stderr};
use crate::agent::{Execution, Notes};
use ensemble_core::thread::ToolEnd;
use ensemble_language::data::JsonMap;

/// The maximum numbers of pages of the tool list and of tools that are read.
const MOST_PAGES: usize = 100;
const MOST_TOOLS: usize = 1000;

/// The time limit for closing the session, before the child process is killed.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// A connection, and the child process behind it if there is one.
pub(super) struct Connection {
    running: RunningService<RoleClient, Client>,
    /// The child process. It is dropped after the connection, whose drop closes the stdin of the child.
    child: Option<Service>,
    listed: Mutex<Option<Arc<[ServerTool]>>>,
    /// Has the server announced that its tool list has changed?
    is_stale: Arc<AtomicBool>,
}

/// The MCP client: it offers no capabilities to the server.
pub(super) struct Client {
    is_stale: Arc<AtomicBool>,
}

impl ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        let us = Implementation::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), us)
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.is_stale.store(true, Ordering::Relaxed);
    }
}

impl Connection {
    /// Starts or connects the server and performs the handshake, until the deadline.
    pub(super) async fn open(
        address: &Address,
        deadline: Instant,
        watchdog: Option<Arc<Watchdog>>,
        execution: &Execution,
    ) -> Result<Self, String> {
        let is_stale = Arc::new(AtomicBool::new(false));
        let client = Client {
            is_stale: Arc::clone(&is_stale),
        };
        let (running, child) = match address {
            Address::Child { .. } => {
                let (child, transport) = stdio::start(address, watchdog, execution).await?;
                let shaken = tokio::time::timeout_at(deadline, rmcp::serve_client(client, transport)).await;
                let stderr = child.stderr().clone();
                let said = |error: String| {
                    let error = with_stderr(error, &stderr);
                    execution.notes.add_stderr(&stderr.take());
                    error
                };
                let running = match shaken {
                    Ok(Ok(running)) => running,
                    Ok(Err(error)) => {
                        child.wait_for_stderr().await;
                        child.end().await;
                        return Err(said(format!("the MCP handshake with the server failed: {error}")));
                    }
                    Err(_) => return Err(said(NO_HANDSHAKE.to_owned())),
                };
                (running, Some(child))
            }
            Address::Http { url, headers } => {
                let transport = http::transport(url, headers)?;
                let shaken = tokio::time::timeout_at(deadline, rmcp::serve_client(client, transport)).await;
                let running = shaken
                    .map_err(|_| NO_HANDSHAKE.to_owned())?
                    .map_err(|error| format!("cannot connect to {}: {}", http::shown(url), http::causes(&error)))?;
                (running, None)
            }
        };
        Ok(Self {
            running,
            child,
            listed: Mutex::default(),
            is_stale,
        })
    }

    /// Is the connection closed?
    pub(super) fn is_lost(&self) -> bool {
        self.running.is_closed() || self.running.is_transport_closed()
    }

    /// The tool list of the server, with all pages.
    pub(super) async fn tools(&self, deadline: Instant) -> Result<Arc<[ServerTool]>, String> {
        if !self.is_stale.swap(false, Ordering::Relaxed)
            && let Some(listed) = self.listed.lock().unwrap_or_else(PoisonError::into_inner).clone()
        {
            return Ok(listed);
        }
        let listed = tokio::time::timeout_at(deadline, self.list()).await;
        let listed: Arc<[ServerTool]> = match listed {
            Ok(Ok(listed)) => listed.into(),
            Ok(Err(error)) => return Err(self.lost(format!("the server does not list its tools: {error}")).await),
            Err(_) => return Err("the server did not list its tools in time".to_owned()),
        };
        *self.listed.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&listed));
        Ok(listed)
    }

    async fn list(&self) -> Result<Vec<ServerTool>, ServiceError> {
        let mut tools = Vec::new();
        let mut page: Option<PaginatedRequestParams> = None;
        for _ in 0..MOST_PAGES {
            let answer = self.running.list_tools(page).await?;
            tools.extend(answer.tools.into_iter().map(|tool| {
                ServerTool {
                    only_reads: tool
                        .annotations
                        .and_then(|hints| hints.read_only_hint)
                        .unwrap_or_default(),
                    name: tool.name.as_ref().into(),
                    description: tool.description.map(|text| text.into_owned()).unwrap_or_default(),
                    parameters: Value::Object(Arc::unwrap_or_clone(tool.input_schema)),
                }
            }));
            let Some(cursor) = answer.next_cursor.filter(|_| tools.len() < MOST_TOOLS) else {
                break;
            };
            page = Some(PaginatedRequestParams::default().with_cursor(Some(cursor)));
        }
        tools.truncate(MOST_TOOLS);
        Ok(tools)
    }

    /// Calls a tool. Dropping the future sends a cancellation to the server.
    pub(super) async fn call(&self, tool: &str, arguments: JsonMap) -> ToolEnd {
        let request = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        match self.running.peer().call_tool_once(request).await {
            Ok(CallToolResponse::Complete(result)) => content::end_of(result),
            Ok(_) => ToolEnd::Error("the server wants to go on in a way that is not supported here".to_owned()),
            Err(ServiceError::McpError(error)) => ToolEnd::Error(format!("the server refused: {}", error.message)),
            Err(ServiceError::TransportClosed | ServiceError::TransportSend(_)) => {
                ToolEnd::Error(self.lost("the server ended before it answered".to_owned()).await)
            }
            Err(error) => ToolEnd::Error(format!("the server did not answer as it should: {error}")),
        }
    }

    /// Adds the new stderr output of the server to the notes.
    pub(super) fn pass_on(&self, notes: &Notes) {
        if let Some(child) = &self.child {
            notes.add_stderr(&child.stderr().take());
        }
    }

    /// Closes the connection: it closes stdin or ends the session, and then kills a child process that is still
    /// running.
    pub(super) async fn close(self) {
        let Self { mut running, child, .. } = self;
        let _gone_anyway = running.close_with_timeout(END_TIMEOUT).await;
        drop(running);
        if let Some(child) = child {
            child.end().await;
        }
    }

    /// The error, with the last lines of the stderr of the server.
    async fn lost(&self, error: String) -> String {
        match &self.child {
            Some(child) => {
                child.wait_for_stderr().await;
                with_stderr(error, child.stderr())
            }
            None => error,
        }
    }
}

const NO_HANDSHAKE: &str = "the server did not answer the handshake in time (`timeout_seconds`)";

fn with_stderr(error: String, stderr: &Stderr) -> String {
    match stderr.last_lines() {
        quoted if quoted.is_empty() => error,
        quoted => format!("{error}; stderr ends with:\n{quoted}"),
    }
}
