//! An execution of an agent, as a durable call.

use ensemble_remote::protocol::{Done, Work};
use futures_util::poll;
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
    /// Performs an execution. What it did is in the engine's journal before the run goes on.
    #[handler]
    async fn perform(&self, ctx: Context<'_>, work: Json<Work>) -> HandlerResult<Json<Done>> {
        let call = ctx.invocation_id().to_owned();
        let (id, done) = ctx.awakeable::<Json<Done>>();
        let mut done = std::pin::pin!(done);
        // Not a journaled action, since such an action cannot be cancelled: where the journal has no end of the execution,
        // each try of the call begins it, unless it goes on in this worker.
        if poll!(&mut done).is_pending() {
            self.0.begin(&call, id, work.into_inner());
        }
        let done = done.await;
        // It has ended or was cancelled; a lost connection does not come here.
        self.0.forget(&call);
        Ok(done?)
    }
}
