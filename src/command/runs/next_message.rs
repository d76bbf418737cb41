//! Estimate of the next message of a recorded run: the usage of the last message, with the threads of the agents at the end of the run.

use std::ops::Range;
use std::sync::Arc;

use crate::command::shared::error::CliError;
use crate::command::shared::surroundings::CliEnvironment;
use ensemble_agents::agent::window::tokens::TokenCounter;
use ensemble_core::conversation::{AgentState, ConversationState, Event, Record};
use ensemble_core::thread::Thread;
use ensemble_history::{AgentTotals, RunHistory, RunTotals};
use ensemble_language::ensemble::{Agent, AgentKind, LlmSpec};
use ensemble_language::plan::Plan;
use ensemble_language::profiles::ModelProfiles;
use ensemble_reports::report::story::RememberedThread;
use ensemble_runs::replay::ReplaySource;
use ensemble_runs::{RecordedRun, RunError};

/// Last message of a run, as the basis of an estimate.
pub(super) struct LastMessage {
    /// The state before the last message, in the run in which it was answered.
    before: ConversationState,
    /// State at the end.
    after: ConversationState,
    /// Totals of the turns that answer the last message.
    pub(super) totals: RunTotals,
    /// First turn that answers the last message.
    pub(super) first_turn: u32,
}

impl LastMessage {
    /// Loads the last message of the run with this name, or of the latest run.
    ///
    /// # Errors
    /// The record is not a run, or the run has not ended.
    pub(super) async fn load(given: Option<&str>, surroundings: &CliEnvironment) -> Result<Self, CliError> {
        let ReplaySource::Run(run) = surroundings.runs_without_operator().resolve_record(given).await? else {
            let message = "--next-message needs a run, and not a journal or a saved result";
            return Err(CliError::usage_error_with_help(
                message,
                "`ensemble runs list` shows all runs",
            ));
        };
        let recorded = RecordedRun::load(run, &surroundings.project).await?;
        if !recorded.can_continue_with_message() {
            return Err(RunError::NotEnded(recorded.run.id().clone()).into());
        }
        let plan = &recorded.prepared.plan;
        let records = &recorded.journal.records;
        let last_message = find_answered_message(records);
        let mut before = ConversationState::from_records(plan.clone(), &records[..last_message.start]);
        let first_turn = before.as_ref().map_or(0, ConversationState::turn_count) + 1;
        if let Some(message) = records.get(last_message.start)
            && let Some(origin) = find_merged_run(&recorded, message, surroundings).await
        {
            let records = &origin.journal.records;
            let at = records.iter().position(|record| is_same_message(record, message));
            let plan = origin.prepared.plan.clone();
            before = ConversationState::from_records(plan, &records[..at.unwrap_or_default()]);
        }
        let before = before.map_err(RunError::from)?;
        Ok(Self {
            first_turn,
            totals: RunHistory::from_records(&records[last_message]).run_totals(),
            before,
            after: recorded.state,
        })
    }

    /// Counts the tokens of the thread that the agent keeps after the last message. Returns `None` if the agent keeps no message.
    pub(super) fn measure_kept_thread(&self, agent: &Agent, profiles: &ModelProfiles) -> Option<RememberedThread> {
        let AgentKind::Llm(llm) = &agent.kind else {
            return None;
        };
        let counter = self.token_counter(llm, profiles);
        let limit = llm.context_window.as_ref().and_then(|window| window.max_tokens);
        let count = |state: &ConversationState| count_thread_tokens(state, &agent.name, &counter, limit);
        let ThreadTokens { tokens, threads } = count(&self.after)?;
        let before = count(&self.before).map_or(0, |before| before.tokens);
        (tokens > 0).then(|| RememberedThread {
            tokens,
            growth: tokens.saturating_sub(before),
            threads,
            is_estimated: counter.is_estimate(),
        })
    }

    /// Returns a counter for the tokens of the first model in the chain of the agent.
    fn token_counter(&self, llm: &LlmSpec, profiles: &ModelProfiles) -> TokenCounter {
        let resolved = profiles.resolve_chain(&llm.model).ok();
        let link = resolved.as_ref().and_then(|resolved| resolved.chain.first());
        TokenCounter::for_model(link.map_or("", |link| &link.profile.model))
    }
}

