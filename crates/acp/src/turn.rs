//! The handling of a prompt: starts or continues the run, and sends updates until the run ends or asks a question as text.
//!
//! Invariant: a cancelled prompt is answered immediately, with the stop reason `cancelled`.

use std::rc::Rc;

use ensemble_core::conversation::{CompletionReason, Event, Record, RunEnded};
use ensemble_core::operator::{OperatorRequest, PermissionRequest, QuestionRequest};
use ensemble_core::request::{PendingRequest, RequestAnswer};
use ensemble_core::store::{LogReadError, RunId};
use ensemble_history::{RunState, RunSummary};
use ensemble_language::data::RunContext;
use ensemble_runs::{RunEvent, RunEventKind, RunEventStream};
use serde_json::json;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinSet, spawn_local};

use crate::protocol;
use crate::session::AcpSession;
use crate::session_update::{SessionUpdate, UpdateSource};
use crate::stop_reasons::StopReasons;
use crate::updates::SessionUpdateTracker;
use crate::wire::{ClientWire, RpcError};

/// The prompt that resumes an interrupted run without a message.
const RESUME_PROMPT: &str = "/resume";
/// The name in the journal of the client that cancels a run.
const CANCELLING_CLIENT: &str = "the client of the Agent Client Protocol";

/// The note for a client whose prompt comes before the question was shown.
const UNSHOWN_NOTE: &str = "The run waits for an answer to a question that was not shown here, so your message was not used. The question:\n\n";
/// The note for a client whose message waits until a question is answered.
const WAITING_NOTE: &str = "\n\nThe run asks this question first. Your message follows when the question is answered.";

/// A prompt that is being handled, with its session, its client and its cancellation.
pub(crate) struct SessionPrompt {
    pub(crate) session: Rc<AcpSession>,
    pub(crate) wire: Rc<ClientWire>,
    pub(crate) shows_forms: bool,
    pub(crate) cancelled: watch::Receiver<bool>,
}

/// The reason why following a run ended.
enum FollowedRunEnd {
    /// The run ended, with the stop reason of the prompt if the end is no error.
    Ended(Box<RunEnded>, Option<&'static str>),
    /// A question waits for the next prompt.
    AwaitsAnswer,
}

impl SessionPrompt {
    /// Handles the prompt: starts, answers, resumes or continues the run, and sends updates until the run stops. Returns the stop reason of
    /// the protocol.
    pub(crate) async fn perform_prompt(mut self, text: String) -> Result<&'static str, RpcError> {
        let first_message = self.session.unused_servers_update();
        self.send_updates(first_message).await;
        let result = self.run_until_stop(text).await;
        if *self.cancelled.borrow() {
            return Ok("cancelled");
        }
        match result? {
            FollowedRunEnd::AwaitsAnswer => Ok("end_turn"),
            FollowedRunEnd::Ended(ended, stop) => stop.ok_or_else(|| failed_run_error(&self.session.id, &ended)),
        }
    }

    /// Decides what the prompt means: the input of a new run, the answer to the shown question, a resume, or a further message. Then
    /// follows the run until it stops.
    async fn run_until_stop(&mut self, text: String) -> Result<FollowedRunEnd, RpcError> {
        let session = self.session.clone();
        let (service, id) = (&session.service, &session.id);
        if !session.has_begun.get() {
            let mut options = session.build_run_options().with_input(text);
            options.id = Some(id.clone());
            service
                .start_run(session.ensemble_ref(), options)
                .await
                .map_err(RpcError::internal_error)?;
            session.has_begun.set(true);
            return self.follow_and_ask().await;
        }
        self.catch_up().await?;
        // The prompt is the answer to the question that was shown as text.
        let mut shown_question = None;
        if text != RESUME_PROMPT {
            shown_question = session.shown_question.take();
        }
        if let Some(shown_question) = shown_question {
            self.answer_shown_question(shown_question, text).await?;
            return self.follow_with_waiting_messages().await;
        }
        self.continue_with_text(text).await
    }

