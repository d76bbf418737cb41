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
use ensemble_core::thread::ToolCallEnd;
use ensemble_language::data::JsonMap;
use ensemble_language::ensemble::CommandLine;
use ensemble_process::ProcessWatchdog;
use ensemble_process::confine::ProcessSandbox;
use ensemble_process::program::ScriptFolders;

/// The maximum number of starts of a server: the first start and one restart.
const MAX_SERVER_STARTS: u8 = 2;

/// Address of a server: a command or a URL, with all values from the environment.
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

/// All MCP servers of a run.
#[derive(Default)]
pub struct McpServers {
    watchdog: Option<Arc<ProcessWatchdog>>,
    secrets: Secrets,
    servers: Mutex<HashMap<McpAddress, Arc<McpServerHandle>>>,
}

/// Handle of an MCP server that is started when needed, or of a stub.
pub struct McpServerHandle(McpServerKind);

/// Kind of a server: started on demand, or replaced by a stub.
enum McpServerKind {
    Connected(Box<OnDemandServer>),
    Stubbed(StubbedServer),
}

/// Server that is started or connected when needed.
struct OnDemandServer {
    address: McpAddress,
    watchdog: Option<Arc<ProcessWatchdog>>,
    secrets: Secrets,
    state: tokio::sync::Mutex<McpServerState>,
}

/// Connection of a server, with the number of its starts.
#[derive(Default)]
struct McpServerState {
    starts: u8,
    connection: Option<Arc<McpConnection>>,
    is_closed: bool,
}

/// Tool as its server describes it.
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
    /// Creates an empty set of servers. The watchdog kills child processes if this process is killed.
    ///
    /// All output of servers is redacted with `secrets`.
    pub fn new(watchdog: Option<Arc<ProcessWatchdog>>, secrets: Secrets) -> Self {
        Self {
            watchdog,
            secrets,
            servers: Mutex::default(),
        }
    }

    /// Returns the server at this address. Equal addresses share a server.
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

    /// Closes all connections, kills child processes that do not exit in time, and waits until none is running.
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
    /// Creates a server whose tools a stub replaces, all of them or some. Without `server`, the stub has all tools.
    pub fn from_stub(stub: Arc<dyn McpServerStub>, server: Option<Arc<Self>>) -> Self {
        Self(McpServerKind::Stubbed(StubbedServer { stub, server }))
    }

    /// Lists the current tools of the server. Starts the server if it is not running.
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

    /// Calls a tool of the server, which can ask questions. Dropping the future sends a cancellation to the server.
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

    /// Closes the connection. Stubs have none.
    async fn close_connection(&self) {
        if let McpServerKind::Connected(server) = &self.0 {
            server.close_connection().await;
        }
    }
}

impl OnDemandServer {
    /// Connects if necessary and lists the tools. Redacts errors and moves stderr to the ledger.
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

    /// Connects if necessary and calls the tool with a time limit. Redacts the result and moves stderr to the ledger.
    async fn call_tool(
        &self,
        tool: &ServerTool,
        arguments: JsonMap,
        limit: Duration,
        asking: &ElicitationContext<'_>,
    ) -> ToolCallResult {
        let execution = asking.execution;
        let stopwatch = execution.stopwatch.nested_stopwatch();
        let connection = match self.ensure_connection(Instant::now() + limit, execution).await {
            Ok(connection) => connection,
            Err(error) => return self.redact_result(ToolCallEnd::Error(error).into()),
        };
        let call = connection.call_and_answer_questions(tool, arguments, &stopwatch, asking);
        let end = stopwatch.run_with_timeout(Some(limit), call).await;
        connection.move_stderr_to_ledger(&execution.ledger);
        self.redact_result(end.unwrap_or_else(|_| ToolCallEnd::Error(timeout_message(limit)).into()))
    }

    /// Redacts the secrets in the result.
    fn redact_result(&self, ended: ToolCallResult) -> ToolCallResult {
        let end = match ended.end {
            ToolCallEnd::Result(mut value) => {
                self.secrets.redact_value(&mut value);
                ToolCallEnd::Result(value)
            }
            ToolCallEnd::Error(error) => ToolCallEnd::Error(self.secrets.redact(error).into_owned()),
        };
        ToolCallResult { end, ..ended }
    }

    /// Returns the open connection, or opens a connection if there is none or it was lost. Limits the number of starts.
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

    /// Closes the connection and prevents new ones.
    async fn close_connection(&self) {
        let mut state = self.state.lock().await;
        state.is_closed = true;
        if let Some(connection) = state.connection.take().and_then(Arc::into_inner) {
            connection.close_and_kill().await;
        }
    }
}
