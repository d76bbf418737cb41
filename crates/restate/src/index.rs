//! Ids of runs by day, and the version of the worker that answers.
//!
//! Invariant: the index helps to list runs, and no run needs the index.

use ensemble_remote::protocol::{DAYS, WorkerVersion};
use restate_sdk::prelude::*;

use crate::fault_injection;

/// Index of the state entry that says that the index of days contains this day. It is no id.
const LISTED: &str = "(listed)";

/// The ids of the runs of a day, or of the days that have runs.
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
    /// Adds the id to the index. The first id of a day adds the day to the index of days.
    #[handler]
    async fn add(&self, ctx: ObjectContext<'_>, id: String) -> HandlerResult<()> {
        ctx.set(&id, true);
        if ctx.key() != DAYS && ctx.get::<bool>(LISTED).await?.is_none() {
            ctx.set(LISTED, true);
            ctx.object_client::<RunIndexClient>(DAYS)
                .add(ctx.key().to_owned())
                .send();
        }
        Ok(())
    }

    /// Returns all ids of the index.
    #[handler]
    async fn ids(&self, ctx: SharedObjectContext<'_>) -> HandlerResult<Json<Vec<String>>> {
        let mut ids = ctx.get_keys().await?;
        ids.retain(|id| id != LISTED);
        Ok(Json(ids))
    }

    /// Returns the version and the protocol of the worker that answers.
    #[handler]
    async fn worker(&self, _ctx: SharedObjectContext<'_>) -> HandlerResult<Json<WorkerVersion>> {
        Ok(Json(fault_injection::own_version()))
    }
}
