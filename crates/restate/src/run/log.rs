//! Records of a run in the engine's state.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use ensemble_core::conversation::{ConversationState, Event, ExecutionProgress, IllegalRecord, Record};
use ensemble_core::request::{PendingRequest, RequestDigest};
use ensemble_core::store::RunId;
use ensemble_history::{DriverProcess, RunHistory};
use ensemble_project::PreparedEnsemble;
use ensemble_remote::protocol::{NestedRunLines, RunBrief, RunStartRequest, encode_record_lines};
use restate_sdk::prelude::*;

use super::news_promise_name;
use crate::run_snapshot::{FoldedRun, RunSnapshot};
use crate::worker::RestateWorker;

/// The state entry with what the run was started with.
pub(super) const START_KEY: &str = "start";
/// The state entry with what the run did until now.
pub(super) const BRIEF_KEY: &str = "brief";
/// The beginning of the state entries with the runs inside the run.
pub(super) const NESTED_KEY_PREFIX: &str = "inside:";
/// The beginning of the state entries with records; the number of the first record follows.
const RECORDS_KEY_PREFIX: &str = "records:";
/// The number of bytes after which records begin another entry.
const LARGEST_ENTRY: usize = 1 << 20;

/// Returns the number of the first record of a state entry.
pub(super) fn parse_records_key(key: &str) -> Option<u64> {
    key.strip_prefix(RECORDS_KEY_PREFIX)?.parse().ok()
}

/// The log of a run: an entry of the engine's state for what is committed at once.
///
/// Records are stored before the workflow waits, and before a worker needs them, so an entry contains what several commits added.
pub(super) struct WorkflowLog<'a> {
    ctx: &'a WorkflowContext<'a>,
    worker: RestateWorker,
    state: ConversationState,
    /// The number of the first record that is not stored, and the lines from there on.
    unstored: Option<(u64, String)>,
    /// The run up to its open turn, and the records of the open turn.
    open_turn: RunSnapshot,
    /// The id of the workflow.
    run: Arc<str>,
    /// Time of the last record. The workflow reads no clock, so its own records have the time of the record before.
    now: DateTime<Utc>,
    history: RunHistory,
    /// Clients can follow the run, which is not inside another.
    is_followed: bool,
    /// The run is about to end.
    is_stopping: bool,
    /// First record that could not follow the others. The record was not committed, and the run stops.
    illegal: Option<IllegalRecord>,
}

impl<'a> WorkflowLog<'a> {
    pub(super) fn new(
        ctx: &'a WorkflowContext<'a>,
        worker: RestateWorker,
        prepared: Arc<PreparedEnsemble>,
        start: &RunStartRequest,
    ) -> Self {
        let state = ConversationState::new(prepared.plan.clone());
        Self {
            ctx,
            worker,
            unstored: None,
            open_turn: RunSnapshot::new(FoldedRun::new(start.clone(), prepared)),
            state,
            run: ctx.key().into(),
            now: start.at,
            history: RunHistory::default(),
            is_followed: start.inside.is_none(),
            is_stopping: false,
            illegal: None,
        }
    }

    /// Returns the state of the run.
    pub(super) fn run_state(&self) -> &ConversationState {
        &self.state
    }

    /// Returns the id of the workflow of this log.
    pub(super) fn workflow_id(&self) -> &Arc<str> {
        &self.run
    }

    /// Returns the summary of the present state of the run, as driven until its end. Returns `None` before the first record.
    pub(super) fn summarize_as_running(&self) -> Option<RunBrief> {
        let driver = DriverProcess::Process(std::process::id());
        let summary = self.history.summarize_run(RunId::new(&*self.run), driver)?;
        Some(RunBrief {
            is_stopping: self.is_stopping,
            ..RunBrief::from(summary)
        })
    }

    /// Publishes in the summary whether workers must stop the executions of the run.
    pub(super) fn publish_stopping(&mut self, is_stopping: bool) {
        self.is_stopping = is_stopping;
        self.store_records();
        if let Some(brief) = self.summarize_as_running() {
            self.ctx.set(BRIEF_KEY, Json(brief));
        }
    }

    /// Returns the time of the last record.
    pub(super) fn latest_time(&self) -> DateTime<Utc> {
        self.now
    }

    /// Advances the time of the log to at least this time.
    pub(super) fn advance_time_to(&mut self, at: DateTime<Utc>) {
        self.now = self.now.max(at);
    }