    /// Answers the question that was shown as text. A question that does not take the answer stays shown.
    async fn answer_shown_question(&self, shown: PendingRequest, text: String) -> Result<(), RpcError> {
        let session = &self.session;
        let answered = answer_request(session, &shown, RequestAnswer::Text(text)).await;
        if answered.is_err() {
            let pending = session.service.is_request_pending(&session.id, &shown.digest).await;
            if pending.unwrap_or(false) {
                *session.shown_question.borrow_mut() = Some(shown);
            }
        }
        answered
    }

    /// Resumes the run if it was cut short or waits, and then continues it with the text.
    async fn continue_with_text(&mut self, text: String) -> Result<FollowedRunEnd, RpcError> {
        let session = self.session.clone();
        let (service, id) = (&session.service, &session.id);
        let mut summary = self.load_run_summary().await?;
        // While a run of this process is being closed, it looks as if another process had it.
        if summary.process.is_some() && summary.questions.is_empty() && service.live_open_requests(id).is_empty() {
            tokio::select! {
                () = service.wait_until_closed(id) => {}
                _ = self.cancelled.wait_for(|cancelled| *cancelled) => {
                    let _is_over = service.cancel_run(id, CANCELLING_CLIENT).await;
                    return Ok(FollowedRunEnd::AwaitsAnswer);
                }
            }
            summary = self.load_run_summary().await?;
        }
        // A question that this client was not shown is not answered by the prompt: the run asks it again.
        let is_unshown = text != RESUME_PROMPT && summary.questions.iter().any(|request| !request.is_permission());
        if is_unshown {
            let note = session
                .story
                .borrow_mut()
                .unrecorded_note_update(UNSHOWN_NOTE.to_owned());
            self.send_update(note).await;
        }
        let is_cut = match summary.state {
            RunState::Interrupted | RunState::Waiting => true,
            RunState::Ended(outcome) => text == RESUME_PROMPT && outcome.is_resumable(),
            RunState::Running => false,
        };
        if is_cut {
            if !service.is_driven_here(id) {
                service
                    .resume_run(id, session.build_run_options())
                    .await
                    .map_err(RpcError::internal_error)?;
            }
            let end = self.follow_and_ask().await?;
            if text == RESUME_PROMPT || is_unshown || *self.cancelled.borrow() {
                return Ok(end);
            }
            if !end.is_continuable() {
                session.waiting_messages.borrow_mut().push_back(text);
                let note = session
                    .story
                    .borrow_mut()
                    .unrecorded_note_update(WAITING_NOTE.to_owned());
                self.send_update(note).await;
                return Ok(end);
            }
        }
        // An earlier message waits if its question was answered elsewhere.
        session.waiting_messages.borrow_mut().push_back(text);
        let first_message = session.waiting_messages.borrow_mut().pop_front();
        let end = self.continue_with_message(first_message.unwrap_or_default()).await?;
        self.send_waiting_messages(end).await
    }

    /// Reports the records that were committed between two prompts, also by another process. The client has not seen their
    /// prompts and answers.
    async fn catch_up(&self) -> Result<(), RpcError> {
        let session = &self.session;
        let events = session.service.read_records_with_nested(&session.id).await;
        for RunEvent { run, kind } in events.map_err(RpcError::internal_error)? {
            if let RunEventKind::Committed(record) = kind {
                let updates = session.story.borrow_mut().updates_for_record(&run, &record);
                self.send_updates(updates).await;
            }
        }
        Ok(())
    }

    /// Continues the run with a message of the user.
    async fn continue_with_message(&mut self, text: String) -> Result<FollowedRunEnd, RpcError> {
        let session = self.session.clone();
        // The record of its end comes before its lease is given back.
        session.service.wait_until_closed(&session.id).await;
        // The run is followed from here, so the end of the earlier message is reported first.
        self.catch_up().await?;
        let went_on = session
            .service
            .continue_with_message(&session.id, text, RunContext::default(), session.build_run_options())
            .await;
        went_on.map_err(RpcError::internal_error)?;
        self.follow_and_ask().await
    }

    /// Follows the run, and then continues it with the messages that wait for its end.
    async fn follow_with_waiting_messages(&mut self) -> Result<FollowedRunEnd, RpcError> {
        let end = self.follow_and_ask().await?;
        if *self.cancelled.borrow() {
            self.session.waiting_messages.borrow_mut().clear();
        }
        self.send_waiting_messages(end).await
    }

