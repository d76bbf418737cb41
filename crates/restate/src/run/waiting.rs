//! A run waits: for an answer, or for somebody who resumes it after it was cut short.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use ensemble_core::conversation::{Event, RunResumed};
use ensemble_core::request::PendingRequest;
use ensemble_remote::protocol::{Answer, Decided};
use ensemble_runs::start::recorded_run::agents_to_rerun;
use restate_sdk::context::{DurableFuture, DurableFuturesUnordered};
use restate_sdk::prelude::*;

use super::{Drive, promise_of, resumed_after};
use crate::worker::LOOKED_AT_EVERY;

/// How long a run that was cut short waits for somebody who resumes it.
const RESUMABLE_FOR: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// How long workers may take until they have stopped the executions of a run that was cut short. It goes on after that, so that none is
/// under way twice.
const STOPPED_AFTER: Duration = LOOKED_AT_EVERY.saturating_add(Duration::from_secs(1));

/// When somebody resumed the run; `None`: nobody did in time.
type Resumed<'a> = Pin<Box<dyn DurableFuture<Output = Option<DateTime<Utc>>> + Send + 'a>>;

/// A request: the agent whose execution waits, the number of the execution, and the request.
type Asked = (Arc<str>, u32, PendingRequest);

impl Drive<'_> {
    /// Waits for the answer to one of the open questions, and goes on with it. `false`: the run was cancelled.
    pub(super) async fn wait_for_answer(&mut self) -> HandlerResult<bool> {
        let key = promise_of(self.log.state().next_seq());
        let Ok(answer) = self.ctx.promise::<Json<Answer>>(&key).await else {
            return Ok(false);
        };
        let answer = answer.into_inner();
        let Some(asked) = self.log.find_question(&answer.digest) else {
            return Ok(false);
        };
        self.answered(asked, answer);
        self.begin_leg();
        Ok(true)
    }

    /// Goes on with the answer to this question of an execution.
    pub(super) fn answered(&mut self, (agent, execution, request): Asked, answer: Answer) {
        self.log.advance(answer.at);
        if request.digest != answer.digest {
            // The answer is for another request, so it is not used: the agent asks again.
        } else if let Some(child) = self.asking(&agent, execution) {
            // Whoever asked inside goes on with it. What else waits inside keeps waiting.
            let ended = self.inner.entry(agent).or_default();
            ended.retain(|ended| ended.name != child);
            self.answered.insert(child, answer);
        } else {
            match (request.question.permission, answer.decision) {
                (Some(wanted), Some(decision)) => {
                    let decided = Decided {
                        tool: wanted.tool,
                        arguments: wanted.arguments,
                        decision,
                        digest: request.digest,
                        by: answer.by,
                    };
                    self.decided.insert(agent, decided);
                }
                (None, None) => self.answers.push((agent, answer.answer, answer.by)),
                // An answer of the other kind is none: the agent asks again.
                _ => {}
            }
        }
        self.log.commit([Event::RunResumed(RunResumed {
            program: env!("CARGO_PKG_VERSION").to_owned(),
            ..RunResumed::default()
        })]);
    }

    /// Waits until somebody resumes the run that was cut short, and goes on with it. `false`: nobody did.
    pub(super) async fn wait_for_resume(&mut self) -> bool {
        // What was under way is over, and nobody hears of it.
        self.awaited = DurableFuturesUnordered::new();
        self.under_way.clear();
        self.decided.clear();
        self.children.clear();
        let cut = self.log.now();
        let key = resumed_after(self.leg);
        let mut waits: DurableFuturesUnordered<Resumed<'_>> = DurableFuturesUnordered::new();
        waits.push(Box::pin(self.ctx.sleep(STOPPED_AFTER).map(move |_| Some(cut))));
        if self.next_of(&mut waits).await.is_none() {
            return false;
        }
        let resumed = self.ctx.promise::<Json<DateTime<Utc>>>(&key);
        waits.push(Box::pin(resumed.map(|at| at.ok().map(Json::into_inner))));
        waits.push(Box::pin(self.ctx.sleep(RESUMABLE_FOR).map(|_| None)));
        let Some(at) = self.next_of(&mut waits).await else {
            return false;
        };
        self.log.advance(at);
        self.log.commit([self.resumed()]);
        self.begin_leg();
        true
    }

    /// The run goes on after it was cut short.
    pub(super) fn resumed(&self) -> Event {
        Event::RunResumed(RunResumed {
            program: env!("CARGO_PKG_VERSION").to_owned(),
            again: agents_to_rerun(&self.prepared, self.log.state()),
            ..RunResumed::default()
        })
    }

    /// Returns the next instant. Returns `None` if the wait has ended, or the engine cancelled it.
    async fn next_of(&mut self, waits: &mut DurableFuturesUnordered<Resumed<'_>>) -> Option<DateTime<Utc>> {
        loop {
            match waits.next().await {
                Ok(first) => return first.and_then(|(_, at)| at),
                Err(_cancelled) if self.own_cancels > 0 => self.own_cancels -= 1,
                Err(_cancelled) => return None,
            }
        }
    }
}
