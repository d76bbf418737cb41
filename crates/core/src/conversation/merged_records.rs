//! The merge of the records of two runs that continue the same run.
//!
//! A run is a list of messages: the input, and each message that was added later. The turns that answer a message belong to it.
//! A merge keeps the messages that both runs share, and adds the further messages of both runs.
//!
//! Invariant: a merge changes no result. Only numbers change (of records, turns and executions), and the ids of tool calls that
//! both runs use. Every record is legal after the records before it.

mod call_names;
mod unsent_messages;

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use chrono::{DateTime, Utc};

use self::call_names::{find_new_call_ids, replace_call_ids_in_event};
use self::unsent_messages::mark_unsent_messages;
use super::event::{Event, MessageAdded, Record, RunStarted, TurnStarted};
use super::outcome::CompletionReason;
use super::state::{ConversationState, IllegalRecord};
use crate::thread::{MergeOrder, MergeSide};
use ensemble_language::data::RunContext;
use ensemble_language::plan::Plan;

/// The records of a merged run.
#[derive(Debug, Clone, PartialEq)]
pub struct MergedRecords {
    /// All records. The first one is the start of the left run.
    pub records: Vec<Record>,
    /// The last turn that both runs share.
    pub shared_turn: u32,
    /// The number of messages that both runs share, the input included.
    pub shared_messages: usize,
    /// The number of messages that the left run adds, and the number of those of the right run.
    pub added_messages: [usize; 2],
    /// The new number of each execution that the left run adds, and of each execution of the right run, by agent and number.
    pub executions: [NewExecutionNumbers; 2],
}

/// New numbers of executions, by agent and number.
pub type NewExecutionNumbers = BTreeMap<(Arc<str>, u32), u32>;

/// The reason why the records of two runs cannot be merged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordsMergeError {
    /// The records do not begin with the start of a run.
    #[error("the records do not begin with the start of a run")]
    NotBegun,
    /// The runs have different texts of an ensemble.
    #[error("`{left}` and `{right}` have different ensembles")]
    DifferentEnsembles {
        /// The first run.
        left: Arc<str>,
        /// The second run.
        right: Arc<str>,
    },
    /// The runs were started with different arguments.
    #[error("`{left}` and `{right}` began with another {argument}")]
    DifferentStart {
        /// The first run.
        left: Arc<str>,
        /// The second run.
        right: Arc<str>,
        /// The argument.
        argument: &'static str,
    },
    /// The runs have no record in common.
    #[error("`{left}` and `{right}` have no common beginning")]
    NoCommonBeginning {
        /// The first run.
        left: Arc<str>,
        /// The second run.
        right: Arc<str>,
    },
    /// The runs differ before their first message is answered.
    #[error("`{left}` and `{right}` part within their first message, in turn {turn}")]
    PartedInFirstMessage {
        /// The first run.
        left: Arc<str>,
        /// The second run.
        right: Arc<str>,
        /// The first turn that differs.
        turn: u32,
    },
    /// The other run contains all messages of this run.
    #[error("`{run}` adds no message to `{other}`")]
    NothingAdded {
        /// The run.
        run: Arc<str>,
        /// The other run.
        other: Arc<str>,
    },
    /// The other run is a merge of this run, so a message would be in the merge twice.
    #[error("`{other}` is a merge that already contains `{run}`")]
    AlreadyMerged {
        /// The run.
        run: Arc<str>,
        /// The merge.
        other: Arc<str>,
    },
    /// The run has not ended, or `resume` can continue its last message.
    #[error("`{run}` {}", describe_open_run(*outcome))]
    OpenRun {
        /// The run.
        run: Arc<str>,
        /// The outcome so far.
        outcome: Option<CompletionReason>,
    },
    /// The records of a run are damaged.
    #[error("the journal is damaged: {0}")]
    Illegal(#[from] IllegalRecord),
}

/// Describes the state of a run that cannot be merged: the run waits, ended within a message, or has not ended.
fn describe_open_run(outcome: Option<CompletionReason>) -> String {
    match outcome {
        Some(CompletionReason::WaitingForInput) => "waits for an answer".to_owned(),
        Some(outcome) => format!("ended within a message ({outcome})"),
        None => "has not ended".to_owned(),
    }
}

