//! The other workers: who performs an execution, and what it came to.
//!
//! Invariant: an execution is begun by the worker whose claim is in the journal of its call, and by another one only when that worker is
//! lost.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use hyper::StatusCode;
use serde::{Deserialize, Serialize};

use crate::execution_output::ExecutionStep;

/// The beginning of the path at which a worker is asked for an execution; the ids of the worker and of the call and the number of the
/// step follow, and `/rest` if the execution must stop.
pub const PEER_CALLS_PATH: &str = "/ensemble/calls/";

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(40);
/// How often a worker that does not answer is tried, and the pause between.
const MAX_PEER_TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_millis(100);

/// A worker that performs an execution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutionClaim {
    /// The worker, from its start to its end.
    worker: Arc<str>,
    /// Where other workers find it.
    address: Option<Arc<str>>,
    /// When it claimed the execution.
    #[serde(default)]
    pub at: DateTime<Utc>,
}

/// The step of an execution for which a worker is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepRequest {
    /// The step with this number. The steps before it are in the journal of the call.
    Next(usize),
    /// Everything from the step with this number on, of an execution that must stop.
    Rest(usize),
}

impl StepRequest {
    /// Parses the end of the path of a request.
    pub fn parse_path_end(path: &str) -> Option<Self> {
        match path.strip_suffix("/rest") {
            Some(number) => Some(Self::Rest(number.parse().ok()?)),
            None => Some(Self::Next(path.parse().ok()?)),
        }
    }

    fn to_path_end(self) -> String {
        match self {
            Self::Next(number) => number.to_string(),
            Self::Rest(number) => format!("{number}/rest"),
        }
    }
}

/// The reply of a worker that is asked for an execution.
#[derive(Debug)]
pub enum PeerStepReply {
    /// The step.
    Step(ExecutionStep),
    /// The step has not come yet.
    GoesOn,
    /// It has not begun here, and will not.
    Unknown,
    /// Another worker was at this address before.
    OtherWorker,
}

/// The other workers, as one of them sees them.
pub struct PeerWorkerClient {
    own_claim: ExecutionClaim,
    http: reqwest::Client,
}

impl PeerWorkerClient {
    /// Returns the worker with this id, which others find at this address.
    ///
    /// # Errors
    /// There is no HTTP client.
    pub fn new(worker: &str, address: Option<&str>) -> Result<Self, String> {
        let own_claim = ExecutionClaim {
            worker: worker.into(),
            address: address.map(|address| address.trim_end_matches('/').into()),
            at: DateTime::default(),
        };
        let http = ensemble_models::build_http_client()?;
        Ok(Self { own_claim, http })
    }

    /// Returns the claim of this worker to an execution that it begins at this time.
    pub fn own_claim_at(&self, at: DateTime<Utc>) -> ExecutionClaim {
        ExecutionClaim {
            at,
            ..self.own_claim.clone()
        }
    }

    /// Does this worker perform the execution?
    pub fn is_own_claim(&self, claim: &ExecutionClaim) -> bool {
        self.is_own_id(&claim.worker)
    }

    /// Returns whether this is the id of the worker.
    pub fn is_own_id(&self, worker: &str) -> bool {
        *self.own_claim.worker == *worker
    }

    /// Returns a step of an execution at another worker, which may be lost.
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
