//! The contents of a record of a run: executions, and the decisions with which a replay compares its decisions.
//!
//! A replay reads a journal turn by turn, so a long journal needs no additional memory.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use ensemble_core::conversation::{
    CompletionReason, Event, MessageAdded, NestedRequestAnswered, PartAttemptEnded, Record, RecordedExchanges,
    RunInterruption, RunStarted, TurnStarted,
};
use ensemble_core::runner::{AttemptResult, BoxFuture};
use ensemble_core::store::{LogEnd, LogReadError, RunRecordReader};
use ensemble_history::{ExecutionAccount, list_copied_answers};
use ensemble_language::ensemble::Ensemble;

use super::compare::{RecordedDecision, RecordedDecisionReader};
use super::recorded::{RecordedExecutionResult, RecordedTurn, SharedTurnRecording};
use super::saved::SavedRecords;
use crate::error::RunError;
use crate::inputs::InputValues;
use crate::start::carried_inputs::carry_inputs_over;

/// A callback that receives the current position in the log while a long record is read.
pub type LogPositionCallback = dyn Fn(u64) + Send + Sync;

/// The contents of a record of a run, independent of its form.
pub(crate) struct RunRecording {
    /// The first event of the run.
    pub(crate) start_event: RunStarted,
    /// The results of the executions of the current turn.
    pub(crate) recording: SharedTurnRecording,
    turns: LoggedTurnReader,
}

impl RunRecording {
    /// Reads the start of a log. With `for_models`, the exchanges between agents and models are read as well.
    pub(crate) async fn from_log(
        mut reader: Box<dyn RunRecordReader>,
        for_models: bool,
        progress: Option<Box<LogPositionCallback>>,
    ) -> Result<Self, RunError> {
        let started = match reader.next_record().await?.map(|record| record.event) {
            Some(Event::RunStarted(started)) => started,
            _ => return Err(RunError::NotBegun),
        };
        let given_records = started.forked_from.as_ref().and_then(|forked| forked.given);
        let turns = LoggedTurnReader {
            reader,
            given_records: given_records.unwrap_or_default(),
            pending_event: None,
            reason: None,
            is_log: true,
            is_cut: true,
            cut_by: None,
            partial: BTreeSet::new(),
            for_models,
            progress,
        };
        Ok(Self {
            start_event: *started,
            recording: SharedTurnRecording::default(),
            turns,
        })
    }

    /// Creates the recording from the records of a saved result.
    pub(crate) async fn from_saved_records(saved: SavedRecords) -> Result<Self, RunError> {
        let mut recordings =
            Self::from_log(Box::new(InMemoryRecordReader(saved.records.into_iter())), false, None).await?;
        recordings.turns.is_log = false;
        recordings.turns.is_cut = false;
        recordings.turns.partial = saved.partial_turns;
        Ok(recordings)
    }

    /// Sets the inputs to those that the ensemble declares, which can differ from those of the record.
    pub(crate) fn set_declared_inputs(&mut self, ensemble: &Ensemble) -> Result<(), RunError> {
        let carried = carry_inputs_over(ensemble, &self.start_event, &[], &InputValues::default(), |_| false);
        let run_arguments = carried.map_err(RunError::Inputs)?.run_arguments;
        (self.start_event.context, self.start_event.inputs) = (run_arguments.context, run_arguments.inputs);
        Ok(())
    }

    /// Passes the records that are not decided again to `each`, and loads the results of an open turn.
    pub(crate) async fn forward_undecided_records(
        &mut self,
        mut each: impl FnMut(&Record) + Send,
    ) -> Result<(), RunError> {
        let open = self.turns.read_undecided_records(&mut each).await?;
        self.recording.set_current_turn(open);
        Ok(())
    }

    /// Reads the user message that follows the records that are not decided again.
    pub(crate) async fn read_next_message(&mut self) -> Result<Option<MessageAdded>, RunError> {
        self.turns.read_turn_rest().await?;
        Ok(self.take_next_message())
    }

    /// Takes the user message after the end that was reached.
    pub(crate) fn take_next_message(&mut self) -> Option<MessageAdded> {
        self.turns.take_later_message()
    }
}

