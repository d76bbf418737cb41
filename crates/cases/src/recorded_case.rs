//! A recorded run as a fixture: what it was given, and what its executions came to.
//!
//! Invariant: a record that is not that of one whole conversation is refused.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use ensemble_core::conversation::{CompletionReason, Event, Record, RunInterruption};
use ensemble_core::request::PendingRequest;
use ensemble_core::runner::{AttemptEnd, AttemptResult};
use ensemble_language::data::RunContext;
use ensemble_project::project::read_source;
use ensemble_runs::Runs;
use ensemble_runs::replay::SavedRecords;

/// Agent, and the number of its execution.
type RecordedExecutionKey = (Arc<str>, u32);

/// Recorded run on which a case is based: inputs, turns, outcome and results.
#[derive(Debug)]
pub struct RecordedCaseRun {
    /// The input of the run.
    pub input: Arc<str>,
    /// What the run was given by name.
    pub inputs: RunContext,
    /// Its context at the start.
    pub context: RunContext,
    /// The agents of each turn, in order.
    pub turns: Vec<Vec<Arc<str>>>,
    /// How it ended.
    pub outcome: CompletionReason,
    results: HashMap<RecordedExecutionKey, AttemptResult>,
    questions: HashMap<RecordedExecutionKey, Vec<PendingRequest>>,
}

/// Loads a recorded run: the folder or journal of a run, an exported result, or the id of a run. Paths are relative to `folder`.
///
/// # Errors
/// The record does not exist, or cannot be used.
pub async fn load_recorded_run(runs: &Runs, folder: &Path, from: &str) -> Result<RecordedCaseRun, String> {
    let path = folder.join(from);
    if path.is_file() && path.extension().is_some_and(|end| end == "json") {
        let source = read_source(&path).map_err(|error| error.to_string())?;
        return RecordedCaseRun::parse_exported_result(source.text());
    }
    let run_name = if path.exists() {
        path.display().to_string()
    } else {
        from.to_owned()
    };
    let run = runs
        .resolve_run(run_name.as_str())
        .await
        .map_err(|error| error.to_string())?;
    let journal = run.read_journal().await.map_err(|error| error.to_string())?;
    RecordedCaseRun::from_records(&journal.records)
}

/// Checks that a case can be based on a run with this outcome: the run has ended, and was neither cancelled nor timed out.
fn require_usable_outcome(outcome: Option<CompletionReason>) -> Result<CompletionReason, String> {
    match outcome {
        None => Err("the run has not ended".to_owned()),
        Some(CompletionReason::Cancelled) => Err("the run was cancelled".to_owned()),
        Some(CompletionReason::Timeout) => Err("the run timed out".to_owned()),
        Some(outcome) => Ok(outcome),
    }
}

impl RecordedCaseRun {
    /// Extracts the case from the records of a run.
    ///
    /// # Errors
    /// The records are not those of one conversation from an input to its end.
    pub fn from_records(records: &[Record]) -> Result<Self, String> {
        let Some(Event::RunStarted(started)) = records.first().map(|record| &record.event) else {
            return Err("the records do not begin with the start of a run".to_owned());
        };
        let mut outcome = None;
        let mut turns = Vec::new();
        let mut results = HashMap::new();
        let mut questions = HashMap::new();
        for record in records {
            match &record.event {
                Event::MessageAdded(_) => return Err("the run has several messages".to_owned()),
                Event::ContextSet(_) => return Err("the run is a fork with another context".to_owned()),
                Event::Interrupted(RunInterruption::Cancelled { .. }) => return Err("the run was cancelled".to_owned()),
                Event::TurnStarted(turn) => turns.push(turn.starts.iter().map(|start| start.agent.clone()).collect()),
                Event::ExecutionFinished(end) => {
                    let result = AttemptResult::from_record(end.clone()).without_iterations();
                    results.insert((end.agent.clone(), end.execution), result);
                }
                Event::InputRequested(asked) => {
                    let asker = (asked.agent.clone(), asked.execution);
                    questions
                        .entry(asker)
                        .or_insert_with(Vec::new)
                        .push(asked.pending_request());
                }
                Event::RunEnded(ended) => outcome = Some(ended.completion_reason),
                _ => {}
            }
        }
        Ok(Self {
            input: started.input.clone(),
            inputs: started.inputs.clone(),
            context: started.context.clone(),
            outcome: require_usable_outcome(outcome)?,
            turns,
            results,
            questions,
        })
    }

    /// Parses an exported result of `runs export` or `run --output json`.
    ///
    /// # Errors
    /// The text is not the result of one conversation from an input to its end.
    pub fn parse_exported_result(text: &str) -> Result<Self, String> {
        let saved = SavedRecords::parse(text.as_bytes());
        let saved = saved.map_err(|error| format!("the file is not an exported result: {error}"))?;
        let recorded = Self::from_records(&saved.records)?;
        if recorded.outcome == CompletionReason::WaitingForInput {
            return Err("an exported result has no open questions; use the journal".to_owned());
        }
        Ok(recorded)
    }

    /// Returns the recorded end of the execution. Returns `None` without such an execution.
    pub(crate) fn find_recorded_end(&self, agent: &Arc<str>, execution: u32) -> Option<AttemptEnd> {
        let executed = (agent.clone(), execution);
        let Some(result) = self.results.get(&executed) else {
            return self.questions.get(&executed).cloned().map(AttemptEnd::NeedsInput);
        };
        // The end of an execution after all its attempts: no other attempt follows.
        Some(AttemptEnd::Recorded(result.clone()))
    }
}
