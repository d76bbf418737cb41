//! Servers that speak the Model Context Protocol, through its official SDK.
//!
//! A server is started or connected when its tool list is first needed. All agents of a run share the server, and it
//! ends with the run. Its messages are data: their size is limited, and so is the time for an answer. A server that has
//! ended is restarted once, at the next call.

mod connection;
mod content;
mod elicitation;
mod fault;
mod files;
mod form;
mod http;
mod stdio;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use self::connection::Connection;
pub(in crate::agent) use self::elicitation::Asking;
use crate::agent::Execution;
use crate::agent::tools::result::{Ended, timeout_message};
use ensemble_core::runner::BoxFuture;
use ensemble_core::secrets::Secrets;
use ensemble_core::thread::ToolEnd;
use ensemble_language::data::JsonMap;
use ensemble_language::ensemble::CommandLine;
use ensemble_process::Watchdog;
use ensemble_process::confine::Sandbox;
use ensemble_process::program::Places;

/// The maximum number of starts of a server: the first start and one restart.
const STARTS: u8 = 2;

/// The address of a server, with all values from the environment.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Address {
    /// A child process.
    Child {
        /// The program and its arguments.
        command: CommandLine,
        /// The folders in which programs are searched.
        places: Places,
        /// The working folder of the server.
        folder: PathBuf,
        /// Additional environment variables.
        env: Vec<(String, String)>,
        /// What the server may reach; `None`: all that the user may.
        sandbox: Option<Arc<Sandbox>>,
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
pub struct Servers {
    watchdog: Option<Arc<Watchdog>>,
    secrets: Secrets,
    known: Mutex<HashMap<Address, Arc<Server>>>,
}

/// A server.
pub struct Server {
    address: Address,
    watchdog: Option<Arc<Watchdog>>,
    secrets: Secrets,
    state: tokio::sync::Mutex<State>,
}

#[derive(Default)]
struct State {
    starts: u8,
    connection: Option<Arc<Connection>>,
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

impl Servers {
    /// No servers. The watchdog kills servers that are child processes if this process is killed.
    /// Nothing that a server says tells the secrets.
    pub fn new(watchdog: Option<Arc<Watchdog>>, secrets: Secrets) -> Self {
        Self {
            watchdog,
            secrets,
            known: Mutex::default(),
        }
    }

    /// The server at this address; equal addresses give the same server.
    pub fn at(&self, address: Address) -> Arc<Server> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Server {
            address: address.clone(),
            watchdog: self.watchdog.clone(),
            secrets: self.secrets.clone(),
            state: tokio::sync::Mutex::default(),
        };
        Arc::clone(known.entry(address.clone()).or_insert_with(|| Arc::new(new())))
    }

    /// Closes all connections, and kills child processes that do not end in time. No server is running when this
    /// returns.
    pub fn close<'f>(&'f self) -> BoxFuture<'f, ()> {
        Box::pin(async move {
            let all: Vec<Arc<Server>> = {
                let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
                known.drain().map(|(_, server)| server).collect()
            };
            futures_util::future::join_all(all.iter().map(|server| server.close())).await;
        })
    }
}

impl Server {
    /// The current tool list of the server. The server is started if it is not running.
    pub(crate) async fn tools(&self, limit: Duration, execution: &Execution) -> Result<Arc<[Arc<ServerTool>]>, String> {
        let deadline = Instant::now() + limit;
        let struck = |error: String| self.secrets.strike(error).into_owned();
        let connection = self.connection(deadline, execution).await.map_err(struck)?;
        let listed = connection.tools(deadline).await;
        connection.pass_on(&execution.ledger);
        listed.map_err(struck)
    }

    /// Calls a tool of the server, which may ask questions. Dropping the future sends a cancellation to the server.
    pub(in crate::agent) async fn call(
        &self,
        tool: &ServerTool,
        arguments: JsonMap,
        limit: Duration,
        asking: &Asking<'_>,
    ) -> Ended {
        let execution = asking.execution;
        let stopwatch = execution.stopwatch.inside();
        let connection = match self.connection(Instant::now() + limit, execution).await {
            Ok(connection) => connection,
            Err(error) => return self.struck(ToolEnd::Error(error).into()),
        };
        let call = connection.call(tool, arguments, &stopwatch, asking);
        let end = stopwatch.timeout(Some(limit), call).await;
        connection.pass_on(&execution.ledger);
        self.struck(end.unwrap_or_else(|_| ToolEnd::Error(timeout_message(limit)).into()))
    }

    fn struck(&self, ended: Ended) -> Ended {
        let end = match ended.end {
            ToolEnd::Result(mut value) => {
                self.secrets.strike_value(&mut value);
                ToolEnd::Result(value)
            }
            ToolEnd::Error(error) => ToolEnd::Error(self.secrets.strike(error).into_owned()),
        };
        Ended { end, ..ended }
    }

    /// The connection. It is opened now if there is none or if it was lost.
    async fn connection(&self, deadline: Instant, execution: &Execution) -> Result<Arc<Connection>, String> {
        let mut state = self.state.lock().await;
        if let Some(connection) = state.connection.take_if(|connection| connection.is_lost()) {
            connection.pass_on(&execution.ledger);
        }
        if let Some(connection) = &state.connection {
            return Ok(Arc::clone(connection));
        }
        if state.is_closed {
            return Err("the run is over".to_owned());
        }
        if state.starts >= STARTS {
            return Err("the server has ended again and is not started a third time".to_owned());
        }
        state.starts += 1;
        let opened = Connection::open(&self.address, deadline, self.watchdog.clone(), execution).await?;
        Ok(Arc::clone(state.connection.insert(Arc::new(opened))))
    }

    async fn close(&self) {
        let mut state = self.state.lock().await;
        state.is_closed = true;
        if let Some(connection) = state.connection.take().and_then(Arc::into_inner) {
            connection.close().await;
        }
    }
}
