//! The server of one client: its requests and its sessions.
//!
//! Invariant: the journals of runs are the only state.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use ensemble_core::executor::WallClock;
use ensemble_core::operator::{OperatorRequest, QuestionRequest};
use ensemble_core::request::PendingRequest;
use ensemble_core::store::RunId;
use ensemble_language::ensemble::Ensemble;
use ensemble_runs::service::run_service::RunService;
use ensemble_runs::store::files::FileRunStore;
use ensemble_runs::{RunEventKind, Runs};
use ensemble_wire::json_rpc::{INVALID_REQUEST, is_message_id};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::{LocalSet, spawn_local};

use crate::protocol::{self, SessionParameters};
use crate::session::{AcpSession, ActivePrompt};
use crate::session_update::SessionUpdate;
use crate::turn::{SessionPrompt, find_recorded_question, send_session_update};
use crate::updates::{SessionUpdateTracker, session_title};
use crate::wire::{ClientWire, RpcError, UnreadableLine, spawn_reader, spawn_writer};

/// The maximum time for the client to read the remaining messages at the end.
const FINAL_WRITE_TIME: Duration = Duration::from_secs(1);
/// Who cancels the run of a session that is closed.
const CLOSING_CLIENT: &str = "the client of the Agent Client Protocol, which closed the session";
/// The refusal of a request to a session that is being loaded.
const SESSION_IS_LOADING: &str = "the session is being loaded";
/// Most sessions in a list.
const MAX_LISTED_SESSIONS: usize = 100;

/// The services of the program that the server needs.
pub struct AcpServices {
    /// The runs as seen from a folder.
    pub runs: Box<dyn Fn(&Path) -> Runs>,
    /// The absolute path of the file or folder whose ensembles are served. `None` means the folder of each session.
    pub served_path: Option<PathBuf>,
    /// The folder of the process.
    pub folder: PathBuf,
    /// The version of the program.
    pub version: &'static str,
}

/// Serves a client until its input ends. Running runs are interrupted then, and can be resumed.
pub fn serve_acp(
    input: Box<dyn Read + Send>,
    output: Box<dyn Write + Send>,
    services: AcpServices,
) -> Pin<Box<dyn Future<Output = ()>>> {
    Box::pin(serve_client(input, output, services))
}

/// Serves a client on the current thread.
async fn serve_client(input: Box<dyn Read + Send>, output: Box<dyn Write + Send>, services: AcpServices) {
    let (wire, is_written) = spawn_writer(output);
    let mut messages = spawn_reader(input);
    let tasks = LocalSet::new();
    let server = Rc::new(AcpServer {
        wire: Rc::new(wire),
        services,
        is_initialized: Cell::new(false),
        shows_forms: Cell::new(false),
        client: RefCell::default(),
        sessions: RefCell::default(),
        closing_sessions: RefCell::default(),
    });
    tasks
        .run_until(async {
            while let Some(message) = messages.recv().await {
                server.handle_message(message).await;
            }
        })
        .await;
    drop((tasks, server));
    let _unread = tokio::time::timeout(FINAL_WRITE_TIME, is_written).await;
}

/// A server of one client with its sessions.
struct AcpServer {
    wire: Rc<ClientWire>,
    services: AcpServices,
    is_initialized: Cell<bool>,
    shows_forms: Cell<bool>,
    /// The name of the client, if the client gave one.
    client: RefCell<Option<String>>,
    sessions: RefCell<HashMap<String, Rc<AcpSession>>>,
    /// Sessions that were closed, and whose runs have not given back their leases.
    closing_sessions: RefCell<HashMap<String, Rc<AcpSession>>>,
}

/// A session that takes no prompt while it is loaded.
struct LoadingSession(Rc<AcpSession>);

impl LoadingSession {
    /// Begins to load a session. Refuses a session that is being loaded, or whose prompt is running.
    fn begin(session: Rc<AcpSession>) -> Result<Self, RpcError> {
        if session.turn.borrow().is_some() {
            let message = "a prompt of the session is running; cancel it with `session/cancel`, or load the session after its end";
            return Err(RpcError::new(INVALID_REQUEST, message));
        }
        if session.is_loading.replace(true) {
            return Err(RpcError::new(INVALID_REQUEST, SESSION_IS_LOADING));
        }
        Ok(Self(session))
    }
}

