//! The numbered rules of readiness: limits, dependencies, new outputs; and requests, which replace these rules.
//!
//! Facts are checked first. Conditions are evaluated in declaration order, each only if its result can decide, and only
//! until the readiness is known.

use super::{Answers, Asked, Evaluated, Reason, Start, names};
use crate::conversation::{
    ConditionFailure, ConversationState, DependencyFact, Standing, Unfulfilled, dependency_fact, is_unseen, standing,
};
use ensemble_language::ensemble::Ending;
use ensemble_language::plan::{AgentId, Edge, EdgeId, Plan};

/// The readiness of an agent in the next turn.
#[derive(Debug, Clone, PartialEq)]
pub enum Readiness {
    /// The agent starts, with this data.
    Ready(Start),
    /// It does not run.
    NotReady(Reason),
}

/// A dependency during the decision.
struct Examined<'p> {
    edge: &'p Edge,
    /// `None`: its condition has not been evaluated.
    holds: Option<bool>,
    unseen: bool,
    why: Option<Unfulfilled>,
}

/// Decides whether the agent is ready at the start of the next turn.
///
/// # Errors
/// A condition whose result matters cannot be evaluated.
pub fn readiness(plan: &Plan, state: &ConversationState, agent: AgentId) -> Asked<Readiness> {
    readiness_by(plan, state, agent, &Evaluated)
}

/// The same decision with these results of conditions.
pub(super) fn readiness_by(
    plan: &Plan,
    state: &ConversationState,
    agent: AgentId,
    answers: &dyn Answers,
) -> Asked<Readiness> {
    if let Some(request) = state.requests(agent).first()
        && !state.is_exhausted(plan, agent)
    {
        let mut start = start(plan, state, agent);
        start.request = Some(request.clone());
        return Ok(Readiness::Ready(start));
    }
    let mut examined = examine(plan, state, agent);
    if standing(plan, state, agent) != Standing::Open {
        return Ok(Readiness::NotReady(reason_by_facts(plan, state, agent, &examined)));
    }
    let news_needed = state.agent(agent).has_executed() && !plan.every_turn(agent);
    while verdict(&examined, news_needed).is_none() {
        let Some(at) = next_to_ask(&examined, news_needed) else {
            break;
        };
        examined[at].holds = Some(ask(plan, state, &examined[at], answers)?);
    }
    if verdict(&examined, news_needed) == Some(false) {
        return Ok(Readiness::NotReady(reason_by_conditions(
            plan, state, &examined, answers,
        )));
    }
    ask_for_the_count(plan, state, agent, &mut examined, answers)?;
    Ok(Readiness::Ready(counted_start(plan, state, agent, &examined)))
}

fn examine<'p>(plan: &'p Plan, state: &ConversationState, agent: AgentId) -> Vec<Examined<'p>> {
    let fact = |(id, edge): (EdgeId, &'p Edge)| {
        let (holds, why) = match dependency_fact(state, id, edge) {
            DependencyFact::Holds => (Some(true), None),
            DependencyFact::Fails(why) => (Some(false), Some(why)),
            DependencyFact::Open => (None, None),
        };
        Examined {
            edge,
            holds,
            unseen: is_unseen(state, edge),
            why,
        }
    };
    plan.incoming(agent).map(fact).collect()
}

/// Ready, not ready, or still open. An agent is ready if every required dependency is fulfilled, one of the others is
/// fulfilled, and one of the fulfilled dependencies has a new output.
fn verdict(examined: &[Examined], news_needed: bool) -> Option<bool> {
    let all = every(examined.iter().filter(|one| one.edge.requires_all).map(|one| one.holds));
    let any_of = || examined.iter().filter(|one| !one.edge.requires_all);
    let any = if any_of().next().is_none() {
        Some(true)
    } else {
        some(any_of().map(|one| one.holds))
    };
    let news = if news_needed && !examined.is_empty() {
        some(examined.iter().filter(|one| one.unseen).map(|one| one.holds))
    } else {
        Some(true)
    };
    every([all, any, news].into_iter())
}

/// Three-valued logic: all of the values are true.
fn every(mut values: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    values
        .try_fold(Some(true), |all, value| match value {
            Some(false) => Err(Some(false)),
            None => Ok(None),
            Some(true) => Ok(all),
        })
        .unwrap_or_else(|decided| decided)
}

/// Three-valued logic: one of the values is true.
fn some(values: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    every(values.map(|value| value.map(|value| !value))).map(|none| !none)
}

/// The first dependency in declaration order whose condition is not evaluated and can decide.
fn next_to_ask(examined: &[Examined], news_needed: bool) -> Option<usize> {
    let any_open = some(
        examined
            .iter()
            .filter(|one| !one.edge.requires_all)
            .map(|one| one.holds),
    )
    .is_none();
    let news_open = news_needed && some(examined.iter().filter(|one| one.unseen).map(|one| one.holds)).is_none();
    examined
        .iter()
        .position(|one| one.holds.is_none() && (one.edge.requires_all || any_open || (news_open && one.unseen)))
}

