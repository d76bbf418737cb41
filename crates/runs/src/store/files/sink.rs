//! A file that is written, and whether it is still the file at its path.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Stat, fstat, statat};

use super::effects::{Effect, note};

/// A file that is written.
#[derive(Debug)]
pub(crate) struct Sink {
    file: File,
    path: PathBuf,
}

impl Sink {
    pub(crate) fn new(file: File, path: PathBuf) -> Self {
        Self { file, path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Adds these bytes.
    pub(crate) fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        (&self.file).write_all(bytes)?;
        note(&self.path, Effect::Append(bytes));
        Ok(())
    }

    /// Cuts the file; what is added comes after.
    pub(crate) fn cut(&self, length: u64) -> io::Result<()> {
        self.file.set_len(length)?;
        (&self.file).seek(SeekFrom::Start(length))?;
        note(&self.path, Effect::Cut(length));
        Ok(())
    }

    /// Makes sure that the content is on the disk.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()?;
        note(&self.path, Effect::Sync);
        Ok(())
    }

    pub(crate) fn watched(&self) -> io::Result<Watched> {
        Watched::new(&self.file, &self.path)
    }
}

/// The identity of a file or a folder.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Identity(Stat);

impl PartialEq for Identity {
    fn eq(&self, other: &Self) -> bool {
        (self.0.st_dev, self.0.st_ino) == (other.0.st_dev, other.0.st_ino)
    }
}

impl Identity {
    pub(crate) fn of(file: &File) -> io::Result<Self> {
        Ok(Self(fstat(file)?))
    }

    /// Returns the identity of the path, without following links. Returns `None` if there is nothing, or it cannot be
    /// read.
    pub(crate) fn at(path: &Path) -> Option<Self> {
        statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).ok().map(Self)
    }
}

/// A file that must stay where it is.
#[derive(Debug, Clone)]
pub(crate) struct Watched {
    path: PathBuf,
    identity: Identity,
}

impl Watched {
    pub(crate) fn new(file: &File, path: &Path) -> io::Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            identity: Identity::of(file)?,
        })
    }

    /// Is the file at its path another one, or none?
    ///
    /// # Errors
    /// It is.
    pub(crate) fn check(&self) -> io::Result<()> {
        match Identity::at(&self.path) {
            Some(found) if found == self.identity => Ok(()),
            Some(_) => Err(self.gone("replaced")),
            None => Err(self.gone("deleted")),
        }
    }

    fn gone(&self, what: &str) -> io::Error {
        io::Error::other(format!("{} was {what} while the run was executed", self.path.display()))
    }
}
