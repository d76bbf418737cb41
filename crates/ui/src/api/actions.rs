//! Runs that are started, answered, stopped and continued. What begins a run is done on the thread that drives runs.

use std::sync::Arc;

use ensemble_core::conversation::PermissionDecision;
use ensemble_core::request::{AnswerAuthor, AnswerSource, RequestAddress, RequestAnswer, RequestDigest};
use ensemble_core::store::RunId;
use ensemble_history::RunState;
use ensemble_language::data::RunContext;
use ensemble_runs::service::run_service::RunService;
use ensemble_runs::{EnsembleRef, PreparedFork, RunOptions};
use serde_json::{Value, json};

use super::usable_ensemble::{check_usable_ensemble, checked_file_argument};
use crate::app::UiServerState;
use crate::conversations::CANCELLED_BY_PAGE;
use crate::reply::ApiFailure;

/// Returns the text under this key. Fails if it is missing.
fn required_text<'g>(given: &'g Value, name: &str) -> Result<&'g str, ApiFailure> {
    given[name]
        .as_str()
        .ok_or_else(|| ApiFailure::bad_request(format!("`{name}` is missing")))
}

/// Parses the id of a run under the key `id`.
pub(super) fn parse_run_id(given: &Value) -> Result<RunId, ApiFailure> {
    RunId::parse(required_text(given, "id")?).map_err(|error| ApiFailure::not_found(error.to_string()))
}

/// Starts a run: `{ensemble, input, values, answers, user, models}`.
pub(super) async fn start_run(app: &Arc<UiServerState>, given: &Value) -> Result<Value, ApiFailure> {
    let named = required_text(given, "ensemble")?;
    check_usable_ensemble(app, named).await?;
    let ensemble = EnsembleRef::from_file_or_name(named);
    let options = parse_run_options(given);
    let runs = app.runs.clone();
    let id = app
        .run_on_driver_thread(async move { runs.start_run(ensemble, options).await.map_err(ApiFailure::from) })
        .await?;
    Ok(json!({"id": id}))
}