/// Message of a run, with the range of the records that answer the message.
struct MessageRecords {
    /// The position of its records in the run.
    range: Range<usize>,
    /// The values that a fork set after the turns of the message before it.
    set_before: RunContext,
    /// The number of its records up to the end of its turns.
    turns_end: usize,
    /// No message follows in its run.
    is_last: bool,
}

/// Run of a merge, with the state of its records that are merged so far.
struct MergedSide<'r> {
    start: &'r RunStarted,
    records: &'r [Record],
    messages: Vec<MessageRecords>,
    /// The state of the run after the records that are merged.
    state: ConversationState,
    /// The new numbers of its executions.
    executions: NewExecutionNumbers,
}

/// Merges the records of two runs of the plan: the messages that both share, then the further messages of both in this order.
///
/// # Errors
/// The runs do not begin with the same message, a run adds nothing, or a run has not ended.
pub fn merge_records(
    plan: &Arc<Plan>,
    left: &[Record],
    right: &[Record],
    order: MergeOrder,
) -> Result<MergedRecords, RecordsMergeError> {
    let (mut left, mut right) = (
        MergedSide::from_records(plan, left)?,
        MergedSide::from_records(plan, right)?,
    );
    check_same_start(left.start, right.start)?;
    let shared = count_shared_messages(&left, &right)?;
    left.check_has_added_messages(shared, &right)?;
    right.check_has_added_messages(shared, &left)?;
    left.check_is_continuable(plan)?;
    right.check_is_continuable(plan)?;
    let mut merged = MergedRecordList::new(plan);
    for at in 0..shared {
        for record in left
            .list_merged_records(at)
            .into_iter()
            .filter_map(|(_, record)| record)
        {
            merged.push_renumbered(record)?;
        }
        left.apply_shared_message(at)?;
        right.apply_shared_message(at)?;
    }
    let shared_turn = merged.state.turn_count();
    let added_messages = [left.messages.len() - shared, right.messages.len() - shared];
    let rounds = order.order_rounds(
        (shared..left.messages.len()).collect(),
        (shared..right.messages.len()).collect(),
    );
    for (side, at) in rounds {
        match side {
            MergeSide::Left => left.append_message_to_merge(at, &mut merged)?,
            MergeSide::Right => right.append_message_to_merge(at, &mut merged)?,
        }
    }
    Ok(MergedRecords {
        records: merged.records,
        shared_turn,
        shared_messages: shared,
        added_messages,
        executions: [left.executions, right.executions],
    })
}

/// The records of the merged run so far, with their state.
struct MergedRecordList {
    records: Vec<Record>,
    state: ConversationState,
}

impl MergedRecordList {
    /// Creates an empty list with the initial state of the plan.
    fn new(plan: &Arc<Plan>) -> Self {
        Self {
            records: Vec::new(),
            state: ConversationState::new(plan.clone()).without_history_and_warnings(),
        }
    }

    /// Applies the record to the state and adds it, with the next sequence number.
    /// # Errors: the event is illegal after the records before it.
    fn push_renumbered(&mut self, record: Record) -> Result<(), IllegalRecord> {
        let record = Record {
            seq: self.state.next_seq(),
            ..record
        };
        self.state.apply_record(&record)?;
        self.records.push(record);
        Ok(())
    }
}

impl<'r> MergedSide<'r> {
    /// Creates the side from the records of a run, split into messages.
    /// # Errors: the records do not begin with the start of a run.
    fn from_records(plan: &Arc<Plan>, records: &'r [Record]) -> Result<Self, RecordsMergeError> {
        let Some(Event::RunStarted(start)) = records.first().map(|record| &record.event) else {
            return Err(RecordsMergeError::NotBegun);
        };
        Ok(Self {
            start,
            records,
            messages: split_messages(records),
            state: ConversationState::new(plan.clone()).without_history_and_warnings(),
            executions: NewExecutionNumbers::new(),
        })
    }

