//! One message to an ensemble, and what comes back.

use std::sync::Arc;

use ensemble_core::conversation::PermissionDecision;
use ensemble_core::conversation::{CompletionReason, Event, RunEnded};
use ensemble_core::operator::OperatorRequest;
use ensemble_core::request::{AnswerRefusal, AnswerSource, RequestAnswer};
use ensemble_core::store::RunId;
use ensemble_history::answer::speakers;
use ensemble_history::question_text;
use ensemble_language::data::{Context, Usage};
use ensemble_language::ensemble::AgentKind;
use ensemble_runs::service::run_service::{Follow, RunService};
use ensemble_runs::{EnsembleRef, LivePiece, Piece, RunError, RunEventKind, RunOptions};
use hyper::StatusCode;
use serde_json::json;
use tokio::sync::mpsc::UnboundedSender;

use super::asked::Asked;
use super::said::{End, Said, Talking};
use crate::app::App;
use crate::conversations::{Found, LastReply, Place, ShownRequest, is_reply, permits, reply_of};
use crate::reply::Failure;

/// Begins a run or goes on with that of the conversation, and sends what is said. The run goes on if nobody listens.
pub(super) async fn talk(
    app: Arc<App>,
    asked: Asked,
    file: String,
    said: UnboundedSender<Said>,
) -> Result<Talking, Failure> {
    let Begun {
        run,
        from,
        used_before,
        heard,
    } = begin(&app, &asked, file).await?;
    let begun = app.runs.summary(&run).await.map_err(Failure::from)?.last_at;
    let voice = voice(&app, &run).await;
    let listening = Listening {
        app,
        asked,
        run: run.clone(),
        voice,
        used_before,
    };
    tokio::spawn(async move {
        let end = listening.listen(from, heard, &said).await;
        let _nobody_listens = said.send(end.map_or_else(Said::Failed, Said::End));
    });
    Ok(Talking { run, from, begun })
}

/// The run that will answer.
struct Begun {
    run: RunId,
    /// The first record of the answer.
    from: u64,
    /// What the run had used before the answer.
    used_before: Usage,
    /// The run was cut short, and this is what the client has heard last: the message answers it, or comes after its reply.
    heard: Option<String>,
}

impl Begun {
    fn at(run: RunId, from: u64) -> Self {
        Self {
            run,
            from,
            used_before: Usage::default(),
            heard: None,
        }
    }
}

/// Begins a run, or has that of the conversation go on.
async fn begin(app: &App, asked: &Asked, file: String) -> Result<Begun, Failure> {
    let (runs, last) = (app.runs.clone(), asked.messages.last().to_owned());
    let is_named = |last: &LastReply| asked.run.as_deref().is_none_or(|id| last.run.begins_with(id));
    let remembered = app
        .conversations
        .remembered(&asked.model, &asked.messages)
        .filter(is_named);
    let is_answer = remembered.as_ref().is_some_and(|last| last.shown.is_some());
    if !is_answer {
        let conversations = &app.conversations;
        let found = conversations.recorded(&runs, &asked.model, &file, &asked.messages, asked.run.as_deref());
        if let Some(found) = found.await? {
            return take_up(app, found, last).await;
        }
    }
    if let Some(LastReply { run, shown }) = remembered {
        let from = runs.summary(&run).await.map_err(Failure::from)?.records;
        let continued = run.clone();
        app.driving(async move {
            match shown {
                Some(shown) => answer_shown(&runs, &continued, &shown, &last).await,
                None => continue_run(&runs, &continued, last).await,
            }
        })
        .await?;
        return Ok(Begun::at(run, from));
    }
    let options = RunOptions::default().input(asked.messages.as_input());
    let begun = async move {
        let begun = runs.start(EnsembleRef::file(file), options).await;
        begun.map_err(Failure::from)
    };
    let run = app.driving(begun).await?;
    app.conversations.add(&app.runs, &run).await?;
    Ok(Begun::at(run, 0))
}

