//! What all requests share.
//!
//! Invariant: it holds nothing that the journals and the files of ensembles do not have.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use ensemble_core::store::{RunId, StoredRun};
use ensemble_ide::analysis::findings::Checks;
use ensemble_language::ensemble::Ensemble;
use ensemble_reports::report::graph::Picture;
use ensemble_runs::service::run_service::RunService;
use tokio::runtime::Handle;

use crate::briefs::Briefs;
use crate::conversations::Conversations;
use crate::follow::Watched;
use crate::reply::Failure;
use ensemble_wire::guard::Guard;
use ensemble_wire::token::Token;

/// Most runs whose fold is kept while nobody looks at them.
const KEPT: usize = 8;

/// The settings of a server.
pub struct Settings {
    /// The address: one of the loopback interface.
    pub address: IpAddr,
    /// The port (0: any that is free). Without one it is 7357, or any if somebody has that.
    pub port: Option<u16>,
    /// What clients must know.
    pub token: Token,
    /// The runs, as the program holds them.
    pub runs: RunService,
    /// The runtime that drives runs.
    pub driving: Handle,
    /// The version of the program.
    pub version: &'static str,
    /// Draws an ensemble.
    pub picture: fn(&Ensemble) -> Picture,
    /// The files of a new ensemble with this name, the ensemble first; `None`: it is not a name.
    pub starter: fn(&str) -> Option<Vec<NewFile>>,
    /// The checks of files that are not ensembles.
    pub checks: Arc<dyn Checks>,
}

/// A file of a new ensemble.
pub struct NewFile {
    /// Its path below the served folder.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
    /// Whether several ensembles use it: one that is there stays.
    pub is_shared: bool,
}

/// The data that all requests share.
pub(crate) struct App {
    pub(crate) guard: Guard,
    pub(crate) runs: RunService,
    pub(crate) version: &'static str,
    pub(crate) picture: fn(&Ensemble) -> Picture,
    pub(crate) starter: fn(&str) -> Option<Vec<NewFile>>,
    pub(crate) checks: Arc<dyn Checks>,
    /// Held by whoever replaces or creates a file.
    pub(crate) writing: Mutex<()>,
    pub(crate) briefs: tokio::sync::Mutex<Briefs>,
    pub(crate) conversations: Conversations,
    /// Where runs are driven.
    driving: Handle,
    watched: Mutex<HashMap<RunId, Arc<Watched>>>,
}

impl App {
    pub(crate) fn new(settings: Settings, port: u16) -> Self {
        Self {
            guard: Guard::new(settings.token, port),
            runs: settings.runs,
            version: settings.version,
            picture: settings.picture,
            starter: settings.starter,
            checks: settings.checks,
            writing: Mutex::default(),
            briefs: tokio::sync::Mutex::default(),
            conversations: Conversations::default(),
            driving: settings.driving,
            watched: Mutex::default(),
        }
    }

    /// Waits for the future on the thread that drives runs, since it may begin one.
    pub(crate) async fn driving<T: Send + 'static>(
        &self,
        future: impl Future<Output = Result<T, Failure>> + Send + 'static,
    ) -> Result<T, Failure> {
        let done = self.driving.spawn(future).await;
        done.unwrap_or_else(|_| Err(Failure::gone("the program is ending")))
    }

    /// The run with this id, or the run inside a run: `ID/sub/AGENT-1-1`.
    pub(crate) async fn stored(&self, id: &str) -> Result<Arc<dyn StoredRun>, Failure> {
        let mut names = id.split("/sub/");
        let outermost = names.next().unwrap_or_default();
        let mut run = self.runs.runs().store().find(outermost).await.map_err(missing)?;
        for name in names {
            let inside = run.inside(name).await.map_err(missing)?;
            run = inside.ok_or_else(|| Failure::missing(format!("there is no run `{id}`")))?;
        }
        Ok(run)
    }

    /// The fold of the run, up to its last record.
    pub(crate) async fn watched(&self, id: &str) -> Result<Arc<Watched>, Failure> {
        let run = self.stored(id).await?;
        let watched = {
            let mut all = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(found) = all.get(run.id()) {
                found.clone()
            } else {
                if all.len() >= KEPT {
                    all.retain(|_, watched| watched.is_followed());
                }
                let watched = Arc::new(Watched::new(run.clone()));
                all.insert(run.id().clone(), watched.clone());
                watched
            }
        };
        watched.catch_up(&self.runs).await?;
        Ok(watched)
    }
}

fn missing(error: impl std::fmt::Display) -> Failure {
    Failure::missing(error.to_string())
}
