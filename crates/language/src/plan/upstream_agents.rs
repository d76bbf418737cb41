//! The agents behind a dependency.

use fixedbitset::FixedBitSet;

use super::{AgentId, Plan, PlanEdge};
use crate::ensemble::WaitForOutputs;

/// The agent of a dependency and all agents upstream of it, without the agent that has the dependency.
#[derive(Debug)]
pub struct UpstreamAgents {
    agents: FixedBitSet,
    count: u32,
}

impl UpstreamAgents {
    /// Returns whether the agent is upstream.
    pub fn contains(&self, agent: AgentId) -> bool {
        self.agents.contains(agent.index())
    }

    /// Returns the number of these agents.
    pub fn count(&self) -> u32 {
        self.count
    }
}

/// Collects the agents upstream of the edge. Follows feedback dependencies only if the edge waits until all have settled.
pub(super) fn find_upstream_agents(plan: &Plan, edge: &PlanEdge) -> UpstreamAgents {
    let over_feedback = edge.wait_for == WaitForOutputs::Settled;
    let start = Some(edge.from.index()).filter(|from| *from != edge.to.index());
    let agents = plan.graph.find_upstream_agents(start, |at, link| {
        link.from != edge.to && (over_feedback || !plan.edges[at].feedback)
    });
    let count = u32::try_from(agents.count_ones(..)).expect("fewer than 4 billion agents");
    UpstreamAgents { agents, count }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::loader::load_ensemble;
    use crate::source::SourceText;

    /// Returns the names of the agents behind the first dependency of `x`.
    fn behind(agents: &str) -> String {
        let loaded = load_ensemble(&SourceText::new("t", format!("name: t\nagents:\n{agents}")));
        let ensemble = loaded.ensemble.unwrap_or_else(|| panic!("{:#?}", loaded.findings));
        let plan = Plan::build(Arc::new(ensemble)).expect("the conditions compile");
        let (id, _) = plan
            .incoming_edges(plan.find_agent_id("x").expect("it exists"))
            .next()
            .expect("a dependency");
        let sources = plan.upstream_agents(id);
        let names: Vec<&str> = plan
            .agent_ids()
            .filter(|id| sources.contains(*id))
            .map(|id| &**plan.agent_name(id))
            .collect();
        assert_eq!(sources.count() as usize, names.len());
        names.join(" ")
    }

    #[test]
    fn sources_are_upstream_and_not_beyond_the_agent_itself() {
        let a = "- {name: a, script: s}\n";
        let b = "- {name: b, script: s, depends_on: [a]}\n";
        let table = [
            (format!("{a}{b}- {{name: x, script: s, depends_on: [b]}}\n"), "a b"),
            (
                format!("{a}{b}- {{name: x, script: s, depends_on: [a]}}\n"),
                "a",
            ),
            (
                "- {name: a, script: s, dependencies: [{agent_name: b, feedback: true}]}\n- {name: b, script: s, depends_on: [a]}\n- {name: x, script: s, depends_on: [a]}\n".to_owned(),
                "a",
            ),
            (
                "- {name: a, script: s, dependencies: [{agent_name: b, feedback: true}]}\n- {name: b, script: s, depends_on: [a]}\n- {name: x, script: s, dependencies: [{agent_name: a, wait_for: settled}]}\n".to_owned(),
                "a b",
            ),
            (
                "- {name: z, script: s}\n- {name: a, script: s, dependencies: [{agent_name: x, feedback: true}]}\n- {name: x, script: s, dependencies: [{agent_name: a, wait_for: settled}, {agent_name: z}]}\n".to_owned(),
                "a",
            ),
            ("- {name: x, script: s, dependencies: [{agent_name: x, feedback: true}]}\n".to_owned(), ""),
        ];
        for (agents, expected) in table {
            assert_eq!(behind(&agents), expected, "{agents}");
        }
    }
}
