//! One execution with all that is recorded of it.

use ensemble_history::OutputView;
use ensemble_history::story::{StoryAttemptEnd, StoryExecution};
use ensemble_reports::report::story::execution_document;
use serde_json::{Value, json};

use super::RunView;

impl RunView {
    /// Converts the execution in this row to JSON with all details. Returns `None` for other rows.
    pub(crate) fn execution_detail_json(&self, at: usize) -> Option<Value> {
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
        let mut document = execution_document(execution);
        for (attempt, described) in execution
            .attempts
            .iter()
            .zip(document["attempts"].as_array_mut().into_iter().flatten())
        {
            let is_lost = attempt.end == StoryAttemptEnd::InProgress && !self.liveness.is_driven;
            described["state"] = match is_lost {
                true => "interrupted",
                false => attempt.describe_end(execution),
            }
            .into();
        }
        Some(json!({
            "at": at,
            "state": self.execution_state_word(turn.turn, execution),
            "elapsed": self.elapsed_seconds(execution),
            "turn": turn.turn,
            "kind": agent.map(|agent| agent.kind_name()),
            "has_messages": has_messages(execution),
            "dependencies": edges,
            "answered_by": describe_answer_author(execution),
            "said": execution.output().map(|output| {
                let view = OutputView::new(output);
                json!({"response": view.response, "keys": view.other_entries().collect::<Vec<_>>()})
            }),
            "execution": document,
        }))
    }
}

/// Describes the author of the answer, if the execution asked a question that was answered.
fn describe_answer_author(execution: &StoryExecution) -> Option<String> {
    let record = execution.finish_event.as_ref()?.answer.as_ref()?;
    Some(record.by.to_string())
}

/// Returns whether the execution asked a model.
fn has_messages(execution: &StoryExecution) -> bool {
    execution.first_request.is_some() || execution.total_usage().is_some_and(|usage| usage.requests > 0)
}
