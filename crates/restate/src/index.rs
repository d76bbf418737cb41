//! The ids of runs, by day.
//!
//! Invariant: it is a help for listing; no run needs it.

use restate_sdk::prelude::*;

/// The ids of the runs of a day, or the days that have runs.
pub struct RunIndex;

#[restate_sdk::object(name = "EnsembleIndex", lazy_state, client_visibility = "pub(crate)")]
impl RunIndex {
    /// Adds an id.
    #[handler]
    async fn add(&self, ctx: ObjectContext<'_>, id: String) -> HandlerResult<()> {
        ctx.set(&id, true);
        Ok(())
    }

    /// Returns all ids.
    #[handler]
    async fn ids(&self, ctx: SharedObjectContext<'_>) -> HandlerResult<Json<Vec<String>>> {
        Ok(Json(ctx.get_keys().await?))
    }
}
