//! The batches of the project: what their index and their last call say.
//!
//! Invariant: no journal is read.

use std::path::Path;

use ensemble_core::store::StoreError;
use ensemble_runs::batch::{self, BatchSummary};
use serde_json::{Value, json};

use super::RequestQuery;
use crate::app::UiServerState;
use crate::reply::ApiFailure;

/// Lists all batches without their rows, the latest first.
pub(super) async fn list_batches(app: &UiServerState) -> Result<Value, ApiFailure> {
    let document = read_batches_blocking(app, |root| {
        let mut batches = batch::list_batches(root)?;
        batches.sort_by_key(|batch| std::cmp::Reverse(batch.started_at));
        Ok(json!({"batches": batches.iter().map(BatchSummary::to_json_without_rows).collect::<Vec<_>>()}))
    });
    document.await
}

/// Returns the batch `name` with its rows: each with its run, its status, the cause of a failure, and its open questions.
pub(super) async fn batch_with_rows(app: &UiServerState, query: &RequestQuery) -> Result<Value, ApiFailure> {
    let name = query.required_text("name")?.to_owned();
    let missing = ApiFailure::not_found(format!("there is no batch {name}"));
    let document = read_batches_blocking(app, move |root| {
        let found = batch::find_batch(root, &name)?;
        Ok(found.map(|batch| {
            let mut document = batch.to_json_without_rows();
            document["runs"] = batch.rows_to_json().into();
            document
        }))
    });
    document.await?.ok_or(missing)
}

/// Reads batches below the root of the project, on a blocking thread because an index can be long.
async fn read_batches_blocking<T: Send + 'static>(
    app: &UiServerState,
    read: impl FnOnce(&Path) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, ApiFailure> {
    let project = app.runs.runs().project();
    let root = project.project_root(&project.folder);
    let join_result = tokio::task::spawn_blocking(move || read(&root)).await;
    let batches = join_result.map_err(|error| ApiFailure::unavailable(error.to_string()))?;
    batches.map_err(|error| ApiFailure::unavailable(error.to_string()))
}
