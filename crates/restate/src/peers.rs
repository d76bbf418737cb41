//! Requests between workers for the steps of an execution.
//!
//! Invariant: the worker whose claim is in the journal of a call starts the execution, and another worker starts it only after that worker
//! is lost.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use hyper::StatusCode;
use serde::{Deserialize, Serialize};

use crate::execution_output::ExecutionStep;

/// Beginning of the path at which a worker is asked for a step. The ids of the worker and of the call and the number of the
/// step follow, and `/rest` if the execution must stop.
pub const PEER_CALLS_PATH: &str = "/ensemble/calls/";

/// Time limit for the answer of a worker.
const PATIENCE: Duration = Duration::from_secs(40);
/// Maximum number of tries to reach a worker. The next constant is the pause between the tries.
const MAX_PEER_TRIES: u32 = 3;
/// Pause between two tries to reach a worker.
const PAUSE: Duration = Duration::from_millis(100);

/// Claim of a worker to perform an execution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutionClaim {
    /// Id of the worker process.
    worker: Arc<str>,
    /// Address at which other workers find the worker.
    address: Option<Arc<str>>,
    /// Time of the claim.
    #[serde(default)]
    pub at: DateTime<Utc>,
}

/// Request for a step of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepRequest {
    /// Step with this number. The journal of the call has the earlier steps.
    Next(usize),
    /// All records from the step with this number on, of an execution that must stop.
    Rest(usize),
}

impl StepRequest {
    /// Parses the end of the path of a request. Returns `None` if the path is not valid.
    pub fn parse_path_end(path: &str) -> Option<Self> {
        match path.strip_suffix("/rest") {
            Some(number) => Some(Self::Rest(number.parse().ok()?)),
            None => Some(Self::Next(path.parse().ok()?)),
        }
    }

    /// Returns the end of the path of a request.
    fn to_path_end(self) -> String {
        match self {
            Self::Next(number) => number.to_string(),
            Self::Rest(number) => format!("{number}/rest"),
        }
    }
}

/// Reply to another worker that asks for a step of an execution.
#[derive(Debug)]
pub enum PeerStepReply {
    /// The step.
    Step(ExecutionStep),
    /// The step is not finished yet.
    GoesOn,
    /// The execution has not started here, and will not start here.
    Unknown,
    /// The asked worker was at this address before.
    OtherWorker,
}

/// Client of the other workers, with the claim of this worker.
pub struct PeerWorkerClient {
    own_claim: ExecutionClaim,
    http: reqwest::Client,
}

impl PeerWorkerClient {
    /// Creates the client of the worker with this id, which others find at this address.
    ///
    /// # Errors
    /// No HTTP client can be built.
    pub fn new(worker: &str, address: Option<&str>) -> Result<Self, String> {
        let own_claim = ExecutionClaim {
            worker: worker.into(),
            address: address.map(|address| address.trim_end_matches('/').into()),
            at: DateTime::default(),
        };
        let http = ensemble_models::build_http_client()?;
        Ok(Self { own_claim, http })
    }

    /// Returns the claim of this worker to an execution that starts at this time.
    pub fn own_claim_at(&self, at: DateTime<Utc>) -> ExecutionClaim {
        ExecutionClaim {
            at,
            ..self.own_claim.clone()
        }
    }

    /// Returns whether this worker has the claim.
    pub fn is_own_claim(&self, claim: &ExecutionClaim) -> bool {
        self.is_own_id(&claim.worker)
    }

    /// Returns whether this is the id of this worker.
    pub fn is_own_id(&self, worker: &str) -> bool {
        *self.own_claim.worker == *worker
    }

    /// Fetches a step of an execution from the worker with the claim, with retries. Returns `Lost` if the worker does not answer.
    pub async fn fetch_step_from_peer(
        &self,
        claim: &ExecutionClaim,
        call: &str,
        request: StepRequest,
    ) -> ExecutionStep {
        let lost = ExecutionStep::Lost { has_begun: true };
        let Some(address) = claim.address.as_deref() else {
            return lost;
        };
        let url = format!(
            "{address}{PEER_CALLS_PATH}{}/{call}/{}",
            claim.worker,
            request.to_path_end()
        );
        let mut tries = 0;
        while tries < MAX_PEER_TRIES {
            let Ok(response) = self.http.get(&url).timeout(PATIENCE).send().await else {
                tries += 1;
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            match response.status() {
                StatusCode::OK => match response.bytes().await {
                    Ok(body) => return serde_json::from_slice(&body).unwrap_or(lost),
                    Err(_) => tries += 1,
                },
                StatusCode::ACCEPTED => tries = 0,
                StatusCode::NOT_FOUND => return ExecutionStep::Lost { has_begun: false },
                _ => return lost,
            }
        }
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_a_step_is_read_as_it_is_written() {
        for request in [StepRequest::Next(0), StepRequest::Rest(12)] {
            assert_eq!(StepRequest::parse_path_end(&request.to_path_end()), Some(request));
        }
        for path in ["", "rest", "1/other", "-1", "1/rest/rest"] {
            assert_eq!(StepRequest::parse_path_end(path), None, "{path}");
        }
    }
}
