//! A file that is written, with a check that the file is still at its path.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Stat, fstat, statat};

use super::effects::{RecordedDiskEffect, record_disk_effect};

/// A file that is written. In tests, each effect on the disk is recorded.
#[derive(Debug)]
pub(crate) struct RecordedFileWriter {
    file: File,
    path: PathBuf,
}

impl RecordedFileWriter {
    pub(crate) fn new(file: File, path: PathBuf) -> Self {
        Self { file, path }
    }

    /// Returns the path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes these bytes at the end of the file.
    pub(crate) fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        (&self.file).write_all(bytes)?;
        record_disk_effect(&self.path, RecordedDiskEffect::Append(bytes));
        Ok(())
    }

    /// Truncates the file to this length. Later writes append at the new end.
    pub(crate) fn truncate(&self, length: u64) -> io::Result<()> {
        self.file.set_len(length)?;
        (&self.file).seek(SeekFrom::Start(length))?;
        record_disk_effect(&self.path, RecordedDiskEffect::Cut(length));
        Ok(())
    }

    /// Syncs the content to the disk.
    pub(crate) fn sync_content(&self) -> io::Result<()> {
        self.file.sync_data()?;
        record_disk_effect(&self.path, RecordedDiskEffect::Sync);
        Ok(())
    }

    /// Returns the identity of the file, for checks that the file is still at its path.
    pub(crate) fn to_watched(&self) -> io::Result<WatchedFile> {
        WatchedFile::new(&self.file, &self.path)
    }
}

/// The identity of a file or a folder on the disk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileIdentity(Stat);

impl PartialEq for FileIdentity {
    fn eq(&self, other: &Self) -> bool {
        (self.0.st_dev, self.0.st_ino) == (other.0.st_dev, other.0.st_ino)
    }
}

impl FileIdentity {
    /// Returns the identity of an open file.
    pub(crate) fn from_file(file: &File) -> io::Result<Self> {
        Ok(Self(fstat(file)?))
    }

    /// Returns the identity of the file at the path, without following links. Returns `None` if the path is missing or cannot be read.
    pub(crate) fn from_path(path: &Path) -> Option<Self> {
        statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).ok().map(Self)
    }
}

/// A file that must not be moved or replaced.
#[derive(Debug, Clone)]
pub(crate) struct WatchedFile {
    path: PathBuf,
    identity: FileIdentity,
}

impl WatchedFile {
    /// Stores the identity of the open file at this path.
    pub(crate) fn new(file: &File, path: &Path) -> io::Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            identity: FileIdentity::from_file(file)?,
        })
    }

    /// Checks that the file at the path is still the same file.
    ///
    /// # Errors
    ///
    /// The file was deleted or replaced.
    pub(crate) fn check_not_replaced(&self) -> io::Result<()> {
        match FileIdentity::from_path(&self.path) {
            Some(current_identity) if current_identity == self.identity => Ok(()),
            Some(_) => Err(self.replaced_or_deleted_error("replaced")),
            None => Err(self.replaced_or_deleted_error("deleted")),
        }
    }

    /// Returns the error that the file was deleted or replaced. `what` is the participle.
    fn replaced_or_deleted_error(&self, what: &str) -> io::Error {
        io::Error::other(format!("{} was {what} while the run was executed", self.path.display()))
    }
}