    /// Checks that the run has messages after the `shared` ones.
    fn check_has_added_messages(&self, shared: usize, other: &Self) -> Result<(), RecordsMergeError> {
        match self.messages.len() > shared {
            true => Ok(()),
            false => Err(RecordsMergeError::NothingAdded {
                run: self.start.run_id.clone(),
                other: other.start.run_id.clone(),
            }),
        }
    }

    /// Checks that the last message of the run is answered, so that another message can follow.
    fn check_is_continuable(&self, plan: &Arc<Plan>) -> Result<(), RecordsMergeError> {
        let state = ConversationState::from_records(plan.clone(), self.records)?;
        let outcome = state.run_end().map(|ended| ended.completion_reason);
        match outcome {
            Some(outcome) if outcome.is_continuable() && state.open_turn().is_none() => Ok(()),
            outcome => Err(RecordsMergeError::OpenRun {
                run: self.start.run_id.clone(),
                outcome,
            }),
        }
    }

    /// Returns the records of the message at this index, each with its form in the merge. The form is `None` if the merge omits the record.
    fn list_merged_records(&self, message: usize) -> Vec<(&'r Record, Option<Record>)> {
        let message = &self.messages[message];
        let convert = |(at, record): (usize, &'r Record)| {
            let mut merged = record.clone();
            match &mut merged.event {
                // The first event of the merged run states the definitions.
                Event::MessageAdded(added) => {
                    set_earlier_values(added, &message.set_before);
                    (added.definitions, added.trace) = (None, None);
                }
                Event::RunResumed(resumed) => (resumed.definitions, resumed.trace) = (None, None),
                // Values that a fork sets after the turns are set with the next message.
                Event::ContextSet(_) if at >= message.turns_end && !message.is_last => return (record, None),
                _ => {}
            }
            (record, Some(merged))
        };
        self.records[message.range.clone()]
            .iter()
            .enumerate()
            .map(convert)
            .collect()
    }

    /// Applies the records of a shared message to the state of this run.
    fn apply_shared_message(&mut self, message: usize) -> Result<(), IllegalRecord> {
        let range = self.messages[message].range.clone();
        let records = &self.records[range];
        records.iter().try_for_each(|record| self.state.apply_record(record))
    }

    /// Applies a message to the state of this run, and appends the message to the merged run with new numbers of turns, executions and
    /// calls.
    fn append_message_to_merge(&mut self, message: usize, merged: &mut MergedRecordList) -> Result<(), IllegalRecord> {
        let mut records = self.list_merged_records(message).into_iter();
        for (own, added) in records.by_ref().take(1) {
            self.state.apply_record(own)?;
            added.map_or(Ok(()), |added| merged.push_renumbered(added))?;
        }
        // A message abandons the open turn, so the numbers are known after it.
        let turns = TurnRenumbering {
            before: self.state.turn_count(),
            merged: merged.state.turn_count(),
        };
        let firsts = self.list_next_execution_numbers(&merged.state);
        let call_ids = find_new_call_ids(&self.records[self.messages[message].range.clone()], &merged.state);
        for (own, added) in records {
            self.state.apply_record(own)?;
            let Some(mut record) = added else { continue };
            if let Event::TurnStarted(turn) = &mut record.event {
                self.assign_execution_numbers(turn, &firsts);
            }
            mark_unsent_messages(&mut record.event, &self.state, &merged.state);
            self.renumber_event(&mut record.event, turns);
            let agent = record.event.agent_name().map(str::to_owned);
            if let Some(names) = agent.and_then(|agent| call_ids.get(&agent)) {
                replace_call_ids_in_event(&mut record.event, names);
            }
            merged.push_renumbered(record)?;
        }
        Ok(())
    }

    /// Returns the next execution number of each agent, first in this run, then in the merged run.
    fn list_next_execution_numbers(&self, merged: &ConversationState) -> HashMap<Arc<str>, (u32, u32)> {
        let plan = self.state.plan();
        let numbers = plan.agent_ids().map(|id| {
            let numbers = (self.state.next_execution_number(id), merged.next_execution_number(id));
            (plan.agent_name(id).clone(), numbers)
        });
        numbers.collect()
    }

