//! Writing a journal: append, and sync as often as was asked for.

#![expect(clippy::disallowed_methods, reason = "this room writes the journal")]

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::blobs::{Blobs, private, sync_folder};
use super::fault::{FaultPoint, are_injected, crash, of_this_append};
use ensemble_core::conversation::Record;
use ensemble_core::log::{CommitError, FORMAT, Logged, RunLog, SyncPoint};
use ensemble_core::records::{LargeFields, encode_beside};
use ensemble_core::store::{Durability, LogEnd};

/// An open journal.
#[derive(Debug)]
pub struct JournalWriter {
    path: PathBuf,
    file: Arc<File>,
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

    /// Goes on with a journal whose whole records end at `end`; anything after them is cut off.
    pub fn resume(path: &Path, end: LogEnd, durability: Durability) -> io::Result<Self> {
        let mut file = OpenOptions::new().write(true).open(path)?;
        file.set_len(end.position)?;
        file.seek(SeekFrom::Start(end.position))?;
        Ok(Self::new(path, file, end.position, end.format, durability))
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
            file: Arc::new(file),
            length,
            dirty: false,
            durability,
            blobs: (format >= 2).then_some(blobs),
            buffer: Vec::with_capacity(4096),
            doomed: false,
        }
    }

    fn failed(&self, source: io::Error) -> CommitError {
        CommitError::Write {
            place: self.path.display().to_string(),
            source: source.into(),
        }
    }

    /// Writes the record in one piece. Written before it returns: a future that is dropped cannot tear a line.
    fn write(&mut self, record: &Record) -> Result<(), CommitError> {
        let fault = of_this_append();
        if fault == Some(FaultPoint::Before) {
            crash();
        }
        self.buffer.clear();
        self.encode(record)?;
        if fault == Some(FaultPoint::Torn) {
            let _ = (&*self.file).write_all(&self.buffer[..self.buffer.len() / 2]);
            crash();
        }
        self.write_buffer()?;
        match fault {
            Some(FaultPoint::Written) => crash(),
            Some(FaultPoint::Synced) => self.doomed = true,
            _ => {}
        }
        Ok(())
    }

    /// Writes both records in one piece; one by one where a test wants a fault at one of them.
    fn write_both(&mut self, first: &Record, second: &Record) -> Result<(), CommitError> {
        if are_injected() {
            self.write(first)?;
            return self.write(second);
        }
        self.buffer.clear();
        self.encode(first)?;
        self.encode(second)?;
        self.write_buffer()
    }

    /// Adds the lines of the record to the buffer.
    fn encode(&mut self, record: &Record) -> Result<(), CommitError> {
        let large = self.blobs.as_ref().map(|blobs| blobs as &dyn LargeFields);
        let encoded = encode_beside(record, &mut self.buffer, large);
        encoded.map_err(|error| self.failed(error))
    }

    fn write_buffer(&mut self) -> Result<(), CommitError> {
        let mut file = &*self.file;
        if let Err(error) = file.write_all(&self.buffer) {
            // Half a line must not stay in the way of a later resume; if this fails too, reading drops it.
            let _ = file.set_len(self.length);
            let _ = file.seek(SeekFrom::Start(self.length));
            return Err(self.failed(error));
        }
        self.length += self.buffer.len() as u64;
        self.dirty = true;
        Ok(())
    }

    fn wants_sync(&self, point: SyncPoint) -> bool {
        let wanted = match self.durability {
            Durability::None => false,
            Durability::Turn => point == SyncPoint::Turn,
            Durability::Commit => true,
        };
        wanted && self.dirty
    }

    /// Syncs on a thread of its own, since a disk may take long and others share the runtime's thread.
    async fn sync_file(&mut self) -> Result<(), CommitError> {
        let file = Arc::clone(&self.file);
        let synced = tokio::task::spawn_blocking(move || file.sync_data()).await;
        let synced = synced.unwrap_or_else(|error| Err(io::Error::other(error)));
        synced.map_err(|error| self.failed(error))?;
        self.dirty = false;
        Ok(())
    }
}

impl RunLog for JournalWriter {
    fn append<'a>(&'a mut self, record: &'a Record) -> Logged<'a> {
        Logged::ended(self.write(record))
    }

    fn append_both<'a>(&'a mut self, first: &'a Record, second: &'a Record) -> Logged<'a> {
        Logged::ended(self.write_both(first, second))
    }

    fn sync(&mut self, point: SyncPoint) -> Logged<'_> {
        if !self.wants_sync(point) && !self.doomed {
            return Logged::ended(Ok(()));
        }
        Logged::later(async move {
            if self.wants_sync(point) {
                self.sync_file().await?;
            }
            if self.doomed {
                crash();
            }
            Ok(())
        })
    }
}
