//! The numbered rules of readiness: limits, dependencies, new outputs; and requests, which replace these rules.
//!
//! Facts are checked first. Conditions are evaluated in declaration order, each only if its result can decide, and only
//! until the readiness is known.

use std::sync::Arc;

use super::{AgentSkipReason, AgentStart, ConditionEvaluator, DirectEvaluator, ReadinessResult, list_distinct_names};
use crate::conversation::{
    ConditionFailure, ConversationState, ReadinessFact, StaticDependencyState, UnfulfilledReason, find_dependency_fact,
    find_dependency_fact_without_limit, has_reached_max_executions, has_unseen_result, list_agents_with_new_outputs,
    static_readiness,
};
use ensemble_language::ensemble::RequiredResult;
use ensemble_language::plan::{AgentId, EdgeId, Plan, PlanEdge};

/// The readiness of an agent in the next turn.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentReadiness {
    /// The agent starts, with this data.
    Ready(AgentStart),
    /// It does not run.
    NotReady(AgentSkipReason),
}

/// Dependency of an agent whose readiness is being decided.
struct ExaminedDependency<'p> {
    edge: &'p PlanEdge,
    /// `None`: its condition has not been evaluated.
    holds: Option<bool>,
    unseen: bool,
    unfulfilled: Option<UnfulfilledReason>,
}

/// Decides whether the agent is ready at the start of the next turn.
///
/// # Errors
/// A condition that matters cannot be evaluated.
pub fn decide_readiness(plan: &Plan, state: &ConversationState, agent: AgentId) -> ReadinessResult<AgentReadiness> {
    decide_readiness_with_evaluator(plan, state, agent, &DirectEvaluator)
}

/// Decides whether the agent is ready, with conditions that `answers` evaluates.
pub(super) fn decide_readiness_with_evaluator(
    plan: &Plan,
    state: &ConversationState,
    agent: AgentId,
    answers: &dyn ConditionEvaluator,
) -> ReadinessResult<AgentReadiness> {
    if let Some(request) = state.agent_requests(agent).first()
        && !state.has_reached_max_turns(plan, agent)
    {
        let mut start = build_minimal_start(plan, state, agent);
        start.request = Some(request.clone());
        return Ok(AgentReadiness::Ready(start));
    }
    let mut examined = examine_dependencies(plan, state, agent, find_dependency_fact);
    if static_readiness(plan, state, agent) != ReadinessFact::Open {
        return Ok(AgentReadiness::NotReady(find_static_skip_reason(
            plan, state, agent, &examined,
        )));
    }
    let news_needed = state.agent_state(agent).has_executed() && !plan.runs_every_turn(agent);
    if !evaluate_until_decided(plan, state, &mut examined, news_needed, answers)? {
        return Ok(AgentReadiness::NotReady(find_condition_skip_reason(
            plan, state, &examined, answers,
        )));
    }
    evaluate_conditions_for_counts(plan, state, agent, &mut examined, answers)?;
    Ok(AgentReadiness::Ready(build_start_with_counts(
        plan, state, agent, &examined, answers,
    )))
}

/// Evaluates conditions in declaration order until the readiness of the agent is known. Returns the readiness.
fn evaluate_until_decided(
    plan: &Plan,
    state: &ConversationState,
    examined: &mut [ExaminedDependency],
    news_needed: bool,
    answers: &dyn ConditionEvaluator,
) -> ReadinessResult<bool> {
    loop {
        if let Some(is_ready) = combine_dependency_facts(examined, news_needed) {
            return Ok(is_ready);
        }
        let Some(at) = find_next_open_condition(examined, news_needed) else {
            return Ok(true);
        };
        examined[at].holds = Some(evaluate_dependency_condition(plan, state, &examined[at], answers)?);
    }
}

