//! The parts of an ensemble that do not influence each other.
//!
//! Two agents are in one part if a dependency connects them, or if a condition between them counts the executions of
//! one of them. An ensemble has parts only if nothing else couples its agents: requests; agents that listen to all
//! others; limits on executions, tokens and costs, which end the whole conversation; conditions that read the number of
//! turns, which grows while other parts run, or what any agent may have written; claims that several parts share;
//! `success`, which is about the whole; and agents with `on_error: stop`.
//! `max_total_turns` does not couple them: all parts that are not at rest take each turn together.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::oracle::ExploredPlan;
use super::report::ExecutionResult;
use super::step::can_request_agents;
use ensemble_language::condition::{ClaimReads, ConditionClaim};
use ensemble_language::ensemble::{Ensemble, OnError};
use ensemble_language::plan::{AgentId, Plan};

/// Independent part of an ensemble.
pub(super) struct EnsemblePart {
    /// The agents of the part as an ensemble of their own.
    pub plan: Arc<Plan>,
    /// For each agent of the part, its number in the whole ensemble.
    pub agents: Vec<AgentId>,
}

/// Returns the independent parts, ordered by their first agents. Returns `None` for a single part.
pub(super) fn split_into_independent_parts(world: &ExploredPlan) -> Option<Vec<EnsemblePart>> {
    let plan = &world.plan;
    if are_all_agents_coupled(world) {
        return None;
    }
    let groups = group_connected_agents(world)?;
    (groups.len() > 1).then_some(())?;
    let ensemble = plan.ensemble();
    let mut shell = Ensemble::clone(ensemble);
    shell.agents.clear();
    shell.result = None;
    groups
        .into_iter()
        .map(|agents| build_part(plan, &shell, agents))
        .collect()
}

/// Returns whether something besides dependencies and execution counts can couple all agents.
fn are_all_agents_coupled(world: &ExploredPlan) -> bool {
    let plan = &world.plan;
    let limits = &plan.ensemble().limits;
    let is_limited =
        !limits.max_agent_executions.is_empty() || limits.max_total_tokens.is_some() || limits.max_cost.is_some();
    let ends_all =
        plan.success_condition().is_some() || plan.ensemble().agents.iter().any(|one| one.on_error == OnError::Stop);
    let listens = plan.listening_agent_ids().iter().any(|id| !plan.runs_only_as_tool(*id));
    // A question without an answer ends the conversation for all: where nobody answers, in every conversation.
    let stops = |id: AgentId| world.possible_results(id) == [ExecutionResult::Unanswered];
    let reads_others =
        |reads: ClaimReads| reads.context || reads.history || reads.input || reads.outputs || reads.turn_count;
    is_limited
        || ends_all
        || listens
        || plan
            .agent_ids()
            .any(|id| can_request_agents(plan.agent(id)) || stops(id))
        || world.list_claim_reads().any(reads_others)
}

/// Returns the groups of connected agents. Returns `None` if a condition counts the executions of all agents.
fn group_connected_agents(world: &ExploredPlan) -> Option<Vec<Vec<AgentId>>> {
    let plan = &world.plan;
    let mut groups = AgentUnionFind((0..plan.agent_count()).collect());
    for (id, edge) in plan.agent_ids().flat_map(|to| plan.incoming_edges(to)) {
        groups.merge_groups(edge.from, edge.to);
        let counting = world
            .list_edge_claims(id)
            .filter(|claim: &&ConditionClaim| claim.reads.executions);
        for claim in counting {
            for name in claim.list_counted_agents()? {
                if let Some(counted) = plan.find_agent_id(&name) {
                    groups.merge_groups(counted, edge.to);
                }
            }
        }
    }
    let mut agents_by_group: BTreeMap<usize, Vec<AgentId>> = BTreeMap::new();
    for id in plan.agent_ids() {
        agents_by_group
            .entry(groups.find_first_of_group(id.index()))
            .or_default()
            .push(id);
    }
    Some(agents_by_group.into_values().collect())
}

/// Union-find structure over agents: for each agent an earlier agent of its group, or the agent itself.
struct AgentUnionFind(Vec<usize>);

impl AgentUnionFind {
    /// Returns the first agent of the group of the agent. Shortens the path to this agent.
    fn find_first_of_group(&mut self, mut agent: usize) -> usize {
        while self.0[agent] != agent {
            self.0[agent] = self.0[self.0[agent]];
            agent = self.0[agent];
        }
        agent
    }

    /// Merges the groups of both agents.
    fn merge_groups(&mut self, one: AgentId, other: AgentId) {
        let (one, other) = (
            self.find_first_of_group(one.index()),
            self.find_first_of_group(other.index()),
        );
        self.0[one.max(other)] = one.min(other);
    }
}

/// Builds a part with these agents as a separate ensemble. Returns `None` if the plan cannot be built.
fn build_part(plan: &Plan, shell: &Ensemble, agents: Vec<AgentId>) -> Option<EnsemblePart> {
    let part_ensemble = Ensemble {
        agents: agents.iter().map(|id| plan.agent(*id).clone()).collect(),
        ..shell.clone()
    };
    let plan = Plan::build(Arc::new(part_ensemble)).ok()?;
    Some(EnsemblePart {
        plan: Arc::new(plan),
        agents,
    })
}
