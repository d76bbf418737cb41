//! The state of a run as its executions need it: folded up to its open turn, with the records of the open turn.

use std::sync::Arc;

use ensemble_core::conversation::{ConversationState, Event, IllegalRecord, Record};
use ensemble_core::request::AnswerRecord;
use ensemble_project::PreparedEnsemble;
use ensemble_remote::protocol::RunStartRequest;
use ensemble_runs::steps::filter_records_for_agent;

/// A run, folded up to its open turn.
#[derive(Debug, Clone)]
pub struct FoldedRun {
    /// How the run was started.
    pub start: Arc<RunStartRequest>,
    /// The ensemble.
    pub prepared: Arc<PreparedEnsemble>,
    /// The state.
    pub state: ConversationState,
    /// The answers of the records so far.
    pub used_answers: Vec<AnswerRecord>,
}

impl FoldedRun {
    /// Returns a run without records.
    pub fn new(start: RunStartRequest, prepared: Arc<PreparedEnsemble>) -> Self {
        Self {
            state: ConversationState::new(prepared.plan.clone()),
            used_answers: Vec::new(),
            start: Arc::new(start),
            prepared,
        }
    }

    /// Applies the next record.
    ///
    /// # Errors
    /// The record cannot follow the others.
    pub fn apply_record(&mut self, record: &Record) -> Result<(), IllegalRecord> {
        self.state.apply_record(record)?;
        if let Event::ExecutionFinished(finished) = &record.event {
            self.used_answers.extend(finished.answer.as_deref().cloned());
        }
        Ok(())
    }
}

/// A run, folded up to its open turn, and the records of the open turn.
#[derive(Debug, Clone)]
pub struct RunSnapshot {
    folded: FoldedRun,
    /// The records from the start of the latest turn on.
    turn: Vec<Record>,
}

impl RunSnapshot {
    /// Returns the snapshot of a run up to here.
    pub fn new(folded: FoldedRun) -> Self {
        Self {
            folded,
            turn: Vec::new(),
        }
    }

    /// Returns the run without the records of its open turn.
    pub fn folded_run(&self) -> &FoldedRun {
        &self.folded
    }

    /// Adds the next records.
    ///
    /// # Errors
    /// A record cannot follow the others.
    pub fn push_records(&mut self, records: Vec<Record>) -> Result<(), IllegalRecord> {
        self.turn.extend(records);
        let is_turn_start = |record: &Record| matches!(record.event, Event::TurnStarted(_));
        let open = self.turn.iter().rposition(is_turn_start).unwrap_or(0);
        for record in self.turn.drain(..open) {
            self.folded.apply_record(&record)?;
        }
        Ok(())
    }

    /// Returns whether the snapshot contains the open turn of the run after so many records.
    pub fn has_state_after(&self, records: u64) -> bool {
        let before = self.folded.state.next_seq();
        let next = self.turn.last().map_or(before, |last| last.seq + 1);
        (before..=next).contains(&records)
    }

    /// Returns the run, and its state after so many records, in which the execution of this agent is pending.
    ///
    /// # Errors
    /// A record cannot follow the others.
    pub fn state_for_agent(
        mut self,
        agent: &str,
        records: u64,
    ) -> Result<(FoldedRun, ConversationState), IllegalRecord> {
        // What was recorded since the execution was called belongs to others.
        self.turn.retain(|record| record.seq < records);
        let mut state = self.folded.state.clone();
        for record in filter_records_for_agent(&self.turn, agent) {
            state.apply_record(&record)?;
        }
        Ok((self.folded, state))
    }
}
