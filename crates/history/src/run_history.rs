//! The history of a run, computed from its records.
//!
//! **Invariant:** a history depends only on records, makes no decisions, and costs the same for each record. Its totals equal those of
//! [`ConversationState`](ensemble_core::conversation::ConversationState), which needs the ensemble.

use std::collections::HashMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use ensemble_core::conversation::{CompletionReason, Event, Record, RunEnded, RunResumed, RunStarted, TurnStarted};
use ensemble_core::request::PendingRequest;
use ensemble_core::store::RunId;
use ensemble_language::data::ModelUsage;
use ensemble_language::ensemble::{BudgetScope, BudgetStatus, ConversationLimits};

use crate::ledger::{AgentActivity, ExecutionAccount};
use crate::state::{DriverProcess, RunState};
use crate::summary::RunSummary;
use crate::totals::{AgentTotals, RunTotals};

/// The history of a run, computed from its records: state, totals, pending requests and end.
#[derive(Debug, Clone, Default)]
pub struct RunHistory {
    start_event: Option<RunStarted>,
    started_at: Option<DateTime<Utc>>,
    latest_at: Option<DateTime<Utc>>,
    next_seq: u64,
    /// The totals of closed turns.
    closed_totals: RunTotals,
    /// The usage before the last message.
    used_before_message: ModelUsage,
    /// The executions of the open turn.
    open: Vec<ExecutionAccount>,
    /// The number of the latest turn that started.
    latest_turn: u32,
    is_turn_open: bool,
    end_event: Option<RunEnded>,
    /// The number of times that each dependency of an agent started the agent.
    starts: HashMap<(Arc<str>, usize), usize>,
    /// The reasons why agents did not run in the latest turn that considered them.
    idle: HashMap<Arc<str>, String>,
}

