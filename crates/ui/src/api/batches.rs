//! The batches of the project: what their index and their last call say.
//!
//! Invariant: no journal is read.

use ensemble_runs::batch::{self, BatchSummary};
use serde_json::{Value, json};

use super::RequestQuery;
use crate::app::UiApp;
use crate::reply::RequestFailure;

/// Returns all batches without their rows, the latest first.
pub(super) fn list_batches(app: &UiApp) -> Result<Value, RequestFailure> {
    let mut batches = load_batches(app)?;
    batches.sort_by_key(|batch| std::cmp::Reverse(batch.started_at));
    Ok(json!({"batches": batches.iter().map(BatchSummary::to_json).collect::<Vec<_>>()}))
}

/// Returns the batch `name` with its rows: each with its run, which `/api/run` accepts, its standing, the cause of a
/// failure, and its open questions.
pub(super) fn batch_rows(app: &UiApp, query: &RequestQuery) -> Result<Value, RequestFailure> {
    let name = query.required_text("name")?;
    let found = load_batches(app)?.into_iter().find(|batch| batch.name == name);
    let batch = found.ok_or_else(|| RequestFailure::not_found(format!("there is no batch {name}")))?;
    let mut document = batch.to_json();
    document["runs"] = batch.rows_to_json().into();
    Ok(document)
}

fn load_batches(app: &UiApp) -> Result<Vec<BatchSummary>, RequestFailure> {
    let project = app.runs.runs().project();
    let batches = batch::list_batches(&project.project_root(&project.folder));
    batches.map_err(|error| RequestFailure::unavailable(error.to_string()))
}
