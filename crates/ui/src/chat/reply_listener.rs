//! One message to an ensemble, and what comes back.

use std::sync::Arc;

use ensemble_core::conversation::{CompletionReason, Event, PermissionDecision, RunEnded};
use ensemble_core::operator::{OperatorRequest, escape_hidden, escape_hidden_lines};
use ensemble_core::request::{AnswerAuthor, AnswerRefusal, RequestAnswer};
use ensemble_core::store::RunId;
use ensemble_history::answer::list_final_output_agents;
use ensemble_history::question_text_with_choices;
use ensemble_language::data::{ModelUsage, RunContext};
use ensemble_language::ensemble::AgentKind;
use ensemble_runs::RunEventStream;
use ensemble_runs::service::run_service::RunService;
use ensemble_runs::{EnsembleRef, LiveEvent, LiveEventKind, RunError, RunEventKind, RunOptions};
use hyper::StatusCode;
use serde_json::json;
use tokio::sync::mpsc::UnboundedSender;

use super::chat_reply::{AnsweringRun, ChatReply, ChatReplyItem};
use super::chat_request::ChatCompletionRequest;
use crate::app::UiServerState;
use crate::conversations::{
    LastChatReply, MatchingRun, ShownRequestKey, TranscriptPosition, gives_reply, is_yes_message, successful_reply_text,
};
use crate::reply::ApiFailure;

/// Begins a run or goes on with that of the conversation, and sends what is said. The run goes on if nobody listens.
pub(super) async fn start_answering_run(
    app: Arc<UiServerState>,
    asked: ChatCompletionRequest,
    file: String,
    said: UnboundedSender<ChatReplyItem>,
) -> Result<AnsweringRun, ApiFailure> {
    let AnsweringRunStart {
        run,
        from,
        used_before,
        last_heard: heard,
    } = start_or_continue_run(&app, &asked, file).await?;
    let created_at = app.runs.load_summary(&run).await.map_err(ApiFailure::from)?.last_at;
    let voice = find_only_speaking_model(&app, &run).await;
    let listening = ReplyListener {
        app,
        asked,
        run: run.clone(),
        voice,
        used_before,
    };
    tokio::spawn(async move {
        let end = listening.wait_for_reply(from, heard, &said).await;
        let _nobody_listens = said.send(end.map_or_else(ChatReplyItem::Failed, ChatReplyItem::End));
    });
    Ok(AnsweringRun {
        run,
        from,
        begun: created_at,
    })
}

/// The run that will answer.
struct AnsweringRunStart {
    run: RunId,
    /// The first record of the answer.
    from: u64,
    /// What the run had used before the answer.
    used_before: ModelUsage,
    /// The run was cut short, and this is what the client has heard last: the message answers it, or comes after its reply.
    last_heard: Option<String>,
}

impl AnsweringRunStart {
    fn from_record(run: RunId, from: u64) -> Self {
        Self {
            run,
            from,
            used_before: ModelUsage::default(),
            last_heard: None,
        }
    }
}

