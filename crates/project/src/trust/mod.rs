//! Trust in the ways in which a project's files use the user's keys and environment.
//!
//! A file that sends a key or a value of the environment is used only after the user has reviewed the file. The
//! decision is stored in the user's own folder, for the path of the file and the digest of the reviewed content.
//!
//! Invariant: the decision is stored in the user's own folder, and is bound to a digest.

mod grants;
mod store;

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) use grants::{describe_ensemble_uses, describe_profile_uses};
use store::TrustStore;
pub use store::TrustedFile;

use crate::owner::{ForeignFile, find_foreign_owner};

/// Content of a project's files that is ignored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IgnoredContent {
    /// Untrusted parts of a configuration.
    IgnoredParts {
        /// Path of the configuration.
        path: PathBuf,
        /// Uses of the environment in the parts, a line for each.
        lines: Vec<String>,
    },
    /// File or folder of another user.
    ForeignFile(ForeignFile),
}

/// Function that is called with ignored content.
type IgnoredContentListener = dyn Fn(&IgnoredContent) + Send + Sync;

/// Trust in files of a project that use keys and values of the environment. By default, no file is trusted.
#[derive(Clone, Default)]
pub struct Trust {
    is_everything: bool,
    store: Option<TrustStore>,
    listener: Option<Arc<IgnoredContentListener>>,
    reported_files: Arc<Mutex<BTreeSet<PathBuf>>>,
}

impl Trust {
    /// Creates a trust in no file. A provider's own key at the provider's own address needs no trust.
    pub fn trust_nothing() -> Self {
        Self::default()
    }

    /// Creates a trust in every file of every owner, for programs that run only their own files.
    pub fn trust_everything() -> Self {
        Self {
            is_everything: true,
            ..Self::default()
        }
    }

    /// Creates a trust in the files that the user has trusted by `ensemble trust`, as listed in this file. The list has no effect if
    /// other users can write to the file.
    pub fn from_store_file(file: impl Into<PathBuf>) -> Self {
        Self {
            store: Some(TrustStore::from_file(file.into())),
            ..Self::default()
        }
    }

    /// Trusts every file if `is_everything` is set.
    #[must_use]
    pub fn or_trust_everything(self, is_everything: bool) -> Self {
        Self {
            is_everything: self.is_everything || is_everything,
            ..self
        }
    }

    /// Calls the function once for each file of which content is ignored.
    #[must_use]
    pub fn with_ignored_listener(self, listener: impl Fn(&IgnoredContent) + Send + Sync + 'static) -> Self {
        Self {
            listener: Some(Arc::new(listener)),
            ..self
        }
    }

    /// Returns whether every file is trusted.
    pub fn trusts_everything(&self) -> bool {
        self.is_everything
    }

    /// Returns whether the user has trusted the file at this path with this digest.
    pub fn is_trusted(&self, path: &Path, digest: &str) -> bool {
        self.is_everything
            || self
                .store
                .as_ref()
                .is_some_and(|store| store.contains_file_with_digest(path, digest))
    }

    /// Returns the files that the user has trusted.
    pub fn list_trusted(&self) -> Vec<TrustedFile> {
        self.store
            .as_ref()
            .map(TrustStore::read_trusted_files)
            .unwrap_or_default()
    }

    /// Records the trust in these files with their digests. Replaces the earlier trust in the same files.
    ///
    /// # Errors
    /// There is no file for the trust, or the file cannot be written.
    pub fn trust_files(&self, files: Vec<TrustedFile>) -> std::io::Result<()> {
        let mut trusted_files = self.list_trusted();
        trusted_files.retain(|known| files.iter().all(|new| new.path != known.path));
        trusted_files.extend(files);
        self.write_store(trusted_files)
    }

    /// Removes the trust in the file. Returns `false` if the file was not trusted.
    ///
    /// # Errors
    /// The change cannot be written.
    pub fn untrust_file(&self, path: &Path) -> std::io::Result<bool> {
        let mut trusted_files = self.list_trusted();
        let before = trusted_files.len();
        trusted_files.retain(|known| Path::new(&known.path) != path);
        if trusted_files.len() == before {
            return Ok(false);
        }
        self.write_store(trusted_files).map(|()| true)
    }

    /// Writes the list of trusted files.
    fn write_store(&self, kept: Vec<TrustedFile>) -> std::io::Result<()> {
        match &self.store {
            Some(store) => store.replace_trusted_files(kept),
            None => Err(std::io::Error::other("there is no folder for the settings of the user")),
        }
    }

    /// Returns whether the file or folder belongs to another user. Such a file is reported, and must not be
    /// used.
    pub(crate) fn is_foreign_reported(&self, path: &Path) -> bool {
        match self.find_foreign_owner(path) {
            Some(stranger) => {
                self.report_ignored_once(path, || IgnoredContent::ForeignFile(stranger));
                true
            }
            None => false,
        }
    }

    /// Returns the owner of a file or folder that must not be used. Returns `None` if every file is trusted.
    pub(crate) fn find_foreign_owner(&self, path: &Path) -> Option<ForeignFile> {
        if self.is_everything {
            None
        } else {
            find_foreign_owner(path)
        }
    }

    /// Calls the listener with the ignored content, unless content of the same path was reported before.
    pub(crate) fn report_ignored_once(&self, path: &Path, left_alone: impl FnOnce() -> IgnoredContent) {
        let is_new = self
            .reported_files
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(path.to_owned());
        if let Some(listener) = self.listener.as_ref().filter(|_| is_new) {
            listener(&left_alone());
        }
    }
}

/// Formats the trust without its listener.
impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trust")
            .field("is_everything", &self.is_everything)
            .field("store", &self.store)
            .finish_non_exhaustive()
    }
}

/// Compares the trusted files, and ignores the listeners.
impl PartialEq for Trust {
    fn eq(&self, other: &Self) -> bool {
        self.is_everything == other.is_everything && self.store == other.store
    }
}

impl Eq for Trust {}
