//! The errors of the client of the engine, and the advice for users.

use crate::protocol::PROTOCOL;
use ensemble_core::log::CommitError;
use ensemble_core::store::{LogReadError, RunId, StoreError};

/// Error of the client of a durable execution engine.
#[derive(Debug, thiserror::Error)]
pub enum EngineClientError {
    /// The address is not valid, or no HTTP client can be built.
    #[error("`{url}` is not the address of an engine: {reason}")]
    Address {
        /// Address of the engine.
        url: String,
        /// Reason why the address is not valid.
        reason: String,
    },
    /// No program answers.
    #[error("{url} cannot be reached: {reason}")]
    Unreachable {
        /// Address of the engine.
        url: String,
        /// Reason of the failed connection.
        reason: String,
    },
    /// The engine has no registered workers.
    #[error("{0} has no registered workers that run ensembles")]
    NoWorkers(String),
    /// The engine answers, but no worker answers.
    #[error("no worker of {0} answers")]
    NoWorkerAnswers(String),
    /// The program that answers is no engine.
    #[error("`{0}` is not the ingress of an engine")]
    NoIngress(String),
    /// This program does not read the protocol of a worker or of a run.
    #[error("{other} has protocol {protocol}, and this program has protocol {PROTOCOL}")]
    OtherProtocol {
        /// Worker or run.
        other: String,
        /// Protocol of the worker or run.
        protocol: u32,
    },
    /// The engine refuses the request.
    #[error("{url} refuses: {status}: {message}")]
    RequestRefused {
        /// Address of the engine.
        url: String,
        /// HTTP status.
        status: u16,
        /// Message of the engine.
        message: String,
    },
    /// A worker refused the run before it began.
    #[error("the worker refuses run {id}: {message}")]
    RunRefused {
        /// The id.
        id: String,
        /// The reason.
        message: String,
    },
    /// There is no such run.
    #[error("there is no run `{id}` on {url}")]
    NoRun {
        /// Id of the run, or its beginning.
        id: String,
        /// Address of the engine.
        url: String,
    },
    /// Several ids begin with the text.
    #[error("`{id}` matches several runs: {}", candidates.join(", "))]
    Ambiguous {
        /// Beginning of the ids.
        id: String,
        /// Matching ids.
        candidates: Vec<String>,
    },
    /// The response of the engine cannot be read.
    #[error("{url} sent an invalid record: {reason}")]
    Content {
        /// Address of the engine.
        url: String,
        /// Reason why the response cannot be read.
        reason: String,
    },
    /// The copy of a run was continued here.
    #[error("run {0} already exists here and has been continued here")]
    CopyDiverged(RunId),
    /// The store cannot create or replace the copy.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The existing copy cannot be read.
    #[error(transparent)]
    Read(#[from] LogReadError),
    /// The records cannot be written.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

impl EngineClientError {
    /// Returns whether the error can disappear when a lost node of the engine is replaced.
    pub(crate) fn is_temporary(&self) -> bool {
        match self {
            // A node that has just started knows no workers yet.
            Self::Unreachable { .. } | Self::NoWorkers(_) | Self::NoWorkerAnswers(_) => true,
            Self::RequestRefused { status, .. } => matches!(status, 502..=504),
            _ => false,
        }
    }

    /// Returns the advice for the user, if there is any.
    pub fn advice_text(&self) -> Option<String> {
        match self {
            Self::NoWorkers(_) => {
                Some("start a worker with `ensemble-restate serve`, and register it: see docs/scale.md".to_owned())
            }
            Self::NoWorkerAnswers(_) => Some(
                "start a worker with `ensemble-restate serve`, at an address that is registered with the engine; its runs \
                 then continue"
                    .to_owned(),
            ),
            Self::OtherProtocol { .. } => {
                Some("use the version of `ensemble` that the workers have, or that started the run".to_owned())
            }
            Self::CopyDiverged(id) => Some(format!("to replace the run, delete it first: ensemble runs rm {id}")),
            Self::Unreachable { .. } | Self::NoIngress(_) => {
                Some("use the address of the engine's ingress, such as http://127.0.0.1:8080".to_owned())
            }
            _ => None,
        }
    }
}
