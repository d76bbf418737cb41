//! The main loop: the life of the server, and the open texts.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Sender;

use lsp_server::{ErrorCode, Message, Notification, Request, RequestId};
use lsp_types::notification::{self as told, Notification as _};
use lsp_types::request::{self as asked, Request as _};
use lsp_types::{
    DidChangeTextDocumentParams, DidChangeWatchedFilesParams, DidChangeWatchedFilesRegistrationOptions,
    DidCloseTextDocumentParams, DidOpenTextDocumentParams, FileSystemWatcher, GlobPattern, InitializeParams,
    NumberOrString, PublishDiagnosticsParams, Registration, RegistrationParams, Uri,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::answer_thread::AnswerThread;
use super::capabilities::{self, ClientFeatures};
use super::check_thread::CheckThread;
use super::documents::{NewestDocumentChanges, OpenDocument};
use super::message_writer::MessageSender;
use super::{LspServerEnd, LspServerEvent, LspServerOptions, client_process, file_address};
use crate::text::EditorText;

/// The files whose changes lead to other findings.
const WATCHED_PATTERNS: [&str; 1] = ["**/*"];

/// The state of the server in its main loop.
pub(super) struct LspSession {
    services: LspServerOptions,
    outgoing: MessageSender,
    events: Sender<LspServerEvent>,
    stage: ServerStage,
    client: ClientFeatures,
    documents: HashMap<String, Arc<OpenDocument>>,
    changes: u64,
    newest: NewestDocumentChanges,
    /// Nobody works before `initialize`.
    workers: Option<AnalysisThreads>,
}

/// The threads that check texts and answer requests.
struct AnalysisThreads {
    checking: CheckThread,
    answering: AnswerThread,
}

/// The stages of the server's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ServerStage {
    New,
    Serving,
    ShutDown,
}

impl LspSession {
    /// Creates the state before `initialize`, without threads.
    pub(super) fn new(services: LspServerOptions, outgoing: MessageSender, events: Sender<LspServerEvent>) -> Self {
        Self {
            services,
            outgoing,
            events,
            stage: ServerStage::New,
            client: ClientFeatures::default(),
            documents: HashMap::new(),
            changes: 0,
            newest: NewestDocumentChanges::default(),
            workers: None,
        }
    }

    /// Handles one event. Returns the reason if the server has ended.
    pub(super) fn handle_event(&mut self, event: LspServerEvent) -> Option<LspServerEnd> {
        match event {
            LspServerEvent::End(end) => return Some(end),
            LspServerEvent::Message(Message::Request(request)) => self.handle_request(request),
            LspServerEvent::Message(Message::Notification(it)) if it.method == told::Exit::METHOD => {
                return Some(LspServerEnd::Exit {
                    after_shutdown: self.stage == ServerStage::ShutDown,
                });
            }
            LspServerEvent::Message(Message::Notification(notification)) => self.handle_notification(notification),
            // Of the server's own requests, no answer matters.
            LspServerEvent::Message(Message::Response(_)) => {}
        }
        None
    }

    /// Answers requests of the lifecycle, and queues all other requests.
    fn handle_request(&mut self, request: Request) {
        let refuse = |code: ErrorCode, why: &str| self.outgoing.send_error_response(request.id.clone(), code, why);
        match (self.stage, request.method.as_str()) {
            (ServerStage::New, asked::Initialize::METHOD) => self.handle_initialize(request.id, request.params),
            (ServerStage::New, _) => refuse(
                ErrorCode::ServerNotInitialized,
                "the first request must be `initialize`",
            ),
            (ServerStage::ShutDown, _) => refuse(ErrorCode::InvalidRequest, "the server has shut down"),
            (ServerStage::Serving, asked::Initialize::METHOD) => {
                refuse(ErrorCode::InvalidRequest, "the server is initialized already");
            }
            (ServerStage::Serving, asked::Shutdown::METHOD) => {
                self.stage = ServerStage::ShutDown;
                self.outgoing.send_response(request.id, Value::Null);
            }
            (ServerStage::Serving, _) => {
                if let Some(workers) = &self.workers {
                    workers.answering.queue_request(request, &self.documents);
                }
            }
        }
    }

    /// Handles `initialize`: reads the features of the client, starts the threads and answers.
    fn handle_initialize(&mut self, id: RequestId, params: Value) {
        let params: InitializeParams = match serde_json::from_value(params) {
            Ok(params) => params,
            Err(error) => {
                let message = format!("the parameters of `initialize` are not valid: {error}");
                return self.outgoing.send_error_response(id, ErrorCode::InvalidParams, message);
            }
        };
        self.stage = ServerStage::Serving;
        self.client = ClientFeatures::from_params(&params);
        if let Some(process) = params.process_id {
            client_process::end_with_client_process(process, self.events.clone());
        }
        if let Some(folder) = find_root_folder(&params) {
            self.services.project.folder = folder;
        }
        self.workers = Some(AnalysisThreads {
            checking: CheckThread::spawn(&self.services, self.outgoing.clone(), self.newest.clone(), self.client),
            answering: AnswerThread::spawn(&self.services, self.outgoing.clone(), self.client),
        });
        self.outgoing
            .send_response(id, capabilities::initialize_result(self.client, self.services.version));
    }

