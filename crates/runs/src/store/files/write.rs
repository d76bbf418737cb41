//! The writer of journals, which appends records and syncs them as often as the durability requires.

#![expect(clippy::disallowed_methods, reason = "this room writes the journal")]

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::blobs::BlobFolder;
use super::fault::{FaultPoint, crash_process, is_fault_armed, next_append_fault};
use super::folder::FolderPath;
use super::sink::{FileSink, WatchedFile};
use ensemble_core::conversation::{Event, Record};
use ensemble_core::log::{CommitError, LogFuture, RunLog, SyncPoint};
use ensemble_core::records::{LargeFields, encode_with_storage};
use ensemble_core::store::{Durability, LogEnd};

/// The file name of the journal in the folder of a run.
pub(crate) const JOURNAL: &str = "journal.jsonl";
/// The interval of the checks that the journal is still at its path, if records are not synced.
const CHECKED: Duration = Duration::from_millis(100);

/// A writer that appends records to a journal.
#[derive(Debug)]
pub struct JournalWriter {
    file: Arc<FileSink>,
    /// The journal, and the lock of its run: the run stops if one of them is deleted or replaced.
    watched_files: Vec<WatchedFile>,
    /// The time of the last check of the watched files.
    checked_at: Instant,
    /// Bytes of whole records in the file.
    length: u64,
    dirty: bool,
    durability: Durability,
    /// The files for large fields.
    blobs: BlobFolder,
    buffer: Vec<u8>,
    /// The process kills itself after the next sync.
    has_failed: bool,
}

impl JournalWriter {
    /// Creates a new journal.
    ///
    /// # Errors
    ///
    /// The path is not a file in a folder, the file exists, or it cannot be created.
    pub fn create(path: &Path, durability: Durability) -> io::Result<Self> {
        let (folder, name) = (path.parent(), path.file_name().and_then(|name| name.to_str()));
        let (Some(folder), Some(name)) = (folder, name) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        Self::create_in(&FolderPath::from_path(folder), name, durability)
    }

    /// Creates a new journal with this name in the folder, and syncs the folder.
    ///
    /// # Errors
    ///
    /// The file exists, or it cannot be created.
    pub(crate) fn create_in(place: &FolderPath, name: &str, durability: Durability) -> io::Result<Self> {
        let file = place.open_folder()?.create_file(name)?;
        if durability != Durability::None {
            place.sync_entries()?;
        }
        Self::new(place, file, 0, durability)
    }

    /// Opens the journal in the folder for appending. Truncates everything after `end`.
    pub(crate) fn resume_in(place: &FolderPath, end: LogEnd, durability: Durability) -> io::Result<Self> {
        let file = place.open_folder()?.open_for_append(JOURNAL)?;
        file.truncate(end.position)?;
        if durability != Durability::None {
            // Whoever wrote so far may have promised less.
            file.sync_content()?;
            place.sync_entries()?;
        }
        Self::new(place, file, end.position, durability)
    }

    /// Creates the writer of a file with this length.
    fn new(place: &FolderPath, file: FileSink, length: u64, durability: Durability) -> io::Result<Self> {
        let blobs = BlobFolder::for_journal(place.clone());
        let blobs = if durability == Durability::None {
            blobs.without_sync()
        } else {
            blobs
        };
        Ok(Self {
            watched_files: vec![file.to_watched()?],
            checked_at: Instant::now(),
            file: Arc::new(file),
            length,
            dirty: false,
            durability,
            blobs,
            buffer: Vec::with_capacity(4096),
            has_failed: false,
        })
    }

    /// Stops appending if this file is deleted or replaced.
    pub(crate) fn watch_file(&mut self, file: WatchedFile) {
        self.watched_files.push(file);
    }

    /// Checks that no watched file was deleted or replaced, because writes to a deleted file are lost.
    fn check_watched_files(&mut self) -> Result<(), CommitError> {
        self.checked_at = Instant::now();
        let checked = self.watched_files.iter().try_for_each(WatchedFile::check_in_place);
        checked.map_err(|error| self.commit_error(error))
    }

