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

use super::answering::Answering;
use super::capabilities::{self, Client};
use super::checking::Checking;
use super::documents::{Document, Newest};
use super::outgoing::Sending;
use super::{End, Event, Services, address, parent};
use crate::text::Text;

/// The files whose changes lead to other findings.
const WATCHED: [&str; 1] = ["**/*"];

/// The state of the server.
pub(super) struct Session {
    services: Services,
    outgoing: Sending,
    events: Sender<Event>,
    stage: Stage,
    client: Client,
    documents: HashMap<String, Arc<Document>>,
    changes: u64,
    newest: Newest,
    /// Nobody works before `initialize`.
    workers: Option<Workers>,
}

/// The threads that analyse.
struct Workers {
    checking: Checking,
    answering: Answering,
}

/// The stages of the server's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    New,
    Serving,
    ShutDown,
}

impl Session {
    pub(super) fn new(services: Services, outgoing: Sending, events: Sender<Event>) -> Self {
        Self {
            services,
            outgoing,
            events,
            stage: Stage::New,
            client: Client::default(),
            documents: HashMap::new(),
            changes: 0,
            newest: Newest::default(),
            workers: None,
        }
    }

    /// Handles one event; the end of the server, if it has ended.
    pub(super) fn handle(&mut self, event: Event) -> Option<End> {
        match event {
            Event::End(end) => return Some(end),
            Event::Message(Message::Request(request)) => self.request(request),
            Event::Message(Message::Notification(it)) if it.method == told::Exit::METHOD => {
                return Some(End::Exit {
                    after_shutdown: self.stage == Stage::ShutDown,
                });
            }
            Event::Message(Message::Notification(notification)) => self.notification(notification),
            // Of the server's own requests, no answer matters.
            Event::Message(Message::Response(_)) => {}
        }
        None
    }

    fn request(&mut self, request: Request) {
        let refuse = |code: ErrorCode, why: &str| self.outgoing.refuse(request.id.clone(), code, why);
        match (self.stage, request.method.as_str()) {
            (Stage::New, asked::Initialize::METHOD) => self.initialize(request.id, request.params),
            (Stage::New, _) => refuse(
                ErrorCode::ServerNotInitialized,
                "the first request must be `initialize`",
            ),
            (Stage::ShutDown, _) => refuse(ErrorCode::InvalidRequest, "the server has shut down"),
            (Stage::Serving, asked::Initialize::METHOD) => {
                refuse(ErrorCode::InvalidRequest, "the server is initialized already");
            }
            (Stage::Serving, asked::Shutdown::METHOD) => {
                self.stage = Stage::ShutDown;
                self.outgoing.answer(request.id, Value::Null);
            }
            (Stage::Serving, _) => {
                if let Some(workers) = &self.workers {
                    workers.answering.ask(request, &self.documents);
                }
            }
        }
    }

    fn initialize(&mut self, id: RequestId, params: Value) {
        let params: InitializeParams = match serde_json::from_value(params) {
            Ok(params) => params,
            Err(error) => {
                let why = format!("the parameters of `initialize` are not valid: {error}");
                return self.outgoing.refuse(id, ErrorCode::InvalidParams, why);
            }
        };
        self.stage = Stage::Serving;
        self.client = Client::of(&params);
        if let Some(process) = params.process_id {
            parent::watch(process, self.events.clone());
        }
        if let Some(folder) = root_of(&params) {
            self.services.project.folder = folder;
        }
        self.workers = Some(Workers {
            checking: Checking::start(&self.services, self.outgoing.clone(), self.newest.clone(), self.client),
            answering: Answering::start(&self.services, self.outgoing.clone(), self.client),
        });
        self.outgoing
            .answer(id, capabilities::answer(self.client, self.services.version));
    }

