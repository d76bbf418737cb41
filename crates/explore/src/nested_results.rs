//! The possible results of an execution, those of agents that are ensembles by the exploration of these ensembles.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::report::ExecutionResult;
use super::{Exploration, ExplorationBudget};
use ensemble_core::conversation::CompletionReason;
use ensemble_language::ensemble::{Agent, AgentKind};

/// Known results of nested ensembles, by the names of their agents.
pub type KnownNestedResults = BTreeMap<Arc<str>, NestedResults>;

/// Possible results of a nested ensemble. In addition, every execution can fail, for example because of a time limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NestedResults {
    /// One can end with exit code 0.
    pub succeeds: bool,
    /// One can end with a question that has no answer.
    pub waits: bool,
    /// Whether no other one can end with a question that has no answer.
    pub is_whole: bool,
}

impl Exploration {
    /// Summarizes the possible ends for an agent that is this ensemble.
    pub fn to_nested_results(&self) -> NestedResults {
        use CompletionReason as Reason;
        let is_complete = self.coverage.is_complete();
        let ends = |wanted: &[Reason]| self.ends.iter().any(|end| wanted.contains(&end.reason));
        let besides = self.besides.iter().any(|one| one.reason == Reason::WaitingForInput);
        NestedResults {
            succeeds: !is_complete || self.ends.iter().any(|end| end.success),
            waits: ends(&[Reason::WaitingForInput]),
            is_whole: is_complete && !besides,
        }
    }
}

/// Returns whether the agent asks a person and has no other source of answers.
fn can_stay_unanswered(agent: &Agent) -> bool {
    matches!(&agent.kind, AgentKind::Input(input) if input.default.is_none() && input.responses.is_none())
}

/// Returns the possible results of an execution of the agent. The first result is the default.
pub(super) fn list_possible_results(agent: &Agent, budget: ExplorationBudget<'_>) -> Vec<ExecutionResult> {
    use ExecutionResult::{Failed, Succeeded, Unanswered};
    let inner = budget.inside.and_then(|inside| inside.get(&agent.name));
    match (&agent.kind, inner) {
        _ if can_stay_unanswered(agent) && budget.nobody_answers => vec![Unanswered],
        _ if can_stay_unanswered(agent) => vec![Succeeded, Failed, Unanswered],
        (AgentKind::Ensemble { .. }, Some(inner)) => {
            let succeeded = inner.succeeds.then_some(Succeeded);
            let waits = inner.waits.then_some(Unanswered);
            succeeded.into_iter().chain([Failed]).chain(waits).collect()
        }
        _ => vec![Succeeded, Failed],
    }
}
