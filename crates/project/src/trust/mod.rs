//! What a project's files may do with the user's keys and environment.
//!
//! A file that says where a key or a value of the environment goes counts only after the user has looked at that. The
//! decision is kept in the user's own folder, for the path of the file and the digest of what was shown.
//!
//! Invariant: the decision is kept in the user's own folder, and is bound to a digest.

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

/// The content of a project's files that is ignored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IgnoredContent {
    /// Parts of a configuration that is not trusted, a line for each.
    IgnoredParts {
        /// The configuration.
        path: PathBuf,
        /// What the parts would do.
        lines: Vec<String>,
    },
    /// A file or a folder of somebody else.
    ForeignFile(ForeignFile),
}

type IgnoredContentListener = dyn Fn(&IgnoredContent) + Send + Sync;

/// The files of a project that may use keys and values of the environment. By default none.
#[derive(Clone, Default)]
pub struct Trust {
    is_everything: bool,
    store: Option<TrustStore>,
    listener: Option<Arc<IgnoredContentListener>>,
    reported_files: Arc<Mutex<BTreeSet<PathBuf>>>,
}

impl Trust {
    /// No file is trusted. What needs no trust works: above all, a provider's own key at the provider's own address.
    pub fn trust_nothing() -> Self {
        Self::default()
    }

    /// Every file is trusted, whoever owns it. For programs that run only files of their own.
    pub fn trust_everything() -> Self {
        Self {
            is_everything: true,
            ..Self::default()
        }
    }

    /// The files are trusted that the user has trusted by `ensemble trust`, as this file says. It counts only if nobody
    /// else can write to it.
    pub fn from_store_file(file: impl Into<PathBuf>) -> Self {
        Self {
            store: Some(TrustStore::from_file(file.into())),
            ..Self::default()
        }
    }

    /// Every file is trusted if `is_everything`; otherwise as before.
    #[must_use]
    pub fn or_trust_everything(self, is_everything: bool) -> Self {
        Self {
            is_everything: self.is_everything || is_everything,
            ..self
        }
    }

    /// Tells this function once of each file of which something was left alone.
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

    /// Has the user trusted this, in the file at that path?
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

    /// Trusts these files from now on, each with its digest. What was trusted of the same files before is forgotten.
    ///
    /// # Errors
    /// There is no place to keep it, or it cannot be written.
    pub fn trust_files(&self, files: Vec<TrustedFile>) -> std::io::Result<()> {
        let mut trusted_files = self.list_trusted();
        trusted_files.retain(|known| files.iter().all(|new| new.path != known.path));
        trusted_files.extend(files);
        self.write_store(trusted_files)
    }

    /// Trusts the file no longer; `false` if it was not trusted.
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

    fn write_store(&self, kept: Vec<TrustedFile>) -> std::io::Result<()> {
        match &self.store {
            Some(store) => store.replace_trusted_files(kept),
            None => Err(std::io::Error::other("there is no folder for the settings of the user")),
        }
    }

    /// Returns whether the file or folder exists and belongs to another user. It is then reported, and must not be
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

    /// Returns the owner of a file or a folder that must not be used.
    pub(crate) fn find_foreign_owner(&self, path: &Path) -> Option<ForeignFile> {
        if self.is_everything {
            None
        } else {
            find_foreign_owner(path)
        }
    }

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

/// Does not show who listens.
impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trust")
            .field("is_everything", &self.is_everything)
            .field("store", &self.store)
            .finish_non_exhaustive()
    }
}

/// Whether the same files are trusted; who is told of the others makes no difference.
impl PartialEq for Trust {
    fn eq(&self, other: &Self) -> bool {
        self.is_everything == other.is_everything && self.store == other.store
    }
}

impl Eq for Trust {}
