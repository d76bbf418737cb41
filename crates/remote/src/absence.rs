//! Search for the part that does not answer: the engine, or the workers.
//!
//! The engine itself answers the requests of this file, except the call of a worker. So the client explains a missing response
//! without waiting for the response.

use std::time::Duration;

use reqwest::StatusCode;
use serde::Deserialize;

use crate::client::{EngineClient, innermost_cause};
use crate::client_error::EngineClientError;
use crate::protocol::{DAYS, INDEX, PROTOCOL, RUNS, RunStartRequest, WorkerVersion};

/// Time without a response after which the client probes the engine and a worker.
const SILENCE_BEFORE_PROBE: Duration = Duration::from_secs(4);
/// Time limit for the answer of the engine, and for the answer of a worker.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// Response of an ingress to a health check.
#[derive(Debug, Deserialize)]
struct IngressHealth {
    /// Names of the registered services.
    services: Vec<String>,
}

impl EngineClient {
    /// Checks that an engine answers at this address.
    ///
    /// # Errors
    /// [`EngineClientError::Unreachable`] if no program answers, [`EngineClientError::NoIngress`] if another program answers.
    pub async fn check_ingress(&self) -> Result<(), EngineClientError> {
        self.fetch_health().await.map(drop)
    }

    /// Checks that a worker answers, and that the worker can execute runs of this program.
    ///
    /// # Errors
    /// The engine or the workers do not answer, or the worker reads other protocols.
    pub async fn check_workers(&self) -> Result<WorkerVersion, EngineClientError> {
        let worker: WorkerVersion = self
            .call_handler_with_retries(&format!("{INDEX}/{DAYS}/worker"), &())
            .await?;
        match worker.can_continue_protocol(PROTOCOL) {
            true => Ok(worker),
            false => Err(EngineClientError::OtherProtocol {
                other: format!("worker {} of {}", worker.version, self.url()),
                protocol: worker.protocol,
            }),
        }
    }

    /// Checks that this program can read the records of a run.
    ///
    /// # Errors
    /// This program does not read the protocol of the run.
    pub fn check_run_protocol(&self, start: &RunStartRequest) -> Result<(), EngineClientError> {
        match WorkerVersion::for_this_build().can_continue_protocol(start.protocol) {
            true => Ok(()),
            false => Err(EngineClientError::OtherProtocol {
                other: format!("run {} on {}", start.started.run_id, self.url()),
                protocol: start.protocol,
            }),
        }
    }

    /// Waits until the engine or the workers do not answer, and returns the error. Waits forever while both answer.
    pub async fn wait_for_absence(&self) -> EngineClientError {
        loop {
            tokio::time::sleep(SILENCE_BEFORE_PROBE).await;
            if let Err(absence) = self.probe_engine_and_worker().await {
                return absence;
            }
        }
    }

    /// Probes the engine and a worker. Returns an error if one of them does not answer.
    async fn probe_engine_and_worker(&self) -> Result<(), EngineClientError> {
        if let Some(health) = self.fetch_health().await?
            && !health.services.iter().any(|service| service == RUNS)
        {
            return Err(EngineClientError::NoWorkers(self.url().to_owned()));
        }
        let path = format!("{INDEX}/{DAYS}/worker");
        let ask_worker = self.post_once(&path, "null");
        match tokio::time::timeout(PROBE_TIMEOUT, ask_worker).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(error),
            Err(_late) => Err(EngineClientError::NoWorkerAnswers(self.url().to_owned())),
        }
    }

    /// Fetches a path of the engine and returns the HTTP status.
    pub(crate) async fn fetch_status(&self, path: &str) -> Result<u16, EngineClientError> {
        let request = self.http().get(format!("{}/{path}", self.url())).timeout(PROBE_TIMEOUT);
        let answer = request.send().await;
        let answer = answer.map_err(|error| EngineClientError::Unreachable {
            url: self.url().to_owned(),
            reason: innermost_cause(&error),
        })?;
        Ok(answer.status().as_u16())
    }

    /// Fetches the health of the ingress. Returns `None` if a proxy in front of the ingress denies the request.
    async fn fetch_health(&self) -> Result<Option<IngressHealth>, EngineClientError> {
        let unreachable = |reason: String| EngineClientError::Unreachable {
            url: self.url().to_owned(),
            reason,
        };
        let no_ingress = || EngineClientError::NoIngress(self.url().to_owned());
        let request = self.http().get(format!("{}/restate/health", self.url()));
        let ask_engine = async {
            let response = request.send().await?;
            Ok((response.status(), response.text().await?))
        };
        let answer: Result<(StatusCode, String), reqwest::Error> =
            match tokio::time::timeout(PROBE_TIMEOUT, ask_engine).await {
                Ok(answer) => answer,
                Err(_late) => return Err(unreachable(format!("no response for {} s", PROBE_TIMEOUT.as_secs()))),
            };
        let (status, text) = answer.map_err(|error| unreachable(innermost_cause(&error)))?;
        match status {
            StatusCode::OK => serde_json::from_str(&text).map(Some).map_err(|_| no_ingress()),
            StatusCode::NOT_FOUND => Err(no_ingress()),
            _ => Ok(None),
        }
    }
}
