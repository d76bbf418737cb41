//! The batches of the project: what their index and their last call say.
//!
//! Invariant: no journal is read.

use std::path::Path;

use ensemble_core::store::StoreError;
use ensemble_runs::batch::{self, BatchSummary};
use serde_json::{Value, json};

use super::RequestQuery;
use crate::app::UiApp;
use crate::reply::RequestFailure;

/// Lists all batches without their rows, the latest first.
pub(super) async fn list_batches(app: &UiApp) -> Result<Value, RequestFailure> {
    let document = read_batches(app, |root| {
        let mut batches = batch::list_batches(root)?;
        batches.sort_by_key(|batch| std::cmp::Reverse(batch.started_at));
        Ok(json!({"batches": batches.iter().map(BatchSummary::to_json).collect::<Vec<_>>()}))
    });
    document.await
}

/// Returns the batch `name` with its rows: each with its run, its status, the cause of a failure, and its open questions.
pub(super) async fn batch_rows(app: &UiApp, query: &RequestQuery) -> Result<Value, RequestFailure> {
    let name = query.required_text("name")?.to_owned();
    let missing = RequestFailure::not_found(format!("there is no batch {name}"));
    let document = read_batches(app, move |root| {
        let found = batch::find_batch(root, &name)?;
        Ok(found.map(|batch| {
            let mut document = batch.to_json();
            document["runs"] = batch.rows_to_json().into();
            document
        }))
    });
    document.await?.ok_or(missing)
}

/// Reads batches below the root of the project, on a blocking thread because an index can be long.
async fn read_batches<T: Send + 'static>(
    app: &UiApp,
    read: impl FnOnce(&Path) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, RequestFailure> {
    let project = app.runs.runs().project();
    let root = project.project_root(&project.folder);
    let join_result = tokio::task::spawn_blocking(move || read(&root)).await;
    let batches = join_result.map_err(|error| RequestFailure::unavailable(error.to_string()))?;
    batches.map_err(|error| RequestFailure::unavailable(error.to_string()))
}