/// Has a run go on that was found in the records.
async fn take_up(app: &App, found: Found, last: String) -> Result<Begun, Failure> {
    let (runs, run) = (app.runs.clone(), found.run.clone());
    app.driving(async move {
        let used_until_now = runs.summary(&run).await?.usage;
        if found.is_cut {
            runs.resume(&run, RunOptions::default()).await?;
        } else if found.place == Place::Replied {
            runs.continue_with(&run, last, Context::default(), RunOptions::default())
                .await?;
        }
        let Found {
            run,
            place,
            from,
            used_before,
            ..
        } = found;
        let used_before = used_before.unwrap_or(used_until_now);
        let heard = match place {
            Place::Heard(text) => Some(text),
            Place::Replied | Place::Unanswered => None,
        };
        Ok(Begun {
            run,
            from,
            used_before,
            heard,
        })
    })
    .await
}

/// Adds a message to a run.
async fn continue_run(runs: &RunService, run: &RunId, text: String) -> Result<(), Failure> {
    let continued = runs.continue_with(run, text, Context::default(), RunOptions::default());
    continued.await.map_err(Failure::from)
}

/// Answers the request that the client was shown with its message. A request that does not take the answer stays open, so that
/// its question is the reply again.
async fn answer_shown(runs: &RunService, run: &RunId, shown: &ShownRequest, text: &str) -> Result<(), Failure> {
    let answer = match (shown.is_permission, permits(text)) {
        (false, _) => RequestAnswer::Text(text.to_owned()),
        (true, true) => RequestAnswer::Permission(PermissionDecision::Once),
        (true, false) => RequestAnswer::Permission(PermissionDecision::Denied),
    };
    let identity = (&shown.address, &shown.digest);
    let answered = runs.answer(run, identity, answer, AnswerSource::Page, RunOptions::default());
    match answered.await {
        Err(RunError::Answer(AnswerRefusal::NotAChoice { .. } | AnswerRefusal::Schema { .. })) => Ok(()),
        answered => answered.map_err(Failure::from),
    }
}

/// Returns the agent whose text is the reply while it arrives: the only speaker of the ensemble, if it is a model.
async fn voice(app: &App, run: &RunId) -> Option<Arc<str>> {
    let watched = app.watched(run.as_str()).await.ok()?;
    let plan = watched.view().await.plan.clone()?;
    if plan.result().is_some() {
        return None;
    }
    let mut speakers = speakers(plan.ensemble());
    let only = speakers.next().filter(|_| speakers.next().is_none())?;
    matches!(only.kind, AgentKind::Llm(_)).then(|| only.name.clone())
}

/// Listens to a run until it has answered.
struct Listening {
    app: Arc<App>,
    asked: Asked,
    run: RunId,
    voice: Option<Arc<str>>,
    /// What the run had used before the answer.
    used_before: Usage,
}

impl Listening {
    /// Listens from that record on. `heard`: see [`Begun`].
    async fn listen(
        mut self,
        mut from: u64,
        heard: Option<String>,
        said: &UnboundedSender<Said>,
    ) -> Result<End, Failure> {
        if let Some(heard) = heard {
            from = self.say_after(from, &heard).await?;
        }
        let follow = self.app.runs.follow(&self.run, from).await.map_err(missing)?;
        self.until_end(follow, said).await
    }

    /// Waits until the run asks again what the client has heard, and answers it; or until its end, and adds the message. Where it asks
    /// something else, that is the reply. The record from which the reply is to be followed.
    async fn say_after(&mut self, from: u64, heard: &str) -> Result<u64, Failure> {
        let (runs, run) = (self.app.runs.clone(), self.run.clone());
        let last = self.asked.messages.last().to_owned();
        let mut follow = runs.follow(&run, from).await.map_err(missing)?;
        while let Some(next) = follow.next().await.map_err(|error| Failure::gone(error.to_string()))? {
            match next.kind {
                RunEventKind::QuestionAsked(_) | RunEventKind::PermissionRequested(_) => {
                    let open = runs.open_requests(&run);
                    let Some(asked) = open.iter().find(|open| request_text(open) == heard) else {
                        return Ok(from);
                    };
                    let shown = ShownRequest::new(asked.request());
                    let answered = async move { answer_shown(&runs, &run, &shown, &last).await };
                    self.app.driving(answered).await?;
                    return Ok(from);
                }
                RunEventKind::Committed(record)
                    if next.run == self.run && matches!(record.event, Event::RunEnded(_)) =>
                {
                    runs.ended(&run).await;
                    self.used_before = self.run_usage().await?;
                    let added = async move { continue_run(&runs, &run, last).await };
                    self.app.driving(added).await?;
                    return Ok(record.seq + 1);
                }
                RunEventKind::Committed(_) | RunEventKind::Live(_) => {}
            }
        }
        Err(Failure::gone("the run was stopped"))
    }

