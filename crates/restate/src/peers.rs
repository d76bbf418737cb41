//! The other workers: who performs an execution, and what it came to.
//!
//! Invariant: an execution is begun by the worker whose claim is in the journal of its call, and by another one only when that worker is
//! lost.

use std::sync::Arc;
use std::time::Duration;

use ensemble_remote::protocol::WorkResult;
use hyper::StatusCode;
use serde::{Deserialize, Serialize};

/// The beginning of the path at which a worker is asked for an execution; the ids of the worker and of the call follow.
pub const PATH: &str = "/ensemble/calls/";

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(40);
/// How often a worker that does not answer is tried, and the pause between.
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_millis(100);

/// A worker that performs an execution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerClaim {
    /// The worker, from its start to its end.
    worker: Arc<str>,
    /// Where other workers find it.
    address: Option<Arc<str>>,
}

/// The reply of a worker that is asked for an execution.
#[derive(Debug)]
pub enum PeerReply {
    /// It has ended.
    Done(Box<WorkResult>),
    /// It has not ended yet.
    GoesOn,
    /// It has not begun here, and will not.
    Unknown,
}

/// The other workers, as one of them sees them.
pub struct PeerWorkers {
    own_claim: WorkerClaim,
    http: reqwest::Client,
}

impl PeerWorkers {
    /// Returns the worker with this id, which others find at this address.
    ///
    /// # Errors
    /// There is no HTTP client.
    pub fn new(worker: &str, address: Option<&str>) -> Result<Self, String> {
        let own_claim = WorkerClaim {
            worker: worker.into(),
            address: address.map(|address| address.trim_end_matches('/').into()),
        };
        let http = ensemble_models::build_http_client()?;
        Ok(Self { own_claim, http })
    }

    /// Returns the claim of this worker to an execution.
    pub fn own_claim(&self) -> &WorkerClaim {
        &self.own_claim
    }

    /// Does this worker perform the execution?
    pub fn is_own_claim(&self, claim: &WorkerClaim) -> bool {
        self.is_own_id(&claim.worker)
    }

    /// Returns whether this is the id of the worker.
    pub fn is_own_id(&self, worker: &str) -> bool {
        *self.own_claim.worker == *worker
    }

    /// Returns the end of an execution at another worker; nothing if that worker is lost, or does not know it.
    pub async fn fetch_result(&self, claim: &WorkerClaim, call: &str) -> Option<WorkResult> {
        let url = format!("{}{PATH}{}/{call}", claim.address.as_deref()?, claim.worker);
        let mut tries = 0;
        while tries < TRIES {
            let Ok(response) = self.http.get(&url).timeout(PATIENCE).send().await else {
                tries += 1;
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            match response.status() {
                StatusCode::OK => match response.bytes().await {
                    Ok(body) => return serde_json::from_slice(&body).ok(),
                    Err(_) => tries += 1,
                },
                StatusCode::ACCEPTED => tries = 0,
                _ => return None,
            }
        }
        None
    }
}
