//! The end of a conversation: its outcome, the details as text, and the agents that never ran.

use std::borrow::Cow;

use super::ConditionEvaluator;
use super::exhausted::add_exhausted_agents;
use super::readiness::{AgentReadiness, decide_readiness_with_evaluator};
use crate::conversation::{
    AgentNotRun, AgentSkipReason, CompletionReason, ConditionFailure, ConversationState, DeclaredRunResult,
    ExecutionProgress, RunEnded, SuccessCheck,
};
use ensemble_language::condition::{Condition, ConditionRead, EvaluateError};
use ensemble_language::plan::{AgentId, Plan, PlanEdge};

/// Returns the outcome and its details if the conversation ends now. Returns `None` if the next turn can start.
///
/// A limit is the outcome only if an agent would run without the limit. A limit never hides a failure.
pub(super) fn find_final_outcome(
    plan: &Plan,
    state: &ConversationState,
    somebody_is_ready: bool,
) -> Option<(CompletionReason, Option<String>)> {
    let limit = find_reached_limit(plan, state);
    if somebody_is_ready && limit.is_none() {
        return None;
    }
    if let Some(agent) = state.first_failing_agent() {
        let name = plan.agent_name(agent);
        let error = state.agent_state(agent).latest_error().unwrap_or_default();
        return Some((CompletionReason::AgentFailed, Some(format!("{name} failed: {error}"))));
    }
    match limit {
        Some((reason, detail)) if somebody_is_ready => Some((reason, Some(detail))),
        _ => Some((CompletionReason::Completed, None)),
    }
}

/// Returns the outcome and its details if an agent with `on_error: stop` has failed.
pub(super) fn find_stopping_failure(
    plan: &Plan,
    state: &ConversationState,
) -> Option<(CompletionReason, Option<String>)> {
    let agent = state.first_stopping_agent()?;
    let error = state.agent_state(agent).latest_error().unwrap_or_default();
    let detail = format!("{} failed and stops the run: {error}", plan.agent_name(agent));
    Some((CompletionReason::AgentFailed, Some(detail)))
}

/// Returns the first reached limit as an outcome with details, in order of precedence.
fn find_reached_limit(plan: &Plan, state: &ConversationState) -> Option<(CompletionReason, String)> {
    let limits = &plan.ensemble().limits;
    let usage = state.budgeted_usage();
    let tokens = usage.input_tokens + usage.output_tokens;
    if let Some(budget) = limits.max_total_tokens.filter(|budget| tokens >= *budget) {
        let messages = describe_budget_scope(state);
        let detail = format!("max_total_tokens {budget} was reached: {tokens} tokens{messages}");
        return Some((CompletionReason::TokenBudget, detail));
    }
    let cost = usage.cost.unwrap_or_default();
    if let Some(budget) = limits.max_cost.filter(|budget| cost >= *budget) {
        let messages = describe_budget_scope(state);
        let detail = format!("max_cost {budget} was reached: {cost}{messages}");
        return Some((CompletionReason::TokenBudget, detail));
    }
    if let Some(agent) = state.first_agent_at_limit() {
        let cap = plan.max_agent_executions(agent).map_or(0, std::num::NonZeroU32::get);
        let detail = format!("max_agent_executions of {} was reached: {cap}", plan.agent_name(agent));
        return Some((CompletionReason::MaxAgentExecutions, detail));
    }
    let turns = limits.max_total_turns.get();
    (state.segment_turn_count() >= turns).then(|| {
        let detail = format!("max_total_turns was reached: {turns}");
        (CompletionReason::MaxTotalTurns, detail)
    })
}

/// Describes which messages share the budget, and that no agent received the last message. Returns an empty text for one message.
fn describe_budget_scope(state: &ConversationState) -> &'static str {
    match (state.have_earlier_messages_used_budget(), state.segment_turn_count()) {
        (false, _) => "",
        (true, 0) => " in the whole conversation; no agent received the new message",
        (true, _) => " in the whole conversation",
    }
}

/// Builds whether the budget of the conversation was used up before any agent received the last message: no normal end.
fn is_message_refused(state: &ConversationState, reason: CompletionReason) -> bool {
    reason == CompletionReason::TokenBudget
        && state.have_earlier_messages_used_budget()
        && state.segment_turn_count() == 0
}

