//! The number of executions of each agent, as conditions see it.

use std::sync::Arc;

use ensemble_language::condition::ExecutionCounts;
use ensemble_language::plan::{AgentId, Plan};

/// The number of executions of each agent so far.
#[derive(Debug, Clone)]
pub(super) struct ExecutionCountList {
    plan: Arc<Plan>,
    counts: Vec<u32>,
}

impl ExecutionCountList {
    /// Creates the list with 0 executions for every agent.
    pub(super) fn new(plan: Arc<Plan>) -> Self {
        let counts = vec![0; plan.agent_count()];
        Self { plan, counts }
    }

    /// Adds one execution of the agent to the count.
    pub(super) fn add_execution(&mut self, id: AgentId) {
        self.counts[id.index()] += 1;
    }

    /// Returns the number of executions of the agent.
    pub(super) fn count_for(&self, id: AgentId) -> u32 {
        self.counts[id.index()]
    }
}

impl ExecutionCounts for ExecutionCountList {
    fn execution_count(&self, agent: &str) -> Option<u64> {
        self.plan.find_agent_id(agent).map(|id| u64::from(self.count_for(id)))
    }

    fn agent_names(&self) -> Vec<Arc<str>> {
        self.plan
            .agent_ids()
            .map(|id| self.plan.agent_name(id).clone())
            .collect()
    }
}
