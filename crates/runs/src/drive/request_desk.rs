//! Questions and permission requests that wait for the clients of a run.
//!
//! **Invariant:** a request is decided once, under the lock. A later answer to it is refused.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, Utc};
use ensemble_agents::agent::kinds::input::check_answer;
use ensemble_core::executor::Clock;
use ensemble_core::operator::{
    Answer, Operator, OperatorRequest, PermissionAnswer, PermissionRequest, QuestionRequest,
};
use ensemble_core::request::{AnswerRefusal, Answerer, PendingRequest, RequestAddress, RequestAnswer, RequestDigest};
use ensemble_core::runner::BoxFuture;
use tokio::sync::{oneshot, watch};

use crate::drive::events::{Hub, RunEvent, RunEventKind};
use crate::drive::host::Host;

/// The requests of a run that wait for an answer. Clones share them.
#[derive(Clone)]
pub(crate) struct Desk(Arc<Inner>);

struct Inner {
    hub: Hub,
    host: Host,
    state: Mutex<DeskState>,
    /// Counts the changes of the state.
    changes: watch::Sender<u64>,
}

#[derive(Default)]
struct DeskState {
    next: u64,
    open: Vec<OpenRequest>,
    /// Requests of a resumed run that were recorded and are not asked again yet.
    expected: Vec<PendingRequest>,
    decided: Vec<DecidedRequest>,
}

struct OpenRequest {
    number: u64,
    request: OperatorRequest,
    answer: oneshot::Sender<(RequestAnswer, Answerer)>,
}

struct DecidedRequest {
    address: RequestAddress,
    digest: RequestDigest,
    answer: String,
    by: Answerer,
    at: DateTime<Utc>,
}

/// An answer of a client.
#[derive(Debug, Clone)]
pub(crate) struct ClientAnswer {
    /// The address of the request that was shown.
    pub(crate) address: RequestAddress,
    /// The digest of what was shown.
    pub(crate) digest: RequestDigest,
    /// The answer.
    pub(crate) answer: RequestAnswer,
    /// Who answers.
    pub(crate) by: Answerer,
}

/// The result of an answer that was not refused.
enum Accepted {
    Used,
    /// The run was resumed and has not asked again yet.
    NotAskedYet,
}

/// Withdraws the request when it is dropped.
struct WithdrawGuard<'a> {
    desk: &'a Desk,
    number: u64,
}

impl Drop for WithdrawGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.desk.lock();
        let before = state.open.len();
        state.open.retain(|open| open.number != self.number);
        let is_withdrawn = state.open.len() < before;
        drop(state);
        if is_withdrawn {
            self.desk.notify();
        }
    }
}

