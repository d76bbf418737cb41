//! What is known of runs.

use std::sync::Arc;

use ensemble_core::store::InnerRunName;
use ensemble_history::story::{FileRecords, model_exchanges};
use ensemble_reports::report::graph::{STYLE, svg};
use ensemble_runs::RunError;
use serde_json::{Value, json};

use super::Query;
use crate::app::App;
use crate::reply::Failure;

/// Most rows of one answer.
const ROWS: usize = 500;

/// All runs, the latest first.
pub(super) async fn list(app: &App) -> Result<Value, Failure> {
    Ok(json!({"runs": app.briefs.lock().await.list(&app.runs).await?}))
}

/// The program and its project.
pub(super) fn about(app: &App) -> Value {
    let folder = &app.runs.runs().project().folder;
    json!({"version": app.version, "folder": folder.display().to_string()})
}

/// A run without its rows.
pub(super) async fn head(app: &App, query: &Query) -> Result<Value, Failure> {
    Ok(app.watched(query.text("id")?).await?.head(&app.runs).await)
}

/// Rows of a run: `from`, `count`, and `whole` for whole texts.
pub(super) async fn rows(app: &App, query: &Query) -> Result<Value, Failure> {
    let watched = app.watched(query.text("id")?).await?;
    let (from, count): (usize, usize) = (query.number("from")?, query.number("count")?);
    let view = watched.view().await;
    let until = from.saturating_add(count.min(ROWS)).min(view.len());
    let rows = (from..until).filter_map(|at| match query.has("whole") {
        true => view.whole_row(at),
        false => view.row(at),
    });
    Ok(json!({"total": view.len(), "rows": rows.collect::<Vec<_>>()}))
}

/// An execution, by its turn and agent.
pub(super) async fn execution(app: &App, query: &Query) -> Result<Value, Failure> {
    let watched = app.watched(query.text("id")?).await?;
    let (turn, agent): (u32, &str) = (query.number("turn")?, query.text("agent")?);
    let mut detail = {
        let view = watched.view().await;
        let found = view.find(turn, agent).and_then(|at| view.detail(at));
        found.ok_or_else(|| Failure::missing(format!("{agent} did not run in turn {turn}")))?
    };
    let number = detail["execution"]["execution"].as_u64();
    let number = number.and_then(|number| u32::try_from(number).ok()).unwrap_or_default();
    let names = watched.run.names_inside().await.unwrap_or_default();
    let inside: Vec<&String> = names
        .iter()
        .filter(|name| InnerRunName::is_of(name, agent, number))
        .collect();
    detail["inside"] = json!(inside);
    Ok(detail)
}

/// The messages between an agent and its models in a turn, as the models received them.
pub(super) async fn messages(app: &App, query: &Query) -> Result<Value, Failure> {
    let watched = app.watched(query.text("id")?).await?;
    let (turn, agent): (u32, &str) = (query.number("turn")?, query.text("agent")?);
    let plan = watched.view().await.plan.clone();
    let plan = plan.ok_or_else(|| Failure::missing("the ensemble of this run cannot be read"))?;
    let records = watched.run.read_all().await?.records;
    let fold = move |records: &[_]| {
        let files = FileRecords::of(records);
        let exchanges = model_exchanges(records, &plan)?.into_iter();
        let described = exchanges.map(|exchange| (exchange.within.clone(), exchange.described(&files)));
        Ok::<Vec<_>, RunError>(described.collect())
    };
    let exchanges = tokio::task::spawn_blocking(move || fold(&records)).await;
    let exchanges = exchanges.map_err(|_| Failure::gone("the messages cannot be read"))??;
    let chosen = exchanges
        .into_iter()
        .filter(|(within, _)| within.turn == turn && *within.agent == *agent);
    Ok(chosen.map(|(_, described)| described).collect())
}

/// The graph of a run as SVG, after a `turn` if one is given. The page has its style: one inside a picture is not allowed there.
pub(super) async fn graph(app: &Arc<App>, query: &Query) -> Result<String, Failure> {
    let watched = app.watched(query.text("id")?).await?;
    let now = watched.view().await;
    let past = match query.has("turn") {
        true => Some(now.until(query.number("turn")?, &*watched.run).await?),
        false => None,
    };
    let view = past.as_ref().unwrap_or(&now);
    let plan = view
        .plan
        .as_ref()
        .ok_or_else(|| Failure::missing("the ensemble of this run cannot be read"))?;
    let mut picture = (app.picture)(plan.ensemble());
    view.draw_on(&mut picture);
    Ok(svg(&picture).replace(&format!("<style>\n{STYLE}</style>\n"), ""))
}