    /// Checks the watched files at the end of a run, and at most every 100 ms. With syncing, each sync checks them as well.
    fn check_if_due(&mut self, record: &Record) -> Result<(), CommitError> {
        let is_due = matches!(record.event, Event::RunEnded(_)) || self.checked_at.elapsed() >= CHECKED;
        if is_due { self.check_watched_files() } else { Ok(()) }
    }

    /// Returns the error that the journal cannot be written.
    fn commit_error(&self, source: io::Error) -> CommitError {
        CommitError::Write {
            place: self.file.path().display().to_string(),
            source: source.into(),
        }
    }

    /// Writes the record in one piece, before the future returns, so that a dropped future cannot leave an incomplete line.
    fn write_record(&mut self, record: &Record) -> Result<(), CommitError> {
        let fault = next_append_fault();
        if fault == Some(FaultPoint::Before) {
            crash_process();
        }
        self.buffer.clear();
        self.encode_record(record)?;
        if fault == Some(FaultPoint::Torn) {
            let _ = self.file.write_all(&self.buffer[..self.buffer.len() / 2]);
            crash_process();
        }
        self.write_buffer()?;
        self.check_if_due(record)?;
        match fault {
            Some(FaultPoint::Written) => crash_process(),
            Some(FaultPoint::Synced) => self.has_failed = true,
            _ => {}
        }
        Ok(())
    }

    /// Writes both records in one piece, or one by one if a fault is armed.
    fn write_two_records(&mut self, first: &Record, second: &Record) -> Result<(), CommitError> {
        if is_fault_armed() {
            self.write_record(first)?;
            return self.write_record(second);
        }
        self.buffer.clear();
        self.encode_record(first)?;
        self.encode_record(second)?;
        self.write_buffer()?;
        self.check_if_due(second)
    }

    /// Appends the line of the record to the buffer. Stores large fields as files.
    fn encode_record(&mut self, record: &Record) -> Result<(), CommitError> {
        let large: &dyn LargeFields = &self.blobs;
        let encoded = encode_with_storage(record, &mut self.buffer, Some(large));
        encoded.map_err(|error| self.commit_error(error))
    }

    /// Writes the buffer to the journal. After an error, truncates the journal to its last complete record.
    fn write_buffer(&mut self) -> Result<(), CommitError> {
        if let Err(error) = self.file.write_all(&self.buffer) {
            // Half a line must not stay in the way of a later resume; if this fails too, reading drops it.
            let _ = self.file.truncate(self.length);
            return Err(self.commit_error(error));
        }
        self.length += self.buffer.len() as u64;
        self.dirty = true;
        Ok(())
    }

    /// Returns whether the journal must be synced at this point: the durability requires it, and records were written since the last sync.
    fn needs_sync(&self, point: SyncPoint) -> bool {
        let is_sync_point = match self.durability {
            Durability::None => false,
            Durability::Turn => point == SyncPoint::Turn,
            Durability::Commit => true,
        };
        is_sync_point && self.dirty
    }

    /// Syncs the journal on a blocking thread, so that a slow disk does not block the runtime. Then checks the watched files.
    async fn sync_file(&mut self) -> Result<(), CommitError> {
        let file = Arc::clone(&self.file);
        let synced = tokio::task::spawn_blocking(move || file.sync_content()).await;
        let synced = synced.unwrap_or_else(|error| Err(io::Error::other(error)));
        synced.map_err(|error| self.commit_error(error))?;
        self.dirty = false;
        self.check_watched_files()
    }
}

impl RunLog for JournalWriter {
    fn append<'a>(&'a mut self, record: &'a Record) -> LogFuture<'a> {
        LogFuture::ready(self.write_record(record))
    }

    fn append_both<'a>(&'a mut self, first: &'a Record, second: &'a Record) -> LogFuture<'a> {
        LogFuture::ready(self.write_two_records(first, second))
    }

    fn sync(&mut self, point: SyncPoint) -> LogFuture<'_> {
        if !self.needs_sync(point) && !self.has_failed {
            return LogFuture::ready(Ok(()));
        }
        LogFuture::boxed(async move {
            if self.needs_sync(point) {
                self.sync_file().await?;
            }
            if self.has_failed {
                crash_process();
            }
            Ok(())
        })
    }
}