/// Returns the end of the run, with the goal check, the agents that never ran, and the exhausted agents.
pub(super) fn build_run_ended(
    plan: &Plan,
    state: &ConversationState,
    completion_reason: CompletionReason,
    detail: Option<String>,
    answers: &dyn ConditionEvaluator,
) -> RunEnded {
    let is_success = completion_reason.is_natural_end(plan.ensemble().limits.on_limit)
        && !is_message_refused(state, completion_reason);
    let run_end = RunEnded {
        completion_reason,
        success: Some(is_success),
        detail,
        failed: state
            .earliest_unhandled_failure()
            .filter(|_| completion_reason == CompletionReason::AgentFailed),
        condition: None,
        not_run: list_agents_not_run(plan, state, answers),
        exhausted: Vec::new(),
        warnings: Vec::new(),
    };
    let run_end = apply_goal(plan, state, run_end, answers);
    let failures = answers.evaluate_declared_result(state).map(|result| result.failures);
    let run_end = add_result_failures(run_end, failures.unwrap_or_default());
    add_exhausted_agents(plan, state, run_end, answers)
}

/// Applies the goal to the end of the run: first the `required` agents, also at a limit, then `success`.
/// `success` is evaluated only if the run would be a success otherwise.
fn apply_goal(plan: &Plan, state: &ConversationState, run_end: RunEnded, answers: &dyn ConditionEvaluator) -> RunEnded {
    if run_end.completion_reason != CompletionReason::Completed && !run_end.completion_reason.is_limit() {
        return run_end;
    }
    let unsuccessful = |run_end: RunEnded, detail: String| RunEnded {
        completion_reason: CompletionReason::Unsuccessful,
        success: Some(false),
        detail: Some(detail),
        ..run_end
    };
    let unmet = describe_unmet_required_agents(plan, state, answers);
    if !unmet.is_empty() {
        // A limit can be the reason why the agent has not run.
        let reached_limit = run_end.detail.clone().filter(|_| run_end.completion_reason.is_limit());
        let sentences: Vec<String> = unmet.into_iter().chain(reached_limit).collect();
        return unsuccessful(run_end, sentences.join("; "));
    }
    if !run_end.is_success() {
        return run_end;
    }
    match answers.evaluate_success(state) {
        None | Some(Ok(SuccessCheck { holds: true, .. })) => run_end,
        Some(Ok(check)) => unsuccessful(run_end, check.to_string()),
        Some(Err(failure)) => RunEnded {
            completion_reason: CompletionReason::ConditionFailed,
            success: Some(false),
            detail: Some(format!(
                "success `{}`: {}",
                shorten_condition(&failure.text),
                failure.message
            )),
            condition: Some(failure),
            ..run_end
        },
    }
}

/// Describes each `required` agent that has never succeeded in the run.
fn describe_unmet_required_agents(
    plan: &Plan,
    state: &ConversationState,
    answers: &dyn ConditionEvaluator,
) -> Vec<String> {
    let unmet = plan
        .required_agents()
        .iter()
        .filter(|id| state.agent_state(**id).output().is_none());
    unmet
        .map(|id| {
            let name = plan.agent_name(*id);
            if state.execution_count(*id) > 0 {
                let error = state.agent_state(*id).latest_error().unwrap_or_default();
                return format!("`{name}` is required and never succeeded: {error}");
            }
            let reason = match decide_readiness_with_evaluator(plan, state, *id, answers) {
                Ok(AgentReadiness::NotReady(AgentSkipReason::WaitingFor { agents, failed })) => {
                    let names = agents.iter().map(|agent| match failed.contains(agent) {
                        true => format!("`{agent}`, whose latest execution failed"),
                        false => format!("`{agent}`"),
                    });
                    format!("waiting for {}", names.collect::<Vec<_>>().join(", "))
                }
                _ => explain_not_run(plan, state, *id, answers),
            };
            format!("`{name}` is required and never ran: {reason}")
        })
        .collect()
}

