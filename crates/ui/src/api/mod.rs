//! What the page asks for, and what it wants done.
//!
//! Invariant: it decides nothing; `runs::service` does.

mod act;
mod ensembles;
mod query;
mod replay;
mod runs;
mod stream;

use std::sync::Arc;

use serde_json::Value;

use crate::app::App;
use crate::chat;
use crate::design;
use crate::reply::{self, Failure, Reply};

pub(crate) use query::Query;

/// Answers a question. Nothing changes.
pub(crate) async fn read(app: &Arc<App>, path: &str, query: &Query) -> Result<Reply, Failure> {
    if let Some(reply) = design::read(app, path, query.text("file").ok()).await? {
        return Ok(reply);
    }
    Ok(match path {
        "/api/about" => reply::json(&runs::about(app)),
        "/api/runs" => reply::json(&runs::list(app).await?),
        "/api/run" => reply::json(&runs::head(app, query).await?),
        "/api/rows" => reply::json(&runs::rows(app, query).await?),
        "/api/execution" => reply::json(&runs::execution(app, query).await?),
        "/api/messages" => reply::json(&runs::messages(app, query).await?),
        "/api/graph" => reply::picture(runs::graph(app, query).await?),
        "/api/events" => stream::of_run(app.watched(query.text("id")?).await?, app.runs.clone()).await,
        "/api/ensembles" => reply::json(&ensembles::list(app)),
        "/v1/models" => reply::json(&chat::models(app)),
        _ => match path.strip_prefix("/v1/models/") {
            Some(name) => reply::json(&chat::one_model(app, name)?),
            None => return Err(unknown(path)),
        },
    })
}

/// Does what is asked for.
pub(crate) async fn act(app: &Arc<App>, path: &str, given: &Value) -> Result<Reply, Failure> {
    if let Some(reply) = design::act(app, path, given).await? {
        return Ok(reply);
    }
    let done = match path {
        "/v1/chat/completions" => return chat::complete(app, given).await,
        "/api/start" => act::start(app, given).await?,
        "/api/answer" => act::answer(app, given).await?,
        "/api/permit" => act::permit(app, given).await?,
        "/api/cancel" => act::cancel(app, given).await?,
        "/api/resume" => act::resume(app, given).await?,
        "/api/say" => act::say(app, given).await?,
        "/api/fork" => act::fork(app, given).await?,
        "/api/rerun" => act::rerun(app, given).await?,
        "/api/replay" => replay::replay(app, given).await?,
        _ => return Err(unknown(path)),
    };
    Ok(reply::json(&done))
}

fn unknown(path: &str) -> Failure {
    Failure::missing(format!("there is nothing at {path}"))
}