/// Finds the run in which the message was answered, if a merge has taken it over: the requests of the message contained the
/// thread of that run. Returns `None` for other runs, and if the merged run is not there any more.
async fn find_merged_run(merge: &RecordedRun, message: &Record, surroundings: &CliEnvironment) -> Option<RecordedRun> {
    let mut origin = None;
    let mut next = find_merged_ids(merge, message);
    while let Some(id) = next.pop() {
        let Ok(ReplaySource::Run(run)) = surroundings.runs_without_operator().resolve_record(Some(&*id)).await else {
            continue;
        };
        let Ok(run) = RecordedRun::load(run, &surroundings.project).await else {
            continue;
        };
        if run
            .journal
            .records
            .iter()
            .any(|record| is_same_message(record, message))
        {
            next = find_merged_ids(&run, message);
            origin = Some(run);
        }
    }
    origin
}

/// Returns the ids of the two runs of a merge, if the merge has taken over the message.
fn find_merged_ids(run: &RecordedRun, message: &Record) -> Vec<Arc<str>> {
    let started = run.start_event().ok();
    let Some(from) = started.and_then(|started| started.forked_from.as_ref()) else {
        return Vec::new();
    };
    match &from.merged_with {
        Some(other) if from.given.is_some_and(|given| message.seq < given) => vec![other.clone(), from.run_id.clone()],
        _ => Vec::new(),
    }
}

/// Returns whether both records are the same message of the user. A merge keeps the times of messages.
fn is_same_message(one: &Record, other: &Record) -> bool {
    match (&one.event, &other.event) {
        (Event::MessageAdded(text), Event::MessageAdded(other_text)) => {
            one.at == other.at && text.text == other_text.text
        }
        _ => false,
    }
}

/// Returns the range of the records of the last message that an agent has answered: a message that a budget refuses starts no
/// execution. Without such a message, returns the range of the last message.
fn find_answered_message(records: &[Record]) -> Range<usize> {
    let is_message = |record: &Record| matches!(record.event, Event::MessageAdded(_));
    let is_execution = |record: &Record| matches!(record.event, Event::ExecutionStarted(_));
    let start_of = |end: usize| records[..end].iter().rposition(is_message).unwrap_or_default();
    let last = start_of(records.len())..records.len();
    let mut message = last.clone();
    while !records[message.clone()].iter().any(is_execution) {
        if message.start == 0 {
            return last;
        }
        message = start_of(message.start)..message.start;
    }
    message
}

/// The tokens of the threads of an agent.
struct ThreadTokens {
    tokens: u64,
    threads: u64,
}

/// Counts the tokens of the thread of the agent and of the threads of its parts. `limit` is the maximum number of tokens of a request.
fn count_thread_tokens(
    state: &ConversationState,
    agent: &str,
    counter: &TokenCounter,
    limit: Option<u64>,
) -> Option<ThreadTokens> {
    let plan: &Arc<Plan> = state.plan();
    let agent: &AgentState = state.agent_state(plan.find_agent_id(agent)?);
    let of_parts = agent.threads_by_key().values();
    let threads = std::iter::once(agent.thread()).chain(of_parts);
    let count = |thread: &Thread| {
        let tokens: u64 = counter.count_each_message(&thread.to_messages()).iter().sum();
        tokens.min(limit.unwrap_or(u64::MAX))
    };
    let counted: Vec<u64> = threads
        .map(|thread| count(thread))
        .filter(|tokens| *tokens > 0)
        .collect();
    Some(ThreadTokens {
        tokens: counted.iter().sum(),
        threads: counted.len() as u64,
    })
}

/// Adds the growth of the kept thread to the input tokens of every request, and removes the recorded cost.
pub(super) fn add_thread_growth(mut totals: AgentTotals, kept: Option<&RememberedThread>) -> AgentTotals {
    let usage = &mut totals.usage;
    // The price of the file applies to the new number of tokens.
    usage.cost = None;
    if let Some(kept) = kept {
        // The requests of tools and of summaries do not contain the thread.
        usage.input_tokens += kept.growth * usage.own_requests() / kept.threads.max(1);
        usage.estimated |= kept.is_estimated;
    }
    totals
}
