//! What the facts alone say about an agent's readiness, before any condition is asked.
//!
//! The rules are those of the language's readiness section: limits, dependencies, news. Conditions are the
//! only part that facts leave open, and they are the resolver's business.

use super::state::{AgentState, ConversationState};
use ensemble_language::ensemble::Ending;
use ensemble_language::plan::{AgentId, Edge, EdgeId, Plan};

/// What the facts say about one dependency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DependencyFact {
    /// It holds whatever its condition would say, or has none.
    Holds,
    /// It does not hold, whatever its condition would say.
    Fails(Why),
    /// Its condition decides.
    Open,
}

/// Why a dependency does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// Its agent has not ended as the edge needs.
    NotEnded,
    /// It has started the agent as often as it may.
    Spent,
}

/// What the facts say about an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It may be ready; conditions, if any are open, decide.
    Open,
    /// It has executed as often as it may.
    MaxTurns,
    /// Everything that holds or may hold has been seen.
    NothingNew,
    /// Its dependencies cannot hold.
    Blocked,
    /// It is there for a tool, and does not run by itself.
    OnlyTool,
}

/// What the facts say about one dependency of `to`.
pub fn dependency_fact(state: &ConversationState, id: EdgeId, edge: &Edge) -> DependencyFact {
    if edge.feedback && !state.agent(edge.to).has_executed() {
        return DependencyFact::Holds;
    }
    if !has_ended(state.agent(edge.from), edge.on) {
        return DependencyFact::Fails(Why::NotEnded);
    }
    if edge.max_executions.is_some_and(|max| state.starts_of(id) >= max.get()) {
        return DependencyFact::Fails(Why::Spent);
    }
    match edge.condition {
        None => DependencyFact::Holds,
        Some(_) => DependencyFact::Open,
    }
}

/// Has the agent ended as `on` says? Success: ever; failure: its latest execution; any: at all.
fn has_ended(agent: &AgentState, on: Ending) -> bool {
    match on {
        Ending::Success => agent.last_success().is_some(),
        Ending::Failure => agent.latest_failed(),
        Ending::Any => agent.has_executed(),
    }
}

/// Has the dependency's agent delivered something that `edge.to` has not seen?
pub fn is_unseen(state: &ConversationState, edge: &Edge) -> bool {
    let from = state.agent(edge.from);
    let delivered = match edge.on {
        Ending::Success => from.last_success(),
        Ending::Failure => from.last_failure(),
        Ending::Any => from.last_success().max(from.last_failure()),
    };
    delivered > seen_before(state, edge.to)
}

/// The last turn whose results the agent has seen; `None` when it has seen nothing.
///
/// It read the snapshot at the start of the turn in which it last started, so that turn's results are unseen.
fn seen_before(state: &ConversationState, agent: AgentId) -> Option<u32> {
    state.agent(agent).last_started().and_then(|turn| turn.checked_sub(1))
}

/// Is there news for an agent without dependencies: any other agent's new output?
fn listener_has_news(state: &ConversationState, agent: AgentId) -> bool {
    state.latest_success_but(agent) > seen_before(state, agent)
}

/// What the facts alone say about the agent, requests aside.
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
