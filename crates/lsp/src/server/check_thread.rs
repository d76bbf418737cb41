//! The thread that checks texts and publishes findings.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use ensemble_language::diagnostic;
use lsp_types::notification::PublishDiagnostics;
use lsp_types::{Diagnostic, PublishDiagnosticsParams, Uri};

use super::capabilities::ClientFeatures;
use super::documents::{NewestDocumentChanges, OpenDocument};
use super::message_writer::MessageSender;
use super::{LspServerOptions, file_address, lsp_diagnostic};
use crate::text::EditorText;
use ensemble_ide::analysis::findings::FolderChecks;

/// A handle of the thread that checks texts and publishes findings.
pub(super) struct CheckThread(Arc<CheckQueue>);

/// The queue of the texts that wait for their check.
#[derive(Default)]
struct CheckQueue {
    waiting: Mutex<QueuedTexts>,
    more: Condvar,
}

#[derive(Default)]
struct QueuedTexts {
    /// The newest text of each file, in the order in which they came.
    documents: Vec<Arc<OpenDocument>>,
    /// What is remembered of files on disk is old.
    is_stale: bool,
}

impl CheckThread {
    /// Starts the thread that checks texts.
    pub(super) fn spawn(
        services: &LspServerOptions,
        outgoing: MessageSender,
        newest: NewestDocumentChanges,
        client: ClientFeatures,
    ) -> Self {
        let desk = Arc::new(CheckQueue::default());
        let (work, services) = (Arc::clone(&desk), services.clone());
        std::thread::spawn(move || run_check_loop(&work, &services, &outgoing, &newest, client));
        Self(desk)
    }

    /// Queues the check of this text, instead of an older version that waits.
    pub(super) fn queue_check(&self, document: &Arc<OpenDocument>) {
        let mut waiting = self.0.lock();
        waiting.documents.retain(|older| older.uri != document.uri);
        waiting.documents.push(Arc::clone(document));
        self.0.more.notify_one();
    }

    /// Marks all cached files as stale, because files on disk have changed.
    pub(super) fn queue_forget_files(&self) {
        self.0.lock().is_stale = true;
    }
}

impl CheckQueue {
    /// Locks the queue, also after a panic of another thread.
    fn lock(&self) -> MutexGuard<'_, QueuedTexts> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next text. Also returns whether files on disk have changed since the previous text.
    fn wait_for_next_text(&self) -> (Arc<OpenDocument>, bool) {
        let mut waiting = self.lock();
        while waiting.documents.is_empty() {
            waiting = self.more.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        let document = waiting.documents.remove(0);
        (document, std::mem::take(&mut waiting.is_stale))
    }
}

/// The state of the checking thread: its folders, and the files with published findings.
struct TextChecker<'s> {
    services: &'s LspServerOptions,
    outgoing: &'s MessageSender,
    newest: &'s NewestDocumentChanges,
    places: HashMap<PathBuf, FolderChecks<'s>>,
    /// The configurations about which something was published, by the folder for which they were read.
    published_files: HashMap<PathBuf, BTreeSet<String>>,
}

/// Checks the queued texts, and publishes their findings. Never returns.
fn run_check_loop(
    desk: &CheckQueue,
    services: &LspServerOptions,
    outgoing: &MessageSender,
    newest: &NewestDocumentChanges,
    client: ClientFeatures,
) {
    let mut checker = TextChecker {
        services,
        outgoing,
        newest,
        places: HashMap::new(),
        published_files: HashMap::new(),
    };
    loop {
        let (document, is_stale) = desk.wait_for_next_text();
        if is_stale {
            checker.places.clear();
        }
        if newest.is_newest(&document)
            && catch_unwind(AssertUnwindSafe(|| checker.check_and_publish(&document, client))).is_err()
        {
            // The panic was told. What is remembered may be half of something.
            checker.places.clear();
        }
    }
}

impl TextChecker<'_> {
    /// Checks a text and publishes its findings, unless a newer version of the text exists.
    fn check_and_publish(&mut self, document: &OpenDocument, client: ClientFeatures) {
        let project = &self.services.project;
        let folder = document.path.parent().unwrap_or(&document.path).to_owned();
        if !self.places.contains_key(&folder) {
            let mut place = FolderChecks::for_file(&document.path, project, &*self.services.checks);
            let faults = place.check_folder_configurations();
            self.places.insert(folder.clone(), place);
            self.publish_configuration_findings(&folder, &faults, client);
        }
        let Some(place) = self.places.get(&folder) else {
            return;
        };
        let is_wanted = || self.newest.is_newest(document);
        let Some(findings) = place.check_text_if_wanted(&document.path, document.text.content(), &is_wanted) else {
            return;
        };
        let convert_finding = |finding| {
            lsp_diagnostic::to_lsp_diagnostic(finding, &document.text, &document.uri, &project.folder, client)
        };
        let diagnostics = findings.iter().map(convert_finding).collect();
        self.newest.with_locked_changes(|newest| {
            if newest.get(document.uri.as_str()) == Some(&document.change) {
                self.outgoing
                    .send_notification::<PublishDiagnostics>(PublishDiagnosticsParams {
                        uri: document.uri.clone(),
                        diagnostics,
                        version: Some(document.version),
                    });
            }
        });
    }

    /// Publishes the findings about configurations that are not open, and removes earlier findings.
    fn publish_configuration_findings(
        &mut self,
        place: &Path,
        faults: &[diagnostic::Diagnostic],
        client: ClientFeatures,
    ) {
        let earlier_files = self.published_files.remove(place).unwrap_or_default();
        let mut files: BTreeMap<String, Vec<Diagnostic>> =
            earlier_files.into_iter().map(|file| (file, Vec::new())).collect();
        for fault in faults {
            let path = self.services.project.folder.join(fault.source.name());
            let Some(uri) = file_address::uri_from_path(&path) else {
                continue;
            };
            let text = EditorText::new(fault.source.text().clone(), client.encoding);
            let of_file = files.entry(uri.as_str().to_owned()).or_default();
            of_file.push(lsp_diagnostic::to_lsp_diagnostic(
                fault,
                &text,
                &uri,
                &self.services.project.folder,
                client,
            ));
        }
        let wrong = files.iter().filter(|(_, findings)| !findings.is_empty());
        self.published_files
            .insert(place.to_owned(), wrong.map(|(file, _)| file.clone()).collect());
        self.newest.with_locked_changes(|newest| {
            // Of an open text, its own check tells.
            for (file, diagnostics) in files.into_iter().filter(|(file, _)| !newest.contains_key(file)) {
                if let Ok(uri) = file.parse::<Uri>() {
                    self.outgoing
                        .send_notification::<PublishDiagnostics>(PublishDiagnosticsParams {
                            uri,
                            diagnostics,
                            version: None,
                        });
                }
            }
        });
    }
}
