//! Ids of runs by day, and the version of the worker that answers.
//!
//! Invariant: the index helps to list runs, and no run needs the index.

use ensemble_remote::protocol::WorkerVersion;
use restate_sdk::prelude::*;

use crate::fault_injection;

/// Index of the ids of the runs of a day, or of the days that have runs.
pub struct RunIndex;

#[restate_sdk::object(
    name = "EnsembleIndex",
    lazy_state,
    client_visibility = "pub(crate)",
    invocation_retry_policy(
        initial_interval = "50ms",
        factor = 2.0,
        max_interval = "5s",
        max_attempts = 4294967295
    )
)]
impl RunIndex {
    /// Adds the id to the index.
    #[handler]
    async fn add(&self, ctx: ObjectContext<'_>, id: String) -> HandlerResult<()> {
        ctx.set(&id, true);
        Ok(())
    }

    /// Returns all ids of the index.
    #[handler]
    async fn ids(&self, ctx: SharedObjectContext<'_>) -> HandlerResult<Json<Vec<String>>> {
        Ok(Json(ctx.get_keys().await?))
    }

    /// Returns the version and the protocol of the worker that answers.
    #[handler]
    async fn worker(&self, _ctx: SharedObjectContext<'_>) -> HandlerResult<Json<WorkerVersion>> {
        Ok(Json(fault_injection::own_version()))
    }
}
