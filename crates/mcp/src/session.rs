//! One client: its calls of tools, as calls of the run service.
//!
//! Invariant: only an explicit cancellation stops a run; a lost client does not.

mod attending;
mod finding;
mod watched;

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

use self::watched::Watched;
use crate::authoring::{self, Said};
use crate::catalog::{Catalog, Entry, Fingerprint, file_of, fingerprint};
use crate::people::Way;
use crate::status::told;
use crate::tools::{self, Arguments};

pub use crate::authoring::Draw;

/// Who cancels a run, in its journal.
const CLIENT: &str = "an MCP client";

/// Estimates the cost of an ensemble's run from a recorded run.
pub type Estimate = dyn Fn(String, String) -> Pin<Box<dyn Future<Output = Result<Value, String>> + Send>> + Send + Sync;

/// The services that the server offers to all its clients.
pub struct Services {
    /// The runs of the folder. Their host has no operator: clients are asked.
    pub runs: RunService,
    /// Draws ensembles.
    pub draw: Draw,
    /// Estimates runs.
    pub estimate: Box<Estimate>,
    /// How long a call waits for the end of a run.
    pub wait: Duration,
    /// Overrides of models, for new runs.
    pub models: Vec<String>,
    /// The version of the program.
    pub version: &'static str,
}

/// A client.
pub struct Session {
    services: Arc<Services>,
    /// The requests that run an ensemble, so that their cancellation stops it.
    calls: Mutex<HashMap<RequestId, Call>>,
    /// The folder as it was when the client came or was told its tools last.
    told: Mutex<Fingerprint>,
}

/// A request that runs an ensemble.
enum Call {
    Starting,
    Started(RunId),
    Cancelled,
}

/// The reason why a call has no result.
enum Refusal {
    /// The caller can mend it.
    Told(String),
    /// The protocol's error.
    Error(ErrorData),
}

type Reply = Result<CallToolResponse, Refusal>;

impl From<String> for Refusal {
    fn from(why: String) -> Self {
        Self::Told(why)
    }
}

impl From<RunError> for Refusal {
    fn from(error: RunError) -> Self {
        let advice = error.advice().map(|advice| format!("\n{advice}"));
        Self::Told(format!("{error}{}", advice.unwrap_or_default()))
    }
}

impl Session {
    /// For a client that has just come.
    pub fn new(services: Arc<Services>) -> Self {
        let told = fingerprint(services.runs.runs().project());
        Self {
            services,
            calls: Mutex::default(),
            told: Mutex::new(told),
        }
    }

    fn service(&self) -> &RunService {
        &self.services.runs
    }

    fn project(&self) -> &Project {
        self.service().runs().project()
    }

    /// The folder, from what the client knows of it on.
    fn watched(&self) -> Watched {
        Watched {
            project: self.project().clone(),
            known: self.told.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    fn calls(&self) -> MutexGuard<'_, HashMap<RequestId, Call>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn called(&self, request: CallToolRequestParams, context: &RequestContext<RoleServer>) -> Reply {
        if let Some(state) = &request.request_state {
            return self
                .repeated(state, request.input_responses.unwrap_or_default(), context)
                .await;
        }
        let mut arguments = Arguments::new(request.arguments);
        let project = self.project();
        match &*request.name {
            "run_status" => {
                let id = self.run(&arguments.required("run")?).await?;
                arguments.end()?;
                self.state(&id).await
            }
            "await_run" => {
                let id = self.run(&arguments.required("run")?).await?;
                let wait = self.wait(&mut arguments)?;
                arguments.end()?;
                let can_ask = Way::of(context) != Way::None;
                let from = self.go_on(&id, can_ask).await?;
                self.attend(&id, from, wait, context).await
            }
            "answer_run" => self.answer(arguments, context).await,
            "cancel_run" => {
                let id = self.run(&arguments.required("run")?).await?;
                arguments.end()?;
                self.service().cancel(&id, CLIENT).await?;
                self.service().ended(&id).await;
                let told = told(self.service(), &id).await?;
                Ok(document(told.document, false))
            }
            "resume_run" => self.resume(arguments, context).await,
            "list_runs" => {
                let limit = arguments.number("limit")?.unwrap_or(20.0).clamp(1.0, 200.0);
                arguments.end()?;
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "it is from 1 to 200"
                )]
                self.list(limit as usize).await
            }
            "schema" => Ok(said(authoring::schema(arguments)?)),
            "explain" => Ok(said(authoring::explain_code(arguments)?)),
            "validate" => self.apart(|project, _| authoring::validate(arguments, project)).await,
            "check" => self.apart(|project, _| authoring::check(arguments, project)).await,
            "graph" => {
                self.apart(|project, draw| authoring::graph(arguments, project, draw))
                    .await
            }
            "estimate" => {
                let file = file_of(project, &arguments.required("ensemble")?)?;
                let from = match arguments.text("run")? {
                    Some(run) => self.run(&run).await?,
                    None => self.latest_of(&file).await?,
                };
                arguments.end()?;
                let estimated = (self.services.estimate)(file.display().to_string(), from.to_string()).await?;
                Ok(document(estimated, false))
            }
            name => match Catalog::of(project).take(name) {
                Some(entry) => self.start(&entry, arguments, context).await,
                None => Err(Refusal::Error(ErrorData::invalid_params(
                    format!("there is no tool `{name}`"),
                    None,
                ))),
            },
        }
    }

    /// Does something that takes time, and not on the thread that drives runs.
    async fn apart(&self, work: impl FnOnce(&Project, Draw) -> Result<Said, String> + Send + 'static) -> Reply {
        let (project, draw) = (self.project().clone(), self.services.draw);
        let done = tokio::task::spawn_blocking(move || work(&project, draw)).await;
        Ok(said(done.map_err(|error| error.to_string())??))
    }
}