    /// Replaces the numbers of the executions that the turn starts and reads, and stores the new numbers. `firsts` has the next numbers by
    /// agent.
    fn assign_execution_numbers(&mut self, turn: &mut TurnStarted, firsts: &HashMap<Arc<str>, (u32, u32)>) {
        for start in &mut turn.starts {
            for (agent, execution) in &mut start.reads {
                *execution = find_new_number(&self.executions, agent, *execution);
            }
            let (before, merged) = firsts.get(&start.agent).copied().unwrap_or_default();
            let number = start.execution + merged - before;
            self.executions.insert((start.agent.clone(), start.execution), number);
            start.execution = number;
        }
    }

    /// Replaces the turn and the execution number of an event by the numbers in the merged run.
    fn renumber_event(&self, event: &mut Event, turns: TurnRenumbering) {
        let renumber = |turn: &mut u32, agent: &Arc<str>, execution: &mut u32| {
            *turn = turns.renumber_turn(*turn);
            *execution = find_new_number(&self.executions, agent, *execution);
        };
        match event {
            Event::TurnStarted(event) => event.turn = turns.renumber_turn(event.turn),
            Event::TurnFinished(event) => event.turn = turns.renumber_turn(event.turn),
            Event::ExecutionStarted(event) => renumber(&mut event.turn, &event.agent, &mut event.execution),
            Event::AttemptFailed(event) => renumber(&mut event.turn, &event.agent, &mut event.execution),
            Event::PartEnded(event) => renumber(&mut event.turn, &event.agent, &mut event.execution),
            Event::ExecutionFinished(event) => renumber(&mut event.turn, &event.agent, &mut event.execution),
            Event::InputRequested(event) => renumber(&mut event.turn, &event.agent, &mut event.execution),
            other => {
                if let Some(within) = other.attempt_scope_mut() {
                    renumber(&mut within.turn, &within.agent, &mut within.execution);
                }
            }
        }
    }
}

/// Number of turns before a message, in its run and in the merged run.
#[derive(Clone, Copy)]
struct TurnRenumbering {
    before: u32,
    merged: u32,
}

impl TurnRenumbering {
    /// Returns the number of the turn in the merged run.
    fn renumber_turn(self, turn: u32) -> u32 {
        turn + self.merged - self.before
    }
}

/// Returns the new number of an execution. Executions of shared messages keep their numbers.
fn find_new_number(numbers: &NewExecutionNumbers, agent: &Arc<str>, execution: u32) -> u32 {
    numbers.get(&(agent.clone(), execution)).copied().unwrap_or(execution)
}

/// Splits the records of a run into the messages with their turns.
fn split_messages(records: &[Record]) -> Vec<MessageRecords> {
    let is_start = |record: &Record| matches!(record.event, Event::RunStarted(_) | Event::MessageAdded(_));
    let is_turn = |record: &Record| matches!(record.event, Event::TurnStarted(_) | Event::TurnFinished(_));
    let mut bounds: Vec<usize> = (0..records.len()).filter(|at| is_start(&records[*at])).collect();
    bounds.push(records.len());
    let mut set_before = RunContext::default();
    let mut messages = Vec::new();
    for bounds in bounds.windows(2) {
        let all = &records[bounds[0]..bounds[1]];
        let turns_end = all.iter().rposition(is_turn).map_or(1, |at| at + 1);
        messages.push(MessageRecords {
            range: bounds[0]..bounds[1],
            set_before: std::mem::take(&mut set_before),
            turns_end,
            is_last: bounds[1] == records.len(),
        });
        for record in &all[turns_end..] {
            if let Event::ContextSet(set) = &record.event {
                set.iter()
                    .for_each(|(key, value)| set_before.insert(key.clone(), value.clone()));
            }
        }
    }
    messages
}

/// Adds values that were set before the message. Values of the message itself have precedence.
fn set_earlier_values(message: &mut MessageAdded, earlier: &RunContext) {
    if earlier.is_empty() {
        return;
    }
    let mut set = earlier.clone();
    message
        .set
        .iter()
        .for_each(|(key, value)| set.insert(key.clone(), value.clone()));
    message.set = set;
}

