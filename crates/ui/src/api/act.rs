//! Runs that are started, answered, stopped and continued. What begins a run is done on the thread that drives runs.

use std::sync::Arc;

use ensemble_core::conversation::PermissionDecision;
use ensemble_core::request::{AnswerSource, RequestAddress, RequestAnswer, RequestDigest};
use ensemble_core::store::RunId;
use ensemble_history::RunState;
use ensemble_language::data::Context;
use ensemble_runs::service::run_service::RunService;
use ensemble_runs::{EnsembleRef, ReadyFork, RunOptions};
use serde_json::{Value, json};

use crate::app::App;
use crate::conversations::BY_PAGE;
use crate::reply::Failure;

/// A text that must be given.
fn wanted<'g>(given: &'g Value, name: &str) -> Result<&'g str, Failure> {
    given[name]
        .as_str()
        .ok_or_else(|| Failure::wrong(format!("`{name}` is missing")))
}

fn id_of(given: &Value) -> Result<RunId, Failure> {
    Ok(RunId::new(wanted(given, "id")?))
}

/// Starts a run: `{ensemble, input, values, answers, models}`.
pub(super) async fn start(app: &App, given: &Value) -> Result<Value, Failure> {
    let ensemble = EnsembleRef::file(wanted(given, "ensemble")?);
    let options = options(given);
    let runs = app.runs.clone();
    let id = app
        .driving(async move { runs.start(ensemble, options).await.map_err(Failure::from) })
        .await?;
    Ok(json!({"id": id}))
}

/// A text of `values` is what `--set` takes: JSON if it is JSON, else the text.
fn options(given: &Value) -> RunOptions {
    let mut options = RunOptions {
        input: given["input"].as_str().map(Arc::from),
        ..RunOptions::default()
    };
    for (key, value) in given["values"].as_object().into_iter().flatten() {
        options = match value.as_str() {
            Some(text) => options.set_text(key.as_str(), text),
            None => options.set(key.as_str(), value.clone()),
        };
    }
    for (agent, answer) in given["answers"].as_object().into_iter().flatten() {
        options = options.answer(agent.as_str(), answer.clone());
    }
    for model in given["models"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
    {
        options.models.push(model.to_owned());
    }
    options
}

/// Answers a question: `{id, address, digest, answer}`. A run that waits for it and that no process drives is resumed.
pub(super) async fn answer(app: &App, given: &Value) -> Result<Value, Failure> {
    let answer = RequestAnswer::Text(wanted(given, "answer")?.to_owned());
    answer_request(app, given, answer).await
}

/// Decides about a call: `{id, address, digest, decision}`.
pub(super) async fn permit(app: &App, given: &Value) -> Result<Value, Failure> {
    let word = wanted(given, "decision")?;
    let Some(decision) = PermissionDecision::from_word(word) else {
        return Err(Failure::wrong(format!("`{word}` is not `once`, `always` or `denied`")));
    };
    answer_request(app, given, RequestAnswer::Permission(decision)).await
}

/// Answers the request with the `address` and the `digest` that the page has shown.
async fn answer_request(app: &App, given: &Value, answer: RequestAnswer) -> Result<Value, Failure> {
    let id = id_of(given)?;
    let address: Result<RequestAddress, _> = wanted(given, "address")?.parse();
    let address = address.map_err(|error| Failure::wrong(error.to_string()))?;
    let digest = RequestDigest::new(wanted(given, "digest")?);
    let runs = app.runs.clone();
    app.driving(async move {
        let shown = (&address, &digest);
        let answered = runs.answer(&id, shown, answer, AnswerSource::Page, RunOptions::default());
        answered.await.map_err(Failure::from)
    })
    .await?;
    Ok(json!({}))
}

/// Stops a run that goes on here: `{id}`.
pub(super) async fn cancel(app: &App, given: &Value) -> Result<Value, Failure> {
    let (id, runs) = (id_of(given)?, app.runs.clone());
    app.driving(async move { runs.cancel(&id, BY_PAGE).await.map_err(Failure::from) })
        .await?;
    Ok(json!({}))
}

/// Goes on with a run that was cut short: `{id}`.
pub(super) async fn resume(app: &App, given: &Value) -> Result<Value, Failure> {
    let (id, runs) = (id_of(given)?, app.runs.clone());
    app.driving(async move { runs.resume(&id, RunOptions::default()).await.map_err(Failure::from) })
        .await?;
    Ok(json!({}))
}

/// Adds a message to a run that has ended: `{id, text}`.
pub(super) async fn say(app: &App, given: &Value) -> Result<Value, Failure> {
    let (id, text) = (id_of(given)?, wanted(given, "text")?.to_owned());
    let runs = app.runs.clone();
    app.driving(async move {
        let continued = runs.continue_with(&id, text, Context::default(), RunOptions::default());
        continued.await.map_err(Failure::from)
    })
    .await?;
    Ok(json!({}))
}

/// Starts a run with the records of another up to the end of a turn: `{id, turn, file}`.
pub(super) async fn fork(app: &App, given: &Value) -> Result<Value, Failure> {
    let id = id_of(given)?;
    let turn = turn_of(given)?;
    let file = given["file"].as_str().map(str::to_owned);
    let runs = app.runs.clone();
    let forked = app.driving(async move {
        let fork = runs
            .runs()
            .fork(&id, turn, Context::default(), file.as_deref(), RunOptions::default());
        begin(runs.clone(), fork.await.map_err(Failure::from)?).await
    });
    Ok(json!({"id": forked.await?}))
}

/// Repeats an execution and what followed from it, in a new run: `{id, turn, agent, file}`.
pub(super) async fn rerun(app: &App, given: &Value) -> Result<Value, Failure> {
    let (id, agent) = (id_of(given)?, wanted(given, "agent")?.to_owned());
    let turn = turn_of(given)?;
    let file = given["file"].as_str().map(str::to_owned);
    let runs = app.runs.clone();
    let forked = app.driving(async move {
        let fork = runs
            .runs()
            .rerun(&id, &agent, None, turn, file.as_deref(), RunOptions::default());
        begin(runs.clone(), fork.await.map_err(Failure::from)?).await
    });
    Ok(json!({"id": forked.await?}))
}

fn turn_of(given: &Value) -> Result<u32, Failure> {
    let turn = given["turn"].as_u64().and_then(|turn| u32::try_from(turn).ok());
    turn.ok_or_else(|| Failure::wrong("`turn` is missing"))
}

/// Begins a fork; what was said to the other run later on is said again, as long as the run ends well.
async fn begin(runs: RunService, fork: ReadyFork) -> Result<RunId, Failure> {
    let id = runs.begin(fork.ready).await.map_err(Failure::from)?;
    if !fork.messages.is_empty() {
        let (runs, id) = (runs, id.clone());
        tokio::spawn(async move {
            for text in fork.messages {
                runs.ended(&id).await;
                let summary = runs.summary(&id).await;
                let ended_well = summary.is_ok_and(|summary| match summary.state {
                    RunState::Ended(outcome) => outcome.is_continuable() && !outcome.is_resumable(),
                    _ => false,
                });
                let said = runs.continue_with(&id, text, Context::default(), RunOptions::default());
                if !ended_well || said.await.is_err() {
                    return;
                }
            }
        });
    }
    Ok(id)
}
