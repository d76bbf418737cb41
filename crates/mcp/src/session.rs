//! The session of one client: its tool calls, as calls of the run service.
//!
//! Invariant: only an explicit cancellation stops a run. A disconnected client does not stop a run.

mod awaited_run;
mod run_lookup;
mod watched_folder;

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ensemble_core::store::RunId;
use ensemble_runs::service::run_service::RunService;
use ensemble_runs::{Project, RunError};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CancelledNotificationParam, ContentBlock, ErrorData,
    Implementation, ListToolsResult, PaginatedRequestParams, RequestId, ServerCapabilities, ServerConfig,
    SubscriptionFilter, Tool,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{RoleServer, ServerHandler};
use serde_json::Value;

use self::watched_folder::WatchedFolder;
use crate::authoring::{self, AuthoringOutput};
use crate::catalog::{
    EnsembleToolCatalog, EnsembleToolEntry, FolderFingerprint, read_folder_fingerprint, resolve_readable_ensemble,
};
use crate::request_form::QuestionMethod;
use crate::status::load_run_status;
use crate::tools::{self, ToolArguments};

pub use crate::authoring::GraphDrawFn;

/// The name in the journal of the client that cancels a run.
const CANCELLING_CLIENT: &str = "an MCP client";

/// A function that estimates the cost of a run of an ensemble from a recorded run.
pub type EstimateFn =
    dyn Fn(String, String) -> Pin<Box<dyn Future<Output = Result<Value, String>> + Send>> + Send + Sync;

/// The services of the program that the server offers to all clients.
pub struct McpServices {
    /// The runs of the folder. Their host has no operator, because clients answer.
    pub runs: RunService,
    /// The function that draws ensembles.
    pub draw: GraphDrawFn,
    /// The function that estimates runs.
    pub estimate: Box<EstimateFn>,
    /// The maximum time that a call waits for the end of a run.
    pub wait: Duration,
    /// Overrides of models, for new runs.
    pub models: Vec<String>,
    /// The version of the program.
    pub version: &'static str,
}

/// A session of one client, with its running calls and the last folder that the client has seen.
pub struct McpSession {
    services: Arc<McpServices>,
    /// The calls that run an ensemble, by request, so that a cancellation finds the run.
    calls: Mutex<HashMap<RequestId, RunningToolCall>>,
    /// The folder as it was when the client connected or last listed its tools.
    known_folder: Mutex<FolderFingerprint>,
}

/// The state of a call that runs an ensemble: starting, started, or cancelled before the run started.
enum RunningToolCall {
    Starting,
    Started(RunId),
    Cancelled,
}

/// The reason why a call has no result: an error of the tool, or of the protocol.
enum McpCallError {
    /// An error that the caller can fix.
    ToolError(String),
    /// An error of the protocol.
    Error(ErrorData),
}

/// The response of a tool, or the reason why the call has no result.
type McpToolReply = Result<CallToolResponse, McpCallError>;

impl From<String> for McpCallError {
    fn from(why: String) -> Self {
        Self::ToolError(why)
    }
}

impl From<RunError> for McpCallError {
    fn from(error: RunError) -> Self {
        let advice = error.advice().map(|advice| format!("\n{advice}"));
        Self::ToolError(format!("{error}{}", advice.unwrap_or_default()))
    }
}

impl McpSession {
    /// Creates the session of a new client.
    pub fn for_client(services: Arc<McpServices>) -> Self {
        let fingerprint = read_folder_fingerprint(services.runs.runs().project());
        Self {
            services,
            calls: Mutex::default(),
            known_folder: Mutex::new(fingerprint),
        }
    }

    /// Returns the service for the runs of the project.
    fn run_service(&self) -> &RunService {
        &self.services.runs
    }

    /// Returns the served project.
    fn project(&self) -> &Project {
        self.run_service().runs().project()
    }

