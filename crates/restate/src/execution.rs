//! Execution of an agent, as a durable call.
//!
//! Each step of the execution is an entry in the journal of its call: the claim of the worker that performs the execution, the records
//! before its end, and its end. A worker that continues the call continues from the records.
//!
//! Invariant: the result of a call is in the engine's journal before the run continues, and the records from which an execution continues
//! are in the journal of its call.

use ensemble_remote::protocol::{ExecutionCallResult, ExecutionRequest};
use restate_sdk::prelude::*;

use crate::execution_output::{ExecutionStep, JournaledExecution};
use crate::peers::{ExecutionClaim, StepRequest};
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
    async fn perform(
        &self,
        ctx: Context<'_>,
        work: Json<ExecutionRequest>,
    ) -> HandlerResult<Json<ExecutionCallResult>> {
        let work = work.into_inner();
        self.0.check_run_protocol(work.protocol)?;
        let call = ctx.invocation_id().to_owned();
        let mut called = JournaledExecution::new(work);
        loop {
            self.0.refuse_while_draining(&call)?;
            // Who performs it is in the journal before it begins. A call that the engine repeats may come to another worker,
            // which waits there and does not begin the execution a second time.
            let claim = self.0.claim_now();
            let claim = ctx.run(|| async move { Ok(Json(claim)) }).name("claim").await;
            let Ok(claim) = claim else {
                return Ok(Json(called.into_stopped_result()));
            };
            match self.take_steps_until_end(&ctx, &claim.into_inner(), &mut called).await {
                ClaimedExecutionEnd::Ended(result) => return Ok(Json(called.into_complete_result(*result))),
                ClaimedExecutionEnd::Stopped => return Ok(Json(called.into_stopped_result())),
                // The worker that had begun is lost.
                ClaimedExecutionEnd::Lost => {}
            }
        }
    }
}

/// End of the part of an execution that one worker performed.
enum ClaimedExecutionEnd {
    Ended(Box<ExecutionCallResult>),
    /// The call was cancelled, and the worker that performed the execution is lost.
    Stopped,
    Lost,
}

impl ExecutionService {
    /// Takes the steps of an execution from the worker with the claim until the last step, and adds their records to `called`.
    async fn take_steps_until_end(
        &self,
        ctx: &Context<'_>,
        claim: &ExecutionClaim,
        called: &mut JournaledExecution,
    ) -> ClaimedExecutionEnd {
        let call = ctx.invocation_id().to_owned();
        for number in 0.. {
            let next = self
                .take_and_journal_step(ctx, claim, called, StepRequest::Next(number), "perform")
                .await;
            let is_cancelled = next.is_none();
            let step = match next {
                Some(step) => step,
                // The call was cancelled with the run: the execution stops, and leaves what it has.
                None => {
                    let rest = self
                        .take_and_journal_step(ctx, claim, called, StepRequest::Rest(number), "rest")
                        .await;
                    rest.unwrap_or(ExecutionStep::Lost { has_begun: true })
                }
            };
            match step {
                ExecutionStep::Records(lines) => called.push_journaled_records(&lines),
                ExecutionStep::Ended(result) => {
                    // It has ended; a lost connection does not come here.
                    self.0.abort_and_forget_execution(&call);
                    return ClaimedExecutionEnd::Ended(result);
                }
                ExecutionStep::Lost { has_begun } => {
                    if has_begun && number == 0 {
                        called.lost_starts.push(claim.at);
                    }
                    return match is_cancelled {
                        true => ClaimedExecutionEnd::Stopped,
                        false => ClaimedExecutionEnd::Lost,
                    };
                }
            }
        }
        ClaimedExecutionEnd::Lost
    }

    /// Takes a step and stores it in the journal of the call under `name`. Returns `None` if the call was cancelled.
    async fn take_and_journal_step(
        &self,
        ctx: &Context<'_>,
        claim: &ExecutionClaim,
        called: &JournaledExecution,
        request: StepRequest,
        name: &str,
    ) -> Option<ExecutionStep> {
        let (worker, claim, called) = (self.0.clone(), claim.clone(), called.clone());
        let call = ctx.invocation_id().to_owned();
        let step = ctx
            .run(|| async move {
                Ok(Json(
                    worker
                        .start_or_fetch_step(&claim, &call, called, request)
                        .await
                        .limit_size(),
                ))
            })
            .name(name)
            .await;
        Some(step.ok()?.into_inner())
    }
}
