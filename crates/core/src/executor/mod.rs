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
use crate::log::{Ledger, LedgerError, SyncPoint};
use crate::reporter::Reporter;
use crate::resolver::{Decision, decide};
use crate::runner::Runner;
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
    pub ledger: &'a mut (dyn Ledger + Send),
    /// Who is told of them.
    pub reporter: &'a mut (dyn Reporter + Send),
    /// Their time.
    pub clock: &'a dyn Clock,
    /// What ends the run from outside.
    pub interruptions: UnboundedReceiver<Interruption>,
    /// The run's wall clock from now on; `None`: no limit.
    pub timeout: Option<Duration>,
}

impl Executor<'_> {
    /// Goes on from `state` until the conversation ends, and says how.
    ///
    /// # Errors
    /// The ledger refused an event: the run stops there, and what was committed stands.
    pub async fn drive(&mut self, state: &mut ConversationState) -> Result<RunEnded, LedgerError> {
        let plan = state.plan().clone();
        let mut pace = Pace::new(self.timeout);
        loop {
            match decide(&plan, state) {
                Decision::StartTurn(turn) => match self.interruption(pace.deadline) {
                    Some(cause) => self.commit(state, Event::Interrupted(cause))?,
                    None => self.commit(state, Event::TurnStarted(turn))?,
                },
                Decision::Perform => self.perform(&plan, state, &mut pace).await?,
                Decision::FinishTurn(finished) => {
                    self.commit(state, Event::TurnFinished(finished))?;
                    self.ledger.sync(SyncPoint::Turn)?;
                }
                Decision::End(ended) => {
                    self.commit(state, Event::RunEnded(ended.clone()))?;
                    self.ledger.sync(SyncPoint::Turn)?;
                    return Ok(ended);
                }
            }
        }
    }

    /// The one door: append first, then apply, then report.
    ///
    /// # Errors
    /// The ledger refused the event, so it has not happened.
    pub fn commit(&mut self, state: &mut ConversationState, event: Event) -> Result<(), LedgerError> {
        let record = Record {
            seq: state.next_seq(),
            at: self.clock.now(),
            event,
        };
        self.ledger.append(&record)?;
        state.apply(&record);
        self.reporter.report(&record, state);
        Ok(())
    }

    /// What has come from outside since it was last asked.
    fn interruption(&mut self, deadline: Option<Instant>) -> Option<Interruption> {
        let late = deadline.is_some_and(|deadline| Instant::now() >= deadline);
        let signal = self.interruptions.try_recv().ok();
        signal.or(late.then_some(Interruption::Timeout))
    }
}

/// When the run must end, and how long it may go on without looking up.
struct Pace {
    deadline: Option<Instant>,
    /// When others had their turn: whoever listens to signals lives on the same thread.
    gave_way: Instant,
}

impl Pace {
    /// Executions that never wait would keep signals from being seen any longer than this.
    const AT_LEAST_EVERY: Duration = Duration::from_millis(1);

    fn new(timeout: Option<Duration>) -> Self {
        let now = Instant::now();
        Self {
            deadline: timeout.map(|timeout| now + timeout),
            gave_way: now,
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
