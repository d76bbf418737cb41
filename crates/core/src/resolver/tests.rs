//! The incremental resolver against a reading of the rules that scans everything, on random conversations.

use std::sync::Arc;

use proptest::prelude::*;

use super::{AgentReadiness, NextDecision, decide_next_step, decide_readiness};
use crate::conversation::{AgentStart, Event, TurnStarted};
use crate::random_conversations::{HandDrivenConversation, WaitCounts};
use ensemble_language::ensemble::{RequiredResult, WaitForOutputs};
use ensemble_language::plan::{AgentId, Plan, PlanEdge};
use ensemble_language::random_ensembles::plan_with_results;

/// An agent that starts: whether a request starts it, the counts of its capped edges, and its news.
type Started = (AgentId, bool, Vec<usize>, Vec<Arc<str>>);

/// The rules, read off the whole record of the conversation.
struct Oracle<'a> {
    plan: &'a Plan,
    driver: &'a HandDrivenConversation,
}

impl Oracle<'_> {
    fn executions(&self, agent: AgentId) -> usize {
        self.driver.results.iter().filter(|(_, who, _)| *who == agent).count()
    }

    fn last_start(&self, agent: AgentId) -> u32 {
        let name = self.plan.agent_name(agent);
        let started = |turn: &&TurnStarted| turn.starts.iter().any(|start| start.agent == *name);
        self.driver.turns.iter().rev().find(started).map_or(0, |turn| turn.turn)
    }

    fn edge_starts(&self, agent: AgentId, position: usize) -> u32 {
        let name = self.plan.agent_name(agent);
        let starts = self.driver.turns.iter().flat_map(|turn| &turn.starts);
        let counting = starts.filter(|start| start.agent == *name && start.counts.contains(&position));
        u32::try_from(counting.count()).expect("few")
    }

    /// Who starts, with the counts of the edges that have a cap, and the agents whose outputs are new.
    fn ready(&self, agent: AgentId) -> Option<(bool, Vec<usize>, Vec<Arc<str>>)> {
        let spec = self.plan.agent(agent);
        let executions = self.executions(agent);
        if executions >= spec.conversation.max_turns.get() as usize {
            return None;
        }
        if !self.driver.state.agent_requests(agent).is_empty() {
            return Some((true, Vec::new(), Vec::new()));
        }
        if self.plan.runs_on_request(agent) {
            return None;
        }
        let first = executions == 0;
        let (mut all, mut any, mut any_exists, mut news) = (true, false, false, false);
        let mut counts = Vec::new();
        let mut names: Vec<Arc<str>> = Vec::new();
        for (_, edge) in self.plan.incoming_edges(agent) {
            let of_from = || self.driver.results.iter().filter(|(_, who, _)| *who == edge.from);
            let ended = match edge.on {
                RequiredResult::Success => of_from().next_back().is_some_and(|(_, _, success)| *success),
                RequiredResult::Failure => of_from().next_back().is_some_and(|(_, _, success)| !success),
                RequiredResult::Any => of_from().next().is_some(),
            };
            let spent = edge
                .max_executions
                .is_some_and(|max| self.edge_starts(agent, edge.position) >= max.get());
            let true_now = edge.condition.as_ref().is_none_or(|condition| {
                condition
                    .evaluate(&self.driver.state.edge_condition_values(edge))
                    .expect("these conditions have answers")
            });
            let exempt = edge.feedback && first;
            let holds = exempt || (ended && !spent && true_now);
            let since = self.last_start(agent);
            let unseen = of_from().any(|(turn, _, success)| *turn >= since && edge.on.is_fulfilled_by(*success));
            if edge.requires_all {
                all &= holds;
            } else {
                any_exists = true;
                any |= holds;
            }
            news |= holds && unseen;
            let name = self.plan.agent_name(edge.from);
            if holds && unseen && !exempt && !names.contains(name) {
                names.push(name.clone());
            }
            if holds && unseen && !exempt && edge.max_executions.is_some() {
                counts.push(edge.position);
            }
        }
        if spec.dependencies.is_empty() {
            let since = self.last_start(agent);
            let is_new = |id: &AgentId| {
                let mut results = self.driver.results.iter();
                *id != agent && results.any(|(turn, who, success)| who == id && *success && *turn >= since)
            };
            let new = self.plan.agent_ids().filter(is_new);
            names = new.map(|id| self.plan.agent_name(id).clone()).collect();
            news = !names.is_empty();
            names.retain(|_| !first);
        }
        let ready = all && (any || !any_exists) && (first || self.plan.runs_every_turn(agent) || news);
        ready.then_some((false, counts, names))
    }
}

