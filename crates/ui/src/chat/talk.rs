//! One message to an ensemble, and what comes back.

use std::sync::Arc;

use ensemble_core::conversation::{CompletionReason, Event, RunEnded};
use ensemble_core::operator::{Asked as Question, Decision, PermissionRequest};
use ensemble_core::store::RunId;
use ensemble_language::data::{Context, Usage};
use ensemble_language::ensemble::AgentKind;
use ensemble_runs::service::{Follow, RunService};
use ensemble_runs::{EnsembleRef, LivePiece, Piece, RunEventKind, RunOptions};
use hyper::StatusCode;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;

use super::asked::Asked;
use super::said::{End, Said, Talking};
use crate::app::App;
use crate::reply::Failure;

/// Begins a run or goes on with that of the conversation, and sends what is said. The run goes on if nobody listens.
pub(super) async fn talk(
    app: Arc<App>,
    asked: Asked,
    file: String,
    said: UnboundedSender<Said>,
) -> Result<Talking, Failure> {
    let known = asked.before().and_then(|before| app.conversations.find(&before));
    let runs = app.runs.clone();
    let (run, from) = match known {
        Some(run) => {
            let from = runs.summary(&run).await.map_err(Failure::from)?.records;
            let (last, continued) = (asked.last().to_owned(), run.clone());
            app.driving(async move { go_on(&runs, &continued, &last).await })
                .await?;
            (run, from)
        }
        None => {
            let options = RunOptions::default().input(asked.as_input());
            let begun = async move {
                runs.start(EnsembleRef::file(file), options)
                    .await
                    .map_err(Failure::from)
            };
            (app.driving(begun).await?, 0)
        }
    };
    let begun = app.runs.summary(&run).await.map_err(Failure::from)?.last_at;
    let follow = app.runs.follow(&run, from).await;
    let follow = follow.map_err(|error| Failure::missing(error.to_string()))?;
    let voice = voice(&app, &run).await;
    let listening = Listening {
        app,
        asked,
        run: run.clone(),
        voice,
        usage: Usage::default(),
    };
    tokio::spawn(async move {
        let end = listening.until_end(follow, &said).await;
        let _nobody_listens = said.send(end.map_or_else(Said::Failed, Said::End));
    });
    Ok(Talking { run, from, begun })
}

/// Answers what the run asks, or adds a message to it.
async fn go_on(runs: &RunService, run: &RunId, text: &str) -> Result<(), Failure> {
    let (questions, permissions) = runs.waiting(run);
    if let Some(question) = questions.first() {
        return runs.answer(run, &question.agent, text).await.map_err(Failure::from);
    }
    if let Some(wanted) = permissions.first() {
        let decision = match text.trim().to_lowercase().as_str() {
            "yes" | "y" => Decision::Once,
            _ => Decision::Denied,
        };
        return runs.permit(run, &wanted.call, decision).await.map_err(Failure::from);
    }
    let continued = runs.continue_with(run, text, Context::default(), RunOptions::default());
    continued.await.map_err(Failure::from)
}

/// The agent whose text is the reply while it arrives: the only one to which no other listens, if it is a model.
async fn voice(app: &App, run: &RunId) -> Option<Arc<str>> {
    let watched = app.watched(run.as_str()).await.ok()?;
    let plan = watched.view().await.plan.clone()?;
    if plan.result().is_some() {
        return None;
    }
    let mut last = plan.ids().filter(|id| plan.outgoing(*id).next().is_none());
    let only = last.next().filter(|_| last.next().is_none())?;
    matches!(plan.agent(only).kind, AgentKind::Llm(_)).then(|| plan.name(only).clone())
}

/// Listens to a run until it has answered.
struct Listening {
    app: Arc<App>,
    asked: Asked,
    run: RunId,
    voice: Option<Arc<str>>,
    usage: Usage,
}

impl Listening {
    async fn until_end(mut self, mut follow: Follow, said: &UnboundedSender<Said>) -> Result<End, Failure> {
        loop {
            let next = follow.next().await.map_err(|error| Failure::gone(error.to_string()))?;
            let Some(next) = next else {
                return Err(Failure::gone("the run was stopped"));
            };
            let is_outermost = next.run == self.run;
            match next.kind {
                RunEventKind::Committed(record) if is_outermost => {
                    self.add_up(&record.event);
                    if let Event::RunEnded(ended) = &record.event {
                        return self.ended(ended).await;
                    }
                }
                RunEventKind::Live(live) if is_outermost && self.is_voice(&live) => {
                    if let Piece::Text(text) = live.piece {
                        let _nobody_listens = said.send(Said::Piece(text));
                    }
                }
                RunEventKind::Asked(question) => return Ok(self.end(question_text(&question), "stop")),
                RunEventKind::PermissionRequested(wanted) => return Ok(self.end(permission_text(&wanted), "stop")),
                RunEventKind::Committed(_) | RunEventKind::Live(_) => {}
            }
        }
    }

    fn is_voice(&self, live: &LivePiece) -> bool {
        live.attempt == 1 && self.voice.as_deref() == Some(&*live.agent)
    }

    fn add_up(&mut self, event: &Event) {
        let used = match event {
            Event::ExecutionFinished(finished) => finished.usage,
            Event::AttemptFailed(failed) => failed.usage,
            Event::PartEnded(part) => part.usage,
            _ => None,
        };
        if let Some(used) = used {
            self.usage = self.usage + used;
        }
    }

    async fn ended(self, ended: &RunEnded) -> Result<End, Failure> {
        let finish = match ended.completion_reason {
            CompletionReason::Completed => "stop",
            reason if reason.is_limit() => "length",
            reason => {
                let detail = ended.detail.as_deref().map(|detail| format!(": {detail}"));
                let message = format!("run {} ended as {reason}{}", self.run, detail.unwrap_or_default());
                return Err(Failure::new(StatusCode::BAD_GATEWAY, "run_failed", message));
            }
        };
        // The next message must find the run closed.
        self.app.runs.ended(&self.run).await;
        let state = self.app.runs.recorded(&self.run).await.map_err(Failure::from)?.state;
        let result = state.run_value().map(|result| spoken(&json!(result.value)));
        let last = state.history().filter(|entry| entry.success()).last();
        let last = || last.map(|entry| spoken(&entry.output_data())).unwrap_or_default();
        let text = result.unwrap_or_else(last);
        Ok(self.end(text, finish))
    }

    /// The next message of this conversation belongs to this run.
    fn end(self, text: String, finish: &'static str) -> End {
        self.app.conversations.remember(self.asked.with_reply(&text), &self.run);
        End {
            text,
            finish,
            usage: self.usage,
        }
    }
}

/// The text of an output: its response, or the value itself.
fn spoken(output: &Value) -> String {
    let text = output.get("response").unwrap_or(output).as_str();
    text.map_or_else(|| output.to_string(), str::to_owned)
}

fn question_text(asked: &Question) -> String {
    let choices = match asked.question.choices.as_slice() {
        [] => String::new(),
        choices => format!(" ({})", choices.join(", ")),
    };
    format!("{}{choices}", asked.question.prompt)
}

fn permission_text(wanted: &PermissionRequest) -> String {
    let arguments = json!(wanted.arguments);
    format!(
        "{} wants to call {} with {arguments}. Allow it? (yes, no)",
        wanted.agent, wanted.tool
    )
}
