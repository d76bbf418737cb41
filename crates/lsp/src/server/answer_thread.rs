//! The thread that answers requests.

use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lsp_server::{ErrorCode, Request, RequestId};

use super::LspServerOptions;
use super::capabilities::ClientFeatures;
use super::documents::OpenDocument;
use super::message_writer::MessageSender;
use super::requests::{LspRequestError, RequestHandler};

/// A handle of the thread that answers requests.
pub(super) struct AnswerThread {
    jobs: Sender<AnswerJob>,
    open: UnansweredRequests,
    outgoing: MessageSender,
}

enum AnswerJob {
    Answer(Request, HashMap<String, Arc<OpenDocument>>),
    ForgetFiles,
}

/// The requests without an answer so far. The thread that removes an id must answer the request.
#[derive(Clone, Default)]
struct UnansweredRequests(Arc<Mutex<HashSet<RequestId>>>);

impl UnansweredRequests {
    /// Locks the set of requests, also after a panic of another thread.
    fn lock(&self) -> MutexGuard<'_, HashSet<RequestId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AnswerThread {
    /// Starts the thread that answers requests.
    pub(super) fn spawn(services: &LspServerOptions, outgoing: MessageSender, client: ClientFeatures) -> Self {
        let (jobs, received) = mpsc::channel();
        let open = UnansweredRequests::default();
        let (mine, services, sending) = (open.clone(), services.clone(), outgoing.clone());
        std::thread::spawn(move || run_answer_loop(&received, &services, &sending, &mine, client));
        Self { jobs, open, outgoing }
    }

    /// Queues a request with a snapshot of the open documents.
    pub(super) fn queue_request(&self, request: Request, documents: &HashMap<String, Arc<OpenDocument>>) {
        self.open.lock().insert(request.id.clone());
        let _gone = self.jobs.send(AnswerJob::Answer(request, documents.clone()));
    }

    /// Answers an open request with a cancellation error.
    pub(super) fn answer_with_cancellation(&self, id: &RequestId) {
        if self.open.lock().remove(id) {
            let message = "the request was cancelled";
            self.outgoing
                .send_error_response(id.clone(), ErrorCode::RequestCanceled, message);
        }
    }

    /// Queues the removal of all cached files, because files on disk have changed.
    pub(super) fn queue_file_cache_clear(&self) {
        let _gone = self.jobs.send(AnswerJob::ForgetFiles);
    }
}

/// Answers the queued requests, except cancelled ones, until the channel closes.
fn run_answer_loop(
    jobs: &Receiver<AnswerJob>,
    services: &LspServerOptions,
    outgoing: &MessageSender,
    open: &UnansweredRequests,
    client: ClientFeatures,
) {
    let mut handler = RequestHandler::new(services, outgoing, client);
    for job in jobs {
        let (request, documents) = match job {
            AnswerJob::Answer(request, documents) => (request, documents),
            AnswerJob::ForgetFiles => {
                handler.drop_folder_checks();
                continue;
            }
        };
        let id = request.id.clone();
        if !open.lock().contains(&id) {
            continue;
        }
        let answer = catch_unwind(AssertUnwindSafe(|| handler.answer_request(request, &documents)));
        let answer = answer.unwrap_or_else(|_| {
            // The panic was told. What is remembered may be half of something.
            handler.drop_folder_checks();
            Err(LspRequestError(
                ErrorCode::InternalError,
                "internal error of the language server".to_owned(),
            ))
        });
        if open.lock().remove(&id) {
            match answer {
                Ok(result) => outgoing.send_response(id, result),
                Err(LspRequestError(code, why)) => outgoing.send_error_response(id, code, why),
            }
        }
    }
}
