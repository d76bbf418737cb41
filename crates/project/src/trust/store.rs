//! The file in the user's own folder that says which files are trusted.

#![expect(
    clippy::disallowed_methods,
    reason = "the file of what the user trusts is read and written here"
)]

use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::owner::is_private_file;

/// The version of the file.
const STORE_VERSION: u32 = 1;

/// A file that the user trusts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrustedFile {
    /// Its path, absolute and without links.
    pub path: String,
    /// The digest of what the user was shown, or of the text that was trusted.
    pub digest: String,
}

/// The content of the file.
#[derive(Serialize, Deserialize)]
struct TrustStoreContent {
    version: u32,
    trusted: Vec<TrustedFile>,
}

/// The store of decisions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TrustStore {
    file: PathBuf,
}

impl TrustStore {
    pub(super) fn from_file(file: PathBuf) -> Self {
        Self { file }
    }

    /// Returns all that is trusted; nothing if the file cannot be read, or if others can write to it.
    pub(super) fn read_trusted_files(&self) -> Vec<TrustedFile> {
        if !is_private_file(&self.file) {
            return Vec::new();
        }
        let text = std::fs::read_to_string(&self.file).unwrap_or_default();
        let content = serde_json::from_str(&text).ok();
        let content = content.filter(|content: &TrustStoreContent| content.version == STORE_VERSION);
        content.map(|content| content.trusted).unwrap_or_default()
    }

    pub(super) fn contains_file_with_digest(&self, path: &Path, digest: &str) -> bool {
        let is_meant = |known: &TrustedFile| Path::new(&known.path) == path && known.digest == digest;
        self.read_trusted_files().iter().any(is_meant)
    }

    /// Writes the file in one step. Only the user can read it.
    pub(super) fn replace_trusted_files(&self, trusted: Vec<TrustedFile>) -> io::Result<()> {
        let folder = self.file.parent().unwrap_or(Path::new("/"));
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let text = serde_json::to_string_pretty(&TrustStoreContent {
            version: STORE_VERSION,
            trusted,
        })?;
        let temporary_path = folder.join(format!(".trust.{}", std::process::id()));
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let write = || {
            let mut file = options.open(&temporary_path)?;
            file.write_all(text.as_bytes())?;
            file.write_all(b"\n")?;
            file.sync_all()?;
            std::fs::rename(&temporary_path, &self.file)
        };
        let result = write();
        if result.is_err() {
            let _it_is_of_no_use = std::fs::remove_file(&temporary_path);
        }
        result
    }
}
