//! A prompt: the run begins or goes on with it, and the client is told until the run ends or asks for a text.
//!
//! Invariant: a cancelled prompt is answered at once, and as cancelled.

use std::rc::Rc;

use ensemble_core::conversation::{CompletionReason, Event, RunEnded};
use ensemble_core::operator::{OperatorRequest, PermissionRequest, QuestionRequest};
use ensemble_core::request::{PendingRequest, RequestAnswer};
use ensemble_core::store::RunId;
use ensemble_history::{RunState, RunSummary, asked_text};
use ensemble_language::data::{Context, Failure, FailureKind};
use ensemble_runs::{RunEvent, RunEventKind};
use serde_json::json;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinSet, spawn_local};

use crate::protocol;
use crate::session::Session;
use crate::updates::{Story, Update};
use crate::wire::{Refusal, Wire};

/// The prompt that resumes a run which was cut short, without a message.
const RESUME: &str = "/resume";
/// Who cancels runs.
const CLIENT: &str = "the client of the Agent Client Protocol";

/// A prompt of a session.
pub(crate) struct Prompt {
    pub(crate) session: Rc<Session>,
    pub(crate) wire: Rc<Wire>,
    pub(crate) shows_forms: bool,
    pub(crate) cancelled: watch::Receiver<bool>,
}

/// The reason why following a run ended.
enum End {
    Ended(Box<RunEnded>, bool),
    /// A question waits for the next prompt.
    Asks,
}

