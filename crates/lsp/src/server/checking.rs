//! The thread that checks texts and publishes findings.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use ensemble_language::diagnostic;
use lsp_types::notification::PublishDiagnostics;
use lsp_types::{Diagnostic, PublishDiagnosticsParams, Uri};

use super::capabilities::Client;
use super::documents::{Document, Newest};
use super::outgoing::Sending;
use super::{Services, address, shown};
use crate::text::Text;
use ensemble_ide::analysis::findings::Place;

/// Hands texts to the thread.
pub(super) struct Checking(Arc<Desk>);

/// The texts that wait for their check.
#[derive(Default)]
struct Desk {
    waiting: Mutex<Waiting>,
    more: Condvar,
}

#[derive(Default)]
struct Waiting {
    /// The newest text of each file, in the order in which they came.
    documents: Vec<Arc<Document>>,
    /// What is remembered of files on disk is old.
    is_stale: bool,
}

impl Checking {
    pub(super) fn start(services: &Services, outgoing: Sending, newest: Newest, client: Client) -> Self {
        let desk = Arc::new(Desk::default());
        let (work, services) = (Arc::clone(&desk), services.clone());
        std::thread::spawn(move || check_all(&work, &services, &outgoing, &newest, client));
        Self(desk)
    }

    /// Checks this text, in place of an older one that waits.
    pub(super) fn check(&self, document: &Arc<Document>) {
        let mut waiting = self.0.lock();
        waiting.documents.retain(|older| older.uri != document.uri);
        waiting.documents.push(Arc::clone(document));
        self.0.more.notify_one();
    }

    /// Files on disk have changed.
    pub(super) fn forget_files(&self) {
        self.0.lock().is_stale = true;
    }
}

impl Desk {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next text, and whether files have changed since the last one.
    fn next(&self) -> (Arc<Document>, bool) {
        let mut waiting = self.lock();
        while waiting.documents.is_empty() {
            waiting = self.more.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        let document = waiting.documents.remove(0);
        (document, std::mem::take(&mut waiting.is_stale))
    }
}

/// The thread and what it remembers.
struct Checker<'s> {
    services: &'s Services,
    outgoing: &'s Sending,
    newest: &'s Newest,
    places: HashMap<PathBuf, Place<'s>>,
    /// The configurations about which something was published, by the folder for which they were read.
    told: HashMap<PathBuf, BTreeSet<String>>,
}

fn check_all(desk: &Desk, services: &Services, outgoing: &Sending, newest: &Newest, client: Client) {
    let mut checker = Checker {
        services,
        outgoing,
        newest,
        places: HashMap::new(),
        told: HashMap::new(),
    };
    loop {
        let (document, is_stale) = desk.next();
        if is_stale {
            checker.places.clear();
        }
        if newest.is(&document) && catch_unwind(AssertUnwindSafe(|| checker.check(&document, client))).is_err() {
            // The panic was told. What is remembered may be half of something.
            checker.places.clear();
        }
    }
}

impl Checker<'_> {
    fn check(&mut self, document: &Document, client: Client) {
        let project = &self.services.project;
        let folder = document.path.parent().unwrap_or(&document.path).to_owned();
        if !self.places.contains_key(&folder) {
            let mut place = Place::around(&document.path, project, &*self.services.checks);
            let faults = place.take_faults();
            self.places.insert(folder.clone(), place);
            self.tell_of_configurations(&folder, &faults, client);
        }
        let Some(place) = self.places.get(&folder) else {
            return;
        };
        let is_wanted = || self.newest.is(document);
        let Some(findings) = place.check(&document.path, document.text.text(), &is_wanted) else {
            return;
        };
        let shown = |finding| shown::finding(finding, &document.text, &document.uri, &project.folder, client);
        let diagnostics = findings.iter().map(shown).collect();
        self.newest.hold(|newest| {
            if newest.get(document.uri.as_str()) == Some(&document.change) {
                self.outgoing.notify::<PublishDiagnostics>(PublishDiagnosticsParams {
                    uri: document.uri.clone(),
                    diagnostics,
                    version: Some(document.version),
                });
            }
        });
    }

    /// Tells what is wrong with configurations that are not open, and takes back what was wrong before.
    fn tell_of_configurations(&mut self, place: &Path, faults: &[diagnostic::Diagnostic], client: Client) {
        let told = self.told.remove(place).unwrap_or_default();
        let mut files: BTreeMap<String, Vec<Diagnostic>> = told.into_iter().map(|file| (file, Vec::new())).collect();
        for fault in faults {
            let path = self.services.project.folder.join(fault.source.name());
            let Some(uri) = address::of_path(&path) else {
                continue;
            };
            let text = Text::new(fault.source.text().clone(), client.encoding);
            let of_file = files.entry(uri.as_str().to_owned()).or_default();
            of_file.push(shown::finding(
                fault,
                &text,
                &uri,
                &self.services.project.folder,
                client,
            ));
        }
        let wrong = files.iter().filter(|(_, findings)| !findings.is_empty());
        self.told
            .insert(place.to_owned(), wrong.map(|(file, _)| file.clone()).collect());
        self.newest.hold(|newest| {
            // Of an open text, its own check tells.
            for (file, diagnostics) in files.into_iter().filter(|(file, _)| !newest.contains_key(file)) {
                if let Ok(uri) = file.parse::<Uri>() {
                    self.outgoing.notify::<PublishDiagnostics>(PublishDiagnosticsParams {
                        uri,
                        diagnostics,
                        version: None,
                    });
                }
            }
        });
    }
}