impl RunHistory {
    /// Creates the history from all records of a run.
    pub fn from_records<'a>(records: impl IntoIterator<Item = &'a Record>) -> Self {
        let mut history = Self::default();
        records.into_iter().for_each(|record| history.apply_record(record));
        history
    }

    /// Applies the next record.
    pub fn apply_record(&mut self, record: &Record) {
        self.next_seq = record.seq + 1;
        self.latest_at = self.latest_at.max(Some(record.at));
        match &record.event {
            Event::RunStarted(event) => {
                self.started_at = Some(record.at);
                self.start_event = Some((**event).clone());
            }
            Event::RunResumed(event) => self.apply_resume(event),
            Event::MessageAdded(_) => {
                self.abandon_open_turn();
                self.used_before_message = self.usage();
            }
            Event::TurnStarted(event) => self.start_turn(event),
            Event::TurnFinished(_) => self.close_turn(true),
            Event::Interrupted(_) => self.open.iter_mut().for_each(|one| one.interrupt_attempt(record.at)),
            Event::RunEnded(event) => self.apply_end(event),
            event => {
                if let Some(agent) = event.agent_name() {
                    self.get_or_open_execution(agent).apply_event(event, record.at);
                }
            }
        }
    }

    /// Returns the first event of the run. Returns `None` before the first record.
    pub fn start_event(&self) -> Option<&RunStarted> {
        self.start_event.as_ref()
    }

    /// Returns the time at which the run was started.
    pub fn started_at(&self) -> Option<DateTime<Utc>> {
        self.started_at
    }

    /// Returns the time of the latest record.
    pub fn latest_record_at(&self) -> Option<DateTime<Utc>> {
        self.latest_at
    }

    /// Returns the number of the next record.
    pub fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// Returns the end of the run. Returns `None` if the run has not ended or was continued.
    pub fn end_event(&self) -> Option<&RunEnded> {
        self.end_event.as_ref()
    }

    /// Returns the state of the run, which also depends on the process that drives the run.
    pub fn run_state(&self, driver: DriverProcess) -> RunState {
        let outcome = self.end_event.as_ref().map(|ended| ended.completion_reason);
        match (outcome, driver) {
            (Some(CompletionReason::WaitingForInput), _) => RunState::Waiting,
            (Some(outcome), _) => RunState::Ended(outcome),
            (None, _) if self.open.iter().any(|one| !one.requests.is_empty()) => RunState::Waiting,
            (None, DriverProcess::Process(_)) => RunState::Running,
            (None, DriverProcess::NoProcess) => RunState::Interrupted,
        }
    }

    /// Returns the totals of the run until now.
    pub fn run_totals(&self) -> RunTotals {
        let mut totals = self.closed_totals.clone();
        self.open
            .iter()
            .for_each(|one| totals.add_execution(&one.agent, one.current_totals()));
        totals
    }

    /// Returns the usage of the run until now.
    pub fn usage(&self) -> ModelUsage {
        let open = self.open.iter().map(|one| one.current_totals().usage);
        open.fold(self.closed_totals.all.usage, |sum, one| sum + one)
    }

    /// Returns the usage that the budget of these limits covers: of the last message, or of all messages.
    pub fn budgeted_usage(&self, limits: &ConversationLimits) -> ModelUsage {
        let used_before = match limits.budget_scope() {
            BudgetScope::Conversation => ModelUsage::default(),
            BudgetScope::Message => self.used_before_message,
        };
        self.usage().subtract_earlier(used_before)
    }

    /// Returns what is left of the budget of these limits; `None` if the limits contain no budget.
    pub fn budget_status(&self, limits: &ConversationLimits) -> Option<BudgetStatus> {
        BudgetStatus::after_usage(limits, self.budgeted_usage(limits))
    }

    /// Returns the totals of the agent until now.
    pub fn agent_totals(&self, agent: &str) -> AgentTotals {
        let closed = self.closed_totals.agents.get(agent).copied().unwrap_or_default();
        let open = self.open_execution_totals(agent).unwrap_or_default();
        closed + open
    }

    /// Returns the totals of the agent's execution in the open turn. Returns `None` if the agent has no such execution.
    pub fn open_execution_totals(&self, agent: &str) -> Option<AgentTotals> {
        let open = self.open.iter().find(|one| *one.agent == *agent);
        open.map(ExecutionAccount::current_totals)
    }

    /// Returns the activity of the agent in the open turn. Returns `None` if the agent has no unfinished execution there.
    pub fn agent_activity(&self, agent: &str) -> Option<AgentActivity> {
        let open = self.open.iter().find(|one| *one.agent == *agent);
        open.and_then(ExecutionAccount::current_activity)
    }

    /// Returns the pending questions and permission requests, in the order of the executions.
    pub fn pending_requests(&self) -> Vec<PendingRequest> {
        self.open.iter().flat_map(|one| one.requests.iter().cloned()).collect()
    }

    /// Returns the number of times that the dependency at this position has started the agent.
    pub fn dependency_start_count(&self, agent: &Arc<str>, position: usize) -> usize {
        self.starts.get(&(agent.clone(), position)).copied().unwrap_or(0)
    }

    /// Returns the reason why the agent did not run in the latest turn that considered the agent, or in the whole run.
    pub fn idle_reason(&self, agent: &str) -> Option<&str> {
        self.idle.get(agent).map(String::as_str)
    }

    /// Returns the summary of the run. Returns `None` before the first record.
    pub fn summarize_run(&self, id: RunId, driver: DriverProcess) -> Option<RunSummary> {
        let started = self.start_event.as_ref()?;
        let totals = self.run_totals();
        Some(RunSummary {
            id,
            ensemble: started.ensemble.clone(),
            ensemble_file: started.ensemble_file.clone(),
            input: started.input.clone(),
            forked_from: started.forked_from.as_ref().map(|from| from.run_id.clone()),
            started_at: self.started_at?,
            last_at: self.latest_at?,
            state: self.run_state(driver),
            process: driver.process_id(),
            completion_reason: self.end_event.as_ref().map(|ended| ended.completion_reason),
            success: self.end_event.as_ref().map(RunEnded::is_success),
            detail: self.end_event.as_ref().and_then(|ended| ended.detail.clone()),
            turns: totals.turns,
            executions: totals.all.executions,
            failed: totals.all.failed,
            failed_work: totals.list_failed_work(),
            usage: totals.all.usage,
            questions: self.pending_requests(),
            records: self.next_seq,
        })
    }

    /// Opens the turn with its executions, counts the dependencies that started agents, and records the reasons of skipped agents.
    fn start_turn(&mut self, event: &TurnStarted) {
        self.close_turn(false);
        self.is_turn_open = true;
        self.latest_turn = event.turn;
        for start in &event.starts {
            for position in &start.counts {
                *self.starts.entry((start.agent.clone(), *position)).or_default() += 1;
            }
            self.idle.remove(&start.agent);
            self.open.push(ExecutionAccount::new(start.agent.clone(), event.turn));
        }
        for waiting in &event.waiting {
            self.idle.insert(waiting.agent.clone(), waiting.reason.to_string());
        }
    }

    /// Closes the open turn and adds its executions to the totals. `counts` is true if the turn counts as a turn of the run.
    fn close_turn(&mut self, counts: bool) {
        self.closed_totals.turns += u32::from(counts);
        self.is_turn_open = false;
        for account in std::mem::take(&mut self.open) {
            self.closed_totals
                .add_execution(&account.agent, account.current_totals());
        }
    }

    /// Abandons the open turn because of a user message. The turn counts if one of its executions has finished.
    fn abandon_open_turn(&mut self) {
        self.end_event = None;
        let has_finished = self.open.iter().any(ExecutionAccount::is_finished);
        self.close_turn(self.is_turn_open && has_finished);
    }

    /// Removes the end of the run, and resumes the executions of the open turn.
    fn apply_resume(&mut self, event: &RunResumed) {
        self.end_event = None;
        for account in &mut self.open {
            account.resume_execution(event.again.contains(&account.agent));
        }
    }

    /// Sets the end of the run, and the reasons of agents that did not run.
    fn apply_end(&mut self, event: &RunEnded) {
        let reasons = event.not_run.iter();
        self.idle
            .extend(reasons.map(|one| (one.agent.clone(), one.reason.clone())));
        self.end_event = Some(event.clone());
    }

    /// Returns the open execution of the agent. Opens an account if the records of a fork or follower start inside the turn.
    fn get_or_open_execution(&mut self, agent: &str) -> &mut ExecutionAccount {
        let open_index = self.open.iter().position(|one| *one.agent == *agent);
        let at = open_index.unwrap_or_else(|| {
            self.open.push(ExecutionAccount::new(agent.into(), self.latest_turn));
            self.open.len() - 1
        });
        &mut self.open[at]
    }
}
