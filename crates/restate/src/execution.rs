//! An execution of an agent, as a durable call.
//!
//! Invariant: what a call returned is in the engine's journal before the run goes on.

use ensemble_remote::protocol::{ExecutionWork, WorkResult};
use restate_sdk::prelude::*;

use crate::worker::RestateWorker;

/// Performs executions.
pub struct ExecutionService(pub RestateWorker);

#[restate_sdk::service(
    name = "EnsembleExecution",
    ingress_private,
    client_visibility = "pub(crate)",
    inactivity_timeout = "1 day",
    abort_timeout = "1 day",
    invocation_retry_policy(
        initial_interval = "50ms",
        factor = 2.0,
        max_interval = "5s",
        max_attempts = 4294967295
    )
)]
impl ExecutionService {
    /// Performs an execution, once for this call: what it did is in the engine's journal before the run goes on.
    #[handler]
    async fn perform(&self, ctx: Context<'_>, work: Json<ExecutionWork>) -> HandlerResult<Json<WorkResult>> {
        let call = ctx.invocation_id().to_owned();
        let work = work.into_inner();
        self.0.check_protocol(work.protocol)?;
        loop {
            self.0.refuse_while_draining(&call)?;
            // Who performs it is in the journal before it begins. A call that the engine repeats may come to another worker,
            // which waits there and does not begin the execution a second time.
            let claim = self.0.own_claim();
            let claim = ctx.run(|| async move { Ok(Json(claim)) }).name("claim").await?;
            let claim = claim.into_inner();
            let (worker, id, work) = (self.0.clone(), call.clone(), work.clone());
            let run_result = ctx
                .run(|| async move { Ok(Json(worker.perform_claimed(&claim, &id, work).await)) })
                .name("perform")
                .await;
            // It has ended; a lost connection does not come here.
            self.0.abort_execution(&call);
            // Without an end, the worker that had begun is lost.
            if let Some(work_result) = run_result?.into_inner() {
                return Ok(Json(work_result));
            }
        }
    }
}
