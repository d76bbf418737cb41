//! The handling of a prompt: starts or continues the run, and sends updates until the run ends or asks a question as text.
//!
//! Invariant: a cancelled prompt is answered immediately, with the stop reason `cancelled`.

use std::rc::Rc;

use ensemble_core::conversation::{AgentWorkCounts, Event, RunEnded};
use ensemble_core::operator::{OperatorRequest, PermissionRequest, QuestionRequest};
use ensemble_core::request::{PendingRequest, RequestAnswer};
use ensemble_core::store::RunId;
use ensemble_history::{RunState, RunSummary};
use ensemble_language::data::RunContext;
use ensemble_runs::{RunEvent, RunEventKind};
use serde_json::json;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinSet, spawn_local};

use crate::protocol;
use crate::session::AcpSession;
use crate::stop_reasons::StopReasons;
use crate::updates::{SessionUpdate, SessionUpdateTracker, UpdateSource};
use crate::wire::{ClientWire, RpcError};

/// The prompt that resumes an interrupted run without a message.
const RESUME_PROMPT: &str = "/resume";
/// The name in the journal of the client that cancels a run.
const CANCELLING_CLIENT: &str = "the client of the Agent Client Protocol";

/// The note for a client whose prompt comes before the question was shown.
const UNSHOWN_NOTE: &str = "The run waits for an answer to a question that was not shown here, so your message was not used. The question:\n\n";

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
        if !self.session.has_told_unused.replace(true) {
            let unused = self.session.unused_client_servers();
            if !unused.is_empty() {
                let names = unused.join(", ");
                let note = format!(
                    "The ensemble uses none of the MCP servers of the client: {names}. To use the first one, define a tool `{}` with `mcp: client`.\n\n",
                    unused[0]
                );
                let note = self.session.story.borrow_mut().ensemble_note_update(note);
                self.send_update(note).await;
            }
        }
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
        // The prompt is the answer to the question that was shown as text.
        let shown_question = session.shown_question.borrow_mut().take();
        if let Some(shown_question) = shown_question {
            answer_request(&session, &shown_question, RequestAnswer::Text(text)).await?;
            return self.follow_and_ask().await;
        }
        let mut summary = self.load_run_summary().await?;
        // While a run of this process is being closed, it looks as if another process had it.
        if summary.process.is_some() && summary.questions.is_empty() {
            service.wait_until_closed(id).await;
            summary = self.load_run_summary().await?;
        }
        // A question that this client was not shown is not answered by the prompt: the run asks it again.
        let is_unshown = text != RESUME_PROMPT && summary.questions.iter().any(|request| !request.is_permission());
        if is_unshown {
            let note = session.story.borrow_mut().ensemble_note_update(UNSHOWN_NOTE.to_owned());
            self.send_update(note).await;
        }
        let is_cut = match summary.state {
            RunState::Interrupted | RunState::Waiting => true,
            RunState::Ended(outcome) => text == RESUME_PROMPT && outcome.is_resumable(),
            RunState::Running => false,
        };
        if is_cut {
            service
                .resume_run(id, session.build_run_options())
                .await
                .map_err(RpcError::internal_error)?;
            let end = self.follow_and_ask().await?;
            let goes_on = matches!(&end, FollowedRunEnd::Ended(ended, _) if ended.completion_reason.is_continuable());
            if text == RESUME_PROMPT || is_unshown || !goes_on || *self.cancelled.borrow() {
                return Ok(end);
            }
        }
        let went_on = service
            .continue_with_message(id, text, RunContext::default(), session.build_run_options())
            .await;
        went_on.map_err(RpcError::internal_error)?;
        self.follow_and_ask().await
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
        let follow = session.service.follow_run(&session.id, session.next_seq.get()).await;
        let mut follow = follow.map_err(RpcError::internal_error)?;
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
                    let updates = session.story.borrow_mut().updates_for_record(&run, &record, false);
                    self.send_updates(updates).await;
                    stops.apply_event(&run, &record.event);
                    if run == session.id {
                        session.next_seq.set(record.seq + 1);
                        if let Event::RunEnded(ended) = &record.event {
                            let stop = stops.prompt_stop_reason(&session.id, ended);
                            if ended.is_success() {
                                self.send_failed_work_note().await;
                            }
                            return Ok(FollowedRunEnd::Ended(Box::new(ended.clone()), stop));
                        }
                    }
                }
                RunEventKind::Live(live) => {
                    let update = session.story.borrow_mut().update_for_live_event(&run, live);
                    self.send_updates(update).await;
                }
                RunEventKind::QuestionAsked(asked) if self.shows_forms || question_has_choices(&asked) => {
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
            if !waits_for_text || has_cancelled {
                continue;
            }
            let questions: Vec<QuestionRequest> = list_open_questions(&session);
            if session.story.borrow().count_running_agents() <= questions.len() {
                // One question is shown as text at a time, so that the next prompt is its answer.
                // A question with choices that is earlier in the file is answered first.
                if let Some(first) = questions
                    .first()
                    .filter(|asked| !self.shows_forms && !question_has_choices(asked))
                {
                    let request = &first.request;
                    let source = UpdateSource::new(&first.run, &request.agent, request.execution);
                    self.send_update(SessionUpdateTracker::question_update(
                        source,
                        protocol::question_message(first),
                    ))
                    .await;
                    *session.shown_question.borrow_mut() = Some(request.clone());
                    return Ok(FollowedRunEnd::AwaitsAnswer);
                }
            }
        }
    }

    /// Sends a final note about failed parts and tool calls of a successful run and of its nested runs.
    async fn send_failed_work_note(&self) {
        let Ok(recorded) = self.session.service.load_recorded_run(&self.session.id).await else {
            return;
        };
        let own_work = recorded.state.count_failed_work_by_agent();
        let own_sentences = own_work.iter().flat_map(AgentWorkCounts::list_failure_sentences);
        let nested_failures = recorded.state.list_nested_failure_warnings();
        let sentences: Vec<String> = own_sentences.chain(nested_failures).collect();
        if !sentences.is_empty() {
            let note = self
                .session
                .story
                .borrow_mut()
                .ensemble_note_update(format!("\n\n{}", sentences.join(", ")));
            self.send_update(note).await;
        }
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
            .ensemble_note_update(format!("{}\n\n", refusal.message));
        send_session_update(wire, &session.id, note).await;
    }
}

