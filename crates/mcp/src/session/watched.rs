//! The served folder, looked at from time to time.

use std::time::Duration;

use ensemble_project::Project;

use crate::catalog::{Fingerprint, fingerprint};

/// How often the folder is looked at for ensembles that came, went or changed.
const LOOK: Duration = Duration::from_secs(1);

/// The folder, as it was looked at last.
pub(super) struct Watched {
    pub(super) project: Project,
    pub(super) known: Fingerprint,
}

impl Watched {
    /// Looks again after a while.
    pub(super) async fn has_changed(&mut self) -> bool {
        tokio::time::sleep(LOOK).await;
        let now = fingerprint(&self.project);
        std::mem::replace(&mut self.known, now) != self.known
    }
}
