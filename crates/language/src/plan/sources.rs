//! The agents behind a dependency.

use fixedbitset::FixedBitSet;

use super::{AgentId, Edge, Plan};
use crate::ensemble::WaitFor;

/// The agent of a dependency and those upstream of it, without the agent that has the dependency.
#[derive(Debug)]
pub struct Sources {
    agents: FixedBitSet,
    count: u32,
}

impl Sources {
    /// Returns whether the agent is one of them.
    pub fn contains(&self, agent: AgentId) -> bool {
        self.agents.contains(agent.index())
    }

    /// The number of these agents.
    pub fn count(&self) -> u32 {
        self.count
    }
}

/// Walks against the direction of the edges, from the agent of the dependency.
pub(super) fn of(plan: &Plan, edge: &Edge) -> Sources {
    let over_feedback = edge.wait_for == WaitFor::Settled;
    let start = Some(edge.from.index()).filter(|from| *from != edge.to.index());
    let agents = plan.graph.upstream(start, |at, link| {
        link.from != edge.to && (over_feedback || !plan.edges[at].feedback)
    });
    let count = u32::try_from(agents.count_ones(..)).expect("fewer than 4 billion agents");
    Sources { agents, count }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::loader::load;
    use crate::source::Source;

    /// The names of the agents behind the first dependency of `x`.
    fn behind(agents: &str) -> String {
        let loaded = load(&Source::new("t", format!("name: t\nagents:\n{agents}")));
        let ensemble = loaded.ensemble.unwrap_or_else(|| panic!("{:#?}", loaded.findings));
        let plan = Plan::build(Arc::new(ensemble)).expect("the conditions compile");
        let (id, _) = plan
            .incoming(plan.id("x").expect("it exists"))
            .next()
            .expect("a dependency");
        let sources = plan.sources(id);
        let names: Vec<&str> = plan
            .ids()
            .filter(|id| sources.contains(*id))
            .map(|id| &**plan.name(id))
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
