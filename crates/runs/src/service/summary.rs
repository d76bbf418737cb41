//! What a run did until now, in a few numbers.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use ensemble_core::conversation::{CompletionReason, Event, InputRequested, Record};
use ensemble_core::store::{RunId, StoredRun};
use ensemble_language::data::Question;
use serde::Serialize;

use crate::error::RunError;
use crate::recorded::started;

/// What a run did until now.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunSummary {
    /// Its id.
    pub id: RunId,
    /// The name of its ensemble.
    pub ensemble: Arc<str>,
    /// The file of its ensemble.
    pub ensemble_file: String,
    /// Its input.
    pub input: Arc<str>,
    /// When it began.
    pub started_at: DateTime<Utc>,
    /// When its last record was written.
    pub last_at: DateTime<Utc>,
    /// Whether it goes on.
    pub status: RunStatus,
    /// Details of the outcome: the limit, the agent, or the condition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The turns that have finished.
    pub turns: u32,
    /// The executions that have ended.
    pub executions: usize,
    /// The executions that have failed.
    pub failed: usize,
    /// The questions that its log has and that are not answered.
    pub questions: Vec<OpenQuestion>,
    /// How many records its log has: the number of the next record.
    pub records: u64,
}

/// Whether a run goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "status")]
pub enum RunStatus {
    /// This process drives it.
    Running,
    /// Another process drives it.
    RunningElsewhere {
        /// The id of the process.
        process: u32,
    },
    /// Nobody drives it, and its conversation is not over: it can be resumed.
    Interrupted,
    /// Its conversation is over.
    Ended {
        /// The outcome.
        outcome: CompletionReason,
    },
}

/// A question in the log of a run that is not answered.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OpenQuestion {
    /// The agent.
    pub agent: Arc<str>,
    /// The number of the execution of the agent, from 1.
    pub execution: u32,
    /// The question, with its choices.
    #[serde(flatten)]
    pub question: Question,
}

impl RunSummary {
    /// Reads the run. `driver`: the process that drives it.
    pub(super) async fn of(run: &dyn StoredRun, is_driven_here: bool, driver: Option<u32>) -> Result<Self, RunError> {
        let records = run.read_all().await?.records;
        let started = started(&records)?;
        let mut summary = Self {
            id: run.id().clone(),
            ensemble: started.ensemble.clone(),
            ensemble_file: started.ensemble_file.clone(),
            input: started.input.clone(),
            started_at: records[0].at,
            last_at: records[0].at,
            status: RunStatus::Interrupted,
            detail: None,
            turns: 0,
            executions: 0,
            failed: 0,
            questions: Vec::new(),
            records: 0,
        };
        for record in &records {
            summary.take(record);
        }
        match driver {
            _ if is_driven_here => summary.status = RunStatus::Running,
            Some(process) => summary.status = RunStatus::RunningElsewhere { process },
            None => {}
        }
        Ok(summary)
    }

    fn take(&mut self, record: &Record) {
        self.records = record.seq + 1;
        self.last_at = record.at;
        match &record.event {
            Event::TurnFinished(turn) => self.turns = turn.turn,
            Event::ExecutionFinished(finished) => {
                self.executions += 1;
                self.failed += usize::from(finished.failure().is_some());
                self.close_question(&finished.agent, finished.execution);
            }
            Event::InputRequested(requested) => {
                self.close_question(&requested.agent, requested.execution);
                self.questions.push(OpenQuestion::of(requested));
            }
            Event::RunEnded(ended) => {
                let outcome = ended.completion_reason;
                self.status = RunStatus::Ended { outcome };
                self.detail.clone_from(&ended.detail);
            }
            Event::RunResumed(_) => self.goes_on(),
            Event::MessageAdded(_) => {
                self.questions.clear();
                self.goes_on();
            }
            _ => {}
        }
    }

    fn close_question(&mut self, agent: &str, execution: u32) {
        let is_other = |open: &OpenQuestion| *open.agent != *agent || open.execution != execution;
        self.questions.retain(is_other);
    }

    fn goes_on(&mut self) {
        self.status = RunStatus::Interrupted;
        self.detail = None;
    }
}

impl OpenQuestion {
    fn of(requested: &InputRequested) -> Self {
        Self {
            agent: requested.agent.clone(),
            execution: requested.execution,
            question: requested.question.clone(),
        }
    }
}
