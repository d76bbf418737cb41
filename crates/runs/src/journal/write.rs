//! Writing a journal: append, and sync as often as was asked for.

#![expect(clippy::disallowed_methods, reason = "this room writes the journal")]

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::blobs::{Blobs, private, sync_folder};
use super::fault::{FaultPoint, crash, of_this_append};
use super::{FORMAT, Ledger, LedgerError, SyncPoint};
use ensemble_core::conversation::Record;
use ensemble_core::records::{LargeFields, encode_beside};

/// How much a power failure may take. A killed process loses nothing in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
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
    /// Where large fields go; `None` in a journal of a format that does not know them.
    blobs: Option<Blobs>,
    buffer: Vec<u8>,
    /// The process kills itself after the next sync.
    doomed: bool,
}

impl JournalWriter {
    /// Begins a new journal; the file must not exist.
    pub fn create(path: &Path, durability: Durability) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        private(&mut options);
        let file = options.open(path)?;
        if durability != Durability::None
            && let Some(folder) = path.parent()
        {
            sync_folder(folder)?;
        }
        Ok(Self::new(path, file, 0, FORMAT, durability))
    }

    /// Goes on with a journal of that format whose whole records are `length` bytes long; anything after them is
    /// cut off.
    pub fn resume(path: &Path, length: u64, format: u32, durability: Durability) -> io::Result<Self> {
        let mut file = OpenOptions::new().write(true).open(path)?;
        file.set_len(length)?;
        file.seek(SeekFrom::Start(length))?;
        Ok(Self::new(path, file, length, format, durability))
    }

    fn new(path: &Path, file: File, length: u64, format: u32, durability: Durability) -> Self {
        let blobs = Blobs::beside(path);
        let blobs = if durability == Durability::None {
            blobs.unsynced()
        } else {
            blobs
        };
        Self {
            path: path.to_owned(),
            file,
            length,
            dirty: false,
            durability,
            blobs: (format >= 2).then_some(blobs),
            buffer: Vec::with_capacity(4096),
            doomed: false,
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
        let fault = of_this_append();
        if fault == Some(FaultPoint::Before) {
            crash();
        }
        self.buffer.clear();
        let encoded = encode_beside(
            record,
            &mut self.buffer,
            self.blobs.as_ref().map(|blobs| blobs as &dyn LargeFields),
        );
        encoded.map_err(|error| self.failed(error))?;
        if fault == Some(FaultPoint::Torn) {
            let _ = self.file.write_all(&self.buffer[..self.buffer.len() / 2]);
            crash();
        }
        if let Err(error) = self.file.write_all(&self.buffer) {
            // Half a line must not stay in the way of a later resume; if this fails too, reading drops it.
            let _ = self.file.set_len(self.length);
            let _ = self.file.seek(SeekFrom::Start(self.length));
            return Err(self.failed(error));
        }
        match fault {
            Some(FaultPoint::Written) => crash(),
            Some(FaultPoint::Synced) => self.doomed = true,
            _ => {}
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
        if self.doomed {
            crash();
        }
        Ok(())
    }
}
