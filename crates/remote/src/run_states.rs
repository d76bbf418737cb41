//! States of runs on the engine.

use std::collections::BTreeMap;

use ensemble_core::store::RunId;
use ensemble_history::RunState;

use crate::admin::PausedCall;
use crate::client::{EngineClient, run_path};
use crate::client_error::EngineClientError;
use crate::protocol::RunBrief;

/// HTTP status of the engine for the result of a workflow that has not ended.
const RESULT_NOT_READY_STATUS: u16 = 470;

/// State of a run on the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineRunState {
    /// State from the records of the run.
    Recorded(RunState),
    /// The engine has paused a call of the run. The run continues when a client or an operator resumes the call.
    Paused,
    /// The engine no longer executes the run, and the run has not ended, because an operator has killed the run.
    Lost,
}

impl EngineRunState {
    /// Returns the name of the state for users and programs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Recorded(state) => state.as_str(),
            Self::Paused => "paused",
            Self::Lost => "lost",
        }
    }
}

impl EngineClient {
    /// Determines the state of a run from its summary, from the paused calls of all runs, and from the engine.
    ///
    /// # Errors
    /// The engine cannot be reached.
    pub async fn fetch_run_state(
        &self,
        id: &RunId,
        brief: &RunBrief,
        paused: &BTreeMap<RunId, Vec<PausedCall>>,
    ) -> Result<EngineRunState, EngineClientError> {
        if brief.has_ended() {
            return Ok(EngineRunState::Recorded(brief.state));
        }
        if self.fetch_is_workflow_lost(id).await? {
            return Ok(EngineRunState::Lost);
        }
        Ok(match paused.contains_key(id) {
            true => EngineRunState::Paused,
            false => EngineRunState::Recorded(brief.state),
        })
    }

    /// Asks the engine whether the workflow of a run has ended with an error of the engine.
    async fn fetch_is_workflow_lost(&self, id: &RunId) -> Result<bool, EngineClientError> {
        let path = run_path(id.as_str(), "output");
        let status = self.fetch_status(&format!("restate/workflow/{path}")).await?;
        Ok((400..=500).contains(&status) && status != RESULT_NOT_READY_STATUS)
    }
}
