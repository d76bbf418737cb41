//! Estimate of the next message of a recorded run: the usage of the last message, with the threads of the agents at the end of the run.

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
    /// State before the last message.
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
        let is_message = |record: &Record| matches!(record.event, Event::MessageAdded(_));
        let at = records.iter().rposition(is_message).unwrap_or_default();
        let before = ConversationState::from_records(plan.clone(), &records[..at]).map_err(RunError::from)?;
        Ok(Self {
            first_turn: before.turn_count() + 1,
            totals: RunHistory::from_records(&records[at..]).run_totals(),
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

/// Number of tokens and number of threads of an agent.
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
        usage.input_tokens += kept.growth * usage.requests / kept.threads.max(1);
        usage.estimated |= kept.is_estimated;
    }
    totals
}
