//! The served folder, which is polled for changes.

use std::time::Duration;

use ensemble_project::Project;

use crate::catalog::{FolderFingerprint, read_folder_fingerprint};

/// The interval of the checks whether an ensemble was added, removed or changed.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// A watched folder of ensembles, with its last known fingerprint.
pub(super) struct WatchedFolder {
    pub(super) project: Project,
    pub(super) known: FolderFingerprint,
}

impl WatchedFolder {
    /// Waits for one interval, and returns whether an ensemble in the folder has changed.
    pub(super) async fn wait_and_detect_change(&mut self) -> bool {
        tokio::time::sleep(POLL_INTERVAL).await;
        let now = read_folder_fingerprint(&self.project);
        std::mem::replace(&mut self.known, now) != self.known
    }
}
