//! How often each agent has executed, as conditions see it.

use std::sync::Arc;

use ensemble_language::condition::Counts;
use ensemble_language::plan::{AgentId, Plan};

/// Executions so far of every agent.
#[derive(Debug, Clone)]
pub(super) struct CountList {
    plan: Arc<Plan>,
    counts: Vec<u32>,
}

impl CountList {
    /// All at 0.
    pub(super) fn new(plan: Arc<Plan>) -> Self {
        let counts = vec![0; plan.len()];
        Self { plan, counts }
    }

    /// One more.
    pub(super) fn add(&mut self, id: AgentId) {
        self.counts[id.index()] += 1;
    }

    /// How often the agent has executed.
    pub(super) fn of(&self, id: AgentId) -> u32 {
        self.counts[id.index()]
    }
}

impl Counts for CountList {
    fn count(&self, agent: &str) -> Option<u64> {
        self.plan.id(agent).map(|id| u64::from(self.of(id)))
    }

    fn names(&self) -> Vec<Arc<str>> {
        self.plan.ids().map(|id| self.plan.name(id).clone()).collect()
    }
}
