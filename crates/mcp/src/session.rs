//! One client: its calls of tools, as calls of the run service.

use std::collections::HashMap;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ensemble_core::conversation::{CompletionReason, Event};
use ensemble_core::store::{RunId, StoreError, only};
use ensemble_language::data::Context;
use ensemble_runs::service::{RunService, RunStatus, RunSummary};
use ensemble_runs::{EnsembleRef, Project, RunError, RunEventKind, RunOptions};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CancelledNotificationParam, ContentBlock, ElicitRequest,
    ElicitResult, ErrorData, Implementation, InputRequest, InputRequiredResult, InputResponses, ListToolsResult,
    PaginatedRequestParams, RequestId, ServerCapabilities, ServerConfig, ServerRequest, SubscriptionFilter, Tool,
};
use rmcp::service::{NotificationContext, PeerRequestOptions, RequestContext, SubscriptionContext};
use rmcp::{RoleServer, ServerHandler};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::authoring::{self, Said};
use crate::catalog::{Catalog, Entry, Fingerprint, file_of, fingerprint, is_inside};
use crate::people::{Wanted, Way, decision};
use crate::progress::Progress;
use crate::status::{brief, told};
use crate::tools::{self, Arguments};

pub use crate::authoring::Draw;

/// How often the folder is looked at for ensembles that came, went or changed.
const LOOK: Duration = Duration::from_secs(1);
/// How long a run may take to ask again what it asked before it was resumed.
const ASKS_AGAIN: Duration = Duration::from_secs(20);
/// How often it is looked at whether somebody else has answered.
const PAUSE: Duration = Duration::from_millis(50);
/// How many runs are looked through for the latest of an ensemble.
const LOOKED_BACK: usize = 1000;
/// Who cancels a run, in its journal.
const CLIENT: &str = "an MCP client";

/// Estimates the cost of an ensemble's run from a recorded run.
pub type Estimate = dyn Fn(String, String) -> Pin<Box<dyn Future<Output = Result<Value, String>> + Send>> + Send + Sync;

/// What the server offers to all its clients.
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

/// One client.
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

