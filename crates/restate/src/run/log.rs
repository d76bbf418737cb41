//! The records of a run in the engine's state.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use ensemble_core::conversation::{ConversationState, Event, ExecutionProgress, IllegalRecord, Record};
use ensemble_core::request::{PendingRequest, RequestDigest};
use ensemble_core::store::RunId;
use ensemble_history::{RunDriver, RunHistory};
use ensemble_project::PreparedEnsemble;
use ensemble_remote::protocol::{InnerRunLines, RunBrief, RunStartRequest, format_lines};
use restate_sdk::prelude::*;

use super::news_promise_name;
use crate::run_snapshot::{FoldedRun, RunSnapshot};
use crate::worker::RestateWorker;

/// The state entry with what the run was started with.
pub(super) const START: &str = "start";
/// The state entry with what the run did until now.
pub(super) const BRIEF: &str = "brief";
/// The beginning of the state entries with the runs inside the run.
pub(super) const INSIDE: &str = "inside:";
/// The beginning of the state entries with records; the number of the first record follows.
const RECORDS: &str = "records:";
/// The number of bytes after which records begin another entry.
const LARGEST_ENTRY: usize = 1 << 20;

/// Returns the number of the first record of a state entry.
pub(super) fn parse_chunk_key(key: &str) -> Option<u64> {
    key.strip_prefix(RECORDS)?.parse().ok()
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
    /// The time of the last record. The workflow reads no clock: its own records have the time of what came before.
    now: DateTime<Utc>,
    history: RunHistory,
    /// Clients can follow the run, which is not inside another.
    is_followed: bool,
    /// The run is about to end.
    is_stopping: bool,
    /// The first record that could not follow the others. It was not committed, and the run stops.
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

    pub(super) fn run_state(&self) -> &ConversationState {
        &self.state
    }

    /// Returns the id of the workflow that has the records.
    pub(super) fn workflow_id(&self) -> &Arc<str> {
        &self.run
    }

    /// Returns the summary of the run until now; `None` before the first record. The engine drives the run until its end.
    pub(super) fn run_brief(&self) -> Option<RunBrief> {
        let driver = RunDriver::Process(std::process::id());
        let summary = self.history.summarize_run(RunId::new(&*self.run), driver)?;
        Some(RunBrief {
            is_stopping: self.is_stopping,
            ..RunBrief::from(summary)
        })
    }

    /// Lets workers know whether they must stop the executions of the run.
    pub(super) fn set_stopping(&mut self, is_stopping: bool) {
        self.is_stopping = is_stopping;
        self.store_records();
        if let Some(brief) = self.run_brief() {
            self.ctx.set(BRIEF, Json(brief));
        }
    }

    /// Returns the time of the last record.
    pub(super) fn latest_time(&self) -> DateTime<Utc> {
        self.now
    }

    /// Advances the time to at least this instant.
    pub(super) fn advance_to(&mut self, at: DateTime<Utc>) {
        self.now = self.now.max(at);
    }

    pub(super) fn commit_events<const N: usize>(&mut self, events: [Event; N]) {
        let at = self.now;
        let seq = self.state.next_seq();
        self.commit_records(
            (seq..)
                .zip(events)
                .map(|(seq, event)| Record { seq, at, event })
                .collect(),
        );
    }

    /// Returns an error after a record that could not follow the others.
    pub(super) fn check_records(&self) -> Result<(), TerminalError> {
        let stopped = |illegal: &IllegalRecord| TerminalError::new(illegal.to_string());
        self.illegal.as_ref().map_or(Ok(()), |illegal| Err(stopped(illegal)))
    }

    /// Commits records that a worker made, with the numbers and times of this log.
    pub(super) fn commit_records(&mut self, mut records: Vec<Record>) {
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
        let lines = format_lines(&records);
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
        self.ctx.set(&format!("{RECORDS}{first:012}"), lines);
        if let Some(brief) = self.run_brief() {
            self.ctx.set(BRIEF, Json(brief));
        }
        if self.is_followed {
            self.ctx.resolve_promise(&news_promise_name(first), true);
        }
    }

    /// Lets the executions that this worker performs use the state of the run without reading its records.
    pub(super) fn offer_state(&self) {
        self.worker.offer_snapshot(&self.run, &self.open_turn);
    }

    /// Commits the records of the workflow that drove this run before, with their times.
    pub(super) fn take_over(&mut self, records: Vec<Record>) {
        if let Some(first) = records.first() {
            self.now = first.at;
        }
        self.commit_records(records);
    }

    /// Keeps the runs inside an execution.
    pub(super) fn store_inner_runs(&self, agent: &str, inside: &[InnerRunLines]) {
        if !inside.is_empty() {
            let key = format!("{INSIDE}{agent}:{:012}", self.state.next_seq());
            self.ctx.set(&key, Json(inside.to_vec()));
        }
    }

    /// Keeps a run inside this one that is a workflow. It takes the place of the workflow that drove it before.
    pub(super) fn store_child_run(&self, child: InnerRunLines) {
        let key = format!("{INSIDE}{}", child.name);
        self.ctx.set(&key, Json(vec![child]));
    }

    /// Finds the request with this digest, or the first one: the agent whose execution waits, the number of the execution, and the
    /// request. Returns `None` if nothing waits.
    pub(super) fn find_question(&self, digest: &RequestDigest) -> Option<(Arc<str>, u32, PendingRequest)> {
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