/// Returns two answers: whether new outputs would start the agent without limits, and whether the agent is ready with its limits.
///
/// # Errors
/// A condition that matters cannot be evaluated.
pub(super) fn decide_without_and_with_limits(
    plan: &Plan,
    state: &ConversationState,
    agent: AgentId,
    answers: &dyn ConditionEvaluator,
) -> ReadinessResult<(bool, bool)> {
    let mut examined = examine_dependencies(plan, state, agent, |state, _, edge| {
        find_dependency_fact_without_limit(state, edge)
    });
    if examined.is_empty() || !evaluate_until_decided(plan, state, &mut examined, true, answers)? {
        return Ok((false, false));
    }
    if state.has_reached_max_turns(plan, agent) {
        return Ok((true, false));
    }
    for (dependency, (id, edge)) in examined.iter_mut().zip(plan.incoming_edges(agent)) {
        if has_reached_max_executions(state, id, edge) {
            dependency.holds = Some(false);
        }
    }
    let news_needed = !plan.runs_every_turn(agent);
    Ok((
        true,
        evaluate_until_decided(plan, state, &mut examined, news_needed, answers)?,
    ))
}

/// Returns the dependencies of the agent with their facts. Conditions are not evaluated yet.
fn examine_dependencies<'p>(
    plan: &'p Plan,
    state: &ConversationState,
    agent: AgentId,
    find_fact: impl Fn(&ConversationState, EdgeId, &PlanEdge) -> StaticDependencyState,
) -> Vec<ExaminedDependency<'p>> {
    let fact = |(id, edge): (EdgeId, &'p PlanEdge)| {
        let (holds, why) = match find_fact(state, id, edge) {
            StaticDependencyState::Holds => (Some(true), None),
            StaticDependencyState::Fails(reason) => (Some(false), Some(reason)),
            StaticDependencyState::Open => (None, None),
        };
        ExaminedDependency {
            edge,
            holds,
            unseen: has_unseen_result(state, edge),
            unfulfilled: why,
        }
    };
    plan.incoming_edges(agent).map(fact).collect()
}

/// Returns whether the agent is ready: all required dependencies, one of the others, and one with a new output are fulfilled.
/// Returns `None` if conditions are open.
fn combine_dependency_facts(examined: &[ExaminedDependency], news_needed: bool) -> Option<bool> {
    let all = all_true_if_known(examined.iter().filter(|one| one.edge.requires_all).map(|one| one.holds));
    let any_of = || examined.iter().filter(|one| !one.edge.requires_all);
    let any = if any_of().next().is_none() {
        Some(true)
    } else {
        any_true_if_known(any_of().map(|one| one.holds))
    };
    let news = if news_needed && !examined.is_empty() {
        any_true_if_known(examined.iter().filter(|one| one.unseen).map(|one| one.holds))
    } else {
        Some(true)
    };
    all_true_if_known([all, any, news].into_iter())
}

/// Returns whether all values are true in three-valued logic. `None` is unknown.
fn all_true_if_known(mut values: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    values
        .try_fold(Some(true), |all, value| match value {
            Some(false) => Err(Some(false)),
            None => Ok(None),
            Some(true) => Ok(all),
        })
        .unwrap_or_else(|decided| decided)
}

/// Returns whether one of the values is true in three-valued logic. `None` is unknown.
fn any_true_if_known(values: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    all_true_if_known(values.map(|value| value.map(|value| !value))).map(|none| !none)
}

/// Returns the index of the first dependency whose condition is not evaluated and can decide.
fn find_next_open_condition(examined: &[ExaminedDependency], news_needed: bool) -> Option<usize> {
    let any_open = any_true_if_known(
        examined
            .iter()
            .filter(|one| !one.edge.requires_all)
            .map(|one| one.holds),
    )
    .is_none();
    let news_open =
        news_needed && any_true_if_known(examined.iter().filter(|one| one.unseen).map(|one| one.holds)).is_none();
    examined
        .iter()
        .position(|one| one.holds.is_none() && (one.edge.requires_all || any_open || (news_open && one.unseen)))
}

