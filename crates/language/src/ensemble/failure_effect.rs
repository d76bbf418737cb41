//! The effect of a failure of an agent on its run.

use super::{Ensemble, OnError};

/// The effect of a failure of an agent on its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureEffect {
    /// The outcome does not depend on it.
    None,
    /// The run continues to its natural end, and fails then.
    FailsRun,
    /// The run fails, unless another agent handles the failure.
    FailsIfUnhandled,
    /// The run ends when the turn has closed.
    StopsRun,
}

impl FailureEffect {
    /// Returns the effect as a sentence for reports; `None` if there is no effect.
    pub fn sentence(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::FailsRun => Some("the run will end as `agent_failed`"),
            Self::FailsIfUnhandled => {
                Some("the run will end as `agent_failed`, unless another agent handles the failure")
            }
            Self::StopsRun => Some("the run ends as `agent_failed` after this turn"),
        }
    }
}

impl Ensemble {
    /// Returns the effect that a failure of the agent has on the run.
    pub fn failure_effect(&self, agent: &str) -> FailureEffect {
        let is_handler =
            |dependency: &super::Dependency| *dependency.agent_name == *agent && dependency.on.is_fulfilled_by(false);
        let mut dependencies = self.agents.iter().flat_map(|agent| &agent.dependencies);
        match self.find_agent(agent).map(|agent| agent.on_error) {
            None | Some(OnError::Continue) => FailureEffect::None,
            Some(OnError::Stop) => FailureEffect::StopsRun,
            Some(OnError::Fail) if dependencies.any(is_handler) => FailureEffect::FailsIfUnhandled,
            Some(OnError::Fail) => FailureEffect::FailsRun,
        }
    }
}
