//! Waits of a run: for an answer, or for a resumption after an interruption.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ensemble_core::conversation::{Event, RunResumed};
use ensemble_core::request::PendingRequest;
use ensemble_remote::protocol::{DecidedToolCall, ResumeRequest, SentQuestionAnswer};
use ensemble_runs::start::recorded_run::list_agents_to_rerun;
use restate_sdk::context::{DurableFuture, DurableFuturesUnordered};
use restate_sdk::prelude::*;

use super::{WorkflowRunDrive, answer_promise_name, resume_promise_name};
use crate::worker::RUN_CHECK_INTERVAL;

/// Time in which an interrupted run can be resumed.
const RESUME_WAIT_LIMIT: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Time in which workers must stop the executions of an interrupted run. The run continues only afterwards, so that no execution
/// runs twice.
pub(super) const STOP_TIME: Duration = RUN_CHECK_INTERVAL.saturating_add(Duration::from_secs(1));

/// The request of whoever resumed the run; `None`: nobody did in time.
type ResumeTimeFuture<'a> = Pin<Box<dyn DurableFuture<Output = Option<ResumeRequest>> + Send + 'a>>;

/// Pending request: the agent and the number of the execution that waits, and the request.
type WaitingRequest = (Arc<str>, u32, PendingRequest);

impl WorkflowRunDrive<'_> {
    /// Waits for the answer to one of the open questions, and goes on with it, or ends as cancelled. `false`: no open question
    /// has the digest of the answer.
    pub(super) async fn wait_and_apply_answer(&mut self) -> HandlerResult<bool> {
        self.log.store_records();
        let key = answer_promise_name(self.log.run_state().next_seq());
        let answer = loop {
            match self.ctx.promise::<Json<SentQuestionAnswer>>(&key).await {
                Ok(answer) => break answer.into_inner(),
                Err(_cancelled) if self.own_cancels > 0 => self.own_cancels -= 1,
                Err(_cancelled) => {
                    // The run has ended so that it waits. It is resumed to end as cancelled.
                    self.log.commit_events([self.resume_event()]);
                    self.stop_as_cancelled().await?;
                    return Ok(true);
                }
            }
        };
        let Some(question) = self.log.find_request_or_first(&answer.digest) else {
            return Ok(false);
        };
        self.refuses_exhausted = answer.refuses_exhausted.unwrap_or(self.refuses_exhausted);
        self.apply_answer(question, answer);
        self.start_segment();
        Ok(true)
    }

    /// Continues the run with the answer to this question. Ignores an answer to another request.
    pub(super) fn apply_answer(&mut self, (agent, execution, request): WaitingRequest, answer: SentQuestionAnswer) {
        self.log.advance_time_to(answer.at);
        if request.digest != answer.digest {
            // The answer is for another request, so it is not used: the agent asks again.
        } else if let Some(child) = self.find_asking_nested_run(&agent, execution) {
            // Whoever asked inside goes on with it. What else waits inside keeps waiting.
            let ended_runs = self.inner.entry(agent).or_default();
            ended_runs.retain(|ended| ended.name != child);
            self.inner_answers.insert(child, answer);
        } else {
            match (request.question.permission, answer.decision) {
                (Some(permission), Some(decision)) => {
                    let decided = DecidedToolCall {
                        tool: permission.tool,
                        arguments: permission.arguments,
                        decision,
                        digest: request.digest,
                        by: answer.by,
                    };
                    self.decided_calls.insert(agent, decided);
                }
                (None, None) => self.answers.push((agent, answer.answer, answer.by)),
                // An answer of the other kind is none: the agent asks again.
                _ => {}
            }
        }
        self.log.commit_events([Event::RunResumed(RunResumed {
            program: env!("CARGO_PKG_VERSION").to_owned(),
            ..RunResumed::default()
        })]);
    }

    /// Waits until somebody resumes the run that was cut short, and goes on with it. `false`: nobody did.
    pub(super) async fn wait_and_resume(&mut self) -> bool {
        self.log.store_records();
        // What was under way is over, and nobody hears of it.
        self.wake_futures = DurableFuturesUnordered::new();
        self.under_way.clear();
        self.decided_calls.clear();
        self.children.clear();
        let cut = ResumeRequest::Accepting(self.log.latest_time());
        let key = resume_promise_name(self.segment);
        let mut waits: DurableFuturesUnordered<ResumeTimeFuture<'_>> = DurableFuturesUnordered::new();
        waits.push(Box::pin(self.ctx.sleep(STOP_TIME).map(move |_| Some(cut))));
        if self.next_resume_time(&mut waits).await.is_none() {
            return false;
        }
        let resumed = self.ctx.promise::<Json<ResumeRequest>>(&key);
        waits.push(Box::pin(resumed.map(|request| request.ok().map(Json::into_inner))));
        waits.push(Box::pin(self.ctx.sleep(RESUME_WAIT_LIMIT).map(|_| None)));
        let Some(request) = self.next_resume_time(&mut waits).await else {
            return false;
        };
        self.refuses_exhausted = request.refuses_exhausted();
        self.log.advance_time_to(request.time());
        self.log.commit_events([self.resume_event()]);
        self.start_segment();
        true
    }

    /// Builds the event that the run continues after an interruption.
    pub(super) fn resume_event(&self) -> Event {
        Event::RunResumed(RunResumed {
            program: env!("CARGO_PKG_VERSION").to_owned(),
            again: list_agents_to_rerun(&self.prepared, self.log.run_state()),
            ..RunResumed::default()
        })
    }

    /// Returns the next instant. Returns `None` if the wait has ended, or the engine cancelled it.
    async fn next_resume_time(
        &mut self,
        waits: &mut DurableFuturesUnordered<ResumeTimeFuture<'_>>,
    ) -> Option<ResumeRequest> {
        loop {
            match waits.next().await {
                Ok(first) => return first.and_then(|(_, request)| request),
                Err(_cancelled) if self.own_cancels > 0 => self.own_cancels -= 1,
                Err(_cancelled) => return None,
            }
        }
    }
}
