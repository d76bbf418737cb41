//! What is known of runs.

use std::sync::Arc;

use ensemble_core::store::NestedRunName;
use ensemble_history::story::{FileRecordNumbers, collect_model_exchanges};
use ensemble_reports::report::RunResult;
use ensemble_runs::{RecordedRun, RunError};
use serde_json::{Value, json};

use super::RequestQuery;
use crate::app::UiServerState;
use crate::reply::ApiFailure;
use crate::view::draw_for_page;

/// Most rows of one answer.
const MAX_RETURNED_ROWS: usize = 500;

/// Lists all runs, the latest first.
pub(super) async fn list_runs(app: &UiServerState) -> Result<Value, ApiFailure> {
    Ok(json!({"runs": app.briefs.lock().await.list_runs(&app.runs).await?}))
}

/// Returns the declared result of a run: `{result}`.
pub(super) async fn declared_run_result_json(app: &UiServerState, query: &RequestQuery) -> Result<Value, ApiFailure> {
    let watched = app.refresh_watched_run(query.required_text("id")?).await?;
    let recorded = RecordedRun::load(watched.run.clone(), app.runs.runs().project()).await?;
    if recorded.prepared.plan.ensemble().result.is_none() {
        return Err(ApiFailure::not_found("the ensemble of this run declares no `result`"));
    }
    Ok(json!({"result": RunResult(&recorded.state).result_value()}))
}

/// Returns the version of the program and the folder of the project.
pub(super) fn version_and_project_json(app: &UiServerState) -> Value {
    let folder = &app.runs.runs().project().folder;
    json!({"version": app.version, "folder": folder.display().to_string()})
}

/// Returns a run without its rows.
pub(super) async fn run_json_without_rows(app: &UiServerState, query: &RequestQuery) -> Result<Value, ApiFailure> {
    Ok(app
        .refresh_watched_run(query.required_text("id")?)
        .await?
        .json_without_rows(&app.runs)
        .await)
}

/// Returns `count` rows of a run, starting with row `from`, with whole texts if `whole` is given.
pub(super) async fn run_rows(app: &UiServerState, query: &RequestQuery) -> Result<Value, ApiFailure> {
    let watched = app.refresh_watched_run(query.required_text("id")?).await?;
    let (from, count): (usize, usize) = (query.required_number("from")?, query.required_number("count")?);
    let view = watched.lock_view().await;
    let until = from.saturating_add(count.min(MAX_RETURNED_ROWS)).min(view.len());
    let rows = (from..until).filter_map(|at| match query.contains("whole") {
        true => view.whole_row_json(at),
        false => view.short_row_json(at),
    });
    Ok(json!({"total": view.len(), "rows": rows.collect::<Vec<_>>()}))
}

/// Returns an execution, by its turn and agent.
pub(super) async fn execution_details(app: &UiServerState, query: &RequestQuery) -> Result<Value, ApiFailure> {
    let watched = app.refresh_watched_run(query.required_text("id")?).await?;
    let (turn, agent): (u32, &str) = (query.required_number("turn")?, query.required_text("agent")?);
    let mut detail = {
        let view = watched.lock_view().await;
        let execution_detail = view
            .find_execution_row(turn, agent)
            .and_then(|at| view.execution_detail_json(at));
        execution_detail.ok_or_else(|| ApiFailure::not_found(format!("{agent} did not run in turn {turn}")))?
    };
    let number = detail["execution"]["execution"].as_u64();
    let number = number.and_then(|number| u32::try_from(number).ok()).unwrap_or_default();
    let names = watched.run.list_nested_run_names().await.unwrap_or_default();
    let inside: Vec<&String> = names
        .iter()
        .filter(|name| NestedRunName::belongs_to_execution(name, agent, number))
        .collect();
    detail["inside"] = json!(inside);
    Ok(detail)
}

/// Returns the messages between an agent and its models in a turn, as the models received them.
pub(super) async fn execution_messages(app: &UiServerState, query: &RequestQuery) -> Result<Value, ApiFailure> {
    let watched = app.refresh_watched_run(query.required_text("id")?).await?;
    let (turn, agent): (u32, &str) = (query.required_number("turn")?, query.required_text("agent")?);
    let plan = watched.lock_view().await.plan.clone();
    let plan = plan.ok_or_else(|| ApiFailure::not_found("the ensemble of this run cannot be read"))?;
    let records = watched.run.read_journal().await?.records;
    let fold = move |records: &[_]| {
        let files = FileRecordNumbers::from_records(records);
        let exchanges = collect_model_exchanges(records, &plan)?.into_iter();
        let described = exchanges.map(|exchange| (exchange.scope.clone(), exchange.to_json(&files)));
        Ok::<Vec<_>, RunError>(described.collect())
    };
    let exchanges = tokio::task::spawn_blocking(move || fold(&records)).await;
    let exchanges = exchanges.map_err(|_| ApiFailure::unavailable("the messages cannot be read"))??;
    let selected_exchanges = exchanges
        .into_iter()
        .filter(|(within, _)| within.turn == turn && *within.agent == *agent);
    Ok(selected_exchanges.map(|(_, described)| described).collect())
}

/// Draws the graph of a run as SVG, up to a `turn` if one is given. The page contains the style.
pub(super) async fn draw_run_graph(app: &Arc<UiServerState>, query: &RequestQuery) -> Result<String, ApiFailure> {
    let watched = app.refresh_watched_run(query.required_text("id")?).await?;
    let now = watched.lock_view().await;
    let past = match query.contains("turn") {
        true => Some(
            now.load_view_until_turn(query.required_number("turn")?, &*watched.run)
                .await?,
        ),
        false => None,
    };
    let view = past.as_ref().unwrap_or(&now);
    let plan = view
        .plan
        .as_ref()
        .ok_or_else(|| ApiFailure::not_found("the ensemble of this run cannot be read"))?;
    let mut picture = (app.picture)(plan.ensemble());
    let state = watched.run_state(view, watched.driver_location(&app.runs), &app.runs);
    view.add_run_to_picture(&mut picture, state);
    // The layout of a large graph takes a while, in which the run is followed.
    drop(now);
    let drawn = tokio::task::spawn_blocking(move || draw_for_page(&picture)).await;
    drawn.map_err(|_| ApiFailure::unavailable("the graph cannot be drawn"))?
}