/// Makes the end a failure if expressions of the result cannot be evaluated.
fn add_result_failures(ended: RunEnded, failures: Vec<ConditionFailure>) -> RunEnded {
    let Some(first) = failures.first() else {
        return ended;
    };
    let describe_failure = |failure: &ConditionFailure| {
        let key = failure.result.as_deref().unwrap_or_default();
        format!(
            "result `{key}` `{}`: {}",
            shorten_condition(&failure.text),
            failure.message
        )
    };
    if ended.is_success() {
        return RunEnded {
            completion_reason: CompletionReason::ConditionFailed,
            success: Some(false),
            detail: Some(describe_failure(first)),
            condition: Some(first.clone()),
            ..ended
        };
    }
    RunEnded {
        warnings: failures.iter().map(describe_failure).collect(),
        ..ended
    }
}

/// Builds the end of a run with a condition that cannot be evaluated.
pub(super) fn build_condition_failed(
    plan: &Plan,
    state: &ConversationState,
    failure: ConditionFailure,
    answers: &dyn ConditionEvaluator,
) -> RunEnded {
    let text = shorten_condition(&failure.text);
    let detail = format!("condition of {} `{}`: {}", failure.agent, text, failure.message);
    RunEnded {
        condition: Some(failure),
        ..build_run_ended(plan, state, CompletionReason::ConditionFailed, Some(detail), answers)
    }
}

/// Shortens the text of a condition for a sentence. The diagnostic shows the position in the file.
fn shorten_condition(text: &str) -> Cow<'_, str> {
    /// Largest number of characters of a condition in a sentence.
    const MOST: usize = 160;
    match text.char_indices().nth(MOST) {
        Some((at, _)) => Cow::Owned(format!("{}…", &text[..at])),
        None => Cow::Borrowed(text),
    }
}

/// Evaluator for which every condition is true. Agents that only a condition kept from running have the reason that the run ended.
struct AlwaysTrueConditions;

impl ConditionEvaluator for AlwaysTrueConditions {
    fn evaluate_condition(
        &self,
        _state: &ConversationState,
        _edge: &PlanEdge,
        _condition: &Condition,
    ) -> Result<bool, EvaluateError> {
        Ok(true)
    }

    fn list_condition_reads(
        &self,
        _state: &ConversationState,
        _edge: &PlanEdge,
        _condition: &Condition,
    ) -> Vec<ConditionRead> {
        Vec::new()
    }

    fn evaluate_declared_result(&self, _state: &ConversationState) -> Option<DeclaredRunResult> {
        None
    }

    fn evaluate_success(&self, _state: &ConversationState) -> Option<Result<SuccessCheck, ConditionFailure>> {
        None
    }
}

/// Returns the agents that never ran, with the reasons. Omits agents with recorded work in the open turn.
fn list_agents_not_run(plan: &Plan, state: &ConversationState, answers: &dyn ConditionEvaluator) -> Vec<AgentNotRun> {
    let answers = match state.first_stopping_agent() {
        Some(_) => &AlwaysTrueConditions,
        None => answers,
    };
    let slots = state.open_turn().into_iter().flat_map(|turn| &turn.slots);
    let in_part = slots.filter(|slot| slot.has_kept_work());
    let in_part: Vec<AgentId> = in_part.map(|slot| slot.agent).collect();
    let never = plan.agent_ids().filter(|id| state.execution_count(*id) == 0);
    never
        .filter(|id| !in_part.contains(id))
        .map(|id| AgentNotRun {
            agent: plan.agent_name(id).clone(),
            reason: explain_not_run(plan, state, id, answers),
        })
        .collect()
}

/// Returns the reason why the agent never ran.
fn explain_not_run(plan: &Plan, state: &ConversationState, id: AgentId, answers: &dyn ConditionEvaluator) -> String {
    let slots = state.open_turn().into_iter().flat_map(|turn| &turn.slots);
    if let Some(slot) = slots.into_iter().find(|slot| slot.agent == id) {
        return match &slot.progress {
            ExecutionProgress::Waiting(_) => "waiting for an answer".to_owned(),
            _ => AgentNotRun::INTERRUPTED.to_owned(),
        };
    }
    match decide_readiness_with_evaluator(plan, state, id, answers) {
        Ok(AgentReadiness::NotReady(reason)) => reason.to_string(),
        Ok(AgentReadiness::Ready(_)) => AgentSkipReason::RunEnded.to_string(),
        Err(failure) => format!("condition failed: {}", failure.message),
    }
}