impl Desk {
    pub(crate) fn new(hub: Hub, host: Host) -> Self {
        Self(Arc::new(Inner {
            hub,
            host,
            state: Mutex::default(),
            changes: watch::Sender::new(0),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, DeskState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn notify(&self) {
        self.0.changes.send_modify(|changes| *changes += 1);
    }

    /// Sets the requests that the run had recorded before it was resumed, and asks again.
    pub(crate) fn expect(&self, requests: Vec<PendingRequest>) {
        self.lock().expected = requests;
    }

    /// Changes when a request is asked, decided or withdrawn.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    /// The open requests, in the order of the file.
    pub(crate) fn open_requests(&self) -> Vec<OperatorRequest> {
        let state = self.lock();
        let mut open: Vec<OperatorRequest> = state.open.iter().map(|open| open.request.clone()).collect();
        open.sort_by(|one, other| one.request().compare_positions(other.request()));
        open
    }

    /// The open requests, as events.
    pub(crate) fn open_events(&self) -> Vec<RunEvent> {
        self.open_requests().into_iter().map(event).collect()
    }

    /// Answers a request. If a resumed run has not asked again yet, waits until it asks.
    ///
    /// # Errors
    /// The request is decided, is not the one that was shown, or does not take the answer.
    pub(crate) async fn answer(&self, answer: ClientAnswer) -> Result<(), AnswerRefusal> {
        let mut changes = self.changes();
        loop {
            changes.mark_unchanged();
            match self.try_answer(&answer)? {
                Accepted::Used => return Ok(()),
                Accepted::NotAskedYet => {
                    // The sender is in this desk.
                    let _ = changes.changed().await;
                }
            }
        }
    }

    fn try_answer(&self, given: &ClientAnswer) -> Result<Accepted, AnswerRefusal> {
        let mut state = self.lock();
        let is_same =
            |address: &RequestAddress, digest: &RequestDigest| *address == given.address && *digest == given.digest;
        let at = state.open.iter().position(|open| {
            let request = open.request.request();
            is_same(&request.address, &request.digest)
        });
        if let Some(at) = at {
            let request = &state.open[at].request;
            if !request.is_default(&given.answer) {
                check_answer(request.request(), &given.answer, true)?;
            }
            let open = state.open.remove(at);
            if open.answer.send((given.answer.clone(), given.by.clone())).is_ok() {
                let decided = DecidedRequest {
                    address: given.address.clone(),
                    digest: given.digest.clone(),
                    answer: given.answer.words().to_owned(),
                    by: given.by.clone(),
                    at: self.0.host.now(),
                };
                state.decided.push(decided);
                drop(state);
                self.notify();
                return Ok(Accepted::Used);
            }
        }
        let exact = state
            .decided
            .iter()
            .find(|decided| is_same(&decided.address, &decided.digest));
        if exact.is_none() {
            let has_address = |open: &OpenRequest| open.request.request().address == given.address;
            if state.open.iter().any(has_address) {
                return Err(AnswerRefusal::Changed {
                    address: given.address.clone(),
                });
            }
            if state
                .expected
                .iter()
                .any(|expected| is_same(&expected.address, &expected.digest))
            {
                return Ok(Accepted::NotAskedYet);
            }
        }
        let latest = || state.decided.iter().rfind(|decided| decided.address == given.address);
        match exact.or_else(latest) {
            Some(decided) => Err(AnswerRefusal::Decided {
                address: decided.address.clone(),
                answer: decided.answer.clone(),
                by: decided.by.clone(),
                at: decided.at,
            }),
            None => Err(AnswerRefusal::NotPending {
                given: given.address.to_string(),
                pending: state
                    .open
                    .iter()
                    .map(|open| open.request.request().address.clone())
                    .collect(),
            }),
        }
    }

    /// Adds a request, and waits for its answer. Returns `None` if the desk is gone.
    async fn wait_for_answer(&self, request: OperatorRequest) -> Option<(RequestAnswer, Answerer)> {
        let (answer, answered) = oneshot::channel();
        let number = {
            let mut state = self.lock();
            let number = state.next;
            state.next += 1;
            let digest = &request.request().digest;
            state.expected.retain(|expected| expected.digest != *digest);
            state.open.push(OpenRequest {
                number,
                request: request.clone(),
                answer,
            });
            number
        };
        let _guard = WithdrawGuard { desk: self, number };
        let run = request.run().clone();
        self.0.hub.send(&run, || event(request).kind);
        self.notify();
        answered.await.ok()
    }
}

fn event(request: OperatorRequest) -> RunEvent {
    RunEvent {
        run: request.run().clone(),
        kind: match request {
            OperatorRequest::Question(question) => RunEventKind::QuestionAsked(question),
            OperatorRequest::Permission(permission) => RunEventKind::PermissionRequested(permission),
        },
    }
}

impl Operator for Desk {
    fn ask(&self, asked: QuestionRequest) -> BoxFuture<'_, Answer> {
        Box::pin(async move {
            let timeout = asked.timeout;
            let answered = self.wait_for_answer(OperatorRequest::Question(asked));
            let answered = match timeout {
                None => answered.await,
                Some(timeout) => match tokio::time::timeout(timeout, answered).await {
                    Ok(answered) => answered,
                    Err(_) => return Answer::TimedOut,
                },
            };
            match answered {
                Some((RequestAnswer::Text(text), by)) => Answer::Text { text, by },
                Some((RequestAnswer::Permission(_), _)) | None => Answer::Nobody,
            }
        })
    }

    fn permit(&self, requested: PermissionRequest) -> BoxFuture<'_, PermissionAnswer> {
        Box::pin(async move {
            match self.wait_for_answer(OperatorRequest::Permission(requested)).await {
                Some((RequestAnswer::Permission(decision), by)) => PermissionAnswer::Decided { decision, by },
                Some((RequestAnswer::Text(_), _)) | None => PermissionAnswer::Cancelled,
            }
        })
    }
}