/// Begins a run, or has that of the conversation go on.
async fn start_or_continue_run(
    app: &UiServerState,
    asked: &ChatCompletionRequest,
    file: String,
) -> Result<AnsweringRunStart, ApiFailure> {
    let (runs, last) = (app.runs.clone(), asked.messages.last_text().to_owned());
    let is_named = |last: &LastChatReply| asked.run.as_deref().is_none_or(|id| last.run.matches_prefix(id));
    let remembered = app
        .conversations
        .find_remembered_reply(&asked.model, &asked.messages)
        .filter(is_named);
    let is_answer = remembered.as_ref().is_some_and(|last| last.shown.is_some());
    if !is_answer {
        let conversations = &app.conversations;
        let search = conversations.find_recorded_run(&runs, &asked.model, &file, &asked.messages, asked.run.as_deref());
        if let Some(matching_run) = search.await? {
            return continue_found_run(app, matching_run, last).await;
        }
    }
    if let Some(LastChatReply { run, shown }) = remembered {
        let from = runs.load_summary(&run).await.map_err(ApiFailure::from)?.records;
        let (continued, by) = (run.clone(), asked.answer_author());
        app.run_on_driver_thread(async move {
            match shown {
                Some(shown_request) => answer_shown_request(&runs, &continued, &shown_request, &last, by).await,
                None => add_run_message(&runs, &continued, last).await,
            }
        })
        .await?;
        return Ok(AnsweringRunStart::from_record(run, from));
    }
    let options = RunOptions::default().with_input(asked.messages.to_run_input());
    let start_future = async move {
        let started_run = runs.start_run(EnsembleRef::from_file_or_name(file), options).await;
        started_run.map_err(ApiFailure::from)
    };
    let run = app.run_on_driver_thread(start_future).await?;
    app.conversations.remember_run(&app.runs, &run).await?;
    Ok(AnsweringRunStart::from_record(run, 0))
}

/// Has a run go on that was found in the records.
async fn continue_found_run(
    app: &UiServerState,
    found: MatchingRun,
    last: String,
) -> Result<AnsweringRunStart, ApiFailure> {
    let (runs, run) = (app.runs.clone(), found.run.clone());
    app.run_on_driver_thread(async move {
        let used_until_now = runs.load_summary(&run).await?.usage;
        if found.needs_resume {
            runs.resume_run(&run, RunOptions::default()).await?;
        } else if found.place == TranscriptPosition::Replied {
            runs.continue_with_message(&run, last, RunContext::default(), RunOptions::default())
                .await?;
        }
        let MatchingRun {
            run,
            place,
            from,
            used_before,
            ..
        } = found;
        let used_before = used_before.unwrap_or(used_until_now);
        let last_heard = match place {
            TranscriptPosition::LastHeard(text) => Some(text),
            TranscriptPosition::Replied | TranscriptPosition::Unanswered => None,
        };
        Ok(AnsweringRunStart {
            run,
            from,
            used_before,
            last_heard,
        })
    })
    .await
}

/// Adds a message to a run.
async fn add_run_message(runs: &RunService, run: &RunId, text: String) -> Result<(), ApiFailure> {
    let continued = runs.continue_with_message(run, text, RunContext::default(), RunOptions::default());
    continued.await.map_err(ApiFailure::from)
}

/// Answers the request that the client was shown. An invalid answer leaves the request open, so the question is the reply again.
async fn answer_shown_request(
    runs: &RunService,
    run: &RunId,
    shown: &ShownRequestKey,
    text: &str,
    by: AnswerAuthor,
) -> Result<(), ApiFailure> {
    let answer = match (shown.is_permission, is_yes_message(text)) {
        (false, _) => RequestAnswer::Text(text.to_owned()),
        (true, true) => RequestAnswer::Permission(PermissionDecision::Once),
        (true, false) => RequestAnswer::Permission(PermissionDecision::Denied),
    };
    let identity = (&shown.address, &shown.digest);
    let answered = runs.answer_or_resume(run, identity, answer, by, RunOptions::default());
    match answered.await {
        Err(RunError::Answer(AnswerRefusal::NotAChoice { .. } | AnswerRefusal::Schema { .. })) => Ok(()),
        answered => answered.map_err(ApiFailure::from),
    }
}

/// Returns the agent whose text is the reply while it arrives: the only speaker of the ensemble, if it is a model.
async fn find_only_speaking_model(app: &UiServerState, run: &RunId) -> Option<Arc<str>> {
    let watched = app.refresh_watched_run(run.as_str()).await.ok()?;
    let plan = watched.lock_view().await.plan.clone()?;
    if plan.result().is_some() {
        return None;
    }
    let mut speakers = list_final_output_agents(plan.ensemble());
    let only = speakers.next().filter(|_| speakers.next().is_none())?;
    matches!(only.kind, AgentKind::Llm(_)).then(|| only.name.clone())
}