impl Oracle<'_> {
    /// Whether the agent has work, and only `max_turns` or `max_executions` keeps it from running.
    fn is_exhausted(&self, agent: AgentId) -> bool {
        let at_max_turns = self.executions(agent) >= self.plan.agent(agent).conversation.max_turns.get() as usize;
        if at_max_turns && self.driver.state.was_requested_at_limit(agent) {
            return true;
        }
        let started = self.executions(agent) > 0 && !self.plan.runs_on_request(agent);
        if !started || matches!(self.ready(agent), Some((false, ..))) {
            return false;
        }
        let (mut all, mut any, mut any_exists, mut news, mut spent) = (true, false, false, false, at_max_turns);
        for (_, edge) in self.plan.incoming_edges(agent) {
            let of_from = || self.driver.results.iter().filter(|(_, who, _)| *who == edge.from);
            let ended = match edge.on {
                RequiredResult::Success => of_from().next_back().is_some_and(|(_, _, success)| *success),
                RequiredResult::Failure => of_from().next_back().is_some_and(|(_, _, success)| !success),
                RequiredResult::Any => of_from().next().is_some(),
            };
            let true_now = edge.condition.as_ref().is_none_or(|condition| {
                condition
                    .evaluate(&self.driver.state.edge_condition_values(edge))
                    .expect("these conditions have answers")
            });
            let holds = ended && true_now;
            let since = self.last_start(agent);
            news |= holds && of_from().any(|(turn, _, success)| *turn >= since && edge.on.is_fulfilled_by(*success));
            match edge.requires_all {
                true => all &= holds,
                false => (any_exists, any) = (true, any | holds),
            }
            spent |= edge
                .max_executions
                .is_some_and(|max| self.edge_starts(agent, edge.position) >= max.get());
        }
        spent && all && (any || !any_exists) && news
    }

    /// Returns the agents that start, by the rule about waiting, and for how many turns in a row the others have waited
    /// for which dependency.
    fn starts(&self) -> (Vec<Started>, WaitCounts) {
        let ready: Vec<Started> = self
            .plan
            .agent_ids()
            .filter_map(|id| {
                self.ready(id)
                    .map(|(requested, counts, news)| (id, requested, counts, news))
            })
            .collect();
        let ids: Vec<AgentId> = ready.iter().map(|(id, ..)| *id).collect();
        for with_feedback in [true, false] {
            let mut waited = WaitCounts::new();
            let mut going = ready.clone();
            going.retain(|(id, requested, ..)| {
                let edges = self.plan.incoming_edges(*id).map(|(_, edge)| edge);
                let waits_for: Vec<&PlanEdge> = edges
                    .filter(|edge| !*requested && self.waits(edge, &ids, with_feedback))
                    .collect();
                for edge in &waits_for {
                    waited.insert((*id, edge.position), self.waited(edge) + 1);
                }
                waits_for.is_empty()
            });
            if !going.is_empty() {
                return (going, waited);
            }
        }
        (ready, WaitCounts::new())
    }

    fn waits(&self, edge: &PlanEdge, ready: &[AgentId], with_feedback: bool) -> bool {
        let own = edge.to;
        let executed = self.executions(own) > 0;
        if !edge.requires_all || edge.feedback && (!with_feedback || !executed) {
            return false;
        }
        let settled = match edge.wait_for {
            WaitForOutputs::Nothing => return false,
            WaitForOutputs::Settled => true,
            WaitForOutputs::Update => false,
        };
        let behind: Vec<AgentId> = self
            .plan
            .agent_ids()
            .filter(|from| *from != own && self.leads(*from, edge.from, own, settled, &mut Vec::new()))
            .collect();
        let about_to_come = behind.iter().any(|from| ready.contains(from));
        if settled {
            return about_to_come;
        }
        let since = self.last_start(own);
        let unseen = self
            .driver
            .results
            .iter()
            .any(|(turn, who, success)| *who == edge.from && *turn >= since && edge.on.is_fulfilled_by(*success));
        about_to_come && executed && !unseen && !self.plan.runs_every_turn(own) && self.waited(edge) < behind.len()
    }

    /// Whether a way leads from one agent to the other without passing through `own`.
    fn leads(&self, from: AgentId, to: AgentId, own: AgentId, over_feedback: bool, seen: &mut Vec<AgentId>) -> bool {
        if to == own || seen.contains(&to) {
            return false;
        }
        seen.push(to);
        from == to
            || self
                .plan
                .incoming_edges(to)
                .filter(|(_, edge)| over_feedback || !edge.feedback)
                .any(|(_, edge)| self.leads(from, edge.from, own, over_feedback, seen))
    }

    /// For how many turns in a row the agent has waited for this dependency.
    fn waited(&self, edge: &PlanEdge) -> usize {
        self.driver.waited.get(&(edge.to, edge.position)).copied().unwrap_or(0)
    }
}