    async fn until_end(self, mut follow: Follow, said: &UnboundedSender<Said>) -> Result<End, Failure> {
        loop {
            let next = follow.next().await.map_err(|error| Failure::gone(error.to_string()))?;
            let Some(next) = next else {
                return Err(Failure::gone("the run was stopped"));
            };
            let is_outermost = next.run == self.run;
            match next.kind {
                RunEventKind::Committed(record) if is_outermost => {
                    if let Event::RunEnded(ended) = &record.event {
                        return self.ended(ended).await;
                    }
                }
                RunEventKind::Live(live) if is_outermost && self.is_voice(&live) => {
                    if let Piece::Text(text) = live.piece {
                        let _nobody_listens = said.send(Said::Piece(text));
                    }
                }
                RunEventKind::QuestionAsked(_) | RunEventKind::PermissionRequested(_) => {
                    // One request at a time is shown: the first in the order of the file.
                    if let Some(first) = self.app.runs.open_requests(&self.run).first() {
                        let shown = ShownRequest::new(first.request());
                        let text = request_text(first);
                        return self.end(text, "stop", Some(shown)).await;
                    }
                }
                RunEventKind::Committed(_) | RunEventKind::Live(_) => {}
            }
        }
    }

    fn is_voice(&self, live: &LivePiece) -> bool {
        live.attempt == 1 && self.voice.as_deref() == Some(&*live.agent)
    }

    /// Returns the usage of the run until now.
    async fn run_usage(&self) -> Result<Usage, Failure> {
        Ok(self.app.runs.summary(&self.run).await.map_err(Failure::from)?.usage)
    }

    async fn ended(self, ended: &RunEnded) -> Result<End, Failure> {
        let finish = match ended.completion_reason {
            CompletionReason::Completed => "stop",
            reason if is_reply(reason) => "length",
            reason => {
                let detail = ended.detail.as_deref().map(|detail| format!(": {detail}"));
                let message = format!("run {} ended as {reason}{}", self.run, detail.unwrap_or_default());
                return Err(Failure::new(StatusCode::BAD_GATEWAY, "run_failed", message));
            }
        };
        // The next message must find the run closed.
        self.app.runs.ended(&self.run).await;
        let state = self.app.runs.recorded(&self.run).await.map_err(Failure::from)?.state;
        self.end(reply_of(&state), finish, None).await
    }

    /// The next message of this conversation belongs to this run.
    async fn end(self, text: String, finish: &'static str, shown: Option<ShownRequest>) -> Result<End, Failure> {
        let usage = self.run_usage().await?.since(self.used_before);
        let Asked { model, messages, .. } = &self.asked;
        let last = LastReply {
            run: self.run.clone(),
            shown,
        };
        self.app.conversations.remember(model, messages, &text, last);
        Ok(End { text, finish, usage })
    }
}

fn missing(error: impl std::fmt::Display) -> Failure {
    Failure::missing(error.to_string())
}

/// The text of a request for a client that shows no forms.
fn request_text(open: &OperatorRequest) -> String {
    let request = open.request();
    match open {
        OperatorRequest::Question(_) => question_text(&request.question),
        OperatorRequest::Permission(wanted) => {
            let arguments = json!(wanted.arguments);
            format!(
                "{} wants to call {} with {arguments}. Allow it? (yes, no)",
                request.agent, wanted.tool
            )
        }
    }
}