    /// Continues the run with the messages that wait for its end, in their order.
    async fn send_waiting_messages(&mut self, mut end: FollowedRunEnd) -> Result<FollowedRunEnd, RpcError> {
        while end.is_continuable() {
            let next_message = self.session.waiting_messages.borrow_mut().pop_front();
            let Some(next_message) = next_message else { break };
            end = self.continue_with_message(next_message).await?;
        }
        Ok(end)
    }

    /// Loads the summary of the run of the session.
    async fn load_run_summary(&self) -> Result<RunSummary, RpcError> {
        self.session
            .service
            .load_summary(&self.session.id)
            .await
            .map_err(RpcError::internal_error)
    }

    /// Follows the run and sends updates to the client. Asks questions in forms or options, and shows one other question as text. Returns
    /// at the end of the run or after a question as text. Cancels the run if the prompt is cancelled.
    async fn follow_and_ask(&mut self) -> Result<FollowedRunEnd, RpcError> {
        let session = self.session.clone();
        let next_seq = session.story.borrow().next_seq(&session.id);
        let follow = session.service.follow_run(&session.id, next_seq).await;
        let mut events = spawn_event_reader(follow.map_err(RpcError::internal_error)?);
        let mut asking = JoinSet::new();
        let mut has_cancelled = false;
        let mut waits_for_text = false;
        let mut postponed = 0;
        let mut stops = StopReasons::default();
        loop {
            let event = tokio::select! {
                biased;
                _ = self.cancelled.wait_for(|cancelled| *cancelled), if !has_cancelled => {
                    has_cancelled = true;
                    asking.abort_all();
                    let _is_over = session.service.cancel_run(&session.id, CANCELLING_CLIENT).await;
                    continue;
                }
                event = events.recv() => event,
            };
            let Some(event) = event else {
                return Err(RpcError::internal_error(format!(
                    "the run {} stopped without an outcome",
                    session.id
                )));
            };
            let RunEvent { run, kind } = event.map_err(RpcError::internal_error)?;
            match kind {
                RunEventKind::Committed(record) => {
                    if let Some(end) = self.report_record(&run, &record, &mut stops).await? {
                        return Ok(end);
                    }
                }
                RunEventKind::Live(live) => {
                    let update = session.story.borrow_mut().update_for_live_event(&run, live);
                    self.send_updates(update).await;
                }
                RunEventKind::QuestionAsked(asked) if self.shows_forms || question_has_choices(&asked) => {
                    // The question can have been shown as text by a load.
                    session
                        .shown_question
                        .borrow_mut()
                        .take_if(|shown| shown.digest == asked.request.digest);
                    asking.spawn_local(ask_and_answer_question(
                        self.session.clone(),
                        self.wire.clone(),
                        self.shows_forms,
                        asked,
                    ));
                }
                RunEventKind::QuestionAsked(_) => waits_for_text = true,
                RunEventKind::PermissionRequested(wanted) => {
                    asking.spawn_local(ask_and_answer_permission(
                        self.session.clone(),
                        self.wire.clone(),
                        wanted,
                    ));
                }
            }
            if waits_for_text
                && !has_cancelled
                && let Some(first) = self.find_text_question(postponed)
            {
                match self.show_and_postpone(&first).await {
                    0 => return Ok(FollowedRunEnd::AwaitsAnswer),
                    count => postponed += count,
                }
            }
        }
    }

    /// Reports a record to the client. Returns the end if the record ends the run.
    async fn report_record(
        &self,
        run: &RunId,
        record: &Record,
        stops: &mut StopReasons,
    ) -> Result<Option<FollowedRunEnd>, RpcError> {
        let session = &self.session;
        if record.seq < session.story.borrow().next_seq(run) {
            return Ok(None);
        }
        let updates = session.story.borrow_mut().updates_for_record(run, record);
        let is_own_text = |update: &SessionUpdate| matches!(update, SessionUpdate::Prompt(_));
        self.send_updates(updates.into_iter().filter(|update| !is_own_text(update)))
            .await;
        stops.apply_event(run, &record.event);
        let Event::RunEnded(ended) = &record.event else {
            return Ok(None);
        };
        if *run != session.id {
            return Ok(None);
        }
        if ended.completion_reason == CompletionReason::WaitingForInput {
            // The client can answer, load or close the session at once.
            session.service.wait_until_closed(&session.id).await;
            if self.show_recorded_question().await? {
                return Ok(Some(FollowedRunEnd::AwaitsAnswer));
            }
        }
        let stop = stops.prompt_stop_reason(&session.id, ended);
        Ok(Some(FollowedRunEnd::Ended(Box::new(ended.clone()), stop)))
    }

