//! The agents that only their own limits kept from running at the end of a run, although they had work left.
//!
//! Work is an output of a dependency that the agent has not read, or a request. Conditions under a limit are not
//! evaluated while the run lasts; they are evaluated here, once, and a condition that cannot be evaluated is a warning.

use super::readiness::decide_without_and_with_limits;
use super::{ConditionEvaluator, ReadinessResult};
use crate::conversation::{
    AgentLimitKey, ConditionFailure, ConversationState, DeclaredRunResult, ExhaustedAgent, RunEnded, SuccessCheck,
    has_reached_max_executions,
};
use ensemble_language::condition::{Condition, ConditionRead, EvaluateError};
use ensemble_language::plan::{AgentId, Plan, PlanEdge};
use ensemble_language::source::Span;

/// Adds the exhausted agents to the end of the run, and a warning for each agent with a condition that cannot be evaluated.
pub(super) fn add_exhausted_agents(
    plan: &Plan,
    state: &ConversationState,
    mut ended: RunEnded,
    answers: &dyn ConditionEvaluator,
) -> RunEnded {
    if !ended.completion_reason.lists_exhausted_agents() {
        return ended;
    }
    for agent in plan.agent_ids() {
        match find_exhausted_limit(plan, state, agent, answers) {
            Ok(Some((limit, count))) => ended.exhausted.push(ExhaustedAgent {
                agent: plan.agent_name(agent).clone(),
                limit,
                count,
            }),
            Ok(None) => {}
            // A run that an agent stops asks no condition, so an agent that depends on one is not listed.
            Err(_) if state.first_stopping_agent().is_some() => {}
            Err(failure) => ended
                .warnings
                .push(describe_unevaluable_condition(plan, agent, &failure)),
        }
    }
    ended.with_exhausted_details()
}

/// Returns the limit that alone keeps the agent from its work. Returns `None` if no limit does.
fn find_exhausted_limit(
    plan: &Plan,
    state: &ConversationState,
    agent: AgentId,
    answers: &dyn ConditionEvaluator,
) -> ReadinessResult<Option<(AgentLimitKey, u32)>> {
    let max_turns = (AgentLimitKey::MaxTurns, plan.agent(agent).conversation.max_turns.get());
    let is_at_max_turns = state.has_reached_max_turns(plan, agent);
    if is_at_max_turns && state.was_requested_at_limit(agent) {
        return Ok(Some(max_turns));
    }
    let spent = find_reached_max_executions(plan, state, agent);
    if plan.runs_on_request(agent) || plan.runs_only_as_tool(agent) || !is_at_max_turns && spent.is_none() {
        return Ok(None);
    }
    let (has_work, is_ready) = decide_without_and_with_limits(plan, state, agent, &EndConditionEvaluator(answers))?;
    Ok(match has_work && !is_ready {
        true if is_at_max_turns => Some(max_turns),
        true => spent,
        false => None,
    })
}

/// Evaluator of conditions at the end of a run, whose results start no agent. Refuses every condition after an agent stopped the run.
struct EndConditionEvaluator<'a>(&'a dyn ConditionEvaluator);

impl ConditionEvaluator for EndConditionEvaluator<'_> {
    fn evaluate_condition(
        &self,
        state: &ConversationState,
        edge: &PlanEdge,
        condition: &Condition,
    ) -> Result<bool, EvaluateError> {
        if state.first_stopping_agent().is_some() {
            return Err(EvaluateError {
                message: "the run asks no condition after an agent has stopped it".to_owned(),
                span: Span::new(0, condition.text().len()),
                help: None,
            });
        }
        self.0.evaluate_at_end(state, edge, condition)
    }

    fn list_condition_reads(
        &self,
        state: &ConversationState,
        edge: &PlanEdge,
        condition: &Condition,
    ) -> Vec<ConditionRead> {
        self.0.list_condition_reads(state, edge, condition)
    }

    fn evaluate_declared_result(&self, state: &ConversationState) -> Option<DeclaredRunResult> {
        self.0.evaluate_declared_result(state)
    }

    fn evaluate_success(&self, state: &ConversationState) -> Option<Result<SuccessCheck, ConditionFailure>> {
        self.0.evaluate_success(state)
    }
}

/// Returns the first `max_executions` that is reached. Required dependencies have precedence.
fn find_reached_max_executions(plan: &Plan, state: &ConversationState, agent: AgentId) -> Option<(AgentLimitKey, u32)> {
    let spent = plan
        .incoming_edges(agent)
        .filter(|(id, edge)| has_reached_max_executions(state, *id, edge));
    let (_, edge) = spent.min_by_key(|(_, edge)| (!edge.requires_all, edge.position))?;
    Some((AgentLimitKey::MaxExecutions, edge.max_executions?.get()))
}

/// Describes a condition that cannot be evaluated, so that it is unknown whether the agent is exhausted.
fn describe_unevaluable_condition(plan: &Plan, agent: AgentId, failure: &ConditionFailure) -> String {
    let mut dependencies = plan.incoming_edges(agent).map(|(_, edge)| edge);
    let from = dependencies.find(|edge| edge.position == failure.position);
    let from = from.map_or("", |edge| plan.agent_name(edge.from));
    format!(
        "{}: its condition on {from} `{}` cannot be evaluated, so it is not known whether a limit kept the agent from running: {}",
        failure.agent, failure.text, failure.message
    )
}
