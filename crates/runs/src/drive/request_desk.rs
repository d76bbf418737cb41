//! Questions and permission requests that wait for the clients of a run.
//!
//! **Invariant:** a request is decided once, under the lock. A later answer to it is refused.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, Utc};
use ensemble_agents::agent::kinds::input::check_answer;
use ensemble_core::executor::WallClock;
use ensemble_core::operator::{
    Operator, OperatorAnswer, OperatorRequest, PermissionAnswer, PermissionRequest, QuestionRequest,
};
use ensemble_core::request::{
    AnswerAuthor, AnswerRefusal, PendingRequest, RequestAddress, RequestAnswer, RequestDigest,
};
use ensemble_core::runner::BoxFuture;
use tokio::sync::{oneshot, watch};

use crate::drive::events::{RunEvent, RunEventHub, RunEventKind};
use crate::drive::host::RunHost;

/// The open questions and permission requests of a run, and the answers to them. Clones share the requests.
#[derive(Clone)]
pub(crate) struct OpenRequestDesk(Arc<RequestDeskShared>);

/// The shared parts of a request desk.
struct RequestDeskShared {
    hub: RunEventHub,
    host: RunHost,
    state: Mutex<RequestDeskState>,
    /// Counts the changes of the state.
    changes: watch::Sender<u64>,
}

/// The open, expected and decided requests of a request desk.
#[derive(Default)]
struct RequestDeskState {
    next: u64,
    open: Vec<OpenDeskRequest>,
    /// Requests that are not asked now and are asked again: recorded ones of a resumed run, and postponed ones.
    expected_requests: Vec<PendingRequest>,
    decided_requests: Vec<DecidedDeskRequest>,
}

impl RequestDeskState {
    /// Returns the addresses of the open requests.
    fn list_open_addresses(&self) -> Vec<RequestAddress> {
        let open = self.open.iter();
        open.map(|open| open.request.pending_request().address.clone())
            .collect()
    }
}

/// A request that waits for an answer, with the channel of the answer.
struct OpenDeskRequest {
    number: u64,
    request: OperatorRequest,
    answer: oneshot::Sender<(RequestAnswer, AnswerAuthor)>,
}

impl OpenDeskRequest {
    fn is_question(&self) -> bool {
        matches!(self.request, OperatorRequest::Question(_))
    }

    /// Returns whether the run can ask the question again with the same effect.
    fn can_be_postponed(&self) -> bool {
        let OperatorRequest::Question(asked) = &self.request else {
            return false;
        };
        let asking = asked.request.address.segments().last();
        asked.timeout.is_none() && asking.is_some_and(|asking| asking.calls.is_empty())
    }
}

/// A request that was answered, with the answer, its author and its time.
struct DecidedDeskRequest {
    address: RequestAddress,
    digest: RequestDigest,
    answer: String,
    by: AnswerAuthor,
    at: DateTime<Utc>,
}

/// An answer of a client to a request that was shown to the client.
#[derive(Debug, Clone)]
pub(crate) struct ClientAnswer {
    /// The address of the request that was shown.
    pub(crate) address: RequestAddress,
    /// The digest of what was shown.
    pub(crate) digest: RequestDigest,
    /// The answer.
    pub(crate) answer: RequestAnswer,
    /// The author of the answer.
    pub(crate) by: AnswerAuthor,
}

/// The result of an answer that was not refused: delivered, or too early.
enum AnswerDelivery {
    Delivered,
    /// The run was resumed and has not asked again yet.
    NotAskedYet,
}

/// A guard that withdraws the request when the guard is dropped.
struct WithdrawRequestGuard<'a> {
    desk: &'a OpenRequestDesk,
    number: u64,
}

impl Drop for WithdrawRequestGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.desk.lock_state();
        let before = state.open.len();
        state.open.retain(|open| open.number != self.number);
        let is_withdrawn = state.open.len() < before;
        drop(state);
        if is_withdrawn {
            self.desk.notify_subscribers();
        }
    }
}