fn said(said: Said) -> CallToolResponse {
    match said {
        Said::Text(text) => CallToolResult::success(vec![ContentBlock::text(text)]).into(),
        Said::Document(value) => document(value, false),
    }
}

/// A document, also as text for clients that know only texts.
fn document(value: Value, is_error: bool) -> CallToolResponse {
    let mut result = CallToolResult::success(vec![ContentBlock::text(value.to_string())]);
    result.structured_content = Some(value);
    result.is_error = Some(is_error);
    result.into()
}

impl ServerHandler for Session {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("ensemble", self.services.version).with_title("Ensembles"))
            .with_instructions(
                "Each ensemble of the folder is a tool: calling it runs a conversation between agents. A call waits for a \
                 limited time; then it returns a run that goes on, and await_run waits for it. When a run asks something, ask \
                 the user and call answer_run. To write an ensemble, read schema, then use validate and check before you run it.",
            )
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        *self.told.lock().unwrap_or_else(PoisonError::into_inner) = fingerprint(self.project());
        let ensembles = Catalog::of(self.project());
        let all: Vec<Tool> = ensembles.entries.iter().map(Entry::tool).chain(tools::all()).collect();
        Ok(ListToolsResult::with_all_items(all))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        match self.called(request, &context).await {
            Ok(response) => Ok(response),
            Err(Refusal::Told(why)) => Ok(CallToolResult::error(vec![ContentBlock::text(why)]).into()),
            Err(Refusal::Error(error)) => Err(error),
        }
    }

    /// A client that cancels the call of an ensemble wants it to end. A client that is lost cancels nothing.
    async fn on_cancelled(&self, notification: CancelledNotificationParam, _context: NotificationContext<RoleServer>) {
        let Some(request) = notification.request_id else { return };
        let run = {
            let mut calls = self.calls();
            match calls.remove(&request) {
                Some(Call::Started(run)) => run,
                Some(Call::Starting) => {
                    calls.insert(request, Call::Cancelled);
                    return;
                }
                Some(Call::Cancelled) | None => return,
            }
        };
        // A run that has ended meanwhile stays as it is.
        let _ended = self.service().cancel(&run, CLIENT).await;
    }

    /// Tells the client when ensembles come, go or change.
    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        let mut folder = self.watched();
        tokio::spawn(async move {
            while !context.peer.is_transport_closed() {
                if folder.has_changed().await && context.peer.notify_tool_list_changed().await.is_err() {
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
        let mut folder = self.watched();
        loop {
            let has_changed = tokio::select! {
                () = subscription.cancelled() => return Ok(()),
                has_changed = folder.has_changed() => has_changed,
            };
            if has_changed && subscription.sink().notify_tool_list_changed().await.is_err() {
                return Ok(());
            }
        }
    }
}