    /// Handles a notification. Ignores notifications before `initialize`, except for cancellations.
    fn handle_notification(&mut self, notification: Notification) {
        if notification.method == told::Cancel::METHOD {
            if let Some(params) = parse_params::<lsp_types::CancelParams>(notification.params)
                && let Some(workers) = &self.workers
            {
                workers.answering.answer_with_cancellation(&match params.id {
                    NumberOrString::Number(id) => RequestId::from(id),
                    NumberOrString::String(id) => RequestId::from(id),
                });
            }
            return;
        }
        if self.stage != ServerStage::Serving {
            return;
        }
        match notification.method.as_str() {
            told::Initialized::METHOD => self.register_file_watcher(),
            told::DidOpenTextDocument::METHOD => parse_params(notification.params)
                .into_iter()
                .for_each(|it| self.open_document(it)),
            told::DidChangeTextDocument::METHOD => parse_params(notification.params)
                .into_iter()
                .for_each(|it| self.change_document(it)),
            told::DidCloseTextDocument::METHOD => parse_params(notification.params)
                .into_iter()
                .for_each(|it| self.close_document(&it)),
            told::DidSaveTextDocument::METHOD => self.queue_all_checks(),
            told::DidChangeWatchedFiles::METHOD => {
                let changed = parse_params::<DidChangeWatchedFilesParams>(notification.params);
                if changed.is_some_and(|changed| changed.changes.iter().any(|file| can_affect_findings(&file.uri))) {
                    self.queue_all_checks();
                }
            }
            // What is not known is left alone, as the protocol wants it.
            _ => {}
        }
    }

    /// Asks the client to report changed files, if the client supports this.
    fn register_file_watcher(&self) {
        if !self.client.watches_files {
            return;
        }
        let watchers = WATCHED_PATTERNS.map(|pattern| FileSystemWatcher {
            glob_pattern: GlobPattern::String(pattern.to_owned()),
            kind: None,
        });
        let options = DidChangeWatchedFilesRegistrationOptions {
            watchers: watchers.into(),
        };
        let registration = Registration {
            id: "files".to_owned(),
            method: told::DidChangeWatchedFiles::METHOD.to_owned(),
            register_options: serde_json::to_value(options).ok(),
        };
        self.outgoing.send_message(Message::Request(Request::new(
            RequestId::from("files".to_owned()),
            asked::RegisterCapability::METHOD.to_owned(),
            RegistrationParams {
                registrations: vec![registration],
            },
        )));
    }

    /// Stores an opened document, and queues its check.
    fn open_document(&mut self, params: DidOpenTextDocumentParams) {
        let item = params.text_document;
        let text = EditorText::new(item.text, self.client.encoding);
        self.store_and_check_document(item.uri, item.version, text);
    }

    /// Applies the changes to the open document, and queues a check.
    fn change_document(&mut self, params: DidChangeTextDocumentParams) {
        let about = params.text_document;
        let Some(document) = self.documents.get(about.uri.as_str()) else {
            return;
        };
        let mut text = document.text.clone();
        for change in &params.content_changes {
            text = text.with_change(change);
        }
        self.store_and_check_document(about.uri, about.version, text);
    }

    /// Stores a new version of a document, and queues its check.
    fn store_and_check_document(&mut self, uri: Uri, version: i32, text: EditorText) {
        self.changes += 1;
        let document = Arc::new(OpenDocument {
            path: file_address::path_from_uri(&uri, &self.services.project.folder),
            uri,
            version,
            change: self.changes,
            text,
        });
        let key = document.uri.as_str().to_owned();
        self.newest
            .with_locked_changes(|newest| newest.insert(key.clone(), document.change));
        if let Some(workers) = &self.workers {
            workers.checking.queue_check(&document);
        }
        self.documents.insert(key, document);
    }

    /// Removes the document, and clears its published findings.
    fn close_document(&mut self, params: &DidCloseTextDocumentParams) {
        let key = params.text_document.uri.as_str();
        self.documents.remove(key);
        // While it is held, nothing is published about the text.
        self.newest.with_locked_changes(|newest| {
            newest.remove(key);
            self.outgoing
                .send_notification::<told::PublishDiagnostics>(PublishDiagnosticsParams {
                    uri: params.text_document.uri.clone(),
                    diagnostics: Vec::new(),
                    version: None,
                });
        });
    }

    /// Queues a check of every open document with the current files on disk.
    fn queue_all_checks(&mut self) {
        let Some(workers) = &self.workers else { return };
        workers.checking.queue_forget_files();
        workers.answering.queue_file_cache_clear();
        for document in self.documents.values() {
            workers.checking.queue_check(document);
        }
    }
}

/// Returns the folder that the client has opened, which becomes the folder of the project.
fn find_root_folder(params: &InitializeParams) -> Option<PathBuf> {
    let first = params.workspace_folders.iter().flatten().next();
    #[expect(deprecated, reason = "older clients know no other way")]
    let root = first.map(|folder| &folder.uri).or(params.root_uri.as_ref())?;
    let folder = file_address::path_from_uri(root, Path::new(""));
    folder.is_dir().then_some(folder)
}

/// Folders whose files change often and lead to no other findings.
const IGNORED_FOLDERS: [&str; 4] = ["/.ensemble/runs/", "/.git/", "/node_modules/", "/target/"];

/// Returns whether a change of the file can change the findings of an ensemble.
fn can_affect_findings(uri: &Uri) -> bool {
    !IGNORED_FOLDERS.iter().any(|folder| uri.as_str().contains(folder))
}

/// Parses the parameters of a notification. Returns `None` if they are not valid, because notifications have no answers.
fn parse_params<T: DeserializeOwned>(params: Value) -> Option<T> {
    serde_json::from_value(params).ok()
}
