//! The loop that executes a run: it asks the resolver for the next step, performs the step, and commits the results.
//!
//! A new run, a resumed run and a replay use the same loop, which starts from the state that the journal gives. A new
//! run starts from an empty journal. A replay uses runners that read results from a record, and a log that compares
//! decisions.
//!
//! **Invariant:** the state changes only by an event that was appended before: [`Executor::commit`] appends, applies and
//! reports an event, and the start of a turn with one agent is appended together with the start of its execution.
//!
//! The loop (`executor/mod.rs`) and one turn (`executor/turn.rs`): concurrent executions, attempts, pauses, deadlines. A turn is a
//! `FuturesUnordered` on a current-thread runtime, not a set of tasks. Dropping the turn therefore drops all its executions, and two calls
//! of `commit` never overlap. Child processes depend on this design as well: the reactor runs in the same thread, so when the leader of a
//! process group ends, the group is killed before the leader is reaped and before its number can be given to another process.

mod attempt;
#[cfg(test)]
mod part_tests;
#[cfg(test)]
mod record_tests;
mod records;
#[cfg(test)]
pub(crate) mod tests;
mod turn;

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;

use crate::conversation::{ConversationState, Event, ExecutionStarted, Record, RunEnded, RunInterruption, TurnStarted};
use crate::log::{CommitError, RunLog, SyncPoint};
use crate::reporter::Reporter;
use crate::resolver::{NextDecision, decide_next_step};
use crate::runner::{AttemptLedger, BoxFuture, Runner};
use crate::secrets::Secrets;
use crate::stopwatch::Stopwatch;

pub use attempt::{build_attempt_input, list_pending_executions};

/// The system clock, passed as a parameter so that no other code reads the time.
pub trait WallClock: Sync {
    /// Returns the present time.
    fn now(&self) -> DateTime<Utc>;
}

/// Stopwatch and ledger of the attempt of an outer run, whose execution is this run.
pub struct OuterAttemptHandles {
    /// The stopwatch of the attempt.
    pub stopwatch: Stopwatch,
    /// The ledger of the attempt, which gets the usage that no record of this run contains.
    pub ledger: AttemptLedger,
}

/// Loop that drives a run: runners, log, reporter, clock, interruptions and limits.
pub struct Executor<'a> {
    /// One runner for each agent, in declaration order.
    pub runners: Vec<Arc<dyn Runner>>,
    /// The log, to which every event is appended first.
    pub log: &'a mut dyn RunLog,
    /// The reporter of the events.
    pub reporter: &'a mut (dyn Reporter + Send),
    /// The clock that gives events their time.
    pub clock: &'a dyn WallClock,
    /// Interruptions from outside that end the run.
    pub interruptions: UnboundedReceiver<RunInterruption>,
    /// The time limit of the run from now on; `None`: no limit. The time of questions to a person does not count.
    pub timeout: Option<Duration>,
    /// What no event may tell.
    pub secrets: Secrets,
    /// For a run inside another run: the stopwatch of the execution that contains it.
    pub outer_stopwatch: Option<OuterAttemptHandles>,
    /// The time limit of a turn in the place of that of the ensemble: of a turn that began before.
    pub turn_ends_in: Option<Duration>,
    /// Whether the run records a success with exhausted agents as no success.
    pub refuses_exhausted: bool,
}