impl Drop for LoadingSession {
    fn drop(&mut self) {
        self.0.is_loading.set(false);
    }
}

impl AcpServer {
    /// Handles a message of the client: a request, a notification or a response. Spawns a task for each request, so that later messages are
    /// not delayed.
    async fn handle_message(self: &Rc<Self>, message: Result<Value, UnreadableLine>) {
        let mut message = match message {
            Ok(message) => message,
            Err(line) => {
                let refusal = RpcError::new(line.code, line.message);
                return self.wire.send_response(line.id, Err(refusal)).await;
            }
        };
        let method = message["method"].as_str().map(str::to_owned);
        let id = message.get("id").cloned();
        let params = message.get_mut("params").map(Value::take).unwrap_or_default();
        match (method, id) {
            (Some(method), Some(id)) if method == "session/prompt" => match self.register_prompt(&id, params) {
                Ok((prompt, text)) => {
                    let server = self.clone();
                    spawn_local(async move {
                        let session = prompt.session.clone();
                        let result = prompt.perform_prompt(text).await;
                        session.turn.replace(None);
                        server
                            .wire
                            .send_response(id, result.map(|reason| json!({"stopReason": reason})))
                            .await;
                    });
                }
                Err(refusal) => self.wire.send_response(id, Err(refusal)).await,
            },
            (Some(method), Some(id)) => {
                let server = self.clone();
                spawn_local(async move {
                    let result = server.handle_request(&method, params).await;
                    server.wire.send_response(id, result).await;
                });
            }
            (Some(method), None) => self.apply_cancellation(&method, &params),
            (None, Some(_)) if message.get("result").or(message.get("error")).is_some() => {
                self.wire.deliver_response(message);
            }
            (None, id) => {
                let refusal = RpcError::new(INVALID_REQUEST, "this is not a JSON-RPC message");
                let id = id.filter(is_message_id);
                self.wire.send_response(id.unwrap_or_default(), Err(refusal)).await;
            }
        }
    }

    /// Cancels the prompts that a cancellation notification names. Ignores other notifications.
    fn apply_cancellation(&self, method: &str, params: &Value) {
        for session in self.sessions.borrow().values() {
            let turn = session.turn.borrow();
            let Some(turn) = turn.as_ref() else { continue };
            let is_meant = match method {
                "session/cancel" => params["sessionId"] == session.id.as_str(),
                "$/cancel_request" => params["requestId"] == turn.request,
                _ => false,
            };
            if is_meant {
                turn.cancelled.send_replace(true);
            }
        }
    }

    /// Handles a request other than a prompt. The first one must be `initialize`.
    async fn handle_request(&self, method: &str, params: Value) -> Result<Value, RpcError> {
        match method {
            "initialize" => {
                let client = protocol::parse_client_capabilities(params)?;
                self.shows_forms.set(client.shows_forms);
                *self.client.borrow_mut() = client.name;
                self.is_initialized.set(true);
                Ok(protocol::initialize_response(self.services.version))
            }
            _ if !self.is_initialized.get() => {
                Err(RpcError::new(INVALID_REQUEST, "the first request must be `initialize`"))
            }
            "authenticate" => Ok(json!({})),
            "session/new" => self.create_session(protocol::parse_new_session(params)?),
            "session/load" => {
                self.open_recorded_session(protocol::parse_resumed_session(params)?, true)
                    .await
            }
            "session/resume" => {
                self.open_recorded_session(protocol::parse_resumed_session(params)?, false)
                    .await
            }
            "session/list" => self.list_sessions(params["cwd"].as_str().map(Path::new)).await,
            "session/close" => {
                self.close_session(params["sessionId"].as_str().unwrap_or_default())
                    .await;
                Ok(json!({}))
            }
            "session/set_config_option" => {
                let (session, id, value) = protocol::parse_set_option(params)?;
                let session = self.resolve_open_session(&session)?;
                session.apply_choice(&id, &value)?;
                Ok(json!({"configOptions": session.choices_json()}))
            }
            _ => Err(RpcError::new(-32601, format!("there is no request `{method}`"))),
        }
    }

