//! The latest output of each agent, as conditions see it.

use std::sync::Arc;

use serde_json::Value;

use ensemble_language::condition::ConditionOutputs;
use ensemble_language::plan::{AgentId, Plan};

/// The latest output of each agent so far. A copy shares the outputs.
#[derive(Debug, Clone)]
pub(super) struct LatestOutputs {
    plan: Arc<Plan>,
    outputs: Vec<Option<Arc<Value>>>,
}

impl LatestOutputs {
    /// Creates the list without any output.
    pub(super) fn new(plan: Arc<Plan>) -> Self {
        let outputs = vec![None; plan.agent_count()];
        Self { plan, outputs }
    }

    /// Replaces the output of the agent.
    pub(super) fn set_output(&mut self, id: AgentId, output: Arc<Value>) {
        self.outputs[id.index()] = Some(output);
    }
}

impl ConditionOutputs for LatestOutputs {
    fn latest_output(&self, agent: &str) -> Option<Arc<Value>> {
        let id = self.plan.find_agent_id(agent)?;
        self.outputs[id.index()].clone()
    }

    fn agents_with_output(&self) -> Vec<Arc<str>> {
        let with_output = self.plan.agent_ids().filter(|id| self.outputs[id.index()].is_some());
        with_output.map(|id| self.plan.agent_name(id).clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use ensemble_language::loader::load_ensemble;
    use ensemble_language::source::SourceText;

    #[test]
    fn outputs_are_shared_and_agents_without_one_are_missing() {
        let text = "name: e\nagents: [{name: a, script: x}, {name: b, script: x}]\n";
        let ensemble = load_ensemble(&SourceText::new("e.yaml", text))
            .ensemble
            .expect("is sound");
        let plan = Arc::new(Plan::build(Arc::new(ensemble)).expect("a plan"));
        let mut latest = LatestOutputs::new(plan.clone());
        let output = Arc::new(json!({"n": 1}));
        latest.set_output(plan.find_agent_id("b").expect("is there"), output.clone());
        let copy = latest.clone();
        assert!(copy.latest_output("b").is_some_and(|seen| Arc::ptr_eq(&seen, &output)));
        assert_eq!((copy.latest_output("a"), copy.latest_output("nobody")), (None, None));
        assert_eq!(copy.agents_with_output(), ["b".into()]);
    }
}
