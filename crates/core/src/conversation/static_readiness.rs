//! The part of an agent's readiness that follows from the facts alone, before a condition is evaluated.
//!
//! The rules are in the section about readiness of the language reference: limits, dependencies, new outputs. The facts
//! leave only the conditions open; the resolver evaluates them.

use super::state::{AgentState, ConversationState};
use ensemble_language::ensemble::RequiredResult;
use ensemble_language::plan::{AgentId, EdgeId, Plan, PlanEdge};

/// The state of one dependency without an evaluation of its condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StaticDependencyState {
    /// The dependency is fulfilled; it has no condition, or the result of the condition does not matter.
    Holds,
    /// The dependency is not fulfilled, whatever the result of the condition would be.
    Fails(UnfulfilledReason),
    /// The condition decides.
    Open,
}

/// The reason why a dependency is not fulfilled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnfulfilledReason {
    /// The agent has not ended with the result that `on` requires.
    NotEnded,
    /// The dependency requires a success, and the latest execution of its agent failed.
    LatestFailed,
    /// The dependency has reached its `max_executions`.
    Spent,
}

/// The readiness of an agent without an evaluation of conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadinessFact {
    /// The agent is ready, or open conditions decide whether it is.
    Open,
    /// The agent has reached its `max_turns`.
    MaxTurns,
    /// The agent has already read every output of the dependencies that are or may be fulfilled.
    NothingNew,
    /// The dependencies of the agent cannot be fulfilled.
    Blocked,
    /// The agent belongs to a tool, and does not run by itself.
    OnlyTool,
    /// The agent has `trigger: request`: only requests start it.
    OnlyRequest,
}

/// Returns the state of one dependency without an evaluation of its condition.
pub(crate) fn find_dependency_fact(state: &ConversationState, id: EdgeId, edge: &PlanEdge) -> StaticDependencyState {
    match find_dependency_fact_without_limit(state, edge) {
        StaticDependencyState::Fails(reason) => StaticDependencyState::Fails(reason),
        _ if has_reached_max_executions(state, id, edge) => StaticDependencyState::Fails(UnfulfilledReason::Spent),
        fact => fact,
    }
}

/// Returns whether the dependency has reached its `max_executions`.
pub(crate) fn has_reached_max_executions(state: &ConversationState, id: EdgeId, edge: &PlanEdge) -> bool {
    edge.max_executions
        .is_some_and(|max| state.edge_start_count(id) >= max.get())
}

/// Returns the state of one dependency, regardless of `max_executions` and without an evaluation of its condition.
pub(crate) fn find_dependency_fact_without_limit(state: &ConversationState, edge: &PlanEdge) -> StaticDependencyState {
    if edge.feedback && !state.agent_state(edge.to).has_executed() {
        return StaticDependencyState::Holds;
    }
    if let Some(reason) = find_unfulfilled_reason(state.agent_state(edge.from), edge.on) {
        return StaticDependencyState::Fails(reason);
    }
    match edge.condition {
        None => StaticDependencyState::Holds,
        Some(_) => StaticDependencyState::Open,
    }
}

/// Returns the reason why the result of the agent does not fulfill `on`. Returns `None` if the result fulfills `on`.
/// For success and failure, only the latest result counts. For `any`, every result suffices.
fn find_unfulfilled_reason(agent: &AgentState, on: RequiredResult) -> Option<UnfulfilledReason> {
    let (executed, failed) = (agent.has_executed(), agent.has_failed_last());
    match on {
        RequiredResult::Success if executed && failed => Some(UnfulfilledReason::LatestFailed),
        RequiredResult::Failure if executed && !failed => Some(UnfulfilledReason::NotEnded),
        _ if executed => None,
        _ => Some(UnfulfilledReason::NotEnded),
    }
}

/// Returns whether the source agent of the edge has a result that the target agent has not read.
pub fn has_unseen_result(state: &ConversationState, edge: &PlanEdge) -> bool {
    let from = state.agent_state(edge.from);
    let delivered = match edge.on {
        RequiredResult::Success => from.last_success_turn(),
        RequiredResult::Failure => from.last_failure_turn(),
        RequiredResult::Any => from.last_success_turn().max(from.last_failure_turn()),
    };
    delivered > last_read_turn(state, edge.to)
}

/// Returns the last turn whose results the agent has read. Returns `None` if it has read none.
///
/// An agent reads the state at the start of the turn in which it runs. So it has not read the results of that turn.
fn last_read_turn(state: &ConversationState, agent: AgentId) -> Option<u32> {
    state
        .agent_state(agent)
        .last_start_turn()
        .and_then(|turn| turn.checked_sub(1))
}

/// Returns the other agents with an output that this agent has not read.
pub(crate) fn list_agents_with_new_outputs(state: &ConversationState, agent: AgentId) -> impl Iterator<Item = AgentId> {
    let seen = last_read_turn(state, agent);
    let others = state.plan().agent_ids().filter(move |other| *other != agent);
    others.filter(move |other| state.agent_state(*other).last_success_turn() > seen)
}

/// Returns whether another agent has an output that this agent has not read. For agents without dependencies.
fn has_unread_output_from_others(state: &ConversationState, agent: AgentId) -> bool {
    state.latest_success_turn_except(agent) > last_read_turn(state, agent)
}

/// Returns the readiness of the agent without an evaluation of conditions, and without requests.
pub fn static_readiness(plan: &Plan, state: &ConversationState, agent: AgentId) -> ReadinessFact {
    let agent_state = state.agent_state(agent);
    if state.has_reached_max_turns(plan, agent) {
        return ReadinessFact::MaxTurns;
    }
    if plan.runs_only_as_tool(agent) {
        return ReadinessFact::OnlyTool;
    }
    if plan.runs_on_request(agent) {
        return ReadinessFact::OnlyRequest;
    }
    let news_needed = agent_state.has_executed() && !plan.runs_every_turn(agent);
    let (mut any_exists, mut any_possible, mut news_exists, mut news_possible) = (false, false, false, false);
    for (id, edge) in plan.incoming_edges(agent) {
        let fact = find_dependency_fact(state, id, edge);
        let possible = !matches!(fact, StaticDependencyState::Fails(_));
        let unseen = news_needed && has_unseen_result(state, edge);
        news_exists |= unseen;
        news_possible |= unseen && possible;
        if edge.requires_all {
            if !possible {
                return ReadinessFact::Blocked;
            }
        } else {
            any_exists = true;
            any_possible |= possible;
        }
    }
    if any_exists && !any_possible {
        return ReadinessFact::Blocked;
    }
    if plan.agent(agent).dependencies.is_empty() && news_needed {
        news_exists = has_unread_output_from_others(state, agent);
        news_possible = news_exists;
    }
    match (news_needed, news_exists, news_possible) {
        (true, true, false) => ReadinessFact::Blocked,
        (true, false, _) => ReadinessFact::NothingNew,
        _ => ReadinessFact::Open,
    }
}
