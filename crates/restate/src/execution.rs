//! Execution of an agent, as a durable call.
//!
//! Each step of the execution is an entry in the journal of its call: the claim of the worker that performs the execution, the records
//! before its end, and its end. A worker that continues the call continues from the records.
//!
//! Invariant: the result of a call is in the engine's journal before the run continues, and the records from which an execution continues
//! are in the journal of its call.

use ensemble_remote::protocol::{ExecutionWork, WorkResult};
use restate_sdk::prelude::*;

use crate::execution_output::{CalledWork, ExecutionStep};
use crate::peers::{StepRequest, WorkerClaim};
use crate::worker::RestateWorker;

/// Service that performs executions.
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
    /// Performs an execution once for this call. The engine's journal has the result before the run continues.
    #[handler]
    async fn perform(&self, ctx: Context<'_>, work: Json<ExecutionWork>) -> HandlerResult<Json<WorkResult>> {
        let work = work.into_inner();
        self.0.check_protocol(work.protocol)?;
        let call = ctx.invocation_id().to_owned();
        let mut called = CalledWork::new(work);
        loop {
            self.0.refuse_while_draining(&call)?;
            // Who performs it is in the journal before it begins. A call that the engine repeats may come to another worker,
            // which waits there and does not begin the execution a second time.
            let claim = self.0.own_claim();
            let claim = ctx.run(|| async move { Ok(Json(claim)) }).name("claim").await;
            let Ok(claim) = claim else {
                return Ok(Json(called.stopped_result()));
            };
            match self.follow_execution(&ctx, &claim.into_inner(), &mut called).await {
                ExecutionFate::Ended(result) => return Ok(Json(called.complete_result(*result))),
                ExecutionFate::Stopped => return Ok(Json(called.stopped_result())),
                // The worker that had begun is lost.
                ExecutionFate::Lost => {}
            }
        }
    }
}

/// End of the part of an execution that one worker performed.
enum ExecutionFate {
    Ended(Box<WorkResult>),
    /// The call was cancelled, and the worker that performed the execution is lost.
    Stopped,
    Lost,
}

impl ExecutionService {
    /// Takes the steps of an execution from the worker with the claim until the last step, and adds their records to `called`.
    async fn follow_execution(&self, ctx: &Context<'_>, claim: &WorkerClaim, called: &mut CalledWork) -> ExecutionFate {
        let call = ctx.invocation_id().to_owned();
        for number in 0.. {
            let next = self
                .take_step(ctx, claim, called, StepRequest::Next(number), "perform")
                .await;
            let is_cancelled = next.is_none();
            let step = match next {
                Some(step) => step,
                // The call was cancelled with the run: the execution stops, and leaves what it has.
                None => {
                    let rest = self
                        .take_step(ctx, claim, called, StepRequest::Rest(number), "rest")
                        .await;
                    rest.unwrap_or(ExecutionStep::Lost { has_begun: true })
                }
            };
            match step {
                ExecutionStep::Records(lines) => called.push_records(&lines),
                ExecutionStep::Ended(result) => {
                    // It has ended; a lost connection does not come here.
                    self.0.abort_execution(&call);
                    return ExecutionFate::Ended(result);
                }
                ExecutionStep::Lost { has_begun } => {
                    if has_begun && number == 0 {
                        called.lost_starts.push(claim.at);
                    }
                    return match is_cancelled {
                        true => ExecutionFate::Stopped,
                        false => ExecutionFate::Lost,
                    };
                }
            }
        }
        ExecutionFate::Lost
    }

    /// Takes a step and stores it in the journal of the call under `name`. Returns `None` if the call was cancelled.
    async fn take_step(
        &self,
        ctx: &Context<'_>,
        claim: &WorkerClaim,
        called: &CalledWork,
        request: StepRequest,
        name: &str,
    ) -> Option<ExecutionStep> {
        let (worker, claim, called) = (self.0.clone(), claim.clone(), called.clone());
        let call = ctx.invocation_id().to_owned();
        let step = ctx
            .run(|| async move { Ok(Json(worker.take_step(&claim, &call, called, request).await)) })
            .name(name)
            .await;
        Some(step.ok()?.into_inner())
    }
}