/// Parses the options of a run. A text in `values` is parsed like `--set`: as JSON if possible, otherwise as text.
fn parse_run_options(given: &Value) -> RunOptions {
    let mut options = RunOptions {
        input: given["input"].as_str().map(Arc::from),
        ..RunOptions::default()
    };
    for (key, value) in given["values"].as_object().into_iter().flatten() {
        options = match value.as_str() {
            Some(text) => options.with_text_value(key.as_str(), text),
            None => options.with_input_value(key.as_str(), value.clone()),
        };
    }
    for (agent, answer) in given["answers"].as_object().into_iter().flatten() {
        options
            .answers
            .insert_answer_by(agent.as_str(), answer.clone(), parse_answer_author(given));
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

/// Creates the author of answers from the page, with the name under `user`.
fn parse_answer_author(given: &Value) -> AnswerAuthor {
    AnswerAuthor::with_visible_user(AnswerSource::Page, given["user"].as_str().unwrap_or_default())
}

/// Answers a question: `{id, address, digest, answer, user}`. Resumes a waiting run that no process drives.
pub(super) async fn answer_question(app: &UiServerState, given: &Value) -> Result<Value, ApiFailure> {
    let answer = RequestAnswer::Text(required_text(given, "answer")?.to_owned());
    answer_shown_request(app, given, answer).await
}

/// Sends the decision about a call: `{id, address, digest, decision, user}`.
pub(super) async fn decide_permission(app: &UiServerState, given: &Value) -> Result<Value, ApiFailure> {
    let word = required_text(given, "decision")?;
    let Some(decision) = PermissionDecision::from_journal_word(word) else {
        return Err(ApiFailure::bad_request(format!(
            "`{word}` is not `once`, `always` or `denied`"
        )));
    };
    answer_shown_request(app, given, RequestAnswer::Permission(decision)).await
}

/// Answers the request with the `address` and the `digest` that the page has shown.
async fn answer_shown_request(app: &UiServerState, given: &Value, answer: RequestAnswer) -> Result<Value, ApiFailure> {
    let id = parse_run_id(given)?;
    let address: Result<RequestAddress, _> = required_text(given, "address")?.parse();
    let address = address.map_err(|error| ApiFailure::bad_request(error.to_string()))?;
    let digest = RequestDigest::new(required_text(given, "digest")?);
    let (runs, by) = (app.runs.clone(), parse_answer_author(given));
    app.run_on_driver_thread(async move {
        let shown_request = (&address, &digest);
        let answered = runs.answer_or_resume(&id, shown_request, answer, by, RunOptions::default());
        answered.await.map_err(ApiFailure::from)
    })
    .await?;
    Ok(json!({}))
}

/// Cancels a run of this process: `{id}`.
pub(super) async fn cancel_run(app: &UiServerState, given: &Value) -> Result<Value, ApiFailure> {
    let (id, runs) = (parse_run_id(given)?, app.runs.clone());
    app.run_on_driver_thread(async move { runs.cancel_run(&id, CANCELLED_BY_PAGE).await.map_err(ApiFailure::from) })
        .await?;
    Ok(json!({}))
}

/// Fails if the run is running. `consequence` is a part of the error.
fn check_not_running(runs: &RunService, id: &RunId, consequence: &str) -> Result<(), ApiFailure> {
    match runs.is_driven_here(id) {
        true => Err(ApiFailure::conflict(format!(
            "run {id} has not ended, so {consequence}; stop it, or wait for its end"
        ))),
        false => Ok(()),
    }
}

/// Resumes an interrupted run: `{id}`.
pub(super) async fn resume_interrupted_run(app: &UiServerState, given: &Value) -> Result<Value, ApiFailure> {
    let (id, runs) = (parse_run_id(given)?, app.runs.clone());
    check_not_running(&runs, &id, "there is nothing to resume")?;
    app.run_on_driver_thread(async move {
        runs.resume_run(&id, RunOptions::default())
            .await
            .map_err(ApiFailure::from)
    })
    .await?;
    Ok(json!({}))
}

/// Adds a message to a run that has ended: `{id, text}`.
pub(super) async fn continue_ended_run(app: &UiServerState, given: &Value) -> Result<Value, ApiFailure> {
    let (id, text) = (parse_run_id(given)?, required_text(given, "text")?.to_owned());
    let runs = app.runs.clone();
    check_not_running(&runs, &id, "no message can be added")?;
    app.run_on_driver_thread(async move {
        let continued = runs.continue_with_message(&id, text, RunContext::default(), RunOptions::default());
        continued.await.map_err(ApiFailure::from)
    })
    .await?;
    Ok(json!({}))
}

/// Starts a run with the records of another one up to the end of a turn: `{id, turn, file}`.
pub(super) async fn start_forked_run(app: &Arc<UiServerState>, given: &Value) -> Result<Value, ApiFailure> {
    let id = parse_run_id(given)?;
    let turn = parse_turn(given)?;
    let file = checked_file_argument(app, given).await?;
    let runs = app.runs.clone();
    let forked = app.run_on_driver_thread(async move {
        let fork = runs
            .runs()
            .prepare_fork(&id, turn, RunContext::default(), file.as_deref(), RunOptions::default());
        start_fork_with_messages(runs.clone(), fork.await.map_err(ApiFailure::from)?).await
    });
    Ok(json!({"id": forked.await?}))
}

/// Repeats an execution and what followed from it, in a new run: `{id, turn, agent, part, file}`.
pub(super) async fn rerun_execution_in_new_run(app: &Arc<UiServerState>, given: &Value) -> Result<Value, ApiFailure> {
    let (id, agent) = (parse_run_id(given)?, required_text(given, "agent")?.to_owned());
    let turn = parse_turn(given)?;
    let file = checked_file_argument(app, given).await?;
    let part = given["part"].as_str().map(str::to_owned);
    let runs = app.runs.clone();
    let forked = app.run_on_driver_thread(async move {
        let fork = runs.runs().prepare_rerun(
            &id,
            &agent,
            part.as_deref(),
            turn,
            file.as_deref(),
            RunOptions::default(),
        );
        start_fork_with_messages(runs.clone(), fork.await.map_err(ApiFailure::from)?).await
    });
    Ok(json!({"id": forked.await?}))
}

/// Parses the number of a turn.
fn parse_turn(given: &Value) -> Result<u32, ApiFailure> {
    let turn = given["turn"].as_u64().and_then(|turn| u32::try_from(turn).ok());
    turn.ok_or_else(|| ApiFailure::bad_request("`turn` is missing"))
}

/// Starts a fork. Adds the later messages of the other run, as long as the fork ends successfully.
async fn start_fork_with_messages(runs: RunService, fork: PreparedFork) -> Result<RunId, ApiFailure> {
    let id = runs.start_prepared_run(fork.ready).await.map_err(ApiFailure::from)?;
    if !fork.messages.is_empty() {
        let (runs, id) = (runs, id.clone());
        tokio::spawn(async move {
            for text in fork.messages {
                runs.wait_until_closed(&id).await;
                let summary = runs.load_summary(&id).await;
                let ended_well = summary.is_ok_and(|summary| match summary.state {
                    RunState::Ended(outcome) => outcome.is_continuable() && !outcome.is_resumable(),
                    _ => false,
                });
                let continuation = runs.continue_with_message(&id, text, RunContext::default(), RunOptions::default());
                if !ended_well || continuation.await.is_err() {
                    return;
                }
            }
        });
    }
    Ok(id)
}
