//! The parts of an ensemble that do not influence each other.
//!
//! Two agents are in one part if a dependency connects them, or if a condition between them counts the executions of
//! one of them. An ensemble has parts only if nothing else couples its agents: requests; agents that listen to all
//! others; limits on executions, tokens and costs, which end the whole conversation; conditions that read the number of
//! turns, which grows while other parts run, or what any agent may have written; and claims that several parts share.
//! `max_total_turns` does not couple them: all parts that are not at rest take each turn together.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::oracle::World;
use super::report::ExecutionResult;
use super::step::may_request;
use ensemble_language::condition::{Claim, Sources};
use ensemble_language::ensemble::Ensemble;
use ensemble_language::plan::{AgentId, Plan};

/// A part of an ensemble.
pub(super) struct Part {
    /// The agents of the part as an ensemble of their own.
    pub plan: Arc<Plan>,
    /// For each agent of the part, its number in the whole ensemble.
    pub agents: Vec<AgentId>,
}

/// The parts, ordered by their first agents; `None` if there is only one.
pub(super) fn of(world: &World) -> Option<Vec<Part>> {
    let plan = &world.plan;
    if is_coupled(world) {
        return None;
    }
    let groups = groups(world)?;
    (groups.len() > 1).then_some(())?;
    let whole = plan.ensemble();
    let mut shell = Ensemble::clone(whole);
    shell.agents.clear();
    shell.result = None;
    groups.into_iter().map(|agents| part(plan, &shell, agents)).collect()
}

/// Returns whether something else than dependencies and counts of executions can couple all agents.
fn is_coupled(world: &World) -> bool {
    let plan = &world.plan;
    let limits = &plan.ensemble().limits;
    let is_limited =
        !limits.max_agent_executions.is_empty() || limits.max_total_tokens.is_some() || limits.max_cost.is_some();
    let listens = plan.listeners().iter().any(|id| !plan.is_only_tool(*id));
    // A question without an answer ends the conversation for all: where nobody answers, in every conversation.
    let stops = |id: AgentId| world.results(id) == [ExecutionResult::Unanswered];
    let reads_others =
        |reads: Sources| reads.context || reads.history || reads.input || reads.outputs || reads.turn_count;
    is_limited
        || listens
        || plan.ids().any(|id| may_request(plan.agent(id)) || stops(id))
        || world.claims().any(reads_others)
}

/// The connected agents; `None` if a condition counts the executions of all agents.
fn groups(world: &World) -> Option<Vec<Vec<AgentId>>> {
    let plan = &world.plan;
    let mut groups = Groups((0..plan.len()).collect());
    for (id, edge) in plan.ids().flat_map(|to| plan.incoming(to)) {
        groups.join(edge.from, edge.to);
        let counting = world.claims_of(id).filter(|claim: &&Claim| claim.reads.executions);
        for claim in counting {
            for name in claim.agents_counted()? {
                if let Some(counted) = plan.id(&name) {
                    groups.join(counted, edge.to);
                }
            }
        }
    }
    let mut found: BTreeMap<usize, Vec<AgentId>> = BTreeMap::new();
    for id in plan.ids() {
        found.entry(groups.first(id.index())).or_default().push(id);
    }
    Some(found.into_values().collect())
}

/// For each agent, another agent of its group that comes before it, or itself if it is the first one.
struct Groups(Vec<usize>);

impl Groups {
    /// The first agent of the group.
    fn first(&mut self, mut agent: usize) -> usize {
        while self.0[agent] != agent {
            self.0[agent] = self.0[self.0[agent]];
            agent = self.0[agent];
        }
        agent
    }

    fn join(&mut self, one: AgentId, other: AgentId) {
        let (one, other) = (self.first(one.index()), self.first(other.index()));
        self.0[one.max(other)] = one.min(other);
    }
}

fn part(plan: &Plan, shell: &Ensemble, agents: Vec<AgentId>) -> Option<Part> {
    let own = Ensemble {
        agents: agents.iter().map(|id| plan.agent(*id).clone()).collect(),
        ..shell.clone()
    };
    let plan = Plan::build(Arc::new(own)).ok()?;
    Some(Part {
        plan: Arc::new(plan),
        agents,
    })
}
