//! One message to an ensemble, and what comes back.

use std::sync::Arc;

use ensemble_core::conversation::{CompletionReason, Event, PermissionDecision, RunEnded};
use ensemble_core::operator::{OperatorRequest, escape_hidden, escape_hidden_lines};
use ensemble_core::request::{AnswerAuthor, AnswerRefusal, RequestAnswer};
use ensemble_core::store::RunId;
use ensemble_history::answer::speaking_agents;
use ensemble_history::question_text;
use ensemble_language::data::{ModelUsage, RunContext};
use ensemble_language::ensemble::AgentKind;
use ensemble_runs::RunEvents;
use ensemble_runs::service::run_service::RunService;
use ensemble_runs::{EnsembleRef, LiveEvent, LiveEventKind, RunError, RunEventKind, RunOptions};
use hyper::StatusCode;
use serde_json::json;
use tokio::sync::mpsc::UnboundedSender;

use super::chat_reply::{AnsweringRun, ChatReply, ChatReplyItem};
use super::chat_request::ChatRequest;
use crate::app::UiApp;
use crate::conversations::{
    LastReply, MatchingRun, ShownRequest, TranscriptPosition, gives_reply, is_permission_granted, reply_text,
};
use crate::reply::RequestFailure;

/// Starts a run or continues the run of the conversation, and spawns a task that sends the reply to `said`.
///
/// The run continues if the client disconnects.
pub(super) async fn start_answer(
    app: Arc<UiApp>,
    asked: ChatRequest,
    file: String,
    said: UnboundedSender<ChatReplyItem>,
) -> Result<AnsweringRun, RequestFailure> {
    let StartedAnswer {
        run,
        from,
        used_before,
        last_heard: heard,
    } = start_or_continue(&app, &asked, file).await?;
    let created_at = app.runs.load_summary(&run).await.map_err(RequestFailure::from)?.last_at;
    let voice = find_voice(&app, &run).await;
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

/// Run that replies, and the record from which its reply is followed.
struct StartedAnswer {
    run: RunId,
    /// The first record of the answer.
    from: u64,
    /// What the run had used before the answer.
    used_before: ModelUsage,
    /// The run was cut short, and this is what the client has heard last: the message answers it, or comes after its reply.
    last_heard: Option<String>,
}

impl StartedAnswer {
    /// Creates the start at this record.
    fn from_record(run: RunId, from: u64) -> Self {
        Self {
            run,
            from,
            used_before: ModelUsage::default(),
            last_heard: None,
        }
    }
}

/// Starts a run, or continues the run of the conversation with the last message.
async fn start_or_continue(app: &UiApp, asked: &ChatRequest, file: String) -> Result<StartedAnswer, RequestFailure> {
    let (runs, last) = (app.runs.clone(), asked.messages.last_text().to_owned());
    let is_named = |last: &LastReply| asked.run.as_deref().is_none_or(|id| last.run.matches_prefix(id));
    let remembered = app
        .conversations
        .find_remembered(&asked.model, &asked.messages)
        .filter(is_named);
    let is_answer = remembered.as_ref().is_some_and(|last| last.shown.is_some());
    if !is_answer {
        let conversations = &app.conversations;
        let search = conversations.find_run(&runs, &asked.model, &file, &asked.messages, asked.run.as_deref());
        if let Some(matching_run) = search.await? {
            return continue_found_run(app, matching_run, last).await;
        }
    }
    if let Some(LastReply { run, shown }) = remembered {
        let from = runs.load_summary(&run).await.map_err(RequestFailure::from)?.records;
        let (continued, by) = (run.clone(), asked.answer_author());
        app.run_on_driver(async move {
            match shown {
                Some(shown_request) => answer_shown_request(&runs, &continued, &shown_request, &last, by).await,
                None => continue_run(&runs, &continued, last).await,
            }
        })
        .await?;
        return Ok(StartedAnswer::from_record(run, from));
    }
    let options = RunOptions::default().with_input(asked.messages.as_input());
    let start_future = async move {
        let started_run = runs.start_run(EnsembleRef::from_file(file), options).await;
        started_run.map_err(RequestFailure::from)
    };
    let run = app.run_on_driver(start_future).await?;
    app.conversations.remember_run(&app.runs, &run).await?;
    Ok(StartedAnswer::from_record(run, 0))
}

/// Continues a run whose records match the messages: resumes it, answers its question, or adds the message.
async fn continue_found_run(app: &UiApp, found: MatchingRun, last: String) -> Result<StartedAnswer, RequestFailure> {
    let (runs, run) = (app.runs.clone(), found.run.clone());
    app.run_on_driver(async move {
        let used_until_now = runs.load_summary(&run).await?.usage;
        if found.needs_resume {
            runs.resume_run(&run, RunOptions::default()).await?;
        } else if found.place == TranscriptPosition::Replied {
            runs.continue_run(&run, last, RunContext::default(), RunOptions::default())
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
        Ok(StartedAnswer {
            run,
            from,
            used_before,
            last_heard,
        })
    })
    .await
}

/// Adds a message to a run.
async fn continue_run(runs: &RunService, run: &RunId, text: String) -> Result<(), RequestFailure> {
    let continued = runs.continue_run(run, text, RunContext::default(), RunOptions::default());
    continued.await.map_err(RequestFailure::from)
}

/// Answers the request that the client was shown. An invalid answer leaves the request open, so the question is the reply again.
async fn answer_shown_request(
    runs: &RunService,
    run: &RunId,
    shown: &ShownRequest,
    text: &str,
    by: AnswerAuthor,
) -> Result<(), RequestFailure> {
    let answer = match (shown.is_permission, is_permission_granted(text)) {
        (false, _) => RequestAnswer::Text(text.to_owned()),
        (true, true) => RequestAnswer::Permission(PermissionDecision::Once),
        (true, false) => RequestAnswer::Permission(PermissionDecision::Denied),
    };
    let identity = (&shown.address, &shown.digest);
    let answered = runs.answer_request(run, identity, answer, by, RunOptions::default());
    match answered.await {
        Err(RunError::Answer(AnswerRefusal::NotAChoice { .. } | AnswerRefusal::Schema { .. })) => Ok(()),
        answered => answered.map_err(RequestFailure::from),
    }
}

/// Finds the agent whose text is streamed as the reply: the only speaker of the ensemble, if it is a model.
async fn find_voice(app: &UiApp, run: &RunId) -> Option<Arc<str>> {
    let watched = app.watch_run(run.as_str()).await.ok()?;
    let plan = watched.lock_view().await.plan.clone()?;
    if plan.result().is_some() {
        return None;
    }
    let mut speakers = speaking_agents(plan.ensemble());
    let only = speakers.next().filter(|_| speakers.next().is_none())?;
    matches!(only.kind, AgentKind::Llm(_)).then(|| only.name.clone())
}

/// Listener that follows a run until it replies.
struct ReplyListener {
    app: Arc<UiApp>,
    asked: ChatRequest,
    run: RunId,
    voice: Option<Arc<str>>,
    /// What the run had used before the answer.
    used_before: ModelUsage,
}

impl ReplyListener {
    /// Follows the run from record `from` and returns its reply. Sends streamed text to `said`. `heard` is the last shown question.
    async fn wait_for_reply(
        mut self,
        mut from: u64,
        heard: Option<String>,
        said: &UnboundedSender<ChatReplyItem>,
    ) -> Result<ChatReply, RequestFailure> {
        if let Some(last_heard) = heard {
            from = self.send_after_question(from, &last_heard).await?;
        }
        let follow = self
            .app
            .runs
            .follow_run(&self.run, from)
            .await
            .map_err(missing_failure)?;
        self.follow_to_end(follow, said).await
    }

    /// Waits until the run repeats the shown question, and answers it, or until the run ends, and adds the message.
    ///
    /// Returns the record from which the reply is followed. Another question of the run becomes the reply.
    async fn send_after_question(&mut self, from: u64, heard: &str) -> Result<u64, RequestFailure> {
        let (runs, run) = (self.app.runs.clone(), self.run.clone());
        let last = self.asked.messages.last_text().to_owned();
        let mut follow = runs.follow_run(&run, from).await.map_err(missing_failure)?;
        while let Some(next) = follow
            .next()
            .await
            .map_err(|error| RequestFailure::unavailable(error.to_string()))?
        {
            match next.kind {
                RunEventKind::QuestionAsked(_) | RunEventKind::PermissionRequested(_) => {
                    let open = runs.open_requests(&run);
                    // Two requests with the same text: which one was shown is not known, so the run asks again.
                    let mut heard_requests = open.iter().filter(|open| was_heard(&run, open, heard));
                    let (Some(open_request), None) = (heard_requests.next(), heard_requests.next()) else {
                        return Ok(from);
                    };
                    let shown_request = ShownRequest::new(open_request.request());
                    let by = self.asked.answer_author();
                    let answered = async move { answer_shown_request(&runs, &run, &shown_request, &last, by).await };
                    self.app.run_on_driver(answered).await?;
                    return Ok(from);
                }
                RunEventKind::Committed(record)
                    if next.run == self.run && matches!(record.event, Event::RunEnded(_)) =>
                {
                    runs.wait_until_closed(&run).await;
                    self.used_before = self.run_usage().await?;
                    let added = async move { continue_run(&runs, &run, last).await };
                    self.app.run_on_driver(added).await?;
                    return Ok(record.seq + 1);
                }
                RunEventKind::Committed(_) | RunEventKind::Live(_) => {}
            }
        }
        Err(RequestFailure::unavailable("the run was stopped"))
    }

    /// Follows the events until the run ends or asks a question. Sends streamed text to `said`.
    async fn follow_to_end(
        self,
        mut follow: RunEvents,
        said: &UnboundedSender<ChatReplyItem>,
    ) -> Result<ChatReply, RequestFailure> {
        loop {
            let next = follow
                .next()
                .await
                .map_err(|error| RequestFailure::unavailable(error.to_string()))?;
            let Some(next) = next else {
                return Err(RequestFailure::unavailable("the run was stopped"));
            };
            let is_outermost = next.run == self.run;
            match next.kind {
                RunEventKind::Committed(record) if is_outermost => {
                    if let Event::RunEnded(ended) = &record.event {
                        return self.reply_at_end(ended).await;
                    }
                }
                RunEventKind::Live(live) if is_outermost && self.is_from_voice(&live) => {
                    if let LiveEventKind::Text(text) = live.kind {
                        let _nobody_listens = said.send(ChatReplyItem::Piece(text));
                    }
                }
                RunEventKind::QuestionAsked(_) | RunEventKind::PermissionRequested(_) => {
                    // One request at a time is shown: the first in the order of the file.
                    if let Some(first) = self.app.runs.open_requests(&self.run).first() {
                        let shown_request = ShownRequest::new(first.request());
                        let text = request_text(first);
                        return self.finish_reply(text, "stop", Some(shown_request)).await;
                    }
                }
                RunEventKind::Committed(_) | RunEventKind::Live(_) => {}
            }
        }
    }

    /// Returns whether the event belongs to the streaming agent, in its first attempt.
    fn is_from_voice(&self, live: &LiveEvent) -> bool {
        live.attempt == 1 && self.voice.as_deref() == Some(&*live.agent)
    }

    /// Returns the usage of the run until now.
    async fn run_usage(&self) -> Result<ModelUsage, RequestFailure> {
        Ok(self
            .app
            .runs
            .load_summary(&self.run)
            .await
            .map_err(RequestFailure::from)?
            .usage)
    }

    /// Waits until the run is closed, and returns its reply or a failure.
    async fn reply_at_end(self, ended: &RunEnded) -> Result<ChatReply, RequestFailure> {
        let finish = match ended.completion_reason {
            _ if ended.is_success() => "stop",
            reason if gives_reply(reason) => "length",
            _ => {
                let message = format!("run {} ended as {}", self.run, ended.to_sentence().0);
                return Err(RequestFailure::new(StatusCode::BAD_GATEWAY, "run_failed", message));
            }
        };
        // The next message must find the run closed.
        self.app.runs.wait_until_closed(&self.run).await;
        let state = self
            .app
            .runs
            .load_recorded_run(&self.run)
            .await
            .map_err(RequestFailure::from)?
            .state;
        if ended.completion_reason == CompletionReason::TokenBudget && state.segment_turns() == 0 {
            // The latest output is the reply to an earlier message.
            let message = format!("run {} ended as {}", self.run, ended.to_sentence().0);
            return Err(RequestFailure::new(
                StatusCode::PAYMENT_REQUIRED,
                "budget_used_up",
                message,
            ));
        }
        self.finish_reply(reply_text(&state), finish, None).await
    }

    /// Remembers the reply, so that the next message of the conversation finds this run, and returns it with its usage.
    async fn finish_reply(
        self,
        text: String,
        finish: &'static str,
        shown: Option<ShownRequest>,
    ) -> Result<ChatReply, RequestFailure> {
        let usage = self.run_usage().await?.subtract_earlier(self.used_before);
        let ChatRequest { model, messages, .. } = &self.asked;
        let last = LastReply {
            run: self.run.clone(),
            shown,
        };
        let text = self.app.conversations.remember_reply(model, messages, text, last);
        Ok(ChatReply { text, finish, usage })
    }
}

/// Creates the failure of a run that does not exist.
fn missing_failure(error: impl std::fmt::Display) -> RequestFailure {
    RequestFailure::not_found(error.to_string())
}

/// Renders a request for a client without forms, with escaped hidden characters.
fn request_text(open: &OperatorRequest) -> String {
    let request = open.request();
    match open {
        OperatorRequest::Question(_) => escape_hidden_lines(&question_text(&request.question)),
        OperatorRequest::Permission(wanted) => {
            let caller = escape_hidden(&request.address.without_last_call().to_string());
            let (tool, arguments) = (escape_hidden(&wanted.tool), json!(wanted.arguments).to_string());
            let arguments = escape_hidden(&arguments);
            format!("{caller} wants to call {tool} with {arguments}. Allow it? (yes, no)")
        }
    }
}

/// Returns whether the client was shown this request of the run, alone or with its identity.
fn was_heard(run: &RunId, open: &OperatorRequest, heard: &str) -> bool {
    let text = request_text(open);
    let identity = ShownRequest::new(open.request()).identity_line(run);
    heard == text || heard.strip_prefix(&text) == Some(&identity)
}
