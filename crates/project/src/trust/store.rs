//! File of trusted files in the user's own folder.

#![expect(
    clippy::disallowed_methods,
    reason = "the file of what the user trusts is read and written here"
)]

use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::owner::is_private_file;

/// Version of the format.
const STORE_VERSION: u32 = 1;

/// File that the user trusts, in the list of trusted files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrustedFile {
    /// Absolute path of the file without links.
    pub path: String,
    /// Digest of the reviewed content, or of the trusted text.
    pub digest: String,
}

/// Content of the list of trusted files.
#[derive(Serialize, Deserialize)]
struct TrustStoreContent {
    version: u32,
    trusted: Vec<TrustedFile>,
}

/// Store of the list of trusted files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TrustStore {
    file: PathBuf,
}

impl TrustStore {
    /// Creates a store in this file. Nothing is read.
    pub(super) fn from_file(file: PathBuf) -> Self {
        Self { file }
    }

    /// Reads the trusted files. Returns no files if the list cannot be read, or if other users can write to the list.
    pub(super) fn read_trusted_files(&self) -> Vec<TrustedFile> {
        if !is_private_file(&self.file) {
            return Vec::new();
        }
        let text = std::fs::read_to_string(&self.file).unwrap_or_default();
        let content = serde_json::from_str(&text).ok();
        let content = content.filter(|content: &TrustStoreContent| content.version == STORE_VERSION);
        content.map(|content| content.trusted).unwrap_or_default()
    }

    /// Reads the list and returns whether it contains the file with this digest.
    pub(super) fn contains_file_with_digest(&self, path: &Path, digest: &str) -> bool {
        let is_meant = |known: &TrustedFile| Path::new(&known.path) == path && known.digest == digest;
        self.read_trusted_files().iter().any(is_meant)
    }

    /// Replaces the list in one step, and creates its folder. Only the user can read the list.
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