    /// Commits the events as records with the time of the last record.
    pub(super) fn commit_events<const N: usize>(&mut self, events: [Event; N]) {
        let at = self.now;
        let seq = self.state.next_seq();
        self.renumber_and_commit_records(
            (seq..)
                .zip(events)
                .map(|(seq, event)| Record { seq, at, event })
                .collect(),
        );
    }

    /// Returns an error if a record could not follow the others.
    pub(super) fn check_no_illegal_record(&self) -> Result<(), TerminalError> {
        let stopped = |illegal: &IllegalRecord| TerminalError::new(illegal.to_string());
        self.illegal.as_ref().map_or(Ok(()), |illegal| Err(stopped(illegal)))
    }

    /// Commits records of a worker with the numbers of this log and with times that never decrease. Updates the summary.
    pub(super) fn renumber_and_commit_records(&mut self, mut records: Vec<Record>) {
        let first = self.state.next_seq();
        for (seq, record) in (first..).zip(&mut records) {
            record.seq = seq;
            self.now = self.now.max(record.at);
            record.at = self.now;
            if let Err(illegal) = self.state.apply_record(record) {
                self.illegal.get_or_insert(illegal);
                break;
            }
            self.history.apply_record(record);
        }
        records.retain(|record| record.seq < self.state.next_seq());
        if records.is_empty() {
            return;
        }
        let lines = encode_record_lines(&records);
        if let Err(illegal) = self.open_turn.push_records(records) {
            self.illegal.get_or_insert(illegal);
        }
        if self
            .unstored
            .as_ref()
            .is_some_and(|(_, before)| before.len() + lines.len() > LARGEST_ENTRY)
        {
            self.store_records();
        }
        let (_, unstored) = self.unstored.get_or_insert((first, String::new()));
        unstored.push_str(&lines);
    }

    /// Stores the records that are not stored, and lets clients know that follow the run.
    pub(super) fn store_records(&mut self) {
        let Some((first, lines)) = self.unstored.take() else {
            return;
        };
        self.ctx.set(&format!("{RECORDS_KEY_PREFIX}{first:012}"), lines);
        if let Some(brief) = self.summarize_as_running() {
            self.ctx.set(BRIEF_KEY, Json(brief));
        }
        if self.is_followed {
            self.ctx.resolve_promise(&news_promise_name(first), true);
        }
    }

    /// Lets the executions that this worker performs use the state of the run without reading its records.
    pub(super) fn offer_state(&self) {
        self.worker.offer_snapshot(&self.run, &self.open_turn);
    }

    /// Commits the records of the earlier workflow of this run, with their times.
    pub(super) fn commit_earlier_workflow(&mut self, records: Vec<Record>) {
        if let Some(first) = records.first() {
            self.now = first.at;
        }
        self.renumber_and_commit_records(records);
    }

    /// Stores the nested runs of an execution.
    pub(super) fn store_nested_runs_of_agent(&self, agent: &str, inside: &[NestedRunLines]) {
        if !inside.is_empty() {
            let key = format!("{NESTED_KEY_PREFIX}{agent}:{:012}", self.state.next_seq());
            self.ctx.set(&key, Json(inside.to_vec()));
        }
    }

    /// Stores a nested run that is a workflow. Replaces the earlier workflow of the run.
    pub(super) fn store_nested_workflow(&self, child: NestedRunLines) {
        let key = format!("{NESTED_KEY_PREFIX}{}", child.name);
        self.ctx.set(&key, Json(vec![child]));
    }

    /// Finds the pending request with this digest, or the first pending request. Returns the agent and the number of the waiting
    /// execution, and the request. Returns `None` if no execution waits.
    pub(super) fn find_request_or_first(&self, digest: &RequestDigest) -> Option<(Arc<str>, u32, PendingRequest)> {
        let slots = self.state.open_turn()?.slots.iter();
        let waiting = slots.flat_map(|slot| match &slot.progress {
            ExecutionProgress::Waiting(requests) => requests.iter().map(move |request| (slot, request)).collect(),
            _ => Vec::new(),
        });
        let waiting: Vec<_> = waiting.collect();
        let matching_request = waiting.iter().find(|(_, request)| request.digest == *digest);
        let (slot, request) = matching_request.or(waiting.first())?;
        Some((
            slot.start.agent.clone(),
            slot.start.execution,
            PendingRequest::clone(request),
        ))
    }
}

impl Drop for WorkflowLog<'_> {
    fn drop(&mut self) {
        self.worker.forget_snapshot(&self.run);
    }
}