/// Why a call has no result.
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

    /// The run with this id or this beginning of an id, of an ensemble of the folder. Paths name no run.
    async fn run(&self, given: &str) -> Result<RunId, Refusal> {
        let place = || "the served folder".to_owned();
        let store = self.service().runs().store();
        let all = store.list().await.map_err(RunError::from)?;
        let found = only(given, all, place()).map_err(RunError::from)?;
        let summary = self.service().summary(found.id()).await?;
        if !self.is_served(&summary) {
            let (id, place) = (given.to_owned(), place());
            return Err(RunError::from(StoreError::Unknown { id, place }).into());
        }
        Ok(found.id().clone())
    }

    /// The runs of the project can be those of other folders, too.
    fn is_served(&self, summary: &RunSummary) -> bool {
        is_inside(self.project(), Path::new(&summary.ensemble_file))
    }

    /// The latest run of an ensemble.
    async fn latest_of(&self, file: &Path) -> Result<RunId, Refusal> {
        let file = self.project().folder.join(file).canonicalize().unwrap_or_default();
        let runs = self.runs(LOOKED_BACK).await?;
        let is_own = |summary: &&RunSummary| {
            Path::new(&summary.ensemble_file)
                .canonicalize()
                .is_ok_and(|own| own == file)
        };
        let why = || "there is no run of this ensemble; name another `run`".to_owned();
        Ok(runs.iter().find(is_own).ok_or_else(why)?.id.clone())
    }

    /// The latest runs of ensembles of the folder, the latest first.
    async fn runs(&self, limit: usize) -> Result<Vec<RunSummary>, RunError> {
        let mut looked = limit;
        loop {
            let all = self.service().list(looked).await?;
            let is_whole = all.len() < looked;
            // A run that cannot be read is nobody's.
            let served = all.into_iter().flatten().filter(|summary| self.is_served(summary));
            let served: Vec<RunSummary> = served.take(limit).collect();
            if is_whole || served.len() == limit {
                return Ok(served);
            }
            looked = looked.saturating_mul(4);
        }
    }

    fn wait(&self, arguments: &mut Arguments) -> Result<Duration, String> {
        let most = self.services.wait;
        let wanted = arguments.number("wait_seconds")?;
        Ok(wanted.map_or(most, |seconds| {
            most.min(Duration::try_from_secs_f64(seconds).unwrap_or(most))
        }))
    }

    /// Runs an ensemble.
    async fn start(&self, entry: &Entry, mut arguments: Arguments, context: &RequestContext<RoleServer>) -> Reply {
        let ensemble = &entry.ensemble;
        let input = match ensemble.input("input") {
            Some(_) => None,
            None => arguments.text("input")?,
        };
        let values = match ensemble.inputs {
            Some(_) => arguments.rest(),
            None => {
                let values = arguments.map("context")?;
                arguments.end()?;
                values
            }
        };
        let options = RunOptions {
            input: input.map(Into::into),
            context: values
                .into_iter()
                .map(|(key, value)| (key.into(), Arc::new(value)))
                .collect::<Context>(),
            models: self.services.models.clone(),
            ..RunOptions::default()
        };
        self.calls().insert(context.id.clone(), Call::Starting);
        let started = self
            .service()
            .start(EnsembleRef::file(entry.file.display().to_string()), options)
            .await;
        let id = match started {
            Ok(id) => id,
            Err(error) => {
                self.calls().remove(&context.id);
                return Err(error.into());
            }
        };
        self.owned(id, 0, self.services.wait, context).await
    }

    /// Attends a run that this request has begun: the cancellation of the request is that of the run.
    async fn owned(&self, id: RunId, from: u64, wait: Duration, context: &RequestContext<RoleServer>) -> Reply {
        let before = self.calls().insert(context.id.clone(), Call::Started(id.clone()));
        if let Some(Call::Cancelled) = before {
            self.service().cancel(&id, CLIENT).await?;
        }
        let reply = self.attend(&id, from, wait, context).await;
        // The notification of a cancellation comes after the cancellation, and looks for the run.
        if !context.ct.is_cancelled() {
            self.calls().remove(&context.id);
        }
        reply
    }

    /// Goes on with a run that nobody drives and whose conversation is not over; with one that waits for an answer, if
    /// somebody can be asked. The number of the first record that is new.
    async fn go_on(&self, id: &RunId, can_ask: bool) -> Result<u64, Refusal> {
        let summary = self.service().summary(id).await?;
        let waits = RunStatus::Ended {
            outcome: CompletionReason::WaitingForInput,
        };
        if summary.status == RunStatus::Interrupted || (can_ask && summary.status == waits) {
            let resumed = self.service().resume(id, RunOptions::default()).await;
            // Another client may have been quicker.
            let is_driven = || async {
                self.service()
                    .summary(id)
                    .await
                    .is_ok_and(|summary| is_running(summary.status))
            };
            if let Err(error) = resumed
                && !is_driven().await
            {
                return Err(error.into());
            }
        }
        Ok(summary.records)
    }

    /// Waits until the run has ended or asks something that nobody can be asked here, and for `wait` at most.
    async fn attend(&self, id: &RunId, from: u64, wait: Duration, context: &RequestContext<RoleServer>) -> Reply {
        let mut follow = self.service().follow(id, from).await.map_err(RunError::from)?;
        let mut progress = Progress::new(context);
        let mut deadline = Instant::now() + wait;
        loop {
            let event = tokio::select! {
                biased;
                () = context.ct.cancelled() => return Err(cancelled()),
                event = follow.next() => event.map_err(RunError::from)?,
                () = tokio::time::sleep_until(deadline) => break,
            };
            let Some(event) = event else { break };
            let wanted = match event.kind {
                RunEventKind::Committed(record) => {
                    let is_over = event.run == *id && matches!(record.event, Event::RunEnded(_));
                    progress.tell(&record).await;
                    if is_over {
                        self.service().ended(id).await;
                        break;
                    }
                    continue;
                }
                RunEventKind::Asked(asked) => Wanted::Answer(asked),
                RunEventKind::PermissionRequested(call) => Wanted::Permission(call),
                RunEventKind::Live(_) => continue,
            };
            if !self.is_open(id, &wanted) {
                continue;
            }
            match Way::of(context) {
                Way::None => break,
                Way::Repeated => return self.ask_by_repetition(id),
                Way::Asked => {
                    let begun = Instant::now();
                    if !self.ask(id, &wanted, context).await? {
                        break;
                    }
                    // The wait is for the run, and not for people.
                    deadline += begun.elapsed();
                }
            }
        }
        self.state(id).await
    }

    async fn state(&self, id: &RunId) -> Reply {
        let told = told(self.service(), id).await?;
        Ok(document(told.document, told.is_error))
    }

    fn is_open(&self, id: &RunId, wanted: &Wanted) -> bool {
        let key = wanted.key();
        Wanted::all(self.service(), id).iter().any(|open| open.key() == key)
    }

    /// Asks a person: whether the run goes on. A question that somebody else answers is withdrawn.
    async fn ask(&self, id: &RunId, wanted: &Wanted, context: &RequestContext<RoleServer>) -> Result<bool, Refusal> {
        let Ok(form) = wanted.form() else { return Ok(false) };
        let request = ServerRequest::ElicitRequest(ElicitRequest::new(form));
        let asked = context
            .peer
            .send_cancellable_request(request, PeerRequestOptions::no_options())
            .await;
        let Ok(asked) = asked else { return Ok(false) };
        let number = asked.id.clone();
        let answered_elsewhere = async {
            while self.is_open(id, wanted) {
                tokio::time::sleep(PAUSE).await;
            }
        };
        let (why, goes_on) = tokio::select! {
            biased;
            response = asked.await_response() => {
                return match response {
                    Ok(rmcp::model::ClientResult::ElicitResult(said)) => Ok(wanted.take(self.service(), id, &said).await?),
                    _ => Ok(false),
                };
            }
            () = context.ct.cancelled() => ("the call was cancelled", Err(cancelled())),
            () = answered_elsewhere => ("the question is answered", Ok(true)),
        };
        let withdrawn = CancelledNotificationParam::new(Some(number), Some(why.to_owned()));
        let _the_client_may_be_gone = context.peer.notify_cancelled(withdrawn).await;
        goes_on
    }

    /// Ends the call with the questions, which the client repeats with their answers.
    fn ask_by_repetition(&self, id: &RunId) -> Reply {
        let mut requests = std::collections::BTreeMap::new();
        for wanted in Wanted::all(self.service(), id) {
            if let Ok(form) = wanted.form() {
                requests.insert(wanted.key(), InputRequest::Elicitation(ElicitRequest::new(form)));
            }
        }
        // A client can name each run of the folder anyway, so the state need not be signed.
        Ok(InputRequiredResult::new(Some(requests), Some(id.to_string())).into())
    }

    /// A call that is repeated with answers.
    async fn repeated(&self, state: &str, responses: InputResponses, context: &RequestContext<RoleServer>) -> Reply {
        let id = self.run(state).await?;
        let from = self.go_on(&id, true).await?;
        for (key, response) in responses {
            let Some(wanted) = self.asked(&id, |open| open.key() == key).await else {
                continue;
            };
            let said: ElicitResult = serde_json::from_value(response).map_err(|error| error.to_string())?;
            if !wanted.take(self.service(), &id, &said).await? {
                return self.state(&id).await;
            }
        }
        self.owned(id, from, self.services.wait, context).await
    }

    /// Something that the run asks; waits until it asks, as long as it goes on.
    async fn asked(&self, id: &RunId, is_meant: impl Fn(&Wanted) -> bool) -> Option<Wanted> {
        let begun = Instant::now();
        loop {
            let open = Wanted::all(self.service(), id);
            let is_idle = open.is_empty();
            if let Some(found) = open.into_iter().find(&is_meant) {
                return Some(found);
            }
            let is_running = is_running(self.service().summary(id).await.ok()?.status);
            if !is_running || !is_idle || begun.elapsed() > ASKS_AGAIN {
                return None;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// `answer_run`.
    async fn answer(&self, mut arguments: Arguments, context: &RequestContext<RoleServer>) -> Reply {
        let id = self.run(&arguments.required("run")?).await?;
        let answer = arguments.required("answer")?;
        let (agent, call) = (arguments.text("agent")?, arguments.text("call")?);
        let wait = self.wait(&mut arguments)?;
        arguments.end()?;
        let from = self.go_on(&id, true).await?;
        let is_meant = |open: &Wanted| {
            let (asking, own) = match open {
                Wanted::Answer(asked) => (&asked.agent, None),
                Wanted::Permission(requested) => (&requested.agent, Some(&*requested.call)),
            };
            agent.as_deref().is_none_or(|agent| agent == &**asking)
                && call.as_deref().is_none_or(|call| own == Some(call))
        };
        let Some(wanted) = self.asked(&id, is_meant).await else {
            return Err(Refusal::Told(format!(
                "run {id} asks nothing of the kind; run_status tells what it asks"
            )));
        };
        let open = Wanted::all(self.service(), &id);
        if agent.is_none() && call.is_none() && open.len() > 1 {
            return Err(Refusal::Told(
                "the run asks several things; name the `agent` or the `call`, which run_status tells".to_owned(),
            ));
        }
        match &wanted {
            Wanted::Answer(asked) => self.service().answer(&id, &asked.agent, &answer).await?,
            Wanted::Permission(requested) => {
                let Some(decision) = decision(&answer) else {
                    return Err(Refusal::Told(format!("`{answer}` is none of once, always, deny")));
                };
                self.service().permit(&id, &requested.call, decision).await?;
            }
        }
        self.attend(&id, from, wait, context).await
    }

    /// `resume_run`.
    async fn resume(&self, mut arguments: Arguments, context: &RequestContext<RoleServer>) -> Reply {
        let id = self.run(&arguments.required("run")?).await?;
        let message = arguments.text("message")?;
        let wait = self.wait(&mut arguments)?;
        arguments.end()?;
        let from = self.service().summary(&id).await?.records;
        let options = RunOptions::default();
        match message {
            Some(message) => {
                let context = Context::default();
                self.service().continue_with(&id, message, context, options).await?;
            }
            None => self.service().resume(&id, options).await?,
        }
        self.owned(id, from, wait, context).await
    }

    /// `list_runs`.
    async fn list(&self, limit: usize) -> Reply {
        let summaries = self.runs(limit).await?;
        let runs: Vec<Value> = summaries.iter().map(brief).collect();
        Ok(document(json!({"runs": runs}), false))
    }
}

fn is_running(status: RunStatus) -> bool {
    matches!(status, RunStatus::Running | RunStatus::RunningElsewhere { .. })
}

/// The answer to a call that was cancelled, which nobody receives.
fn cancelled() -> Refusal {
    Refusal::Error(ErrorData::internal_error("the call was cancelled", None))
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

/// The folder, as it was looked at last.
struct Watched {
    project: Project,
    known: Fingerprint,
}

impl Watched {
    /// Looks again after a while.
    async fn has_changed(&mut self) -> bool {
        tokio::time::sleep(LOOK).await;
        let now = fingerprint(&self.project);
        std::mem::replace(&mut self.known, now) != self.known
    }
}