    /// Registers a prompt as the active prompt of its session, so that a cancellation finds the prompt. Returns the prompt and its text.
    /// Fails if another prompt of the session is running.
    fn register_prompt(&self, id: &Value, params: Value) -> Result<(SessionPrompt, String), RpcError> {
        let (session, text) = protocol::parse_prompt(params)?;
        let session = self.resolve_open_session(&session)?;
        if session.turn.borrow().is_some() {
            return Err(RpcError::new(INVALID_REQUEST, "the previous prompt is still running"));
        }
        if session.is_loading.get() {
            return Err(RpcError::new(INVALID_REQUEST, SESSION_IS_LOADING));
        }
        let (sender, cancelled) = watch::channel(false);
        session.turn.replace(Some(ActivePrompt {
            request: id.clone(),
            cancelled: sender,
        }));
        let prompt = SessionPrompt {
            session,
            wire: self.wire.clone(),
            shows_forms: self.shows_forms.get(),
            cancelled,
        };
        Ok((prompt, text))
    }

    /// Resolves an open session by its id.
    fn resolve_open_session(&self, id: &str) -> Result<Rc<AcpSession>, RpcError> {
        let session = self.sessions.borrow().get(id).cloned();
        session.ok_or_else(|| RpcError::new(-32002, format!("there is no session `{id}`")))
    }

    /// Creates the service for the runs of a folder, stored in its project.
    fn run_service_for_folder(&self, folder: &Path) -> RunService {
        let runs = (self.services.runs)(folder);
        let store = FileRunStore::for_project(&runs.project().project_root(folder));
        RunService::new(runs.with_store(Arc::new(store)))
    }

    /// Lists the ensembles that are offered to a session in this folder, each with its file.
    fn list_offered_ensembles(&self, cwd: &Path) -> Vec<(String, PathBuf)> {
        let folder = match &self.services.served_path {
            Some(file) if !file.is_dir() => return vec![(file.display().to_string(), file.clone())],
            Some(folder) => folder,
            None => cwd,
        };
        let runs = (self.services.runs)(folder);
        let files = runs.project().list_named_files().into_iter();
        files
            .map(|(name, file)| (name, folder.join(file)))
            .filter(|(_, file)| is_ensemble_file(&runs, file))
            .collect()
    }

    /// Creates a session with a new run id, without starting a run.
    fn create_session(&self, opened: SessionParameters) -> Result<Value, RpcError> {
        let service = self.run_service_for_folder(&opened.cwd);
        let host = service.runs().host();
        let number = (host.random_number() * f64::from(RunId::IDS_PER_TIME)) as u32;
        let id = RunId::from_time_and_number(host.now(), number);
        let session = AcpSession::new(id.clone(), service, self.list_offered_ensembles(&opened.cwd))?;
        session.client.borrow_mut().clone_from(&self.client.borrow());
        session.servers.replace(Arc::new(opened.servers));
        let answer = json!({"sessionId": id.as_str(), "configOptions": session.choices_json()});
        self.sessions.borrow_mut().insert(id.to_string(), Rc::new(session));
        Ok(answer)
    }

    /// Closes a session: cancels its prompt, and waits until its run has given back its lease. A recorded question waits for
    /// the next load.
    async fn close_session(&self, session_id: &str) {
        let Some(session) = self.sessions.borrow_mut().remove(session_id) else {
            return;
        };
        self.closing_sessions
            .borrow_mut()
            .insert(session_id.to_owned(), session.clone());
        match session.turn.take() {
            Some(turn) => drop(turn.cancelled.send_replace(true)),
            None if session.service.is_driven_here(&session.id) => {
                let _is_over = session.service.cancel_run(&session.id, CLOSING_CLIENT).await;
            }
            None => {}
        }
        session.service.wait_until_closed(&session.id).await;
        self.closing_sessions.borrow_mut().remove(session_id);
    }