impl OpenRequestDesk {
    /// Creates a desk without requests, which sends new requests to this hub.
    pub(crate) fn new(hub: RunEventHub, host: RunHost) -> Self {
        Self(Arc::new(RequestDeskShared {
            hub,
            host,
            state: Mutex::default(),
            changes: watch::Sender::new(0),
        }))
    }

    /// Locks the state, also after a panic of another thread.
    fn lock_state(&self) -> MutexGuard<'_, RequestDeskState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notifies the subscribers that the requests have changed.
    fn notify_subscribers(&self) {
        self.0.changes.send_modify(|changes| *changes += 1);
    }

    /// Sets the recorded requests that a resumed run is expected to ask again.
    pub(crate) fn set_expected_requests(&self, requests: Vec<PendingRequest>) {
        self.lock_state().expected_requests = requests;
    }

    /// Returns whether a resumed run is expected to ask the request with this digest again.
    pub(crate) fn is_request_expected(&self, digest: &RequestDigest) -> bool {
        let state = self.lock_state();
        state
            .expected_requests
            .iter()
            .any(|expected| expected.digest == *digest)
    }

    /// Returns a receiver that changes when a request is asked, decided or withdrawn.
    pub(crate) fn subscribe_changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    /// Returns the open requests, in the order of the file.
    pub(crate) fn sorted_open_requests(&self) -> Vec<OperatorRequest> {
        let state = self.lock_state();
        let mut open: Vec<OperatorRequest> = state.open.iter().map(|open| open.request.clone()).collect();
        open.sort_by(|one, other| one.pending_request().compare_positions(other.pending_request()));
        open
    }

    /// Postpones all open questions, so that the run records them and waits. Returns the number of the questions: 0 if one
    /// of them cannot be postponed, because it has a time limit or the call of a server's tool would be repeated.
    pub(crate) fn postpone_questions(&self) -> usize {
        let mut state = self.lock_state();
        let count = state.open.iter().filter(|open| open.is_question()).count();
        if state
            .open
            .iter()
            .any(|open| open.is_question() && !open.can_be_postponed())
        {
            return 0;
        }
        // The channel of a question that is removed is closed, which postpones the question.
        let (questions, open) = std::mem::take(&mut state.open)
            .into_iter()
            .partition(OpenDeskRequest::is_question);
        state.open = open;
        let questions: Vec<OpenDeskRequest> = questions;
        let asked_later = questions.iter().map(|open| open.request.pending_request().clone());
        state.expected_requests.extend(asked_later);
        drop(state);
        if count > 0 {
            self.notify_subscribers();
        }
        count
    }

    /// Returns the open requests as events, in the order of the file.
    pub(crate) fn open_request_events(&self) -> Vec<RunEvent> {
        self.sorted_open_requests()
            .into_iter()
            .map(request_to_run_event)
            .collect()
    }

    /// Answers a request. If a resumed run has not asked the request again yet, waits until the run asks.
    ///
    /// # Errors
    ///
    /// The request is decided, differs from the one that was shown, or does not accept the answer.
    pub(crate) async fn answer_request_when_asked(&self, answer: ClientAnswer) -> Result<(), AnswerRefusal> {
        let mut changes = self.subscribe_changes();
        loop {
            changes.mark_unchanged();
            match self.try_deliver_answer(&answer)? {
                AnswerDelivery::Delivered => return Ok(()),
                AnswerDelivery::NotAskedYet => {
                    // The sender is in this desk.
                    let _ = changes.changed().await;
                }
            }
        }
    }

