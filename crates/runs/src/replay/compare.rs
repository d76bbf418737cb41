//! The log of a replay: it writes nothing and compares every decision with the record.
//!
//! The record is asked for one decision at a time, so it need not be in memory.

use std::collections::BTreeSet;
use std::sync::Arc;

use ensemble_core::conversation::{CompletionReason, Event, Record, TurnStarted};
use ensemble_core::log::{CommitError, Decided, Divergence, Logged, RunLog, SyncPoint};
use ensemble_core::runner::BoxFuture;
use ensemble_core::store::ReadError;

/// Tells what was decided, in order.
pub(crate) trait RecordedDecisions: Send {
    /// The next decision. After [`RecordedDecision::Ended`] it is not asked again.
    ///
    /// # Errors
    /// The record cannot be read.
    fn next_decision(&mut self) -> BoxFuture<'_, Result<RecordedDecision, ReadError>>;
}

/// A recorded decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RecordedDecision {
    /// A turn began.
    Turn {
        /// Its number.
        turn: u32,
        /// Who ran in it.
        agents: BTreeSet<Arc<str>>,
        /// Only those are known who had ended; others may have been under way.
        is_partial: bool,
    },
    /// The conversation ended.
    Ended {
        /// Why; `None`: the record does not say.
        reason: Option<CompletionReason>,
        /// Nothing is known of what came after the last turn.
        is_cut: bool,
    },
}

/// Compares instead of writing.
pub(crate) struct ComparingLog<'a> {
    recorded: &'a mut dyn RecordedDecisions,
    /// Decisions that were the same.
    pub(crate) compared: u64,
    /// The last turn that began.
    last_turn: u32,
}

impl<'a> ComparingLog<'a> {
    /// Compares with these, which follow `last_turn`.
    pub(crate) fn new(recorded: &'a mut dyn RecordedDecisions, last_turn: u32) -> Self {
        Self {
            recorded,
            compared: 0,
            last_turn,
        }
    }

    async fn turn(&mut self, decided: &TurnStarted) -> Result<(), CommitError> {
        let agents: BTreeSet<Arc<str>> = decided.starts.iter().map(|start| start.agent.clone()).collect();
        match self.recorded.next_decision().await? {
            RecordedDecision::Ended { is_cut: true, .. } => Err(CommitError::EndOfRecord { turn: decided.turn }),
            RecordedDecision::Ended { reason, .. } => {
                diverge(decided.turn, Decided::End(reason), Decided::Turn(agents))
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
                    return diverge(decided.turn, Decided::Turn(recorded), Decided::Turn(agents));
                }
                self.compared += 1;
                self.last_turn = decided.turn;
                Ok(())
            }
        }
    }

    async fn ended(&mut self, decided: CompletionReason) -> Result<(), CommitError> {
        let turn = self.last_turn + 1;
        match self.recorded.next_decision().await? {
            RecordedDecision::Turn { agents, .. } => diverge(turn, Decided::Turn(agents), Decided::End(Some(decided))),
            RecordedDecision::Ended { reason, .. } if reason.is_some_and(|recorded| recorded != decided) => {
                diverge(turn, Decided::End(reason), Decided::End(Some(decided)))
            }
            RecordedDecision::Ended { .. } => {
                self.compared += 1;
                Ok(())
            }
        }
    }
}

impl RunLog for ComparingLog<'_> {
    fn append<'a>(&'a mut self, record: &'a Record) -> Logged<'a> {
        match &record.event {
            Event::TurnStarted(turn) => Logged::later(self.turn(turn)),
            Event::RunEnded(ended) => Logged::later(self.ended(ended.completion_reason)),
            _ => Logged::ended(Ok(())),
        }
    }

    fn sync(&mut self, _point: SyncPoint) -> Logged<'_> {
        Logged::ended(Ok(()))
    }
}

fn diverge<T>(turn: u32, recorded: Decided, decided: Decided) -> Result<T, CommitError> {
    Err(CommitError::Diverged(Box::new(Divergence {
        turn,
        recorded,
        decided,
    })))
}
