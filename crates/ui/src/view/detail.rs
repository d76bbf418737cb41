//! One execution with all that is recorded of it.

use ensemble_reports::report::story::execution_document;
use serde_json::{Value, json};

use super::RunView;

impl RunView {
    /// Returns the execution in this row.
    pub(crate) fn execution_detail(&self, at: usize) -> Option<Value> {
        let (turn, execution) = self.execution_at(at)?;
        let plan = self.plan.as_ref();
        let agent = plan.and_then(|plan| Some(plan.agent(plan.find_agent_id(&execution.agent)?)));
        let fired = self.fired_dependencies.get(&(turn.turn, execution.agent.clone()));
        let edges = agent
            .into_iter()
            .flat_map(|agent| agent.dependencies.iter().enumerate());
        let edges: Vec<Value> = edges
            .map(|(position, edge)| {
                json!({
                    "from": edge.agent_name,
                    "condition": edge.condition.as_deref(),
                    "feedback": edge.feedback,
                    "fired": fired.is_some_and(|fired| fired.contains(&position)),
                })
            })
            .collect();
        Some(json!({
            "at": at,
            "turn": turn.turn,
            "kind": agent.map(|agent| agent.kind_name()),
            "dependencies": edges,
            "execution": execution_document(execution),
        }))
    }
}
