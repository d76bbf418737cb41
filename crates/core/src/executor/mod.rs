//! Drives a run: asks the resolver what happens next, performs it, and commits what was seen.
//!
//! A run, a resumed run and a replay are one loop. It begins with whatever state the journal gives, so a start
//! is a resume of nothing; a replay has runners that answer from a record and a ledger that compares.
//!
//! **Invariant:** [`Executor::commit`] is the only door to the state: append, apply, report.

#[cfg(test)]
mod tests;
mod turn;

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;

use crate::conversation::{ConversationState, Event, Interruption, Record, RunEnded};
use crate::log::{CommitError, RunLog, SyncPoint};
use crate::reporter::Reporter;
use crate::resolver::{Decision, decide};
use crate::runner::Runner;
use crate::stopwatch::Stopwatch;
use ensemble_language::plan::Plan;

pub use turn::execution;

/// The wall clock, passed in so that nothing else knows the time.
pub trait Clock: Sync {
    /// The time now.
    fn now(&self) -> DateTime<Utc>;
}

/// All that a drive needs beside the state.
pub struct Executor<'a> {
    /// One runner for each agent, in declaration order.
    pub runners: Vec<Arc<dyn Runner>>,
    /// Where events go first.
    pub log: &'a mut dyn RunLog,
    /// Who is told of them.
    pub reporter: &'a mut (dyn Reporter + Send),
    /// Their time.
    pub clock: &'a dyn Clock,
    /// What ends the run from outside.
    pub interruptions: UnboundedReceiver<Interruption>,
    /// The most time that the run may take from now on; `None`: no limit. It stands while a person is asked.
    pub timeout: Option<Duration>,
    /// The stopwatch of the execution that this run is, if it is inside another.
    pub around: Option<Stopwatch>,
}

impl Executor<'_> {
    /// Goes on from `state` until the conversation ends, and says how.
    ///
    /// # Errors
    /// The log refused an event: the run stops there, and what was committed stands.
    pub async fn drive(&mut self, state: &mut ConversationState) -> Result<RunEnded, CommitError> {
        let plan = state.plan().clone();
        let around = self.around.as_ref();
        let mut pace = Pace::new(around.map_or_else(Stopwatch::default, Stopwatch::inside));
        loop {
            match decide(&plan, state) {
                Decision::StartTurn(turn) => match self.interruption(&pace.stopwatch) {
                    Some(cause) => self.commit(state, Event::Interrupted(cause)).await?,
                    None => self.commit(state, Event::TurnStarted(turn)).await?,
                },
                Decision::Perform => self.perform(&plan, state, &mut pace).await?,
                Decision::FinishTurn(finished) => {
                    self.commit(state, Event::TurnFinished(finished)).await?;
                    self.log.sync(SyncPoint::Turn).await?;
                }
                Decision::End(ended) => {
                    self.commit(state, Event::RunEnded(ended.clone())).await?;
                    self.log.sync(SyncPoint::Turn).await?;
                    return Ok(ended);
                }
            }
        }
    }

    /// The one door: append first, then apply, then report.
    ///
    /// # Errors
    /// The log refused the event, so it has not happened.
    pub async fn commit(&mut self, state: &mut ConversationState, event: Event) -> Result<(), CommitError> {
        let record = Record {
            seq: state.next_seq(),
            at: self.clock.now(),
            event,
        };
        self.log.append(&record).await?;
        state.apply(&record);
        self.reporter.report(&record, state);
        Ok(())
    }

    /// What has come from outside since it was last asked.
    fn interruption(&mut self, stopwatch: &Stopwatch) -> Option<Interruption> {
        let late = self.timeout.is_some_and(|timeout| stopwatch.elapsed() >= timeout);
        let signal = self.interruptions.try_recv().ok();
        signal.or(late.then_some(Interruption::Timeout))
    }
}

/// The time that counts, and how long the run may go on without giving way.
struct Pace {
    stopwatch: Stopwatch,
    /// When others had their turn: whoever listens to signals lives on the same thread.
    gave_way: Instant,
}

impl Pace {
    /// Executions that never wait would keep signals from being seen any longer than this.
    const AT_LEAST_EVERY: Duration = Duration::from_millis(1);

    fn new(stopwatch: Stopwatch) -> Self {
        Self {
            stopwatch,
            gave_way: Instant::now(),
        }
    }

    /// Gives way now and then; each time costs a system call.
    async fn keep(&mut self) {
        if self.gave_way.elapsed() >= Self::AT_LEAST_EVERY {
            tokio::task::yield_now().await;
            self.gave_way = Instant::now();
        }
    }
}

/// The plan's clock for the whole run.
pub fn run_timeout(plan: &Plan) -> Option<Duration> {
    Some(plan.ensemble().limits.timeout)
}