/// Asks a question in a form or with options, and sends the answer to the run. Without an answer the question stays open.
async fn ask_and_answer_question(
    session: Rc<AcpSession>,
    wire: Rc<ClientWire>,
    shows_forms: bool,
    asked: QuestionRequest,
) {
    let id = session.id.as_str();
    let answer = if shows_forms {
        let answer = wire
            .send_request("elicitation/create", protocol::question_form_request(id, &asked))
            .await;
        answer.and_then(|answer| protocol::parse_form_answer(&asked, &answer))
    } else {
        let card = UpdateSource::new(&asked.run, &asked.request.agent, asked.request.execution).card_id();
        let params = protocol::question_options_request(id, &card, &asked);
        let answer = wire.send_request("session/request_permission", params).await;
        let at = answer.and_then(|answer| protocol::selected_option_id(&answer)?.parse::<usize>().ok());
        at.and_then(|at| asked.request.question.choices.get(at).cloned())
    };
    match answer {
        Some(answer) => {
            let answered = answer_request(&session, &asked.request, RequestAnswer::Text(answer)).await;
            report_unused_answer(&session, &wire, answered).await;
        }
        // The person closed the question: the run stops, and the next prompt asks again.
        None => {
            let _is_over = session.service.cancel_run(&session.id, CANCELLING_CLIENT).await;
        }
    }
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
