//! Servers that speak the Model Context Protocol, through its official SDK.
//!
//! A server is started or connected when its tool list is first needed. All agents of a run share the server, and it
//! ends with the run. Its messages are data: their size is limited, and so is the time for an answer. A server that has
//! ended is restarted once, at the next call.

mod connection;
mod content;
mod elicitation;
mod error_messages;
mod files;
mod form;
mod http;
mod stdio;
mod stub;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use self::connection::McpConnection;
pub(in crate::agent) use self::elicitation::ElicitationContext;
pub use self::stub::McpServerStub;
use self::stub::StubbedServer;
use crate::agent::ExecutionInput;
use crate::agent::tools::result::{ToolCallResult, timeout_message};
use ensemble_core::runner::BoxFuture;
use ensemble_core::secrets::Secrets;
use ensemble_core::thread::ToolEnd;
use ensemble_language::data::JsonMap;
use ensemble_language::ensemble::CommandLine;
use ensemble_process::ProcessWatchdog;
use ensemble_process::confine::ProcessSandbox;
use ensemble_process::program::ScriptFolders;

/// The maximum number of starts of a server: the first start and one restart.
const MAX_SERVER_STARTS: u8 = 2;

/// The address of a server, with all values from the environment.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum McpAddress {
    /// A child process.
    Child {
        /// The program and its arguments.
        command: CommandLine,
        /// The folders in which programs are searched.
        places: ScriptFolders,
        /// The working folder of the server.
        folder: PathBuf,
        /// Additional environment variables.
        env: Vec<(String, String)>,
        /// What the server may reach; `None`: all that the user may.
        sandbox: Option<Arc<ProcessSandbox>>,
    },
    /// Over HTTP.
    Http {
        /// The URL of the server.
        url: String,
        /// Headers of every request.
        headers: Vec<(String, String)>,
    },
}

/// All servers of a run.
#[derive(Default)]
pub struct McpServers {
    watchdog: Option<Arc<ProcessWatchdog>>,
    secrets: Secrets,
    servers: Mutex<HashMap<McpAddress, Arc<McpServerHandle>>>,
}

/// A server.
pub struct McpServerHandle(McpServerKind);

enum McpServerKind {
    Connected(Box<OnDemandServer>),
    Stubbed(StubbedServer),
}

/// A server that is started or connected when it is needed.
struct OnDemandServer {
    address: McpAddress,
    watchdog: Option<Arc<ProcessWatchdog>>,
    secrets: Secrets,
    state: tokio::sync::Mutex<McpServerState>,
}

#[derive(Default)]
struct McpServerState {
    starts: u8,
    connection: Option<Arc<McpConnection>>,
    is_closed: bool,
}

/// A tool as its server describes it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ServerTool {
    /// The name of the tool on the server.
    pub name: Arc<str>,
    /// The description of the tool.
    pub description: String,
    /// JSON Schema of its arguments.
    pub parameters: Value,
    /// JSON Schema of its structured results.
    pub output_schema: Option<Value>,
    /// Whether the server says that the tool changes nothing (`readOnlyHint`).
    pub only_reads: bool,
}

impl McpServers {
    /// No servers. The watchdog kills servers that are child processes if this process is killed.
    /// Nothing that a server says tells the secrets.
    pub fn new(watchdog: Option<Arc<ProcessWatchdog>>, secrets: Secrets) -> Self {
        Self {
            watchdog,
            secrets,
            servers: Mutex::default(),
        }
    }

    /// Returns the server at this address; equal addresses give the same server.
    pub fn get_or_add_server(&self, address: McpAddress) -> Arc<McpServerHandle> {
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || {
            McpServerHandle(McpServerKind::Connected(Box::new(OnDemandServer {
                address: address.clone(),
                watchdog: self.watchdog.clone(),
                secrets: self.secrets.clone(),
                state: tokio::sync::Mutex::default(),
            })))
        };
        Arc::clone(servers.entry(address.clone()).or_insert_with(|| Arc::new(new())))
    }

    /// Closes all connections, and kills child processes that do not end in time. No server is running when this
    /// returns.
    pub fn close_all_connections<'f>(&'f self) -> BoxFuture<'f, ()> {
        Box::pin(async move {
            let all: Vec<Arc<McpServerHandle>> = {
                let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
                servers.drain().map(|(_, server)| server).collect()
            };
            futures_util::future::join_all(all.iter().map(|server| server.close_connection())).await;
        })
    }
}

