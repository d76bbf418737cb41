//! The log of a replay, which writes nothing and compares every decision with the record.
//!
//! The record is read one decision at a time, so the record need not be in memory.

use std::collections::BTreeSet;
use std::sync::Arc;

use ensemble_core::conversation::{CompletionReason, Event, Record, TurnStarted};
use ensemble_core::log::{CommitError, LogFuture, ReplayDecision, ReplayDivergence, RunLog, SyncPoint};
use ensemble_core::runner::BoxFuture;
use ensemble_core::store::LogReadError;

/// A reader of the recorded decisions of a run, in order.
pub(crate) trait RecordedDecisionReader: Send {
    /// Reads the next decision. Is not called again after [`RecordedDecision::Ended`].
    ///
    /// # Errors
    ///
    /// The record cannot be read.
    fn read_next_decision(&mut self) -> BoxFuture<'_, Result<RecordedDecision, LogReadError>>;
}

/// A recorded decision: a turn, or the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RecordedDecision {
    /// A turn began.
    Turn {
        /// The number of the turn.
        turn: u32,
        /// The agents that were executed in the turn.
        agents: BTreeSet<Arc<str>>,
        /// Only those are known who had ended; others may have been under way.
        is_partial: bool,
    },
    /// The conversation ended.
    Ended {
        /// The reason of the end. `None` if the record contains no reason.
        reason: Option<CompletionReason>,
        /// Nothing is known of what came after the last turn.
        is_cut: bool,
    },
}

/// A log that writes nothing and compares every decision with the recorded one.
pub(crate) struct DecisionComparisonLog<'a> {
    recorded_decisions: &'a mut dyn RecordedDecisionReader,
    /// Decisions that were the same.
    pub(crate) equal_decisions: u64,
    /// The last turn that began.
    last_turn: u32,
}

impl<'a> DecisionComparisonLog<'a> {
    /// Creates a log that compares with these decisions, which follow the turn `last_turn`.
    pub(crate) fn new(recorded_decisions: &'a mut dyn RecordedDecisionReader, last_turn: u32) -> Self {
        Self {
            recorded_decisions,
            equal_decisions: 0,
            last_turn,
        }
    }

    /// Reads the next recorded decision, and counts the decision as equal if it is a turn with the same agents.
    ///
    /// # Errors
    ///
    /// The decisions differ, or the record ends or cannot be read.
    async fn compare_turn(&mut self, decided: &TurnStarted) -> Result<(), CommitError> {
        let agents: BTreeSet<Arc<str>> = decided.starts.iter().map(|start| start.agent.clone()).collect();
        match self.recorded_decisions.read_next_decision().await? {
            RecordedDecision::Ended { is_cut: true, .. } => Err(CommitError::EndOfRecord { turn: decided.turn }),
            RecordedDecision::Ended { reason, .. } => {
                divergence_error(decided.turn, ReplayDecision::End(reason), ReplayDecision::Turn(agents))
            }
            RecordedDecision::Turn {
                turn,
                agents: recorded,
                is_partial,
            } => {
                let same = if is_partial {
                    recorded.is_subset(&agents)
                } else {
                    recorded == agents
                };
                if !same || turn != decided.turn {
                    return divergence_error(
                        decided.turn,
                        ReplayDecision::Turn(recorded),
                        ReplayDecision::Turn(agents),
                    );
                }
                self.equal_decisions += 1;
                self.last_turn = decided.turn;
                Ok(())
            }
        }
    }

    /// Reads the next recorded decision, and counts it as equal if it is this end, or an end without a recorded reason.
    ///
    /// # Errors
    ///
    /// The record continues with a turn, ends differently, or cannot be read.
    async fn compare_end(&mut self, decided: CompletionReason) -> Result<(), CommitError> {
        let turn = self.last_turn + 1;
        match self.recorded_decisions.read_next_decision().await? {
            RecordedDecision::Turn { agents, .. } => {
                divergence_error(turn, ReplayDecision::Turn(agents), ReplayDecision::End(Some(decided)))
            }
            RecordedDecision::Ended { reason, .. } if reason.is_some_and(|recorded| recorded != decided) => {
                divergence_error(turn, ReplayDecision::End(reason), ReplayDecision::End(Some(decided)))
            }
            RecordedDecision::Ended { .. } => {
                self.equal_decisions += 1;
                Ok(())
            }
        }
    }
}

impl RunLog for DecisionComparisonLog<'_> {
    fn append<'a>(&'a mut self, record: &'a Record) -> LogFuture<'a> {
        match &record.event {
            Event::TurnStarted(turn) => LogFuture::boxed(self.compare_turn(turn)),
            Event::RunEnded(ended) => LogFuture::boxed(self.compare_end(ended.completion_reason)),
            _ => LogFuture::ready(Ok(())),
        }
    }

    fn sync(&mut self, _point: SyncPoint) -> LogFuture<'_> {
        LogFuture::ready(Ok(()))
    }
}

/// Returns the error that the recorded and the new decision of this turn differ.
fn divergence_error<T>(turn: u32, recorded: ReplayDecision, decided: ReplayDecision) -> Result<T, CommitError> {
    Err(CommitError::Diverged(Box::new(ReplayDivergence {
        turn,
        recorded,
        decided,
    })))
}
