//! An execution of an agent, as a durable call.

use ensemble_remote::protocol::{Done, Work};
use restate_sdk::prelude::*;

use crate::worker::Worker;

/// Performs executions.
pub struct Execution(pub Worker);

#[restate_sdk::service(
    name = "EnsembleExecution",
    ingress_private,
    client_visibility = "pub(crate)",
    inactivity_timeout = "1 day",
    abort_timeout = "1 day",
    invocation_retry_policy(initial_interval = "50ms", factor = 2.0, max_interval = "5s")
)]
impl Execution {
    /// Performs an execution, once for this call: what it did is in the engine's journal before the run goes on.
    #[handler]
    async fn perform(&self, ctx: Context<'_>, work: Json<Work>) -> HandlerResult<Json<Done>> {
        let call = ctx.invocation_id().to_owned();
        let (worker, id) = (self.0.clone(), call.clone());
        let done = ctx
            .run(|| async move { Ok(Json(worker.perform(&id, work.into_inner()).await)) })
            .name("perform")
            .await;
        // It has ended; a lost connection does not come here.
        self.0.forget(&call);
        Ok(done?)
    }
}
