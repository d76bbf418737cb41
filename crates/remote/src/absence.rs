//! The search for who does not answer: the engine, or the workers.
//!
//! The engine itself answers the requests of this file, except the call of a worker. So a request that gets no response is
//! explained without waiting for it.

use std::time::Duration;

use reqwest::StatusCode;
use serde::Deserialize;

use crate::client::{EngineClient, EngineClientError, innermost_cause};
use crate::protocol::{DAYS, INDEX, PROTOCOL, RUNS, RunStartRequest, WorkerVersion};

/// The time without a response after which the engine and a worker are asked.
const SILENCE_BEFORE_PROBE: Duration = Duration::from_secs(4);
/// The time limit for the answer of the engine, and for that of a worker.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// The response of an ingress to a health check.
#[derive(Debug, Deserialize)]
struct IngressHealth {
    /// The names of the registered services.
    services: Vec<String>,
}

impl EngineClient {
    /// Checks that an engine answers at this address.
    ///
    /// # Errors
    /// [`EngineClientError::Unreachable`] if no program answers, [`EngineClientError::NoIngress`] if another program does.
    pub async fn check_ingress(&self) -> Result<(), EngineClientError> {
        self.fetch_health().await.map(drop)
    }

    /// Checks that a worker answers that can execute runs of this program.
    ///
    /// # Errors
    /// The engine or the workers do not answer, or the worker that answers reads other protocols.
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
    /// The run has a protocol that this program does not read.
    pub fn check_run_protocol(&self, start: &RunStartRequest) -> Result<(), EngineClientError> {
        match WorkerVersion::for_this_build().can_continue_protocol(start.protocol) {
            true => Ok(()),
            false => Err(EngineClientError::OtherProtocol {
                other: format!("run {} on {}", start.started.run_id, self.url()),
                protocol: start.protocol,
            }),
        }
    }

    /// Waits until the engine or the workers do not answer, and returns which.
    pub async fn wait_for_absence(&self) -> EngineClientError {
        loop {
            tokio::time::sleep(SILENCE_BEFORE_PROBE).await;
            if let Err(absence) = self.probe_engine_and_worker().await {
                return absence;
            }
        }
    }

    /// Returns an error if the engine or the workers do not answer.
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

    /// Returns the status of the engine's own answer to a request.
    pub(crate) async fn fetch_status(&self, path: &str) -> Result<u16, EngineClientError> {
        let request = self.http().get(format!("{}/{path}", self.url())).timeout(PROBE_TIMEOUT);
        let answer = request.send().await;
        let answer = answer.map_err(|error| EngineClientError::Unreachable {
            url: self.url().to_owned(),
            reason: innermost_cause(&error),
        })?;
        Ok(answer.status().as_u16())
    }

    /// Returns the health of the ingress; `None`: something in front of the ingress does not allow the request.
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
