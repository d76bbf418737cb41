//! The thread that answers requests.

use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lsp_server::{ErrorCode, Request, RequestId};

use super::Services;
use super::capabilities::Client;
use super::documents::Document;
use super::outgoing::Sending;
use super::requests::{Asked, Refusal};

/// Hands requests to the thread.
pub(super) struct Answering {
    jobs: Sender<Job>,
    open: Open,
    outgoing: Sending,
}

enum Job {
    Answer(Request, HashMap<String, Arc<Document>>),
    ForgetFiles,
}

/// The requests that have no answer yet. Whoever takes an id out answers the request.
#[derive(Clone, Default)]
struct Open(Arc<Mutex<HashSet<RequestId>>>);

impl Open {
    fn lock(&self) -> MutexGuard<'_, HashSet<RequestId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Answering {
    pub(super) fn start(services: &Services, outgoing: Sending, client: Client) -> Self {
        let (jobs, received) = mpsc::channel();
        let open = Open::default();
        let (mine, services, sending) = (open.clone(), services.clone(), outgoing.clone());
        std::thread::spawn(move || answer_all(&received, &services, &sending, &mine, client));
        Self { jobs, open, outgoing }
    }

    /// Answers a request about the texts as they are now.
    pub(super) fn ask(&self, request: Request, documents: &HashMap<String, Arc<Document>>) {
        self.open.lock().insert(request.id.clone());
        let _gone = self.jobs.send(Job::Answer(request, documents.clone()));
    }

    /// Gives up a request.
    pub(super) fn cancel(&self, id: &RequestId) {
        if self.open.lock().remove(id) {
            let why = "the request was cancelled";
            self.outgoing.refuse(id.clone(), ErrorCode::RequestCanceled, why);
        }
    }

    /// Files on disk have changed.
    pub(super) fn forget_files(&self) {
        let _gone = self.jobs.send(Job::ForgetFiles);
    }
}

fn answer_all(jobs: &Receiver<Job>, services: &Services, outgoing: &Sending, open: &Open, client: Client) {
    let mut asked = Asked::new(services, outgoing, client);
    for job in jobs {
        let (request, documents) = match job {
            Job::Answer(request, documents) => (request, documents),
            Job::ForgetFiles => {
                asked.forget_files();
                continue;
            }
        };
        let id = request.id.clone();
        if !open.lock().contains(&id) {
            continue;
        }
        let answer = catch_unwind(AssertUnwindSafe(|| asked.answer(request, &documents)));
        let answer = answer.unwrap_or_else(|_| {
            // The panic was told. What is remembered may be half of something.
            asked.forget_files();
            Err(Refusal(ErrorCode::InternalError, "the server has an error".to_owned()))
        });
        if open.lock().remove(&id) {
            match answer {
                Ok(result) => outgoing.answer(id, result),
                Err(Refusal(code, why)) => outgoing.refuse(id, code, why),
            }
        }
    }
}
