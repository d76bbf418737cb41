//! One connection to a server, from the handshake to its end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use rmcp::ClientHandler;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CancelledNotification, CancelledNotificationParam, ClientCapabilities,
    ClientConfig, ClientRequest, CustomResult, ElicitRequestParams, ElicitResult, ElicitationAction,
    ElicitationCapability, ErrorData, FormElicitationCapability, Implementation, PaginatedRequestParams, RequestId,
    RequestParamsMeta, ServerResult,
};
use rmcp::service::{
    NotificationContext, Peer, PeerRequestOptions, RequestContext, RoleClient, RunningService, ServiceError,
};
use serde_json::Value;
use tokio::time::Instant;

use super::content;
use super::elicitation::{ElicitationContext, RunningMcpCalls};
use super::{McpAddress, ServerTool, error_messages, http, stdio};
use crate::agent::tools::result::ToolCallResult;
use crate::agent::{AttemptLedger, ExecutionInput};
use ensemble_core::stopwatch::Stopwatch;
use ensemble_core::thread::ToolCallEnd;
use ensemble_core::trace;
use ensemble_language::data::JsonMap;
use ensemble_process::ProcessWatchdog;
use ensemble_process::service::{ServiceProcess, ServiceStderr};

/// Maximum number of pages of the tool list that are read.
const MAX_TOOL_PAGES: usize = 100;
/// Maximum number of tools that are read.
const MAX_SERVER_TOOLS: usize = 1000;

/// The time limit for closing the session, before the child process is killed.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Connection to a server, with its child process if there is one.
pub(crate) struct McpConnection {
    address: McpAddress,
    running: RunningService<RoleClient, McpClientHandler>,
    /// The calls that are under way.
    calls: RunningMcpCalls,
    /// The child process. It is dropped after the connection, whose drop closes the stdin of the child.
    child: Option<ServiceProcess>,
    tool_list: Mutex<Option<Arc<[Arc<ServerTool>]>>>,
    /// Has the server announced that its tool list has changed?
    is_stale: Arc<AtomicBool>,
}

/// MCP client that forwards questions of the server to the operator.
pub(crate) struct McpClientHandler {
    is_stale: Arc<AtomicBool>,
    calls: RunningMcpCalls,
}

impl ClientHandler for McpClientHandler {
    fn get_info(&self) -> ClientConfig {
        let us = Implementation::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = Some(ElicitationCapability::new().with_form(FormElicitationCapability::new()));
        ClientConfig::new(capabilities, us)
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        tokio::select! {
            biased;
            () = context.ct.cancelled() => Ok(ElicitResult::new(ElicitationAction::Cancel)),
            result = self.calls.forward_question(request) => Ok(result),
        }
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.is_stale.store(true, Ordering::Relaxed);
    }
}

impl McpConnection {
    /// Starts or connects the server and performs the handshake before the deadline.
    pub(crate) async fn open(
        address: &McpAddress,
        deadline: Instant,
        watchdog: Option<Arc<ProcessWatchdog>>,
        execution: &ExecutionInput,
    ) -> Result<Self, String> {
        let is_stale = Arc::new(AtomicBool::new(false));
        let client = McpClientHandler {
            is_stale: Arc::clone(&is_stale),
            calls: RunningMcpCalls::default(),
        };
        let calls = client.calls.clone();
        let (running, child) = match address {
            McpAddress::Child { .. } => {
                let (child, transport) = stdio::start_server_process(address, watchdog, execution).await?;
                let shaken = tokio::time::timeout_at(deadline, rmcp::serve_client(client, transport)).await;
                let stderr = child.stderr().clone();
                let with_stderr = |error: String| {
                    let error = add_stderr_tail(error, &stderr);
                    execution.ledger.add_stderr(&stderr.take_new_stderr());
                    error
                };
                let running = match shaken {
                    Ok(Ok(running)) => running,
                    Ok(Err(error)) => {
                        child.wait_for_stderr().await;
                        child.wait_then_kill().await;
                        let error = error_messages::handshake_error(&error, address);
                        return Err(with_stderr(format!(
                            "the MCP handshake with the server failed: {error}"
                        )));
                    }
                    Err(_) => return Err(with_stderr(HANDSHAKE_TIMEOUT_ERROR.to_owned())),
                };
                (running, Some(child))
            }
            McpAddress::Http { url, headers } => {
                let transport = http::build_http_transport(url, headers)?;
                let shaken = tokio::time::timeout_at(deadline, rmcp::serve_client(client, transport)).await;
                let running = shaken
                    .map_err(|_| HANDSHAKE_TIMEOUT_ERROR.to_owned())?
                    .map_err(|error| {
                        let error = error_messages::handshake_error(&error, address);
                        format!("cannot connect to {}: {error}", http::redact_url(url))
                    })?;
                (running, None)
            }
        };
        Ok(Self {
            address: address.clone(),
            running,
            calls,
            child,
            tool_list: Mutex::default(),
            is_stale,
        })
    }