impl Prompt {
    /// Answers the prompt with the reason why it stopped.
    pub(crate) async fn perform(mut self, text: String) -> Result<&'static str, Refusal> {
        if !self.session.has_told_unused.replace(true) {
            let unused = self.session.unused_servers();
            if !unused.is_empty() {
                let names = unused.join(", ");
                let note = format!(
                    "No tool of the ensemble is one of these MCP servers that the client names: {names}. A tool `{}` with `mcp: client` uses the first.\n\n",
                    unused[0]
                );
                let note = self.session.story.borrow_mut().note(note);
                self.tell(note).await;
            }
        }
        let result = self.legs(text).await;
        if *self.cancelled.borrow() {
            return Ok("cancelled");
        }
        match result? {
            End::Asks => Ok("end_turn"),
            End::Ended(ended, is_refusal) => stop_reason(&self.session.id, &ended, is_refusal),
        }
    }

    async fn legs(&mut self, text: String) -> Result<End, Refusal> {
        let session = self.session.clone();
        let (service, id) = (&session.service, &session.id);
        if !session.has_begun.get() {
            let mut options = session.options().input(text);
            options.id = Some(id.clone());
            service.start(session.file(), options).await.map_err(Refusal::failed)?;
            session.has_begun.set(true);
            return self.follow().await;
        }
        // The prompt is the answer to the question that was shown as text.
        let shown = session.shown.borrow_mut().take();
        if let Some(shown) = shown {
            answer_shown(&session, &shown, RequestAnswer::Text(text)).await?;
            return self.follow().await;
        }
        let mut summary = self.summary().await?;
        // While a run of this process is being closed, it looks as if another process had it.
        if summary.process.is_some() && summary.questions.is_empty() {
            service.ended(id).await;
            summary = self.summary().await?;
        }
        // The client has read the question with the record of the session.
        let question = summary.questions.iter().find(|request| !request.is_permission());
        if let Some(question) = question {
            answer_shown(&session, question, RequestAnswer::Text(text)).await?;
            return self.follow().await;
        }
        let is_cut = match summary.state {
            RunState::Interrupted | RunState::Waiting => true,
            RunState::Ended(outcome) => text == RESUME && outcome.is_resumable(),
            RunState::Running => false,
        };
        if is_cut {
            service.resume(id, session.options()).await.map_err(Refusal::failed)?;
            let end = self.follow().await?;
            let goes_on = matches!(&end, End::Ended(ended, _) if ended.completion_reason.is_continuable());
            if text == RESUME || !goes_on || *self.cancelled.borrow() {
                return Ok(end);
            }
        }
        let went_on = service
            .continue_with(id, text, Context::default(), session.options())
            .await;
        went_on.map_err(Refusal::failed)?;
        self.follow().await
    }

    async fn summary(&self) -> Result<RunSummary, Refusal> {
        self.session
            .service
            .summary(&self.session.id)
            .await
            .map_err(Refusal::failed)
    }

    /// Tells what happens until the conversation ends.
    async fn follow(&mut self) -> Result<End, Refusal> {
        let session = self.session.clone();
        let follow = session.service.follow(&session.id, session.next.get()).await;
        let mut follow = follow.map_err(Refusal::failed)?;
        let (sender, mut events) = mpsc::channel(64);
        // What is being read is not lost when something else happens.
        spawn_local(async move {
            while let Some(event) = follow.next().await.transpose() {
                let is_error = event.is_err();
                if sender.send(event).await.is_err() || is_error {
                    return;
                }
            }
        });
        let mut asking = JoinSet::new();
        let mut has_cancelled = false;
        let mut waits_for_text = false;
        let mut is_refusal = false;
        loop {
            let event = tokio::select! {
                biased;
                _ = self.cancelled.wait_for(|cancelled| *cancelled), if !has_cancelled => {
                    has_cancelled = true;
                    asking.abort_all();
                    let _is_over = session.service.cancel(&session.id, CLIENT).await;
                    continue;
                }
                event = events.recv() => event,
            };
            let Some(event) = event else {
                return Err(Refusal::failed(format!(
                    "the run {} stopped without an end",
                    session.id
                )));
            };
            let RunEvent { run, kind } = event.map_err(Refusal::failed)?;
            match kind {
                RunEventKind::Committed(record) => {
                    let updates = session.story.borrow_mut().record(&run, &record, false);
                    self.tell_all(updates).await;
                    if run == session.id {
                        session.next.set(record.seq + 1);
                        if let Event::ExecutionFinished(finished) = &record.event {
                            let has_refused = |failure: &Failure| failure.kind == FailureKind::Refusal;
                            // A call without a model, which uses no tokens, can be refused, too: that is an error.
                            is_refusal = finished.failure().is_some_and(has_refused) && finished.usage.is_some();
                        }
                        if let Event::RunEnded(ended) = &record.event {
                            return Ok(End::Ended(Box::new(ended.clone()), is_refusal));
                        }
                    }
                }
                RunEventKind::Live(live) => {
                    let update = session.story.borrow_mut().live(&run, live);
                    self.tell_all(update).await;
                }
                RunEventKind::QuestionAsked(asked) if self.shows_forms || has_choices(&asked) => {
                    asking.spawn_local(ask(self.session.clone(), self.wire.clone(), self.shows_forms, asked));
                }
                RunEventKind::QuestionAsked(_) => waits_for_text = true,
                RunEventKind::PermissionRequested(wanted) => {
                    asking.spawn_local(permit(self.session.clone(), self.wire.clone(), wanted));
                }
            }
            if !waits_for_text || has_cancelled {
                continue;
            }
            let questions: Vec<QuestionRequest> = open_questions(&session);
            if session.story.borrow().running() <= questions.len() {
                // One question is shown as text at a time, so that the next prompt is its answer.
                if let Some(first) = questions.iter().find(|asked| !self.shows_forms && !has_choices(asked)) {
                    let request = &first.request;
                    let card = Story::card_of(&first.run, &request.agent, request.execution);
                    self.tell(Story::question(&card, asked_text(first))).await;
                    *session.shown.borrow_mut() = Some(request.clone());
                    return Ok(End::Asks);
                }
            }
        }
    }

    async fn tell(&self, update: Update) {
        tell(&self.wire, &self.session.id, update).await;
    }

    async fn tell_all(&self, updates: impl IntoIterator<Item = Update>) {
        for update in updates {
            self.tell(update).await;
        }
    }
}

/// Tells an update of a session.
pub(crate) async fn tell(wire: &Wire, session: &RunId, update: Update) {
    wire.tell("session/update", protocol::update(session.as_str(), update))
        .await;
}