/// Listener that follows a run until it replies.
struct ReplyListener {
    app: Arc<UiServerState>,
    asked: ChatCompletionRequest,
    run: RunId,
    voice: Option<Arc<str>>,
    /// What the run had used before the answer.
    used_before: ModelUsage,
}

impl ReplyListener {
    /// Listens from that record on. `heard`: see [`AnsweringRunStart`].
    async fn wait_for_reply(
        mut self,
        mut from: u64,
        heard: Option<String>,
        said: &UnboundedSender<ChatReplyItem>,
    ) -> Result<ChatReply, ApiFailure> {
        if let Some(last_heard) = heard {
            from = self.send_message_when_ready(from, &last_heard).await?;
        }
        let follow = self
            .app
            .runs
            .follow_run(&self.run, from)
            .await
            .map_err(not_found_failure)?;
        self.follow_until_reply(follow, said).await
    }

    /// Waits until the run asks again what the client has heard, and answers it; or until its end, and adds the message. Where it asks
    /// something else, that is the reply. The record from which the reply is to be followed.
    async fn send_message_when_ready(&mut self, from: u64, heard: &str) -> Result<u64, ApiFailure> {
        let (runs, run) = (self.app.runs.clone(), self.run.clone());
        let last = self.asked.messages.last_text().to_owned();
        let mut follow = runs.follow_run(&run, from).await.map_err(not_found_failure)?;
        while let Some(next) = follow
            .next()
            .await
            .map_err(|error| ApiFailure::unavailable(error.to_string()))?
        {
            match next.kind {
                RunEventKind::QuestionAsked(_) | RunEventKind::PermissionRequested(_) => {
                    let open = runs.live_open_requests(&run);
                    // Two requests with the same text: which one was shown is not known, so the run asks again.
                    let mut heard_requests = open.iter().filter(|open| was_request_text_shown(&run, open, heard));
                    let (Some(open_request), None) = (heard_requests.next(), heard_requests.next()) else {
                        return Ok(from);
                    };
                    let shown_request = ShownRequestKey::new(open_request.pending_request());
                    let by = self.asked.answer_author();
                    let answered = async move { answer_shown_request(&runs, &run, &shown_request, &last, by).await };
                    self.app.run_on_driver_thread(answered).await?;
                    return Ok(from);
                }
                RunEventKind::Committed(record)
                    if next.run == self.run && matches!(record.event, Event::RunEnded(_)) =>
                {
                    runs.wait_until_closed(&run).await;
                    self.used_before = self.run_usage().await?;
                    let added = async move { add_run_message(&runs, &run, last).await };
                    self.app.run_on_driver_thread(added).await?;
                    return Ok(record.seq + 1);
                }
                RunEventKind::Committed(_) | RunEventKind::Live(_) => {}
            }
        }
        Err(ApiFailure::unavailable("the run was stopped"))
    }

    async fn follow_until_reply(
        self,
        mut follow: RunEventStream,
        said: &UnboundedSender<ChatReplyItem>,
    ) -> Result<ChatReply, ApiFailure> {
        loop {
            let next = follow
                .next()
                .await
                .map_err(|error| ApiFailure::unavailable(error.to_string()))?;
            let Some(next) = next else {
                return Err(ApiFailure::unavailable("the run was stopped"));
            };
            let is_outermost = next.run == self.run;
            match next.kind {
                RunEventKind::Committed(record) if is_outermost => {
                    if let Event::RunEnded(ended) = &record.event {
                        return self.reply_at_end(ended).await;
                    }
                }
                RunEventKind::Live(live) if is_outermost && self.is_streamed_event(&live) => {
                    if let LiveEventKind::Text(text) = live.kind {
                        let _nobody_listens = said.send(ChatReplyItem::Piece(text));
                    }
                }
                RunEventKind::QuestionAsked(_) | RunEventKind::PermissionRequested(_) => {
                    // One request at a time is shown: the first in the order of the file.
                    if let Some(first) = self.app.runs.live_open_requests(&self.run).first() {
                        let shown_request = ShownRequestKey::new(first.pending_request());
                        let text = escaped_request_text(first);
                        return self.remember_and_build_reply(text, "stop", Some(shown_request)).await;
                    }
                }
                RunEventKind::Committed(_) | RunEventKind::Live(_) => {}
            }
        }
    }