    /// Creates a watcher that starts with the folder as the client knows it.
    fn watch_folder_from_known(&self) -> WatchedFolder {
        WatchedFolder {
            project: self.project().clone(),
            known: self.known_folder.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    /// Locks the running calls, also after a panic in another thread.
    fn lock_calls(&self) -> MutexGuard<'_, HashMap<RequestId, RunningToolCall>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls the built-in tool with the name in the request, or starts the ensemble with this tool name. Continues a repeated call with
    /// answers.
    async fn call_named_tool(
        &self,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> McpToolReply {
        if let Some(state) = request.request_state.clone() {
            return self.continue_repeated_call(request, &state, context).await;
        }
        let mut arguments = ToolArguments::new(request.arguments);
        let project = self.project();
        match &*request.name {
            "run_status" => {
                let id = self.resolve_served_run(&arguments.take_required_text("run")?).await?;
                arguments.require_no_rest()?;
                self.run_state_reply(&id).await
            }
            "await_run" => {
                let id = self.resolve_served_run(&arguments.take_required_text("run")?).await?;
                let wait = self.take_wait_argument(&mut arguments)?;
                arguments.require_no_rest()?;
                let can_ask = QuestionMethod::for_client(context) != QuestionMethod::None;
                let from = self.resume_if_stopped(&id, can_ask).await?;
                self.await_and_ask(&id, from, wait, context, "await_run").await
            }
            "answer_run" => self.answer_run(arguments, context).await,
            "cancel_run" => {
                let id = self.resolve_served_run(&arguments.take_required_text("run")?).await?;
                arguments.require_no_rest()?;
                self.run_service().cancel_run(&id, CANCELLING_CLIENT).await?;
                self.run_service().wait_until_closed(&id).await;
                let status = load_run_status(self.run_service(), &id).await?;
                Ok(document_response(status.document, false))
            }
            "resume_run" => self.resume_and_await_run(arguments, context).await,
            "list_runs" => {
                let limit = arguments
                    .take_number_argument("limit")?
                    .unwrap_or(20.0)
                    .clamp(1.0, 200.0);
                arguments.require_no_rest()?;
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "it is from 1 to 200"
                )]
                self.list_runs(limit as usize).await
            }
            "schema" => Ok(authoring_response(authoring::run_schema_tool(arguments)?)),
            "explain" => Ok(authoring_response(authoring::run_explain_tool(arguments)?)),
            "validate" => {
                self.run_authoring_tool(|project, _| authoring::run_validate_tool(arguments, project))
                    .await
            }
            "check" => {
                self.run_authoring_tool(|project, _| authoring::run_check_tool(arguments, project))
                    .await
            }
            "graph" => {
                self.run_authoring_tool(|project, draw| authoring::run_graph_tool(arguments, project, draw))
                    .await
            }
            "estimate" => {
                let file = resolve_readable_ensemble(project, &arguments.take_required_text("ensemble")?)?;
                let from = match arguments.take_text_argument("run")? {
                    Some(run) => self.resolve_served_run(&run).await?,
                    None => self.resolve_latest_run(&file).await?,
                };
                arguments.require_no_rest()?;
                let estimated = (self.services.estimate)(file.display().to_string(), from.to_string()).await?;
                Ok(document_response(estimated, false))
            }
            name => match EnsembleToolCatalog::load_catalog(project).into_tool_entry(name) {
                Some(entry) => self.start_and_await_run(&entry, arguments, context).await,
                None => Err(McpCallError::Error(ErrorData::invalid_params(
                    format!("there is no tool `{name}`"),
                    None,
                ))),
            },
        }
    }

    /// Runs a tool for authors on a blocking thread, because the tool can be slow and must not delay runs. Returns its response.
    async fn run_authoring_tool(
        &self,
        work: impl FnOnce(&Project, GraphDrawFn) -> Result<AuthoringOutput, String> + Send + 'static,
    ) -> McpToolReply {
        let (project, draw) = (self.project().clone(), self.services.draw);
        let join_result = tokio::task::spawn_blocking(move || work(&project, draw)).await;
        Ok(authoring_response(join_result.map_err(|error| error.to_string())??))
    }
}

/// Converts the output of a tool for authors to a response.
fn authoring_response(said: AuthoringOutput) -> CallToolResponse {
    match said {
        AuthoringOutput::Text(text) => CallToolResult::success(vec![ContentBlock::text(text)]).into(),
        AuthoringOutput::Document(value) => document_response(value, false),
    }
}

/// Creates a response with a JSON document, also as text for clients that support only text.
fn document_response(value: Value, is_error: bool) -> CallToolResponse {
    let mut result = CallToolResult::success(vec![ContentBlock::text(value.to_string())]);
    result.structured_content = Some(value);
    result.is_error = Some(is_error);
    result.into()
}

impl ServerHandler for McpSession {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("ensemble", self.services.version).with_title("Ensembles"))
            .with_instructions(
                "Each ensemble of the folder is a tool: calling it runs a conversation between agents. A call waits for a \
                 limited time; then it returns a run that continues, and await_run waits for it. When a run asks a question, ask \
                 the user and call answer_run. To write an ensemble, read schema, then use validate and check before you run it.",
            )
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        *self.known_folder.lock().unwrap_or_else(PoisonError::into_inner) = read_folder_fingerprint(self.project());
        let ensembles = EnsembleToolCatalog::load_catalog(self.project());
        let all: Vec<Tool> = ensembles
            .entries
            .iter()
            .map(EnsembleToolEntry::to_tool)
            .chain(tools::list_built_in_tools())
            .collect();
        Ok(ListToolsResult::with_all_items(all))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        match self.call_named_tool(request, &context).await {
            Ok(response) => Ok(response),
            Err(McpCallError::ToolError(why)) => Ok(CallToolResult::error(vec![ContentBlock::text(why)]).into()),
            Err(McpCallError::Error(error)) => Err(error),
        }
    }

    /// A client that cancels the call of an ensemble wants it to end. A client that is lost cancels nothing.
    async fn on_cancelled(&self, notification: CancelledNotificationParam, _context: NotificationContext<RoleServer>) {
        let Some(request) = notification.request_id else { return };
        let run = {
            let mut calls = self.lock_calls();
            match calls.remove(&request) {
                Some(RunningToolCall::Started(run)) => run,
                Some(RunningToolCall::Starting) => {
                    calls.insert(request, RunningToolCall::Cancelled);
                    return;
                }
                Some(RunningToolCall::Cancelled) | None => return,
            }
        };
        // A run that has ended meanwhile stays as it is.
        let _ended = self.run_service().cancel_run(&run, CANCELLING_CLIENT).await;
    }

    /// Tells the client when ensembles come, go or change.
    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        let mut folder = self.watch_folder_from_known();
        tokio::spawn(async move {
            while !context.peer.is_transport_closed() {
                if folder.wait_and_detect_change().await && context.peer.notify_tool_list_changed().await.is_err() {
                    return;
                }
            }
        });
    }

    /// Likewise, since 2026-07-28.
    fn accepted_subscription_filter(&self, _requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(SubscriptionFilter::builder().tools_list_changed().build())
    }

    async fn listen(&self, subscription: SubscriptionContext) -> Result<(), ErrorData> {
        let mut folder = self.watch_folder_from_known();
        loop {
            let has_changed = tokio::select! {
                () = subscription.cancelled() => return Ok(()),
                has_changed = folder.wait_and_detect_change() => has_changed,
            };
            if has_changed && subscription.sink().notify_tool_list_changed().await.is_err() {
                return Ok(());
            }
        }
    }
}