impl RecordedDecisionReader for RunRecording {
    fn read_next_decision(&mut self) -> BoxFuture<'_, Result<RecordedDecision, LogReadError>> {
        Box::pin(async move {
            let (decision, turn) = self.turns.read_next_turn().await?;
            self.recording.set_current_turn(turn);
            Ok(decision)
        })
    }
}

/// A reader of records that are in memory.
struct InMemoryRecordReader(std::vec::IntoIter<Record>);

impl RunRecordReader for InMemoryRecordReader {
    fn next_record(&mut self) -> BoxFuture<'_, Result<Option<Record>, LogReadError>> {
        Box::pin(std::future::ready(Ok(self.0.next())))
    }

    fn position_after_read_records(&self) -> LogEnd {
        LogEnd::NEW
    }

    fn has_dropped_incomplete_record(&self) -> bool {
        false
    }
}

/// A reader of a log that returns one turn at a time.
struct LoggedTurnReader {
    reader: Box<dyn RunRecordReader>,
    /// Records that are not decided again.
    given_records: u64,
    /// The first record after the last turn.
    pending_event: Option<Event>,
    /// The reason for the end of the conversation, as far as the record was read.
    reason: Option<CompletionReason>,
    /// True if a missing end means that the log is incomplete. A saved result can omit a reason that this program knows.
    is_log: bool,
    is_cut: bool,
    cut_by: Option<RunInterruption>,
    /// Turns of which only the executions that had ended are known.
    partial: BTreeSet<u32>,
    for_models: bool,
    progress: Option<Box<LogPositionCallback>>,
}

impl LoggedTurnReader {
    /// Takes the user message after the end that was reached.
    fn take_later_message(&mut self) -> Option<MessageAdded> {
        match self.pending_event.take() {
            Some(Event::MessageAdded(message)) => {
                (self.reason, self.is_cut) = (None, self.is_log);
                Some(message)
            }
            _ => None,
        }
    }

    /// Reads the next turn: the decision and the results of its executions. Reports progress. Returns the end if no turn follows.
    async fn read_next_turn(&mut self) -> Result<(RecordedDecision, RecordedTurn), LogReadError> {
        if self.pending_event.is_none() {
            self.read_turn_rest().await?;
        }
        if let Some(progress) = &self.progress {
            progress(self.reader.position_after_read_records().position);
        }
        if !matches!(self.pending_event, Some(Event::TurnStarted(_))) {
            let decision = RecordedDecision::Ended {
                reason: self.reason,
                is_cut: self.is_cut,
            };
            return Ok((decision, RecordedTurn::default()));
        }
        let Some(Event::TurnStarted(started)) = self.pending_event.take() else {
            unreachable!("it has just been looked at");
        };
        (self.reason, self.is_cut, self.cut_by) = (None, self.is_log, None);
        let decision = RecordedDecision::Turn {
            turn: started.turn,
            agents: list_started_agents(&started),
            is_partial: self.partial.contains(&started.turn),
        };
        Ok((decision, self.read_turn_rest().await?))
    }

    /// Reads the records that are not decided again. Returns the results of the last turn if the turn is open.
    async fn read_undecided_records(
        &mut self,
        each: &mut (dyn FnMut(&Record) + Send),
    ) -> Result<RecordedTurn, LogReadError> {
        let mut is_open = false;
        for _ in 0..self.given_records {
            let Some(record) = self.reader.next_record().await? else {
                break;
            };
            match &record.event {
                Event::TurnStarted(_) => is_open = true,
                Event::TurnFinished(_) | Event::MessageAdded(_) => is_open = false,
                _ => {}
            }
            each(&record);
        }
        if is_open {
            self.read_turn_rest().await
        } else {
            Ok(RecordedTurn::default())
        }
    }