    /// Returns whether the connection is closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.running.is_closed() || self.running.is_transport_closed()
    }

    /// Lists the tools of the server, from the cache unless the server has reported a change.
    pub(crate) async fn list_cached_tools(&self, deadline: Instant) -> Result<Arc<[Arc<ServerTool>]>, String> {
        if !self.is_stale.swap(false, Ordering::Relaxed)
            && let Some(cached_tools) = self.tool_list.lock().unwrap_or_else(PoisonError::into_inner).clone()
        {
            return Ok(cached_tools);
        }
        let list_result = tokio::time::timeout_at(deadline, self.fetch_tools()).await;
        let tools: Arc<[Arc<ServerTool>]> = match list_result {
            Ok(Ok(tools)) => tools.into(),
            Ok(Err(error)) => {
                let error = error_messages::request_error(&error, &self.address)
                    .unwrap_or_else(|| "the connection is closed".to_owned());
                return Err(self
                    .connection_lost_error(format!("the server does not list its tools: {error}"))
                    .await);
            }
            Err(_) => return Err("the server did not list its tools in time".to_owned()),
        };
        *self.tool_list.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&tools));
        Ok(tools)
    }

    /// Fetches all pages of the tool list, up to the limits.
    async fn fetch_tools(&self) -> Result<Vec<Arc<ServerTool>>, ServiceError> {
        let mut tools = Vec::new();
        let mut page: Option<PaginatedRequestParams> = None;
        for _ in 0..MAX_TOOL_PAGES {
            let answer = self.running.list_tools(page).await?;
            tools.extend(answer.tools.into_iter().map(|tool| {
                Arc::new(ServerTool {
                    only_reads: tool
                        .annotations
                        .and_then(|hints| hints.read_only_hint)
                        .unwrap_or_default(),
                    name: tool.name.as_ref().into(),
                    description: tool.description.map(|text| text.into_owned()).unwrap_or_default(),
                    parameters: Value::Object(Arc::unwrap_or_clone(tool.input_schema)),
                    output_schema: tool.output_schema.map(Arc::unwrap_or_clone).map(Value::Object),
                })
            }));
            let Some(cursor) = answer.next_cursor.filter(|_| tools.len() < MAX_SERVER_TOOLS) else {
                break;
            };
            page = Some(PaginatedRequestParams::default().with_cursor(Some(cursor)));
        }
        tools.truncate(MAX_SERVER_TOOLS);
        Ok(tools)
    }

    /// Calls a tool, and answers the questions of the server meanwhile. Dropping the future sends a cancellation to the server.
    pub(crate) async fn call_and_answer_questions(
        &self,
        tool: &ServerTool,
        arguments: JsonMap,
        stopwatch: &Stopwatch,
        asking: &ElicitationContext<'_>,
    ) -> ToolCallResult {
        let ledger = &asking.execution.ledger;
        let questions = self.calls.register_call(asking.tool, stopwatch.clone());
        match questions
            .answer_questions_during(self.request_raw_result(tool, arguments), asking)
            .await
        {
            Ok(ServerResult::CallToolResult(result)) => content::convert_result(result, tool, ledger),
            Ok(ServerResult::CustomResult(CustomResult(result))) => {
                content::convert_unknown_result(&result, tool, ledger)
                    .unwrap_or_else(|| ToolCallEnd::Error("its answer does not match the protocol".to_owned()).into())
            }
            Ok(ServerResult::InputRequiredResult(_) | ServerResult::CreateTaskResult(_)) => {
                ToolCallEnd::Error("the server asks for more input or starts a task, which is not supported".to_owned())
                    .into()
            }
            Ok(_) => ToolCallEnd::Error("its answer does not match the protocol".to_owned()).into(),
            Err(error) => ToolCallEnd::Error(match error_messages::request_error(&error, &self.address) {
                Some(error) => error,
                None => {
                    self.connection_lost_error("the server closed the connection before it answered".to_owned())
                        .await
                }
            })
            .into(),
        }
    }

    /// Sends the call and returns the raw result. Cancels the request at the server if the future is dropped.
    async fn request_raw_result(&self, tool: &ServerTool, arguments: JsonMap) -> Result<ServerResult, ServiceError> {
        let mut params = CallToolRequestParams::new(tool.name.to_string()).with_arguments(arguments);
        if let Some(span) = trace::current_task_span() {
            params.set_traceparent(&span.to_string());
            if !span.state.is_empty() {
                params.set_tracestate(&span.state);
            }
        }
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let peer = self.running.peer();
        let sent_request = peer
            .send_cancellable_request(request, PeerRequestOptions::no_options())
            .await?;
        let mut open = RequestCancelGuard {
            peer,
            id: Some(sent_request.id.clone()),
        };
        let answer = sent_request.await_response().await;
        open.id = None;
        answer
    }

    /// Moves the new stderr output of the server to the ledger of the execution.
    pub(crate) fn move_stderr_to_ledger(&self, ledger: &AttemptLedger) {
        if let Some(child) = &self.child {
            ledger.add_stderr(&child.stderr().take_new_stderr());
        }
    }

    /// Closes stdin or ends the session, then kills a child process that is still running.
    pub(crate) async fn close_and_kill(self) {
        let Self { mut running, child, .. } = self;
        let _gone_anyway = running.close_with_timeout(CLOSE_TIMEOUT).await;
        drop(running);
        if let Some(child) = child {
            child.wait_then_kill().await;
        }
    }

    /// Appends the last stderr lines of the server to the error.
    async fn connection_lost_error(&self, error: String) -> String {
        match &self.child {
            Some(child) => {
                child.wait_for_stderr().await;
                add_stderr_tail(error, child.stderr())
            }
            None => error,
        }
    }
}

/// Guard of an unanswered request. Dropping it sends a cancellation to the server.
struct RequestCancelGuard<'a> {
    peer: &'a Peer<RoleClient>,
    id: Option<RequestId>,
}

impl Drop for RequestCancelGuard<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            let cancelled = CancelledNotification::new(CancelledNotificationParam::new(Some(id), None));
            // Sent at once or, if the queue is full, not at all.
            let _sent = self.peer.send_notification(cancelled.into()).now_or_never();
        }
    }
}

const HANDSHAKE_TIMEOUT_ERROR: &str = "the server did not answer the handshake in time (`timeout_seconds`)";

/// Appends the last lines of stderr to the error.
fn add_stderr_tail(error: String, stderr: &ServiceStderr) -> String {
    match stderr.last_complete_stderr_lines() {
        quoted if quoted.is_empty() => error,
        quoted => format!("{error}; stderr ends with:\n{quoted}"),
    }
}
