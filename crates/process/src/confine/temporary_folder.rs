//! The temporary folder of one process in a sandbox.

use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The number of names that are tried.
const MAX_NAME_TRIES: usize = 16;

/// Folder that only this user can enter, and that is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    /// Creates the folder with a random name.
    pub(super) fn new() -> io::Result<Self> {
        let all = std::env::temp_dir().canonicalize()?;
        let mut last = None;
        for _ in 0..MAX_NAME_TRIES {
            let number = RandomState::new().build_hasher().finish();
            let path = all.join(format!("ensemble-{number:016x}"));
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(last.unwrap_or_else(|| io::ErrorKind::AlreadyExists.into()))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // What cannot be removed stays; the system's own cleaning finds it.
        let _left = fs::remove_dir_all(&self.0);
    }
}