/// Evaluates the remaining conditions on which an execution count or the handling of a failure depends.
fn evaluate_conditions_for_counts(
    plan: &Plan,
    state: &ConversationState,
    agent: AgentId,
    examined: &mut [ExaminedDependency],
    answers: &dyn ConditionEvaluator,
) -> ReadinessResult<()> {
    for dependency in examined {
        let matters = dependency.edge.max_executions.is_some() || would_handle_failure(state, agent, dependency);
        if dependency.holds.is_none() && dependency.unseen && matters {
            dependency.holds = Some(evaluate_dependency_condition(plan, state, dependency, answers)?);
        }
    }
    Ok(())
}

/// Returns whether a start of the agent would handle a failure over this edge.
fn would_handle_failure(state: &ConversationState, agent: AgentId, one: &ExaminedDependency) -> bool {
    let from = state.agent_state(one.edge.from);
    one.edge.on != RequiredResult::Success
        && from.has_unhandled_failure()
        && one.unseen
        && !is_first_feedback_start(state, agent, one.edge)
}

/// Returns whether the edge is feedback and the agent has never executed, so the dependency counts as fulfilled.
fn is_first_feedback_start(state: &ConversationState, agent: AgentId, edge: &PlanEdge) -> bool {
    edge.feedback && !state.agent_state(agent).has_executed()
}

/// Builds the start of a ready agent, with the counted dependencies, handled failures and new outputs.
fn build_start_with_counts(
    plan: &Plan,
    state: &ConversationState,
    agent: AgentId,
    examined: &[ExaminedDependency],
    answers: &dyn ConditionEvaluator,
) -> AgentStart {
    let counting = examined
        .iter()
        .filter(|one| one.holds == Some(true) && one.unseen && !is_first_feedback_start(state, agent, one.edge));
    let counts: Vec<usize> = counting.map(|one| one.edge.position).collect();
    let handling = examined
        .iter()
        .filter(|one| one.holds == Some(true) && would_handle_failure(state, agent, one));
    AgentStart {
        news: list_uncounted_triggers(plan, state, agent, examined, &counts, answers),
        counts,
        handles: list_distinct_names(plan, handling.map(|one| one.edge.from)),
        ..build_minimal_start(plan, state, agent)
    }
}

/// Returns the agents whose new outputs start the agent, unless the counted dependencies are the same agents.
/// These are agents without dependencies, and fulfilled dependencies whose condition was not needed.
fn list_uncounted_triggers(
    plan: &Plan,
    state: &ConversationState,
    agent: AgentId,
    examined: &[ExaminedDependency],
    counts: &[usize],
    answers: &dyn ConditionEvaluator,
) -> Option<Vec<Arc<str>>> {
    if examined.is_empty() {
        let is_listener = state.agent_state(agent).has_executed();
        return is_listener.then(|| list_distinct_names(plan, list_agents_with_new_outputs(state, agent)));
    }
    let is_open = |one: &&ExaminedDependency| one.holds.is_none() && one.unseen;
    let is_fulfilled = |one: &ExaminedDependency| {
        let condition = one.edge.condition.as_ref();
        condition.is_none_or(|condition| answers.find_irrelevant_result(state, one.edge, condition) == Some(true))
    };
    let found: Vec<usize> = examined
        .iter()
        .filter(is_open)
        .filter(|one| is_fulfilled(one))
        .map(|one| one.edge.position)
        .collect();
    if found.is_empty() {
        return None;
    }
    let has_news = |one: &&ExaminedDependency| {
        let position = &one.edge.position;
        counts.contains(position) || found.contains(position)
    };
    Some(list_distinct_names(
        plan,
        examined.iter().filter(has_news).map(|one| one.edge.from),
    ))
}

/// Builds the start of an agent without counts, handled failures and request.
fn build_minimal_start(plan: &Plan, state: &ConversationState, agent: AgentId) -> AgentStart {
    AgentStart {
        agent: plan.agent_name(agent).clone(),
        execution: state.next_execution_number(agent),
        counts: Vec::new(),
        handles: Vec::new(),
        news: None,
        request: None,
        reads: state.list_read_executions(agent),
    }
}

