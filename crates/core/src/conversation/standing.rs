//! The part of an agent's readiness that follows from the facts alone, before a condition is evaluated.
//!
//! The rules are in the section about readiness of the language reference: limits, dependencies, new outputs. The facts
//! leave only the conditions open; the resolver evaluates them.

use super::state::{AgentState, ConversationState};
use ensemble_language::ensemble::Ending;
use ensemble_language::plan::{AgentId, Edge, EdgeId, Plan};

/// The state of one dependency, as far as the facts decide it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DependencyFact {
    /// The dependency is fulfilled; it has no condition, or the result of the condition does not matter.
    Holds,
    /// The dependency is not fulfilled, whatever the result of the condition would be.
    Fails(Unfulfilled),
    /// The condition decides.
    Open,
}

/// The reason why a dependency is not fulfilled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unfulfilled {
    /// The agent has not ended with the result that `on` requires.
    NotEnded,
    /// The dependency has reached its `max_executions`.
    Spent,
}

/// The state of an agent, as far as the facts decide it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
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
}

/// The state of one dependency of an agent, as far as the facts decide it.
pub(crate) fn dependency_fact(state: &ConversationState, id: EdgeId, edge: &Edge) -> DependencyFact {
    if edge.feedback && !state.agent(edge.to).has_executed() {
        return DependencyFact::Holds;
    }
    if !has_ended(state.agent(edge.from), edge.on) {
        return DependencyFact::Fails(Unfulfilled::NotEnded);
    }
    if edge.max_executions.is_some_and(|max| state.starts_of(id) >= max.get()) {
        return DependencyFact::Fails(Unfulfilled::Spent);
    }
    match edge.condition {
        None => DependencyFact::Holds,
        Some(_) => DependencyFact::Open,
    }
}

/// Returns whether the agent has ended as `on` requires. Success: at any time; failure: in its latest execution; any:
/// at any time, in any way.
fn has_ended(agent: &AgentState, on: Ending) -> bool {
    match on {
        Ending::Success => agent.last_success().is_some(),
        Ending::Failure => agent.latest_failed(),
        Ending::Any => agent.has_executed(),
    }
}

/// Returns whether the agent at the start of the edge has a result that `edge.to` has not read.
pub fn is_unseen(state: &ConversationState, edge: &Edge) -> bool {
    let from = state.agent(edge.from);
    let delivered = match edge.on {
        Ending::Success => from.last_success(),
        Ending::Failure => from.last_failure(),
        Ending::Any => from.last_success().max(from.last_failure()),
    };
    delivered > seen_before(state, edge.to)
}

/// The last turn whose results the agent has read; `None` if it has read none.
///
/// An agent reads the state at the start of the turn in which it runs. So it has not read the results of that turn.
fn seen_before(state: &ConversationState, agent: AgentId) -> Option<u32> {
    state.agent(agent).last_started().and_then(|turn| turn.checked_sub(1))
}

/// Returns whether there is a new output for an agent without dependencies, that is, of any other agent.
fn listener_has_news(state: &ConversationState, agent: AgentId) -> bool {
    state.latest_success_but(agent) > seen_before(state, agent)
}

/// The state of the agent, as far as the facts decide it, without requests.
pub fn standing(plan: &Plan, state: &ConversationState, agent: AgentId) -> Standing {
    let own = state.agent(agent);
    if state.is_exhausted(plan, agent) {
        return Standing::MaxTurns;
    }
    if plan.is_only_tool(agent) {
        return Standing::OnlyTool;
    }
    let news_needed = own.has_executed() && !plan.every_turn(agent);
    let (mut any_exists, mut any_possible, mut news_exists, mut news_possible) = (false, false, false, false);
    for (id, edge) in plan.incoming(agent) {
        let fact = dependency_fact(state, id, edge);
        let possible = !matches!(fact, DependencyFact::Fails(_));
        let unseen = news_needed && is_unseen(state, edge);
        news_exists |= unseen;
        news_possible |= unseen && possible;
        if edge.requires_all {
            if !possible {
                return Standing::Blocked;
            }
        } else {
            any_exists = true;
            any_possible |= possible;
        }
    }
    if any_exists && !any_possible {
        return Standing::Blocked;
    }
    if plan.agent(agent).dependencies.is_empty() && news_needed {
        news_exists = listener_has_news(state, agent);
        news_possible = news_exists;
    }
    match (news_needed, news_exists, news_possible) {
        (true, true, false) => Standing::Blocked,
        (true, false, _) => Standing::NothingNew,
        _ => Standing::Open,
    }
}