impl Executor<'_> {
    /// Continues from `state` until the conversation ends. Returns the end.
    ///
    /// # Errors
    /// The log rejected an event. The run stops there, and the committed events are kept.
    pub fn drive_conversation<'f>(
        &'f mut self,
        state: &'f mut ConversationState,
    ) -> BoxFuture<'f, Result<RunEnded, CommitError>> {
        Box::pin(async move {
            let plan = state.plan().clone();
            let around = self.outer_stopwatch.as_ref();
            let mut pace =
                RunPace::new(around.map_or_else(Stopwatch::default, |outer| outer.stopwatch.nested_stopwatch()));
            loop {
                match decide_next_step(&plan, state) {
                    NextDecision::StartTurn(turn) => match self.poll_interruption_or_timeout(&pace.stopwatch) {
                        Some(cause) => self.commit(state, Event::Interrupted(cause)).await?,
                        None => self.commit_turn_and_execution_start(state, turn, &mut pace).await?,
                    },
                    NextDecision::Perform => self.perform_turn(&plan, state, &mut pace).await?,
                    NextDecision::FinishTurn(finished) => {
                        self.commit(state, Event::TurnFinished(finished)).await?;
                        self.log.sync(SyncPoint::Turn).await?;
                    }
                    NextDecision::End(ended) => {
                        let ended = ended.for_record(self.refuses_exhausted);
                        self.commit(state, Event::RunEnded(ended.clone())).await?;
                        self.log.sync(SyncPoint::Turn).await?;
                        return Ok(ended);
                    }
                }
            }
        })
    }

    /// Commits the start of a turn. If only one agent runs, appends the start of its execution in the same operation.
    async fn commit_turn_and_execution_start(
        &mut self,
        state: &mut ConversationState,
        turn: TurnStarted,
        pace: &mut RunPace,
    ) -> Result<(), CommitError> {
        let [start] = turn.starts.as_slice() else {
            return self.commit(state, Event::TurnStarted(turn)).await;
        };
        let started = ExecutionStarted {
            turn: turn.turn,
            agent: start.agent.clone(),
            execution: start.execution,
            attempt: state.next_attempt_number(&start.agent),
        };
        let (seq, at) = (state.next_seq(), self.clock.now());
        let record = |seq, event| Record { seq, at, event };
        let first = record(seq, Event::TurnStarted(turn));
        let second = record(seq + 1, Event::ExecutionStarted(started));
        state.check_record_is_legal(&first)?;
        self.log.append_both(&first, &second).await?;
        state.apply_record(&first)?;
        self.reporter.report_event(&first, state);
        pace.appended = Some(second);
        Ok(())
    }

    /// Commits an event: redacts its secrets, checks it, appends it to the log, applies it to the state and reports it.
    ///
    /// # Errors
    /// The event is illegal in this state, a secret cannot be redacted, or the log rejected the event. The event has not happened then.
    pub fn commit(
        &mut self,
        state: &mut ConversationState,
        event: Event,
    ) -> impl Future<Output = Result<(), CommitError>> {
        // Outside of the future, so that the event is moved once less.
        let (seq, at) = (state.next_seq(), self.clock.now());
        let record = self.secrets.redact_event(event).map(|event| Record { seq, at, event });
        async move {
            let record = record?;
            state.check_record_is_legal(&record)?;
            self.log.append(&record).await?;
            state.apply_record(&record)?;
            self.reporter.report_event(&record, state);
            Ok(())
        }
    }

    /// Returns an interruption that has arrived, or the timeout of the run if it has passed.
    fn poll_interruption_or_timeout(&mut self, stopwatch: &Stopwatch) -> Option<RunInterruption> {
        let late = self.timeout.is_some_and(|timeout| stopwatch.elapsed_time() >= timeout);
        let signal = self.interruptions.try_recv().ok();
        signal.or(late.then_some(RunInterruption::Timeout))
    }
}

/// The stopwatch of the run, the time of the last yield, and a record that is appended already.
struct RunPace {
    stopwatch: Stopwatch,
    /// When other tasks last ran. The task that receives signals runs on the same thread.
    gave_way: Instant,
    /// The start of an execution that is in the log, and is neither applied nor reported yet.
    appended: Option<Record>,
}

impl RunPace {
    /// The longest time without a yield. Otherwise executions that never wait delay signals.
    const MAX_TIME_WITHOUT_YIELD: Duration = Duration::from_millis(1);

    /// Creates the pace of a loop that yields now for the first time.
    fn new(stopwatch: Stopwatch) -> Self {
        Self {
            stopwatch,
            gave_way: Instant::now(),
            appended: None,
        }
    }

    /// Yields to other tasks if 1 ms has passed since the last yield. Each yield costs a system call.
    async fn yield_if_due(&mut self) {
        if self.gave_way.elapsed() >= Self::MAX_TIME_WITHOUT_YIELD {
            tokio::task::yield_now().await;
            self.gave_way = Instant::now();
        }
    }
}
