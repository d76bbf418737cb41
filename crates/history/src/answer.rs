//! The agents whose outputs are final, and the output that is the answer of a run.

use std::collections::HashSet;
use std::sync::Arc;

use ensemble_core::conversation::ConversationState;
use ensemble_language::ensemble::{Agent, AgentKind, Ensemble};
use serde_json::{Value, json};

/// Returns the agents whose outputs are final: no other agent reads them, except by feedback. Input agents are excluded, because their
/// outputs are texts of the operator.
pub fn list_final_output_agents(ensemble: &Ensemble) -> impl Iterator<Item = &Agent> {
    let dependencies = ensemble.agents.iter().flat_map(|agent| &agent.dependencies);
    let read: HashSet<&Arc<str>> = dependencies
        .filter(|dependency| !dependency.feedback)
        .map(|dependency| &dependency.agent_name)
        .collect();
    let agents = ensemble.agents.iter();
    agents.filter(move |agent| !read.contains(&agent.name) && !is_input_agent(agent))
}

/// Returns whether the agent is an input agent, whose output is the text of the operator.
pub fn is_input_agent(agent: &Agent) -> bool {
    matches!(agent.kind, AgentKind::Input(_))
}

/// Finds the answer of a run: the declared result, else the latest output of an agent whose outputs are final, else the latest output.
/// Ignores failed executions. Returns `None` if no execution succeeded.
pub fn find_run_answer(state: &ConversationState) -> Option<Arc<Value>> {
    if let Some(result) = state.evaluate_declared_result() {
        return Some(Arc::new(json!(result.value)));
    }
    let speaking: HashSet<&Arc<str>> = list_final_output_agents(state.plan().ensemble())
        .map(|agent| &agent.name)
        .collect();
    let (mut latest, mut spoken) = (None, None);
    for entry in state.list_executions().filter(|entry| entry.is_success()) {
        let output = entry.output_data();
        if speaking.contains(&entry.agent_name) {
            spoken = Some(output.clone());
        }
        latest = Some(output);
    }
    spoken.or(latest)
}
