//! Writing a journal: append, and sync as often as was asked for.

#![expect(clippy::disallowed_methods, reason = "this room writes the journal")]

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::line::encode;
use super::{Ledger, LedgerError, SyncPoint};
use crate::conversation::Record;

/// How much a power failure may take. A killed process loses nothing in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Durability {
    /// What the operating system had not written yet.
    None,
    /// At most the turn under way.
    Turn,
    /// At most what was said in the last instant: everything is on the disk before the next execution begins.
    #[default]
    Commit,
}

/// An open journal.
#[derive(Debug)]
pub struct JournalWriter {
    path: PathBuf,
    file: File,
    /// Bytes of whole records in the file.
    length: u64,
    dirty: bool,
    durability: Durability,
    buffer: Vec<u8>,
}

impl JournalWriter {
    /// Begins a new journal; the file must not exist.
    pub fn create(path: &Path, durability: Durability) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        private(&mut options);
        Ok(Self::new(path, options.open(path)?, 0, durability))
    }

    /// Goes on with a journal whose whole records are `length` bytes long; anything after them is cut off.
    pub fn resume(path: &Path, length: u64, durability: Durability) -> io::Result<Self> {
        let mut file = OpenOptions::new().write(true).open(path)?;
        file.set_len(length)?;
        file.seek(SeekFrom::Start(length))?;
        Ok(Self::new(path, file, length, durability))
    }

    fn new(path: &Path, file: File, length: u64, durability: Durability) -> Self {
        Self {
            path: path.to_owned(),
            file,
            length,
            dirty: false,
            durability,
            buffer: Vec::with_capacity(4096),
        }
    }

    fn failed(&self, source: io::Error) -> LedgerError {
        LedgerError::Write {
            path: self.path.clone(),
            source,
        }
    }
}

impl Ledger for JournalWriter {
    fn append(&mut self, record: &Record) -> Result<(), LedgerError> {
        self.buffer.clear();
        encode(record, &mut self.buffer);
        if let Err(error) = self.file.write_all(&self.buffer) {
            // Half a line must not stay in the way of a later resume; if this fails too, reading drops it.
            let _ = self.file.set_len(self.length);
            let _ = self.file.seek(SeekFrom::Start(self.length));
            return Err(self.failed(error));
        }
        self.length += self.buffer.len() as u64;
        self.dirty = true;
        Ok(())
    }

    fn sync(&mut self, point: SyncPoint) -> Result<(), LedgerError> {
        let wanted = match self.durability {
            Durability::None => false,
            Durability::Turn => point == SyncPoint::Turn,
            Durability::Commit => true,
        };
        if wanted && self.dirty {
            self.file.sync_data().map_err(|error| self.failed(error))?;
            self.dirty = false;
        }
        Ok(())
    }
}

/// Only the user may read what agents said.
#[cfg(unix)]
fn private(options: &mut OpenOptions) {
    use std::os::unix::fs::OpenOptionsExt;
    options.mode(0o600);
}

#[cfg(not(unix))]
fn private(_options: &mut OpenOptions) {}
