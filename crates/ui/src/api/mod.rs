//! What the page asks for, and what it wants done.
//!
//! Invariant: it decides nothing; `runs::service` does.

mod actions;
mod batches;
mod ensembles;
mod query;
mod replay;
mod run_stream;
mod runs;
mod usable_ensemble;

use std::sync::Arc;

use serde_json::Value;

use crate::app::UiServerState;
use crate::chat;
use crate::design;
use crate::reply::{self, ApiFailure, UiReply};

pub(crate) use query::RequestQuery;

/// Answers a GET request, which changes nothing.
pub(crate) async fn answer_api_get(
    app: &Arc<UiServerState>,
    path: &str,
    query: &RequestQuery,
) -> Result<UiReply, ApiFailure> {
    if let Some(reply) = design::answer_design_get(app, path, query.required_text("file").ok()).await? {
        return Ok(reply);
    }
    Ok(match path {
        "/api/about" => reply::json_reply(&runs::version_and_project_json(app)),
        "/api/runs" => reply::json_reply(&runs::list_runs(app).await?),
        "/api/batches" => reply::json_reply(&batches::list_batches(app).await?),
        "/api/batch" => reply::json_reply(&batches::batch_with_rows(app, query).await?),
        "/api/result" => reply::json_reply(&runs::declared_run_result_json(app, query).await?),
        "/api/run" => reply::json_reply(&runs::run_json_without_rows(app, query).await?),
        "/api/rows" => reply::json_reply(&runs::run_rows(app, query).await?),
        "/api/execution" => reply::json_reply(&runs::execution_details(app, query).await?),
        "/api/messages" => reply::json_reply(&runs::execution_messages(app, query).await?),
        "/api/graph" => reply::picture_reply(runs::draw_run_graph(app, query).await?),
        "/api/events" => {
            run_stream::stream_run(
                app.refresh_watched_run(query.required_text("id")?).await?,
                app.runs.clone(),
            )
            .await
        }
        "/api/ensembles" => reply::json_reply(&app.run_blocking(|app| Ok(ensembles::ensembles_to_json(app))).await?),
        "/v1/models" => reply::json_reply(&app.run_blocking(|app| Ok(chat::list_ensemble_models(app))).await?),
        _ => match path.strip_prefix("/v1/models/") {
            Some(name) => {
                let name = name.to_owned();
                reply::json_reply(&app.run_blocking(move |app| chat::ensemble_model(app, &name)).await?)
            }
            None => return Err(unknown_path_failure(path)),
        },
    })
}

/// Performs the action of a POST request.
pub(crate) async fn answer_api_post(
    app: &Arc<UiServerState>,
    path: &str,
    given: &Value,
) -> Result<UiReply, ApiFailure> {
    if let Some(reply) = design::answer_design_post(app, path, given).await? {
        return Ok(reply);
    }
    let reply_document = match path {
        "/v1/chat/completions" => return chat::complete_chat(app, given).await,
        "/api/start" => actions::start_run(app, given).await?,
        "/api/answer" => actions::answer_question(app, given).await?,
        "/api/permit" => actions::decide_permission(app, given).await?,
        "/api/cancel" => actions::cancel_run(app, given).await?,
        "/api/resume" => actions::resume_interrupted_run(app, given).await?,
        "/api/say" => actions::continue_ended_run(app, given).await?,
        "/api/fork" => actions::start_forked_run(app, given).await?,
        "/api/rerun" => actions::rerun_execution_in_new_run(app, given).await?,
        "/api/replay" => replay::replay_decisions(app, given).await?,
        _ => return Err(unknown_path_failure(path)),
    };
    Ok(reply::json_reply(&reply_document))
}

/// Creates the failure of an unknown path.
fn unknown_path_failure(path: &str) -> ApiFailure {
    ApiFailure::not_found(format!("there is nothing at {path}"))
}
