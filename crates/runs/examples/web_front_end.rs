//! A web server around [`RunService`]: it starts runs, lists them, streams their events, answers their questions and cancels
//! them.
//!
//! ```sh
//! cargo run -p ensemble-runs --example web_front_end
//! curl -d '{"input": "the sea"}' -H 'content-type: application/json' localhost:8787/runs
//! curl -N localhost:8787/runs/ID/events
//! ```
//!
//! It listens on the loopback address only, because it has no authentication.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use ensemble_core::conversation::Event as RecordedEvent;
use ensemble_core::request::{AnswerSource, PendingRequest, RequestAddress, RequestAnswer, RequestDigest};
use ensemble_core::store::{MemoryStore, RunId, StoreError};
use ensemble_history::RunSummary;
use ensemble_runs::service::run_service::RunService;
use ensemble_runs::{EnsembleRef, LiveEventKind, Project, RunError, RunEvent, RunEventKind, RunHost, RunOptions, Runs};
use futures_util::{Stream, StreamExt};
use serde::{Deserialize, Serialize};

const GATE: &str = r#"
name: gate
model_profiles:
  drafts: {provider: simulated, replies: ["A short text about the sea."]}
agents:
  - {name: writer, model_profile: drafts, prompt: "Write about {{ input }}."}
  - {name: editor, input: {prompt: "Print it?", choices: ["yes", "no"]}, depends_on: [writer]}
"#;

/// Returns the addresses of the server.
pub(crate) fn create_router() -> Router {
    let runs =
        Runs::for_project(Project::from_folder("."), RunHost::from_system()).with_store(Arc::new(MemoryStore::new()));
    Router::new()
        .route("/runs", post(start_run).get(list_runs))
        .route("/runs/{id}", get(show_run).delete(cancel_run))
        .route("/runs/{id}/events", get(stream_events))
        .route("/runs/{id}/requests", get(list_requests))
        .route("/runs/{id}/answers", post(answer_request))
        .with_state(RunService::new(runs))
}

#[derive(Deserialize)]
struct StartBody {
    input: String,
}

#[derive(Serialize)]
struct StartedRun {
    id: RunId,
}

async fn start_run(service: State<RunService>, body: Json<StartBody>) -> Result<Json<StartedRun>, HttpError> {
    let options = RunOptions::default().with_input(body.0.input);
    let id = service.start_run(EnsembleRef::from_text(GATE), options).await?;
    Ok(Json(StartedRun { id }))
}

async fn list_runs(service: State<RunService>) -> Result<Json<Vec<RunSummary>>, HttpError> {
    let summaries = service.load_latest_summaries(100).await?;
    Ok(Json(summaries.into_iter().filter_map(Result::ok).collect()))
}

async fn show_run(service: State<RunService>, id: Path<String>) -> Result<Json<RunSummary>, HttpError> {
    Ok(Json(service.load_summary(&parse_id(&id)?).await?))
}

async fn cancel_run(service: State<RunService>, id: Path<String>) -> Result<StatusCode, HttpError> {
    service.cancel_run(&parse_id(&id)?, "the web page").await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn list_requests(service: State<RunService>, id: Path<String>) -> Result<Json<Vec<PendingRequest>>, HttpError> {
    Ok(Json(service.load_pending_requests(&parse_id(&id)?).await?))
}

/// The answer to a request that was shown: its address and its digest are those of the shown request.
#[derive(Deserialize)]
struct AnswerBody {
    address: RequestAddress,
    digest: RequestDigest,
    answer: String,
}

async fn answer_request(
    service: State<RunService>,
    id: Path<String>,
    Json(body): Json<AnswerBody>,
) -> Result<StatusCode, HttpError> {
    let answer = RequestAnswer::Text(body.answer);
    let (shown, options) = ((&body.address, &body.digest), RunOptions::default());
    service
        .answer_or_resume(&parse_id(&id)?, shown, answer, AnswerSource::Page, options)
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn stream_events(
    service: State<RunService>,
    id: Path<String>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, HttpError> {
    let events = service.follow_run(&parse_id(&id)?, 0).await?;
    let messages = events.filter_map(async |event| match event {
        Ok(event) => describe_event(&event).map(Ok),
        Err(error) => Some(Ok(Event::default().event("error").data(error.to_string()))),
    });
    Ok(Sse::new(messages).keep_alive(KeepAlive::default()))
}

/// Returns the server-sent event of an event of a run; `None` for those that the page does not show.
fn describe_event(event: &RunEvent) -> Option<Event> {
    let (name, text) = match &event.kind {
        RunEventKind::Committed(record) => match &record.event {
            RecordedEvent::RunEnded(end) => ("ended", end.completion_reason.to_string()),
            other => ("record", other.event_name().to_owned()),
        },
        RunEventKind::Live(live) => match &live.kind {
            LiveEventKind::Text(text) => ("text", text.clone()),
            _ => return None,
        },
        RunEventKind::QuestionAsked(asked) => ("question", asked.request.address.to_string()),
        RunEventKind::PermissionRequested(asked) => ("permission", asked.tool.to_string()),
    };
    // A line break in a text becomes a second `data:` line, which the browser joins again.
    Some(Event::default().event(name).data(text))
}

fn parse_id(id: &str) -> Result<RunId, HttpError> {
    RunId::parse(id).map_err(|error| HttpError(StatusCode::NOT_FOUND, error.to_string()))
}

/// A status with a text for the client.
struct HttpError(StatusCode, String);

impl<E: Into<RunError>> From<E> for HttpError {
    fn from(error: E) -> Self {
        let error = error.into();
        let status = match &error {
            RunError::Store(StoreError::Unknown { .. }) => StatusCode::NOT_FOUND,
            // The request is decided, or is not the one that the client has seen.
            RunError::Answer(_) | RunError::NotAsked(_) => StatusCode::CONFLICT,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self(status, error.to_string())
    }
}

impl IntoResponse for HttpError {
    fn into_response(self) -> Response {
        (self.0, self.1).into_response()
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:8787").await?;
    axum::serve(listener, create_router()).await
}