/// The open questions of the session, in the order of the file.
fn open_questions(session: &Session) -> Vec<QuestionRequest> {
    let open = session.service.open_requests(&session.id).into_iter();
    open.filter_map(|open| match open {
        OperatorRequest::Question(question) => Some(question),
        OperatorRequest::Permission(_) => None,
    })
    .collect()
}

fn has_choices(asked: &QuestionRequest) -> bool {
    !asked.request.question.choices.is_empty()
}

/// Answers a request that the client has shown.
async fn answer_shown(session: &Session, request: &PendingRequest, answer: RequestAnswer) -> Result<(), Refusal> {
    let shown = (&request.address, &request.digest);
    let answered = session
        .service
        .answer(&session.id, shown, answer, session.answerer(), session.options());
    answered.await.map_err(Refusal::failed)
}

/// Tells the client why its answer was not used.
async fn tell_refusal(session: &Session, wire: &Wire, answered: Result<(), Refusal>) {
    if let Err(refusal) = answered {
        let note = session.story.borrow_mut().note(format!("{}\n\n", refusal.message));
        tell(wire, &session.id, note).await;
    }
}

/// Asks a question by a form, or by options. Without an answer the question stays open.
async fn ask(session: Rc<Session>, wire: Rc<Wire>, shows_forms: bool, asked: QuestionRequest) {
    let id = session.id.as_str();
    let answer = if shows_forms {
        let answer = wire.ask("elicitation/create", protocol::form(id, &asked)).await;
        answer.and_then(|answer| protocol::filled_in(&answer))
    } else {
        let card = Story::card_of(&asked.run, &asked.request.agent, asked.request.execution);
        let params = protocol::question_with_choices(id, &card, &asked);
        let answer = wire.ask("session/request_permission", params).await;
        let at = answer.and_then(|answer| protocol::selected(&answer)?.parse::<usize>().ok());
        at.and_then(|at| asked.request.question.choices.get(at).cloned())
    };
    match answer {
        Some(answer) => {
            let answered = answer_shown(&session, &asked.request, RequestAnswer::Text(answer)).await;
            tell_refusal(&session, &wire, answered).await;
        }
        // The person closed the question: the run stops, and the next prompt asks again.
        None => {
            let _is_over = session.service.cancel(&session.id, CLIENT).await;
        }
    }
}

/// Asks whether a tool may be called.
async fn permit(session: Rc<Session>, wire: Rc<Wire>, wanted: PermissionRequest) {
    let card = Story::tool_card(&wanted.run, &wanted.call);
    let params = protocol::permission(session.id.as_str(), &card, &wanted);
    let answer = wire.ask("session/request_permission", params).await.unwrap_or_default();
    match protocol::decision(&answer) {
        Some(decision) => {
            let answered = answer_shown(&session, &wanted.request, RequestAnswer::Permission(decision)).await;
            tell_refusal(&session, &wire, answered).await;
        }
        // The person closed the question: the run stops, and the next prompt asks again.
        None => {
            let _is_over = session.service.cancel(&session.id, CLIENT).await;
        }
    }
}

/// Returns the stop reason of a conversation that has ended. Failures are errors with their position.
fn stop_reason(run: &RunId, ended: &RunEnded, is_refusal: bool) -> Result<&'static str, Refusal> {
    match ended.completion_reason {
        CompletionReason::Completed | CompletionReason::WaitingForInput => Ok("end_turn"),
        CompletionReason::TokenBudget => Ok("max_tokens"),
        CompletionReason::MaxAgentExecutions | CompletionReason::MaxTotalTurns => Ok("max_turn_requests"),
        CompletionReason::Cancelled => Ok("cancelled"),
        CompletionReason::AgentFailed if is_refusal => Ok("refusal"),
        reason => {
            let detail = ended.detail.as_deref().unwrap_or_default();
            let mut refusal = Refusal::failed(format!("{reason}: {detail}"));
            refusal.data = Some(
                json!({"run": run.as_str(), "outcome": reason.as_str(), "failed": ended.failed, "condition": ended.condition}),
            );
            Err(refusal)
        }
    }
}