/// Returns whether `start` begins a run that was merged from the run with this id.
fn is_merge_of_run(start: &RunStarted, run: &str) -> bool {
    let origin = start.forked_from.as_ref();
    origin.is_some_and(|origin| {
        let merged_with = origin.merged_with.as_deref();
        merged_with.is_some_and(|other| other == run || *origin.run_id == *run)
    })
}

/// Checks that both runs started with the same ensemble and arguments, and that neither is a merge of the other.
fn check_same_start(left: &RunStarted, right: &RunStarted) -> Result<(), RecordsMergeError> {
    let (left_id, right_id) = (left.run_id.clone(), right.run_id.clone());
    for (merge, run) in [(left, &right_id), (right, &left_id)] {
        if is_merge_of_run(merge, run) {
            return Err(RecordsMergeError::AlreadyMerged {
                run: run.clone(),
                other: merge.run_id.clone(),
            });
        }
    }
    if left.ensemble_digest != right.ensemble_digest {
        return Err(RecordsMergeError::DifferentEnsembles {
            left: left_id,
            right: right_id,
        });
    }
    let arguments = [
        ("input", left.input == right.input),
        ("value of an input", left.inputs == right.inputs),
        ("context", left.context == right.context),
    ];
    match arguments.into_iter().find(|(_, is_same)| !is_same) {
        None => Ok(()),
        Some((argument, _)) => Err(RecordsMergeError::DifferentStart {
            left: left_id,
            right: right_id,
            argument,
        }),
    }
}

/// Returns the number of leading messages that both runs share with all their turns.
/// # Errors: the first message differs.
fn count_shared_messages(left: &MergedSide<'_>, right: &MergedSide<'_>) -> Result<usize, RecordsMergeError> {
    let mut shared = 0;
    for (one, other) in left.messages.iter().zip(&right.messages) {
        let (ours, theirs) = (left.list_compared_records(one), right.list_compared_records(other));
        let equal = ours.iter().zip(&theirs).take_while(|(one, other)| one == other).count();
        if one.set_before == other.set_before && equal == ours.len() && equal == theirs.len() {
            shared += 1;
            continue;
        }
        let next = ours.get(equal).or(theirs.get(equal));
        let turn = next.and_then(|compared| compared.event.turn());
        let (left, right) = (left.start.run_id.clone(), right.start.run_id.clone());
        match shared {
            0 if equal == 0 => return Err(RecordsMergeError::NoCommonBeginning { left, right }),
            0 => {
                let turn = turn.unwrap_or_default();
                return Err(RecordsMergeError::PartedInFirstMessage { left, right, turn });
            }
            _ => break,
        }
    }
    Ok(shared)
}

impl<'r> MergedSide<'r> {
    /// Returns the records by which messages are compared. Omits the ends of a run, resumes, and values that a fork set after the turns.
    fn list_compared_records(&self, message: &MessageRecords) -> Vec<ComparedRecord<'r>> {
        let records = &self.records[message.range.clone()];
        let counts = |at: usize, event: &Event| match event {
            Event::RunStarted(_) | Event::RunResumed(_) | Event::RunEnded(_) | Event::Interrupted(_) => false,
            Event::ContextSet(_) => at < message.turns_end,
            _ => true,
        };
        let records = records.iter().enumerate();
        let compared = records.filter(|(at, record)| counts(*at, &record.event));
        compared
            .map(|(_, record)| ComparedRecord {
                at: record.at,
                event: &record.event,
            })
            .collect()
    }
}

/// A record for comparisons, without its number and the definitions of the message.
#[derive(Debug, Clone, Copy)]
struct ComparedRecord<'r> {
    at: DateTime<Utc>,
    event: &'r Event,
}

impl PartialEq for ComparedRecord<'_> {
    fn eq(&self, other: &Self) -> bool {
        let is_same_event = match (self.event, other.event) {
            (Event::MessageAdded(one), Event::MessageAdded(other)) => {
                (&one.text, &one.set) == (&other.text, &other.set)
            }
            (one, other) => one == other,
        };
        self.at == other.at && is_same_event
    }
}

#[cfg(test)]
mod tests;