/// Evaluates the condition of the dependency. Returns `true` without a condition.
fn evaluate_dependency_condition(
    plan: &Plan,
    state: &ConversationState,
    one: &ExaminedDependency,
    answers: &dyn ConditionEvaluator,
) -> ReadinessResult<bool> {
    let Some(condition) = &one.edge.condition else {
        return Ok(true);
    };
    answers.evaluate_condition(state, one.edge, condition).map_err(|error| {
        Box::new(ConditionFailure {
            agent: plan.agent_name(one.edge.to).clone(),
            position: one.edge.position,
            result: None,
            success: false,
            text: condition.text().clone(),
            start: error.span.start,
            end: error.span.end,
            message: error.message,
            help: error.help,
            values: answers.list_reads_before_failure(state, one.edge, condition),
        })
    })
}

/// Returns the reason why the agent does not run, if no condition decides.
fn find_static_skip_reason(
    plan: &Plan,
    state: &ConversationState,
    agent: AgentId,
    examined: &[ExaminedDependency],
) -> AgentSkipReason {
    let max_turns = plan.agent(agent).conversation.max_turns.get();
    match static_readiness(plan, state, agent) {
        ReadinessFact::MaxTurns => AgentSkipReason::LimitReached {
            limit: "max_turns".into(),
            count: max_turns,
        },
        ReadinessFact::NothingNew => AgentSkipReason::NothingNew,
        ReadinessFact::OnlyTool => AgentSkipReason::OnlyTool,
        ReadinessFact::OnlyRequest => AgentSkipReason::OnlyRequest,
        ReadinessFact::Blocked | ReadinessFact::Open => find_blocking_reason(plan, examined),
    }
}

/// Returns the reason of a blocked agent: agents that have not ended, a reached limit, or a false condition.
fn find_blocking_reason(plan: &Plan, examined: &[ExaminedDependency]) -> AgentSkipReason {
    let failing = || examined.iter().filter(|one| one.holds == Some(false));
    let required = failing().any(|one| one.edge.requires_all);
    let relevant = || failing().filter(move |one| !required || one.edge.requires_all);
    let names_of = |reasons: &[UnfulfilledReason]| {
        let waits = relevant().filter(|one| one.unfulfilled.is_some_and(|reason| reasons.contains(&reason)));
        list_distinct_names(plan, waits.map(|one| one.edge.from))
    };
    let agents = names_of(&[UnfulfilledReason::NotEnded, UnfulfilledReason::LatestFailed]);
    if !agents.is_empty() {
        let failed = names_of(&[UnfulfilledReason::LatestFailed]);
        return AgentSkipReason::WaitingFor { agents, failed };
    }
    match relevant().find(|one| one.unfulfilled == Some(UnfulfilledReason::Spent)) {
        Some(dependency) => AgentSkipReason::LimitReached {
            limit: format!("max_executions on {}", plan.agent_name(dependency.edge.from)).into(),
            count: dependency.edge.max_executions.map_or(0, std::num::NonZeroU32::get),
        },
        None => AgentSkipReason::NothingNew,
    }
}

/// Returns the first false condition as the reason why the agent does not run. Required dependencies have precedence.
fn find_condition_skip_reason(
    plan: &Plan,
    state: &ConversationState,
    examined: &[ExaminedDependency],
    answers: &dyn ConditionEvaluator,
) -> AgentSkipReason {
    let false_dependencies = examined
        .iter()
        .filter(|one| one.unfulfilled.is_none() && one.holds == Some(false));
    let false_one = false_dependencies.max_by_key(|one| (one.edge.requires_all, std::cmp::Reverse(one.edge.position)));
    match false_one.and_then(|one| one.edge.condition.as_ref().map(|condition| (one, condition))) {
        Some((one, condition)) => AgentSkipReason::ConditionFalse {
            dependency: plan.agent_name(one.edge.from).clone(),
            condition: condition.text().clone(),
            values: answers.list_condition_reads(state, one.edge, condition),
        },
        None => find_blocking_reason(plan, examined),
    }
}