    /// Delivers the answer to an open request and records the decision. Refuses answers to decided, unknown or different requests.
    fn try_deliver_answer(&self, given: &ClientAnswer) -> Result<AnswerDelivery, AnswerRefusal> {
        let mut state = self.lock_state();
        let is_same =
            |address: &RequestAddress, digest: &RequestDigest| *address == given.address && *digest == given.digest;
        let at = state.open.iter().position(|open| {
            let request = open.request.pending_request();
            is_same(&request.address, &request.digest)
        });
        if let Some(at) = at {
            let request = &state.open[at].request;
            if !request.is_empty_answer_for_default(&given.answer) {
                check_answer(request.pending_request(), &given.answer, true)?;
            }
            let open = state.open.remove(at);
            if open.answer.send((given.answer.clone(), given.by.clone())).is_ok() {
                let decided = DecidedDeskRequest {
                    address: given.address.clone(),
                    digest: given.digest.clone(),
                    answer: given.answer.as_text().to_owned(),
                    by: given.by.clone(),
                    at: self.0.host.now(),
                };
                state.decided_requests.push(decided);
                drop(state);
                self.notify_subscribers();
                return Ok(AnswerDelivery::Delivered);
            }
        }
        let exact = state
            .decided_requests
            .iter()
            .find(|decided| is_same(&decided.address, &decided.digest));
        if exact.is_none() {
            let has_address = |open: &&OpenDeskRequest| open.request.pending_request().address == given.address;
            if let Some(open) = state.open.iter().find(has_address) {
                return Err(AnswerRefusal::for_changed_request(open.request.pending_request()));
            }
            if state
                .expected_requests
                .iter()
                .any(|expected| is_same(&expected.address, &expected.digest))
            {
                return Ok(AnswerDelivery::NotAskedYet);
            }
        }
        let latest = || {
            state
                .decided_requests
                .iter()
                .rfind(|decided| decided.address == given.address)
        };
        match exact.or_else(latest) {
            Some(decided) => Err(AnswerRefusal::Decided {
                address: decided.address.clone(),
                answer: decided.answer.clone(),
                by: decided.by.clone(),
                at: decided.at,
                pending: state.list_open_addresses(),
            }),
            None => Err(AnswerRefusal::NotPending {
                given: given.address.to_string(),
                pending: state.list_open_addresses(),
            }),
        }
    }

    /// Opens a request, sends an event, and waits for the answer. Withdraws the request if the future is dropped. Returns `None` if the
    /// request is postponed.
    async fn open_request_and_wait(&self, request: OperatorRequest) -> Option<(RequestAnswer, AnswerAuthor)> {
        let (answer, answered) = oneshot::channel();
        let number = {
            let mut state = self.lock_state();
            let number = state.next;
            state.next += 1;
            let digest = &request.pending_request().digest;
            state.expected_requests.retain(|expected| expected.digest != *digest);
            state.open.push(OpenDeskRequest {
                number,
                request: request.clone(),
                answer,
            });
            number
        };
        let _guard = WithdrawRequestGuard { desk: self, number };
        let run = request.run_id().clone();
        self.0.hub.send_event(&run, || request_to_run_event(request).kind);
        self.notify_subscribers();
        answered.await.ok()
    }
}

/// Converts a request to an event of its run.
fn request_to_run_event(request: OperatorRequest) -> RunEvent {
    RunEvent {
        run: request.run_id().clone(),
        kind: match request {
            OperatorRequest::Question(question) => RunEventKind::QuestionAsked(question),
            OperatorRequest::Permission(permission) => RunEventKind::PermissionRequested(permission),
        },
    }
}

impl Operator for OpenRequestDesk {
    fn ask_question(&self, asked: QuestionRequest) -> BoxFuture<'_, OperatorAnswer> {
        Box::pin(async move {
            let timeout = asked.timeout;
            let answered = self.open_request_and_wait(OperatorRequest::Question(asked));
            let answered = match timeout {
                None => answered.await,
                Some(timeout) => match tokio::time::timeout(timeout, answered).await {
                    Ok(answered) => answered,
                    Err(_) => return OperatorAnswer::TimedOut,
                },
            };
            match answered {
                Some((RequestAnswer::Text(text), by)) => OperatorAnswer::Text { text, by },
                Some((RequestAnswer::Permission(_), _)) => OperatorAnswer::Nobody,
                None => OperatorAnswer::Postponed,
            }
        })
    }

    fn request_permission(&self, requested: PermissionRequest) -> BoxFuture<'_, PermissionAnswer> {
        Box::pin(async move {
            match self.open_request_and_wait(OperatorRequest::Permission(requested)).await {
                Some((RequestAnswer::Permission(decision), by)) => PermissionAnswer::Decided { decision, by },
                Some((RequestAnswer::Text(_), _)) | None => PermissionAnswer::Cancelled,
            }
        })
    }
}