    fn notification(&mut self, notification: Notification) {
        if notification.method == told::Cancel::METHOD {
            if let Some(params) = read::<lsp_types::CancelParams>(notification.params)
                && let Some(workers) = &self.workers
            {
                workers.answering.cancel(&match params.id {
                    NumberOrString::Number(id) => RequestId::from(id),
                    NumberOrString::String(id) => RequestId::from(id),
                });
            }
            return;
        }
        if self.stage != Stage::Serving {
            return;
        }
        match notification.method.as_str() {
            told::Initialized::METHOD => self.watch_files(),
            told::DidOpenTextDocument::METHOD => read(notification.params).into_iter().for_each(|it| self.open(it)),
            told::DidChangeTextDocument::METHOD => read(notification.params).into_iter().for_each(|it| self.change(it)),
            told::DidCloseTextDocument::METHOD => read(notification.params).into_iter().for_each(|it| self.close(&it)),
            told::DidSaveTextDocument::METHOD => self.look_again(),
            told::DidChangeWatchedFiles::METHOD => {
                let changed = read::<DidChangeWatchedFilesParams>(notification.params);
                if changed.is_some_and(|changed| changed.changes.iter().any(|file| matters(&file.uri))) {
                    self.look_again();
                }
            }
            // What is not known is left alone, as the protocol wants it.
            _ => {}
        }
    }

    /// Asks the client to tell of files that change.
    fn watch_files(&self) {
        if !self.client.watches_files {
            return;
        }
        let watchers = WATCHED.map(|pattern| FileSystemWatcher {
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
        self.outgoing.send(Message::Request(Request::new(
            RequestId::from("files".to_owned()),
            asked::RegisterCapability::METHOD.to_owned(),
            RegistrationParams {
                registrations: vec![registration],
            },
        )));
    }

    fn open(&mut self, params: DidOpenTextDocumentParams) {
        let item = params.text_document;
        let text = Text::new(item.text, self.client.encoding);
        self.put(item.uri, item.version, text);
    }

    fn change(&mut self, params: DidChangeTextDocumentParams) {
        let about = params.text_document;
        let Some(known) = self.documents.get(about.uri.as_str()) else {
            return;
        };
        let mut text = known.text.clone();
        for change in &params.content_changes {
            text = text.changed(change);
        }
        self.put(about.uri, about.version, text);
    }

    fn put(&mut self, uri: Uri, version: i32, text: Text) {
        self.changes += 1;
        let document = Arc::new(Document {
            path: address::path_of(&uri, &self.services.project.folder),
            uri,
            version,
            change: self.changes,
            text,
        });
        let key = document.uri.as_str().to_owned();
        self.newest.hold(|newest| newest.insert(key.clone(), document.change));
        if let Some(workers) = &self.workers {
            workers.checking.check(&document);
        }
        self.documents.insert(key, document);
    }

    fn close(&mut self, params: &DidCloseTextDocumentParams) {
        let key = params.text_document.uri.as_str();
        self.documents.remove(key);
        // While it is held, nothing is published about the text.
        self.newest.hold(|newest| {
            newest.remove(key);
            self.outgoing
                .notify::<told::PublishDiagnostics>(PublishDiagnosticsParams {
                    uri: params.text_document.uri.clone(),
                    diagnostics: Vec::new(),
                    version: None,
                });
        });
    }

    /// Checks every text once more, with files as they are now.
    fn look_again(&mut self) {
        let Some(workers) = &self.workers else { return };
        workers.checking.forget_files();
        workers.answering.forget_files();
        for document in self.documents.values() {
            workers.checking.check(document);
        }
    }
}

/// The folder that the client has opened: the project is seen from there.
fn root_of(params: &InitializeParams) -> Option<PathBuf> {
    let first = params.workspace_folders.iter().flatten().next();
    #[expect(deprecated, reason = "older clients know no other way")]
    let root = first.map(|folder| &folder.uri).or(params.root_uri.as_ref())?;
    let folder = address::path_of(root, Path::new(""));
    folder.is_dir().then_some(folder)
}

/// Folders whose files change often and lead to no other findings.
const APART: [&str; 4] = ["/.ensemble/runs/", "/.git/", "/node_modules/", "/target/"];

/// Returns whether the findings of an ensemble can depend on a file.
fn matters(uri: &Uri) -> bool {
    !APART.iter().any(|folder| uri.as_str().contains(folder))
}

/// The parameters of a notification. To one that is not valid there is no answer.
fn read<T: DeserializeOwned>(params: Value) -> Option<T> {
    serde_json::from_value(params).ok()
}