    /// Finds the question that is shown as text now: one at a time, so that the next prompt is its answer, and only when no
    /// agent works. A question with choices that is earlier in the file is answered first.
    fn find_text_question(&self, postponed: usize) -> Option<QuestionRequest> {
        let questions = list_open_questions(&self.session);
        let running = self.session.story.borrow().count_running_agents();
        let first = questions.first()?;
        let is_text = !self.shows_forms && !question_has_choices(first);
        (is_text && running <= questions.len() + postponed).then(|| first.clone())
    }

    /// Shows a question as text. Then the run records its open questions and ends as waiting, so that no process is needed to
    /// wait for the answer. Returns the number of recorded questions: 0 if the run must wait in this process.
    async fn show_and_postpone(&self, first: &QuestionRequest) -> usize {
        let session = &self.session;
        let postponed = session.service.postpone_questions(&session.id);
        if postponed == 0 || session.shown_question.borrow().is_none() {
            let text = protocol::question_message(first);
            let update = session
                .story
                .borrow_mut()
                .question_update(&first.run, &first.request, text);
            self.send_update(update).await;
            session.shown_question.replace(Some(first.request.clone()));
        }
        postponed
    }

    /// Shows the first recorded question of a run that waits, unless a question is shown. Returns whether a question is shown.
    async fn show_recorded_question(&self) -> Result<bool, RpcError> {
        let session = &self.session;
        if session.shown_question.borrow().is_some() {
            return Ok(true);
        }
        let pending = session.service.load_pending_requests(&session.id).await;
        let Some(first) = find_recorded_question(pending.map_err(RpcError::internal_error)?) else {
            return Ok(false);
        };
        let update = session.story.borrow_mut().recorded_question_update(&first);
        self.send_update(update).await;
        session.shown_question.replace(Some(first));
        Ok(true)
    }

    /// Sends an update of the session.
    async fn send_update(&self, update: SessionUpdate) {
        send_session_update(&self.wire, &self.session.id, update).await;
    }

    /// Sends updates of the session in order.
    async fn send_updates(&self, updates: impl IntoIterator<Item = SessionUpdate>) {
        for update in updates {
            self.send_update(update).await;
        }
    }
}

impl FollowedRunEnd {
    /// Returns whether a message can continue the run.
    fn is_continuable(&self) -> bool {
        matches!(self, Self::Ended(ended, _) if ended.completion_reason.is_continuable())
    }
}

/// Reads the events of a run in a task, so that an event is not lost when something else happens.
fn spawn_event_reader(mut follow: RunEventStream) -> mpsc::Receiver<Result<RunEvent, LogReadError>> {
    let (sender, events) = mpsc::channel(64);
    spawn_local(async move {
        while let Some(event) = follow.next().await.transpose() {
            let is_error = event.is_err();
            if sender.send(event).await.is_err() || is_error {
                return;
            }
        }
    });
    events
}

/// Finds the first recorded question, in the order of the file. Returns `None` if it has choices: those are shown as options.
pub(crate) fn find_recorded_question(pending: Vec<PendingRequest>) -> Option<PendingRequest> {
    let mut questions = pending.into_iter().filter(|request| !request.is_permission());
    questions.next().filter(|first| first.question.choices.is_empty())
}

/// Sends an update of a session to the client.
pub(crate) async fn send_session_update(wire: &ClientWire, session: &RunId, update: SessionUpdate) {
    wire.notify(
        "session/update",
        protocol::update_notification(session.as_str(), update),
    )
    .await;
}

/// Returns the open questions of the session, in the order of the file.
fn list_open_questions(session: &AcpSession) -> Vec<QuestionRequest> {
    let open = session.service.live_open_requests(&session.id).into_iter();
    open.filter_map(|open| match open {
        OperatorRequest::Question(question) => Some(question),
        OperatorRequest::Permission(_) => None,
    })
    .collect()
}

