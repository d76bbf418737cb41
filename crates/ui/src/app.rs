//! What all requests share.
//!
//! Invariant: it holds nothing that the journals and the files of ensembles do not have.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ensemble_core::store::{RunId, StoredRun};
use ensemble_ide::analysis::findings::ProjectFileChecks;
use ensemble_language::ensemble::Ensemble;
use ensemble_reports::report::graph::GraphPicture;
use ensemble_runs::service::run_service::RunService;
use tokio::runtime::Handle;

use crate::conversations::ChatConversations;
use crate::reply::ApiFailure;
use crate::run_list::RunListCache;
use crate::watched_run::WatchedRun;
use ensemble_wire::bodies::{BodyReadLimits, LimitedBodyReader};
use ensemble_wire::guard::RequestGuard;
use ensemble_wire::token::AccessToken;

/// The limits of bodies of requests with the token.
const API_BODY_LIMITS: BodyReadLimits = BodyReadLimits {
    largest: 8 << 20,
    total: 64 << 20,
    timeout: Duration::from_secs(30),
};
/// Limits of the request bodies with which a page gets its cookie. The bodies contain the token.
const SESSION_BODY_LIMITS: BodyReadLimits = BodyReadLimits {
    largest: 4 << 10,
    total: 1 << 20,
    timeout: Duration::from_secs(5),
};
/// Maximum number of runs that stay in memory although no client follows them.
const MAX_UNFOLLOWED_RUNS: usize = 8;

/// The settings of a server.
pub struct UiServerSettings {
    /// The address: one of the loopback interface.
    pub address: IpAddr,
    /// The port (0: any that is free). Without one it is 7357, or any if somebody has that.
    pub port: Option<u16>,
    /// What clients must know.
    pub token: AccessToken,
    /// The runs, as the program holds them.
    pub runs: RunService,
    /// The runtime that drives runs.
    pub driving: Handle,
    /// The version of the program.
    pub version: &'static str,
    /// Draws an ensemble.
    pub picture: fn(&Ensemble) -> GraphPicture,
    /// The files of a new ensemble with this name, the ensemble first; `None`: it is not a name.
    pub starter: fn(&str) -> Option<Vec<NewEnsembleFile>>,
    /// The checks of files that are not ensembles.
    pub checks: Arc<dyn ProjectFileChecks>,
}

/// A file of a new ensemble.
pub struct NewEnsembleFile {
    /// Its path below the served folder.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
    /// Whether several ensembles use it: one that is there stays.
    pub is_shared: bool,
}

/// State that all requests share.
pub(crate) struct UiServerState {
    pub(crate) guard: RequestGuard,
    /// Reads bodies of requests with the token.
    pub(crate) bodies: LimitedBodyReader,
    /// Reads bodies of requests for the cookie.
    pub(crate) session_bodies: LimitedBodyReader,
    pub(crate) runs: RunService,
    pub(crate) version: &'static str,
    pub(crate) picture: fn(&Ensemble) -> GraphPicture,
    pub(crate) starter: fn(&str) -> Option<Vec<NewEnsembleFile>>,
    pub(crate) checks: Arc<dyn ProjectFileChecks>,
    /// Held by whoever replaces or creates a file.
    pub(crate) write_lock: Mutex<()>,
    pub(crate) briefs: tokio::sync::Mutex<RunListCache>,
    pub(crate) conversations: ChatConversations,
    /// Where runs are driven.
    driving: Handle,
    watched_runs: Mutex<HashMap<RunId, Arc<WatchedRun>>>,
}

impl UiServerState {
    /// Creates the state for a server on this port.
    pub(crate) fn new(settings: UiServerSettings, port: u16) -> Self {
        Self {
            guard: RequestGuard::new(settings.token, port),
            bodies: LimitedBodyReader::new(API_BODY_LIMITS),
            session_bodies: LimitedBodyReader::new(SESSION_BODY_LIMITS),
            runs: settings.runs,
            version: settings.version,
            picture: settings.picture,
            starter: settings.starter,
            checks: settings.checks,
            write_lock: Mutex::default(),
            briefs: tokio::sync::Mutex::default(),
            conversations: ChatConversations::default(),
            driving: settings.driving,
            watched_runs: Mutex::default(),
        }
    }

    /// Runs the future on the thread that drives runs, because it can start a run.
    pub(crate) async fn run_on_driver_thread<T: Send + 'static>(
        &self,
        future: impl Future<Output = Result<T, ApiFailure>> + Send + 'static,
    ) -> Result<T, ApiFailure> {
        let task_result = self.driving.spawn(future).await;
        task_result.unwrap_or_else(|_| Err(ApiFailure::unavailable("the program is shutting down")))
    }

    /// Runs work that reads files on a blocking thread, so that other requests are answered meanwhile.
    pub(crate) async fn run_blocking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T, ApiFailure> + Send + 'static,
    ) -> Result<T, ApiFailure> {
        let app = Arc::clone(self);
        let join_result = tokio::task::spawn_blocking(move || work(&app)).await;
        join_result.unwrap_or_else(|_| {
            Err(ApiFailure::unavailable(
                "the request cannot be answered: this is a bug in ensemble",
            ))
        })
    }

    /// Resolves a run by its id, also a nested run: `ID/sub/AGENT-1-1`.
    pub(crate) async fn resolve_stored_run(&self, id: &str) -> Result<Arc<dyn StoredRun>, ApiFailure> {
        let id = RunId::parse(id).map_err(not_found_failure)?;
        let store = self.runs.runs().store();
        store.find_run_by_id(&id).await.map_err(not_found_failure)
    }

    /// Returns the watched run, with all records up to now. Discards runs that no client follows, if there are too many.
    pub(crate) async fn refresh_watched_run(&self, id: &str) -> Result<Arc<WatchedRun>, ApiFailure> {
        let run = self.resolve_stored_run(id).await?;
        let watched = {
            let mut all = self.watched_runs.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(watched_run) = all.get(run.id()) {
                watched_run.clone()
            } else {
                if all.len() >= MAX_UNFOLLOWED_RUNS {
                    all.retain(|_, watched| watched.is_followed());
                }
                let watched = Arc::new(WatchedRun::new(run.clone()));
                all.insert(run.id().clone(), watched.clone());
                watched
            }
        };
        watched.read_and_send_new_records(&self.runs).await?;
        Ok(watched)
    }
}

/// Creates the failure of a run that does not exist.
fn not_found_failure(error: impl std::fmt::Display) -> ApiFailure {
    ApiFailure::not_found(error.to_string())
}