    fn is_streamed_event(&self, live: &LiveEvent) -> bool {
        live.attempt == 1 && self.voice.as_deref() == Some(&*live.agent)
    }

    /// Returns the usage of the run until now.
    async fn run_usage(&self) -> Result<ModelUsage, ApiFailure> {
        Ok(self
            .app
            .runs
            .load_summary(&self.run)
            .await
            .map_err(ApiFailure::from)?
            .usage)
    }

    async fn reply_at_end(self, ended: &RunEnded) -> Result<ChatReply, ApiFailure> {
        let finish = match ended.completion_reason {
            _ if ended.is_success() => "stop",
            reason if gives_reply(reason) => "length",
            _ => {
                let message = format!("run {} ended as {}", self.run, ended.to_outcome_sentence().0);
                return Err(ApiFailure::new(StatusCode::BAD_GATEWAY, "run_failed", message));
            }
        };
        // The next message must find the run closed.
        self.app.runs.wait_until_closed(&self.run).await;
        let state = self
            .app
            .runs
            .load_recorded_run(&self.run)
            .await
            .map_err(ApiFailure::from)?
            .state;
        if ended.completion_reason == CompletionReason::TokenBudget && state.segment_turn_count() == 0 {
            // The latest output is the reply to an earlier message.
            let message = format!("run {} ended as {}", self.run, ended.to_outcome_sentence().0);
            return Err(ApiFailure::new(StatusCode::PAYMENT_REQUIRED, "budget_used_up", message));
        }
        self.remember_and_build_reply(successful_reply_text(&state), finish, None)
            .await
    }

    /// Returns the next message of this conversation belongs to this run.
    async fn remember_and_build_reply(
        self,
        text: String,
        finish: &'static str,
        shown: Option<ShownRequestKey>,
    ) -> Result<ChatReply, ApiFailure> {
        let usage = self.run_usage().await?.subtract_earlier(self.used_before);
        let ChatCompletionRequest { model, messages, .. } = &self.asked;
        let last = LastChatReply {
            run: self.run.clone(),
            shown,
        };
        let text = self
            .app
            .conversations
            .remember_reply_with_unique_text(model, messages, text, last);
        Ok(ChatReply { text, finish, usage })
    }
}

fn not_found_failure(error: impl std::fmt::Display) -> ApiFailure {
    ApiFailure::not_found(error.to_string())
}

/// Renders a request for a client without forms, with escaped hidden characters.
fn escaped_request_text(open: &OperatorRequest) -> String {
    let request = open.pending_request();
    match open {
        OperatorRequest::Question(_) => escape_hidden_lines(&question_text_with_choices(&request.question)),
        OperatorRequest::Permission(wanted) => {
            let caller = escape_hidden(&request.address.without_last_call().to_string());
            let (tool, arguments) = (escape_hidden(&wanted.tool), json!(wanted.arguments).to_string());
            let arguments = escape_hidden(&arguments);
            format!("{caller} wants to call {tool} with {arguments}. Allow it? (yes, no)")
        }
    }
}

/// Returns whether the client has heard this request of the run: its text, alone or with its identity.
fn was_request_text_shown(run: &RunId, open: &OperatorRequest, heard: &str) -> bool {
    let text = escaped_request_text(open);
    let identity = ShownRequestKey::new(open.pending_request()).identity_line(run);
    heard == text || heard.strip_prefix(&text) == Some(&identity)
}