impl McpServerHandle {
    /// Returns a server some or all of whose tools a stub replaces. Without `server`, all tools are those of the stub.
    pub fn from_stub(stub: Arc<dyn McpServerStub>, server: Option<Arc<Self>>) -> Self {
        Self(McpServerKind::Stubbed(StubbedServer { stub, server }))
    }

    /// Returns the current tool list of the server. The server is started if it is not running.
    pub(crate) async fn list_tools(
        &self,
        limit: Duration,
        execution: &ExecutionInput,
    ) -> Result<Arc<[Arc<ServerTool>]>, String> {
        match &self.0 {
            McpServerKind::Connected(server) => server.list_tools(limit, execution).await,
            McpServerKind::Stubbed(server) => Box::pin(server.list_tools(limit, execution)).await,
        }
    }

    /// Calls a tool of the server, which may ask questions. Dropping the future sends a cancellation to the server.
    pub(in crate::agent) async fn call_tool(
        &self,
        tool: &ServerTool,
        arguments: JsonMap,
        limit: Duration,
        asking: &ElicitationContext<'_>,
    ) -> ToolCallResult {
        match &self.0 {
            McpServerKind::Connected(server) => server.call_tool(tool, arguments, limit, asking).await,
            McpServerKind::Stubbed(server) => Box::pin(server.call_tool(tool, arguments, limit, asking)).await,
        }
    }

    async fn close_connection(&self) {
        if let McpServerKind::Connected(server) = &self.0 {
            server.close_connection().await;
        }
    }
}

impl OnDemandServer {
    async fn list_tools(&self, limit: Duration, execution: &ExecutionInput) -> Result<Arc<[Arc<ServerTool>]>, String> {
        let deadline = Instant::now() + limit;
        let redact_error = |error: String| self.secrets.redact(error).into_owned();
        let connection = self
            .ensure_connection(deadline, execution)
            .await
            .map_err(redact_error)?;
        let tools = connection.list_cached_tools(deadline).await;
        connection.move_stderr_to_ledger(&execution.ledger);
        tools.map_err(redact_error)
    }

    async fn call_tool(
        &self,
        tool: &ServerTool,
        arguments: JsonMap,
        limit: Duration,
        asking: &ElicitationContext<'_>,
    ) -> ToolCallResult {
        let execution = asking.execution;
        let stopwatch = execution.stopwatch.child();
        let connection = match self.ensure_connection(Instant::now() + limit, execution).await {
            Ok(connection) => connection,
            Err(error) => return self.redact_result(ToolEnd::Error(error).into()),
        };
        let call = connection.call_and_answer_questions(tool, arguments, &stopwatch, asking);
        let end = stopwatch.run_with_timeout(Some(limit), call).await;
        connection.move_stderr_to_ledger(&execution.ledger);
        self.redact_result(end.unwrap_or_else(|_| ToolEnd::Error(timeout_message(limit)).into()))
    }

    fn redact_result(&self, ended: ToolCallResult) -> ToolCallResult {
        let end = match ended.end {
            ToolEnd::Result(mut value) => {
                self.secrets.redact_value(&mut value);
                ToolEnd::Result(value)
            }
            ToolEnd::Error(error) => ToolEnd::Error(self.secrets.redact(error).into_owned()),
        };
        ToolCallResult { end, ..ended }
    }

    /// Returns the connection. It is opened now if there is none or if it was lost.
    async fn ensure_connection(
        &self,
        deadline: Instant,
        execution: &ExecutionInput,
    ) -> Result<Arc<McpConnection>, String> {
        let mut state = self.state.lock().await;
        if let Some(connection) = state.connection.take_if(|connection| connection.is_closed()) {
            connection.move_stderr_to_ledger(&execution.ledger);
        }
        if let Some(connection) = &state.connection {
            return Ok(Arc::clone(connection));
        }
        if state.is_closed {
            return Err("the run has ended".to_owned());
        }
        if state.starts >= MAX_SERVER_STARTS {
            return Err("the server exited again and is not started a third time".to_owned());
        }
        state.starts += 1;
        let opened = McpConnection::open(&self.address, deadline, self.watchdog.clone(), execution).await?;
        Ok(Arc::clone(state.connection.insert(Arc::new(opened))))
    }

    async fn close_connection(&self) {
        let mut state = self.state.lock().await;
        state.is_closed = true;
        if let Some(connection) = state.connection.take().and_then(Arc::into_inner) {
            connection.close_and_kill().await;
        }
    }
}