/// Returns whether the question has choices.
fn question_has_choices(asked: &QuestionRequest) -> bool {
    !asked.request.question.choices.is_empty()
}

/// Sends the answer to a shown request to the run.
async fn answer_request(session: &AcpSession, request: &PendingRequest, answer: RequestAnswer) -> Result<(), RpcError> {
    let request_key = (&request.address, &request.digest);
    let answered = session.service.answer_or_resume(
        &session.id,
        request_key,
        answer,
        session.client_answer_author(),
        session.build_run_options(),
    );
    answered.await.map_err(RpcError::internal_error)
}

/// Sends the client the reason why its answer was not used, if the answer was refused.
async fn report_unused_answer(session: &AcpSession, wire: &ClientWire, answered: Result<(), RpcError>) {
    if let Err(refusal) = answered {
        let note = session
            .story
            .borrow_mut()
            .unrecorded_note_update(format!("{}\n\n", refusal.message));
        send_session_update(wire, &session.id, note).await;
    }
}

/// Asks a question in a form or with options, and sends the answer to the run. Asks again if the question does not take the
/// answer. Without an answer the question stays open.
async fn ask_and_answer_question(
    session: Rc<AcpSession>,
    wire: Rc<ClientWire>,
    shows_forms: bool,
    mut asked: QuestionRequest,
) {
    while let Some(answer) = request_answer(&session, &wire, shows_forms, &asked).await {
        let answered = answer_request(&session, &asked.request, RequestAnswer::Text(answer)).await;
        let digest = &asked.request.digest;
        match answered {
            Err(refusal) if matches!(session.service.is_request_pending(&session.id, digest).await, Ok(true)) => {
                asked.refused = Some(refusal.message);
            }
            answered => return report_unused_answer(&session, &wire, answered).await,
        }
    }
    // The person closed the question: the run stops, and the next prompt asks again.
    let _is_over = session.service.cancel_run(&session.id, CANCELLING_CLIENT).await;
}

/// Requests the answer to a question from the client. Returns `None` if the user closed the question.
async fn request_answer(
    session: &AcpSession,
    wire: &ClientWire,
    shows_forms: bool,
    asked: &QuestionRequest,
) -> Option<String> {
    let id = session.id.as_str();
    if shows_forms {
        let form = protocol::question_form_request(id, asked);
        let answer = wire.send_request("elicitation/create", form).await?;
        return protocol::parse_form_answer(asked, &answer);
    }
    let card = UpdateSource::new(&asked.run, &asked.request.agent, asked.request.execution).card_id();
    let params = protocol::question_options_request(id, &card, asked);
    let answer = wire.send_request("session/request_permission", params).await?;
    let at = protocol::selected_option_id(&answer)?.parse::<usize>().ok()?;
    asked.request.question.choices.get(at).cloned()
}

/// Asks whether a tool may be called, and sends the decision to the run.
async fn ask_and_answer_permission(session: Rc<AcpSession>, wire: Rc<ClientWire>, wanted: PermissionRequest) {
    let card = SessionUpdateTracker::tool_card_id(&wanted.run, &wanted.call);
    let params = protocol::permission_request(session.id.as_str(), &card, &wanted);
    let answer = wire
        .send_request("session/request_permission", params)
        .await
        .unwrap_or_default();
    match protocol::parse_permission_decision(&answer) {
        Some(decision) => {
            let answered = answer_request(&session, &wanted.request, RequestAnswer::Permission(decision)).await;
            report_unused_answer(&session, &wire, answered).await;
        }
        // The person closed the question: the run stops, and the next prompt asks again.
        None => {
            let _is_over = session.service.cancel_run(&session.id, CANCELLING_CLIENT).await;
        }
    }
}

/// Creates the error of a run that ended without a stop reason, with the position of the failure.
fn failed_run_error(run: &RunId, ended: &RunEnded) -> RpcError {
    let reason = ended.completion_reason;
    let detail = ended.detail.as_deref().unwrap_or_default();
    let mut refusal = RpcError::internal_error(format!("{reason}: {detail}"));
    refusal.data = Some(
        json!({"run": run.as_str(), "outcome": reason.as_str(), "success": false, "detail": ended.detail, "failed": ended.failed, "condition": ended.condition}),
    );
    refusal
}