    /// Opens the session of a recorded run. `is_told` sends the updates of its records to the client. A session that is open
    /// stays the same session.
    async fn open_recorded_session(&self, opened: SessionParameters, is_told: bool) -> Result<Value, RpcError> {
        let session_id = opened.session.unwrap_or_default();
        let id = RunId::parse(&session_id).map_err(|error| RpcError::new(-32002, error))?;
        let closing_session = self.closing_sessions.borrow().get(&session_id).cloned();
        if let Some(closing) = closing_session {
            closing.service.wait_until_closed(&id).await;
        }
        let known_session = self.sessions.borrow().get(&session_id).cloned();
        let is_known = known_session.is_some();
        let service = known_session.as_ref().map_or_else(
            || self.run_service_for_folder(&opened.cwd),
            |known| known.service.clone(),
        );
        let missing = |error| RpcError::new(-32002, error);
        let recorded = service.load_recorded_run(&id).await.map_err(missing)?;
        let read = recorded.prepared.plan.ensemble().clone();
        let session = known_session
            .unwrap_or_else(|| Rc::new(AcpSession::for_recorded_run(id.clone(), service.clone(), read.clone())));
        session.client.borrow_mut().clone_from(&self.client.borrow());
        if is_told || !is_known {
            let loading = LoadingSession::begin(session.clone())?;
            session.servers.replace(Arc::new(opened.servers));
            let session_slot = session_id.clone();
            self.sessions
                .borrow_mut()
                .entry(session_slot)
                .or_insert(session.clone());
            let replayed = self.replay_records(&session, &read, is_told).await;
            if replayed.is_err() && !is_known {
                self.sessions.borrow_mut().remove(&session_id);
            }
            drop(loading);
            replayed?;
        } else {
            session.servers.replace(Arc::new(opened.servers));
        }
        Ok(json!({"configOptions": session.choices_json()}))
    }

    /// Applies all records of the run to a session from its beginning. `is_told` sends their updates and the question that
    /// waits for the next prompt.
    async fn replay_records(&self, session: &AcpSession, read: &Ensemble, is_told: bool) -> Result<(), RpcError> {
        let events = session.service.read_records_with_nested(&session.id).await;
        let pending = session.service.load_pending_requests(&session.id).await;
        let mut story = SessionUpdateTracker::new(session.id.clone(), read);
        let mut updates: Vec<SessionUpdate> = Vec::new();
        session.has_told_unused.set(!is_told);
        updates.extend(session.unused_servers_update());
        for event in events.map_err(RpcError::internal_error)? {
            if let RunEventKind::Committed(record) = event.kind {
                updates.extend(story.updates_for_record(&event.run, &record));
            }
        }
        session.shown_question.replace(None);
        if is_told && let Some(first) = find_recorded_question(pending.map_err(RpcError::internal_error)?) {
            updates.push(match find_open_question(session, &first) {
                Some(open) => story.question_update(&open.run, &first, protocol::question_message(&open)),
                None => story.recorded_question_update(&first),
            });
            session.shown_question.replace(Some(first));
        }
        session.story.replace(story);
        if is_told {
            for update in updates {
                send_session_update(&self.wire, &session.id, update).await;
            }
        }
        Ok(())
    }

    /// Lists the latest runs of a folder as sessions.
    async fn list_sessions(&self, cwd: Option<&Path>) -> Result<Value, RpcError> {
        let folder = cwd.unwrap_or(&self.services.folder);
        let summaries = self
            .run_service_for_folder(folder)
            .load_latest_summaries(MAX_LISTED_SESSIONS)
            .await
            .map_err(RpcError::internal_error)?;
        // A run that cannot be read is no session.
        let sessions = summaries.into_iter().flatten().map(|run| {
            let title = session_title(&run.input, &run.ensemble);
            protocol::session_list_entry(run.id.as_str(), folder, &title, run.last_at.to_rfc3339())
        });
        Ok(json!({"sessions": sessions.collect::<Vec<Value>>()}))
    }
}

/// Finds a pending question among the questions that the run of the session asks in this process.
fn find_open_question(session: &AcpSession, pending: &PendingRequest) -> Option<QuestionRequest> {
    let open = session.service.live_open_requests(&session.id).into_iter();
    let mut questions = open.filter_map(|open| match open {
        OperatorRequest::Question(question) => Some(question),
        OperatorRequest::Permission(_) => None,
    });
    questions.find(|question| question.request.digest == pending.digest)
}

/// Returns whether the file is an ensemble.
fn is_ensemble_file(runs: &Runs, file: &Path) -> bool {
    let source = runs.project().read_file(file);
    source.is_ok_and(|source| ensemble_language::loader::load_ensemble(&source).looks_like_ensemble())
}
