//! Questions and requests for permission that wait for whoever holds the handle of a run.
//!
//! Invariant: a question that is dropped is taken back.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ensemble_core::operator::{Answer, Asked, Decision, Operator, PermissionRequest};
use ensemble_core::runner::BoxFuture;
use tokio::sync::{Notify, oneshot};

use crate::events::{Hub, RunEvent, RunEventKind};

/// What is asked and not answered. Clones share it.
#[derive(Clone)]
pub(crate) struct Desk(Arc<Inner>);

struct Inner {
    hub: Hub,
    next: AtomicU64,
    open: Mutex<Open>,
    /// Something was asked.
    asked: Notify,
}

#[derive(Default)]
struct Open {
    questions: Vec<Waiting<Asked, Answer>>,
    permissions: Vec<Waiting<PermissionRequest, Decision>>,
}

struct Waiting<Q, A> {
    number: u64,
    question: Q,
    answer: oneshot::Sender<A>,
}

/// Takes the question back when it is dropped.
struct Asking<'a> {
    desk: &'a Desk,
    number: u64,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let mut open = self.desk.lock();
        open.questions.retain(|waiting| waiting.number != self.number);
        open.permissions.retain(|waiting| waiting.number != self.number);
    }
}

impl Desk {
    pub(crate) fn new(hub: Hub) -> Self {
        Self(Arc::new(Inner {
            hub,
            next: AtomicU64::new(0),
            open: Mutex::default(),
            asked: Notify::new(),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn number(&self) -> Asking<'_> {
        Asking {
            desk: self,
            number: self.0.next.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// The open questions, the oldest first.
    pub(crate) fn questions(&self) -> Vec<Asked> {
        self.lock()
            .questions
            .iter()
            .map(|waiting| waiting.question.clone())
            .collect()
    }

    /// The open requests for permission, the oldest first.
    pub(crate) fn permissions(&self) -> Vec<PermissionRequest> {
        self.lock()
            .permissions
            .iter()
            .map(|waiting| waiting.question.clone())
            .collect()
    }

    /// All that waits, as events.
    pub(crate) fn open(&self) -> Vec<RunEvent> {
        let open = self.lock();
        let questions = open.questions.iter().map(|waiting| RunEvent {
            run: waiting.question.run.clone(),
            kind: RunEventKind::Asked(waiting.question.clone()),
        });
        let permissions = open.permissions.iter().map(|waiting| RunEvent {
            run: waiting.question.run.clone(),
            kind: RunEventKind::PermissionRequested(waiting.question.clone()),
        });
        questions.chain(permissions).collect()
    }

    /// Answers the agent's oldest question, and waits for it if there is none.
    pub(crate) async fn answer(&self, agent: &str, answer: Answer) {
        let waiting = self
            .take(|open| remove(&mut open.questions, |asked: &Asked| *asked.agent == *agent))
            .await;
        let _ = waiting.answer.send(answer);
    }

    /// Decides about the call with that id, and waits for it if there is none.
    pub(crate) async fn permit(&self, call: &str, decision: Decision) {
        let waiting = self
            .take(|open| remove(&mut open.permissions, |asked: &PermissionRequest| *asked.call == *call))
            .await;
        let _ = waiting.answer.send(decision);
    }

    async fn take<W>(&self, mut take: impl FnMut(&mut Open) -> Option<W>) -> W {
        loop {
            let asked = self.0.asked.notified();
            tokio::pin!(asked);
            // Registered before the desk is looked at, so no question is missed.
            asked.as_mut().enable();
            if let Some(waiting) = take(&mut self.lock()) {
                return waiting;
            }
            asked.await;
        }
    }
}

fn remove<Q, A>(waiting: &mut Vec<Waiting<Q, A>>, is_meant: impl Fn(&Q) -> bool) -> Option<Waiting<Q, A>> {
    let at = waiting.iter().position(|waiting| is_meant(&waiting.question))?;
    Some(waiting.remove(at))
}

impl Operator for Desk {
    fn ask(&self, asked: Asked) -> BoxFuture<'_, Answer> {
        Box::pin(async move {
            let asking = self.number();
            let (answer, answered) = oneshot::channel();
            let timeout = asked.timeout;
            self.lock().questions.push(Waiting {
                number: asking.number,
                question: asked.clone(),
                answer,
            });
            self.0.hub.send(&asked.run.clone(), || RunEventKind::Asked(asked));
            self.0.asked.notify_waiters();
            let answered = async { answered.await.unwrap_or(Answer::Nobody) };
            match timeout {
                None => answered.await,
                Some(timeout) => tokio::time::timeout(timeout, answered)
                    .await
                    .unwrap_or(Answer::TimedOut),
            }
        })
    }

    fn permit(&self, requested: PermissionRequest) -> BoxFuture<'_, Decision> {
        Box::pin(async move {
            let asking = self.number();
            let (answer, answered) = oneshot::channel();
            self.lock().permissions.push(Waiting {
                number: asking.number,
                question: requested.clone(),
                answer,
            });
            self.0
                .hub
                .send(&requested.run.clone(), || RunEventKind::PermissionRequested(requested));
            self.0.asked.notify_waiters();
            answered.await.unwrap_or(Decision::Cancelled)
        })
    }
}