/// A condition that was not needed for readiness is evaluated when the agent starts, if a count or the handling of a
/// failure depends on it.
fn ask_for_the_count(
    plan: &Plan,
    state: &ConversationState,
    agent: AgentId,
    examined: &mut [Examined],
    answers: &dyn Answers,
) -> Asked<()> {
    for one in examined {
        let matters = one.edge.max_executions.is_some() || handles_failure(state, agent, one);
        if one.holds.is_none() && one.unseen && matters {
            one.holds = Some(ask(plan, state, one, answers)?);
        }
    }
    Ok(())
}

/// Returns whether this start handles a failure over this edge.
fn handles_failure(state: &ConversationState, agent: AgentId, one: &Examined) -> bool {
    let from = state.agent(one.edge.from);
    one.edge.on != Ending::Success
        && from.is_unhandled()
        && one.unseen
        && !is_first_over_feedback(state, agent, one.edge)
}

fn is_first_over_feedback(state: &ConversationState, agent: AgentId, edge: &Edge) -> bool {
    edge.feedback && !state.agent(agent).has_executed()
}

fn counted_start(plan: &Plan, state: &ConversationState, agent: AgentId, examined: &[Examined]) -> Start {
    let counting = examined
        .iter()
        .filter(|one| one.holds == Some(true) && one.unseen && !is_first_over_feedback(state, agent, one.edge));
    let handling = examined
        .iter()
        .filter(|one| one.holds == Some(true) && handles_failure(state, agent, one));
    Start {
        counts: counting.map(|one| one.edge.position).collect(),
        handles: names(plan, handling.map(|one| one.edge.from)),
        ..start(plan, state, agent)
    }
}

fn start(plan: &Plan, state: &ConversationState, agent: AgentId) -> Start {
    Start {
        agent: plan.name(agent).clone(),
        execution: state.next_execution(agent),
        counts: Vec::new(),
        handles: Vec::new(),
        request: None,
        reads: state.reads(agent),
    }
}

fn ask(plan: &Plan, state: &ConversationState, one: &Examined, answers: &dyn Answers) -> Asked<bool> {
    let Some(condition) = &one.edge.condition else {
        return Ok(true);
    };
    answers
        .answer(state, one.edge, condition)
        .map_err(|error| ConditionFailure {
            agent: plan.name(one.edge.to).clone(),
            position: one.edge.position,
            result: None,
            text: condition.text().clone(),
            start: error.span.start,
            end: error.span.end,
            message: error.message,
            values: answers.reads(state, one.edge, condition),
        })
}

fn reason_by_facts(plan: &Plan, state: &ConversationState, agent: AgentId, examined: &[Examined]) -> Reason {
    let max_turns = plan.agent(agent).conversation.max_turns.get();
    match standing(plan, state, agent) {
        Standing::MaxTurns => Reason::LimitReached {
            limit: "max_turns".into(),
            count: max_turns,
        },
        Standing::NothingNew => Reason::NothingNew,
        Standing::OnlyTool => Reason::OnlyTool,
        Standing::Blocked | Standing::Open => blocked(plan, examined),
    }
}

/// The dependencies that prevent the agent from running.
fn blocked(plan: &Plan, examined: &[Examined]) -> Reason {
    let failing = || examined.iter().filter(|one| one.holds == Some(false));
    let required = failing().any(|one| one.edge.requires_all);
    let relevant = || failing().filter(move |one| !required || one.edge.requires_all);
    let waits = names(
        plan,
        relevant()
            .filter(|one| one.why == Some(Unfulfilled::NotEnded))
            .map(|one| one.edge.from),
    );
    if !waits.is_empty() {
        return Reason::WaitingFor { agents: waits };
    }
    match relevant().find(|one| one.why == Some(Unfulfilled::Spent)) {
        Some(one) => Reason::LimitReached {
            limit: format!("max_executions on {}", plan.name(one.edge.from)).into(),
            count: one.edge.max_executions.map_or(0, std::num::NonZeroU32::get),
        },
        None => Reason::NothingNew,
    }
}

/// The condition that prevents the agent from running: the first false one; required dependencies come first.
fn reason_by_conditions(
    plan: &Plan,
    state: &ConversationState,
    examined: &[Examined],
    answers: &dyn Answers,
) -> Reason {
    let asked = examined
        .iter()
        .filter(|one| one.why.is_none() && one.holds == Some(false));
    let false_one = asked.max_by_key(|one| (one.edge.requires_all, std::cmp::Reverse(one.edge.position)));
    match false_one.and_then(|one| one.edge.condition.as_ref().map(|condition| (one, condition))) {
        Some((one, condition)) => Reason::ConditionFalse {
            dependency: plan.name(one.edge.from).clone(),
            condition: condition.text().clone(),
            values: answers.reads(state, one.edge, condition),
        },
        None => blocked(plan, examined),
    }
}