    /// Reads the results up to the next turn, message or end, and keeps the next turn or message for later.
    async fn read_turn_rest(&mut self) -> Result<RecordedTurn, LogReadError> {
        let mut executions: HashMap<Arc<str>, RecordedExecutionResult> = HashMap::new();
        let mut accounts: HashMap<Arc<str>, ExecutionAccount> = HashMap::new();
        let mut parts: HashMap<Arc<str>, Vec<Arc<PartAttemptEnded>>> = HashMap::new();
        let mut exchanges: HashMap<Arc<str>, RecordedExchanges> = HashMap::new();
        let mut nested_answers: HashMap<Arc<str>, Vec<NestedRequestAnswered>> = HashMap::new();
        while let Some(record) = self.reader.next_record().await? {
            if let Some(within) = record.event.attempt_scope() {
                record
                    .event
                    .apply_to_exchanges(exchanges.entry(within.agent.clone()).or_default());
            }
            if let Some(agent) = record.event.agent_name() {
                let open = || ExecutionAccount::new(agent.into(), 0);
                let account = accounts.entry(agent.into()).or_insert_with(open);
                account.apply_event(&record.event, record.at);
            }
            let answers = list_copied_answers(&record, self.for_models);
            if let (Some(agent), false) = (record.event.agent_name(), answers.is_empty()) {
                nested_answers.entry(agent.into()).or_default().extend(answers);
            }
            match record.event {
                Event::TurnStarted(_) | Event::MessageAdded(_) => {
                    self.pending_event = Some(record.event);
                    break;
                }
                Event::AttemptFailed(failed) => {
                    exchanges.remove(&failed.agent);
                }
                Event::PartEnded(mut part) => {
                    let recorded = exchanges
                        .get_mut(&part.agent)
                        .map(|all| all.remove_exchanges(Some(&part.key)));
                    if !self.for_models {
                        part.exchange = Vec::new();
                    } else if part.is_final() {
                        part.exchange.splice(..0, recorded.unwrap_or_default());
                    }
                    parts.entry(part.agent.clone()).or_default().push(Arc::from(part));
                }
                Event::ExecutionFinished(mut finished) => {
                    let used = accounts
                        .get(&finished.agent)
                        .map(ExecutionAccount::usage_without_parts)
                        .filter(|used| finished.usage.is_some() || !used.is_empty());
                    let agent = finished.agent.clone();
                    let recorded = exchanges.get_mut(&agent).map(|all| all.remove_exchanges(None));
                    finished.exchange.splice(..0, recorded.unwrap_or_default());
                    let recorded = match self.for_models {
                        true => AttemptResult::from_record(finished),
                        false => AttemptResult::from_record(finished).without_iterations(),
                    };
                    let observation = AttemptResult {
                        parts: parts.remove(&agent).unwrap_or_default(),
                        nested_answers: nested_answers.remove(&agent).unwrap_or_default(),
                        usage: used,
                        ..recorded
                    };
                    let result = RecordedExecutionResult::AttemptEnded(Box::new(observation));
                    executions.insert(agent, result);
                }
                Event::InputRequested(asked) => {
                    let request = asked.pending_request();
                    match executions.get_mut(&asked.agent) {
                        Some(RecordedExecutionResult::QuestionsAsked(requests)) => requests.push(request),
                        _ => {
                            executions.insert(asked.agent, RecordedExecutionResult::QuestionsAsked(vec![request]));
                        }
                    }
                }
                Event::Interrupted(cause) => self.cut_by = Some(cause),
                Event::RunEnded(ended) => {
                    self.reason = Some(ended.completion_reason);
                    self.is_cut = ended.completion_reason.is_resumable();
                }
                Event::RunResumed(_) => (self.reason, self.is_cut, self.cut_by) = (None, true, None),
                // What happened inside an execution was added above.
                Event::ExecutionStarted(_)
                | Event::ReplyReceived(_)
                | Event::RequestStopped(_)
                | Event::PermissionDecided(_)
                | Event::ToolCallStarted(_)
                | Event::ToolCallEnded(_)
                | Event::NestedRequestAnswered(_) => {}
                Event::RunStarted(_) | Event::ContextSet(_) | Event::TurnFinished(_) => {}
            }
        }
        Ok(RecordedTurn {
            executions,
            cut_by: self.cut_by.clone(),
        })
    }
}

/// Returns the names of the agents that the turn starts.
fn list_started_agents(turn: &TurnStarted) -> BTreeSet<Arc<str>> {
    turn.starts.iter().map(|start| start.agent.clone()).collect()
}
