//! Writing a journal: append, and sync as often as was asked for.

#![expect(clippy::disallowed_methods, reason = "this room writes the journal")]

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::blobs::Blobs;
use super::fault::{FaultPoint, are_injected, crash, of_this_append};
use super::folder::Place;
use super::sink::{Sink, Watched};
use ensemble_core::conversation::{Event, Record};
use ensemble_core::log::{CommitError, Logged, RunLog, SyncPoint};
use ensemble_core::records::{LargeFields, encode_beside};
use ensemble_core::store::{Durability, LogEnd};

/// The name of a journal in the folder of its run.
pub(crate) const JOURNAL: &str = "journal.jsonl";
/// How often it is checked that the journal is still the file at its path, where nothing is synced.
const CHECKED: Duration = Duration::from_millis(100);

/// An open journal.
#[derive(Debug)]
pub struct JournalWriter {
    file: Arc<Sink>,
    /// The journal, and the lock of its run: the run stops if one of them is deleted or replaced.
    watched: Vec<Watched>,
    /// When they were checked.
    checked: Instant,
    /// Bytes of whole records in the file.
    length: u64,
    dirty: bool,
    durability: Durability,
    /// The files for large fields.
    blobs: Blobs,
    buffer: Vec<u8>,
    /// The process kills itself after the next sync.
    doomed: bool,
}

impl JournalWriter {
    /// Begins a new journal; the file must not exist.
    ///
    /// # Errors
    /// The path names no file in a folder, or the file cannot be made.
    pub fn create(path: &Path, durability: Durability) -> io::Result<Self> {
        let (folder, name) = (path.parent(), path.file_name().and_then(|name| name.to_str()));
        let (Some(folder), Some(name)) = (folder, name) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        Self::begin(&Place::at(folder), name, durability)
    }

    /// Begins a new journal of that name in the folder; the file must not exist.
    pub(crate) fn begin(place: &Place, name: &str, durability: Durability) -> io::Result<Self> {
        let file = place.open()?.create(name)?;
        if durability != Durability::None {
            place.sync()?;
        }
        Self::new(place, file, 0, durability)
    }

    /// Goes on with the journal in the folder, whose whole records end at `end`; anything after them is cut off.
    pub(crate) fn resume(place: &Place, end: LogEnd, durability: Durability) -> io::Result<Self> {
        let file = place.open()?.extend(JOURNAL)?;
        file.cut(end.position)?;
        if durability != Durability::None {
            // Whoever wrote so far may have promised less.
            file.sync()?;
            place.sync()?;
        }
        Self::new(place, file, end.position, durability)
    }

    fn new(place: &Place, file: Sink, length: u64, durability: Durability) -> io::Result<Self> {
        let blobs = Blobs::in_folder(place.clone());
        let blobs = if durability == Durability::None {
            blobs.unsynced()
        } else {
            blobs
        };
        Ok(Self {
            watched: vec![file.watched()?],
            checked: Instant::now(),
            file: Arc::new(file),
            length,
            dirty: false,
            durability,
            blobs,
            buffer: Vec::with_capacity(4096),
            doomed: false,
        })
    }

    /// Also stops if this file is deleted or replaced.
    pub(crate) fn watch(&mut self, file: Watched) {
        self.watched.push(file);
    }

    /// Checks that all files are where they were. What is written to a deleted file is lost.
    fn check(&mut self) -> Result<(), CommitError> {
        self.checked = Instant::now();
        let checked = self.watched.iter().try_for_each(Watched::check);
        checked.map_err(|error| self.failed(error))
    }

    /// Likewise at the end of a run, and now and then: where records are synced, each sync checks it.
    fn check_if_due(&mut self, record: &Record) -> Result<(), CommitError> {
        let is_due = matches!(record.event, Event::RunEnded(_)) || self.checked.elapsed() >= CHECKED;
        if is_due { self.check() } else { Ok(()) }
    }

    fn failed(&self, source: io::Error) -> CommitError {
        CommitError::Write {
            place: self.file.path().display().to_string(),
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
            let _ = self.file.write_all(&self.buffer[..self.buffer.len() / 2]);
            crash();
        }
        self.write_buffer()?;
        self.check_if_due(record)?;
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
        self.write_buffer()?;
        self.check_if_due(second)
    }

    /// Adds the lines of the record to the buffer.
    fn encode(&mut self, record: &Record) -> Result<(), CommitError> {
        let large: &dyn LargeFields = &self.blobs;
        let encoded = encode_beside(record, &mut self.buffer, Some(large));
        encoded.map_err(|error| self.failed(error))
    }

    fn write_buffer(&mut self) -> Result<(), CommitError> {
        if let Err(error) = self.file.write_all(&self.buffer) {
            // Half a line must not stay in the way of a later resume; if this fails too, reading drops it.
            let _ = self.file.cut(self.length);
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
        let synced = tokio::task::spawn_blocking(move || file.sync()).await;
        let synced = synced.unwrap_or_else(|error| Err(io::Error::other(error)));
        synced.map_err(|error| self.failed(error))?;
        self.dirty = false;
        self.check()
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
