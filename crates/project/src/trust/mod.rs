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

pub(crate) use grants::{of_ensemble, of_profile};
use store::Store;
pub use store::Trusted;

use crate::owner::{Stranger, stranger};

/// The content of a project's files that is ignored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeftAlone {
    /// Parts of a configuration that is not trusted, a line for each.
    Parts {
        /// The configuration.
        path: PathBuf,
        /// What the parts would do.
        lines: Vec<String>,
    },
    /// A file or a folder of somebody else.
    Stranger(Stranger),
}

type Listener = dyn Fn(&LeftAlone) + Send + Sync;

/// The files of a project that may use keys and values of the environment. By default none.
#[derive(Clone, Default)]
pub struct Trust {
    is_everything: bool,
    store: Option<Store>,
    listener: Option<Arc<Listener>>,
    told: Arc<Mutex<BTreeSet<PathBuf>>>,
}

impl Trust {
    /// No file is trusted. What needs no trust works: above all, a provider's own key at the provider's own address.
    pub fn nothing() -> Self {
        Self::default()
    }

    /// Every file is trusted, whoever owns it. For programs that run only files of their own.
    pub fn everything() -> Self {
        Self {
            is_everything: true,
            ..Self::default()
        }
    }

    /// The files are trusted that the user has trusted by `ensemble trust`, as this file says. It counts only if nobody
    /// else can write to it.
    pub fn kept_in(file: impl Into<PathBuf>) -> Self {
        Self {
            store: Some(Store::at(file.into())),
            ..Self::default()
        }
    }

    /// Every file is trusted if `is_everything`; otherwise as before.
    #[must_use]
    pub fn or_everything(self, is_everything: bool) -> Self {
        Self {
            is_everything: self.is_everything || is_everything,
            ..self
        }
    }

    /// Tells this function once of each file of which something was left alone.
    #[must_use]
    pub fn telling(self, listener: impl Fn(&LeftAlone) + Send + Sync + 'static) -> Self {
        Self {
            listener: Some(Arc::new(listener)),
            ..self
        }
    }

    /// Returns whether every file is trusted.
    pub fn is_everything(&self) -> bool {
        self.is_everything
    }

    /// Has the user trusted this, in the file at that path?
    pub fn allows(&self, path: &Path, digest: &str) -> bool {
        self.is_everything || self.store.as_ref().is_some_and(|store| store.holds(path, digest))
    }

    /// The files that the user has trusted.
    pub fn trusted(&self) -> Vec<Trusted> {
        self.store.as_ref().map(Store::read).unwrap_or_default()
    }

    /// Trusts these files from now on, each with its digest. What was trusted of the same files before is forgotten.
    ///
    /// # Errors
    /// There is no place to keep it, or it cannot be written.
    pub fn add(&self, files: Vec<Trusted>) -> std::io::Result<()> {
        let mut kept = self.trusted();
        kept.retain(|known| files.iter().all(|new| new.path != known.path));
        kept.extend(files);
        self.write(kept)
    }

    /// Trusts the file no longer; `false` if it was not trusted.
    ///
    /// # Errors
    /// The change cannot be written.
    pub fn remove(&self, path: &Path) -> std::io::Result<bool> {
        let mut kept = self.trusted();
        let before = kept.len();
        kept.retain(|known| Path::new(&known.path) != path);
        if kept.len() == before {
            return Ok(false);
        }
        self.write(kept).map(|()| true)
    }

    fn write(&self, kept: Vec<Trusted>) -> std::io::Result<()> {
        match &self.store {
            Some(store) => store.write(kept),
            None => Err(std::io::Error::other("there is no folder of the user's own")),
        }
    }

    /// Returns whether the file or folder exists and belongs to another user. It is then reported, and must not be
    /// used.
    pub(crate) fn is_strange(&self, path: &Path) -> bool {
        match self.stranger(path) {
            Some(stranger) => {
                self.tell(path, || LeftAlone::Stranger(stranger));
                true
            }
            None => false,
        }
    }

    /// The owner of a file or a folder that must not be used.
    pub(crate) fn stranger(&self, path: &Path) -> Option<Stranger> {
        if self.is_everything { None } else { stranger(path) }
    }

    pub(crate) fn tell(&self, path: &Path, left_alone: impl FnOnce() -> LeftAlone) {
        let is_new = self
            .told
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