/// What the oracle compares of a start.
fn comparable(plan: &Plan, start: &AgentStart) -> Started {
    let agent = plan.find_agent_id(&start.agent).expect("agents of the plan start");
    let capped: Vec<usize> = plan
        .incoming_edges(agent)
        .filter(|(_, edge)| edge.max_executions.is_some())
        .map(|(_, edge)| edge.position)
        .collect();
    let counts = start.counts.iter().copied().filter(|at| capped.contains(at)).collect();
    let mut news: Vec<Arc<str>> = Vec::new();
    for (_, edge) in plan.incoming_edges(agent) {
        let name = plan.agent_name(edge.from);
        if start.counts.contains(&edge.position) && !news.contains(name) {
            news.push(name.clone());
        }
    }
    let news = start.news.clone().unwrap_or(news);
    (agent, start.request.is_some(), counts, news)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn who_starts_is_what_the_rules_say((plan, fate) in plan_with_results()) {
        let plan = Arc::new(plan);
        let mut fate = fate.into_iter().cycle().take(400);
        let mut driver = HandDrivenConversation::new(&plan);
        loop {
            let decision = decide_next_step(&plan, &driver.state);
            prop_assert_eq!(&decision, &decide_next_step(&plan, &driver.state), "a decision is deterministic");
            match decision {
                NextDecision::StartTurn(turn) => {
                    let oracle = Oracle { plan: &plan, driver: &driver };
                    let started: Vec<_> = turn.starts.iter().map(|start| comparable(&plan, start)).collect();
                    let (starts, waited) = oracle.starts();
                    prop_assert_eq!(started, starts, "turn {}", turn.turn);
                    driver.waited = waited;
                    driver.perform_random_turn(&plan, turn, &mut fate);
                }
                NextDecision::FinishTurn(finished) => driver.apply_event(Event::TurnFinished(finished)),
                NextDecision::Perform => prop_assert!(false, "every execution of the turn has ended"),
                NextDecision::End(ended) => {
                    let oracle = Oracle { plan: &plan, driver: &driver };
                    if ended.completion_reason == crate::conversation::CompletionReason::Completed {
                        for id in plan.agent_ids() {
                            prop_assert_eq!(oracle.ready(id), None, "{} could still run", plan.agent_name(id));
                        }
                    }
                    let listed: Vec<_> = ended.exhausted.iter().map(|one| one.agent.clone()).collect();
                    let exhausted = plan.agent_ids().filter(|id| oracle.is_exhausted(*id));
                    let exhausted: Vec<_> = exhausted.map(|id| plan.agent_name(id).clone()).collect();
                    prop_assert_eq!(listed, exhausted, "{:?}", ended);
                    break;
                }
            }
        }
    }

    #[test]
    fn an_agent_that_is_passed_over_is_not_ready((plan, fate) in plan_with_results()) {
        let plan = Arc::new(plan);
        let mut fate = fate.into_iter().cycle().take(400);
        let mut driver = HandDrivenConversation::new(&plan);
        loop {
            match decide_next_step(&plan, &driver.state) {
                NextDecision::StartTurn(turn) => {
                    let candidates: Vec<AgentId> = driver.state.candidate_agents().collect();
                    for id in plan.agent_ids().filter(|id| !candidates.contains(id)) {
                        let ready = matches!(decide_readiness(&plan, &driver.state, id), Ok(AgentReadiness::Ready(start)) if start.request.is_none());
                        prop_assert!(!ready, "{} is ready and no candidate", plan.agent_name(id));
                    }
                    driver.perform_random_turn(&plan, turn, &mut fate);
                }
                NextDecision::FinishTurn(finished) => driver.apply_event(Event::TurnFinished(finished)),
                _ => break,
            }
        }
    }
}
